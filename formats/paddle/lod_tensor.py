"""paddle: PaddlePaddle's LoDTensor stream, one tensor or several one after another.

Little-endian, nothing between:

    uint32 version 0, uint64 number of levels
    a level each: uint64 its bytes, then that many bytes of uint64 offsets
    uint32 version of the tensor 0, int32 bytes of the descriptor, the descriptor
    the rows in C order

The descriptor is a protobuf message: field 1 is the data type, field 2 the extents, as separate or
as packed integers. There is no magic number, no checksum, no name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from lodcli.formats.arrays.array_file import (
    Layout,
    PlacedArray,
    PlacedSource,
    Plan,
    array_bytes,
    write_placed,
)
from lodcli.formats.arrays.flat_arrays import EqualLevels, array_name
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, NotThisFormatError, naming
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.names import check_name
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, Schema, TensorSpec
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.pread import read_into
from lodcli.formats.tfrecord.messages import varint
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import InvalidLoDError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array, check_rows
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option_name

TYPES = {
    **{0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32"},
    **{6: "float64", 20: "uint8", 21: "int8", 22: "bfloat16", 23: "complex64", 24: "complex128"},
}
CODES = {name: code for code, name in TYPES.items()}
# Limit of PaddlePaddle; more dimensions are an error in writing.
MOST_DIMENSIONS = 9
MOST_LEVELS = 1000
MOST_DESCRIPTOR_BYTES = 10_000
_INT64 = np.dtype(np.int64)


class Paddle(Format):
    """LoDTensor streams, as `save`, `save_combine` and `save_inference_model` write them.

    The file has no names: tensors get those of `--names`, else "data" for one tensor and "0", "1",
    .. for several. A tensor of rank 0 is read as one row. Level names are lost.
    """

    name = "paddle"
    dtypes = frozenset(CODES)
    row_ranks = MOST_DIMENSIONS - 1
    many = True
    options = frozenset({"names"})
    seekable_output = True

    def sniff(self, head: bytes) -> bool:
        """Return whether the head is the beginning of a stream: there is no magic number."""
        raw = np.frombuffer(head, np.uint8)

        def read(position: int, out: Array) -> None:
            out[:] = raw[position : position + out.size]

        cursor = _Cursor(read, len(head))
        try:
            _read_header(cursor)
        except LodError:
            # A long level exceeds the head. Then its part in the head must be offsets.
            return head[:4] == bytes(4) and len(head) == 4096 and _looks_like_level(head)
        return True

    def open(self, source: Input, options: ReadOptions) -> Source:
        file = source.make_seekable()
        size = file.seek(0, 2)
        return _opened(file.fileno(), size, options.names)

    def lost_tensor_names(self, schema: Schema) -> Iterable[str]:
        given = _names(len(schema), None)
        return [spec.name for spec, name in zip(schema, given, strict=True) if spec.name != name]

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        for spec in schema:
            require_items(spec)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        write_placed(
            output,
            schema,
            batches,
            Layout(array_name, lambda counted, _: _planned(counted), _INT64),
        )


# -- reading -----------------------------------------------------------------------


class _Cursor:
    """A read position in a file of known size.

    Args:
        read: fills an array of bytes from a position on.
    """

    def __init__(self, read: Callable[[int, Array], None], size: int) -> None:
        self._read = read
        self.size = size
        self.position = 0

    def take(self, size: int, what: str) -> bytes:
        """Return the next bytes."""
        return self._taken(size, np.dtype(np.uint8), what).tobytes()

    def offsets(self, size: int, what: str) -> Array:
        """Return the next bytes as offsets of a level: int64, or uint64 if one exceeds int64."""
        found = self._taken(size, np.dtype("<i8"), what)
        if int(found.min(initial=0)) < 0:
            return found.view("<u8")
        return immutable(found)  # so that the index need not copy them

    def _taken(self, size: int, dtype: np.dtype[Any], what: str) -> Array:
        self.require(size, what)
        out: Array = np.empty(size // dtype.itemsize, dtype)
        self._read(self.position, out.view(np.uint8))
        self.position += size
        return out

    def require(self, size: int, what: str) -> None:
        """Raise DamagedFileError unless `size` bytes are left."""
        left = self.size - self.position
        if size > left:
            raise DamagedFileError(
                f"cut off in {what} at byte {self.position}: expected {size} bytes, found {left}"
                f"{FETCH_AGAIN}"
            )


def _opened(fd: int, size: int, names: tuple[str, ...] | None) -> Source:
    found: list[tuple[LoD, PlacedArray]] = []

    cursor = _Cursor(lambda position, out: read_into(fd, out, position), size)
    if not size:
        raise NotThisFormatError("is empty; expected a LoDTensor stream")
    while cursor.position < size:
        with naming(f"tensor {len(found)}"):
            found.append(_read_tensor(cursor, f"tensor {len(found)}"))
    called = _names(len(found), names)
    equal = EqualLevels()
    specs, lods = [], {}
    for name, (lod, array) in zip(called, found, strict=True):
        levels, lods[name] = equal.shared(lod)
        specs.append(TensorSpec(name, array.dtype, array.shape[1:], levels, array.shape[0]))
    arrays = {name: array for name, (_, array) in zip(called, found, strict=True)}
    return PlacedSource(fd, tuple(specs), arrays, lods)


def _names(count: int, names: tuple[str, ...] | None) -> tuple[str, ...]:
    if names is None:
        return (DEFAULT_NAME,) if count == 1 else tuple(str(n) for n in range(count))
    if len(names) != count or len(set(names)) != count:
        raise SelectionError(
            f"{option_name('names')}: expected {count} different names, one per tensor, "
            f"found {len(set(names))}"
        )
    for name in names:
        check_name(name)
    return names


def _read_tensor(cursor: _Cursor, label: str) -> tuple[LoD, PlacedArray]:
    """Return the index and description of the tensor that begins here, and skip its rows."""
    levels, dtype, dims = _read_header(cursor)
    shape = tuple(dims) or (1,)
    size = array_bytes(shape, dtype)
    cursor.require(size, "the rows")
    array = PlacedArray(label, dtype, shape, cursor.position)
    cursor.position += size
    try:
        lod = LoD(levels)
        check_rows(lod.levels, shape[0])
    except InvalidLoDError as error:
        error.args = (f"the LoD: {error.args[0]}",)
        raise
    return lod, array


def _read_header(cursor: _Cursor) -> tuple[list[Array], np.dtype[Any], list[int]]:
    """Return the levels, the dtype and the extents of the tensor that begins here."""
    (version,) = struct.unpack("<I", cursor.take(4, "the version"))
    if version:
        raise DamagedFileError(
            f"byte {cursor.position - 4}: expected version 0 of a LoDTensor stream, found {version}"
        )
    (count,) = struct.unpack("<Q", cursor.take(8, "the number of levels"))
    if count > MOST_LEVELS:
        raise DamagedFileError(f"claims {count} levels; at most {MOST_LEVELS} are read")
    levels = []
    for level in range(count):
        (size,) = struct.unpack("<Q", cursor.take(8, f"the size of level {level}"))
        if size % 8 or size < 16:
            raise DamagedFileError(
                f"level {level}: expected at least two offsets of 8 bytes, found {size} bytes"
            )
        levels.append(cursor.offsets(size, f"level {level}"))
    (version,) = struct.unpack("<I", cursor.take(4, "the tensor's version"))
    if version:
        raise DamagedFileError(f"expected version 0 of the tensor, found {version}")
    (size,) = struct.unpack("<i", cursor.take(4, "the descriptor's size"))
    if not 0 <= size <= MOST_DESCRIPTOR_BYTES:
        raise DamagedFileError(
            f"the descriptor: expected 0 to {MOST_DESCRIPTOR_BYTES} bytes, found {size}"
        )
    with naming("the descriptor"):
        dtype, dims = _parse_descriptor(cursor.take(size, "the descriptor"))
    return levels, dtype, dims


def _looks_like_level(head: bytes) -> bool:
    count, size = struct.unpack("<QQ", head[4:20])
    if not 0 < count <= MOST_LEVELS or size % 8 or size < len(head) - 20:
        return False
    offsets = np.frombuffer(head[20 : 20 + (len(head) - 20) // 8 * 8], "<u8")
    return bool(offsets[0] == 0 and (offsets[1:] >= offsets[:-1]).all() and offsets[-1] < 2**62)


def _parse_descriptor(raw: bytes) -> tuple[np.dtype[Any], list[int]]:
    """Return dtype and extents."""
    code: int | None = None
    dims: list[int] = []
    numbers = _varints(raw)
    for tag, _ in numbers:
        if tag == 0x08 and code is None:
            code = next(numbers, (None, 0))[0]
        elif tag == 0x10:
            dims.append(next(numbers, (-1, 0))[0])
        elif tag == 0x12:
            size = next(numbers, (-1, 0))[0]
            end = size
            while end > 0:
                value, used = next(numbers, (-1, 0))
                dims.append(value)
                end = end - used if used else -1
            if end:
                raise DamagedFileError(
                    "the size of the packed extents does not match their content"
                )
        else:
            raise DamagedFileError(f"expected data type and extents, found tag {tag}")
    if code is None:
        raise DamagedFileError("names no data type")
    if code not in TYPES:
        raise UnsupportedError(f"data type {code}; expected one of {', '.join(map(str, TYPES))}")
    for axis, extent in enumerate(dims):
        if not 0 <= extent < 2**63:
            signed = extent - 2**64 if extent >= 2**63 else extent
            raise DamagedFileError(f"axis {axis}: expected an extent of 0 or more, found {signed}")
    if len(dims) > 32:
        raise UnsupportedError(f"{len(dims)} dimensions; at most 32 are read")
    return dtype_of_rows(TYPES[code]), dims


def _varints(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yield each integer of a protobuf message, and its number of bytes."""
    start = 0
    while start < len(raw):
        value = 0
        for used in range(10):
            if start + used >= len(raw):
                raise DamagedFileError("ends inside of a number")
            byte = raw[start + used]
            value |= (byte & 0x7F) << 7 * used
            if byte < 0x80:
                break
        else:
            raise DamagedFileError("holds a number of more than 10 bytes")
        yield value & 2**64 - 1, used + 1
        start += used + 1


