"""Files that match a pattern, against glob; links, and folders that cannot be read."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lodcli
from lodcli.formats.several.patterns import files_below, matching

PATTERNS = [
    *("*", "*.csv", "a/*.csv", "./a/*", "a//*.csv", "?/*.csv", "[ab]/x.*", "*/x.csv", "*/", "no/*"),
    *("**", "**/*", "**/*.csv", "a/**/*.csv", "*/**/x.csv", "**/k=1/*", "**/b/../*.csv", "**/.h*"),
    *("a/x.csv*", "a/x.csv/*", "[[]1]*", "a**/x.csv", ".*/*.csv", "**/x.csv/"),
]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "a/x.csv",
        "a/b/x.csv",
        "a/b/y.txt",
        "b/k=1/x.csv",
        "[1].csv",
        ".h.csv",
        ".d/x.csv",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("n\n1\n")
    os.symlink("loop", tmp_path / "a" / "loop")
    os.symlink("gone", tmp_path / "a" / "gone")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_matches_are_those_of_glob(pattern: str, tree: Path) -> None:
    for one in (pattern, str(tree / pattern)):
        wanted = [path for path in glob.glob(one, recursive=True) if os.path.isfile(path)]
        assert sorted(map(os.path.normpath, matching(one))) == sorted(map(os.path.normpath, wanted))


@pytest.mark.parametrize("pattern", ["**/**/*.csv", "**/**", "**/a/**/*.csv", "**/*/**/*.csv"])
def test_a_file_matches_once(pattern: str, tree: Path) -> None:
    (tree / "a" / "a").mkdir()
    (tree / "a" / "a" / "x.csv").write_text("n\n1\n")
    found = matching(pattern)
    assert len(found) == len({*found})
    assert {*found} == {*filter(os.path.isfile, glob.glob(pattern, recursive=True))}


def test_links_to_folders_are_followed_and_those_that_lead_back_are_not(tmp_path: Path) -> None:
    """As `find -L`: a link to another folder is one more partition."""
    data, other = tmp_path / "data", tmp_path / "other"
    for folder, number in ((data / "k=1", 1), (other, 2)):
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_text(f'{{"n":{number}}}\n')
    os.symlink("../other", data / "k=2")
    os.symlink("k=1", data / "k=3")
    os.symlink("..", data / "k=1" / "k=4")
    os.symlink(data, other / "back")
    for path in (data, data / "**" / "*.jsonl"):
        found = lodcli.read_all(path)
        assert {name: one.to_list() for name, one in found.items()} == {
            "n": [1, 2, 1],
            "k": [1, 2, 3],
        }


@pytest.mark.parametrize("pattern", ["", "**/*.csv", "*/*.csv", "*/x.csv"])
def test_a_folder_that_cannot_be_read_is_an_error(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root can read every folder, so the system's refusal is simulated."""
    for number in (1, 2):
        (tmp_path / f"k={number}").mkdir()
        (tmp_path / f"k={number}" / "x.csv").write_text("n\n1\n")
    denied = str(tmp_path / "k=2")

    def refuse(name: str, within: bool) -> None:
        plain: Callable[..., Any] = getattr(os, name)

        def refusing(path: Any, *args: Any, **options: Any) -> Any:
            if path == denied or (within and str(path).startswith(denied + "/")):
                raise PermissionError(13, "Permission denied", path)
            return plain(path, *args, **options)

        monkeypatch.setattr(os, name, refusing)

    refuse("scandir", False)
    refuse("listdir", False)
    if pattern == "*/x.csv":
        refuse("stat", True)
        refuse("lstat", True)
    with pytest.raises(PermissionError) as caught:
        lodcli.read_all(tmp_path / pattern)
    assert str(caught.value.filename).startswith(denied)


def test_hidden_folders_are_passed_over(tree: Path) -> None:
    (tree / "_temporary").mkdir()
    (tree / "_temporary" / "x.csv").write_text("n\n1\n")
    found = {"./[1].csv", "./.h.csv", "./a/x.csv", "./a/b/x.csv", "./a/b/y.txt", "./b/k=1/x.csv"}
    assert {*files_below(".")} == found
    assert "_temporary/x.csv" not in matching("**/*.csv")


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("**/_tmp/*.csv", {"a/_tmp/x.csv", "a/b/_tmp/x.csv"}),
        ("*/_tmp/**/*.csv", {"a/_tmp/x.csv", "a/_tmp/d/x.csv"}),
        ("a/_t*/**/*.csv", {"a/_tmp/x.csv", "a/_tmp/d/x.csv"}),
        ("**/_tmp/*/x.csv", {"a/_tmp/d/x.csv"}),
        ("**/.d/x.csv", {".d/x.csv"}),
        ("a/*/**/*.csv", {"a/b/x.csv"}),
        ("**/*/x.csv", {"a/x.csv", "a/b/x.csv", "b/k=1/x.csv"}),
        ("a/*/x.csv", {"a/b/x.csv", "a/_tmp/x.csv"}),
    ],
)
def test_a_hidden_folder_is_read_if_the_pattern_names_it(
    pattern: str, wanted: set[str], tree: Path
) -> None:
    for name in ("a/_tmp/x.csv", "a/_tmp/d/x.csv", "a/b/_tmp/x.csv"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("n\n1\n")
    assert {*matching(pattern)} == wanted
    found = lodcli.read_all(tree / pattern, skip_partitions=True)
    assert found["n"].to_list() == [1] * len(wanted)
