"""The header and the trailer of a lod stream. docs/stream.md, "Header" and "Trailer"."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lodcli.formats.core import marks
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.names import check_name
from lodcli.formats.core.schema import LevelSpec, Schema, TensorSpec, rekeyed
from lodcli.formats.structs.tree import check_tree
from lodcli.formats.values.file_attributes import checked, parsed
from lodcli.kernels.dtypes import ALL_DTYPES, dtype_of_rows
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.lod import is_level_name

FORMAT = "lod-stream"
# Version 2 is written only for what version 1 cannot hold.
VERSION, VERSION_OF_MARKS = 1, 2
JSON_LIMIT_BYTES = 16 << 20
# Lists and objects take some hundred bytes each once parsed; the limit is for hostile headers.
LISTS_LIMIT = 1 << 18
LEVELS_LIMIT = 255
# The part number of a mask is the number of its tensor times this plus its level; with L levels,
# level L is the rows.
VALID_LEVELS = LEVELS_LIMIT + 1
ROW_AXES_LIMIT = 63
# A string of JSON. It may lack its end, so that damaged input takes linear time as well.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class StreamHeader:
    """Schema of a stream.

    Attributes:
        schema: the tensors; the key of a level is its number in `levels`.
        levels: the level table.
        attributes: of the file, as text; "" for none.
    """

    schema: Schema
    levels: tuple[LevelSpec, ...]
    version: int = VERSION
    attributes: str = ""


@dataclass(frozen=True)
class Trailer:
    """Totals of a complete stream.

    Attributes:
        batches: number of batches.
        frames: number of frames before the trailer.
        headers_crc32c: CRC32C of the headers of those frames.
        levels: items of each level of the table.
        tensors: rows of each tensor.
    """

    batches: int
    frames: int
    headers_crc32c: int
    levels: tuple[int, ...]
    tensors: tuple[int, ...]

    def encode(self) -> bytes:
        """Return the trailer's payload."""
        return _canonical(vars(self))

    def check(self, payload: bytes) -> None:
        """Raise DamagedFileError unless `payload` is this trailer."""
        if payload == self.encode():
            return
        said = _parse(payload, "trailer")
        for key, found in json.loads(self.encode()).items():
            if not isinstance(said, dict) or said.get(key) != found:
                told = said.get(key) if isinstance(said, dict) else said
                raise DamagedFileError(
                    f"trailer: {key}: it says {told!r:.80}, the stream holds {found!r:.80}"
                )
        raise DamagedFileError("trailer: not written in canonical form")


def numbers(levels: tuple[LevelSpec, ...]) -> list[int]:
    """Return the numbers in the level table."""
    return [int(level.key) for level in levels]


def plan(schema: Schema, attributes: str = "") -> StreamHeader:
    """Return the header for tensors to be written.

    Levels are shared only if their names are equal too. A TensorArray shares no levels.
    """
    specs = tuple(
        replace(spec, dtype=spec.dtype.newbyteorder("="))
        for spec in rekeyed(schema, same=lambda level: (level.key, level.name))
    )
    table: dict[str, LevelSpec] = {}
    for spec in specs:
        for level in (*spec.levels, *spec.outer):
            table.setdefault(level.key, level)
    said = attributes or any(spec.marks or spec.nullable for spec in specs)
    version = VERSION_OF_MARKS if said else VERSION
    return StreamHeader(specs, tuple(table.values()), version, attributes)


def encode(header: StreamHeader) -> bytes:
    """Return the payload of the header frame.

    Raises:
        UnsupportedError: more tensors or levels than a header may hold.
    """
    payload = _canonical(_content(header))
    if len(payload) > JSON_LIMIT_BYTES:
        raise UnsupportedError(
            f"a lod stream cannot hold this: a header of {len(payload)} bytes, at most "
            f"{JSON_LIMIT_BYTES}; write lod.h5"
        )
    try:
        decode(payload, header.version)  # must not be written, since no reader accepts it
    except DamagedFileError as error:
        raise UnsupportedError(f"a lod stream cannot hold this: {error}") from None
    return payload


