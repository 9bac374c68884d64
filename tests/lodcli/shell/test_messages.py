"""-q, -v and --color, on `lod` and on every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lodcli.shell.group import group
from tests.lodcli.conftest import Lod, tensor
from tests.lodcli.test_all_commands import leaves
from tests.slow import one_in

LOSSY = ("slice", "words.lod.h5", "1:3", "-o", "out.npz", "-f")  # npz keeps no names of levels


def test_every_command_takes_them() -> None:
    for name, command in [("", group), *leaves(group)]:
        named = {option for param in command.params for option in param.opts}
        assert {"-q", "--quiet", "-v", "--verbose", "--color"} <= named, name


def test_quiet_works_before_and_behind_the_command(lod: Lod, folder: Path) -> None:
    assert ": note: " in lod(*LOSSY).stderr
    assert lod(*LOSSY, "-q").stderr == ""
    assert lod("-q", *LOSSY).stderr == ""
    assert (
        lod("--quiet", "apply", "sum", "words.lod.h5", "--then", "sum", "-o", "o.npz").stderr == ""
    )


@pytest.mark.parametrize("before", [True, False])
def test_verbose_tells_files_backends_and_costs(lod: Lod, folder: Path, before: bool) -> None:
    line = ["apply", "sum", "words.lod.h5", "-o", "out.lod.h5", "-f"]
    done = lod("-v", *line) if before else lod(*line, "-v")
    read, backend, wrote, cost = done.stderr.splitlines()
    size = (folder / "words.lod.h5").stat().st_size
    assert read == f"lod apply: reads words.lod.h5: lod.h5, {size / 1000:.1f} KB: data"
    assert re.fullmatch(r"lod apply: pool\.segment_sum runs on (numpy|numba)", backend)
    assert wrote.startswith("lod apply: wrote out.lod.h5: lod.h5, ")
    assert wrote.endswith(": data 6 rows")  # as many as the example has sentences
    assert re.fullmatch(r"lod: \d+\.\d\d s, \d+\.\d [MG]B of memory at most", cost)


def test_verbose_names_the_ends_of_a_pipe_and_each_backend_once(
    lod: Lod, shell: Lod, folder: Path
) -> None:
    lod("convert", "words.lod.h5", "words.lods")
    done = shell("cat words.lods | lod apply sum - --then sum -v | cat > out.lods")
    read, backend, wrote, _ = done.stderr.splitlines()
    assert read == "lod apply: reads standard input: lod.stream: data"
    assert "segment_sum runs on" in backend
    assert wrote == "lod apply: wrote standard output: lod.stream: data 3 rows"


def test_details_are_only_printed_on_request(lod: Lod, folder: Path) -> None:
    lod("apply", "sum", "words.lod.h5", "-o", "out.lod.h5", "-v")
    assert lod("apply", "sum", "words.lod.h5", "-o", "out.lod.h5", "-f").stderr == ""


def test_the_backend_of_a_call_is_reported(folder: Path) -> None:
    from lodcli.kernels.runtime.dispatch import when_dispatched
    from lodcli.ops import softmax

    told = []
    when_dispatched(lambda kernel, backend: told.append((kernel, backend)))
    try:
        softmax(tensor("words.lod.h5"), backend="numpy")
    finally:
        when_dispatched(None)
    assert told == [("softmax.segment_softmax", "numpy")]


@pytest.mark.parametrize(
    ("line", "variables", "coloured"),
    one_in(
        3,
        [
            ("--color always inspect words.lod.h5", {}, True),
            ("inspect words.lod.h5 --color always", {"NO_COLOR": "1"}, True),
            ("inspect words.lod.h5 --color never", {"FORCE_COLOR": "1"}, False),
            ("inspect words.lod.h5 --color never", {"CLICOLOR_FORCE": "1"}, False),
            ("--color never inspect words.lod.h5 --color always", {}, True),
            ("inspect words.lod.h5 --color auto", {"CLICOLOR_FORCE": "1"}, True),
            ("inspect words.lod.h5 --color auto", {"CLICOLOR_FORCE": "0"}, False),
            ("inspect words.lod.h5", {"CLICOLOR_FORCE": "1"}, True),
            ("inspect words.lod.h5", {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
            ("inspect words.lod.h5", {}, False),
        ],
    ),
)
def test_the_option_goes_before_the_variables(
    folder: Path, shell: Lod, line: str, variables: dict[str, str], coloured: bool
) -> None:
    done = shell(f"lod {line}", **variables)
    assert (done.code, done.stderr) == (0, "")
    assert ("\x1b[" in done.stdout) == coloured
