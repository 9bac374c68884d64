"""`--jobs` over one lod.h5 file: cut at outermost items, and joined again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.hanging import HANG_SECONDS, wait_for
from tests.lodcli.conftest import Lod, tensor
from tests.lodcli.shard_cases import (
    SHARDS,
    assert_same,
    flip_a_row,
    hold,
    inodes,
    make_dataset,
    needs_proc,
    running,
)
from tests.slow import one_in

STEP = ["run-rnn", "one.lod.h5::data", "--step", "model:step"]


@pytest.fixture(autouse=True)
def _one(folder: Path) -> None:
    """Make one.lod.h5."""
    make_dataset()


@pytest.mark.parametrize(
    "args",
    one_in(
        3,
        [
            ["run-rnn", "one.lod.h5::data", "--cell", "gru", "--hidden", "4", "--seed", "2"],
            ["convert", "one.lod.h5", "--compress"],
            ["apply", "softmax", "one.lod.h5::data", "--then", "sum"],
        ],
    ),
    ids=lambda args: args[0],
)
def test_the_file_is_what_the_command_makes_alone_and_no_byte_tells_how_many_processes(
    lod: Lod, args: list[str]
) -> None:
    for jobs in (1, 2):
        done = lod(*args, "--jobs", jobs, "-o", f"out{jobs}.lod.h5")
        assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert Path("out1.lod.h5").read_bytes() == Path("out2.lod.h5").read_bytes()
    assert not [name for name in os.listdir() if name.startswith("out1.lod.h5.")]
    assert lod(*args, "-o", "whole.lod.h5").code == 0
    assert_same("whole.lod.h5", "out2.lod.h5")


@pytest.mark.slow
def test_the_result_may_be_of_any_format_or_a_dataset(lod: Lod) -> None:
    assert lod("convert", "one.lod.h5::data", "out.npz", "--jobs", "2").code == 0
    assert tensor("out.npz").identical(tensor("one.lod.h5", "data"))
    assert lod("convert", "ds::data", "of_shards.npz", "--jobs", "2").clean
    assert Path("of_shards.npz").read_bytes() == Path("out.npz").read_bytes()
    assert lod("convert", "one.lod.h5", "out.h5", "--jobs", "2").code == 0
    assert lod("diff", "-q", "one.lod.h5", "out.h5").code == 0
    assert lod("convert", "one.lod.h5", "out", "--jobs", "2").code == 0
    assert len(list(Path("out").glob("data-*.lod.h5"))) > 3
    assert lod("diff", "-q", "one.lod.h5", "out").code == 0


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_command_keeps_parts_and_continues(lod: Lod, number: signal.Signals) -> None:
    hold("out.lod.h5.parts")
    with running([*STEP, "-o", "out.lod.h5", "--jobs", "2"]) as process:
        wait_for(lambda: list(Path().glob("at-*")))
        process.send_signal(number)
        process.communicate(timeout=HANG_SECONDS)
    kept = inodes("out.lod.h5.parts")
    assert len(kept) > 2
    assert not Path("out.lod.h5").exists()
    Path("hold").unlink()
    done = lod(*STEP, "-o", "out.lod.h5", "--jobs", "2")
    said = f"lod run-rnn: continues out.lod.h5.parts: {len(kept)} of 16 shards\n"
    assert (done.code, done.stderr) == (0, said)
    np.testing.assert_array_equal(tensor("out.lod.h5").data, tensor("one.lod.h5", "data").data * 2)
    assert not Path("out.lod.h5.parts").exists()
    assert lod(*STEP, "-o", "fresh.lod.h5", "--jobs", "1").code == 0
    assert Path("fresh.lod.h5").read_bytes() == Path("out.lod.h5").read_bytes()


def test_a_damaged_part_is_named_and_the_others_are_kept(lod: Lod) -> None:
    flip_a_row(Path("one.lod.h5"))
    done = lod("convert", "one.lod.h5", "out.lod.h5", "--jobs", "2")
    assert done.code == 1
    assert "one.lod.h5: /data: rows" in done.stderr
    assert "of one.lod.h5 are damaged; the results of the others are kept" in done.stderr
    assert not Path("out.lod.h5").exists()


def test_an_error_that_counts_items_names_the_part_that_it_counts_in(lod: Lod) -> None:
    values = np.repeat(np.arange(60), 2)
    values[111] = 300
    for source, format_name, said in (
        ("far.lod.h5", None, "far.lod.h5, in the items from 52 on: data: level 0 item 3, row 1"),
        ("far", "lod.dataset", "far/data-00005-of-00006.lod.h5: data: level 0 item 5, row 1"),
    ):
        shards = SHARDS if format_name else None
        io.write(source, LoDTensor(values, [[2] * 60]), format_name=format_name, shards=shards)
        done = lod("convert", source, f"{source}.out.lod.h5", "--dtype", "int8", "--jobs", "2")
        assert (done.code, done.stdout) == (1, "")
        assert done.stderr == f"lod convert: {said}: 300 does not fit int8\n"
    rows = [[None, 2.0] if item == 53 else [1.0, 2.0] for item in range(60)]
    io.write("n", LoDTensor.from_lists(rows), format_name="lod.dataset", shards=SHARDS)
    done = lod("apply", "softmax", "n", "-o", "n.out.lod.h5", "--jobs", "2")
    assert done.code
    assert "n/data-00005-of-00006.lod.h5: row <3,0> is null" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["convert", "t.npz", "out.lod.h5"], "a lod.h5 file, and t.npz is neither; `lod convert`"),
        (["convert", "-", "out.lod.h5"], "and standard input is neither"),
        (["convert", "missing.lod.h5", "out.lod.h5"], "missing.lod.h5: no such file"),
        (["apply", "sum", "one.lod.h5::data"], "--jobs writes files; name one with -o"),
        (["convert", "ds", "one.lod.h5"], "one.lod.h5: exists already"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_files_that_cannot_be_divided_or_written_are_refused_before_any_work(
    lod: Lod, args: list[str], said: str
) -> None:
    io.write("t.npz", LoDTensor(np.arange(3)))
    before = sorted(os.listdir())
    done = lod(*args, "--jobs", "2")
    assert done.code in (2, 3)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(os.listdir()) == before
