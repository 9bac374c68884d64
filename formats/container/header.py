"""The header as checked JSON: datasets and their checksums. docs/format.md, 3."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any, NamedTuple

from lodcli.formats.arrays import crc32c
from lodcli.formats.container.checksums import HEX_DIGITS
from lodcli.formats.container.types import NAMES, numpy_type
from lodcli.formats.core import marks
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.names import check_name, component
from lodcli.formats.core.schema import (
    DEFAULT_NAME,
    MOST_LEVELS,
    LevelSpec,
    Schema,
    TensorSpec,
    rekeyed,
)
from lodcli.formats.structs.tree import check_tree
from lodcli.formats.values.file_attributes import checked, parsed
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.lod import is_level_name
from lodcli.kernels.tensor.marks import MOST_WORD_BYTES, MOST_WORDS

# Version 2 is written only for content that version 1 cannot hold.
VERSION, VERSION_OF_MARKS = 1, 2
PATH = "/header"
LIMIT_BYTES = 1 << 28
_DATASET_PATH = re.compile(
    r"(/[^/\0]{1,255})?/(data|order|(index|outer|valid)/(0|[1-9][0-9]?)|valid/rows|"
    r"categories/(words|offsets))"
)
_DATASET_KEYS = frozenset({"dtype", "shape", "block_rows", "crc32c"})
_TENSOR_KEYS = frozenset({"kind", "data", "levels"})
_LEVEL_KEYS = frozenset({"offsets", "name"})
# Names in the root group that cannot be groups of tensors.
_RESERVED = frozenset({"header", "index", "order", "outer"})
_TAIL = ',"crc32c":"%08x"}'
_TAIL_BYTES = len(_TAIL % 0)


class DatasetEntry(NamedTuple):
    """The header's entry of one dataset.

    Attributes:
        dtype: name of the dtype.
        shape: (N, D1, ..).
        block_rows: rows per checksum.
        crc32c: the checksums, eight hexadecimal digits a block.
    """

    dtype: str
    shape: tuple[int, ...]
    block_rows: int
    crc32c: str


@dataclass(frozen=True)
class Header:
    """The whole header of a container.

    The schema's level keys are the paths of the offsets datasets.

    Attributes:
        attributes: of the file, as text; "" for none.
    """

    schema: Schema
    datasets: Mapping[str, DatasetEntry]
    attributes: str = ""

    def masks(self, spec: TensorSpec) -> list[int]:
        """Return the levels of a tensor that have a mask; see `mask_path`."""
        if not spec.nullable:
            return []
        levels = range(len(spec.levels) + 1)
        return [level for level in levels if mask_path(spec, level) in self.datasets]


def mask_path(spec: TensorSpec, level: int) -> str:
    """Return where the mask of a level is stored; the rows are the level below the finest."""
    return part_path(spec.name, f"valid/{level if level < len(spec.levels) else 'rows'}")


def word_paths(spec: TensorSpec) -> tuple[str, str]:
    """Return where the dictionary of a tensor is: the bytes of its words, and their offsets."""
    return part_path(spec.name, "categories/words"), part_path(spec.name, "categories/offsets")


def data_path(name: str) -> str:
    """Return where the rows of a tensor are stored."""
    return part_path(name, "data")


def as_tree(by_path: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by path as nested dicts of groups and datasets.

    >>> as_tree({"/a/data": 1, "/order": 2})
    {'a': {'data': 1}, 'order': 2}
    """
    root: dict[str, Any] = {}
    for path, what in by_path.items():
        *parents, name = path[1:].split("/")
        group = root
        for parent in parents:
            group = group.setdefault(parent, {})
        group[name] = what
    return root


def part_path(name: str, part: str) -> str:
    """Return where another part of a tensor is stored: "index/0", "outer/1", "order"."""
    return f"/{part}" if name == DEFAULT_NAME else f"/{component(name, _RESERVED)}/{part}"


