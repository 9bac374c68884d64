"""`lod split`."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.commands.split.cutting import How, parse_how
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.writing import partials_in
from tests.lodcli.conftest import Lod, tensor
from tests.sampling import many


@pytest.fixture
def labelled(folder: Path) -> list[tuple[list[int], int]]:
    """labelled.lod.h5: 40 sequences, and a label beside each."""
    rng = np.random.default_rng(3)
    lod = LoD.from_lengths([rng.integers(0, 9, 40)], ["sentence"])
    assert lod.rows is not None
    ids = LoDTensor(rng.integers(0, 100, lod.rows), lod)
    label = np.arange(40, dtype=np.int8) % 4
    io.write(folder / "labelled.lod.h5", {"ids": ids, "label": LoDTensor(label)})
    return list(zip(ids.to_list(), label.tolist(), strict=True))


def items_of(path: str) -> list[tuple[list[int], int]]:
    return list(
        zip(tensor(path, "ids").to_list(), tensor(path, "label").data.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    ("how", "sizes"),
    [
        (["count", "15"], [15, 15, 10]),
        (["count", "40"], [40]),
        (["count", "99"], [40]),
        (["fractions", "0.8,0.1,0.1"], [32, 4, 4]),
        (["fractions", "0,1"], [0, 40]),
        (["fractions", "0.333,0.333,0.334"], [13, 14, 13]),
        (["sentence"], [1] * 40),
        (["0"], [1] * 40),
    ],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("seed", [None, 5])
def test_the_parts_are_the_file(
    lod: Lod,
    labelled: list[tuple[list[int], int]],
    how: list[str],
    sizes: list[int],
    seed: int | None,
) -> None:
    more = [] if seed is None else ["--seed", str(seed)]
    done = lod("split", "labelled.lod.h5", "--by", *how, *more, "--json", "-o", "p-{}.lod.h5")
    assert (done.code, done.stderr) == (0, "")
    written = json.loads(done.stdout)["files"]
    assert [one["items"] for one in written] == sizes
    parts = [items_of(one["file"]) for one in written]
    assert [len(part) for part in parts] == sizes
    together = [item for part in parts for item in part]
    if seed is None:
        assert together == labelled
    else:
        assert sorted(together) == sorted(labelled)
        lod("shuffle", "labelled.lod.h5", "--seed", str(seed), "-o", "shuffled.lod.h5")
        assert together == items_of("shuffled.lod.h5") != labelled


def test_parts_may_be_packed_and_have_the_permissions_of_new_files(lod: Lod, folder: Path) -> None:
    rows = LoDTensor(np.arange(5))
    io.write(folder / "rows.npy", rows)
    assert lod("split", "rows.npy", "--by", "count", "2", "-o", "p-{}.jsonl.gz").code == 0
    found = [gzip.decompress(Path(f"p-{n}.jsonl.gz").read_bytes()) for n in range(3)]
    assert found == [b"0\n1\n", b"2\n3\n", b"4\n"]
    Path("new").touch()
    assert Path("p-2.jsonl.gz").stat().st_mode == Path("new").stat().st_mode


def test_a_level_below_is_split_with_all_that_share_it(lod: Lod, folder: Path) -> None:
    done = lod("split", "many.lod.h5::tags", "--by", "sentence", "-q", "-o", "s-{}.npz")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2] == "s-2.npz: 1 item, 4 rows"
    assert tensor("s-2.npz", "tags").to_list() == [[5, 6, 7, 8]]
    assert tensor("s-2.npz", "vectors").rows == 4


@given(
    st.lists(st.integers(0, 9), max_size=30),
    st.one_of(
        st.builds(lambda count: How(count=count), st.integers(1, 9)),
        st.builds(lambda size: How(size_bytes=size), st.integers(1, 30)),
        st.lists(st.integers(0, 5), min_size=1, max_size=5)
        .filter(any)
        .map(lambda shares: How(fractions=tuple(one / sum(shares) for one in shares))),
    ),
)
@settings(max_examples=many(200))
def test_borders_divide_all_items(sizes: list[int], how: How) -> None:
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    borders = how.borders(ends.size - 1, ends)
    assert len(borders) >= 2
    assert (borders[0], borders[-1]) == (0, len(sizes))
    assert borders == sorted(borders)
    if how.size_bytes is not None:
        for start, stop in pairwise(borders):
            held = int(ends[stop] - ends[start])
            assert held <= how.size_bytes or stop - start == 1
            # Greedy: the next item would not have fitted.
            assert stop == len(sizes) or held + sizes[stop] > how.size_bytes


def test_names_are_numbers_of_equal_width_or_those_given(lod: Lod, folder: Path) -> None:
    assert lod("split", "words.lod.h5", "--by", "sentence", "-qo", "a{}.npz").code == 0
    lod("split", "words.lod.h5", "--by=count:1", "-qo", "{x,y,z}-a.npz")
    names = sorted(path.name for path in folder.glob("*a*.npz"))
    assert names == ["a0.npz", "a1.npz", "a2.npz", "a3.npz", "a4.npz", "a5.npz"] + [
        f"{name}-a.npz" for name in "xyz"
    ]
    io.write("long.lod.h5", LoDTensor(np.arange(11), [[1] * 11]))
    lod("split", "long.lod.h5", "--by", "count", "1", "-qo", "b{}.npz")
    assert sorted(path.name for path in folder.glob("b*"))[::10] == ["b00.npz", "b10.npz"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--by", "count", "2", "-o", "a.npz"], "in the last part of the path, found none;"),
        (["--by", "count", "2", "-o", "-"], "in the last part of the path, found none; -o 'part-"),
        (["--by", "count", "2"], "missing option '-o'"),
        (["--by", "count", "2", "-o", "{}-{}.npz"], "expected one {} or {NAME,NAME,..} in the"),
        (["--by", "count", "2", "-o", "{}-{}.npz"], "path, found several; -o 'part-{}.lod.h5'"),
        (["--by", "count", "2", "-o", "{}/a.npz"], "-o '{}/a.npz': expected one {}"),
        (["--by", "count", "1", "-o", "{a,b}.npz"], "{a,b} must be 3 different names"),
        (["--by", "count", "1", "-o", "{a,b,b}.npz"], "{a,b,b} must be 3 different names"),
        (["--by", "count", "1", "-o", "{a,b,c,d}.npz"], "{a,b,c,d} must be 3 different names"),
        (["--by", "count", "1", "-o", "{a,b,}.npz"], "{a,b,} must be 3 different names"),
        (["--by", "count", "0", "-o", "{}.npz"], "expected a number of items from 1, found '0'"),
        (["--by", "count", "-o", "{}.npz"], "expected a value after count, found none"),
        (["--by", "size", "x", "-o", "{}.npz"], "'x' is not a size"),
        (
            ["--by", "fractions", "0.5", "-o", "{}.npz"],
            "expected shares that sum to 1, found a sum of 0.5",
        ),
        (["--by", "fractions", "a,b", "-o", "{}.npz"], "expected shares such as 0.8,0.1,0.1"),
        (["--by", "verse", "-o", "{}.npz"], "no level named 'verse'"),
        (["--by", "50", "-o", "{}.npz"], "; for 50 items per file: --by count 50"),
        (["--by", "label", "-o", "{}.npz"], ".lod.h5 --by label | lod split - --by label .."),
        (["--by", "0", "--level", "1", "-o", "{}.npz"], "names the level already"),
        (["--by", "count", "2", "--to", "mds", "-o", "{}.x"], "mds is a folder or several files"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_options_write_nothing(lod: Lod, folder: Path, args: list[str], said: str) -> None:
    before = sorted(folder.iterdir())
    done = lod("split", "words.lod.h5", *args)
    assert done.code in (2, 4)
    assert said in done.stderr
    assert sorted(folder.iterdir()) == before


def test_one_file_that_exists_keeps_all_from_being_written(lod: Lod, folder: Path) -> None:
    (folder / "p-2.npz").write_bytes(b"mine")
    before = sorted(folder.iterdir())
    done = lod("split", "words.lod.h5", "--by", "count", "1", "-o", "p-{}.npz")
    assert done.code == 3
    assert "p-2.npz: exists already; use --force to replace it" in done.stderr
    assert sorted(folder.iterdir()) == before
    assert lod("split", "words.lod.h5", "--by", "count", "1", "-qfo", "p-{}.npz").code == 0
    assert len(tensor("p-2.npz")) == 1


def test_tensors_that_the_format_cannot_hold_leave_no_files(lod: Lod, folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = lod("split", "words.lod.h5", "--by", "count", "1", "-o", "p-{}.ts")
    assert done.code == 4
    assert sorted(folder.iterdir()) == before
    assert not partials_in(folder)


def test_a_pipe_is_split(shell: Lod, folder: Path) -> None:
    done = shell("lod head words.lod.h5 -n 2 | lod split --by count 1 - -o 'p-{}.lod.h5'")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == "p-0.lod.h5: 1 item, 9 rows\np-1.lod.h5: 1 item, 1 row\n"


def test_the_words_after_by_make_one_value() -> None:
    assert parse_how("size:1K") == How(size_bytes=1024)
    assert parse_how("-1") == How(level=-1)
    assert parse_how("day") == How(level="day")
