"""Flat files: which arrays make up which tensor, and their index.

By name: the tensor called "data" is `data`, `lod.0`, `lod.1`, ..; any other is `NAME/data`,
`NAME/lod.0`, ..; any other array `NAME` is a tensor without levels, which is written so too. Masks
of nulls are `valid.0`, .., `valid.rows`, if the marks of the tensor name them. Or by the options of
the user: some arrays are rows, others are the offsets (cu_seqlens, row_splits) or lengths of all;
or the arrays that match a pattern are the sequences of a tensor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from lodcli.formats.arrays.dates import times_of
from lodcli.formats.arrays.fixed_texts import FixedTexts
from lodcli.formats.choosing.array_patterns import (
    JoinedArrays,
    Matches,
    groups_of,
    is_pattern,
    matching,
)
from lodcli.formats.core.errors import DamagedFileError, append_text, naming
from lodcli.formats.core.format import LeftOut, leaving_out
from lodcli.formats.core.marks import Kept, check_fit, mask_name
from lodcli.formats.core.names import check_name, component, listing, name_of, named, there_are
from lodcli.formats.core.options import ReadOptions, WriteOptions, index_names
from lodcli.formats.core.schema import (
    DEFAULT_NAME,
    EqualOffsets,
    LevelKeys,
    LevelSpec,
    Schema,
    TensorSpec,
)
from lodcli.formats.structs.tree import check_tree
from lodcli.kernels.errors import (
    InvalidDataError,
    InvalidLoDError,
    SelectionError,
    UnsupportedError,
)
from lodcli.kernels.index.checks import (
    Array,
    Offsets,
    as_int64,
    check_offsets,
    check_rows,
    lengths_to_offsets,
    seem_offsets,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option, option_name
from lodcli.kernels.tensor.marks import TEXT, Marks

# The options of all formats of flat arrays.
FLAT_OPTIONS = frozenset({"data", "offsets", "lengths"})
FLAT_WRITE_OPTIONS = frozenset({"cu_seqlens", "index_dtype"})
# The array or entry of marks. An array of this name without marks is an ordinary tensor.
MARKS = "lod.json"
_NAME = re.compile(r"(?:(?P<name>[^/]+)/)?(?:(?P<data>data)|lod\.(?P<level>0|[1-9][0-9]?))")


@dataclass(frozen=True)
class Parts:
    """The names of the arrays that make one tensor.

    Attributes:
        data: its rows; or the pattern of its sequences.
        levels: in order.
        masks: by level; with L levels, level L is the rows.
        matches: the arrays that match the pattern; None if `data` is an array.
    """

    data: str
    levels: tuple[str, ...] = ()
    masks: Mapping[int, str] = field(default_factory=dict)
    matches: Matches | None = None

    @property
    def sequences(self) -> tuple[str, ...]:
        """The arrays that match the pattern."""
        return self.matches.arrays if self.matches is not None else ()


class ArrayType(Protocol):
    """What an array holds."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class ArrayInfo(ArrayType, Protocol):
    """Metadata of an array whose values are not read yet; `label` is its name in messages."""

    @property
    def label(self) -> str: ...


def array_name(tensor: str, level: int) -> str:
    """Return the name of an array of a tensor; level -1 is its rows."""
    return _prefix(tensor) + ("data" if level < 0 else f"lod.{level}")


def lone_array_name(tensor: str) -> str:
    """Return the name of the only array of a tensor without levels: its own, if readers allow."""
    taken = tensor == MARKS or _mask_of(tensor)[1] or _owner(tensor) != (tensor, -1)
    return array_name(tensor, -1) if taken else tensor


def mask_array_name(spec: TensorSpec, level: int) -> str:
    """Return the name of the array that is the mask of a level."""
    return _prefix(spec.name) + mask_name(level, len(spec.levels))


def _prefix(tensor: str) -> str:
    return "" if tensor == DEFAULT_NAME else f"{component(tensor)}/"


