"""`lod plot` and `lod inspect --html`: files for a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.commands.plot.padding import batch_sizes, padding_shares
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.hanging import HANG_SECONDS
from tests.lodcli.conftest import Lod
from tests.slow import one_in

VOID = {"meta", "rect", "path", "use", "br"}


class Page(HTMLParser):
    """A page whose elements must be closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            # Nothing is loaded: a reference stays inside of the page.
            if name in ("src", "href", "xlink:href"):
                assert (value or "").startswith(("#", "data:image/png;")), (tag, name, value)
            assert not name.startswith("on"), (tag, name)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(path: str) -> Page:
    content = Path(path).read_text()
    page = Page()
    page.feed(content)
    page.close()
    assert page.open == []
    assert not {"script", "link", "iframe", "img", "object"} & set(page.tags)
    assert not re.search(r"@import|url\((?!#)", content)
    return page


def test_padding_by_the_size_of_a_batch_is_that_of_a_plain_loop() -> None:
    lengths = np.random.default_rng(1).integers(0, 30, 37)
    for size, share in zip(batch_sizes(37), padding_shares(lengths, batch_sizes(37)), strict=True):
        batches = [lengths[start : start + size] for start in range(0, 37, size)]
        padded = sum(int(batch.max()) * batch.size for batch in batches)
        assert share == pytest.approx(1 - int(lengths.sum()) / padded)
    assert padding_shares(np.zeros(3, np.int64), [1, 2]).tolist() == [0, 0]
    assert padding_shares(np.zeros(0, np.int64), [1]).tolist() == [0]


@pytest.mark.parametrize("kind", ["lengths", "padding", "values", "states"])
@pytest.mark.parametrize("ending", one_in(3, ["svg", "png", "html"]))
def test_pictures_are_of_their_kind(lod: Lod, folder: Path, kind: str, ending: str) -> None:
    pytest.importorskip("matplotlib")
    done = lod("plot", "words.lod.h5", "--kind", kind, "-o", f"x.{ending}")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    raw = Path(f"x.{ending}").read_bytes()
    if ending == "png":
        assert raw.startswith(b"\x89PNG\r\n")
        return
    said = {"lengths": "article: 3 sequences", "padding": "sequences in a batch"}
    expected = said.get(kind, "data: article 0, 9 rows")
    if ending == "svg":
        root = xml.etree.ElementTree.fromstring(raw)
        assert expected in " ".join(root.itertext())
    else:
        assert expected in parsed("x.html").text


def test_standard_output_gets_an_svg_and_standard_error_the_report(
    lod: Lod, shell: Lod, folder: Path
) -> None:
    pytest.importorskip("matplotlib")
    lod("plot", "words.lod.h5", "-o", "x.svg")
    done = shell("lod plot words.lod.h5 -o - --json")
    assert (done.code, done.stdout.encode()) == (0, Path("x.svg").read_bytes())
    report = json.loads(done.stderr)
    assert (report["file"], report["format"], report["bytes"]) == ("-", "svg", len(done.stdout))
    assert not Path("-").exists()
    done = shell("lod plot words.lod.h5 -o - --level 9")
    assert (done.code, done.stdout) == (2, "")


@pytest.mark.parametrize("kind", ["values", "states"])
def test_a_name_is_drawn_as_it_is(lod: Lod, folder: Path, kind: str) -> None:
    """Not as mathematics, for which dollars stand in matplotlib."""
    pytest.importorskip("matplotlib")
    name = r"cost $\nofrac{$ <b>"
    io.write("x\udcff.npz", {name: LoDTensor(np.arange(3.0), LoD.from_lengths([[2, 1]]))})
    for ending in ("svg", "html", "png"):
        assert lod("plot", "x\udcff.npz", "--kind", kind, "-o", f"x.{ending}").clean
    assert name in " ".join(xml.etree.ElementTree.parse("x.svg").getroot().itertext())
    assert rf"x\udcff.npz::{name}" in parsed("x.html").text


