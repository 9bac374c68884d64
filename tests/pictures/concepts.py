"""Drawings of levels, offsets, lengths, branches, slices, time steps and ranks of one batch."""

from __future__ import annotations

from collections.abc import Container
from itertools import pairwise

import numpy as np

from lodcli import LoD, LoDTensor, TensorArray
from tests.pictures.svg import ROW_CLASSES, Drawing

_LEVELS = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], names=["article", "sentence"])
_ROWS = 15
_CELL = 36.0
_LEFT = 96.0
_HEIGHT = 26.0
_GAP = 10.0


def concepts() -> dict[str, str]:
    """Return the drawings by name."""
    return {
        "level": _tree("Two levels over 15 rows: articles of sentences, sentences of words"),
        "lengths": _tree("Lengths: how many items each item holds", show="lengths"),
        "offsets": _tree("Offsets: where each item begins, and the total", show="offsets"),
        "branch": _tree("The branch 2,0: sentence 0 of article 2, rows 10 and 11", range(10, 12)),
        "slice": _tree("The range 1:3: articles 1 and 2, rows 9 to 14", range(9, 15)),
        "tensor-array": _steps(),
        "rank-table": _ranks(),
    }


def _tree(title: str, chosen: Container[int] = range(_ROWS), show: str = "") -> str:
    """Return both levels as boxes over the rows; rows that are not chosen are grey."""
    drawing = Drawing(title)
    tops = [8.0 + level * (_HEIGHT + _GAP + (16 if show else 0)) for level in range(3)]
    for level, name in enumerate(_LEVELS.names or ()):
        drawing.write(8, tops[level] + 18, str(name))
        starts = _LEVELS.absolute(level).tolist()
        counts = _LEVELS.lengths(level).tolist()
        for item, (start, end) in enumerate(pairwise(starts)):
            x, width = _LEFT + start * _CELL, (end - start) * _CELL - 4
            kind = ROW_CLASSES[item % 3] if start in chosen and end - 1 in chosen else "padding"
            drawing.box(x, tops[level], width, _HEIGHT, kind)
            label = str(counts[item]) if show == "lengths" else str(item)
            drawing.write(x + width / 2, tops[level] + 18, label, anchor="middle")
        if show == "offsets":
            for start, offset in zip(starts, _LEVELS.levels[level].tolist(), strict=True):
                x = _LEFT + start * _CELL - 2
                drawing.line(x, tops[level], x, tops[level] + _HEIGHT + 4)
                drawing.write(x, tops[level] + _HEIGHT + 15, str(offset), "note", "middle")
    drawing.write(8, tops[2] + 18, "rows")
    for row in range(_ROWS):
        kind = "row" if row in chosen else "padding"
        drawing.box(_LEFT + row * _CELL, tops[2], _CELL - 4, _HEIGHT, kind)
        x = _LEFT + row * _CELL + (_CELL - 4) / 2
        drawing.write(x, tops[2] + 18, str(row), anchor="middle")
    return drawing.text()


def _unpacked() -> tuple[list[list[int]], list[int], list[int]]:
    """Return the rows of each time step, the order of the sequences, and the sizes of the steps."""
    words = LoDTensor(np.arange(float(_ROWS)), _LEVELS)
    array, index_map = TensorArray.unpack(words, "sentence", sort_by_length=True)
    steps = [array.read(step) for step in range(len(array))]
    rows = [[int(row) for row in np.asarray(step.data)] for step in steps]
    return rows, index_map.order.tolist(), index_map.step_sizes.tolist()


def _steps() -> str:
    steps, order, sizes = _unpacked()
    drawing = Drawing("A TensorArray: step t holds word t of each sentence that has one")
    for step, rows in enumerate(steps):
        x = _LEFT + 64 + step * (_CELL + 34)
        drawing.write(x + _CELL / 2, 20, f"step {step}", "note", "middle")
        for place, row in enumerate(rows):
            top = 30 + place * (_HEIGHT + 2)
            drawing.box(x, top, _CELL, _HEIGHT, ROW_CLASSES[order[place] % 3])
            drawing.write(x + _CELL / 2, top + 18, str(row), anchor="middle")
        below = 30 + len(order) * (_HEIGHT + 2) + 18
        drawing.write(x + _CELL / 2, below, str(sizes[step]), "note", "middle")
    drawing.write(8, below, "rows in the step", "note")
    for place, sentence in enumerate(order):
        drawing.write(8, 48 + place * (_HEIGHT + 2), f"sentence {sentence}")
    return drawing.text()


def _ranks() -> str:
    _, order, _ = _unpacked()
    lengths = _LEVELS.lengths("sentence").tolist()
    drawing = Drawing("A rank table: sentences by falling length, equal ones in their order")
    for x, text in ((8.0, "rank"), (_LEFT, "sentence"), (_LEFT + 96, "length")):
        drawing.write(x, 20, text, "note")
    for rank, sentence in enumerate(order):
        y = 30 + rank * (_HEIGHT + 2)
        drawing.write(8, y + 18, str(rank))
        drawing.write(_LEFT, y + 18, str(sentence))
        drawing.write(_LEFT + 96, y + 18, str(lengths[sentence]))
        for word in range(lengths[sentence]):
            x = _LEFT + 160 + word * _CELL
            drawing.box(x, y, _CELL - 4, _HEIGHT, ROW_CLASSES[sentence % 3])
    return drawing.text()