def tensors_in(
    names: Collection[str], options: ReadOptions, kept: Mapping[str, Kept]
) -> dict[str, Parts]:
    """Return the tensors that arrays with these names make up.

    Args:
        options: which arrays are rows, and which are the index.
        kept: by tensor, its stored marks, such as its masks.

    Raises:
        UnsupportedError, InvalidDataError: an invalid tensor name.
        DamagedFileError: rows, levels or masks are missing.
        SelectionError: a requested array is missing.
    """
    masks: dict[str, dict[str, str]] = {}
    for name in names:
        owner, is_mask, part = _mask_of(name)
        if is_mask and owner in kept and part in kept[owner].masks:
            masks.setdefault(owner, {})[part] = name
    masked = {name for found in masks.values() for name in found.values()}
    names = [name for name in names if name not in masked]
    if options.data or options.offsets or options.lengths:
        return _chosen(names, options)
    found: dict[str, dict[int, str]] = {}
    for name in names:
        owner, level = _owner(name)
        levels = found.setdefault(owner, {})
        if level in levels:  # `x` and `x/data`
            raise DamagedFileError(f"two arrays for tensor {owner}: {levels[level]} and {name}")
        levels[level] = name
    for owner, levels in found.items():
        if -1 not in levels:
            raise DamagedFileError(f"tensor {owner}: has an index but no data")
        if sorted(levels) != list(range(-1, len(levels) - 1)):
            raise DamagedFileError(
                f"tensor {owner}: expected {len(levels) - 1} levels lod.0, lod.1, .., "
                f"found {', '.join(f'lod.{n}' for n in sorted(levels) if n >= 0)}"
            )
    result = {}
    for owner, levels in found.items():
        depth = len(levels) - 1
        said = kept[owner].masks if owner in kept else ()
        result[owner] = Parts(
            levels[-1],
            tuple(levels[n] for n in range(depth)),
            _by_level(owner, said, masks.get(owner, {}), depth),
        )
    return result


def _mask_of(name: str) -> tuple[str, bool, str]:
    """Return the tensor of a mask, whether the mask is valid, and its level."""
    owner, slash, part = name.rpartition("/")
    tensor = name_of(named(owner)) if slash else DEFAULT_NAME
    return tensor, part.startswith("valid."), part


def _by_level(
    tensor: str, said: Collection[str], arrays: Mapping[str, str], depth: int
) -> dict[int, str]:
    """Return the mask arrays that a file declares for a tensor, by level."""
    levels = {mask_name(level, depth): level for level in range(depth + 1)}
    for part in said:
        if part not in levels:
            raise DamagedFileError(
                f"tensor {tensor}: no mask {part[:40]!r} of {depth} levels; there may be: "
                f"{', '.join(levels)}"
            )
        if part not in arrays:
            raise DamagedFileError(f"tensor {tensor}: the mask {part} is missing")
    return {levels[part]: arrays[part] for part in said}


def _chosen(names: Collection[str], options: ReadOptions) -> dict[str, Parts]:
    """Return the tensors that the user named: all with one index."""
    known = frozenset(names)
    index = index_names(options, known.__contains__)
    data = tuple(name for name in names if name not in index)
    if options.data:
        data = tuple(name.strip() for name in options.data.split(","))
    patterns = [name for name in data if name not in known and is_pattern(name)]
    if patterns and index:
        raise SelectionError(
            f"{option('data', patterns[0])}: is a pattern of arrays that are a sequence each; name "
            f"one array of all rows for {option('offsets')} or {option('lengths')}"
        )
    for name in (*data, *index):
        if name not in known and name not in patterns:
            inner = name.rpartition("::")[2]
            alone = f"give its name alone: {inner}" if inner in known else ""
            raise SelectionError(f"no array named {name!r}; {alone or there_are(names, name)}")
    if not data:
        raise SelectionError(
            f"holds offsets and no rows; name an array of rows with {option('data')}"
        )
    tensors = {name_of(name): Parts(name, index) for name in data if name not in patterns}
    found = matching(
        patterns,
        lambda pattern: (names, groups_of(names, pattern)),
        lambda pattern: there_are(names, pattern),
    )
    for (name, matches), pattern in zip(found.items(), patterns, strict=True):
        if name in tensors:
            raise SelectionError(
                f"{option('data')}: two tensors called {name}, {tensors[name].data} and {pattern}; "
                "convert each by itself"
            )
        tensors[name] = Parts(pattern, matches=matches)
    return tensors


def _owner(name: str) -> tuple[str, int]:
    """Return the tensor of an array, and its level, -1 for the rows."""
    found = _NAME.fullmatch(name)
    if found is None:
        return name_of(name), -1
    owner = name_of(named(found["name"])) if found["name"] else DEFAULT_NAME
    return owner, -1 if found["data"] else int(found["level"])


def held(
    tensors: Mapping[str, Parts], look: Callable[[str], ArrayInfo], left_out: LeftOut
) -> dict[str, Parts]:
    """Return the tensors with supported arrays, at least one.

    Args:
        tensors: see `tensors_in`.
        look: returns the metadata of an array, or raises an error.
        left_out: receives the errors of the other tensors.
    """
    found = {}
    for name, parts in tensors.items():
        with leaving_out(left_out, name):
            for array in (*parts.levels, *parts.masks.values()):
                look(array)
            if not look(parts.data).shape:
                raise InvalidDataError(f"tensor {name}: {_SINGLE}")
            found[name] = parts
    if not tensors:
        raise InvalidDataError("holds no array")
    offer_others(left_out, found)
    return found


