"""Every way in which a command writes a file: each writable format, each command."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lodcli.formats.core import io
from lodcli.formats.core.schema import StoredArray
from lodcli.formats.core.table import TABLE
from lodcli.formats.weights import KINDS as WEIGHTS
from lodcli.formats.weights import write_weights
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.stack.stack import seeded_weights
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.kinds import KINDS, READ_ONLY

OLD = b"the only copy of somebody's work"


@dataclass(frozen=True)
class Command:
    """A command line that writes.

    Attributes:
        args: arguments of `lod`, relative to the folder of the sources, `{out}` for the folder of
            the target; the option for the target is appended if no argument has it.
        target: the file or folder that it writes.
        files: the names of all files that exist afterwards; of a folder, those in it.
        needs: a package that it requires.
        lacking: calls of the operating system that are made unavailable.
        beside: a source that is copied to the folder of the target, since it is written beside.
        pattern: the argument that names the targets, if they are several files.
    """

    args: tuple[str, ...]
    target: str
    files: tuple[str, ...]
    needs: str = ""
    lacking: frozenset[str] = frozenset()
    beside: str = ""
    pattern: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether the target is a folder."""
        return self.files != () and self.target not in self.files

    def line(self, out: Path, *, force: bool) -> list[str]:
        """Return the arguments of `lod`."""
        named = any("{out}" in arg for arg in self.args)
        target = () if named else ("-o", str(out / (self.pattern or self.target)))
        args = [arg.replace("{out}", str(out)) for arg in self.args]
        return [*args, *target, *(["-f"] if force else [])]

    def start(self, sources: Path, folder: Path, *, old: bool) -> dict[str, bytes]:
        """Write the initial files into an empty folder; return their content.

        Args:
            sources: the folder of the sources.
            folder: that of the target.
            old: whether to put an old target there.
        """
        if self.beside:
            shutil.copy(sources / self.beside, folder)
        if old:
            place = folder / self.target if self.is_folder else folder
            place.mkdir(exist_ok=True)
            for name in self.files:
                if name != self.beside:
                    (place / name).parent.mkdir(parents=True, exist_ok=True)
                    (place / name).write_bytes(OLD + name.encode())
        return content_of(folder)

    @property
    def missing(self) -> bool:
        """Whether the package that it needs is not installed."""
        return bool(self.needs) and importlib.util.find_spec(self.needs) is None


def content_of(folder: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder by their path, but for hidden ones."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part[0] == "." for part in path.relative_to(folder).parts)
    }


_MEMBERS = {
    "lod.dataset": ("data-00000-of-00001.lod.h5", "manifest.lod.h5"),
    "megatron": ("t.bin", "t.idx"),
    "mds": ("index.json", "shard.00000.mds"),
    "datasets": ("data-00000-of-00001.arrow", "dataset_info.json", "state.json"),
    "zarr": (
        *("data/data/c/0", "data/data/zarr.json", "data/lod.0/c/0", "data/lod.0/zarr.json"),
        *("data/zarr.json", "zarr.json"),
    ),
}
_NEEDS = {"torch": "torch", "onnx": "onnx", "zarr": "zarr", "zarr-zip": "zarr"}
_MORE = {
    "torch": ("--form", "flat"),
    "llmc": ("--end-token", "0"),
    "tokens": ("--end-token", "0"),
}
_WORDS = "words.lod.h5"
_RNN = ("run-rnn", _WORDS, "--cell", "gru", "--hidden", "2", "--seed", "1")
_TRAINING = ("--epochs", "1", "--hidden", "2", "--batch", "2")


def _convert(name: str) -> Command:
    path = KINDS[name].path
    args = ("convert", f"{name}.lod.h5", "--to", name, *_MORE.get(name, ()))
    return Command(args, path, _MEMBERS.get(name, (path,)), _NEEDS.get(name, ""))


def _file(target: str, *args: str, needs: str = "") -> Command:
    return Command(args, target, (target,), needs)


