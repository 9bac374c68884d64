"""Files with one fault each, and the expected error, by format."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from struct import pack

import numpy as np

from tests.formats.cases.writing import npy

TS = (
    b"@problemName p\n@timeStamps false\n@missing false\n@univariate true\n"
    b"@equalLength false\n@classLabel false\n@data\n"
)
SHORT_TS = TS.replace(b"@equalLength false", b"@equalLength true\n@seriesLength 2")
TWO_TS = TS.replace(b"@univariate true", b"@univariate false\n@dimensions 2")


@dataclass(frozen=True)
class Fault:
    """A file.

    Attributes:
        fault: the kind of fault.
        suffix: of the file.
        data: its bytes.
        said: parts of the message, the place and the remedy among them.
        options: of the command line.
        code: the exit code.
    """

    fault: str
    suffix: str
    data: bytes
    said: tuple[str, ...]
    options: tuple[str, ...] = ()
    code: int = 1

    @property
    def name(self) -> str:
        return f"{self.fault}, {self.suffix}: {self.said[0]}"


def tar(*files: tuple[str, bytes]) -> bytes:
    """Return an archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def npz(*files: tuple[str, bytes]) -> bytes:
    """Return an archive of arrays; a name may be there twice."""
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
        warnings.simplefilter("ignore")
        for name, data in files:
            archive.writestr(name, data)
    return stream.getvalue()


def _objects() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, data=np.array([[1, 2], [3]], object))
    return stream.getvalue()


