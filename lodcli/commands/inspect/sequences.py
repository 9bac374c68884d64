"""Single sequences for `lod inspect`: the first, the longest or the shortest, and their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.marks import tensor_of
from lodcli.formats.core.schema import TensorSpec
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_of
from lodcli.kernels.tensor.display import item_text


@dataclass(frozen=True)
class Sequence:
    """A sequence of a level.

    Attributes:
        item: its number on the level.
        branch: the path to it, outermost first.
        length: items of the next level.
        values: nested lists; None if they were not requested.
        text: the values in one line, the middle of long ones left out.
    """

    item: int
    branch: tuple[int, ...]
    length: int
    values: list[Any] | None = None
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the sequence for JSON."""
        content = {"item": self.item, "branch": list(self.branch), "length": self.length}
        return content if self.values is None else {**content, "values": self.values}


def extreme(lod: LoD, level: int, count: int, *, shortest: bool) -> Offsets:
    """Return the numbers of the longest or shortest sequences of a level, equal ones in order.

    >>> extreme(LoD.from_lengths([[2, 5, 1, 5]]), 0, 3, shortest=False)
    array([1, 3, 0])
    """
    lengths = lod.lengths(level)
    keys = lengths if shortest else -lengths
    chosen = np.arange(keys.size)
    if 0 < count < keys.size:
        # A partial sort: up to the last requested one, and those of the same length.
        chosen = np.flatnonzero(keys <= np.partition(keys, count - 1)[count - 1])
    return chosen[np.argsort(keys[chosen], kind="stable")][:count]


def sequences(
    source: IndexedSource, spec: TensorSpec, level: int, items: Offsets, *, values: bool
) -> list[Sequence]:
    """Return sequences of a level; each is read separately if its values are requested."""
    lod = source.lods[spec.name]
    found = []
    for item in items.tolist():
        length = int(lod.levels[level][item + 1] - lod.levels[level][item])
        place = branch_of(lod, level, item)
        if not values:
            found.append(Sequence(item, place, length))
            continue
        inner, rows = lod.items(level, item, item + 1)
        data = source.read_rows(spec.name, rows.start, rows.stop)
        nulls = source.read_nulls(spec.name, level, item, item + 1)
        nested = tensor_of(spec, data, inner, nulls).to_list()[0]
        text = item_text(data, inner, 0, spec.marks, nulls)
        found.append(Sequence(item, place, length, plain(nested), text))
    return found


def plain(value: Any) -> Any:
    """Return nested lists for JSON: nan, infinity, complex numbers and bytes as text."""
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, complex):
        return str(value)
    return str(value) if isinstance(value, float) and not abs(value) < float("inf") else value
