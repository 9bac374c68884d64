"""The index.json of a MosaicML dataset: its shards and columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.format import LeftOut, leaving_out
from lodcli.formats.core.names import name_of, there_are
from lodcli.formats.records.mds_encodings import Encoding
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import SelectionError, UnsupportedError

NAME = "index.json"
VERSION = 2
MOST_BYTES = 256 << 20
# Not the shake functions, whose digests have any length.
_HASHES = {name for name in hashlib.algorithms_guaranteed if not name.startswith("shake")}


@dataclass(frozen=True)
class Shard:
    """One file of samples.

    Attributes:
        name: of the stored file.
        size_bytes: decompressed size.
        samples: number of samples.
        compressed: whether it is compressed with zstd.
        hashes: of the decompressed content, in hexadecimal, by the names of hashlib.
    """

    name: str
    size_bytes: int
    samples: int
    compressed: bool
    hashes: Mapping[str, str]


@dataclass(frozen=True)
class Index:
    """All shards, and their common columns, in the order in which samples store them.

    Attributes:
        shards: in order.
        columns: encodings by name; None: the column is not read.
        sizes: of their values; None: each sample states its size.
        left_out: columns that no tensor can hold.
    """

    shards: tuple[Shard, ...]
    columns: dict[str, Encoding | None]
    sizes: dict[str, int | None]
    left_out: LeftOut

    @property
    def samples(self) -> int:
        return sum(shard.samples for shard in self.shards)


def read_index(folder: Input, fields: tuple[str, ...] | None) -> Index:
    """Return the index of a folder; columns that `fields` does not name have no encoding.

    Raises:
        DamagedFileError: it is not a valid index.
        UnsupportedError: shards of other formats or versions, or columns that are not numbers.
        SelectionError: no such field.
    """
    said = folder.json_beside(NAME, MOST_BYTES)
    if isinstance(said, dict) and "chunks" in said:
        raise UnsupportedError(
            f"{NAME}: has chunks of LitData, which lod does not read; write its samples to Parquet"
        )
    if not isinstance(said, dict) or not isinstance(said.get("shards"), list):
        raise DamagedFileError(f"{NAME}: has no list of shards")
    if said.get("version") != VERSION:
        raise UnsupportedError(f"{NAME}: version {str(said.get('version'))[:20]}; expected 2")
    if not said["shards"]:
        raise UnsupportedError(f"{NAME}: has no shards, so its columns are unknown")
    first = said["shards"][0]
    shards = []
    for number, shard in enumerate(said["shards"]):
        where = f"{NAME}: shard {number}"
        if not isinstance(shard, dict):
            raise DamagedFileError(f"{where}: is not an object")
        for key in ("column_names", "column_encodings", "column_sizes"):
            if shard.get(key) != first.get(key):
                raise DamagedFileError(f"{where}: {key} differ from those of shard 0")
        shards.append(_shard(shard, where))
    return Index(tuple(shards), *_columns(first, fields))


def _shard(said: dict[str, Any], where: str) -> Shard:
    if said.get("format") != "mds":
        raise UnsupportedError(
            f"{where}: format {str(said.get('format'))[:20]!r}; expected 'mds', of MDSWriter"
        )
    compression = said.get("compression")
    if compression is not None and str(compression).split(":")[0] != "zstd":
        raise UnsupportedError(
            f"{where}: compression {str(compression)[:20]!r}; expected zstd; write the samples "
            "again with MDSWriter(compression='zstd'), or without compression"
        )
    raw, stored = said.get("raw_data"), said.get("zip_data" if compression else "raw_data")
    if not isinstance(raw, dict) or not isinstance(stored, dict):
        raise DamagedFileError(f"{where}: has no file name")
    name = stored.get("basename")
    size, samples = _count(raw.get("bytes")), _count(said.get("samples"))
    if not isinstance(name, str) or size is None or samples is None:
        raise DamagedFileError(f"{where}: expected a name, a size and a number of samples")
    folder, *rest = name.split("/")
    if rest and not {"", ".", ".."} & {folder, *rest}:
        raise UnsupportedError(
            f"{where}: is in the folder {folder[:255]!r}, as merge_index of Streaming writes; read "
            "folders that have an index of their own, and join them with lod concat"
        )
    if 4 * (samples + 2) > size:
        raise DamagedFileError(f"{where}: {size} bytes cannot hold {samples} samples")
    return Shard(name, size, samples, compression is not None, _hashes(raw.get("hashes"), where))


def _hashes(said: object, where: str) -> dict[str, str]:
    """Return the hashes that Python can compute; others, such as xxh64, are left out."""
    if not isinstance(said, dict) or not all(isinstance(one, str) for one in said.values()):
        if said is None:
            return {}
        raise DamagedFileError(f"{where}: its hashes are not texts by name")
    return {name: one for name, one in said.items() if name in _HASHES}


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 48 else None


def _columns(
    said: dict[str, Any], fields: tuple[str, ...] | None
) -> tuple[dict[str, Encoding | None], dict[str, int | None], LeftOut]:
    lists = [said.get(f"column_{what}") for what in ("names", "encodings", "sizes")]
    if not all(isinstance(one, list) and one and len(one) == len(lists[0] or ()) for one in lists):
        raise DamagedFileError(f"{NAME}: the lists of columns differ in length")
    names, encodings, sizes = (list(one or ()) for one in lists)
    if not all(isinstance(text, str) for text in (*names, *encodings)):
        raise DamagedFileError(f"{NAME}: a column has no name or encoding")
    if len(set(names)) < len(names):
        raise DamagedFileError(f"{NAME}: two columns have the same name")
    if not all(size is None or _count(size) is not None for size in sizes):
        raise DamagedFileError(f"{NAME}: a column's size is not a number")
    names = list(map(name_of, names))
    if len(set(names)) < len(names):
        raise UnsupportedError(f"{NAME}: two columns have the same tensor name")
    chosen = names if fields is None else list(map(name_of, fields))
    for field in chosen:
        if field not in names:
            raise SelectionError(f"no column {field!r}; {there_are(names, field)}")
    columns: dict[str, Encoding | None] = dict.fromkeys(names)
    left_out: LeftOut = {}
    for name, encoding, size in zip(names, encodings, sizes, strict=True):
        if name not in chosen:
            continue
        with leaving_out(left_out, name):
            found = columns[name] = Encoding.of(name, encoding)
            if (size or None) != (found.size_bytes or None):
                raise DamagedFileError(
                    f"{NAME}: column {name}: {encoding} with the size {size}, not "
                    f"{found.size_bytes}"
                )
    if len(left_out) == len(chosen):
        raise next(iter(left_out.values()))
    told = {name: size or None for name, size in zip(names, sizes, strict=True)}
    return columns, told, left_out
