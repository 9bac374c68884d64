"""Commands in a pipe: the same results and exit codes, with any program between them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lodcli
from tests.lodcli.conftest import environment

pytestmark = pytest.mark.slow
HANG_SECONDS = 120
LOD = f"{shlex.quote(sys.executable)} -m lodcli"
CHAIN = "apply softmax a.lod.h5 --then reverse -o -"


def run(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash; `lod` is quiet in it, `loud` is not."""
    return subprocess.run(
        [
            "bash",
            "-o",
            "pipefail",
            "-c",
            f'loud() {{ {LOD} "$@"; }}\nlod() {{ loud -q "$@"; }}\n{line}',
        ],
        # The package under test, wherever the command runs.
        env=environment(PYTHONPATH=str(Path(lodcli.__file__).parents[1])),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with 64 MB of rows, more than a pipe and all slots hold."""
    made = tmp_path_factory.mktemp("pipes")
    rows = np.random.default_rng(5).standard_normal((250_000, 64), np.float32)
    lod = lodcli.LoD.from_lengths([[50] * 5000])
    lodcli.write(made / "a.lod.h5", lodcli.LoDTensor(rows, lod))
    before = Path.cwd()
    os.chdir(made)
    try:
        assert run(f"lod {CHAIN[:-1]} whole.lod.h5").returncode == 0
    finally:
        os.chdir(before)
    return made


@pytest.fixture(autouse=True)
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.lod.h5", "whole.lod.h5"):
        (tmp_path / name).symlink_to(folder / name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "lod apply softmax a.lod.h5 -o - | lod apply reverse - -o out.lod.h5",
        "lod apply softmax a.lod.h5 -o - | cat | lod apply reverse - -o out.lod.h5",
        "lod apply softmax a.lod.h5 -o - | tee copy.lods | lod apply reverse - -o out.lod.h5",
        "lod apply softmax a.lod.h5 -o - > b.lods; lod apply reverse b.lods -o out.lod.h5",
        "mkfifo f; lod apply softmax a.lod.h5 -o - > f & lod apply reverse f -o out.lod.h5",
        "lod apply softmax a.lod.h5 -o - | lod apply reverse - --memory 16M -o out.lod.h5",
        "lod apply softmax a.lod.h5 --memory 16M -o - | lod apply reverse - -o out.lod.h5",
        "lod apply softmax a.lod.h5 -o - | lod apply reverse - --isolate -o out.lod.h5",
        # The writer waits for free slots of a reader that starts late, and ends before it.
        "lod apply softmax a.lod.h5 -o - | (sleep 2; lod apply reverse - -o out.lod.h5)",
    ],
)
def test_a_pipe_gives_what_one_command_gives(line: str) -> None:
    done = run(line)
    assert (done.returncode, done.stderr) == (0, "")
    found, expected = lodcli.read("out.lod.h5"), lodcli.read("whole.lod.h5")
    assert isinstance(found, lodcli.LoDTensor)
    assert isinstance(expected, lodcli.LoDTensor)
    assert found.identical(expected)
    if Path("copy.lods").exists():
        assert run("lod verify copy.lods").returncode == 0


def test_rows_leave_the_pipe_only_if_lod_is_at_both_ends() -> None:
    """A pipe holds 1 MiB, so the reader listens long before the writer has written 64 MB."""
    said = "checked CRC32C of every frame"
    direct = run("lod apply softmax a.lod.h5 -o - | loud verify -")
    assert direct.stdout.endswith(f"{said} that came through the pipe\n")
    through = run("lod apply softmax a.lod.h5 -o - | cat | loud verify -")
    assert through.stdout.endswith(f"{said}\n")


def test_a_reader_that_closes_the_pipe_ends_the_writer() -> None:
    done = run("{ lod apply softmax a.lod.h5 -o -; echo $? > code; } | lod head - -n 1 -o out.npz")
    assert (done.stderr, Path("code").read_text()) == ("", "141\n")
    assert Path("out.npz").exists()


def test_a_reader_that_is_killed_ends_the_writer() -> None:
    reader = "import os; os.read(0, 1); os.kill(os.getpid(), 9)"
    # This one listens, takes nothing, and dies.
    listens = (
        "import os, sys; from lodcli.formats.storage.inputs import Input; "
        "from lodcli.formats.stream.reader import StreamSource; "
        "StreamSource(Input('-')); import time; time.sleep(2); os.kill(os.getpid(), 9)"
    )
    for code in (reader, listens):
        done = run(
            "{ lod apply softmax a.lod.h5 -o -; echo $? > code; } | "
            f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"
        )
        assert Path("code").read_text() == "141\n"
        assert "lod apply:" not in done.stderr  # bash says who was killed


def test_a_writer_that_is_killed_leaves_no_result() -> None:
    code = (
        "import os, sys\n"
        "from lodcli.formats.stream import shared_rows\n"
        "send, calls = shared_rows.SharedWriter.send, []\n"
        "def dying(self, block):\n"
        "    calls.append(1)\n"
        "    if len(calls) == 20: os.kill(os.getpid(), 9)\n"
        "    return send(self, block)\n"
        "shared_rows.SharedWriter.send = dying\n"
        "sys.argv = ['lod', 'apply', 'softmax', 'a.lod.h5', '-q', '-o', '-']\n"
        "from lodcli.main import main\n"
        "main()\n"
    )
    python = shlex.quote(sys.executable)
    done = run(f"{python} -c {shlex.quote(code)} | lod apply reverse - -o out.lod.h5")
    assert "cut off in" in done.stderr
    assert "the producer may have died" in done.stderr
    assert done.returncode == 1
    assert not Path("out.lod.h5").exists()
