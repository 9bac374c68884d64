"""README.md is short, and its pictures and figures are those of actual runs."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lodcli.formats.core.table import TABLE
from tests.pictures.draw import FOLDER, PICTURES, PLOTS, drawn

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "README.md").read_text("utf-8")
# Op and case in docs/benchmarks.md: their name in README.md, and the peer.
FIGURES = {
    ("softmax", "B1"): ("softmax", "numba loop"),
    ("lstm forward", "b"): ("LSTM, forward", "onnxruntime 16 buckets"),
    ("jsonl_to_lod", "lines"): ("conversion of jsonl", "arrow json.read_json"),
}


def test_the_front_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= 150


@pytest.mark.parametrize(("work", "case"), FIGURES)
def test_figures_are_those_of_the_benchmarks(work: str, case: str) -> None:
    name, peer = FIGURES[work, case]
    said = re.search(rf"^\| {name}[^|]*\| ([\d. to]+) \|", PAGE, re.MULTILINE)
    assert said is not None
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    row = re.search(rf"^\| {work} \| {case} \|[^|]*\| ([^,|]*)[,| ].*{peer}", page, re.MULTILINE)
    assert row is not None
    assert said[1] == row[1].replace("x", "").strip()


def test_the_number_of_targets_is_that_of_the_benchmarks() -> None:
    targets, reached, limited, *_, unmeasured = _counts("benchmarks.md")
    said = f"of {targets - unmeasured} targets {reached} are reached, {limited} are at the limit"
    assert said in " ".join(PAGE.split())
    reached = _counts("benchmarks-intel.md")[1]
    said = f"[on an Intel processor](docs/benchmarks-intel.md) {reached} are reached"
    assert said in " ".join(PAGE.split())


def _counts(name: str) -> list[int]:
    page = (ROOT / "docs" / name).read_text("utf-8")
    row = re.search(r"^\| \*\*all\*\* \|(.*)\|$", page, re.MULTILINE)
    assert row is not None
    return [int(one.strip(" *")) for one in row[1].split("|")]


def test_the_number_of_formats_is_true() -> None:
    found = re.search(r"more than (\d+)\s+\[formats\]", PAGE)
    assert found is not None
    assert len(TABLE) > int(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_show_what_is_printed_now(name: str) -> None:
    assert (FOLDER / f"{name}.svg").read_text("utf-8") == drawn(name), (
        "run python -m tests.pictures"
    )


def test_pictures_load_nothing_from_elsewhere() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*PICTURES, *PLOTS}
    for path in FOLDER.iterdir():
        tree = ElementTree.fromstring(path.read_text("utf-8"))
        loaded = [
            value
            for element in tree.iter()
            for name, value in element.attrib.items()
            if name.endswith(("href", "src")) and not value.startswith("#")
        ]
        assert not loaded, path.name
        assert "@import" not in path.read_text("utf-8")