def offer_others(left_out: LeftOut, found: Mapping[str, object]) -> None:
    """Add advice on reading the other tensors to each error; if there are none, raise the first."""
    if left_out and not found:
        raise next(iter(left_out.values()))
    for name, error in left_out.items():
        rest = option("skip-unsupported", True)
        others = f"choose another tensor with FILE::NAME, or the rest with {rest}"
        left_out[name] = type(error)(f"{error}; {others}")


_SINGLE = "is a single value; a tensor needs a row axis; save it as .reshape(1)"
_PADDED = "of a padded array, LoDTensor.from_padded of Python takes the rows; else "


def described(
    tensors: Mapping[str, Parts],
    arrays: Mapping[str, ArrayInfo],
    read: Callable[[str], Array],
    options: ReadOptions,
) -> tuple[Schema, dict[str, LoD]]:
    """Read every index and return the schema, and the index of each tensor.

    Tensors with equal levels share one index.

    Args:
        tensors: see `tensors_in`.
        arrays: metadata of the arrays, by name; the texts of an array are the finest level.
        read: returns all values of an array, by its name.
        options: whether the levels are lengths.
    """
    specs: list[TensorSpec] = []
    lods: dict[str, LoD] = {}
    equal = EqualLevels()
    known: dict[str, Offsets] = {}
    for name, parts in tensors.items():
        info = arrays[parts.data]
        with naming(f"tensor {name}"):
            for level, array in enumerate(parts.levels):
                if array not in known:
                    below = arrays[[*parts.levels, parts.data][level + 1]].shape
                    known[array] = _offsets(arrays[array], array, level, read, options, below)
            lod = LoD([known[array] for array in parts.levels])
            if isinstance(info, JoinedArrays):
                lod = LoD([info.offsets])
            if not info.shape:
                raise InvalidDataError(_SINGLE)
            if lod.n_levels and info.shape[0] == lod.count(0) != lod.levels[-1][-1]:
                wide = len(info.shape) > 1 and info.shape[1] >= lod.lengths(0).max(initial=0)
                padded = _PADDED if wide else ""
                raise InvalidDataError(
                    f"expected {int(lod.levels[-1][-1])} rows, found {info.shape[0]}, one for "
                    f"each item of level 0; {padded}name only arrays of rows with "
                    f"{option('data')}, and add this one with lod merge OUT FILE::{name}"
                )
            check_rows(lod.levels, info.shape[0])
        spec, lod = unlevelled(name, info, lod)
        levels, lods[name] = equal.shared(lod)
        spec = replace(spec, levels=levels, nullable=spec.nullable or bool(parts.masks))
        for level, array in parts.masks.items():
            _require_mask(spec, level, arrays[array])
        specs.append(spec)
    return tuple(specs), lods


def unlevelled(name: str, info: ArrayType, lod: LoD) -> tuple[TensorSpec, LoD]:
    """Return the spec of an array as a tensor, without levels, and its index with that of texts.

    Args:
        info: the array, or its texts.
        lod: the index above its items.
    """
    if isinstance(info, FixedTexts):
        spec = TensorSpec(name, info.data.dtype, rows=info.data.size, marks=TEXT)
        return spec, LoD([*lod.levels, info.offsets])
    rows, *row_shape = info.shape
    spec = TensorSpec(name, info.dtype.newbyteorder("="), tuple(row_shape), rows=rows)
    if (times := times_of(info.dtype)) is not None:
        spec = replace(spec, dtype=np.dtype(np.int64), marks=Marks(unit=times), nullable=True)
    return spec, lod


def _require_mask(spec: TensorSpec, level: int, info: ArrayInfo) -> None:
    items = spec.levels[level].items if level < len(spec.levels) else spec.rows
    if info.dtype != np.bool_ or info.shape != (items,):
        raise DamagedFileError(
            f"tensor {spec.name}: {info.label}: a mask of {items} items is bool of shape "
            f"({items},), found {info.dtype} of shape {info.shape}"
        )


class EqualLevels:
    """Finds equal levels by comparing them, for formats that do not store sharing."""

    def __init__(self) -> None:
        self._keys, self._equal = LevelKeys(), EqualOffsets()
        self._lods: dict[tuple[LevelSpec, ...], LoD] = {}

    def shared(self, lod: LoD) -> tuple[tuple[LevelSpec, ...], LoD]:
        """Return the levels of one more tensor, and its index: one object if all are the same."""
        lod = LoD._trusted(map(self._equal.first, lod.levels), lod.names)
        levels = self._keys.specs(lod)
        return levels, self._lods.setdefault(levels, lod)


