"""A format with a reader that tests control, and helpers for tests of isolation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Item, Schema, schema_of
from lodcli.formats.sandbox.source import IsolatedSource
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

TENSOR = LoDTensor(np.arange(12), LoD.from_lengths([[3, 4, 5]]))
NESTED = LoDTensor(np.ones((6, 2), np.float32), LoD.from_lengths([[2, 0, 1], [1, 2, 3]]))
ISOLATED = Limits(isolate=True)


class Strange(Format):
    """A format whose reader is a function of the test."""

    name = "strange"
    suffixes = ()

    def __init__(self, deed: Callable[[Path], object]) -> None:
        self._deed = deed

    def sniff(self, head: bytes) -> bool:
        return False

    def open(self, source: Input, options: ReadOptions) -> Source:
        assert source.path is not None
        return StrangeSource(lambda: self._deed(source.path or Path()))

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        raise NotImplementedError


class StrangeSource(Source):
    def __init__(self, deed: Callable[[], object]) -> None:
        self.schema = schema_of({"data": TENSOR})
        self._deed = deed

    def batches(self, limit_bytes: int = 0) -> Iterator[Batch]:
        self._deed()
        yield {"data": TENSOR}


def read_by(deed: Callable[[Path], object], path: Path) -> Item:
    path.write_bytes(b"strange")
    with Input(path) as source:
        isolated = IsolatedSource(Strange(deed), source, ReadOptions(), 1 << 20, 7)
        try:
            return isolated.read()["data"]
        finally:
            isolated.close()


def held() -> tuple[list[str], str]:
    """Return the descriptors and the children of this process."""
    task = Path("/proc/self/task", str(threading.get_native_id()))
    return sorted(os.listdir("/proc/self/fd")), (task / "children").read_text()
