"""Containers broken on purpose: a good one, changed through h5py or byte by byte.

After a change the checksums can be made right again, so that just one rule is broken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import google_crc32c
import h5py
import numpy as np

from lodcli.formats.core import io
from lodcli.formats.core.schema import Item, StoredArray
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray

# file, header: both are changed in place.
Change = Callable[[h5py.File, dict[str, Any]], None]
ByteChange = Callable[[bytes], bytes]

ARTICLES = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"])
ROWS = np.arange(30, dtype=np.float32).reshape(15, 2)


def _bases() -> dict[str, dict[str, Item]]:
    articles = LoDTensor(ROWS, ARTICLES)
    flags = LoDTensor(np.arange(15) % 2 == 0, ARTICLES)
    array = StoredArray(*TensorArray.unpack(articles, 1))
    return {
        "articles": {"data": articles},
        "compressed": {"data": articles},
        "chunks": {"data": LoDTensor(np.zeros((80_000, 2), np.float32), LoD([[0, 80_000]]))},
        "shared": {"data": articles, "flags": flags},
        "array": {"data": array},
        "text": {"data": LoDTensor.from_lists(["Grüß", "", "a"])},
        "categories": {"data": LoDTensor([1, 0, 1]).as_categories(["no", "yes"])},
        "nulls": {"data": LoDTensor.from_lists([[1, None], None, [3], [4, 5, 6, 7, None, 9, 10]])},
    }


@cache
def good(base: str) -> bytes:
    """Return a container that breaks no rule."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "good.lod.h5"
        compression = "deflate" if base in ("compressed", "chunks") else None
        io.write(path, _bases()[base], compression=compression)
        return path.read_bytes()


@cache
def by_libhdf5(content: bytes) -> bytes:
    """Return a container with the same datasets, whose structures libhdf5 wrote."""
    with TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours.lod.h5", Path(folder) / "theirs.lod.h5"
        ours.write_bytes(content)
        space = {"alignment_threshold": 1, "alignment_interval": 64}
        oldest = ("earliest", "v108")
        with h5py.File(ours) as old, h5py.File(theirs, "w", libver=oldest, **space) as file:
            for path in json.loads(old["/header"][()])["datasets"]:
                dataset = old[path]
                packed = {"chunks": dataset.chunks, "compression": dataset.compression}
                if dataset.chunks:
                    packed |= {"shuffle": True, "maxshape": dataset.maxshape}
                put(file, path, dataset[()], **packed)
            put_header(file, old["/header"][()].tobytes())
        return theirs.read_bytes()


def encoded(header: dict[str, Any]) -> bytes:
    """Return the text of a header, its checksum right."""
    content = {key: value for key, value in header.items() if key != "crc32c"}
    return sealed(json.dumps(content, separators=(",", ":")).encode()[:-1])


def sealed(body: bytes) -> bytes:
    """Return what stands before the comma of the checksum, with a right checksum."""
    return body + b',"crc32c":"%08x"}' % google_crc32c.value(body)


def put(file: h5py.File, path: str, data: Any, **options: Any) -> h5py.Dataset:
    """Replace a dataset."""
    if path in file:
        del file[path]
    return file.create_dataset(path, data=data, track_times=False, **options)


def put_header(file: h5py.File, text: bytes) -> None:
    """Replace the header's text."""
    put(file, "/header", np.array(text, f"S{len(text)}"))


def reseal(file: h5py.File, header: dict[str, Any], path: str) -> None:
    """Make shape and checksums in the header what the dataset is."""
    data = file[path][()]
    entry = header["datasets"][path]
    entry["shape"] = list(data.shape)
    rows = entry["block_rows"]
    blocks = [data[start : start + rows].tobytes() for start in range(0, len(data), rows)]
    entry["crc32c"] = "".join(f"{google_crc32c.value(block):08x}" for block in blocks)


def edit(path: Path, change: Change, paths: Sequence[str] = ()) -> None:
    """Change a file, then make the checksums of `paths` and of the header right again."""
    with h5py.File(path, "r+") as file:
        text = file["/header"][()].tobytes()
        header = json.loads(text)
        change(file, header)
        for name in paths:
            reseal(file, header, name)
        # A change that replaced the header itself meant to.
        if _is_text(file, text):
            put_header(file, encoded(header))


def _is_text(file: h5py.File, text: bytes) -> bool:
    hard = isinstance(file.get("/header", getlink=True), h5py.HardLink)
    found = file["/header"] if hard else None
    return (
        isinstance(found, h5py.Dataset)
        and found.dtype.kind == "S"
        and found.shape == ()
        and found[()].tobytes() == text
    )


@dataclass(frozen=True)
class Case:
    """A file that breaks one rule.

    Attributes:
        rule: its number in docs/format.md.
        name: what is wrong.
        base: which good file it starts as.
        error: what reading it raises.
        message: part of the message, which also names the file.
        make: changes the good file at a path.
    """

    rule: str
    name: str
    base: str
    error: type[Exception]
    message: str
    make: Callable[[Path], None]

    def __str__(self) -> str:
        return f"{self.rule}-{self.name}"

    def build(self, folder: Path) -> Path:
        """Return the broken file, made in `folder`."""
        path = folder / f"{self}.lod.h5"
        path.write_bytes(good(self.base))
        self.make(path)
        return path


CASES: list[Case] = []


def case(
    rule: str,
    error: type[Exception],
    message: str,
    *,
    base: str = "articles",
    paths: Sequence[str] = (),
) -> Callable[[Change], Change]:
    """Register a change of the open file; the checksums of `paths` are then made right."""

    def register(change: Change) -> Change:
        def make(path: Path) -> None:
            edit(path, change, paths)

        CASES.append(Case(rule, change.__name__, base, error, message, make))
        return change

    return register


def byte_case(
    rule: str, error: type[Exception], message: str, *, base: str = "articles"
) -> Callable[[ByteChange], ByteChange]:
    """Register a change of the bytes that libhdf5 writes, as the first releases did."""

    def register(change: ByteChange) -> ByteChange:
        def make(path: Path) -> None:
            path.write_bytes(change(by_libhdf5(path.read_bytes())))

        CASES.append(Case(rule, change.__name__, base, error, message, make))
        return change

    return register
