"""mds: the datasets of MosaicML Streaming, a folder of shards and an index.json."""

from __future__ import annotations

import hashlib
import json
import struct
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from itertools import chain
from typing import Any, BinaryIO

import numpy as np

from lodcli.formats.arrays.spool import Spool, SpooledArray
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, naming
from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.formats.records.mds_encodings import DTYPES, Encoding
from lodcli.formats.records.mds_index import NAME, VERSION, Index, Shard, read_index
from lodcli.formats.records.samples import LEVEL, Sample, blocks, collected, samples, spec_of
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array

SHARD_BYTES = 1 << 26
# Hash of written shards; StreamingDataset(validate_hash=..) checks it.
HASH = "sha256"
MOST_SAMPLE_BYTES = 2**32 - 1


class Mds(Format):
    """Samples with columns of numbers, arrays and text, as StreamingDataset reads them.

    - numbers (`int`, `float32`, ..) and arrays of a fixed shape: tensors without levels;
    - arrays of any shape and text (`ndarray`, `str`, `bytes`): one level, "sample"; the dtype and
      all axes but the first must agree.

    Other columns (JSON, images, pickles) are refused unless `--field` leaves them out.
    The writer makes `bytes` for a level of uint8, else arrays, which cannot be empty in MDS.
    Shards compressed with zstd are read with pyarrow. Hashes of a shard in the index are checked
    after the whole shard was read, if hashlib has their algorithm; SHA-256 is written.
    """

    name = "mds"
    max_levels = 1
    dtypes = DTYPES
    many = True
    kept_marks = frozenset({"text"})
    record = "sample"
    options = frozenset({"field"})
    modules = ("lodcli.formats.arrow.zstd",)
    layout = "folder"
    folder_files = r"index\.json|shard\.[0-9]{5,}\.mds(\.zstd)?"

    def open(self, source: Input, options: ReadOptions) -> Source:
        if not source.is_folder:
            raise UnsupportedError(f"mds is a folder with an {NAME}; name the folder")
        return _MdsSource(source, read_index(source, options.field))

    def given_level_names(self, spec: TensorSpec, options: WriteOptions) -> tuple[str, ...]:
        return (LEVEL,)

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        for spec in schema:
            if 0 in spec.row_shape:  # a sample does not keep how many rows without bytes it has
                raise UnsupportedError(f"mds holds no rows of shape {spec.row_shape}: {spec.name}")
        _refuse_shapes(tuple(spec for spec in schema if spec.items == 0))

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        with closing(_Writer(output, schema)) as writer:
            for block in blocks(self, schema, batches, output):
                for sample in samples(block):
                    writer.add(sample)
            writer.finish()


class _MdsSource(Source):
    """An open folder. One shard is open at a time."""

    records = True

    def __init__(self, source: Input, index: Index) -> None:
        self._source = source
        self._index = index
        self.left_out = index.left_out
        encodings = {name: one for name, one in index.columns.items() if one is not None}
        first = next(iter(self._samples()), None)
        specs = []
        for name, encoding in encodings.items():
            value = first[name] if first else _none(encoding)
            items, text = index.samples, encoding.unicode
            specs.append(spec_of(name, value, ragged=encoding.ragged, items=items, text=text))
        self.schema: tuple[TensorSpec, ...] = tuple(specs)
        if all(shard.hashes for shard in index.shards):
            names = sorted({name for shard in index.shards for name in shard.hashes})
            self.checksums = f"{' and '.join(names)} of every shard"

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        return collected(self.schema, self._samples(), limit_bytes)

    def _samples(self) -> Iterator[Sample]:
        for shard in self._index.shards:
            with naming(shard.name):
                yield from self._of_shard(shard)

    def _of_shard(self, shard: Shard) -> Iterator[Sample]:
        with ExitStack() as stack:
            file: Any = stack.enter_context(self._source.beside(shard.name)).file
            if shard.compressed:
                allowed = self._source.bounds
                from lodcli.formats.arrow.zstd import decompressed

                file = stack.enter_context(decompressed(file, shard.size_bytes, allowed))
            hashes = {name: hashlib.new(name) for name in shard.hashes}
            bounds = _bounds(file, shard)
            file.seek(0)
            _update(hashes, file.read(int(bounds[0])))
            for sample in range(shard.samples):
                start, stop = int(bounds[sample]), int(bounds[sample + 1])
                file.seek(start)
                data = file.read(stop - start)
                with naming(f"sample {sample}"):
                    if len(data) != stop - start:
                        raise DamagedFileError("the file ended while it was read")
                    _update(hashes, data)
                    yield self._decoded(data)
            for name, found in hashes.items():
                if found.hexdigest() != shard.hashes[name].lower():
                    raise DamagedFileError(
                        f"expected the {name} {shard.hashes[name][:128]} as in {NAME}, "
                        f"found {found.hexdigest()}"
                    )

    def _decoded(self, data: bytes) -> Sample:
        at = 4 * sum(size is None for size in self._index.sizes.values())
        if len(data) < at:
            raise DamagedFileError(f"has {len(data)} bytes, the sizes of its columns need {at}")
        told = iter(struct.unpack_from(f"<{at // 4}I", data))
        values = {}
        for name, encoding in self._index.columns.items():
            fixed = self._index.sizes[name]
            size = next(told) if fixed is None else fixed
            if at + size > len(data):
                raise DamagedFileError(f"column {name}: needs {size} bytes, {len(data) - at} left")
            if encoding is not None:
                with naming(f"column {name}"):
                    values[name] = encoding.decode(data[at : at + size])
            at += size
        if at != len(data):
            raise DamagedFileError(f"has {len(data) - at} bytes more than its columns")
        return values


