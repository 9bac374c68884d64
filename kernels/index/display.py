"""HTML tables for notebooks, and that of an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lodcli.kernels.index.checks import Offsets

_HEADS = ("level", "name", "sequences", "empty", "shortest", "mean", "longest", "padding")


def as_html(names: Sequence[str | None], counts: Sequence[Offsets]) -> str:
    """Return a table with one line per level: sequences, their lengths, and the share of padding.

    Args:
        names: of the levels.
        counts: lengths of the sequences of each level.
    """
    rows = []
    for level, (name, lengths) in enumerate(zip(names, counts, strict=True)):
        cells: list[object] = [level, name or "", lengths.size]
        if lengths.size:
            cells += [int((lengths == 0).sum()), lengths.min(), f"{lengths.mean():.3g}"]
            cells += [lengths.max(), f"{padding(lengths):.0%}".replace("%", " %")]
        rows.append(cells)
    return table_html(f"<b>LoD</b> {len(names)} level{'s' * (len(names) != 1)}", _HEADS, rows)


def table_html(title: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table below a title, which is HTML."""
    import html  # rarely needed

    above = "".join(f"<th>{head}</th>" for head in heads)
    lines = ("".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<div>{title}<table><thead><tr>{above}</tr></thead><tbody>{body}</tbody></table></div>"


def padding(lengths: Offsets) -> float:
    """Return the share of padding in a padded batch of sequences.

    >>> import numpy as np
    >>> padding(np.array([3, 0, 1]))
    0.5555555555555556
    """
    whole = int(lengths.max(initial=0)) * lengths.size
    return 1 - int(lengths.sum()) / whole if whole else 0.0
