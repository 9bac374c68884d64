"""Random damage to a file of any format: an error of ours, or the very same content."""

from __future__ import annotations

import faulthandler
import multiprocessing
import random
import re
import resource
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lodcli.formats import io
from lodcli.formats.base import ReadOptions, WriteOptions
from lodcli.formats.limits import Limits
from lodcli.formats.schema import Item
from lodcli.kernels.errors import LodError
from lodcli.kernels.lod import LoD
from lodcli.kernels.tensor import LoDTensor
from tests.formats.crafted import good
from tests.reliability.outcome import Outcome

THEIRS = Path(__file__).parents[1] / "formats" / "theirs"
# Per file; a good one takes a few milliseconds.
HANG_SECONDS = 10
MAX_BYTES, MORE_BYTES = 64 << 20, 200 << 20
# What damage likes to be: counts, sizes and flags at their limits.
BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)
INTEGERS = (0, 1, -1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1)


@dataclass(frozen=True)
class Base:
    """A good file to be damaged.

    Attributes:
        format: what it is read as.
        content: gives its bytes.
        sealed: whether every byte that matters stands under a checksum: then what is read
            must be what was written.
        beside: a file that the format reads together with this one, and its ending.
        options: how to read it.
    """

    format: str
    content: Callable[[], bytes]
    sealed: bool = False
    beside: tuple[str, Path] | None = None
    options: ReadOptions | None = None


ARTICLES = LoDTensor(
    np.arange(30, dtype=np.float32).reshape(15, 2),
    LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]]),
)
SENTENCES = LoDTensor(np.arange(30.0).reshape(15, 2), LoD.from_lengths([[9, 1, 5]]))
VALUES = LoDTensor(np.arange(15.0), SENTENCES.lod)
WORDS = LoDTensor(
    np.frombuffer(b"onetwothreefourfive", np.uint8),
    LoD.from_lengths([[2, 1], [2, 1, 2], [3, 3, 5, 4, 4]]),
)


def _written(suffix: str, item: LoDTensor, **options: object) -> Callable[[], bytes]:
    def content() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"good{suffix}")
            io.write(path, item, options=WriteOptions(**options))  # type: ignore[arg-type]
            return path.read_bytes()

    return content


def _kept(name: str) -> Callable[[], bytes]:
    """Return what gives a file that another program wrote."""
    return (THEIRS / name).read_bytes


