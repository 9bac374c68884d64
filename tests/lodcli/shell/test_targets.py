"""Targets that cannot be written: one line that names the target, never the source."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lodcli.formats.core.table import TABLE
from tests.lodcli.conftest import Lod
from tests.lodcli.test_bad_input import WRITING

COMMANDS = {
    **WRITING,
    "train": ["train", "{}"],
    "apply": ["apply", "reverse", "{}"],
}


def make_device(folder: Path) -> str:
    return "/dev/full"


def make_pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    return "pipe"


def make_socket(folder: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")  # the current folder: a longer path may not fit
    return "socket"


def make_folder(folder: Path) -> str:
    (folder / "deep").mkdir()
    return "deep"


def name_a_folder(folder: Path) -> str:
    return "deep/"


SPECIAL: dict[str, tuple[Callable[[Path], str], str]] = {
    "a device": (
        make_device,
        "is a device and is left unchanged; to write the result there, redirect",
    ),
    "a pipe": (make_pipe, "is a pipe and is left unchanged; to write the result there, redirect"),
    "a socket": (make_socket, "is a socket and is left unchanged"),
    "a folder": (make_folder, "is a folder, not a file"),
    "a folder's name": (name_a_folder, "is a folder, not a file"),
}


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_target_that_is_no_file_is_named_and_stays(
    lod: Lod, folder: Path, command: str, what: str, force: bool
) -> None:
    make, expected = SPECIAL[what]
    target = make(folder)
    before = os.stat(target).st_mode if os.path.exists(target) else None
    args = [arg.replace("{}", "words.lod.h5") for arg in COMMANDS[command]]
    to = [] if command == "train" else ["--to", "lod.h5"]
    done = lod(*args, "-o", target, *to, *(["--force"] if force else []))
    assert done.code == 3
    assert done.stderr.startswith(f"lod {command}: {target}: {expected}"), done.stderr
    assert done.stderr.count("\n") == 1
    assert "words.lod.h5" not in done.stderr
    assert (os.stat(target).st_mode if os.path.exists(target) else None) == before


def test_a_device_needs_no_extension(lod: Lod, folder: Path) -> None:
    done = lod("convert", "words.lod.h5", "-o", "/dev/full")
    assert (done.code, "is a device" in done.stderr) == (3, True)


@pytest.mark.parametrize("kind", TABLE)
def test_errors_about_content_that_a_format_cannot_hold_name_the_target(
    lod: Lod, folder: Path, kind: str
) -> None:
    """One of three tensors of two names of levels fits nearly nowhere; the source is fine."""
    done = lod("convert", "many.lod.h5", "-o", "/dev/full", "--force", "--to", kind)
    assert done.code in (1, 2, 3, 4)
    assert done.stderr.startswith("lod convert: /dev/full: "), done.stderr
    assert "many.lod.h5" not in done.stderr


def test_an_error_while_reading_names_the_source(lod: Lod, folder: Path) -> None:
    Path("bad.jsonl").write_text('[1]\n["x"]\n')
    done = lod("convert", "bad.jsonl", "-o", "out.npz")
    assert done.code == 1
    assert done.stderr.startswith("lod convert: bad.jsonl: line 2"), done.stderr
    assert "out.npz" not in done.stderr
