"""A batch of sentences, padded to a rectangle and packed with offsets."""

from __future__ import annotations

from collections.abc import Sequence

from tests.pictures.svg import ROW_CLASSES, Drawing

_CELL = 9.0
_HEIGHT = 16.0


def ragged(lengths: Sequence[int]) -> str:
    """Return the picture of a batch of sequences with these lengths."""
    longest, total = max(lengths), sum(lengths)
    cells = longest * len(lengths)
    padding = 100 * (1 - total / cells)
    drawing = Drawing(f"{len(lengths)} sentences, padded against packed")
    x, y = 12.0, 24.0
    drawing.write(
        x, y, f"padded: {len(lengths)} x {longest} = {cells} rows, {padding:.0f} % padding"
    )
    for number, length in enumerate(lengths):
        top = y + 12 + number * _HEIGHT
        for column in range(longest):
            kind = ROW_CLASSES[number % 3] if column < length else "padding"
            drawing.box(x + column * _CELL, top, _CELL, _HEIGHT, kind)
        drawing.write(x + longest * _CELL + 8, top + 12, str(length), "note")
    y += 12 + len(lengths) * _HEIGHT + 36
    drawing.write(x, y, f"packed, as lod stores and computes on it: {total} rows, no padding")
    per_line = longest
    offsets = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    sequence = 0
    for row in range(total):
        while row >= offsets[sequence + 1]:
            sequence += 1
        across, down = row % per_line, row // per_line
        top = y + 12 + down * (_HEIGHT + 2)
        drawing.box(x + across * _CELL, top, _CELL, _HEIGHT, ROW_CLASSES[sequence % 3])
    y += 12 + (total + per_line - 1) // per_line * (_HEIGHT + 2) + 18
    drawing.write(x, y, f"offsets {' '.join(map(str, offsets))}", "note")
    return drawing.text()