COMMANDS: dict[str, Command] = {
    **{f"convert to {name}": _convert(name) for name in TABLE if name not in READ_ONLY},
    "convert --compress": _file("t.lod.h5", "convert", _WORDS, "--compress"),
    "convert to jsonl.gz": _file("t.jsonl.gz", "convert", _WORDS),
    "slice": _file("t.lod.h5", "slice", _WORDS, "1:"),
    "concat": _file("t.lod.h5", "concat", _WORDS, _WORDS),
    "concat to megatron": Command(
        ("concat", "megatron.lod.h5", "megatron.lod.h5"), "t.idx", _MEMBERS["megatron"]
    ),
    "split": Command(
        ("split", _WORDS, "--by", "count", "2"),
        "t-1.lod.h5",
        ("t-0.lod.h5", "t-1.lod.h5"),
        pattern="t-{}.lod.h5",
    ),
    "shard": Command(
        ("shard", _WORDS, "{out}/t", "--shards", "2"),
        "t",
        ("data-00000-of-00002.lod.h5", "data-00001-of-00002.lod.h5", "manifest.lod.h5"),
    ),
    "head": _file("t.lod.h5", "head", _WORDS, "-n", "1"),
    "tail": _file("t.lod.h5", "tail", _WORDS, "-n", "1"),
    "sample": _file("t.lod.h5", "sample", _WORDS, "2"),
    "shuffle": _file("t.lod.h5", "shuffle", _WORDS),
    "sort": _file("t.lod.h5", "sort", _WORDS, "--by", "length"),
    "join": _file(
        "t.lod.h5", "join", "signs.lod.h5", "signs.lod.h5", "--on", "label", "--how", "semi"
    ),
    "group": _file("t.lod.h5", "group", "signs.lod.h5", "--by", "label", "--order", "first"),
    "explode": _file("t.lod.h5", "explode", _WORDS),
    "filter": _file("t.lod.h5", "filter", _WORDS, "length() > 1"),
    "select": _file("t.lod.h5", "select", "signs.lod.h5", "label"),
    "drop": _file("t.lod.h5", "drop", "signs.lod.h5", "label"),
    "rename": _file("t.lod.h5", "rename", "signs.lod.h5", "label=class"),
    "cast": _file("t.lod.h5", "cast", _WORDS, "float64"),
    "merge": _file("t.lod.h5", "merge", "signs.lod.h5", "others.lod.h5"),
    "plan --write": _file("t.lod.h5", "plan", _WORDS, "--tokens", "9"),
    "unpack": _file("t.lod.h5", "unpack", _WORDS),
    "pack": _file("t.lod.h5", "pack", "steps.lod.h5"),
    "apply": _file("t.lod.h5", "apply", "reverse", _WORDS),
    "apply to mds": Command(
        ("apply", "reverse", "mds.lod.h5", "--to", "mds"), "t", _MEMBERS["mds"]
    ),
    # As on macOS, and on many file systems.
    **{
        f"convert to {name}, no renameat2": replace(
            _convert(name), lacking=frozenset({"renameat2"})
        )
        for name in ("lod.h5", "lod.dataset", "megatron", "mds", "datasets", "zarr")
    },
    "verify --write-sums": Command(
        ("verify", "--write-sums", "-q", f"{{out}}/{_WORDS}"),
        f"{_WORDS}.sha256",
        (_WORDS, f"{_WORDS}.sha256"),
        beside=_WORDS,
    ),
    "run-rnn": _file("t.lod.h5", *_RNN),
    "run-rnn --grad": _file("t.npz", *_RNN, "--grad"),
    "train": _file("t.safetensors", "train", "signs.lod.h5", *_TRAINING),
    **{
        f"weights to {kind}": _file(
            "t", "weights", "rnn.safetensors", "--to", kind, needs=_NEEDS.get(kind, "")
        )
        for kind in WEIGHTS
    },
}


def make_sources(folder: Path) -> None:
    """Write the files that the commands read."""
    lod = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"])
    words = LoDTensor(np.arange(30, dtype=np.float32).reshape(15, 2), lod)
    io.write(folder / _WORDS, words)
    io.write(folder / "steps.lod.h5", StoredArray(*TensorArray.unpack(words, 1)))
    ones = LoD.from_lengths([[2, 1, 3]])
    label = LoDTensor(np.arange(3) % 2, LoD(()))
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    io.write(folder / "signs.lod.h5", {"data": LoDTensor(rows, ones), "label": label})
    io.write(folder / "others.lod.h5", {"other": LoDTensor(rows, ones)})
    write_weights(
        folder / "rnn.safetensors",
        seeded_weights("lstm", 3, 4, rng=np.random.default_rng(1), dtype="float32"),
    )
    for name in TABLE:
        if name not in READ_ONLY:
            io.write(folder / f"{name}.lod.h5", _content(name))


def _content(name: str) -> dict[str, LoDTensor]:
    """Return what a format can hold."""
    lod = LoD() if name == "npy" else LoD.from_lengths([[2, 1, 4]])
    dtypes = {"ts": np.float32, "h5ad": np.float32, "text": np.uint8, "paddle": np.int64}
    dtype = dtypes.get(name, np.uint16)
    shape = (7, 1) if name == "ts" else (7,)
    made = KINDS[name].made({"data": LoDTensor(np.arange(7).astype(dtype).reshape(shape), lod)})
    return {one: item for one, item in made.items() if isinstance(item, LoDTensor)}
