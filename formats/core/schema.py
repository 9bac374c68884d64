"""Schema of a file: names, dtypes, shapes and levels, known before the first row."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lodcli.formats.arrays.budget import WHOLE_COPIES, require_fits
from lodcli.formats.core.names import check_name, listing, there_are
from lodcli.kernels.errors import InvalidDataError, OptionError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, same_offsets
from lodcli.kernels.index.display import table_html
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.words import dtype_of_codes
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Categories, Marks
from lodcli.kernels.tensor.nulls import NO_NULLS
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.kernels.tensor.time_steps import IndexMap

DEFAULT_NAME = "data"
MOST_LEVELS = 64  # of a tensor in a file


@dataclass(frozen=True)
class StoredArray:
    """A TensorArray and the index map that packs it, as `lod unpack` writes them."""

    array: TensorArray
    index_map: IndexMap

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        raise UnsupportedError(
            "a StoredArray is not an array: use array, or array.pack(index_map.level, index_map) "
            "for the tensor that was unpacked"
        )


class StreamedArray(StoredArray):
    """A TensorArray whose rows are read in blocks, for writers that can write blocks.

    Args:
        dtype, row_shape: of the rows.
        lod: of the steps.
        index_map: see StoredArray.
        blocks: returns an iterator over all rows in order, in blocks.
    """

    marks = NO_MARKS
    nulls = NO_NULLS

    def __init__(
        self,
        dtype: np.dtype[Any],
        row_shape: tuple[int, ...],
        lod: LoD,
        index_map: IndexMap,
        blocks: Callable[[], Iterator[Array]],
    ) -> None:
        vars(self).update(dtype=dtype, row_shape=row_shape, lod=lod, index_map=index_map)
        vars(self).update(blocks=blocks)

    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]
    lod: LoD
    blocks: Callable[[], Iterator[Array]]

    @property
    def array(self) -> TensorArray:
        """All rows in memory.

        Raises:
            TooLargeError: they do not fit into the memory budget.
        """
        require_fits("the steps", self.nbytes, WHOLE_COPIES)
        rows = np.empty((self.rows, *self.row_shape), self.dtype)
        stop = 0
        for block in self.blocks():
            start, stop = stop, stop + len(block)
            rows[start:stop] = block
        return TensorArray.from_steps(LoDTensor(rows, self.lod))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.lod.levels[-1][-1])

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.rows * math.prod(self.row_shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.lod.count(0)

    def __repr__(self) -> str:
        return f"StreamedArray({len(self)} steps, {self.rows} rows)"


Item = LoDTensor | StoredArray
Batch = Mapping[str, Item]
# Nearly always a LoDTensor: with a union, type checkers would refuse `read(path).data`.
ReadItem = LoDTensor | Any


def as_item(item: object) -> str:
    """Return a hint how to wrap a value so that it can be written."""
    if isinstance(item, TensorArray):
        return "; give it with the map that unpack gave, StoredArray(array, index_map)"
    if hasattr(item, "read"):  # a tensor of an open file
        return "; its read() returns one"
    if isinstance(item, list | tuple):
        return "; LoDTensor.from_lists makes one of lists, also of texts and times"
    library = type(item).__module__.partition(".")[0]
    if library in ("torch", "awkward"):
        return f"; LoDTensor.from_{library} makes one"
    if hasattr(item, "__arrow_c_stream__") or hasattr(item, "__arrow_c_array__"):
        return "; LoDTensor.from_arrow makes one of a column"
    if hasattr(item, "__array__"):
        return "; wrap it, LoDTensor(rows, lengths), or LoDTensor(rows) without levels"
    return ""


def tensor_of(item: Item) -> LoDTensor:
    """Return a tensor; of a TensorArray, its steps concatenated."""
    return item if isinstance(item, LoDTensor) else item.array.steps


def outline(item: Item) -> LoDTensor | StreamedArray:
    """Return an object with the dtype, counts and index of an item; reads no rows."""
    return item if isinstance(item, StreamedArray) else tensor_of(item)


@dataclass(frozen=True)
class LevelSpec:
    """One level. Tensors of a file with the same key share its offsets.

    Attributes:
        key: identifies the level inside the file.
        name: the name of the level, or None.
        items: the number of sequences, or None while unknown.
    """

    key: str
    name: str | None = None
    items: int | None = None


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a file.

    Attributes:
        name: its name in the file, and in FILE::NAME.
        dtype: the dtype of the rows, in native byte order.
        row_shape: shape of one row, () for single values.
        levels: outermost first.
        rows: N, or None while unknown.
        array: whether this is a TensorArray: `levels` are then those of its time-major
            form (level 0 the steps) and `outer` those of the tensor it was unpacked from.
        outer: see `array`.
        marks: what the values mean; files store no marks of a TensorArray.
        nullable: whether rows or items may be null; also True if the file does not specify it.
    """

    name: str
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...] = ()
    levels: tuple[LevelSpec, ...] = ()
    rows: int | None = None
    array: bool = False
    outer: tuple[LevelSpec, ...] = ()
    marks: Marks = NO_MARKS
    nullable: bool = False

    @cached_property  # read for every sequence
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.row_shape) * self.dtype.itemsize

    @property
    def items(self) -> int | None:
        """Number of outermost items, None while unknown."""
        return self.levels[0].items if self.levels else self.rows

    @property
    def level_names(self) -> tuple[str | None, ...]:
        """The names of the levels, outermost first."""
        return tuple(level.name for level in self.levels)

    @property
    def depth(self) -> int:
        """Number of levels above the values, where a text or a bytes object is one value."""
        return len(self.levels) - (self.marks.values is not None)

    def uncounted(self, key: str = "{}") -> TensorSpec:
        """Return this spec with unknown counts, for a selection of the items.

        Args:
            key: format string from an old to a new key of a level, such as "of {}".
        """
        levels = (replace(level, key=key.format(level.key), items=None) for level in self.levels)
        return replace(self, levels=tuple(levels), rows=None)

    def with_words(self, words: Categories) -> TensorSpec:
        """Return this spec with other categories, and a dtype that fits their codes."""
        dtype = dtype_of_codes(self.dtype, words)
        return replace(self, dtype=dtype, marks=replace(self.marks, unit=words))

    def empty(self) -> LoDTensor:
        """Return a tensor of this description without items."""
        lod = LoD([np.zeros(1, np.int64)] * len(self.levels), self.level_names)
        return LoDTensor(np.empty((0, *self.row_shape), self.dtype), lod, self.marks)


