"""awkward: the buffers of an Awkward array in an .npz, as returned by `ak.to_buffers`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

import numpy as np

from lodcli.formats.arrays.in_memory import MemorySource
from lodcli.formats.arrays.spool import Spool
from lodcli.formats.awkward.forms import MOST_FORM_BYTES, PRIMITIVES, Plan, Reader, parsed_form
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.npz.members import Member, Rows
from lodcli.formats.npz.npy_header import read_header, read_single
from lodcli.formats.npz.npz import new_archive, new_member, spool_arrays, store
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.zip_archive import damage, first_name, open_archive
from lodcli.kernels.errors import NullError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import VALUES
from lodcli.kernels.tensor.nulls import without_nulls

FORM, LENGTH = "form.npy", "length.npy"


class Awkward(Format):
    """`np.savez(file, form=form.to_json(), length=length, **container)` of to_buffers.

    Lists are levels, records tensors by the names of their fields, over the levels above
    them; strings are levels of bytes. Lists of one size right above numbers, and inner
    shapes, are the shape of a row. Reading keeps everything in memory.
    """

    name = "awkward"
    checksums = "CRC-32 of every array"
    dtypes = PRIMITIVES
    deepest = 32
    many = True
    streams = False
    record = "record"
    kept_marks = frozenset(VALUES)
    structs = True
    modules = ("encodings.cp437",)

    def sniff(self, head: bytes) -> bool:
        return first_name(head) == FORM.encode()

    def open(self, source: Input, options: ReadOptions) -> Source:
        with open_archive(source.make_seekable()) as archive:
            return _read(archive, source.bounds)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        plan = Plan(schema)
        told = {spec.name for spec in schema if (spec.name, -1) not in plan.keys}
        schema = tuple(spec for spec in schema if spec.name not in told)
        batches = _without_null_records(batches, told)
        with Spool(output) as spool:
            counted, arrays = spool_arrays(
                spool, schema, batches, lambda *at: plan.keys[at], np.dtype(np.int64)
            )
            counts = {spec.name: spec.items or 0 for spec in counted}
            self.require_equal(counts)
            with new_archive(output) as archive:
                _write_single(archive, FORM, np.array(json.dumps(plan.form)))
                _write_single(archive, LENGTH, np.array(counts[schema[0].name]))
                store(archive, arrays)


def _without_null_records(batches: Iterable[Batch], told: AbstractSet[str]) -> Iterator[Batch]:
    """Yield batches without the tensors that store which records are null.

    Raises:
        NullError: a record is null.
    """
    for batch in batches:
        for name in told & batch.keys():
            tensor = batch[name]
            assert isinstance(tensor, LoDTensor), "records have no TensorArrays"
            if not tensor.data.all():
                raise NullError(
                    f"{name}: a record is null; awkward has no nulls: {without_nulls()}"
                )
        yield {name: item for name, item in batch.items() if name not in told}


def _write_single(archive: zipfile.ZipFile, name: str, value: Array) -> None:
    with new_member(archive, name.removesuffix(".npy"), value.dtype, ()) as member:
        member.write(value.tobytes())


def _read(archive: zipfile.ZipFile, bounds: Bounds) -> MemorySource:
    members = {info.filename: info for info in archive.infolist()}
    if FORM not in members or LENGTH not in members:
        raise DamagedFileError(
            "has no arrays form and length; write np.savez(file, form=form.to_json(), "
            "length=length, **container)"
        )

    fetched = 0

    def fetch(key: str) -> Array:
        nonlocal fetched
        info = members.get(f"{key}.npy")
        if info is None:
            raise DamagedFileError(f"{key}: this buffer is missing")
        fetched += info.file_size
        bounds.check_block(fetched, "decompresses to at least")
        with damage(key), archive.open(info) as stream:
            member = Member(info, read_header(stream, info.file_size))
        with Rows(archive, member) as rows:
            return rows.take(member.shape[0])

    with damage(FORM), archive.open(members[FORM]) as stream:
        form = parsed_form(str(read_single(stream, MOST_FORM_BYTES)))
    with damage(LENGTH), archive.open(members[LENGTH]) as stream:
        length = int(read_single(stream, 64))
    if length < 0:
        raise DamagedFileError(f"length {length}")
    stored = sum(info.file_size for info in members.values())
    reader = Reader(fetch, stored, bounds)
    return MemorySource(reader.tensors(form, length), reader.left_out)
