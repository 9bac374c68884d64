"""Marks of tensors as JSON: in the header of a container, of a stream, and in flat files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from reprlib import repr as shown
from typing import Any, NamedTuple

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.names import check_name
from lodcli.formats.core.schema import Batch, Item, Schema, StoredArray, TensorSpec
from lodcli.formats.values.file_attributes import checked, parsed
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, check_rows
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import (
    ALL_MARKS,
    NO_MARKS,
    TIME_UNITS,
    VALUES,
    Categories,
    Decimals,
    Field,
    Marks,
    Times,
    check_codes,
    check_text,
)
from lodcli.kernels.tensor.nulls import NO_NULLS, Nulls, without_null_rows

# The format and the version of the JSON text that flat files store beside their arrays.
_FORMAT = {"format": "lod-marks", "version": 1}
MOST_BYTES = 16 << 20
# The member of tensors inside records, and how long a path may be.
FIELDS = "fields"
MOST_FIELDS = 64
# The member of masks.
NULLS = "nulls"
# The member of attributes of a tensor or file.
ATTRIBUTES = "attributes"
_NONE = frozenset[str]()
# The members besides "values", by the value of that.
_MEMBERS = {
    **{kind: frozenset({"unit"}) for kind in TIME_UNITS},
    "timestamp": frozenset({"unit", "zone"}),
    "decimal": frozenset({"precision", "scale", "bits"}),
    "category": frozenset({"words", "ordered"}),
}


def to_json(marks: Marks, *, words: bool = True) -> dict[str, Any]:
    """Return marks as the members of a JSON object; empty for none.

    Args:
        words: whether to include the words of categories.
    """
    said: dict[str, Any] = {} if marks.kind is None else {"values": marks.kind}
    if isinstance(marks.unit, Categories):
        if words:
            said["words"] = list(marks.unit.words)
        if marks.unit.ordered:
            said["ordered"] = True
    elif marks.unit is not None:
        members = asdict(marks.unit).items()
        said |= {name: value for name, value in members if name != "kind" and value is not None}
    if marks.fields:
        said[FIELDS] = [
            {"name": one.name, "level": one.level}
            | {said: True for said in ("required", "present") if getattr(one, said)}
            for one in marks.fields
        ]
    if marks.attributes:
        said[ATTRIBUTES] = json.loads(marks.attributes)
    return said


def from_json(content: Any, where: str, also: Iterable[str] = (), *, words: bool = True) -> Marks:
    """Return the marks from the result of `to_json`.

    Args:
        content: parsed JSON.
        where: the place in the file, for messages.
        also: names of further members, which the caller reads.
        words: whether the words of categories are included; else the caller reads them.

    Raises:
        DamagedFileError: not a JSON object, or invalid members.
        UnsupportedError: marks of a later version.
    """
    if not isinstance(content, dict):
        raise DamagedFileError(f"{where}: marks: expected an object, found {shown(content)}")
    if not content:
        return NO_MARKS
    fields = _fields(content[FIELDS], where) if FIELDS in content else ()
    also_said = Marks(fields=fields, attributes=_attributes(content, where))
    kind = content.get("values")
    known = _MEMBERS.get(kind, _NONE) if isinstance(kind, str) else _NONE
    for name in content:
        if name not in ("values", FIELDS, ATTRIBUTES) and name not in known and name not in also:
            raise UnsupportedError(f"{where}: no mark {shown(name)} is known; use a later lod")
    if "values" not in content:
        return also_said
    if not isinstance(kind, str) or kind not in ALL_MARKS:
        raise UnsupportedError(
            f"{where}: no mark of values {shown(content['values'])} is known; use a later lod"
        )
    if content["values"] in VALUES:
        return replace(also_said, values=content["values"])
    if kind == "category":
        return replace(also_said, unit=_categories(content, where, words=words))
    told = {name: content[name] for name in known if name in content}
    kinds = {"unit": str, "zone": str, "precision": int, "scale": int, "bits": int}
    if not known - {"zone"} <= told.keys() or any(
        type(value) is not kinds[name] for name, value in told.items()
    ):
        raise DamagedFileError(f"{where}: marks: expected {sorted(known)}, found {shown(content)}")
    if content["values"] == "decimal":
        return replace(also_said, unit=Decimals(**told))
    return replace(also_said, unit=Times(content["values"], **told))


def _categories(content: dict[str, Any], where: str, *, words: bool) -> Categories:
    """Return the categories from the result of `to_json`; words only if they are included."""
    if "ordered" in content and content["ordered"] is not True:
        raise DamagedFileError(
            f"{where}: categories: ordered is true, found {shown(content['ordered'])}"
        )
    found = content.get("words") if words else []
    if not isinstance(found, list) or (not words and "words" in content):
        raise DamagedFileError(
            f"{where}: categories: expected {'a list of' if words else 'no'} words, found "
            f"{shown(content.get('words'))}"
        )
    try:
        return Categories(tuple(found), "ordered" in content)
    except InvalidDataError as error:
        raise DamagedFileError(f"{where}: {error}") from None


def _attributes(content: dict[str, Any], where: str) -> str:
    """Return the attributes from the result of `to_json`, as text."""
    return checked(content[ATTRIBUTES], where) if ATTRIBUTES in content else ""


def _fields(said: Any, where: str) -> tuple[Field, ...]:
    """Return the path of fields from the result of `to_json`."""
    found: list[Field] = []
    if not isinstance(said, list) or not 1 <= len(said) <= MOST_FIELDS:
        raise DamagedFileError(
            f"{where}: fields: expected a list of 1 to {MOST_FIELDS}, found {shown(said)}"
        )
    for one in said:
        members = one.keys() if isinstance(one, dict) else set()
        if not {"name", "level"} <= members <= {"name", "level", "required", "present"}:
            raise DamagedFileError(f"{where}: fields: no name and level: {shown(one)}")
        name, level = one["name"], one["level"]
        required, present = one.get("required", False), one.get("present", False)
        above = found[-1].level if found else 0
        if type(level) is not int or level < above or (not found and level):
            raise DamagedFileError(
                f"{where}: fields: the column begins at level 0, and no field above the one "
                f"before it, found {shown(level)}"
            )
        if "required" in one and (required is not True or one is said[-1]):
            raise DamagedFileError(
                f"{where}: fields: required is true, and of records, found {shown(one)}"
            )
        if "present" in one and (present is not True or one is not said[-1] or not found):
            raise DamagedFileError(
                f"{where}: fields: present is true, and of a field of records, found {shown(one)}"
            )
        try:
            check_name(name if isinstance(name, str) else "")
        except InvalidDataError as error:
            raise DamagedFileError(f"{where}: fields: {error}") from None
        found.append(Field(name, level, required, present))
    return tuple(found)


def check_fit(spec: TensorSpec, where: str) -> None:
    """Raise DamagedFileError if a tensor cannot have its marks."""
    wrong = _misfit(spec, spec.marks) if spec.marks or spec.nullable else None
    if wrong is not None:
        raise DamagedFileError(f"{where}: marks: {wrong}")


class Kept(NamedTuple):
    """Metadata that a flat file stores for a tensor beside its arrays.

    Attributes:
        masks: the names that its masks have within the tensor, such as "valid.0".
    """

    marks: Marks
    masks: tuple[str, ...] = ()


def mask_name(level: int, depth: int) -> str:
    """Return the name of the mask of a level within a tensor of `depth` levels.

    >>> mask_name(0, 1), mask_name(1, 1)
    ('valid.0', 'valid.rows')
    """
    return f"valid.{level if level < depth else 'rows'}"


def kept_json(spec: TensorSpec, masked: Iterable[int]) -> dict[str, Any]:
    """Return the marks of a tensor in a flat file, and the names of the masks of these levels."""
    masks = [mask_name(level, len(spec.levels)) for level in masked]
    return to_json(spec.marks) | ({NULLS: masks} if masks else {})


def kept_from_json(said: Any, where: str) -> Kept:
    """Return the metadata from the result of `kept_json`.

    Raises:
        DamagedFileError, UnsupportedError: it is damaged, or of a later version.
    """
    found = from_json(said, where, (NULLS,))
    masks = said.get(NULLS, [])
    texts = isinstance(masks, list) and all(isinstance(name, str) for name in masks)
    if not texts or len(set(masks)) < len(masks) or (NULLS in said and not masks):
        raise DamagedFileError(f"{where}: {NULLS}: expected names of masks, found {shown(masks)}")
    return Kept(found, tuple(masks))


def flat_json(
    schema: Schema, masked: Mapping[str, Iterable[int]], attributes: Mapping[str, Any]
) -> str | None:
    """Return the marks of all tensors for a flat file, and its attributes; None if there are none.

    Args:
        masked: the levels that have a mask, by tensor.

    Raises:
        UnsupportedError: they take more than MOST_BYTES, the limit of readers.
    """
    found = {spec.name: kept_json(spec, masked.get(spec.name, ())) for spec in schema}
    marks = {name: said for name, said in found.items() if said}
    if not marks and not attributes:
        return None
    of_file = {ATTRIBUTES: dict(attributes)} if attributes else {}
    text = json.dumps({**_FORMAT, "tensors": marks, **of_file}, separators=(",", ":"))
    if len(text) > MOST_BYTES:
        raise UnsupportedError(
            f"marks of tensors, such as categories and attributes, take {len(text)} bytes here, at "
            f"most {MOST_BYTES}; write lod.h5"
        )
    return text


class FlatMarks(NamedTuple):
    """Metadata that a flat file stores beside its arrays.

    Attributes:
        tensors: their marks and masks, by name.
    """

    tensors: Mapping[str, Kept]
    attributes: Mapping[str, Any]


def from_flat_json(text: str | bytes) -> FlatMarks | None:
    """Return the metadata from the result of `flat_json`; None if the text is something else.

    Raises:
        DamagedFileError, UnsupportedError: it is such text, but damaged or of a later version.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("format") != _FORMAT["format"]:
        return None
    if content.get("version") != 1:
        raise UnsupportedError(f"marks of version {shown(content.get('version'))}; this reads 1")
    tensors = content.get("tensors")
    if not isinstance(tensors, dict):
        raise DamagedFileError("marks: expected an object of tensors")
    return FlatMarks(
        {name: kept_from_json(said, f"tensor {shown(name)}") for name, said in tensors.items()},
        parsed(_attributes(content, "marks")),
    )