def decode(payload: bytes, version: int | None = None) -> StreamHeader:
    """Return the header, every member of it checked.

    Args:
        payload: of the header's frame.
        version: in the prefix of the stream; None if only a header was sent.

    Raises:
        DamagedFileError: names the member, what was expected and found.
    """
    said = _parse(payload, "header")
    also = (marks.ATTRIBUTES,) if isinstance(said, dict) and marks.ATTRIBUTES in said else ()
    content = _members(said, "header", ("format", "version", "levels", "tensors", *also))
    _require(content["format"] == FORMAT, "format", repr(FORMAT), content["format"])
    versions = (VERSION, VERSION_OF_MARKS) if version is None else (version,)
    known = type(content["version"]) is int and content["version"] in versions
    _require(known, "version", " or ".join(map(str, versions)), content["version"])
    version = content["version"]
    _require(version != VERSION or not also, "version", "2, for attributes", version)
    table = tuple(
        _level(value, number) for number, value in enumerate(_list(content["levels"], "levels"))
    )
    owners: list[tuple[str, int]] = []
    schema = tuple(
        _tensor(value, f"tensor {number}", table, owners, version)
        for number, value in enumerate(_list(content["tensors"], "tensors"))
    )
    _require(bool(schema), "tensors", "at least one", [])
    _require(len(owners) == len(table), "levels", f"the {len(owners)} in use", len(table))
    names = [spec.name for spec in schema]
    _require(len(set(names)) == len(names), "tensors", "names that differ", names)
    # Last, because the checks above have more specific messages.
    check_tree(schema, "header")
    attributes = checked(content[marks.ATTRIBUTES], "header") if also else ""
    header = StreamHeader(schema, table, version, attributes)
    if _canonical(_content(header)) != payload:
        raise DamagedFileError("header: not written in canonical form")
    return header


def _level(value: object, number: int) -> LevelSpec:
    where = f"level {number}"
    level = _members(value, where, ("name", "items"))
    name, items = level["name"], level["items"]
    valid = name is None or (isinstance(name, str) and is_level_name(name))
    _require(valid, f"{where}: name", "a level name or null", name)
    _require(items is None or _is_count(items), f"{where}: items", "a count or null", items)
    return LevelSpec(str(number), name, items)


def _tensor(
    value: object,
    where: str,
    table: tuple[LevelSpec, ...],
    owners: list[tuple[str, int]],
    version: int,
) -> TensorSpec:
    keys: tuple[str, ...] = ("name", "dtype", "row_shape", "levels", "rows", "array")
    if version == VERSION_OF_MARKS:
        keys = (*keys, "marks")
    tensor = _members(value, where, keys)
    name, dtype, rows, array = (tensor[key] for key in ("name", "dtype", "rows", "array"))
    _require(isinstance(name, str), f"{where}: name", "text", name)
    try:
        check_name(name)
    except LodError as error:
        raise DamagedFileError(f"header: {where}: {error}") from None
    where = f"tensor {name}"
    known = isinstance(dtype, str) and dtype in ALL_DTYPES
    _require(known, f"{where}: dtype", "one of the specification", dtype)
    _require(rows is None or _is_count(rows), f"{where}: rows", "a count or null", rows)
    root = "" if array is None else f"{name}/steps"
    levels = _references(tensor["levels"], f"{where}: levels", table, owners, root)
    outer: tuple[LevelSpec, ...] = ()
    if array is not None:
        inner = _members(array, f"{where}: array", ("outer",))["outer"]
        outer = _references(inner, f"{where}: outer", table, owners, f"{name}/outer")
        _require(bool(levels and outer), where, "levels of the steps and outer levels", array)
    said = tensor.get("marks", {})
    nullable = isinstance(said, dict) and said.get(marks.NULLS, False)
    _require(type(nullable) is bool, f"{where}: {marks.NULLS}", "true", nullable)
    spec = TensorSpec(
        name=name,
        dtype=dtype_of_rows(dtype),
        row_shape=_row_shape(tensor["row_shape"], f"{where}: row_shape", dtype_of_rows(dtype)),
        levels=levels,
        rows=rows,
        array=array is not None,
        outer=outer,
        marks=marks.from_json(said, f"header: {where}", (marks.NULLS,)),
        nullable=nullable,
    )
    marks.check_fit(spec, f"header: {where}")
    return spec


