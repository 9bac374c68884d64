"""Ops of several tensors, and sort_by_length, work in batches: the same bytes, little memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.commands.apply import in_step, running
from lodcli.formats.core import io
from lodcli.formats.core.schema import DEFAULT_NAME, Schema
from lodcli.formats.items import indexed_copy, reordering
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod

RNG = np.random.default_rng(4)
LINES = [
    "add a b",
    "sub a c",
    "mul a d --dtype float64",
    "div flat labels --then softmax",
    "add labels labels",
    "concat a a --then sum --level article",
    "concat flat other flat",
    "interleave flat other",
    "interleave a a --level sentence",
    "sort_by_length a",
    "sort_by_length a --level sentence",
    "sort_by_length a --level -1 --then mean",
    "sort_by_length flat --then reverse --then cumsum",
    "sort_by_length empty",
    "add empty empty",
]
# Ops that need whole tensors, or wrong input: the messages are the same as without parts.
OTHERS = [
    "add nulls nulls",
    "sort_by_length nulls",
    "add a flat",
    "add flat other",
    "sub a labels",
    "concat a flat",
    "concat flat labels",
    "interleave a b --level 5",
    "mul a single --level article",
    "sort_by_length labels",
    "sort_by_length a --level word",
    "add flat labels --then last --then softmax",
    "concat other other --then reshape --new-dim 4",
    "sort_by_length other --then reshape --new-dim 2",
]


@pytest.fixture
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of 40 outermost items, and batches of a few."""
    sentences = RNG.integers(0, 4, 40)
    words = RNG.integers(0, 6, sentences.sum())
    lod = LoD.from_lengths([sentences, words], ["article", "sentence"])
    rows = int(words.sum())
    lengths = RNG.integers(0, 6, 40)
    lengths[:2] = 2, 0  # the last of an empty sequence is an error, in the first batch

    def tensor(count: int, index: LoD | None = None) -> LoDTensor:
        return LoDTensor(RNG.random((count, 3)).astype("f"), index)

    flat = LoD.from_lengths([lengths])
    tensors = {
        "a": tensor(rows, lod),
        "b": tensor(rows, lod),
        "c": LoDTensor(RNG.random(words.size).astype("f"), lod.without_finest()),
        "d": LoDTensor(RNG.random((words.size, 3)), lod.without_finest()),
        "single": tensor(40),
        "flat": tensor(int(lengths.sum()), flat),
        "other": tensor(int(lengths[::-1].sum()), LoD.from_lengths([lengths[::-1]])),
        "labels": tensor(40),
        "empty": tensor(0, LoD.from_lengths([[]])),
    }
    for name, one in tensors.items():
        io.write(f"{name}.lod.h5", {DEFAULT_NAME: one})
    lines = (f'{{"x": {"null" if n % 7 == 3 else [n] * (n % 4)}}}\n' for n in range(40))
    Path("nulls.jsonl").write_text("".join(lines))
    with lodcli.open("nulls.jsonl") as source:
        io.write_batches("nulls.lod.h5", source.schema, source.batches())
    monkeypatch.setattr(in_step, "COMPUTED_BYTES", 100)
    monkeypatch.setattr(reordering, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(reordering, "BUCKET_BYTES", 100)
    return folder


def typed(line: str) -> list[str]:
    op, *words = line.split()
    return [op, *(f"{word}.lod.h5" if Path(f"{word}.lod.h5").exists() else word for word in words)]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("line", [*LINES, *OTHERS])
def test_batches_give_the_bytes_and_the_errors_of_whole_tensors(
    lod: Lod, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = lod("apply", *typed(line), "-o", "parts.lod.h5")
    monkeypatch.setattr(running, "_written_in_parts", lambda *given: False)
    whole = lod("apply", *typed(line), "-o", "whole.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (whole.code, whole.stdout, whole.stderr)
    if whole.code == 0:
        assert Path("parts.lod.h5").read_bytes() == Path("whole.lod.h5").read_bytes()
    assert whole.code == 0 or line in OTHERS


@pytest.mark.slow
def test_an_error_behind_the_first_batch_ends_a_stream(shell: Lod) -> None:
    lengths = np.full(4_000_000, 2)  # more than a batch
    lengths[-1] = 1
    rows = np.zeros((lengths.sum(), 1), np.int8)
    io.write("t.lod.h5", LoDTensor(rows, LoD.from_lengths([lengths])))
    done = shell("lod apply concat t.lod.h5 t.lod.h5 --then reshape --new-dim 4 > out.lods")
    assert (done.code, done.stderr.count("\n")) == (1, 1)
    said = r"lod apply: of the items from (\d+) on: sequence_reshape: sequence (\d+) has 2 values"
    found = re.match(said, done.stderr)
    assert found is not None
    assert int(found[1]) + int(found[2]) == len(lengths) - 1
    assert Path("out.lods").stat().st_size > 1 << 20
    done = shell("lod verify out.lods")
    assert (done.code, done.stdout) == (1, "out.lods: FAILED\n")


# In a separate process, because its peak memory is measured.
MEMORY = """
import os, resource, sys
import numpy as np
import lodcli
from lodcli.shell.group import group
from lodcli.shell.failures import run

rows = np.zeros((1_000_000, 32), np.float32)  # 128 MB
lodcli.write("t.lod.h5", lodcli.LoDTensor(rows, [[1_000] * 500 + [10_000] * 50]))
del rows
pid = os.fork()
if not pid:
    code = run(group, ["apply", *sys.argv[1:], "-o", "out.lod.h5"])
    print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    os._exit(code)
os.waitpid(pid, 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "most_megabytes"),  # with whole tensors it takes 430, 810, 560 and 300
    [
        ("add t.lod.h5 t.lod.h5", 320),
        ("concat t.lod.h5 t.lod.h5", 420),
        ("interleave t.lod.h5 t.lod.h5", 420),
        ("sort_by_length t.lod.h5", 160),
    ],
)
def test_memory_holds_a_few_batches(line: str, most_megabytes: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *line.split()],
        cwd=tmp_path,
        env={**os.environ, "LOD_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code, peak = map(int, done.stdout.split())
    assert code == 0
    assert peak < most_megabytes * 10**6


def test_of_a_file_that_is_copied_only_the_tensors_of_the_expression_are_copied(
    folder: Path, lod: Lod, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = {
        "a": LoDTensor([1, 2, 3], [[1, 2]]),
        "n": LoDTensor([10, 20]),
        "other": LoDTensor([1, 2, 3], [[2, 1]]),
        "more": LoDTensor([1, 2, 3], [[3]]),
    }
    io.write(folder / "x.lods", tensors)
    copied: list[list[str]] = []
    whole = indexed_copy.copied

    def copy(schema: Schema, batches: Any) -> Any:
        copied.append([spec.name for spec in schema])
        return whole(schema, batches)

    monkeypatch.setattr(indexed_copy, "copied", copy)
    assert lod("apply", "a + n", "x.lods", "-qo", "y.lod.h5").code == 0
    assert copied == [["a", "n"]]
    (found,) = lodcli.read_all("y.lod.h5").values()
    assert isinstance(found, LoDTensor)
    assert found.to_list() == [[11], [22, 23]]
    assert lod("apply", "a + n", "x.lods", "--into", "r", "-qo", "z.lod.h5").code == 0
    assert copied[1:] == [["a", "n", "other", "more"]]