def remarked(schema: Schema, values: str) -> Schema:
    """Return the schema with other marks on all tensors that can have them.

    Args:
        values: "text", "bytes" or "numbers".

    Raises:
        UnsupportedError: no tensor can have them.
    """
    if values == "numbers":
        return tuple(
            replace(spec, marks=replace(spec.marks, values=None, unit=None)) for spec in schema
        )
    marks = from_json({"values": values}, "")
    fits = [_misfit(spec, marks) is None and spec.marks.categories is None for spec in schema]
    if not any(fits):
        raise UnsupportedError(f"{schema[0].name}: {_misfit(schema[0], marks)}")
    return tuple(
        replace(spec, marks=replace(spec.marks, values=marks.values, unit=None)) if fit else spec
        for spec, fit in zip(schema, fits, strict=True)
    )


def _misfit(spec: TensorSpec, marks: Marks) -> str | None:
    if spec.array:
        return "a TensorArray has no marks"
    if not marks:
        return None
    if marks.fields and marks.fields[-1].level > spec.depth:
        return f"field {marks.path} begins below the levels, of which there are {len(spec.levels)}"
    if marks.tells_records and marks.fields[-1].level < len(spec.levels):
        return f"{marks.path} marks which records are null, and has levels below them"
    return marks.misfit(spec.dtype, spec.row_shape, len(spec.levels))


