"""Ways to run `lod`, and a folder with files to run it on."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.group import group
from tests.hanging import HANG_SECONDS

SCRIPTS = Path(sys.executable).parent


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    stdout: str
    stderr: str

    @property
    def clean(self) -> bool:
        """Whether it succeeded without a word on standard error."""
        return (self.code, self.stderr) == (0, "")

    @property
    def complaints(self) -> str:
        """Standard error without the notes on content that OUT does not keep."""
        lines = self.stderr.splitlines(keepends=True)
        return "".join(line for line in lines if ": note: " not in line and '"note": ' not in line)


Lod = Callable[..., Done]


def environment(**more: str) -> dict[str, str]:
    """Return a plain environment in which the installed `lod` is found."""
    left_out = {"LOD_DEBUG", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PATH": f"{SCRIPTS}:{os.environ['PATH']}", **more}


@pytest.fixture
def lod() -> Lod:
    """`lod` in this process: quick, but without pipes and signals."""

    def run(*args: str | Path) -> Done:
        done = CliRunner().invoke(group, [str(arg) for arg in args])
        return Done(done.exit_code, done.stdout, done.stderr)

    return run


def in_bash(folder: Path, line: str, **more: str) -> Done:
    """Run a command line in a folder; `lod` is the installed one, `more` of the environment."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def shell(folder: Path) -> Lod:
    """A command line in bash, in the folder; see `in_bash`."""
    return functools.partial(in_bash, folder)


def articles() -> LoDTensor:
    """The worked example of the documentation: 3 articles, 6 sentences, 15 words of 2 values."""
    lod = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"])
    return LoDTensor(np.arange(30, dtype=np.float32).reshape(15, 2), lod)


@pytest.fixture(scope="session")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of `folder`: writing their bytes is faster than writing their tensors."""
    words = articles()
    tags = LoDTensor(np.arange(15, dtype=np.int16), words.lod)
    other = LoDTensor(np.arange(4, dtype=np.int64), LoD.from_lengths([[1, 0, 3]]))
    path = tmp_path_factory.mktemp("contents")
    io.write(path / "words.lod.h5", words)
    io.write(path / "many.lod.h5", {"vectors": words, "tags": tags, "other": other})
    return {one.name: one.read_bytes() for one in path.iterdir()}


@pytest.fixture
def folder(tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, made current, with words.lod.h5 (one tensor) and many.lod.h5 (three)."""
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tensor(path: Path | str, name: str | None = None) -> LoDTensor:
    """Read a tensor that a command wrote."""
    item = io.read(path, name)
    assert isinstance(item, LoDTensor)
    return item


def tensors(path: Path | str) -> dict[str, LoDTensor]:
    """Read all tensors that a command wrote."""
    found = {}
    for name, item in io.read_all(path).items():
        assert isinstance(item, LoDTensor)
        found[name] = item
    return found


def applied(lod: Lod, text: str, source: str = "t.lod.h5") -> list[Any]:
    """Return the values of an expression, computed without a note."""
    assert lod("apply", text, source, "-fo", "out.lods").clean
    return tensor("out.lods").to_list()


def filtered(lod: Lod, text: str, source: str, name: str) -> list[Any]:
    """Return a tensor's values of the items for which an expression is true, without a note."""
    assert lod("filter", source, text, "-fo", "kept.lods").clean
    return tensor("kept.lods", name).to_list()


def write_jsonl(path: str, rows: Iterable[Any]) -> None:
    """Write one line of JSON for each row."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    Path(path).write_text("".join(lines), "utf-8")


def read_jsonl(path: str) -> list[Any]:
    """Return what each line of JSON holds."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]