def _update(hashes: dict[str, Any], data: bytes) -> None:
    for one in hashes.values():
        one.update(data)


def _none(encoding: Encoding) -> Array:
    """Return a placeholder for the first value if there is none."""
    shape = (0,) if encoding.shape is None else encoding.shape
    return np.empty(shape, encoding.dtype or np.dtype(np.float64))


def _bounds(file: BinaryIO, shard: Shard) -> Array:
    """Return the offsets of the samples in a shard, checked."""
    size = file.seek(0, 2)
    if size != shard.size_bytes:
        raise DamagedFileError(
            f"expected {shard.size_bytes} bytes as in {NAME}, found {size}{FETCH_AGAIN}"
        )
    table: Array = np.empty(shard.samples + 2, "<u4")
    file.seek(0)
    if file.readinto(table.view(np.uint8).data) != table.nbytes:  # type: ignore[attr-defined]
        raise DamagedFileError(f"ends within the offsets of its {shard.samples} samples")
    if table[0] != shard.samples:
        raise DamagedFileError(f"expected {shard.samples} samples as in {NAME}, found {table[0]}")
    bounds = table[1:].astype(np.int64)
    if bounds[0] < table.nbytes or bounds[-1] != size or (np.diff(bounds) < 0).any():
        raise DamagedFileError(f"the offsets of its samples do not match its {size} bytes")
    return bounds


def _refuse_shapes(schema: Schema) -> None:
    """Raise UnsupportedError if a row shape would be lost because there are no samples."""
    for spec in schema:
        if spec.levels and spec.row_shape:
            raise UnsupportedError(
                f"mds holds no rows of shape {spec.row_shape} without a sample; {spec.name} has no "
                "samples"
            )


class _Writer:
    """Writes samples to shards, and then the index."""

    def __init__(self, output: Output, schema: Schema) -> None:
        self._output = output
        named = {spec.name: Encoding.for_spec(spec) for spec in schema}
        # In the order of their names, as MDSWriter sorts them.
        self._encodings = {name: named[name][1] for name in sorted(named)}
        self._config = {
            "column_encodings": [named[name][0] for name in sorted(named)],
            "column_names": sorted(named),
            "column_sizes": [one.size_bytes for one in self._encodings.values()],
            "compression": None,
            "format": "mds",
            "hashes": [HASH],
            "size_limit": SHARD_BYTES,
            "version": VERSION,
        }
        self._schema = schema
        self._head = json.dumps(self._config, sort_keys=True).encode()
        self._shards: list[dict[str, Any]] = []
        self._count = 0
        self._begin_shard()

    def _begin_shard(self) -> None:
        # In a file: the header of a shard depends on the sizes of all its samples.
        self._spool = Spool(self._output)
        self._samples, self._sizes = SpooledArray(self._spool), array("q")
        self._size = 0

    def close(self) -> None:
        """Remove the temporary file."""
        self._spool.close()

    def add(self, sample: Sample) -> None:
        """Add a sample; if the shard is full, write it before."""
        sizes, parts = [], []
        for name, encoding in self._encodings.items():
            value = sample[name]
            if not value.size and not encoding.text:
                raise UnsupportedError(
                    f"mds holds no empty array; {name} of sample {self._count} is empty"
                )
            parts.append(encoding.encode(value))
            if encoding.size_bytes is None:
                sizes.append(len(parts[-1]))
        size = 4 * len(sizes) + sum(map(len, parts))
        if len(self._head) + 12 + size > MOST_SAMPLE_BYTES:
            raise UnsupportedError(f"mds holds samples below 4 GB; sample {self._count} is larger")
        if self._sizes and self._size + size + 4 > SHARD_BYTES:
            self._write_shard()
        data = struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(parts)
        self._samples.write(np.frombuffer(data, np.uint8))
        self._sizes.append(len(data))
        self._size += size + 4
        self._count += 1

    def _write_shard(self) -> None:
        name = f"shard.{len(self._shards):05}.mds"
        count = len(self._sizes)
        head = np.empty(count + 2, "<u4")
        head[:2] = count, head.nbytes + len(self._head)
        np.cumsum(self._sizes, out=head[2:])
        head[2:] += head[1]
        found = hashlib.new(HASH)
        with self._output.part(name) as part:
            for piece in chain((head.tobytes(), self._head), self._samples.blocks()):
                found.update(piece)
                part.write(piece)
            size = part.size_bytes
        raw = {"basename": name, "bytes": size, "hashes": {HASH: found.hexdigest()}}
        shard = {"raw_data": raw, "samples": count, "zip_data": None}
        self._shards.append(self._config | shard)
        self.close()
        self._begin_shard()

    def finish(self) -> None:
        """Write the remaining samples, and the index.

        Raises:
            UnsupportedError: there is no sample from which the shape of rows could be read.
        """
        if not self._count:
            _refuse_shapes(self._schema)
        if self._sizes or not self._shards:
            self._write_shard()
        with self._output.part(NAME) as part:
            said = {"shards": self._shards, "version": VERSION}
            part.write(json.dumps(said, sort_keys=True).encode())
