"""Splits batches into checked and counted parts, one for each array of a file.

A file has an array for the rows of each tensor, one for the offsets of each level, and one for the
order of each TensorArray's sequences. Tensors that share a level share its array.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.schema import (
    Batch,
    Item,
    LevelSpec,
    Schema,
    StoredArray,
    StreamedArray,
    TensorSpec,
    outline,
)
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.time_steps import IndexMap


class Kind(Enum):
    """The content of an array."""

    OFFSETS = "offsets"
    ROWS = "rows"
    ORDER = "order"

    # That of Enum is in Python, and parts are looked up by their kind.
    __hash__ = object.__hash__


@dataclass(frozen=True)
class Part:
    """The data that one batch appends to one array.

    Attributes:
        kind: the content of the array.
        key: the key of its level, else the name of its tensor.
        tensor: the first tensor that has the array.
        level: the number of the level in that tensor; -1 if the array does not hold a level.
        data: rows, an order, or the offsets of the batch alone, which begin with 0.
        base: for offsets: the total of the earlier batches.
        streamed: for rows that arrive in blocks: their source; `data` is empty then.
    """

    kind: Kind
    key: str
    tensor: str
    level: int
    data: Array
    base: int = 0
    streamed: StreamedArray | None = None

    @property
    def count(self) -> int:
        """Number of rows, of sequences of a level, or of entries of an order."""
        if self.streamed is not None:
            return self.streamed.rows
        return len(self.data) - (self.kind is Kind.OFFSETS)

    def arrays(self) -> Iterable[Array]:
        """Return `data`, or the blocks of rows."""
        return (self.data,) if self.streamed is None else self.streamed.blocks()


class BatchSplitter:
    """Splits batches into parts, and counts their items.

    Args:
        schema: the tensors in the batches. Levels of one key are one array.
        nulls: whether the caller writes the nulls of batches.

    Attributes:
        counts: how many rows, sequences or entries of each array were split so far.
        seen: the tensors found in batches so far.
    """

    def __init__(self, schema: Schema, *, nulls: bool) -> None:
        self._schema = schema
        self._places = {spec.name: place for place, spec in enumerate(schema)}
        self._nulls = nulls
        self.counts: dict[tuple[Kind, str], int] = {}
        for spec in schema:
            self.counts[Kind.ROWS, spec.name] = 0
            for level in (*spec.levels, *spec.outer):
                self.counts[Kind.OFFSETS, level.key] = 0
        self._ends: dict[str, int] = {}
        self.seen: set[str] = set()

    def split(self, batch: Batch) -> list[Part]:
        """Return the parts of a batch: of each tensor its offsets, order and rows.

        Raises:
            InvalidDataError: the batch does not match the schema.
        """
        parts: dict[tuple[Kind, str], Part] = {}
        for place in sorted(self._places[name] for name in batch if name in self._places):
            spec = self._schema[place]
            with naming(spec.name):
                self._collect(parts, spec, batch[spec.name])
        return list(parts.values())

    def _collect(self, parts: dict[tuple[Kind, str], Part], spec: TensorSpec, item: Item) -> None:
        tensor = outline(item)
        outer = item.index_map.outer if isinstance(item, StoredArray) else LoD()
        for what, expected, found in (
            ("dtype", spec.dtype.newbyteorder("="), tensor.dtype),
            ("row shape", spec.row_shape, tensor.row_shape),
            ("levels", len(spec.levels), tensor.lod.n_levels),
            ("outer levels", len(spec.outer), outer.n_levels),
        ):
            if expected != found:
                raise ShapeMismatchError(
                    f"expected {what} {expected} as in the schema, found {found}"
                )
        if spec.array and spec.name in self.seen:
            raise InvalidDataError("is a TensorArray, which must be in one batch; found it in two")
        self._collect_levels(parts, spec.name, spec.outer, outer)
        if isinstance(item, StoredArray):
            check_array(tensor.lod.levels[0], item.index_map)
            order = np.asarray(item.index_map.order)
            part = Part(Kind.ORDER, spec.name, spec.name, -1, order)
            parts[Kind.ORDER, spec.name] = part
            self.counts[Kind.ORDER, spec.name] = part.count
        self._collect_levels(parts, spec.name, spec.levels, tensor.lod)
        if tensor.nulls and not (self._nulls and spec.nullable):
            raise InvalidDataError("expected no nulls as in the schema, found nulls")
        if isinstance(tensor, StreamedArray):
            rows = Part(Kind.ROWS, spec.name, spec.name, -1, np.empty(0), streamed=tensor)
        else:
            rows = Part(Kind.ROWS, spec.name, spec.name, -1, tensor.values)
        parts[Kind.ROWS, spec.name] = rows
        self._count(rows, spec.rows, "rows")
        self.seen.add(spec.name)

    def _collect_levels(
        self,
        parts: dict[tuple[Kind, str], Part],
        tensor: str,
        levels: tuple[LevelSpec, ...],
        lod: LoD,
    ) -> None:
        for number, (level, offsets) in enumerate(zip(levels, lod.levels, strict=True)):
            known = parts.get((Kind.OFFSETS, level.key))
            if known is None:
                base = self._ends.get(level.key, 0)
                part = Part(Kind.OFFSETS, level.key, tensor, number, offsets, base)
                parts[Kind.OFFSETS, level.key] = part
                self._ends[level.key] = base + int(offsets[-1])
                self._count(part, level.items, f"items of level {number}")
            elif known.data is not offsets and not np.array_equal(known.data, offsets):
                raise ShapeMismatchError(
                    f"level {number} is shared with tensor {known.tensor}, which is segmented "
                    "differently"
                )

    def _count(self, part: Part, announced: int | None, what: str) -> None:
        """Count a part. Exceeding the announced count is an error before it is written."""
        total = self.counts[part.kind, part.key] = self.counts[part.kind, part.key] + part.count
        if announced is not None and total > announced:
            raise _not_as_announced(what, announced, total)

    def counted(self) -> Schema:
        """Return the schema with actual counts.

        Raises:
            InvalidDataError: the counts differ from the schema, or a TensorArray is missing.
        """
        return tuple(self._counted(spec) for spec in self._schema)

    def _counted(self, spec: TensorSpec) -> TensorSpec:
        with naming(spec.name):
            if spec.array and spec.name not in self.seen:
                raise InvalidDataError("is a TensorArray in the schema, but in no batch")
            rows = _checked("rows", spec.rows, self.counts[Kind.ROWS, spec.name])
            levels = self._counted_levels(spec.levels)
            outer = self._counted_levels(spec.outer)
        if spec.rows is not None and levels is spec.levels and outer is spec.outer:
            return spec  # usually: all counts were announced
        return replace(spec, rows=rows, levels=levels, outer=outer)

    def _counted_levels(self, levels: tuple[LevelSpec, ...]) -> tuple[LevelSpec, ...]:
        found = [
            _checked(f"items of level {number}", level.items, self.counts[Kind.OFFSETS, level.key])
            for number, level in enumerate(levels)
        ]
        if all(level.items is not None for level in levels):
            return levels
        pairs = zip(levels, found, strict=True)
        return tuple(replace(level, items=items) for level, items in pairs)


def _checked(what: str, announced: int | None, found: int) -> int:
    if announced is not None and announced != found:
        raise _not_as_announced(what, announced, found)
    return found


def _not_as_announced(what: str, announced: int, found: int) -> ShapeMismatchError:
    return ShapeMismatchError(f"expected {announced} {what}, found {found}")


def check_array(step_offsets: Offsets, index_map: IndexMap) -> None:
    """Raise InvalidDataError unless the steps are those that the index map describes."""
    lengths, found = index_map.outer.lengths(-1), np.diff(step_offsets)
    # First the number of steps: it bounds what `step_sizes` allocates.
    count = int(lengths.max(initial=0))
    if count != found.size:
        raise InvalidDataError(f"the index map describes {count} steps, the array has {found.size}")
    wrong = np.flatnonzero(index_map.step_sizes != found)
    if wrong.size:
        raise InvalidDataError(f"step {wrong[0]} does not have the items its index map describes")