# -- writing -----------------------------------------------------------------------


def _planned(schema: Schema) -> Plan:
    """Return the positions in the file: one stream after another, in the order of the schema."""
    plan = Plan([], {})
    position = 0
    for spec in schema:
        require_items(spec)
        position = _place(plan, struct.pack("<IQ", 0, len(spec.levels)), position)
        for level, found in enumerate(spec.levels):
            assert found.items is not None
            size = 8 * (found.items + 1)
            position = _place(plan, struct.pack("<Q", size), position)
            plan.positions[array_name(spec.name, level)] = position
            position += size
        assert spec.rows is not None
        shape = (spec.rows, *spec.row_shape)
        descriptor = b"\x08" + varint(CODES[spec.dtype.name])
        descriptor += b"".join(b"\x10" + varint(extent) for extent in shape)
        prefix = struct.pack("<Ii", 0, len(descriptor))
        position = _place(plan, prefix + descriptor, position)
        plan.positions[array_name(spec.name, -1)] = position
        position += array_bytes(shape, spec.dtype)
    return plan


def _place(plan: Plan, piece: bytes, position: int) -> int:
    plan.pieces.append((position, piece))
    return position + len(piece)


def require_items(spec: TensorSpec) -> None:
    """Raise UnsupportedError if a level has no items at all: Paddle refuses such a LoD."""
    for level, found in enumerate(spec.levels):
        if found.items == 0:
            raise UnsupportedError(
                f"paddle holds no level without items, level {level} of {spec.name} has none"
            )
