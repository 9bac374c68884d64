"""HTML table of an index, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence

from lodcli.kernels.index.checks import Offsets

_HEADS = ("level", "name", "sequences", "empty", "shortest", "mean", "longest", "padding")


def as_html(names: Sequence[str | None], counts: Sequence[Offsets]) -> str:
    """Return a table with one line per level: sequences, their lengths, and the share of padding.

    Args:
        names: of the levels.
        counts: lengths of the sequences of each level.
    """
    lines = []
    for level, (name, lengths) in enumerate(zip(names, counts, strict=True)):
        cells: list[object] = [level, html.escape(name or ""), lengths.size]
        if lengths.size:
            cells += [int((lengths == 0).sum()), lengths.min(), f"{lengths.mean():.3g}"]
            cells += [lengths.max(), f"{padding(lengths):.0%}".replace("%", " %")]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    return (
        f"<div><b>LoD</b> {len(names)} level{'s' * (len(names) != 1)}<table><thead><tr>{heads}"
        f"</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def padding(lengths: Offsets) -> float:
    """Return the share of padding in a padded batch of sequences.

    >>> import numpy as np
    >>> padding(np.array([3, 0, 1]))
    0.5555555555555556
    """
    whole = int(lengths.max(initial=0)) * lengths.size
    return 1 - int(lengths.sum()) / whole if whole else 0.0