def _safetensors(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


_TWICE = b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
_ALIKE = "make them alike, or choose other fields with --columns"
_FIELD = "choose other fields with --columns"
_INT32 = ("--dtype", "int32")

FAULTS = [
    # -- ragged where it must be rectangular --
    Fault(
        "ragged",
        ".jsonl",
        b"[[1,2],[3,4]]\n[[1,2],[3]]\n",
        ("line 2: item <1>: expected 2 values in a row, found 1", "one more name in --levels"),
        ("--levels", "a"),
    ),
    Fault(
        "ragged", ".csv", b"a,b\n1,2\n3\n", ("line 3: expected 2 fields, as line 1 has, found 1",)
    ),
    Fault(
        "ragged",
        ".csv",
        b"a,b\n# notes\n1,2\n",
        ("line 2: expected 2 fields, as line 1 has, found 1",),
        ("--skip-unsupported",),
    ),
    Fault(
        "ragged",
        ".tsv",
        b"a\tb\n1\t2\n3\t4\t5\n",
        ("line 3: expected 2 fields, as line 1 has, found 3",),
    ),
    Fault("ragged", ".ts", TWO_TS + b"1,2:3,4\n1,2:3\n", ("line 10, channel 1: expected 2 steps",)),
    Fault("ragged", ".ts", SHORT_TS + b"1,2\n1,2,3\n", ("line 10: expected 2 steps, found 3",)),
    Fault(
        "ragged",
        ".tar",
        tar(("0.x.npy", npy([[1, 2], [3, 4]])), ("1.x.npy", npy([[1, 2, 3]]))),
        ("sample 1: x: expected int64 of shape (n, 2) as in the first", _ALIKE),
    ),
    Fault(
        "ragged", ".npz", _objects(), ("data.npy: holds Python objects, which are never",), code=4
    ),
    # -- mixed types in a column --
    Fault(
        "mixed", ".jsonl", b'[1,2]\n[1,"a"]\n', ("line 2: item <1>: expected a number, found text",)
    ),
    Fault(
        "mixed",
        ".jsonl",
        b"[1,2]\n[1,true]\n",
        ("line 2: item <1>: expected a number, found true", "all values must be of one kind"),
    ),
    Fault(
        "mixed",
        ".jsonl",
        b'{"x":1,"y":"a"}\n{"x":2,"y":3}\n',
        ("line 2: field y: expected text, found 3",),
    ),
    Fault(
        "mixed",
        ".csv",
        b"a,b\n1,2\n3,x\n",
        ("line 3, column 'b': expected a whole number", "choose other columns with --columns"),
    ),
    Fault(
        "mixed",
        ".tsv",
        b"a\tb\n" + b"1\t2\n" * 20_000 + b"3\t2.5\n",
        ("line 20002, column 'b': expected a whole number", "--dtype float64 may hold it"),
    ),
    Fault(
        "mixed", ".ts", TS + b"1,2\n1,x\n", ("line 9, channel 0, step 1: expected a number, found",)
    ),
    Fault(
        "mixed",
        ".tar",
        tar(("0.x.npy", npy([1, 2])), ("1.x.npy", npy([0.5]))),
        ("sample 1: x: expected int64", "found float64", _ALIKE),
    ),
    Fault(
        "mixed",
        ".tar",
        tar(("0.x.json", b"[1,2]"), ("1.x.json", b'[1,"a"]')),
        ("1.x.json: is neither a number nor a list of numbers", _FIELD),
        code=4,
    ),
    Fault(
        "mixed",
        ".npz",
        npz(("data.npy", npy([1, 2])), ("lod.0.npy", npy([0.0, 2.0]))),
        ("lod.0.npy: offsets must be integers in one dimension, found float64",),
    ),
    Fault(
        "mixed",
        ".jsonl",
        b"[true,1]\n",
        ("line 1: item <1>: expected true or false, found 1", "all values must be of one kind"),
    ),
    Fault("mixed", ".csv", b"a\n1\n--1\n", ("line 3, column 'a': expected a whole", "'--1'")),
    # -- something else by that name --
    Fault(
        "other",
        ".jsonl",
        b'{\n  "x": [1, 2]\n}\n',
        ("line 1: column 2: ends before", "--from json"),
    ),
    Fault("other", ".json", b"[1]\n[2]\n", ("byte 4: the array ends here", "--from jsonl")),
    Fault("other", ".npy", b"[1, 2]", ("has the extension of npy but does not begin like it",)),
    Fault("other", ".npy", npy([1, 2])[:40], ("ends within its header",)),
    Fault("other", ".npz", npz(), ("holds no array",)),
    Fault("other", ".tar", b"hello", ("cut off, or no tar archive",)),
    Fault("other", ".tar", gzip.compress(bytes(1024)), ("is packed with gzip", "ends with .gz")),
    Fault("other", ".tar", bz2.compress(bytes(1024)), ("is packed with bzip2", "unpack it")),
    Fault("other", ".tfrecord", zlib.compress(bytes(64)), ("is packed with zlib", "unpack it")),
    Fault("other", ".bin", b"\x7fELF" + bytes(60), ("begins like a program", "--from tokens")),
    Fault("other", ".bin", npz(("x.txt", b"x")), ("begins like a zip file", "--from tokens")),
    Fault("other", ".bin", b"Some words, no tokens.\n", ("begins like text", "--from tokens")),
    # -- depth that varies --
    Fault(
        "depth",
        ".jsonl",
        b"[[1,2],[3]]\n[1,2]\n",
        ("line 2: item <0>: expected a list, found 1", "nested equally deep"),
    ),
    Fault(
        "depth",
        ".jsonl",
        b'{"x":[1],"y":1}\n{"x":[1],"y":[1]}\n',
        ("line 2: field y: expected a number, found a list", "nested equally deep"),
    ),
    Fault(
        "depth",
        ".tar",
        tar(("0.x.npy", npy([1, 2])), ("1.x.npy", npy([[1]]))),
        ("sample 1: x: expected int64 of shape (n)", "found int64 of shape (1, 1)", _ALIKE),
    ),
    Fault(
        "depth",
        ".tar",
        tar(("0.x.json", b"[1,2]"), ("1.x.json", b"[[1]]")),
        ("1.x.json: is neither a number nor a list", _FIELD),
        code=4,
    ),
    # -- what is missing among whole numbers --
    Fault(
        "missing", ".jsonl", b"[1,2]\n[1,NaN]\n", ("line 2: NaN is not JSON", "write null instead")
    ),
    Fault(
        "missing",
        ".jsonl",
        b'{"x":[1]}\n{"y":null}\n',
        ("line 2: field 'x' is missing", "--columns"),
    ),
    Fault(
        "missing",
        ".csv",
        b"a,b\n" + b"1,2\n" * 20_000 + b"3,\n",
        ("line 20002, column 'b': expected a whole number (int64), found ''", "--nulls keep"),
    ),
    Fault(
        "missing",
        ".csv",
        b"a,b\n" + b"1,2\n" * 20_000 + b"3,nan\n",
        ("line 20002, column 'b': expected a whole number", "--dtype float64 may hold it"),
    ),
    Fault(
        "overflow",
        ".csv",
        b"a\n" + b"1\n" * 40_000 + b"1e999\n",
        (
            "line 40002, column 'a': expected a whole number (int64)",
            "it exceeds float64, and so every",
        ),
    ),
    Fault(
        "overflow",
        ".csv",
        b"a\n0.5\ninf\n-1e999\n",
        ("line 4, column 'a': expected a number (float64)", "it exceeds float64, and so every"),
    ),
    Fault(
        "missing",
        ".csv",
        b"a,b\n1,2\n3,1_000\n",
        ("line 3, column 'b': expected a whole number (int64), found '1_000'", "--columns"),
    ),
    Fault("missing", ".tsv", b"a\n1\nNone\n", ("line 3, column 'a'", "--nulls keep reads it")),
    Fault("missing", ".ts", TS + b"1,2\n1,NaN\n", ("line 9, channel 0, step 1: is missing",)),
    Fault(
        "missing",
        ".tar",
        tar(("0.x.json", b"[1,2]"), ("1.x.json", b"[null]")),
        ("1.x.json: is neither a number", _FIELD),
        code=4,
    ),
    # -- too large --
    Fault(
        "overflow",
        ".jsonl",
        b"[1,2]\n[1,2147483648]\n",
        (
            "line 2: item <1>: 2147483648 cannot be represented exactly in int32",
            "--dtype int64 may hold it",
        ),
        _INT32,
    ),
    Fault(
        "overflow",
        ".jsonl",
        b"[1,2]\n[1,18446744073709551616]\n",
        ("line 2: item <1>: 18446744073709551616", "--dtype float64 may hold it"),
    ),
    Fault(
        "overflow",
        ".csv",
        b"a,b\n1,2\n3,-2147483649\n",
        ("line 3, column 'b': expected a whole number (int32)", "--dtype int64 may hold it"),
        _INT32,
    ),
    Fault(
        "overflow",
        ".tsv",
        b"a\tb\n1\t2\n3\t18446744073709551616\n",
        ("line 3, column 'b'", "--dtype float64 may hold it"),
    ),
    Fault(
        "overflow",
        ".tar",
        tar(("0.x.json", b"[1,2]"), ("1.x.json", b"[9223372036854775808]")),
        (
            "1.x.json: 9223372036854775808 cannot be represented exactly in int64",
            "store it as .npy",
        ),
    ),
    Fault(
        "overflow",
        ".tar",
        tar(("0.x.json", b"[0.5,9007199254740993]")),
        ("0.x.json: 9007199254740993 cannot be represented exactly in float64",),
    ),
    # -- the same name twice --
    Fault(
        "twice", ".jsonl", b'{"x":[1]}\n{"x":[1],"x":[2]}\n', ("line 2: field 'x' appears twice",)
    ),
    Fault("twice", ".csv", b"a,b,a\n1,2,3\n", ("line 1: two columns are named 'a'",)),
    Fault("twice", ".tsv", b"a\ta\n1\t2\n", ("line 1: two columns are named 'a'",)),
    Fault("twice", ".ts", b"@timeStamps false\n" + TS, ("line 3: '@timeStamps' appears twice",)),
    Fault(
        "twice",
        ".tar",
        tar(("0.x.npy", npy([1])), ("0.x.npy", npy([2]))),
        ("0.x.npy: a second field x of this sample",),
    ),
    Fault(
        "twice",
        ".npz",
        npz(("data.npy", npy([1])), ("data.npy", npy([2]))),
        ("two members for data.npy",),
    ),
    Fault(
        "twice",
        ".safetensors",
        _safetensors(_TWICE[:-1] + b"," + _TWICE[1:], b"\0"),
        ("the header: 'x' appears twice",),
    ),
    # -- letters --
    Fault("UTF-8", ".jsonl", b'["a"]\n["\xff"]\n', ("line 2: byte 2 is not UTF-8", "--encoding")),
    Fault("UTF-8", ".csv", b"a,b\n1,2\n3,\xe9\n", ("line 3: is not UTF-8", "--encoding")),
    Fault("UTF-8", ".tsv", b"a\tb\n1\t2\n\xe9\t3\n", ("line 3: is not UTF-8", "--encoding")),
    Fault("UTF-8", ".ts", TS + b"1,2\n1,\xff\n", ("line 9, channel 0, step 1: expected a number",)),
    Fault("UTF-8", ".tar", tar(("0.x.json", b"\xff")), ("0.x.json: is not JSON", _FIELD)),
    Fault("packed", ".jsonl", gzip.compress(b"[1]\n"), ("packed with gzip", "ends with .gz")),
    Fault("packed", ".csv", lzma.compress(b"a\n1\n"), ("packed with xz", "unpack it first")),
    Fault("packed", ".tsv", b"\x28\xb5\x2f\xfd", ("packed with zstd", "ends with .zst")),
    Fault(
        "UTF-16", ".jsonl", "[1]\n".encode("utf-16"), ("begins like UTF-16", "--encoding utf-16")
    ),
    Fault("UTF-16", ".jsonl", "[1]\n".encode("utf-16-le"), ("or UTF-16", "utf-16-le")),
    Fault("UTF-16", ".ts", TS.decode().encode("utf-16-be"), ("or UTF-16", "utf-16-be")),
    Fault("UTF-16", ".csv", "a\n1\n".encode("utf-16"), ("begins like UTF-16", "--encoding utf-16")),
    Fault("UTF-16", ".txt", "a b\n".encode("utf-16"), ("begins like UTF-16", "--encoding utf-16")),
    Fault("UTF-32", ".csv", "a\n1\n".encode("utf-32"), ("like UTF-32", "--encoding utf-32")),
    Fault("UTF-32", ".jsonl", "[1]\n".encode("utf-32-le"), ("or UTF-32", "utf-32-le")),
    Fault("UTF-32", ".txt", "a b\n".encode("utf-32-be"), ("or UTF-32", "utf-32-be")),
    Fault("UTF-32", ".csv", "😀\n1\n".encode("utf-32-be"), ("or UTF-32", "utf-32-be")),
    Fault("UTF-32", ".csv", "😀\n1\n".encode("utf-32-le"), ("or UTF-32", "utf-32-le")),
    Fault("UTF-16", ".txt", "a\nb\n".encode("utf-16-le"), ("or UTF-16", "utf-16-le")),
    Fault("binary", ".csv", b"id\0\0\n1\n", ("byte 2 is NUL: this is binary data, not text",)),
    Fault("binary", ".txt", b"\0\0\1\xba", ("byte 0 is NUL: this is binary data, not text",)),
    Fault("binary", ".txt", pack("<2i", 101, 2023), ("byte 1 is NUL: this is binary data",)),
    Fault("binary", ".txt", pack("<2h", 101, 2023), ("byte 1 is NUL: this is binary data",)),
    Fault(
        "UTF-16",
        ".ts",
        (TS + b"1\n").decode().encode("utf-16"),
        ("begins like UTF-16", "--encoding utf-16"),
    ),
    Fault(
        "mark inside",
        ".jsonl",
        b"[1]\n\xef\xbb\xbf[2]\n",
        ("line 2: column 1: is not JSON", "byte order mark", "remove it"),
    ),
    Fault(
        "mark inside",
        ".csv",
        b"a\n1\n\xef\xbb\xbf2\n",
        ("line 3, column 'a'", "byte order mark", "remove it"),
    ),
    # -- lines that end with "\r" alone --
    Fault("CR", ".jsonl", b"[1]\r[2]\r", ("line 1: column 5: is not JSON", r"tr '\r' '\n'")),
    Fault("CR", ".csv", b"a,b\r1,2\r", ("line 1: a line ends with", r"tr '\r' '\n'")),
]