def _row_shape(value: object, where: str, dtype: np.dtype[Any]) -> tuple[int, ...]:
    shape = tuple(_list(value, where))
    _require(all(map(_is_count, shape)), where, "counts", value)
    _require(len(shape) <= ROW_AXES_LIMIT, where, f"at most {ROW_AXES_LIMIT} axes", len(shape))
    # NumPy's check for overflow leaves out axes of size 0, and so does this one.
    size = math.prod(axis or 1 for axis in shape) * dtype.itemsize
    _require(size <= _INT64_MAX, where, "a row that fits memory", value)
    return shape


def _references(
    value: object,
    where: str,
    table: tuple[LevelSpec, ...],
    owners: list[tuple[str, int]],
    root: str,
) -> tuple[LevelSpec, ...]:
    """Return levels of the table; each is new there, or shared together with all levels above it.

    Args:
        owners: the root and the level above of each level seen so far.
    """
    found = _list(value, where)
    _require(len(found) <= LEVELS_LIMIT, where, f"at most {LEVELS_LIMIT} levels", len(found))
    parent, levels = -1, []
    for number in found:
        _require(_is_count(number) and number < len(table), where, "levels of the table", value)
        if number == len(owners):
            owners.append((root, parent))
        fits = number < len(owners) and owners[number] == (root, parent)
        _require(fits, where, "each level under one level, numbered by first use", value)
        levels.append(table[number])
        parent = number
    return tuple(levels)


# -- JSON --------------------------------------------------------------------------


def _content(header: StreamHeader) -> dict[str, object]:
    return {
        "format": FORMAT,
        "version": header.version,
        "levels": [{"name": level.name, "items": level.items} for level in header.levels],
        "tensors": [
            {
                "name": spec.name,
                "dtype": spec.dtype.name,
                "row_shape": list(spec.row_shape),
                "levels": numbers(spec.levels),
                "rows": spec.rows,
                "array": {"outer": numbers(spec.outer)} if spec.array else None,
                **(_marks_json(spec) if header.version == VERSION_OF_MARKS else {}),
            }
            for spec in header.schema
        ],
        **({marks.ATTRIBUTES: parsed(header.attributes)} if header.attributes else {}),
    }


def _marks_json(spec: TensorSpec) -> dict[str, object]:
    return {"marks": marks.to_json(spec.marks) | ({marks.NULLS: True} if spec.nullable else {})}


def _canonical(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _parse(payload: bytes, what: str) -> Any:
    if _lists(payload) > LISTS_LIMIT and _lists(_STRING.sub(b"", payload)) > LISTS_LIMIT:
        raise DamagedFileError(f"{what}: more than {LISTS_LIMIT} lists and objects")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            raise DamagedFileError(
                f"{what}: a key appears twice in {[key for key, _ in pairs]!r:.80}"
            )
        return result

    try:
        return json.loads(payload.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(f"{what}: is not JSON ({error!s:.80})") from None


def _lists(payload: bytes) -> int:
    return payload.count(b"[") + payload.count(b"{")


def _members(value: object, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        found = sorted(value) if isinstance(value, dict) else value
        raise DamagedFileError(
            f"header: {where}: expected the members {', '.join(keys)}, found {found!r:.80}"
        )
    return value


def _list(value: object, where: str) -> list[Any]:
    _require(isinstance(value, list), where, "a list", value)
    assert isinstance(value, list)
    return value


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _INT64_MAX


def _require(holds: bool, where: str, expected: str, found: object) -> None:
    if not holds:
        raise DamagedFileError(f"header: {where}: expected {expected}, found {found!r:.80}")