def test_a_name_that_the_font_lacks_is_a_note_for_a_png_only(lod: Lod, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    io.write("x.lod.h5", {"日本": LoDTensor(np.arange(3.0), [[2, 1]])})
    for ending, told in (("svg", ""), ("html", ""), ("png", "the font lacks characters")):
        done = lod("plot", "x.lod.h5", "--kind", "values", "-o", f"x.{ending}")
        assert done.code == 0
        assert done.stderr.count("\n") == bool(told)
        assert told in done.stderr
    assert "日本" in Path("x.svg").read_text()


def test_the_drawn_values_are_those_of_the_sequence(lod: Lod, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    from lodcli.commands.plot.drawing import rows_of
    from lodcli.shell.opened import opened
    from lodcli.shell.references import parse_reference

    with opened(parse_reference("words.lod.h5")) as file:
        rows, title = rows_of(file, "sentence", 2)
    # Sentence 2 of the example: words 5 to 8, of 2 values each.
    assert rows.tolist() == [[10, 11], [12, 13], [14, 15], [16, 17]]
    assert title == "data: sentence 2, 4 rows"
    lodcli.write("prices.lod.h5", LoDTensor.from_lists([[Decimal("1.50"), Decimal("-0.25")]]))
    with opened(parse_reference("prices.lod.h5")) as file:
        assert rows_of(file, None, 0)[0].tolist() == [[1.5], [-0.25]]


def test_values_without_finite_neighbours_and_nulls_at_the_end_are_shown() -> None:
    pytest.importorskip("matplotlib")
    from lodcli.commands.plot.pictures_matplotlib import values

    rows = np.array([[1.0, 1.0], [2.0, np.nan], [np.nan, np.inf], [4.0, 4.0], [np.nan, np.nan]])
    (axes,) = values(rows, "x").axes
    first, second = axes.get_lines()
    assert (first.get_marker(), first.get_markevery()) == (".", [3])
    assert (second.get_marker(), second.get_markevery()) == (".", [0, 3])
    assert axes.get_xlim() == (-0.5, 4.5)


def test_colours_of_a_heat_map_cover_the_finite_values() -> None:
    pytest.importorskip("matplotlib")
    from lodcli.commands.plot.pictures_matplotlib import heat_map

    figure = heat_map(np.array([[np.inf, 1.0], [-2.0, np.nan]]), "x")
    assert figure.axes[0].get_images()[0].get_clim() == (-2, 2)


def test_equal_data_gives_equal_pictures(lod: Lod, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        lod("plot", "words.lod.h5", "-o", name)
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("words.lod.h5 -o x.pdf", 2, "expected a file that ends with .svg, .png or .html"),
        ("words.lod.h5 -o there.svg", 3, "exists already"),
        ("words.lod.h5 -o x.svg --item 2", 2, "--item is for --kind values and states"),
        ("words.lod.h5 -o x.svg --kind values --item 3", 2, "no article 3, there are 3"),
        ("flat.lod.h5 -o x.svg", 1, "data has no levels"),
        ("flat.lod.h5 -o x.svg --kind states", 1, "data has no levels"),
        ("empty.lod.h5 -o x.svg --kind values", 1, "item 0 of level 0 is empty; choose another"),
        ("huge.lod.h5 -o x.svg --kind values", 4, "values beyond 1e+307"),
        ("narrow.lod.h5 -o x.svg --kind states", 1, "rows of data have no values"),
        ("many.lod.h5 -o x.svg", 2, "choose one: many.lod.h5::vectors"),
    ],
)
def test_tensors_that_cannot_be_drawn_are_an_error_of_one_line(
    lod: Lod, folder: Path, line: str, code: int, said: str
) -> None:
    pytest.importorskip("matplotlib")
    Path("there.svg").touch()
    io.write("flat.lod.h5", LoDTensor(np.arange(3)))
    io.write("empty.lod.h5", LoDTensor(np.arange(0), LoD.from_lengths([[0]])))
    io.write("huge.lod.h5", LoDTensor([1.7e308, -1.7e308], [[2]]))
    io.write("narrow.lod.h5", LoDTensor(np.zeros((2, 0)), [[2]]))
    done = lod("plot", *line.split())
    assert (done.code, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert said in done.stderr
    assert not Path("x.svg").exists()


def test_without_matplotlib_it_is_named(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = lod("plot", "words.lod.h5", "-o", "x.svg")
    assert (done.code, done.stderr) == (
        4,
        "lod plot: a picture needs the package matplotlib; pip install 'lodcli[plot]'\n",
    )


def test_the_page_of_inspect_is_complete_and_self_contained(
    lod: Lod, shell: Lod, folder: Path
) -> None:
    more = ["--stats", "--top", "2", "--values", "--duplicates"]
    done = lod("inspect", "words.lod.h5", *more, "--html", "x.html")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    page = parsed("x.html")
    assert page.tags.count("figure") == 2
    for text in ("words.lod.h5", "float32, 15 x 2", "58.3 %", "article", "sentence", "14.5"):
        assert text in page.text
    assert "Duplicates: 0 of 3 sequences" in page.text
    both = shell(f"lod inspect words.lod.h5 {' '.join(more)} --html - --json")
    assert (both.code, both.stdout) == (0, Path("x.html").read_text())
    assert json.loads(both.stderr)["format"] == "lod.h5"
    again = lod("inspect", "words.lod.h5", "--html", "x.html")
    assert (again.code, "exists already" in again.stderr) == (3, True)
    assert lod("inspect", "words.lod.h5", "--html", "x.html", "--force").code == 0
    assert lod("inspect", "words.lod.h5", "--force").code == 2


def test_hostile_names_and_text_stay_text(lod: Lod, folder: Path) -> None:
    name = "<script>alert(1)</script>"
    text = np.frombuffer(b"<img src=x onerror=y>", np.uint8)
    io.write("x.lod.h5", {name.replace("/", "-"): LoDTensor(text, [[21]]).as_text()})
    assert lod("inspect", "x.lod.h5", "--stats", "--html", "x.html").code == 0
    page = parsed("x.html")
    assert "<img src=x onerror=y>" in page.text


def test_a_browser_shows_the_page(lod: Lod, folder: Path) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs the program chromium")
    lod("inspect", "words.lod.h5", "--stats", "--html", "x.html")
    done = subprocess.run(
        [
            *(
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={folder}/u",
            ),
            *("--dump-dom", "--window-size=900,900", f"--screenshot={folder}/x.png"),
            (folder / "x.html").as_uri(),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    assert "<h1>words.lod.h5</h1>" in done.stdout
    assert done.stdout.count("<rect") > 2
    # What breaks the page's own rule, that nothing is loaded, would be told.
    assert "Content Security Policy" not in done.stderr
    assert (folder / "x.png").stat().st_size > 5000
