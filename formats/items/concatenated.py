"""Several sources as one, along the outermost level: their common schema, and their batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lodcli.formats.core.errors import naming, naming_file
from lodcli.formats.core.format import joined as joined_batches
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import (
    DEFAULT_NAME,
    Batch,
    Item,
    LevelKeys,
    LevelSpec,
    Schema,
    TensorSpec,
    total,
)
from lodcli.formats.structs.names import names_without_told
from lodcli.kernels.errors import SelectionError, ShapeMismatchError, counted
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import DECIMAL_DIGITS, Categories, Decimals, Marks, Times
from lodcli.kernels.tensor.nulls import Nulls

_TEXT_LEVELS = "; lod convert --text-levels changes them"
_WHOLE = {np.dtype(np.int64), np.dtype(np.uint64)}


def joined_schema(
    schemas: Sequence[Schema],
    labels: Sequence[str],
    first: int = 0,
    origins: Mapping[str, int] = MappingProxyType({}),
) -> Schema:
    """Return the common schema of all sources.

    Args:
        schemas: one of each source.
        labels: names of the sources in messages.
        first: the place of the source that all must fit.
        origins: for tensors that it lacks, the place of the source that they are from.

    Raises:
        ShapeMismatchError: they do not fit; names the first that does not.
    """
    called = {name: labels[place] for name, place in origins.items()}
    fitting = set[int]()
    for schema, label in zip(schemas, labels, strict=True):
        if id(schema) not in fitting:  # many files may share one object
            with naming_file(label):  # and no other file that is open
                _require_fitting(schemas[first], schema, labels[first], called)
            fitting.add(id(schema))
    joined, keys = [], LevelKeys()
    for specs in zip(*schemas, strict=True):
        parts = list(zip(*(spec.levels for spec in specs), strict=True))
        # Tensors share a level only if they do in all sources; in some it may be a coincidence.
        shared = keys.of(tuple(level.key for level in same) for same in parts)
        levels = tuple(
            LevelSpec(key, same[0].name, total([level.items for level in same]))
            for key, same in zip(shared, parts, strict=True)
        )
        rows = total([spec.rows for spec in specs])
        nullable = any(spec.nullable for spec in specs)
        same = all(spec.marks.attributes == specs[0].marks.attributes for spec in specs)
        # Attributes are kept only if they hold for all items.
        marks = specs[0].marks if same else dataclasses.replace(specs[0].marks, attributes="")
        whole = dataclasses.replace(
            specs[0], levels=levels, rows=rows, nullable=nullable, marks=marks
        )
        joined.append(_with_all_words(whole, specs, labels))
    return tuple(joined)


def require_equal_names(
    schemas: Sequence[Schema], labels: Sequence[str], first: int = 0, remedy: str = ""
) -> None:
    """Raise ShapeMismatchError if sources have other tensors than one, as `joined_schema`.

    Those that store which records are null are not compared: `with_equal_records` adds them.

    Args:
        schemas, labels, first: see `joined_schema`.
        remedy: what to do, if a source has some of the tensors.
    """
    known = names_without_told(schemas[first])
    for schema, label in zip(schemas, labels, strict=True):
        if schema is not schemas[first] and names_without_told(schema) != known:
            with naming_file(label):
                _require_names(schemas[first], schema, labels[first], remedy)


def as_joined(batches: Iterable[Batch], own: Schema, joined: Schema) -> Iterator[Batch]:
    """Yield the batches of a source, with tensors and levels named as in the joined schema."""
    # Tensors without names are distinguished by their position.
    called = {spec.name: one for spec, one in zip(own, joined, strict=True)}
    for batch in batches:
        yield {
            called[name].name: _recoded(_renamed(item, called[name].level_names), called[name])
            for name, item in batch.items()
        }


def below(schema: Schema, name: str, count: int) -> Schema:
    """Return a schema with one more outermost level, of `count` items.

    Raises:
        InvalidDataError: `name` is not a valid level name.
        SelectionError: a tensor has a level of this name.
    """
    keys = LevelKeys()
    found = []
    for spec in schema:
        if name in spec.level_names:
            raise SelectionError(f"{spec.name}: has a level called {name} already; choose another")
        # Tensors share the new level if they share the one below it.
        inner = [level.key for level in spec.levels]
        outermost = ("items of", *(inner[:1] or ["rows of", spec.name]))
        if spec.marks.fields:
            outermost = ("records of", spec.marks.fields[0].name)
        chain = keys.of([outermost, *inner])
        named = [LevelSpec("", name, count), *spec.levels]
        levels = tuple(
            dataclasses.replace(level, key=key) for level, key in zip(named, chain, strict=True)
        )
        found.append(dataclasses.replace(spec, levels=levels, marks=spec.marks.below(1)))
        with naming(spec.name):
            found[-1].empty()  # raises the error for the name
    return tuple(found)


def as_item(batches: Iterable[Batch], schema: Schema, name: str) -> Batch:
    """Return the batches of a source, from `as_joined`, as one item of a level `name`."""
    lods: dict[tuple[int, int], LoD] = {}
    found = {}
    for called, item in joined_batches(schema, batches).items():
        assert isinstance(item, LoDTensor)
        lod = item.lod
        key = id(lod), len(item)  # tensors without levels share one LoD, with any number of rows
        if key not in lods:
            offsets = np.array([0, len(item)], np.int64)
            lods[key] = LoD._trusted([offsets, *lod.levels], (name, *lod.names))
        nulls = Nulls.of([None, *item.nulls.masks]) if item.nulls else item.nulls
        found[called] = LoDTensor(item.values, lods[key], item.marks.below(1), nulls)
    return found


def _renamed(item: Item, names: tuple[str | None, ...]) -> Item:
    if not isinstance(item, LoDTensor) or item.lod.names == names:
        return item
    return LoDTensor(item.values, item.lod.with_names(names), item.marks, item.nulls)


def _recoded(item: Item, own: TensorSpec) -> Item:
    """Return categories as codes of the words of all sources."""
    words = own.marks.categories
    if words is None or not isinstance(item, LoDTensor) or item.marks.categories == words:
        return item
    return item.recoded(words)


def _with_all_words(
    spec: TensorSpec, specs: Sequence[TensorSpec], labels: Sequence[str]
) -> TensorSpec:
    """Return a tensor with the words of all its parts, in order of first appearance."""
    words = spec.marks.categories
    if words is None:
        return spec
    known = dict.fromkeys(words.words)
    for one, label in zip(specs, labels, strict=True):
        other = one.marks.categories
        assert other is not None
        with naming_file(label), naming(one.name):
            if words.ordered or other.ordered or not words.words:
                words = words.with_words(other)
        known.update(dict.fromkeys(other.words))  # not a dictionary of all words for each file
    if len(known) > len(words.words):
        with naming(spec.name):
            words = Categories(tuple(known))
    return spec.with_words(words)


class _Difference(NamedTuple):
    """A property of a tensor, and the expected one, that of the first file."""

    what: str
    found: str
    expected: str
    remedy: str = ""


def _require_names(first: Schema, other: Schema, label: str, remedy: str = "") -> None:
    """Raise ShapeMismatchError if a file has other tensors than the first one."""
    names, others = [spec.name for spec in first], [spec.name for spec in other]
    if names != others and not are_nameless(first, other):
        from lodcli.formats.dataset.manifest import SIZES

        if SIZES in others:
            what = "it is the manifest of a dataset; name its folder, which is read as one file"
            raise ShapeMismatchError(f"does not fit {label}: {what}")
        found, expected = _only_in(other, names), _only_in(first, others)
        if not found and not expected:  # those that store null records have other names
            found, expected = listing(others), listing(names)
        what, remedies = f"it holds the tensors {found}, not {expected}", []
        if remedy:
            remedies.append(remedy)
        if not (found and expected):
            what = f"it also holds {found}" if found else f"it lacks {expected}"
            remedies.append("lod drop removes tensors that some files lack")
        what = "; ".join([what, *([", ".join(remedies)] if remedies else [])])
        raise ShapeMismatchError(
            f"does not fit {label}: {what}", expected=expected or None, found=found or None
        )


def are_nameless(*schemas: Schema) -> bool:
    """Return whether all files hold one tensor, which in formats without names is called "data"."""
    names = [spec.name for schema in schemas for spec in schema]
    return all(len(schema) == 1 for schema in schemas) and DEFAULT_NAME in names


def _only_in(schema: Schema, known: Sequence[str]) -> str:
    """Return the names of tensors that are not among `known`, for a message."""
    return listing(name for name in names_without_told(schema) if name not in known)


def _require_fitting(first: Schema, other: Schema, label: str, called: Mapping[str, str]) -> None:
    """Raise ShapeMismatchError if a file cannot be joined to the first one, with this label.

    Args:
        called: the labels of the files that tensors are from, if not from the first one.
    """
    _require_names(first, other, label)
    for a, b in zip(first, other, strict=True):
        if a.array or b.array:
            raise SelectionError(f"{b.name} is a TensorArray; `lod pack` it first")
        whose = called.get(a.name, label)
        if differs := _spec_difference(a, b, whose):
            what, found, expected, remedy = differs
            with naming(b.name):
                raise ShapeMismatchError(
                    f"does not fit {whose}: it has {what}{found}, not {expected}{remedy}",
                    expected=expected,
                    found=found,
                )


def _joinable(marks: Marks) -> Marks:
    """Return the marks that must be equal in all files: without attributes and words."""
    words = marks.categories
    unit = marks.unit if words is None else Categories((), words.ordered)
    return dataclasses.replace(marks, unit=unit, attributes="")


def _spec_difference(a: TensorSpec, b: TensorSpec, label: str) -> _Difference | None:
    marks = _Difference("the marks ", str(b.marks), str(a.marks))
    for text, other in ((a.marks, b.marks), (b.marks, a.marks)):
        if text.is_text and isinstance(other.unit, Times):
            remedy = "; lod cast makes times of text" if _castable(a, b) else ""
            return marks._replace(remedy=remedy)
    if a.marks.is_text != b.marks.is_text:
        found, expected = (str(one.marks.of_values or one.dtype) for one in (b, a))
        bare = b if a.marks.is_text else a
        is_same = (a.dtype, len(a.levels)) == (b.dtype, len(b.levels))
        codes = is_same and not bare.marks.of_values
        remedy = _TEXT_LEVELS if codes else _cast_remedy(a, b)
        return _Difference("", found, expected, remedy)
    if a.dtype != b.dtype:
        remedy = "" if a.marks.of_values or b.marks.of_values else _common_cast(a, b, label)
        return _Difference("dtype ", b.dtype.name, a.dtype.name, remedy)
    if a.row_shape != b.row_shape:
        return _Difference("rows of shape ", str(b.row_shape), str(a.row_shape))
    if len(a.levels) != len(b.levels):
        return _Difference("", counted(len(b.levels), "level"), str(len(a.levels)))
    if _joinable(a.marks) != _joinable(b.marks):
        plain = a.marks.unit is None and b.marks.unit is None
        remedy = _TEXT_LEVELS if plain else ""
        return marks._replace(remedy=remedy)
    for number, (one, two) in enumerate(zip(a.level_names, b.level_names, strict=True)):
        if one and two and one != two:
            return _Difference(f"a level {number} called ", two, one)
    return None


def _castable(a: TensorSpec, b: TensorSpec) -> bool:
    """Return whether two tensors differ in the type only, and the one that is no text can be."""
    if any(one.marks.values == "bytes" or one.dtype.kind == "c" for one in (a, b)):
        return False
    return (a.depth, a.row_shape) == (b.depth, b.row_shape)


def _common_cast(a: TensorSpec, b: TensorSpec, label: str) -> str:
    """Return the command that gives two tensors of numbers a dtype that holds both; "" for none.

    Args:
        a: of the file of this label.
        b: of the file that the message names.
        label: of the file of `a`.
    """
    if (a.depth, a.row_shape) != (b.depth, b.row_shape):
        return ""
    if {a.dtype, b.dtype} == _WHOLE:  # readers of text choose by the numbers
        wide = f"{option('dtype', 'uint64')} reads text files so"
        return f"; {wide}, lod cast {quote(f'{b.name}=uint64')} converts others"
    # NumPy has no common dtype for bfloat16 and most others.
    each = [np.dtype(np.float32) if one.dtype.kind == "V" else one.dtype for one in (a, b)]
    safe = (x.dtype for x, y in ((a, b), (b, a)) if np.can_cast(y.dtype, x.dtype))
    dtype = next(safe, np.result_type(*each))
    if dtype.kind == "f" and a.dtype.kind in "iu" and b.dtype.kind in "iu":
        dtype = np.dtype(np.uint64)  # beside signed numbers, and float64 rounds large ones
    which = {a.dtype: "", b.dtype: f" converts {label}"}.get(dtype, " converts both")
    return f"; lod cast {quote(f'{b.name}={dtype.name}')}{which}"


def _cast_remedy(a: TensorSpec, b: TensorSpec) -> str:
    """Return the command that makes texts of `b` numbers as in `a`, or the reverse; "" for none."""
    if not _castable(a, b):
        return ""
    unit = a.marks.unit
    if a.marks.is_text:
        kind = "text" if b.marks.unit or b.dtype.kind in "iu" else ""
    elif isinstance(unit, Categories):
        kind = "category"
    elif isinstance(unit, Decimals):
        usual = unit.bits == (128 if unit.precision <= DECIMAL_DIGITS[128] else 256)
        kind = str(unit) if usual else str(unit).replace("decimal", f"decimal{unit.bits}")
    else:
        kind = "" if unit else a.dtype.name
    return f"; lod cast {quote(f'{b.name}={kind}')}" if kind else ""
