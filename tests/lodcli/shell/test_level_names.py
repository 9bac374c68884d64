"""`lod convert --levels`, for every format: as many names as levels, all of them different."""

from __future__ import annotations

from pathlib import Path

import pytest

import lodcli
from lodcli.formats.core.options import ReadOptions
from tests.formats.cases.every_file import FILES, NEEDS, file_of
from tests.lodcli.conftest import Lod, tensor

NAMES = ("first", "second", "third", "fourth", "fifth")


def deepest(path: Path, name: str, options: dict[str, object]) -> tuple[str, int]:
    """Return the tensor of most levels, and how many it has."""
    with lodcli.open(path, format_name=name, options=ReadOptions(**options)) as source:  # type: ignore[arg-type]
        return max(((spec.name, len(spec.levels)) for spec in source.schema), key=lambda s: s[1])


def arguments(name: str, folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """Return the arguments that read a tensor of a format, and names of its levels."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    path, options = file_of(name, folder)
    if name in ("csv", "tsv"):  # its levels are columns
        return [str(path), "--from", name], ("level0",)
    chosen, levels = deepest(path, name, options)
    given = [f"{path}::{chosen}", "--from", name]
    for option, value in options.items():
        for one in value if isinstance(value, tuple) else (value,):
            given += [f"--{option}", one]
    return given, NAMES[:levels]


@pytest.mark.parametrize("name", FILES)
def test_as_many_names_as_levels_are_taken(lod: Lod, name: str, tmp_path: Path) -> None:
    given, names = arguments(name, tmp_path)
    if names:
        assert lod("convert", *given, tmp_path / "out.lod.h5", "--levels", ",".join(names)).clean
        assert tensor(tmp_path / "out.lod.h5").lod.names == names


@pytest.mark.parametrize("name", FILES)
def test_a_name_too_many_is_an_error(lod: Lod, name: str, tmp_path: Path) -> None:
    given, names = arguments(name, tmp_path)
    surplus = ",".join((*names, "surplus"))
    done = lod("convert", *given, tmp_path / "out.lod.h5", "--levels", surplus)
    assert done.code != 0
    assert len(done.stderr.splitlines()) == 1
    reasons = (f"{len(names) + 1} ", f"{len(names)} levels need", "no column 'surplus'")
    assert any(reason in done.stderr for reason in reasons)
    assert not (tmp_path / "out.lod.h5").exists()


@pytest.mark.parametrize("name", FILES)
def test_two_levels_of_one_name_are_an_error(lod: Lod, name: str, tmp_path: Path) -> None:
    given, _ = arguments(name, tmp_path)
    done = lod("convert", *given, tmp_path / "out.lod.h5", "--levels", "a, b,a")
    assert done.code == 2
    assert "two levels are called 'a'" in done.stderr
    assert not (tmp_path / "out.lod.h5").exists()


def test_names_for_the_deepest_of_several_fields_are_taken(lod: Lod, tmp_path: Path) -> None:
    source, out = tmp_path / "x.jsonl", tmp_path / "out.lod.h5"
    source.write_text('{"a":[[1]],"b":[2],"c":3}\n')
    assert lod("convert", source, out, "--levels", "day,hour").stderr == ""
    assert tensor(out, "a").lod.names == ("day", "hour")
    assert tensor(out, "b").lod.names == ("day",)
    done = lod("convert", source, out, "-f", "--levels", "day,hour,minute")
    assert (done.code, done.stdout) == (4, "")
    assert "the fields have at most 2 levels, found 3 names" in done.stderr


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("more", [("--levels", "day,hour", "--name", "hour"), ("--name", "level1")])
def test_columns_have_different_names(
    lod: Lod, tmp_path: Path, suffix: str, more: tuple[str, ...]
) -> None:
    source, out = tmp_path / "x.jsonl", tmp_path / f"out.{suffix}"
    source.write_text("[[1],[2]]\n")
    done = lod("convert", source, out, *more)
    assert done.code == 4
    assert f"two are called {more[-1]}" in done.stderr
    assert not out.exists()
