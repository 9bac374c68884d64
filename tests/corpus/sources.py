"""The crafted files of the corpus, one function per format."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.corpus import npz
from tests.formats.broken.broken_hdf5 import put_others
from tests.formats.broken.containers import CASES
from tests.formats.stream.test_stream_rules import RULES


@dataclass(frozen=True)
class Crafted:
    """A file that breaks one rule of its format.

    Attributes:
        file: folder and name in the corpus.
        format: what it is to be read as.
        content: its bytes.
    """

    file: str
    format: str
    content: bytes


def containers() -> Iterator[Crafted]:
    """Yield a lod.h5 file for each way to break a rule of docs/format.md."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # so that links name their targets without a folder
        try:
            put_others(Path())
            for case in CASES:
                path = case.build(Path())
                yield Crafted(f"containers/{path.name}", "lod.h5", path.read_bytes())
        finally:
            os.chdir(before)


def streams() -> Iterator[Crafted]:
    """Yield a lod stream for each way to break a rule of docs/stream.md."""
    numbers: dict[str, int] = {}
    for rule, _, make in RULES:
        numbers[rule] = numbers.get(rule, 0) + 1
        yield Crafted(f"streams/{rule}-{numbers[rule]}.lods", "lod.stream", make())


def archives() -> Iterator[Crafted]:
    """Yield npz files that are damaged or made to do harm."""
    for name, content in npz.archives():
        yield Crafted(f"npz/{name}.npz", "npz", content)


SOURCES: tuple[Callable[[], Iterator[Crafted]], ...] = (containers, streams, archives)
