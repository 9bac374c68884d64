"""Descriptions of formats agree with their classes, the docs and the optional packages."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.catalogue.description import FormatInfo, formats
from lodcli.formats.core import io, registry
from lodcli.formats.core.format import Format
from lodcli.formats.core.table import TABLE
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

ROOT = Path(__file__).parents[3]
# Their names for import differ from those for pip.
DISTRIBUTIONS = {"torch": "torch", "hdf5plugin": "hdf5plugin"}


@pytest.mark.parametrize("name", TABLE)
def test_a_format_writes_or_says_why_not(name: str) -> None:
    kind = registry.get(name)
    assert bool(kind.read_only) == (type(kind).write is Format.write)


def test_each_needed_package_is_brought_by_the_extra_that_is_named() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for info in formats():
        for package in info.needs:
            found = re.fullmatch(r"lodcli\[(\w+)\]", package.install)
            assert found, package
            brought = [re.split(r"[^\w-]", one)[0] for one in extras(project, found[1])]
            assert DISTRIBUTIONS.get(package.module, package.module) in brought


def extras(project: dict[str, Any], extra: str) -> list[str]:
    found: list[str] = project["optional-dependencies"][extra]
    return found


def documented() -> dict[str, dict[str, str]]:
    """Return the table of docs/formats.md, by name and column."""
    text = (ROOT / "docs" / "formats.md").read_text("utf-8")
    table = re.search(r"^\| name \| extensions .*?\n\n", text, re.M | re.S)
    assert table
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table[0].split("\n")
        if line
    ]
    head = lines[0]
    return {row[0].split("`")[1]: dict(zip(head, row, strict=True)) for row in lines[2:]}


@pytest.mark.parametrize("info", formats(), ids=[info.name for info in formats()])
def test_the_docs_say_what_is_declared(info: FormatInfo) -> None:
    row = documented()[info.name]
    fewest, most = info.levels
    counts = {int(number) for number in re.findall(r"\d+", row["levels"])}
    assert counts == ({fewest, most} - {None} if most is not None else set())
    assert set(info.endings) <= set(re.findall(r"`(\.[\w.]+)`", row["extensions"]))
    assert ("read" in row["extensions"]) == (not info.written)
    assert row["several tensors"].startswith("no") == (not info.several)
    names = row["level names"]
    assert (names in ("kept", "as columns")) == info.level_names


def test_the_docs_list_every_format_and_no_other() -> None:
    assert sorted(documented()) == sorted(TABLE)


@pytest.mark.parametrize(
    "info",
    [one for one in formats() if any(need.use in ("", "writing") for need in one.needs)],
    ids=lambda info: info.name,
)
def test_a_missing_package_is_named_with_what_brings_it(
    info: FormatInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (need, *_) = [one for one in info.needs if one.use in ("", "writing")]
    monkeypatch.setitem(sys.modules, need.module, None)
    assert not need.installed
    assert "(not installed)" in info.cells()["needs"]
    target = tmp_path / f"t{info.endings[0]}"
    with pytest.raises(UnsupportedError, match=re.escape(f"pip install '{need.install}'")):
        io.write(target, LoDTensor(np.arange(3.0)), format_name=info.name)
    assert not target.exists()


def test_dtypes_are_described_in_few_words() -> None:
    shown = {info.name: info.cells()["dtypes"] for info in formats()}
    assert shown["lod.h5"] == "all"
    assert shown["jsonl"] == "all but complex"
    assert shown["tokens"] == "uint16, uint32"
    assert shown["ts"] == "integers, floats"
