"""FILE::NAME and the branch of a slice, as people type them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.selection import Key
from lodcli.shell.references import parse_branch, parse_reference
from tests.lodcli.conftest import Lod


@pytest.mark.parametrize(
    ("text", "branch"),
    [
        ("2", (2,)),
        ("2,0", (2, 0)),
        ("2:3", (slice(2, 3),)),
        ("2,0:1", (2, slice(0, 1))),
        (":5", (slice(None, 5),)),
        ("-2:", (slice(-2, None),)),
        ("3:6", (slice(3, 6),)),
        ("-1", (-1,)),
        (" -1", (-1,)),
        (":", (slice(None, None),)),
        ("0, 1 : 2", (0, slice(1, 2))),
        ("+1", (1,)),
    ],
)
def test_a_branch_is_read_as_numpy_would(text: str, branch: tuple[Key, ...]) -> None:
    assert parse_branch(text) == branch


@pytest.mark.parametrize(
    "text", ["", ",", "1,", "a", "1.5", "0x1", "1:2:3:4", ":::", "1;2", "--1", "٣", "9" * 19, "1 2"]
)
def test_an_invalid_branch_is_an_error(text: str) -> None:
    with pytest.raises(SelectionError, match="is not an item or a range"):
        parse_branch(text)


@pytest.mark.parametrize("text", ["9" * 19, "::" + "9" * 19, "0,-" + "9" * 19])
def test_a_number_beyond_any_file_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(SelectionError, match="a number has at most 18 digits"):
        parse_branch(text)


def test_a_step_of_0_is_refused_with_a_reason() -> None:
    with pytest.raises(SelectionError, match="its step is 0"):
        parse_branch("0:9:0")


@pytest.mark.parametrize(
    ("text", "path", "name"),
    [
        ("words.lod.h5", "words.lod.h5", None),
        ("words.lod.h5::tags", "words.lod.h5", "tags"),
        ("-", "-", None),
        ("-::tags", "-", "tags"),
        ("a::b::c", "a::b", "c"),
        ("odd::folder/words.npz", "odd::folder/words.npz", None),
    ],
)
def test_a_reference_names_a_file_and_a_tensor(text: str, path: str, name: str | None) -> None:
    found = parse_reference(text)
    assert (found.path, found.name) == (path, name)


def test_a_file_whose_name_holds_the_mark_is_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a::b").write_bytes(b"")
    assert parse_reference("a::b").path == "a::b"
    assert parse_reference("a::b::c").name == "c"


@pytest.mark.parametrize("text", ["words.npz::", "::tags", "::"])
def test_a_reference_without_file_or_name_is_refused(text: str) -> None:
    with pytest.raises(SelectionError, match="names no tensor"):
        parse_reference(text)


def test_standard_input_has_a_name_for_messages() -> None:
    assert parse_reference("-::a").label == "standard input"
    assert parse_reference("b.npz::a").label == "b.npz"


@pytest.mark.parametrize(
    "line",
    [
        "slice -q -::tags 0 -o out.lod.h5",
        "head -o out.lod.h5 -n 1 -::tags -q",
        "filter -q -::tags 'length() > 3' -o out.lod.h5",
        "apply sum -::tags -q -o out.lod.h5",
        "apply mul many.lod.h5::tags 2 --then add -::tags -q -o out.lod.h5",
        "apply 'tags + 1' -::tags -q -o out.lod.h5",
        "inspect -::tags --json",
    ],
)
def test_commands_take_a_tensor_of_standard_input(line: str, shell: Lod) -> None:
    assert shell(f"cat many.lod.h5 | lod {line}").clean


@pytest.mark.parametrize("command", ["select", "drop"])
def test_a_file_called_as_a_tensor_does_not_change_what_the_source_is(
    command: str, lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_text("")
    Path("d").mkdir()
    for number in range(2):
        Path(f"d/part-{number}").write_text('{"x":1,"y":2}\n')
    kept = {"select": 1, "drop": 2}[command]
    for pattern in ("d/*", "d/part-?", f"{tmp_path}/**/part-[01]"):
        done = lod(command, pattern, "x", "--from", "jsonl", "-fqo", "o.jsonl")
        assert (done.code, done.stderr) == (0, "")
        assert [*map(int, Path("o.jsonl").read_text().split())] == [kept] * 2
    Path("a d").mkdir()
    for pattern in ("nosuch-*", "nosuch/*", "a d/*"):
        done = lod(command, pattern, "x")
        assert (done.code, f"{pattern}: no " in done.stderr) == (3, True)
    done = lod(command, "memory://data", "x", "--from", "jsonl")
    assert "the file goes first" not in done.stderr
    for expression in ("x * y", "x*y>2"):
        done = lod(command, expression, "x")
        assert (done.code, "the file goes first" in done.stderr) == (2, True)


def test_a_misspelled_file_in_a_loop_is_not_taken_for_a_tensor(shell: Lod, folder: Path) -> None:
    for command, more in (("inspect nofile", ""), ("select nofile x", "; - reads standard input")):
        done = shell(f"echo a > list; while read line; do lod {command}; done < list > out")
        assert done.stderr.endswith(f"check the path, relative to {folder.resolve()}{more}\n")