def marked(schema: Schema, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches with the marks of a schema; values with new marks are checked.

    Raises:
        InvalidDataError: text is not UTF-8, or a code has no word; names the tensor and the item.
    """
    marks = {spec.name: spec.marks for spec in schema}
    done = dict.fromkeys(marks, 0)
    for batch in batches:
        yield {name: _marked(name, item, marks, done) for name, item in batch.items()}


def tensor_of(
    spec: TensorSpec, rows: Array, lod: LoD, nulls: Nulls = NO_NULLS, before: int = 0
) -> LoDTensor:
    """Return rows of a tensor under an index, with its marks and nulls, checked.

    Args:
        rows, lod, nulls: of some of its outermost items.
        before: number of outermost items before these, for messages.

    Raises:
        InvalidDataError: text is not UTF-8, a code has no word, a null item is not empty, or a
            null row is not zeros; names the tensor and the item.
    """
    if spec.marks is NO_MARKS and not nulls and type(rows) is np.ndarray:
        check_rows(lod.levels, rows.shape[0])
        return LoDTensor._made(rows, lod)
    marks = spec.marks.kept(lod.n_levels, len(spec.levels))
    if not nulls and not marks.is_text and marks.categories is None:
        return LoDTensor(rows, lod, marks)
    with naming(spec.name):
        _check(rows, lod, marks, nulls, before)
        return LoDTensor(rows, lod, marks, nulls)


def _marked(name: str, item: Item, marks: dict[str, Marks], done: dict[str, int]) -> Item:
    if isinstance(item, StoredArray) or name not in marks:
        return item
    done[name] += len(item)
    if item.marks == marks[name]:
        return item  # every reader checks its text
    if marks[name].of_values != item.marks.of_values:
        try:
            _check(item.values, item.lod, marks[name], item.nulls, done[name] - len(item))
        except InvalidDataError as error:
            raise InvalidDataError(f"{name}: {error}") from None
    return LoDTensor(item.values, item.lod, marks[name], item.nulls)


def check_content(items: Mapping[str, Item]) -> None:
    """Raise InvalidDataError for rows that no reader accepts: they may have been changed in place.

    Text is UTF-8, every code of categories has a word, and null rows are zeros.
    """
    for name, item in items.items():
        if not isinstance(item, StoredArray):
            with naming(name):
                _check(item.values, item.lod, item.marks, item.nulls)


def _check(rows: Array, lod: LoD, marks: Marks, nulls: Nulls, before: int = 0) -> None:
    """Raise InvalidDataError as `check_content`; `before` outermost items came before the rows."""
    if marks.is_text:
        check_text(rows, lod, before)
    elif marks.categories is not None:
        check_codes(rows, lod, marks.categories, nulls.rows, before)
    if nulls and without_null_rows(rows, nulls) is not rows:
        raise InvalidDataError("a row is null and not zero")