def marked(schema: Schema, kept: Mapping[str, Kept]) -> Schema:
    """Return a schema with the marks stored in the file.

    Args:
        schema: from `described`.
        kept: by tensor.

    Raises:
        DamagedFileError: they do not match the tensors.
    """
    result = tuple(
        replace(spec, marks=kept[spec.name].marks) if spec.name in kept else spec for spec in schema
    )
    for spec in result:
        check_fit(spec, f"tensor {spec.name}")
    check_tree(result, "marks")
    return result


def _offsets(
    info: ArrayInfo,
    name: str,
    level: int,
    read: Callable[[str], Array],
    options: ReadOptions,
    below: tuple[int, ...],
) -> Offsets:
    what = "lengths" if options.lengths else "offsets"
    # numpy.array([]) is float64.
    none = bool(options.lengths) and info.shape == (0,) and info.dtype.kind == "f"
    with naming(info.label):
        # Before reading: an array of rows without values may be long.
        if not none and (len(info.shape) != 1 or info.dtype.kind not in "iu"):
            raise InvalidDataError(
                f"{what} must be integers in one dimension, found {info.dtype} "
                f"of shape {info.shape}"
            )
    values = np.zeros(0, np.int64) if none else read(name)
    with naming(info.label):
        return given_level(values, options, level=level, below=below)


def given_level(
    values: Array, options: ReadOptions, *, level: int, below: tuple[int, ...]
) -> Offsets:
    """Return the offsets of a level that the user named, or that has the name of a tensor.

    Args:
        values: its offsets, or its lengths.
        options: whether they are lengths.
        below: shape of the array that the level divides, () if unknown.

    Raises:
        InvalidLoDError: no valid offsets, or lengths.
    """
    items = below[0] if below else None
    if options.lengths:
        lengths = as_int64(values, level=level, what="lengths")
        offsets = lengths_to_offsets(lengths, level=level)
        # Padded sequences have one length for each item: their error names other arrays.
        padded = lengths.size == items and len(below) > 1
        if offsets[-1] != items and not padded and seem_offsets(lengths, items):
            raise InvalidLoDError(
                f"the sum of the lengths: expected {items}, found {offsets[-1]}; these seem to be "
                f"offsets: use {option_name('offsets')}",
                level=level,
                expected=items,
                found=offsets.item(-1),
            )
        return offsets
    offsets = as_int64(values, level=level, what="offsets")
    try:
        check_offsets(offsets, level=level)
    except InvalidLoDError as error:
        if options.offsets and offsets.min(initial=0) >= 0 and offsets.sum() == items:
            append_text(error, f"these seem to be lengths: use {option_name('lengths')}")
        raise
    return offsets


def index_dtype(options: WriteOptions) -> np.dtype[Any]:
    """Return the dtype to store offsets as: by default int64, or int32 with --cu-seqlens."""
    return np.dtype(options.index_dtype or ("int32" if options.cu_seqlens else "int64"))


def require_index_fits(largest: int, level: int, dtype: np.dtype[Any]) -> None:
    """Raise UnsupportedError unless an offset fits the dtype it is stored in."""
    if largest > np.iinfo(dtype).max:
        raise UnsupportedError(
            f"level {level}: offset {largest} does not fit {dtype}; use "
            f"{option('index-dtype', 'int64')}"
        )


def array_names(schema: Schema, options: WriteOptions) -> Callable[[str, int], str]:
    """Return a function that names the array of a tensor's level, or of its rows (level -1).

    Raises:
        UnsupportedError, SelectionError: the names of --cu-seqlens do not fit the tensors.
    """
    chosen = options.cu_seqlens
    if chosen is None:
        lone = {spec.name for spec in schema if not spec.levels}
        return lambda name, level: (
            lone_array_name(name) if name in lone else array_name(name, level)
        )
    place = option_name("cu-seqlens")
    shared = {tuple(level.key for level in spec.levels) for spec in schema}
    if len(shared) > 1:
        names = listing(spec.name for spec in schema)
        raise UnsupportedError(f"{place}: one index for all, but {names} do not share their levels")
    depth = len(schema[0].levels)
    if len(set(chosen)) != len(chosen) or len(chosen) != depth:
        raise SelectionError(
            f"{place}: expected {depth} different names, one per level, found {', '.join(chosen)}"
        )
    for name in chosen:
        check_name(name)
        if name in {spec.name for spec in schema}:
            raise SelectionError(f"{place}: {name} is the name of a tensor already")
    return lambda tensor, level: tensor if level < 0 else chosen[level]