Schema = tuple[TensorSpec, ...]


def total(counts: Sequence[int | None]) -> int | None:
    """Return the sum of counts, None if one is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def find(schema: Schema, name: str | None) -> TensorSpec:
    """Return the tensor of that name; without a name, the only one or the one named "data".

    Raises:
        SelectionError: no such tensor, or no name and several to choose from; lists them.
    """
    if name is None and len(schema) == 1:
        return schema[0]
    wanted = DEFAULT_NAME if name is None else name
    if len(schema) > _FEW:
        found = by_name(schema).get(wanted)
    else:
        found = next((spec for spec in schema if spec.name == wanted), None)
    if found is not None:
        return found
    names = [spec.name for spec in schema]
    known = listing(names) or "none"
    if name is None:
        raise SelectionError(f"holds {len(schema)} tensors; choose one with ::NAME: {known}", names)
    inner = str(name).rpartition("::")[2]
    if inner in names:
        remedy = f"give its name alone: {inner}"
    elif not set(inner.split(",")).isdisjoint(names):
        remedy = f"give each name separately; there are: {known}"
    else:
        remedy = there_are(names, inner)
    raise SelectionError(f"no tensor named {name!r}; {remedy}")


def find_all(schema: Schema, names: Iterable[str]) -> Schema:
    """Return the tensors of these names, in this order; see `find`."""
    return tuple(find(schema, name) for name in names)


def by_name(schema: Schema) -> dict[str, TensorSpec]:
    """Return the tensors by name; kept for the schemas asked last, which are asked again."""
    kept = _kept.get(id(schema))
    if kept is None or kept[0] is not schema:
        kept = schema, {spec.name: spec for spec in reversed(schema)}
        for oldest in list(_kept)[: 1 - _MOST_KEPT]:  # another thread may drop it as well
            _kept.pop(oldest, None)
        _kept[id(schema)] = kept
    return kept[1]


_kept: dict[int, tuple[Schema, dict[str, TensorSpec]]] = {}
_MOST_KEPT = 8
_FEW = 16  # tensors that are searched one by one


def names_of(names: Iterable[str]) -> list[str]:
    """Return the names of tensors that a caller gives.

    Raises:
        OptionError: a single text, whose letters would be taken for names, or not an iterable.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        remedy = f"; give a list, [{names!r}]" if isinstance(names, str) else ""
        raise OptionError(f"expected the names of tensors, found {names!r}{remedy}")
    return list(names)


def known_rows(spec: TensorSpec, lod: LoD) -> int:
    """Return the number of rows of a tensor whose index is known.

    Raises:
        AssertionError: it has no levels, and its source knows the number only after reading it.
    """
    rows = lod.rows if spec.rows is None else spec.rows
    assert rows is not None, f"{spec.name}: the number of rows is unknown, not 0"
    return rows


