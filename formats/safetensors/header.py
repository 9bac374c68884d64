"""The header of a safetensors file: checked reading, and writing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.formats.arrays.array_file import PlacedArray, array_bytes
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, NotThisFormatError, naming
from lodcli.formats.core.names import repeated
from lodcli.formats.storage.pread import read_array
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import UnsupportedError

# Limit of the format.
MOST_HEADER_BYTES = 100_000_000
DTYPES = {
    **{"BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64"},
    **{"I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"},
    **{"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"},
    "C64": "complex64",
}
CODES = {name: code for code, name in DTYPES.items()}
# Other dtypes of the format, with their bits: only the positions of such arrays are checked.
_OTHER_BITS = {
    **{"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8},
    **{"F8_E4M3": 8, "F8_E5M2": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8},
}
_METADATA = "__metadata__"


@dataclass(frozen=True)
class HeaderArray:
    """One array: its dtype's code, its shape, and its range of bytes after the header."""

    code: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Header:
    """A header.

    Attributes:
        arrays: by name, in the order of their bytes.
        metadata: texts by name.
        size_bytes: of the header and the size before it; 0 for a header to be written.
    """

    arrays: dict[str, HeaderArray]
    metadata: dict[str, str]
    size_bytes: int = 0

    def add(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Add an array after the others, unless there is one of this name, which is shared."""
        if name not in self.arrays:
            last = next(reversed(self.arrays.values()), None)
            start = last.stop if last else 0
            stop = start + array_bytes(shape, dtype)
            self.arrays[name] = HeaderArray(CODES[dtype.name], shape, start, stop)

    def placed(self) -> dict[str, PlacedArray]:
        """Return the arrays with dtypes that a tensor may have, by name."""
        return {
            name: PlacedArray(
                name, numpy_dtype(array.code), array.shape, self.size_bytes + array.start
            )
            for name, array in self.arrays.items()
            if array.code in DTYPES
        }


def numpy_dtype(code: str) -> np.dtype[Any]:
    """Return the dtype of a code in DTYPES."""
    return dtype_of_rows(DTYPES[code])


def require_tensor_dtype(name: str, header: Header) -> None:
    """Raise UnsupportedError if an array has a dtype that tensors cannot have."""
    code = header.arrays[name].code
    if code not in DTYPES:
        # torch casts no floats of fewer than 8 bits.
        instead = "to(torch.float32)" if code.startswith("F8") else "view(torch.uint8)"
        raise UnsupportedError(
            f"{name}: has dtype {code}, which tensors cannot hold; save tensor.{instead} instead"
        )


def looks_like_header(head: bytes) -> bool:
    """Return whether a file with these first bytes can only be a safetensors file."""
    return (
        len(head) > 9
        and 2 <= int.from_bytes(head[:8], "little") <= MOST_HEADER_BYTES
        and head[8:9] == b"{"
        and head[9:].lstrip()[:1] in (b'"', b"}")
    )


def read_header(fd: int, file_bytes: int) -> Header:
    """Return the header, checked against the size of the file.

    Raises:
        NotThisFormatError: it is not a safetensors file.
        DamagedFileError: a header that contradicts itself or the file.
    """
    if file_bytes < 10:
        raise NotThisFormatError(f"is not a safetensors file: it has only {file_bytes} bytes")
    first = read_array(fd, 9, np.uint8, 0)
    size = int.from_bytes(first[:8].tobytes(), "little")
    if first[8] != ord("{"):
        raise NotThisFormatError("is not a safetensors file: no header after its first 8 bytes")
    if size > min(MOST_HEADER_BYTES, file_bytes - 8):
        raise DamagedFileError(
            f"the header: claims {size} bytes, the file has {file_bytes} and at most "
            f"{MOST_HEADER_BYTES} are allowed{FETCH_AGAIN}"
        )
    raw = read_array(fd, size, np.uint8, 8)
    with naming("the header"):
        arrays, metadata = _decoded(raw.tobytes())
        _check_places(arrays, file_bytes - 8 - size)
    return Header(arrays, metadata, 8 + size)


def encoded_header(header: Header) -> bytes:
    """Return the bytes before the first array, a multiple of 8 as the format requires."""
    content: dict[str, Any] = {_METADATA: header.metadata} if header.metadata else {}
    for name, array in header.arrays.items():
        places = [array.start, array.stop]
        content[name] = {"dtype": array.code, "shape": array.shape, "data_offsets": places}
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MOST_HEADER_BYTES:
        raise UnsupportedError(
            f"safetensors holds headers of at most {MOST_HEADER_BYTES} bytes, this has {len(text)}"
        )
    return len(text).to_bytes(8, "little") + text


def _decoded(raw: bytes) -> tuple[dict[str, HeaderArray], dict[str, str]]:
    try:
        content = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(f"is not JSON ({' '.join(str(error).split())[:120]})") from None
    if not isinstance(content, dict):
        raise DamagedFileError("is not a JSON object")
    metadata = content.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise DamagedFileError(f"{_METADATA}: expected an object of text")
    found = {name: _array(name, entry) for name, entry in content.items()}
    ordered = sorted(found, key=lambda name: (found[name].start, found[name].stop))
    return {name: found[name] for name in ordered}, metadata


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        twice = next(iter(repeated(name for name, _ in pairs)))
        raise DamagedFileError(f"{twice[:100]!a} appears twice")
    return content


def _integer(text: str) -> int:
    if len(text) > 20:  # int() of a long text takes time
        raise DamagedFileError(f"has a number of {len(text)} digits")
    return int(text)


def _array(name: str, entry: Any) -> HeaderArray:
    with naming(ascii(name[:100])):
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise DamagedFileError("expected dtype, shape and data_offsets, and no more")
        code, shape, places = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(code, str) or (code not in DTYPES and code not in _OTHER_BITS):
            raise UnsupportedError(f"dtype {ascii(code)[:100]} is not known")
        if not _are_counts(shape):
            raise DamagedFileError(f"{ascii(shape)[:100]} is not a shape")
        if not _are_counts(places) or len(places) != 2 or places[0] > places[1]:
            raise DamagedFileError(f"data_offsets {ascii(places)[:100]} are not a range")
        if len(shape) > 32:
            raise UnsupportedError(f"{len(shape)} dimensions; at most 32 are read")
        if code in DTYPES:
            size = array_bytes(shape, numpy_dtype(code))
        else:
            size = array_bytes(shape, np.dtype(np.uint8)) * _OTHER_BITS[code] // 8
        if places[1] - places[0] != size:
            raise DamagedFileError(
                f"shape {ascii(shape)[:100]} of {code} needs {size} bytes, data_offsets say "
                f"{places[1] - places[0]}"
            )
        return HeaderArray(code, tuple(shape), places[0], places[1])


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 2**63 for n in values)


def _check_places(arrays: dict[str, HeaderArray], available: int) -> None:
    """Raise DamagedFileError unless the arrays are contiguous and fill the file."""
    end = 0
    for name, array in arrays.items():
        if array.start != end:
            what = "overlaps the one before" if array.start < end else "leaves a gap before it"
            raise DamagedFileError(f"{name[:100]!a} {what}: begins at {array.start}, not {end}")
        end = array.stop
    if end != available:
        raise DamagedFileError(
            f"the arrays need {end} bytes, the file holds {available} for them{FETCH_AGAIN}"
        )
