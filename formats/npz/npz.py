"""npz: NumPy's archive, a tensor as `data`, `lod.0`, `lod.1`, .. or NAME/data, NAME/lod.0, .."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any, cast

import numpy as np

from lodcli.formats.arrays.array_source import ArraySource
from lodcli.formats.arrays.array_writer import ArraySpec, ArrayWriter, keyed_by_array
from lodcli.formats.arrays.dates import as_numbers
from lodcli.formats.arrays.fixed_texts import FixedTexts
from lodcli.formats.arrays.flat_arrays import (
    FLAT_OPTIONS,
    FLAT_WRITE_OPTIONS,
    MARKS,
    array_names,
    index_dtype,
    marked,
    mask_array_name,
)
from lodcli.formats.arrays.masks import MaskWriter
from lodcli.formats.arrays.spool import Spool, SpooledArray
from lodcli.formats.catalogue.unread import of_csr
from lodcli.formats.choosing.array_patterns import JoinedArrays
from lodcli.formats.core.batching import cuts, gathered, groups
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, AnnotatedFormat, LeftOut, Source
from lodcli.formats.core.marks import MOST_BYTES, FlatMarks, flat_json, from_flat_json, tensor_of
from lodcli.formats.core.names import name_of
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema, TensorSpec, find
from lodcli.formats.npz.members import Member, Rows, read_member, stored_rows
from lodcli.formats.npz.npy_header import NPY_DTYPES, written_header
from lodcli.formats.storage.file_objects import Sink
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.zip_archive import END_MARK, first_name, open_archive, shown
from lodcli.formats.values.file_attributes import parsed
from lodcli.formats.values.without_nulls import refusing_nulls
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls, item_ranges

SpooledArrays = Mapping[str, tuple[ArraySpec, SpooledArray]]


class Npz(AnnotatedFormat):
    """Named tensors in an uncompressed zip of .npy files that `numpy.load` reads.

    The tensor called "data" is `data`, `lod.0`, `lod.1`, ..; any other is `NAME/data`,
    `NAME/lod.0`, ... Any other array `NAME` is a tensor without levels, so what
    `numpy.savez` wrote can be read; texts are the finest level. Nothing is ever unpickled. Level
    names are lost.

    Reading takes constant memory, except for the index, texts, and arrays in Fortran order.
    The size of an array is stored before its rows, so writing collects everything in an
    unnamed temporary file first.
    """

    name = "npz"
    checksums = "CRC-32 of every array"
    dtypes = NPY_DTYPES
    modules = ("encodings.cp437",)
    options = FLAT_OPTIONS
    write_options = FLAT_WRITE_OPTIONS

    def sniff(self, head: bytes) -> bool:
        return first_name(head).endswith(b".npy") or head.startswith(END_MARK)  # or no member

    def open(self, source: Input, options: ReadOptions) -> Source:
        return _NpzSource(source, options)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        names = array_names(schema, options)
        if options.cu_seqlens:
            # With a chosen name of the index, the tensor of a mask would be unknown.
            batches = refusing_nulls(batches, f"npz with {option('cu-seqlens')}")
        with Spool(output) as spool:
            masks = None if options.cu_seqlens else spooled_masks(spool, schema, mask_array_name)
            _, arrays = spool_arrays(spool, schema, batches, names, index_dtype(options), masks)
            masked = {} if masks is None else masks.levels()
            kept = flat_json(schema, masked, parsed(options.attributes))
            with new_archive(output) as archive:
                store(archive, arrays)
                if kept is not None:
                    text = kept.encode()
                    with new_member(archive, MARKS, np.dtype(np.uint8), (len(text),)) as member:
                        member.write(text)


def spooled_masks(
    spool: Spool, schema: Schema, name: Callable[[TensorSpec, int], str]
) -> MaskWriter[SpooledArray]:
    """Return a writer of masks, as arrays of booleans of these names."""
    return MaskWriter(schema, lambda array: SpooledArray(spool), name, packed=False)


def spool_arrays(
    spool: Spool,
    schema: Schema,
    batches: Iterable[Batch],
    name: Callable[[str, int], str],
    index_dtype: np.dtype[Any],
    masks: MaskWriter[SpooledArray] | None = None,
) -> tuple[Schema, SpooledArrays]:
    """Return the schema with all counts, and all batches as arrays by name.

    Args:
        spool: for the arrays.
        name: returns the name of the array of a tensor's level, or of its rows (level -1).
        index_dtype: of the offsets.
        masks: writer of the nulls; None: nulls are an error.
    """
    writer = ArrayWriter(
        keyed_by_array(schema, name),
        lambda tensor: name(tensor, -1),
        lambda array: SpooledArray(spool),
        index_dtype=index_dtype,
        nulls=masks is not None,
    )
    writer.write(batches if masks is None else masks.watched(batches))
    counted, arrays = writer.finish()
    return counted, arrays | (masks.finish() if masks is not None else {})


def store(archive: zipfile.ZipFile, arrays: SpooledArrays) -> None:
    """Append arrays to `archive`, one member each."""
    for array, spooled in arrays.values():
        assert array.rows is not None
        shape = (array.rows, *array.row_shape)
        with new_member(archive, array.name, array.dtype, shape) as member:
            for block in spooled.blocks():
                member.write(block)


@contextmanager
def new_archive(output: Output) -> Iterator[zipfile.ZipFile]:
    """Yield an archive to write to; after an error nothing more is written."""
    # The sink has no seek or tell: zipfile then writes sequentially, as pipes need.
    archive = zipfile.ZipFile(cast(IO[bytes], Sink(output)), "w")
    try:
        yield archive
        archive.close()
    except BaseException:
        archive.fp = None  # else closing it would write the directory
        raise


@contextmanager
def new_member(
    archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Iterator[IO[bytes]]:
    """Yield a member of `archive` to write rows to; its array header is already written."""
    # The earliest date of zip: files of equal content are equal.
    info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
    with archive.open(info, "w", force_zip64=True) as member:
        member.write(written_header(dtype, shape))
        yield member


class _NpzSource(ArraySource[Member]):
    """An open archive, whose headers and indexes were read and checked."""

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self._file = file = source.make_seekable()
        self._bounds = source.bounds
        self._archive = open_archive(file)
        self.left_out = LeftOut()
        infos = _by_name(self._archive.infolist(), self.left_out)
        if not infos:
            self.refuse_left_out()
            raise InvalidDataError("holds no array")
        if options.data is None and self._holds_matrix(infos):
            del infos["format"]
            self.left_out["format"] = UnsupportedError(
                f"format: is that of a sparse matrix of scipy; {of_csr()} reads the rows of a CSR "
                "matrix, the columns of a CSC matrix"
                if {"indices", "indptr"} <= infos.keys()
                else "format: is that of a sparse matrix of scipy in another form than CSR; save "
                "matrix.tocsr()"
            )
        found = self._kept(infos)
        kept = found.tensors if found is not None else {}
        if found is not None:
            self.attributes = found.attributes
            del infos[MARKS]
        self.describe(infos, lambda name: read_member(self._archive, infos[name]), kept, options)
        self.schema = marked(self.schema, kept)

    def _holds_matrix(self, infos: Mapping[str, zipfile.ZipInfo]) -> bool:
        """Return whether scipy wrote a sparse matrix: it names its form in one word."""
        if not infos.keys() >= {"data", "format", "shape"}:
            return False
        try:
            read_member(self._archive, infos["format"])
        except UnsupportedError:  # a single text
            return True
        return False

    def _kept(self, infos: Mapping[str, zipfile.ZipInfo]) -> FlatMarks | None:
        """Return the content of the member of marks; None if there is none, or it is a tensor."""
        if MARKS not in infos or infos[MARKS].file_size > MOST_BYTES:
            return None
        member = read_member(self._archive, infos[MARKS])
        if member.dtype != np.uint8 or len(member.shape) != 1:
            return None
        return from_flat_json(self.read_whole(member).tobytes())

    def read_whole(self, array: Member) -> Array:
        self._bounds.check_block(array.info.file_size, f"{array.label}: decompresses to")
        with Rows(self._archive, array) as rows:
            return rows.take(array.shape[0])

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        if not self.reads_in_place([find(self.schema, name).name]):
            return Source.slice(self, name, branch, level)
        return super().slice(name, branch, level)

    def reads_in_place(self, names: Iterable[str]) -> bool:
        arrays = (one for name in names for one in (self.arrays[name], *self.masks[name].values()))
        parts = (one.parts if isinstance(one, JoinedArrays) else (one,) for one in arrays)
        members = (one for one in chain.from_iterable(parts) if isinstance(one, Member))
        return not any(one.header.fortran or one.info.compress_type for one in members)

    def read_array(self, array: Member, start: int, stop: int) -> Array:
        assert not array.header.fortran
        assert not array.info.compress_type
        return stored_rows(self._file, array, start, stop)

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        return gathered(self._batches_of(names, limit_bytes), limit_bytes)

    def _batches_of(self, names: Iterable[str], limit_bytes: int) -> Iterator[Batch]:
        # Sequentially, not by `read_rows`, so that checksums are verified.
        wanted = set(names)
        for group in groups(tuple(spec for spec in self.schema if spec.name in wanted)):
            with ExitStack() as stack:
                readers = {spec.name: self._reader(spec, stack) for spec in group}
                if group[0].levels:
                    yield from self._in_order(group, readers, limit_bytes)
                else:
                    yield from readers[group[0].name].plain(limit_bytes)

    def _reader(self, spec: TensorSpec, stack: ExitStack) -> _InOrder:
        found = self.arrays[spec.name]
        rows: Rows | _TextRows | _JoinedRows
        if isinstance(found, FixedTexts):
            rows = _TextRows(found)
        elif isinstance(found, JoinedArrays):
            rows = _JoinedRows(found, self.read_whole)
        else:
            rows = stack.enter_context(Rows(self._archive, found))
        masks = {
            level: stack.enter_context(Rows(self._archive, mask))
            for level, mask in self.masks[spec.name].items()
        }
        return _InOrder(spec, rows, masks)

    def _in_order(
        self, group: list[TensorSpec], readers: dict[str, _InOrder], limit_bytes: int
    ) -> Iterator[Batch]:
        lods = {spec.name: self.lods[spec.name] for spec in group}
        offsets = [lod.absolute(0) for lod in lods.values()]
        for start, stop in cuts(offsets, [spec.row_bytes for spec in group], limit_bytes):
            # By identity, so that tensors with the same levels still share one index.
            parts = {id(lod): lod.items(0, start, stop)[0] for lod in lods.values()}
            yield {
                spec.name: readers[spec.name].take(
                    parts[id(lods[spec.name])], item_ranges(lods[spec.name], 0, start, stop)
                )
                for spec in group
            }

    def close(self) -> None:
        self._archive.close()


class _TextRows:
    """The bytes of texts, in order."""

    def __init__(self, texts: FixedTexts) -> None:
        self._left = texts.data

    def take(self, count: int) -> Array:
        """Return the next `count` bytes."""
        found, self._left = np.split(self._left, [count])
        return found


class _JoinedRows:
    """The rows of joined members, in order; each member is a whole item."""

    def __init__(self, joined: JoinedArrays[Member], read_whole: Callable[[Member], Array]) -> None:
        self._joined, self._read_whole, self._taken = joined, read_whole, 0

    def take(self, count: int) -> Array:
        """Return the next `count` rows, which are those of whole members."""
        start, self._taken = self._taken, self._taken + count
        return self._joined.rows(lambda one, *_: self._read_whole(one), start, self._taken)


@dataclass(frozen=True)
class _InOrder:
    """A tensor that is read sequentially, with its masks by level."""

    spec: TensorSpec
    rows: Rows | _TextRows | _JoinedRows
    masks: Mapping[int, Rows]

    def take(self, lod: LoD, ranges: Iterable[tuple[int, int]]) -> LoDTensor:
        """Return the next part; `lod` is its index, `ranges` its range of items on each level."""
        places = list(ranges)
        sizes = [high - low for low, high in places]
        with naming(self.spec.name):
            data, valid = as_numbers(self.rows.take(sizes[-1]), places[-1][0])
        masks = [
            self.masks[level].take(size) if level in self.masks else None
            for level, size in enumerate(sizes)
        ]
        if masks[-1] is None:
            masks[-1] = valid
        return tensor_of(self.spec, data, lod, Nulls.of(masks))

    def plain(self, limit_bytes: int) -> Iterator[Batch]:
        """Yield the batches of a tensor without levels."""
        assert self.spec.rows is not None
        step = max(1, limit_bytes // max(1, self.spec.row_bytes))
        for start in range(0, max(1, self.spec.rows), step):
            stop = min(start + step, self.spec.rows)
            yield {self.spec.name: self.take(LoD(), [(start, stop)])}


def _by_name(members: list[zipfile.ZipInfo], left_out: LeftOut) -> dict[str, zipfile.ZipInfo]:
    """Return the members by the names of their arrays; other members are left out."""
    infos: dict[str, zipfile.ZipInfo] = {}
    for info in members:
        if info.is_dir() and not info.file_size:  # `zip -r` adds them
            continue
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            left_out[name_of(name)] = UnsupportedError(
                f"unknown member {shown(info.filename)}; expected NAME.npy"
            )
            continue
        infos[name] = info
    return infos
