"""Losses are reported, and are errors with --strict."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.group import group
from tests.lodcli.conftest import Lod, articles, environment

LEVEL_NAMES = "note: {} does not keep these level names: article, sentence"


@pytest.mark.parametrize("name", ["npz", "awkward", "safetensors", "paddle", "jsonl"])
def test_level_names_that_are_not_kept_are_reported_once(lod: Lod, folder: Path, name: str) -> None:
    done = lod("convert", "words.lod.h5", "out", "--to", name)
    assert (done.code, done.stdout) == (0, "")
    notes = done.stderr.splitlines()
    assert notes[0] == f"lod convert: {LEVEL_NAMES.format(name)}"
    assert len(notes) == (3 if name == "jsonl" else 1)


def test_every_kind_of_loss_has_its_note(lod: Lod, folder: Path) -> None:
    done = lod("convert", "many.lod.h5::vectors", "out.jsonl")
    assert done.stderr.splitlines() == [
        f"lod convert: {LEVEL_NAMES.format('jsonl')}",
        "lod convert: note: jsonl does not keep these dtypes: float32 of vectors",
        "lod convert: note: jsonl does not keep these row shapes: (2,) of vectors",
    ]


def test_many_losses_of_one_kind_are_one_line(lod: Lod, folder: Path) -> None:
    io.write("many.lods", {f"t{n}": LoDTensor(np.arange(2, dtype=np.int16)) for n in range(99)})
    done = lod("convert", "many.lods", "out.jsonl")
    shown = ", ".join(f"int16 of t{n}" for n in range(6))
    assert done.stderr == (
        f"lod convert: note: jsonl does not keep these dtypes: {shown} and 93 more\n"
    )


def test_quiet_commands_and_lossless_formats_print_no_notes(lod: Lod, folder: Path) -> None:
    assert lod("convert", "-q", "words.lod.h5", "out.npz").stderr == ""
    for suffix in ("lods", "parquet", "arrow"):
        assert lod("convert", "words.lod.h5", f"out.{suffix}", "--strict").stderr == ""


@pytest.mark.parametrize("more", [(), ("-q",)])
def test_strict_refuses_before_anything_is_written(
    lod: Lod, folder: Path, more: tuple[str, ...]
) -> None:
    done = lod("slice", "words.lod.h5", ":2", "-o", "out.npz", "--strict", *more)
    assert (done.code, done.stdout) == (4, "")
    assert done.stderr == (
        "lod slice: out.npz: npz does not keep these level names: article, sentence; write lod.h5, "
        "which keeps everything, or do without --strict\n"
    )
    assert not list(folder.glob("out*"))


def test_every_command_that_writes_tensors_has_strict() -> None:
    with group.make_context("lod", ["--help"], resilient_parsing=True) as ctx:
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            assert command is not None
            names = {one.name for one in command.params}
            if "to_format" in names:
                assert "strict" in names, name


def test_a_terminal_keeps_nothing_so_nothing_is_lost(folder: Path) -> None:
    command = ["lod", "slice", "words.lod.h5", "0", "--to", "jsonl"]
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(command, env=environment(), stdout=theirs, stderr=subprocess.PIPE)
    finally:
        os.close(theirs)
        os.close(ours)
    assert (done.returncode, done.stderr) == (0, b"")
    done = subprocess.run(command, env=environment(), capture_output=True)
    assert b"level names: sentence" in done.stderr


def test_python_gets_no_note_and_may_require_strictness(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with pytest.raises(lodcli.UnsupportedError, match="level names: article, sentence"):
        lodcli.write(path, articles(), strict=True)
    assert not path.exists()
    lodcli.write(path, articles())  # no warning: they are errors here
    unnamed = LoDTensor(articles().data, LoD(articles().lod.levels))
    lodcli.write(path, unnamed, strict=True, overwrite=True)
