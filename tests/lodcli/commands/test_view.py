"""`lod view`: its model by hand, its screen by textual's pilot."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

from lodcli.commands.view.browser import Browser
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.core.indexed import IndexedSource
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks, Times
from tests.hanging import HANG_SECONDS
from tests.lodcli.conftest import Lod, environment

MILLISECONDS = Times("timestamp", "ms", "UTC")


@contextmanager
def browser(path: str, name: str | None = None) -> Iterator[Browser]:
    with io.open_file(path) as file:
        source = file.source.unlimited([])  # type: ignore[attr-defined]
        assert isinstance(source, IndexedSource)
        yield Browser(source, source.schema, name)


def test_items_are_shown_with_place_length_and_values(folder: Path) -> None:
    # The example: articles of 3, 1, 2 sentences of 3, 2, 4; 1; 2, 3 words of 2 values.
    with browser("many.lod.h5", "tags") as it:
        assert (it.count, it.level_name) == (3, "article")
        assert [(one.item, one.length, one.values) for one in it.lines(1, 9)] == [
            (1, 1, "[[9]]"),
            (2, 2, "[[10, 11], [12, 13, 14]]"),
        ]
        assert it.enter()
        assert (it.level_name, it.item) == ("sentence", 0)
        it.move(5)
        assert it.enter()
        assert (it.level_name, it.item) == ("row", 12)
        assert it.line(12) == it.lines(12, 13)[0]
        assert (it.line(12).branch, it.line(12).values) == ((2, 1, 0), "12")
        assert not it.enter()
        assert [it.leave() for _ in range(3)] == [True, True, False]
        assert (it.level_name, it.item) == ("article", 2)


def test_jumps_by_number_and_by_branch(folder: Path) -> None:
    with browser("words.lod.h5") as it:
        for text, place in (("2", (0, 2)), ("-1", (0, 2)), ("2,1", (1, 5)), ("0,2,3", (2, 8))):
            it.go(0, 0)
            it.jump(text)
            assert (it.level, it.item) == place
        it.go(0, 1)
        for text, said in (
            *(("3", "no article 3, there are 3 here"), ("9,0", "no article 9, there are 3")),
            *(("1,1", "no sentence 1, there are 1"), ("0,0,3", "no row 3, there are 3 here")),
            ("0,0,0,0", "there are 2 levels and rows"),
            *((text, f"expected a number .* found {text!r}") for text in ("x", "", "1,")),
        ):
            with pytest.raises(SelectionError, match=said):
                it.jump(text)
        assert (it.level, it.item) == (0, 1)
        it.longest()
        assert it.item == 0
        it.go(2, 14)
        it.longest()  # of the finest level: the sentence of 4 words
        assert (it.level, it.item) == (1, 2)


@pytest.mark.parametrize("block_bytes", [1, 3, 8 << 20])
def test_search_finds_what_a_plain_loop_finds(
    folder: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr("lodcli.commands.view.browser.SEARCH_BYTES", block_bytes)
    rng = np.random.default_rng(5)
    words = ["".join(rng.choice(list("ab"), size)) for size in rng.integers(0, 5, 40)]
    lengths = [len(word) for word in words]
    data = np.frombuffer("".join(words).encode(), np.uint8)
    io.write("text.lod.h5", LoDTensor(data, LoD.from_lengths([[10, 0, 30], lengths])).as_text())
    with browser("text.lod.h5") as it:
        for sought in ("a", "ab", "bba", "abab", "c"):
            it.go(1, 0)
            found = it.search(sought)
            assert found == next((n for n in range(1, 40) if sought in words[n]), None)
    numbers = rng.integers(0, 50, (60, 2))
    io.write("numbers.lod.h5", LoDTensor(numbers, LoD.from_lengths([[20, 0, 15, 25]])))
    with browser("numbers.lod.h5") as it:
        for number in range(50):
            it.go(1, 0)
            later = np.flatnonzero((numbers[1:] == number).any(axis=1)) + 1
            assert it.search(str(number)) == (int(later[0]) if later.size else None)
        with pytest.raises(SelectionError, match="search for a number"):
            it.search("x")


@pytest.mark.parametrize("block_bytes", [1, 8 << 20])
def test_times_decimals_and_categories_are_shown_and_found_as_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr("lodcli.commands.view.browser.SEARCH_BYTES", block_bytes)
    day = 86_400_000
    lod = LoD.from_lengths([[2, 1, 2]])
    times = LoDTensor(np.array([0, 1500, day, day + 1, 3 * day]), lod, Marks(unit=MILLISECONDS))
    prices = LoDTensor(np.array([100, 250, 50, 1250, 7]), lod, Marks(unit=Decimals(6, 2)))
    kinds = LoDTensor(np.array([0, 0, 1, 49, 1], np.int8), lod)
    words = ["bus", "bike", *(f"w{n}" for n in range(48))]
    io.write("u.lod.h5", {"t": times, "p": prices, "k": kinds.as_categories(words)})
    expected = {
        "t": ("1970-01-01T00:00:01.500Z", {"01.500Z": 1, "1970-01-02": 2, "1970-01-04": 4}),
        "p": ("2.50", {"2.50": 1, "0.07": 4, "12": 3}),
        "k": ("'bus'", {"bike": 2, "w47": 3}),
    }
    for name, (shown, places) in expected.items():
        with browser("u.lod.h5", name) as it:
            it.go(1, 0)
            assert it.line(1).values == shown
            for text, place in places.items():
                it.go(1, 0)
                assert it.search(text) == place
            it.go(1, 0)
            assert it.search("1" if name == "k" else "x") is None


def test_a_search_can_be_stopped(folder: Path) -> None:
    with browser("words.lod.h5") as it:
        assert it.search("29", lambda: True) is None


def test_nan_is_found(folder: Path) -> None:
    io.write("x.lod.h5", LoDTensor([0.0, 1.0, np.nan], [[1, 1, 1]]))
    with browser("x.lod.h5") as it:
        assert it.search("nan") == 2


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
def test_a_float_is_found_as_it_is_shown_or_written(folder: Path, dtype: str) -> None:
    data = np.array([0, 0.1, 1.234, 1.2363, 1e4, np.inf], dtype)
    io.write("x.lod.h5", LoDTensor(data, [[6]]))
    with browser("x.lod.h5") as it:
        it.go(1, 0)
        shown = [(it.line(n).values.removesuffix("+0j"), n) for n in range(1, 6)]
        for text, place in [*shown, ("1.236", 3), ("10000", 4), (f"{data[3].real:.17g}", 3)]:
            assert it.search(text) == place
        for absent in ("0", "0.1003", "1.2361", "-0.1", "9990", "-inf", "nan", "1e300"):
            assert it.search(absent) is None


def test_true_and_digits_of_unmarked_text_are_found(folder: Path) -> None:
    io.write("x.lod.h5", LoDTensor([False, False, True], [[3]]))
    data = np.frombuffer(b"in 1984, or in 1789", np.uint8)
    io.write("y.lod.h5", LoDTensor(data, [[9, 10]]))
    with browser("x.lod.h5") as it:
        it.go(1, 0)
        assert (it.search("True"), it.search("False"), it.search("9" * 30)) == (2, 1, None)
    with browser("y.lod.h5") as it:
        assert it.line(0).values == "'in 1984, '"
        assert it.search("1789") == 1


def test_a_search_takes_no_memory_for_every_item(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io.write("x.lod.h5", LoDTensor(np.arange(2_000_000) // 2, [[2] * 1_000_000]))
    monkeypatch.setattr("lodcli.commands.view.browser.SEARCH_BYTES", 1 << 12)
    with browser("x.lod.h5") as it:
        tracemalloc.start()
        for level, item in ((0, 100), (1, 200)):
            it.go(level, 0)
            assert it.search("100") == item
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


def test_only_what_is_shown_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    io.write("big.lod.h5", LoDTensor(np.arange(1_000_000), [[100] * 10_000]))
    read = []
    rows = ContainerSource.read_rows

    def counted(self: ContainerSource, name: str, start: int, stop: int) -> Any:
        read.append(stop - start)
        return rows(self, name, start, stop)

    monkeypatch.setattr(ContainerSource, "read_rows", counted)
    with browser("big.lod.h5") as it:
        it.jump("9000")
        it.lines(9000, 9020)
    assert sum(read) == 20 * 100


def test_long_items_are_counted_not_read(folder: Path) -> None:
    io.write("long.lod.h5", LoDTensor(np.zeros(30_000), [[30_000]]))
    with browser("long.lod.h5") as it:
        assert it.line(0).values == ".. 30,000 rows"


def test_json_shows_one_item(lod: Lod, folder: Path) -> None:
    found = json.loads(lod("view", "many.lod.h5::tags", "--at", "2,1", "--json").stdout)
    assert (found["item"], found["branch"], found["length"]) == (5, [2, 1], 3)
    assert (found["level"], found["values"]) == ("sentence", "[12, 13, 14]")
    io.write("none.lod.h5", LoDTensor(np.zeros(0), [[]]))
    assert json.loads(lod("view", "none.lod.h5", "--json").stdout)["item"] is None


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["words.lod.h5"], "view needs a terminal; use --json"),
        (["-"], "the data cannot come from standard input, from which view reads keys"),
        (["words.lod.h5", "--at", "7", "--json"], "no article 7, there are 3 here"),
        (["steps.lod.h5", "--json"], "`lod pack` them first"),
    ],
)
def test_wrong_usage_is_one_line(lod: Lod, folder: Path, args: list[str], said: str) -> None:
    lod("unpack", "words.lod.h5", "-o", "steps.lod.h5")
    done = lod("view", *args)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_dumb_terminal_is_refused(folder: Path) -> None:
    ours, theirs = os.openpty()
    done = subprocess.run(
        ["lod", "view", "words.lod.h5"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment(TERM="dumb"),
        check=False,
        timeout=HANG_SECONDS,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert done.stderr.startswith(b"lod view: view needs a terminal that can move the cursor; use")


def screen(path: str, play: Callable[[Any, Callable[[], list[str]]], Awaitable[None]]) -> None:
    """Show a file on a screen of 60 by 12 and play keys."""
    pytest.importorskip("textual")
    from textual.widgets import Static

    from lodcli.commands.view.app_textual import Viewer

    async def run() -> None:
        with browser(path) as it:
            app = Viewer(it, path)

            def shown() -> list[str]:
                texts = [
                    str(app.query_one(name, Static).render())
                    for name in ("#head", "#place", "#page")
                ]
                return [line.rstrip() for line in "\n".join(texts).splitlines()]

            async with app.run_test(size=(60, 12)) as pilot:
                await pilot.pause()
                await play(pilot, shown)

    asyncio.run(run())


def test_the_screen_pages_and_goes_into_items(folder: Path) -> None:
    async def play(pilot: Any, shown: Callable[[], list[str]]) -> None:
        assert shown()[0] == "many.lod.h5::vectors: float32, 3 article, 6 sentence, 15 rows"
        assert shown()[1] == "article 0 of 3"
        await pilot.press("down", "down", "enter")
        assert shown()[1] == "sentence 4 of 6"
        await pilot.press("end")
        assert shown()[1] == "sentence 5 of 6"
        await pilot.press("backspace", "backspace")
        assert shown()[1] == "article 2 of 3  the outermost level"
        await pilot.press("l")
        assert shown()[1] == "article 0 of 3"
        await pilot.press("t")
        assert shown()[0].startswith("many.lod.h5::tags: int16")
        assert shown()[2] == "0 (3) [[0, 1, 2], [3, 4], [5, 6, 7, 8]]"
        await pilot.press("q")

    screen("many.lod.h5", play)


def test_the_screen_jumps_and_searches(folder: Path) -> None:
    io.write("many.lod.h5", LoDTensor(np.arange(3000), [[3] * 1000]), overwrite=True)

    async def play(pilot: Any, shown: Callable[[], list[str]]) -> None:
        await pilot.press("g", *"700", "enter")
        assert shown()[1] == "level 0, item 700 of 1,000"
        assert "700 (3) [2100, 2101, 2102]" in shown()
        await pilot.press("g", *"1000", "enter")
        assert (
            shown()[1]
            == "level 0, item 700 of 1,000  no item 1000 of level 0, there are 1,000 here"
        )
        await pilot.press("slash", *"2950", "enter")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert shown()[1] == "level 0, item 983 of 1,000"
        await pilot.press("n")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert "'2950' is not found below" in shown()[1]
        await pilot.press("home", "pagedown")
        height = len(shown()) - 2
        assert shown()[1] == f"level 0, item {height} of 1,000"
        await pilot.press("g", "escape", "q")

    screen("many.lod.h5", play)


def test_the_screen_fits_its_size_and_shows_long_notes(folder: Path) -> None:
    io.write("many.lod.h5", LoDTensor(np.arange(3000), [[3] * 1000]), overwrite=True)

    async def play(pilot: Any, shown: Callable[[], list[str]]) -> None:
        page = pilot.app.query_one("#page")
        await pilot.press("end")
        for width, height in ((30, 8), (6, 4), (50, 20)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            lines = str(page.render()).splitlines()
            assert {len(line) for line in lines} == {page.size.width}
            assert len(lines) == page.size.height
        assert "999 (3) [2997, 2998, 2999]" in shown()
        await pilot.press("g", *"5000", "enter")
        await pilot.pause()
        assert shown()[1].endswith("  no item 5000 of level 0, there are 1,000 here")
        assert pilot.app.query_one("#place").size.height == 2
        assert len(str(page.render()).splitlines()) == page.size.height
        await pilot.press("q")

    screen("many.lod.h5", play)


def test_the_screen_shows_an_error_in_place_of_damaged_text(folder: Path) -> None:
    text = np.frombuffer(b"damaged text", np.uint8)
    io.write(
        "many.lod.h5", {"a": LoDTensor([1, 2]), "b": LoDTensor(text, [[7, 5]])}, overwrite=True
    )
    raw = Path("many.lod.h5").read_bytes()
    Path("many.lod.h5").write_bytes(raw.replace(b"damaged", b"DAMAGED"))

    async def play(pilot: Any, shown: Callable[[], list[str]]) -> None:
        await pilot.press("t")
        assert shown()[0].startswith("many.lod.h5::b: uint8, 2 (level 0), 12 rows")
        assert shown()[1].endswith(
            "  /b/data: rows 0 to 11 were altered (the checksum does not match)"
        )
        await pilot.press("t", "q")

    screen("many.lod.h5", play)


def test_a_search_that_ends_on_another_level_goes_nowhere(folder: Path) -> None:
    async def play(pilot: Any, shown: Callable[[], list[str]]) -> None:
        begun = pilot.app._where()
        await pilot.press("enter")
        pilot.app._found(begun, 2, "")
        assert shown()[1] == "sentence 0 of 6"
        await pilot.press("backspace")
        pilot.app._found(begun, 2, "")
        assert shown()[1] == "article 2 of 3"
        await pilot.press("q")

    screen("many.lod.h5", play)


def test_the_screen_shows_text_and_no_escape_sequence(folder: Path) -> None:
    data = np.frombuffer(b"plain\x1b[2Jx", np.uint8)
    io.write("words.lod.h5", LoDTensor(data, [[5, 5]]).as_text(), overwrite=True)

    async def play(pilot: Any, shown: Callable[[], list[str]]) -> None:
        assert shown()[2:4] == ["0 (5) 'plain'", "1 (5) '\\x1b[2Jx'"]
        await pilot.press("q")

    screen("words.lod.h5", play)


def test_the_screen_ends_with_control_c_and_shows_wide_characters(folder: Path) -> None:
    data = np.frombuffer("日本".encode() * 20, np.uint8)
    io.write("words.lod.h5", LoDTensor(data, [[6, 114]]).as_text(), overwrite=True)

    async def play(pilot: Any, shown: Callable[[], list[str]]) -> None:
        assert shown()[2] == "0 (6) '日本'"
        page = str(pilot.app.query_one("#page").render())
        assert [cell_len(line) for line in page.splitlines()] == [60, 60]
        await pilot.press("ctrl+c")
        assert not pilot.app.is_running

    screen("words.lod.h5", play)
