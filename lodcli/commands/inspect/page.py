"""The page of `lod inspect --html`: no scripts, and nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from lodcli.commands.inspect.drawing import draw
from lodcli.commands.inspect.examined import Examined
from lodcli.commands.inspect.summary import TensorSummary
from lodcli.kernels.index.selection import level_label
from lodcli.reports.inspection import Bucket, LevelStatistics
from lodcli.shell.output import figure, plural, size_text
from lodcli.shell.printable import printable

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;"
    "color:#222;background:#fff}table{border-collapse:collapse;margin:1em 0}"
    "td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}pre{overflow-x:auto}"
    "rect{fill:#4477aa}figcaption{color:#555}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}td,th{border-color:#444}}"
)
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
_WIDTH, _HEIGHT = 480, 120
_FORM = ",.6g"


def page(
    label: str, format_name: str, size: int | None, found: Sequence[TensorSummary], more: Examined
) -> str:
    """Return the page.

    Args:
        label: name of the file in messages.
        size: its bytes, if it is one file.
        more: the results that need rows.
    """
    parts = [
        format_name,
        plural(len(found), "tensor"),
        *([] if size is None else [size_text(size)]),
    ]
    body = [f"<p>{_text(', '.join(parts))}</p>"]
    for summary in found:
        body += [f"<h2>{_text(summary.spec.name)}</h2>", *_tensor(summary, more)]
    return _PAGE.format(title=_text(label), style=_STYLE, body="\n".join(body))


def _tensor(summary: TensorSummary, more: Examined) -> list[str]:
    spec = summary.spec
    kind = f"{spec.dtype.name}, {summary.shape}, {size_text(summary.size_bytes)}"
    lines = [f"<p>{_text(kind)}</p>"]
    levels = summary.statistics.levels
    if levels:
        headers = ("level", "items", "min", "median", "mean", "p90", "p95", "p99", "max", "empty")
        lines.append(_table(headers, map(_row, levels)))
        cost = summary.statistics.padding
        lines.append(
            f"<p>Padded to one rectangle: {plural(cost.padded_rows, 'row')}, "
            f"{100 * cost.fraction:.1f} % of them padding ({size_text(cost.saved_bytes)}).</p>"
        )
        lines += [_histogram(one) for one in levels if one.items]
    if (values := more.statistics.get(spec.name)) is not None:
        counts = (values.count, values.nan, values.infinite, values.zeros)
        row = [*(f"{count:,}" for count in counts), *values.figures(_FORM)]
        lines.append(_table(values.to_json(), [row]))
    if more.name == spec.name:
        for one in more.sequences.values():
            rows = [(str(each.item), f"{each.length:,}", each.text) for each in one]
            lines.append(_table((more.level, "length", "values"), rows))
        if more.duplicates is not None:
            lines.append(
                f"<p>Duplicates: {more.duplicates.duplicates:,} of "
                f"{plural(more.duplicates.sequences, 'sequence')} equal an earlier one.</p>"
            )
    drawn = draw(summary.head, summary.rows, spec.row_shape, width=100)
    if drawn:
        lines.append(f"<pre>{html.escape(chr(10).join(drawn))}</pre>")
    if summary.text is not None:
        lines.append(f"<pre>{_text(summary.text)}</pre>")
    return lines


def _row(one: LevelStatistics) -> list[str]:
    figures = (one.min, one.median, one.mean, one.p90, one.p95, one.p99, one.max, one.empty)
    return [
        level_label(one.name, one.level),
        f"{one.items:,}",
        *(figure(x, _FORM) for x in figures),
    ]


def _table(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _histogram(one: LevelStatistics) -> str:
    """Return the lengths of a level as bars."""
    most = max(bucket.count for bucket in one.histogram)
    wide = _WIDTH / len(one.histogram)
    bars = "".join(
        _bar(bucket, place * wide, wide, _HEIGHT * bucket.count / most)
        for place, bucket in enumerate(one.histogram)
    )
    name = _text(level_label(one.name, one.level))
    low, high = one.histogram[0].low, one.histogram[-1].high
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'role="img" aria-label="lengths of {name}">{bars}</svg>'
        f"<figcaption>{name}: lengths from {low:,} to {high:,}</figcaption></figure>"
    )


def _bar(bucket: Bucket, left: float, width: float, height: float) -> str:
    span = f"{bucket.low:,}" if bucket.low == bucket.high else f"{bucket.low:,} to {bucket.high:,}"
    return (
        f'<rect x="{left:.1f}" y="{_HEIGHT - height:.1f}" width="{width - 1:.1f}" '
        f'height="{height:.1f}"><title>{span}: {bucket.count:,}</title></rect>'
    )


def _text(text: str) -> str:
    return html.escape(printable(text))