BASES = {
    **{
        f"lod.h5, {name}": Base("lod.h5", lambda name=name: good(name), True)  # type: ignore[misc]
        for name in ("articles", "compressed", "shared", "array", "latest")
    },
    "lod.stream": Base("lod.stream", _written(".lods", ARTICLES), True),
    "npz": Base("npz", _written(".npz", ARTICLES)),
    "safetensors": Base("safetensors", _written(".safetensors", ARTICLES)),
    "paddle": Base("paddle", _written(".lodt", ARTICLES)),
    "torch": Base("torch", _written(".pt", SENTENCES)),
    "arrow": Base("arrow", _written(".arrow", ARTICLES)),
    "arrow-stream": Base("arrow-stream", _written(".arrows", ARTICLES)),
    "parquet": Base("parquet", _written(".parquet", ARTICLES)),
    "megatron": Base("megatron", _kept("megatron.idx"), beside=(".bin", THEIRS / "megatron.bin")),
    "awkward": Base("awkward", _kept("awkward.npz")),
    "h5ad": Base("h5ad", _kept("anndata.h5ad")),
    "nwb": Base("nwb", _kept("units.nwb"), options=ReadOptions(data="/units/spike_times")),
    "vtkhdf": Base("vtkhdf", _kept("grid.vtkhdf")),
    "llmc": Base("llmc", _kept("llmc.bin")),
    "webdataset": Base("webdataset", _written(".tar", SENTENCES)),
    "csv": Base("csv", _written(".csv", VALUES)),
    "jsonl": Base("jsonl", _written(".jsonl", ARTICLES)),
    "text": Base("text", _written(".txt", WORDS)),
    "ts": Base("ts", _written(".ts", SENTENCES)),
}


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return the content with something changed at random."""
    changed = bytearray(content)
    # Every second time where something is; a random place may be padding.
    somewhere = [place for place, byte in enumerate(content) if byte] or [0]
    place = chance.choice(somewhere) if chance.random() < 0.5 else chance.randrange(len(content))
    kind = chance.randrange(8)
    if kind == 0:
        changed[place] ^= 1 << chance.randrange(8)
    elif kind == 1:
        changed[place] = chance.choice(BYTES)
    elif kind == 2:
        size = chance.choice((2, 4, 8))
        changed[place : place + size] = chance.randbytes(size)
    elif kind == 3:
        size = chance.choice((2, 4, 8))
        value = chance.choice(INTEGERS) & ((1 << 8 * size) - 1)
        changed[place : place + size] = value.to_bytes(size, "little")
    elif kind == 4:
        other = chance.randrange(len(changed))
        changed[place : place + 16] = changed[other : other + 16]
    elif kind == 5:
        # One address, size or count in the place of another: what makes loops.
        words = [at for at in range(0, len(changed) - 8, 8) if any(changed[at : at + 8])] or [0]
        here, there = chance.choice(words), chance.choice(words)
        word = chance.choice([changed[there : there + 8], there.to_bytes(8, "little")])
        changed[here : here + 8] = word
    elif kind == 6:
        del changed[place : place + chance.choice((1, 4, 8, len(changed)))]
    else:
        for _ in range(chance.randrange(2, 20)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def same(found: dict[str, Item], expected: dict[str, Item]) -> bool:
    """Return whether two readings of a file hold the same."""
    if found.keys() != expected.keys():
        return False
    for name, item in expected.items():
        other = found[name]
        if isinstance(item, LoDTensor) or isinstance(other, LoDTensor):
            both = isinstance(item, LoDTensor) and isinstance(other, LoDTensor)
            if not both or not item.identical(other):  # type: ignore[arg-type, union-attr]
                return False
        elif not (item.array.identical(other.array) and item.index_map == other.index_map):
            return False
    return True


def in_memory(items: dict[str, Item]) -> dict[str, Item]:
    """Return a copy: what was read may be a map of the file, which is about to change."""
    return {k: v.copy() if isinstance(v, LoDTensor) else v for k, v in items.items()}


def damage(name: str, count: int, seed: int = 1) -> Outcome:
    """Read `count` damaged copies of a base.

    Holds: an error that names the file, or content as it was; no crash, no hang, and no
    more than MORE_BYTES of memory beyond the limit that reading was given.
    """
    outcome = Outcome(f"random damage, {name}")
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder, "note")
        start = 0
        while start < count:
            # A child: damage that crashes or hangs a library must be found, not die of.
            args = (name, seed, start, count, Path(folder, "damaged"), note)
            child = context.Process(target=_child, args=args)
            child.start()
            child.join()
            last = int(note.read_text()) if note.exists() else start
            if child.exitcode == 0:
                break
            outcome.broken.append(f"{name} {seed} {last}: ended with {child.exitcode}")
            start = last + 1
        outcome.tried = count
        if Path(folder, "wrong").exists():
            outcome.broken += Path(folder, "wrong").read_text().splitlines()
    return outcome


def _child(name: str, seed: int, start: int, count: int, path: Path, note: Path) -> None:
    base = BASES[name]
    content = base.content()
    if base.beside:
        path = path.with_suffix(".idx")
        path.with_suffix(base.beside[0]).write_bytes(base.beside[1].read_bytes())
    path.write_bytes(content)
    with io.open_source(path, format_name=base.format, options=base.options) as source:
        expected = in_memory(source.read())
    vm = re.search(r"VmSize:\s*(\d+)", Path("/proc/self/status").read_text())
    assert vm
    room = (int(vm[1]) << 10) + MAX_BYTES + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    for number in range(start, count):
        note.write_text(str(number))
        path.unlink()  # not in place: what was read before may be mapped
        path.write_bytes(damaged(content, random.Random(f"{name} {seed} {number}")))
        # Ends the process with a trace, whatever C code it hangs in.
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        wrong = _wrong(path, base, expected)
        faulthandler.cancel_dump_traceback_later()
        if wrong:
            with Path(path.parent, "wrong").open("a") as file:
                file.write(f"{name} {seed} {number}: {wrong}\n")


def _wrong(path: Path, base: Base, expected: dict[str, Item]) -> str | None:
    """Return what is wrong with the reading of a file, if anything."""
    try:
        limits = Limits(MAX_BYTES)
        with io.open_source(
            path, format_name=base.format, options=base.options, limits=limits
        ) as source:
            found = source.read()
    except LodError as error:
        return None if str(path) in str(error) else f"names no file: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "wrong content" if base.sealed and not same(found, expected) else None
