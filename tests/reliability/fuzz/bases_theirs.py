"""Files that other tools write, and the content that they were given.

Files in tests/formats/theirs and made were written by the scripts beside them, whose constants
are repeated here. The libraries write the other files.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.reliability.fuzz.base import Base, base
from tests.reliability.fuzz.bases_ours import NO_LEVELS, ROWS, WORDS, ZIPS, files_in
from tests.reliability.fuzz.known import Content, known, ragged, without_names

FORMATS = Path(__file__).parents[2] / "formats"
THEIRS, MADE, KEPT = FORMATS / "theirs", FORMATS / "made", FORMATS / "kept"
FLAT = [[1, 2, 3], [], [4], [5, 6]]
DEEP = [[[1], []], [], [[2, 3]], [[4]]]
TEXTS = ["größe", "", "b", "c"]


@base("tfrecord, theirs")
def tfrecord_theirs() -> Base:
    """Return a file of the tfrecord package: nothing describes its features."""
    from tfrecord.writer import TFRecordWriter

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "good.tfrecord")
        writer = TFRecordWriter(str(path))
        for flat, deep, text in zip(FLAT, DEEP, TEXTS, strict=True):
            context = {"text": (text.encode(), "byte"), "n": (len(flat), "int")}
            writer.write(context, {"deep": (deep, "int")})
        writer.close()
        files = files_in(Path(folder))
    content = {
        "deep": ragged(DEEP, 2, "int64"),
        "n": known([len(flat) for flat in FLAT]),
        "text": ragged(TEXTS, 1, "uint8"),
    }
    return Base(
        "tfrecord", files, "good.tfrecord", content, kinds={"good.tfrecord": "tfrecord.inside"}
    )


def of_file(path: Path, format_name: str, content: Content, **about: Any) -> Base:
    """Return a base that is a file, or a folder, of this repository."""
    if path.is_dir():
        files = {f"good/{name}": data for name, data in files_in(path).items()}
        return Base(format_name, files, "good", content, **about)
    return Base(format_name, {path.name: path.read_bytes()}, path.name, content, **about)


# -- NumPy, Awkward, torch, safetensors ----------------------------------------------

ARRAYS = {"data": ROWS, "lod.0": [0, 3, 4, 6], "lod.1": [0, 3, 5, 9, 10, 12, 15]}


@base("npz, NumPy")
def npz_by_numpy() -> Base:
    image = io.BytesIO()
    arrays: dict[str, Any] = {name: np.asarray(array) for name, array in ARRAYS.items()}
    np.savez(image, **arrays)
    return Base("npz", {"good.npz": image.getvalue()}, "good.npz", without_names(WORDS), **ZIPS)


@base("npy, Fortran")
def npy_by_numpy() -> Base:
    image = io.BytesIO()
    np.save(image, np.asfortranarray(ROWS.astype(">f4")))
    return Base("npy", {"good.npy": image.getvalue()}, "good.npy", NO_LEVELS)


@base("npz, deflated")
def npz_deflated() -> Base:
    arrays: dict[str, Any] = {
        **ARRAYS,
        "data": np.asfortranarray(ROWS).astype(">f4"),
        "x": np.zeros(900, "u1"),
    }
    image = io.BytesIO()
    np.savez_compressed(image, **arrays)
    content = {**without_names(WORDS), "x": known(np.zeros(900, np.uint8))}
    return Base("npz", {"good.npz": image.getvalue()}, "good.npz", content, **ZIPS)


@base("awkward, Awkward")
def awkward_by_awkward() -> Base:
    content = {
        "x": ragged([[[1, 2], [3]], [], [[]]], 2, "int64"),
        "y": ragged(["ab", "", "cde"], 1, "uint8"),
        "z.w": known([1.5, -2.5, 0.0]),
    }
    return of_file(THEIRS / "awkward.npz", "awkward", content, sealed=True)


SEQUENCES = [np.arange(6.0).reshape(3, 2), np.arange(2.0).reshape(1, 2) - 9, np.ones((2, 2))]
LISTED = known(np.concatenate(SEQUENCES), [[3, 1, 2]], None, "float32")
# Sequences of 3, 1 and 2 rows, the longest first.
PACKED = replace(
    known(np.concatenate(SEQUENCES)[[0, 4, 3, 1, 5, 2]], [[3, 2, 1]], None, "float32"),
    order=(0, 2, 1),
    outer=((3, 1, 2),),
)


def _several() -> Content:
    deep = np.concatenate([*SEQUENCES, SEQUENCES[0]])
    return {
        "nested": LISTED,
        "packed": PACKED,
        "deep": known(deep, [[3, 0, 1], [3, 1, 2, 3]], None, "float32"),
        "plain": known([1, 2], dtype="int16"),
        "half": replace(known(np.zeros((2, 1), np.uint16)), dtype="bfloat16", rows=b"\x80\x3f" * 2),
    }


TORCH: dict[str, Callable[[], Content]] = {
    "nested": lambda: {"data": LISTED},
    "packed": lambda: {"data": PACKED},
    "padded": lambda: {"data": LISTED},
    "list": lambda: {"data": LISTED},
    "several": _several,
}
for _name, _content in TORCH.items():

    @base(f"torch, torch {_name}")
    def torch_file(name: str = _name, content: Callable[[], Content] = _content) -> Base:
        path = MADE / f"{name}.pt"
        return of_file(path, "torch", content(), sealed=True, oracle="torch_file")


@base("safetensors, theirs")
def safetensors() -> Base:
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in ARRAYS.items()}
    content = save(arrays, metadata={"format": "np", "note": "größe"})
    return Base(
        "safetensors", {"good.safetensors": content}, "good.safetensors", without_names(WORDS)
    )


# -- tokens, samples, text -----------------------------------------------------------

DOCUMENTS = [[[5, 6, 7], [8]], [], [[9, 10], [], [11, 12, 13, 14]]]


def _megatron(name: str, content: Content) -> Base:
    files = {f"{name}.{end}": (THEIRS / f"{name}.{end}").read_bytes() for end in ("idx", "bin")}
    kinds = {f"{name}.bin": "tokens"}
    return Base("megatron", files, f"{name}.idx", content, kinds=kinds)


@base("megatron, megatron-core")
def megatron() -> Base:
    return _megatron("megatron", {"data": ragged(DOCUMENTS, 2, "uint16")})


@base("megatron, modes")
def megatron_modes() -> Base:
    content = {
        "data": ragged(DOCUMENTS, 2, "int32"),
        "mode": ragged([[0, 1], [], [2, 3, 4]], 1, "int8"),
    }
    return _megatron("megatron_modes", content)


@base("megatron, fairseq")
def fairseq() -> Base:
    sequences = [[5, 6, 7, 2], [2], [], [9, 10, 11, 12, 2]]
    return _megatron("fairseq", {"data": ragged(sequences, 1, "uint16")})


TOKENS = [50256, 464, 2068, 50256, 50256, 7586, 21831]


@base("llmc, llm.c")
def llmc() -> Base:
    return of_file(THEIRS / "llmc.bin", "llmc", {"data": known(TOKENS, dtype="uint16")})


@base("tokens, nanoGPT")
def nanogpt() -> Base:
    documents = [[464, 2068, 50256], [50256], [7586, 21831, 50256]]
    content = {"data": ragged(documents, 1, "uint16")}
    return of_file(THEIRS / "nanogpt.bin", "tokens", content, options={"end_token": 50256})


@base("webdataset, theirs")
def webdataset() -> Base:
    content = {
        "tokens": ragged([list(range(at)) for at in range(3)], 1, "int32"),
        "frames": ragged([[[at, at]] * (at + 1) for at in range(3)], 1, "float16"),
        "weight": known([0, 0.5, 1], dtype="float32"),
        "cls": known([-1, 0, 1]),
        "score": known([0.5, 0.75, 1.0]),
        "txt": ragged(["größe" * at for at in range(3)], 1, "uint8"),
    }
    return of_file(THEIRS / "webdataset.tar", "webdataset", content)


for _name in ("mds", "mds_zstd"):

    @base(f"mds, streaming{_name[3:].replace('_', ' ')}")
    def mds(name: str = _name) -> Base:
        frames = [[[2 * row, 2 * row + 1] for row in range(at + 1)] for at in range(4)]
        content = {
            "tokens": ragged(
                [[row + 10 * at for row in range(at + 1)] for at in range(4)], 1, "int32"
            ),
            "any": ragged([[at] * (300 * (at + 1)) for at in range(4)], 1, "uint16"),
            "frames": ragged(frames, 1, "float32"),
            "box": known([[[at, 1], [2, 3]] for at in range(4)], dtype="int16"),
            "label": known([-1, 0, 1, 2]),
            "weight": known([0, 0.25, 0.5, 0.75], dtype="float32"),
            "text": ragged(["größe" * at for at in range(4)], 1, "uint8"),
            "raw": ragged([list(range(at)) for at in range(4)], 1, "uint8"),
        }
        path = THEIRS / name
        inside = "mds.zstd" if name == "mds_zstd" else "mds"
        kinds = {f"good/{one.name}": inside for one in path.iterdir()} | {"good/index.json": "json"}
        return of_file(path, "mds", content, kinds=kinds)


LINES = [{"a": [[1, 2], [3]], "b": "größe", "c": 1.5}, {"a": [], "b": "", "c": -2e-3}]


@base("jsonl, records")
def jsonl() -> Base:
    text = "".join(json.dumps(line) + "\n" for line in LINES).replace("e-", "E-")
    content = {
        "a": ragged([line["a"] for line in LINES], 2, "int64"),
        "b": ragged([line["b"] for line in LINES], 1, "uint8"),
        "c": known([line["c"] for line in LINES]),
    }
    return Base("jsonl", {"good.jsonl": text.encode()}, "good.jsonl", content)


@base("csv, quoted")
def csv() -> Base:
    text = '"doc",word,"x"\r\n"a, ""b""",1,2.5\r\n"a, ""b""",1,-3e2\r\n"c",7,.5\r\n'
    content = {"x": known([2.5, -300, 0.5], [[1, 1], [2, 1]])}
    options = {"levels": ("doc", "word")}
    return Base("csv", {"good.csv": text.encode()}, "good.csv", content, options=options)


@base("text, lines")
def text() -> Base:
    options = {"levels": ("line",)}
    content = {"data": ragged(["to be", "größe", "or not"], 1, "uint8")}
    lines = "to be\ngröße\r\nor not".encode()
    return Base("text", {"good.txt": lines}, "good.txt", content, options=options)


@base("ts, labels")
def ts() -> Base:
    text = (
        "# from elsewhere\n@problemName x\n@timeStamps false\n@univariate false\n"
        "@dimensions 2\n@equalLength false\n@classLabel true yes no\n@data\n"
        "1,2,3:4,5,6:yes\n7,8:9,-1.5:no\n"
    )
    rows = [[1, 4], [2, 5], [3, 6], [7, 9], [8, -1.5]]
    content = {
        "data": known(rows, [[3, 2]], None, "float64"),
        "label": known([0, 1]),
        "label_names": ragged(["yes", "no"], 1, "uint8"),
    }
    return Base("ts", {"good.ts": text.encode()}, "good.ts", content)