class LevelKeys:
    """Keys of the levels of one file: two levels have one key if they are the same level.

    They are the same if their offsets are equal and the levels above them are the same: equal
    offsets below different levels divide the items of different parents.
    """

    def __init__(self) -> None:
        self._keys: dict[tuple[str, Hashable], str] = {}

    def of(self, offsets: Iterable[Hashable], root: str = "") -> tuple[str, ...]:
        """Return the keys of one tensor's levels, outermost first.

        Args:
            offsets: an identity of the offsets of each level, such as their `id`.
            root: levels below different roots are never the same.
        """
        keys: list[str] = []
        for one in offsets:
            above = keys[-1] if keys else f"/{root}"
            keys.append(self._keys.setdefault((above, one), str(len(self._keys))))
        return tuple(keys)

    def specs(self, lod: LoD, root: str = "") -> tuple[LevelSpec, ...]:
        """Return the levels of an index in memory; levels that are one object are the same."""
        found = zip(self.of(map(id, lod.levels), root), lod.names, lod.levels, strict=True)
        return tuple(LevelSpec(key, name, offsets.size - 1) for key, name, offsets in found)


_COPIED = 64  # offsets: most indexes of files with very many tensors have no more


class EqualOffsets:
    """Finds equal offsets by comparing them, for files that do not store sharing."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, bytes], list[Offsets]] = {}

    def first(self, offsets: Offsets) -> Offsets:
        """Return the first array with the same values that was given; at first `offsets` itself."""
        # No look-up by a copy of all bytes, since an index may be large.
        key = offsets.size, int(offsets[-1]), offsets[:_COPIED].tobytes()
        alike = self._known.setdefault(key, [])
        for other in alike:
            if same_offsets(other, offsets):
                return other
        alike.append(offsets)
        return offsets


def rekeyed(
    schema: Schema, same: Callable[[LevelSpec], Hashable] = lambda level: level.key
) -> Schema:
    """Return the schema with keys by the rule of `LevelKeys`: "0", "1", .., in order of use.

    Args:
        schema: its keys need not follow the rule.
        same: returns the identity of the offsets of a level.
    """
    keys = LevelKeys()

    def levels(found: tuple[LevelSpec, ...], root: str) -> tuple[LevelSpec, ...]:
        new = keys.of(map(same, found), root)
        if [level.key for level in found] == list(new):
            return found
        return tuple(replace(level, key=key) for level, key in zip(found, new, strict=True))

    def rekey(spec: TensorSpec) -> TensorSpec:
        own = levels(spec.levels, _steps_root(spec.name) if spec.array else "")
        outer = levels(spec.outer, _outer_root(spec.name))
        if own is spec.levels and outer is spec.outer:  # usually: the keys follow the rule
            return spec
        return replace(spec, levels=own, outer=outer)

    return tuple(map(rekey, schema))


def _steps_root(name: str) -> str:
    """Return the root of the levels of a TensorArray, which are its own."""
    return f"{name}/steps"


def _outer_root(name: str) -> str:
    return f"{name}/outer"


def schema_of(items: Mapping[str, Item]) -> Schema:
    """Return the description of tensors in memory.

    Levels that tensors share by reference, from the outermost down, get one key.
    """
    keys, equal = LevelKeys(), defaultdict[str, EqualOffsets](EqualOffsets)
    specs = []
    for name, item in items.items():
        check_name(name)
        array = isinstance(item, StoredArray)
        tensor = outline(item)
        outer = item.index_map.outer if isinstance(item, StoredArray) else LoD()
        specs.append(
            TensorSpec(
                name=name,
                dtype=tensor.dtype,
                row_shape=tensor.row_shape,
                levels=keys.specs(_index_of(tensor, equal), _steps_root(name) if array else ""),
                rows=tensor.rows,
                array=array,
                outer=keys.specs(outer, _outer_root(name)),
                marks=tensor.marks,
                nullable=bool(tensor.nulls),
            )
        )
    if not specs:
        raise InvalidDataError("nothing to write: no tensor given")
    return tuple(specs)


def _index_of(tensor: LoDTensor | StreamedArray, equal: dict[str, EqualOffsets]) -> LoD:
    """Return the index of a tensor; equal levels of fields of one column become one array."""
    fields, levels = tensor.marks.fields, tensor.lod.levels
    if not fields:
        return tensor.lod
    above = map(equal[fields[0].name].first, levels[: fields[-1].level])
    return LoD._trusted((*above, *levels[fields[-1].level :]), tensor.lod.names)


_TABLE_HEADS = ("tensor", "dtype", "row", "rows", "levels")


def schema_html(schema: Schema) -> str:
    """Return a table with one line for each tensor; unknown counts are left out."""
    title = f"<b>file</b> {len(schema)} tensor{'s' * (len(schema) != 1)}"
    return table_html(title, _TABLE_HEADS, map(_cells, schema))


def _cells(spec: TensorSpec) -> tuple[str, ...]:
    levels = [
        f"{level.name or number}" + ("" if level.items is None else f": {level.items}")
        for number, level in enumerate(spec.levels)
    ]
    row = " x ".join(map(str, spec.row_shape)) or "1"
    rows = "" if spec.rows is None else str(spec.rows)
    return spec.name, str(spec.dtype), row, rows, ", ".join(levels)