def encode(header: Header) -> bytes:
    """Return the header as JSON, with a checksum of all preceding bytes as its last member."""
    tensors = {}
    masks = {spec.name: header.masks(spec) for spec in header.schema}
    marked = any(spec.marks or masks[spec.name] for spec in header.schema)
    version = VERSION_OF_MARKS if marked or header.attributes else VERSION
    for spec in header.schema:
        entry: dict[str, Any] = {
            "kind": "array" if spec.array else "tensor",
            "data": data_path(spec.name),
            "levels": _levels_json(spec.levels),
        }
        if spec.array:
            entry["order"] = part_path(spec.name, "order")
            entry["outer"] = _levels_json(spec.outer)
        if version == VERSION_OF_MARKS:
            entry["marks"] = marks.to_json(spec.marks, words=False)
            if masks[spec.name]:
                entry["marks"][marks.NULLS] = masks[spec.name]
        tensors[spec.name] = entry
    datasets = {
        path: {
            "dtype": entry.dtype,
            "shape": list(entry.shape),
            "block_rows": entry.block_rows,
            "crc32c": entry.crc32c,
        }
        for path, entry in header.datasets.items()
    }
    content = {"format": "lod", "version": version, "tensors": tensors, "datasets": datasets}
    if header.attributes:
        content[marks.ATTRIBUTES] = parsed(header.attributes)
    body = json.dumps(content, separators=(",", ":"), ensure_ascii=True).encode()[:-1]
    return body + (_TAIL % crc32c.value(body)).encode()


def checksum(raw: bytes) -> int:
    """Return the CRC32C that the last member of a header must contain."""
    return crc32c.value(raw[:-_TAIL_BYTES])


def _levels_json(levels: tuple[LevelSpec, ...]) -> list[dict[str, object]]:
    return [{"offsets": level.key, "name": level.name} for level in levels]


