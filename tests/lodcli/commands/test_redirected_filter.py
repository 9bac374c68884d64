"""`lod filter` whose expression the shell took for a redirection."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lodcli.conftest import Lod

pytestmark = pytest.mark.slow
ITEMS = '{"n":1,"r":{"n":0},"yes":true,"data":[1]}\n'


@pytest.mark.parametrize(
    ("line", "name", "file", "meant"),
    [
        ("n > 3", "n", "3", "n > 3"),
        ("n >=3", "n", "=3", "n >=3"),
        ("r.n>-2.5", "r.n", "-2.5", "r.n > -2.5"),
        ("n > .5", "n", ".5", "n > .5"),
        ("n > 1e3", "n", "1e3", "n > 1e3"),
        ("n > r.n", "n", "r.n", "n > r.n"),
    ],
)
def test_a_comparison_without_quotes_is_no_redirection(
    shell: Lod, line: str, name: str, file: str, meant: str
) -> None:
    Path("n.jsonl").write_text(ITEMS)
    done = shell(f"lod filter n.jsonl {line}")
    assert (done.code, done.stdout) == (2, "")
    assert f"the file {file}: put an expression with > in quotes, as in '{meant}'" in done.stderr
    assert shell(f"lod filter n.jsonl '{name} != 0' > {file}").code == 0  # its other remedy


@pytest.mark.parametrize(
    "line",
    ["'n > 0' > 7", "'any(data)' > 7", "yes > 7", "n --to jsonl > 7", "n > new", "n > 7.jsonl"],
)
def test_standard_output_may_be_a_file_of_any_name(shell: Lod, line: str) -> None:
    Path("n.jsonl").write_text(ITEMS)
    assert shell(f"lod filter n.jsonl {line}").clean
    assert Path(line.split()[-1]).stat().st_size > 0


def test_output_may_be_appended_to_a_file_named_like_a_number(shell: Lod) -> None:
    Path("n.jsonl").write_text(ITEMS)
    Path("3").write_text("kept")
    assert shell("lod filter n.jsonl n >> 3").code == 0
    assert Path("3").read_bytes().startswith(b"kept")


@pytest.mark.parametrize("end", [" --to jsonl", " > 3"])
def test_a_name_that_is_no_tensor_is_shown_in_the_expression(shell: Lod, end: str) -> None:
    Path("n.jsonl").write_text(ITEMS)
    done = shell(f"lod filter n.jsonl r{end}")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "  r\n  ^\nlod filter: n.jsonl: expression, column 1: no tensor 'r'"
    )
