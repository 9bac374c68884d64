"""Archives of .npy files with arbitrary headers."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.errors import LodError, UnsupportedError

STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED


def npy(
    data: bytes = b"\0" * 8,
    *,
    descr: object = "<f8",
    shape: object = (1,),
    fortran: object = False,
    header: bytes | None = None,
    version: bytes = b"\1\0",
) -> bytes:
    """Return the bytes of a .npy file with any given header."""
    if header is None:
        said = {"descr": descr, "fortran_order": fortran, "shape": shape}
        header = repr(said).encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


def archive(folder: Path, *members: tuple[str, bytes], method: int = STORED) -> Path:
    path = folder / "given.npz"
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


# A member x.npy, what reading it raises, and part of the message.
BROKEN_MEMBERS: list[tuple[bytes, type[LodError], str]] = [
    (b"", DamagedFileError, "x.npy: ends within its header"),
    (npy()[:9], DamagedFileError, "x.npy: "),
    (npy(version=b"\4\0"), DamagedFileError, "is not a .npy file"),
    (npy(b""), DamagedFileError, r"shape \(1,\) of float64 needs 8 bytes, found 0"),
    (npy(b"\0" * 9), DamagedFileError, "needs 8 bytes, found 9; if it has several arrays, save"),
    (npy(b"", shape=(10**15,)), DamagedFileError, "needs 8000000000000000 bytes"),
    (npy(b"", shape=(0, 2**62, 2**62)), DamagedFileError, "is beyond what an array can have"),
    (npy(b"", descr="|i1", shape=(2**62, 0)), DamagedFileError, "is beyond what an array can have"),
    (npy(b"", descr="<f4", shape=(2**60, 0, 3)), DamagedFileError, "is beyond what an array can"),
    (npy(b"", shape=(0, 2**80)), DamagedFileError, "is beyond what an array can have"),
    (npy(shape=(-1, -1)), DamagedFileError, "its header is malformed"),
    (npy(shape=(True,)), DamagedFileError, "its header is malformed"),
    (npy(shape=[1]), DamagedFileError, "its header is malformed"),
    (npy(fortran=0), DamagedFileError, "its header is malformed"),
    (npy(header=b"{}"), DamagedFileError, "its header is malformed"),
    (npy(header=b"["), DamagedFileError, "its header is malformed"),
    (npy(header=b"(" * 5000), DamagedFileError, "its header is malformed"),
    (npy(header=b"__import__('os').abort()"), DamagedFileError, "its header is malformed"),
    (npy(header=b"\xff"), DamagedFileError, "its header is malformed"),
    (npy(header=b" " * 20_000), DamagedFileError, "a header of 20000 bytes; at most 10000"),
    (npy(descr="|O"), UnsupportedError, "holds Python objects"),
    (npy(descr=[("a", "O")]), UnsupportedError, "holds Python objects"),
    (npy(descr="<f8,<f8"), UnsupportedError, "has dtype '<f8,<f8'"),
    (npy(descr="(2,)f4"), UnsupportedError, "has dtype"),
    (npy(descr="<f3"), UnsupportedError, "has dtype '<f3'"),
    (npy(descr=""), UnsupportedError, "has dtype ''"),
    (npy(descr=7), UnsupportedError, "has dtype 7"),
    (npy(b"\2", descr="|b1"), DamagedFileError, "booleans that are neither 0 nor 1"),
]