def decode(raw: bytes) -> Header:
    """Return the header decoded from JSON.

    Raises:
        DamagedFileError: the checksum or a member does not conform to docs/format.md.
        UnsupportedError: another version.
    """
    tail, expected = raw[-_TAIL_BYTES:], _TAIL % checksum(raw)
    try:
        content = json.loads(raw, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{PATH}: is not JSON ({error})") from None
    _require(isinstance(content, dict), "is not a JSON object")
    _require(content.get("format") == "lod", 'is not of a lod container ("format")')
    version = content.get("version")
    known = (VERSION, VERSION_OF_MARKS)
    if version not in known or type(version) is not int:  # nor 1.0, nor true
        raise UnsupportedError(
            f"{PATH}: container version {shown(version)}; this program reads versions 1 and 2"
        )
    if tail != expected.encode():
        raise DamagedFileError(f"{PATH}: the checksum does not match; the header was altered")
    said = {marks.ATTRIBUTES} & content.keys() if version == VERSION_OF_MARKS else set()
    members = {"format", "version", "tensors", "datasets", "crc32c"}
    _exact_keys(content, members | said, "the header")
    attributes = checked(content[marks.ATTRIBUTES], PATH) if said else ""
    datasets = {path: _dataset(path, entry) for path, entry in _items(content, "datasets")}
    tensors = _items(content, "tensors")
    owners = {part_path(name, "") for name, _ in tensors}
    keys = _TENSOR_KEYS | ({"marks"} if version == VERSION_OF_MARKS else set())
    schema = tuple(_tensor(name, entry, datasets, owners, keys) for name, entry in tensors)
    _require(bool(schema), "names no tensor")
    _require_all_used(schema, datasets)
    # Each word takes some ten times its bytes in memory, and compressed files little.
    words = sum(datasets[word_paths(spec)[1]].shape[0] for spec in schema if spec.marks.categories)
    _require(words <= 4 * MOST_WORDS, f"categories: at most {4 * MOST_WORDS} words in all")
    _require_shared_from_the_top(schema)
    check_tree(schema, PATH)
    return Header(schema, datasets, attributes)


def _dataset(path: str, entry: Any) -> DatasetEntry:
    # Not `_require` where a message shows a value: formatting it took most of the time.
    if _DATASET_PATH.fullmatch(path) is None:
        raise _damaged(f"{shown(path)} is not a path of a dataset")
    _exact_keys(entry, _DATASET_KEYS, path)
    dtype, shape, rows, sums = entry["dtype"], entry["shape"], entry["block_rows"], entry["crc32c"]
    if not isinstance(dtype, str) or dtype not in NAMES:
        raise _damaged(f"{path}: unknown dtype {shown(dtype)}")
    if not (isinstance(shape, list) and 1 <= len(shape) <= 32 and all(map(_is_count, shape))):
        raise _damaged(f"{path}: {shown(shape)} is not a shape")
    size = numpy_type(dtype).itemsize
    # Axes of length 0 count as 1: NumPy also refuses empty arrays whose other axes are too long.
    if size * math.prod([n or 1 for n in shape]) >= 1 << 62:
        raise _damaged(f"{path}: shape is too large")
    row_bytes = size * math.prod(shape[1:])
    if not _is_count(rows) or rows <= 0:
        raise _damaged(f"{path}: block_rows must be positive")
    blocks = -(-shape[0] // rows) if row_bytes else 0
    if not isinstance(sums, str) or len(sums) != HEX_DIGITS * blocks:
        raise _damaged(f"{path}: {blocks} blocks need {blocks} checksums")
    return DatasetEntry(dtype, tuple(shape), rows, sums)


def _tensor(
    name: str,
    entry: Any,
    datasets: Mapping[str, DatasetEntry],
    owners: set[str],
    keys: frozenset[str],
) -> TensorSpec:
    try:
        check_name(name)
    except InvalidDataError as error:
        raise DamagedFileError(f"{PATH}: {error}") from None
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if kind not in ("tensor", "array"):
        raise _damaged(f"{name}: unknown kind of tensor {shown(kind)}")
    _exact_keys(entry, keys | {"order", "outer"} if kind == "array" else keys, name)
    path = data_path(name)
    _require(entry["data"] == path, f"{name}: data must be at {path}")
    data = _named(datasets, path, name)
    outer: tuple[LevelSpec, ...] = ()
    levels = _levels(entry["levels"], datasets, name, "index", owners)
    if kind == "array":
        order = part_path(name, "order")
        _require(entry["order"] == order, f"{name}: order must be at {order}")
        _require_offsets(_named(datasets, order, name), order)
        outer = _levels(entry["outer"], datasets, name, "outer", owners)
        _require(bool(levels) and bool(outer), f"{name}: an array needs steps and outer levels")
    spec = TensorSpec(
        name=name,
        dtype=numpy_type(data.dtype),
        row_shape=data.shape[1:],
        levels=levels,
        rows=data.shape[0],
        array=kind == "array",
        outer=outer,
        marks=marks.from_json(
            entry.get("marks", {}), f"{PATH}: {name}", (marks.NULLS,), words=False
        ),
        nullable=marks.NULLS in entry.get("marks", {}),
    )
    marks.check_fit(spec, f"{PATH}: {name}")
    if spec.nullable:
        _check_masks(spec, entry["marks"][marks.NULLS], datasets)
    if spec.marks.categories is not None:
        _check_dictionary(spec, datasets)
    return spec


def _check_dictionary(spec: TensorSpec, datasets: Mapping[str, DatasetEntry]) -> None:
    """Raise DamagedFileError unless the datasets of the words exist, with valid types and sizes."""
    words, offsets = (_named(datasets, path, spec.name) for path in word_paths(spec))
    where = part_path(spec.name, "categories")
    _require(
        words.dtype == "uint8"
        and len(words.shape) == 1
        and (offsets.dtype, len(offsets.shape)) == ("int64", 1),
        f"{where}: words must be uint8, their offsets int64, both 1-D",
    )
    _require(
        words.shape[0] <= MOST_WORD_BYTES and offsets.shape[0] <= MOST_WORDS + 1,
        f"{where}: at most {MOST_WORDS} words of {MOST_WORD_BYTES} bytes",
    )


def _check_masks(spec: TensorSpec, said: Any, datasets: Mapping[str, DatasetEntry]) -> None:
    """Raise DamagedFileError unless the masks exist, with a bit for each item of their level."""
    depth = len(spec.levels)
    _require(
        isinstance(said, list)
        and all(_is_count(level) and level <= depth for level in said)
        and bool(said)
        and said == Header((), datasets).masks(spec),
        f"{spec.name}: {marks.NULLS}: expected the levels that have a mask, found {shown(said)}",
    )
    for level in said:
        path = mask_path(spec, level)
        entry = _named(datasets, path, spec.name)
        items = spec.rows if level == depth else spec.levels[level].items
        assert items is not None
        _require(
            entry.dtype == "uint8" and entry.shape == (-(-items // 8),),
            f"{path}: a mask of {items} items must be uint8 of shape {(-(-items // 8),)}",
        )


def _levels(
    entries: Any, datasets: Mapping[str, DatasetEntry], tensor: str, part: str, owners: set[str]
) -> tuple[LevelSpec, ...]:
    _require(isinstance(entries, list), f"{tensor}: levels are not a list")
    _require(len(entries) <= MOST_LEVELS, f"{tensor}: more than {MOST_LEVELS} levels")
    levels = []
    for number, entry in enumerate(entries):
        _exact_keys(entry, _LEVEL_KEYS, f"{tensor}: a level")
        path, name = entry["offsets"], entry["name"]
        offsets = _named(datasets, path, tensor)
        owner = path.removesuffix(f"{part}/{number}")
        if owner == path or owner not in owners:
            raise _damaged(f"{tensor}: {path} is not a path for level {number}")
        _require_offsets(offsets, path)
        if name is not None and not (isinstance(name, str) and is_level_name(name)):
            raise _damaged(f"{tensor}: {shown(name)} is not a valid level name")
        levels.append(LevelSpec(path, name, offsets.shape[0] - 1))
    return tuple(levels)


def _named(datasets: Mapping[str, DatasetEntry], path: Any, tensor: str) -> DatasetEntry:
    if not isinstance(path, str) or path not in datasets:
        raise _damaged(f"{tensor}: no dataset {shown(path)}")
    return datasets[path]


def _require_offsets(entry: DatasetEntry, path: str) -> None:
    if entry.dtype != "int64" or len(entry.shape) != 1:
        raise _damaged(f"{path}: offsets must be int64, 1-D")


def _require_all_used(schema: Schema, datasets: Mapping[str, DatasetEntry]) -> None:
    used = set()
    for spec in schema:
        used.add(data_path(spec.name))
        used.update(level.key for level in (*spec.levels, *spec.outer))
        if spec.array:
            used.add(part_path(spec.name, "order"))
        if spec.marks.categories is not None:
            used.update(word_paths(spec))
        if spec.nullable:
            used.update(mask_path(spec, level) for level in range(len(spec.levels) + 1))
    for path in () if datasets.keys() <= used else datasets:
        _require(path in used, f"{path}: belongs to no tensor")


def _require_shared_from_the_top(schema: Schema) -> None:
    """Raise for a level shared by tensors with different levels above it."""
    keys = [level.key for spec in schema for level in (*spec.levels, *spec.outer)]
    if len(set(keys)) == len(keys):
        return
    seen: dict[str, str] = {}
    for spec, ruled in zip(schema, rekeyed(schema), strict=True):
        for level, rule in zip(
            (*spec.levels, *spec.outer), (*ruled.levels, *ruled.outer), strict=True
        ):
            _require(
                seen.setdefault(level.key, rule.key) == rule.key,
                f"{level.key}: shared by tensors that differ in the levels above it",
            )


def _items(content: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    _require(isinstance(content[key], dict), f'"{key}" is not an object')
    return list(content[key].items())


def _exact_keys(entry: Any, keys: AbstractSet[str], what: str) -> None:
    if not isinstance(entry, dict):
        raise _damaged(f"{what}: is not an object")
    if entry.keys() == keys:
        return
    for key in sorted(keys ^ entry.keys()):
        problem = "lacks" if key in keys else "has an unknown"
        raise DamagedFileError(f"{PATH}: {what} {problem} member {shown(key)}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a member appears twice")
    return result


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise _damaged(what)


def _damaged(what: str) -> DamagedFileError:
    return DamagedFileError(f"{PATH}: {what}")
