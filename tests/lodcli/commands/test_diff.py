"""`lod diff`: the reported differences, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.items.indexed_copy import in_place
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks, Times
from tests.formats.cases.opening import source_of
from tests.lodcli.conftest import Lod, articles


def save(path: str, data: object, lengths: list[list[int]], names: object = None) -> None:
    lod = LoD.from_lengths(lengths, names if isinstance(names, list) else None)
    io.write(path, LoDTensor(np.asarray(data), lod), overwrite=True)


def test_equal_files_give_nothing_and_0(lod: Lod, folder: Path) -> None:
    for other in ("copy.lod.h5", "copy.lods"):
        assert lod("convert", "many.lod.h5", other).code == 0
        done = lod("diff", "many.lod.h5", other)
        assert (done.code, done.stdout, done.stderr) == (0, "", "")
    found = json.loads(lod("diff", "many.lod.h5", "copy.lods", "--json").stdout)
    assert (found["equal"], found["schema_version"]) == (True, 1)
    assert lod("diff", "many.lod.h5", "copy.lods", "--stat").stdout.count("equal") == 3


def test_times_decimals_and_words_are_shown_as_text(lod: Lod, folder: Path) -> None:
    times, prices = Times("timestamp", "s", "UTC"), Decimals(6, 2)
    for path, more in (("a.lod.h5", 0), ("b.lod.h5", 1)):
        data = np.array([0, 60 * more])
        content = {
            "t": LoDTensor(data, marks=Marks(unit=times)),
            "p": LoDTensor(data + 125, marks=Marks(unit=prices)),
            "k": LoDTensor([0, more]).as_categories(["bus", "bike"]),
        }
        io.write(path, content)
    done = lod("diff", "a.lod.h5", "b.lod.h5")
    assert done.stdout.splitlines() == [
        "t: row 1: 1970-01-01T00:00:00Z against 1970-01-01T00:01:00Z",
        "t: 1 value in 1 of 2 rows differ, by at most 60 s",
        "p: row 1: 1.25 against 1.85",
        "p: 1 value in 1 of 2 rows differ, by at most 0.6",
        "k: row 1: 'bus' against 'bike'",
        "k: 1 value in 1 of 2 rows differ",
    ]
    assert [
        line.split()[-1]
        for line in lod("diff", "a.lod.h5", "b.lod.h5", "--stat").stdout.splitlines()[1:]
    ] == ["s", "0.6", "-"]
    found = json.loads(lod("diff", "a.lod.h5", "b.lod.h5", "--json").stdout)["tensors"]
    assert [one["differences"][0]["right"] for one in found] == [60, 185, 1]


def test_attributes_of_only_one_file_are_nothing_in_the_other(lod: Lod, folder: Path) -> None:
    save("a.lod.h5", np.arange(3), [[1, 2]], ["clip"])
    plain = LoDTensor(np.arange(3), LoD.from_lengths([[1, 2]]))
    io.write("b.lod.h5", plain.with_attributes({"unit": "m"}))
    assert lod("diff", "a.lod.h5", "b.lod.h5").stdout.splitlines() == [
        'data: attributes: nothing against {"unit":"m"}',
        "data: level 0: name: clip against nothing",
    ]


def test_the_first_differences_are_shown_by_branch(lod: Lod, folder: Path) -> None:
    rows = articles().data.copy()
    rows[6, 1] += 0.5
    rows[14] = 0
    io.write("b.lod.h5", LoDTensor(rows, articles().lod))
    done = lod("diff", "words.lod.h5", "b.lod.h5")
    assert (done.code, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "data: article 0, sentence 2, row 1, column 1: 13.0 against 13.5",
        "data: article 2, sentence 1, row 2, column 0: 28.0 against 0.0",
        "data: article 2, sentence 1, row 2, column 1: 29.0 against 0.0",
        "data: 3 values in 2 of 15 rows differ, by at most 29",
    ]
    for name in ("--atol", "--rtol"):
        done = lod("diff", "words.lod.h5", "b.lod.h5", name, "nan")
        assert (done.code, "expected a number, found 'nan'" in done.stderr) == (2, True)
    assert lod("diff", "words.lod.h5", "b.lod.h5", "--atol", "29").code == 0
    assert "1 value in 1 of 15" not in lod("diff", "words.lod.h5", "b.lod.h5", "--atol", "1").stdout
    assert len(lod("diff", "words.lod.h5", "b.lod.h5", "--first", "1").stdout.splitlines()) == 2
    found = json.loads(lod("diff", "words.lod.h5", "b.lod.h5", "--json").stdout)
    (one,) = found["tensors"]
    assert (one["different_values"], one["different_rows"], one["max_abs"]) == (3, 2, 29)
    assert one["differences"][0] == {
        "what": "value",
        "level": None,
        "branch": [0, 2, 1],
        "column": [1],
        "left": 13.0,
        "right": 13.5,
    }


@pytest.mark.parametrize(
    ("data", "lengths", "names", "said"),
    [
        (np.arange(6), [[2, 1], [2, 1, 3]], ["a", "b"], ""),
        (np.arange(6), [[2, 1], [2, 2, 2]], ["a", "b"], "data: a 0, b 1: length: 1 against 2"),
        (np.arange(6), [[1, 2], [2, 1, 3]], ["a", "b"], "data: a 0: length: 2 against 1"),
        (np.arange(6), [[3], [2, 1, 3]], ["a", "b"], "level 0: number of sequences: 2 against 1"),
        (np.arange(6), [[2, 1], [2, 1, 3]], ["a", "c"], "level 1: name: b against c"),
        (np.arange(6.0), [[2, 1], [2, 1, 3]], ["a", "b"], "dtype: int64 against float64"),
        (np.zeros((6, 2)), [[2, 1], [2, 1, 3]], ["a", "b"], "shape of a row: [] against [2]"),
        (np.arange(6), [[2, 1, 3]], ["a"], "number of levels: 2 against 1"),
        (np.arange(3), [[1, 1], [2, 1]], ["a", "b"], "a 0: length: 2 against 1"),
    ],
)
def test_the_index_goes_first(
    lod: Lod, folder: Path, data: object, lengths: list[list[int]], names: list[str], said: str
) -> None:
    save("a.lod.h5", np.arange(6), [[2, 1], [2, 1, 3]], ["a", "b"])
    save("b.lod.h5", data, lengths, names)
    done = lod("diff", "a.lod.h5", "b.lod.h5")
    assert (done.code, done.stderr) == (int(bool(said)), "")
    assert said in done.stdout
    assert lod("diff", "a.lod.h5", "b.lod.h5", "--stat", "--first", "0").code == int(bool(said))


def test_tensors_of_one_file_only(lod: Lod, folder: Path) -> None:
    assert lod("drop", "many.lod.h5", "tags", "-o", "less.lod.h5").code == 0
    done = lod("diff", "many.lod.h5", "less.lod.h5")
    assert (done.code, done.stdout) == (1, "tags: only in the first file\n")
    assert lod("diff", "less.lod.h5", "many.lod.h5").stdout == "tags: only in the second file\n"
    for args, sides in (("many", "less"), ["tags", None]), (("less", "many"), [None, "tags"]):
        found = json.loads(lod("diff", "--json", *(f"{one}.lod.h5" for one in args)).stdout)
        (difference,) = (each for one in found["tensors"] for each in one["differences"])
        assert [difference["left"], difference["right"]] == sides


def test_nan_is_nan_and_infinities_are_apart(lod: Lod, folder: Path) -> None:
    save("a.lod.h5", [np.nan, np.inf, -0.0], [[3]])
    save("b.lod.h5", [np.nan, -np.inf, 0.0], [[3]])
    done = lod("diff", "a.lod.h5", "b.lod.h5", "--json")
    assert done.code == 1
    assert "Infinity" not in done.stdout  # no JSON
    (one,) = json.loads(done.stdout)["tensors"]
    assert (one["different_values"], one["max_abs"]) == (1, "inf")
    assert (one["differences"][0]["left"], one["differences"][0]["right"]) == ("inf", "-inf")


def test_large_integers_differ_from_rounded_floats(lod: Lod, folder: Path) -> None:
    io.write("a.lod.h5", LoDTensor(np.array([2**53 + 1, 5, 2**63 - 1])))
    io.write("b.lod.h5", LoDTensor(np.array([2**53 + 1, 5, 2**63 - 1], np.float64)))
    found = json.loads(lod("diff", "a.lod.h5", "b.lod.h5", "--json").stdout)["tensors"][0]
    assert (found["different_values"], found["max_abs"]) == (2, 1.0)


@pytest.mark.parametrize(("dtype", "value"), [(np.int64, 2**63 - 1), (np.uint64, 2**64 - 1)])
def test_differences_of_64_bits_are_exact(lod: Lod, folder: Path, dtype: Any, value: int) -> None:
    io.write("a.lod.h5", LoDTensor(np.array([value], dtype)))
    io.write("b.lod.h5", LoDTensor(np.array([value - 1], dtype)))
    done = lod("diff", "a.lod.h5", "b.lod.h5", "--atol", "0.5", "--json")
    assert done.code == 1
    assert json.loads(done.stdout)["tensors"][0]["max_abs"] == 1
    assert lod("diff", "a.lod.h5", "b.lod.h5", "--atol", "1").code == 0


@given(
    values=st.lists(st.floats(width=32), min_size=1, max_size=30),
    changes=st.dictionaries(st.integers(0, 29), st.floats(width=32), max_size=4),
    rtol=st.sampled_from([0, 1e-3, 1]),
    atol=st.sampled_from([0, 0.5]),
)
def test_values_differ_as_numpy_says(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[float],
    changes: dict[int, float],
    rtol: float,
    atol: float,
) -> None:
    from lodcli.commands.diff.comparing import compared
    from lodcli.formats.items.indexed_copy import Labelled

    a = np.array(values, np.float32)
    b = a.copy()
    for place, value in changes.items():
        b[place % b.size] = value
    folder = tmp_path_factory.mktemp("diff")
    for name, data in (("a", a), ("b", b)):
        io.write(folder / f"{name}.lod.h5", LoDTensor(data, [[data.size]]))
    with source_of(folder / "a.lod.h5") as x, source_of(folder / "b.lod.h5") as y:
        one, two = in_place(x, ["data"]), in_place(y, ["data"])
        assert one is not None
        assert two is not None
        sides = [Labelled("a", one, x.schema), Labelled("b", two, y.schema)]
        found = compared(*sides, rtol=rtol, atol=atol, first=3).tensors[0]
    wide = a.astype(np.float64), b.astype(np.float64)
    unequal = ~np.isclose(*wide, rtol=rtol, atol=atol, equal_nan=True)
    assert found.different_values == unequal.sum()
    places = [one.branch[1] for one in found.differences]
    assert places == np.flatnonzero(unequal)[:3].tolist()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["words.lod.h5"], "expected 2 files, A B; found 1"),
        (["-", "-"], "- is given twice"),
        (["words.lod.h5", "nothing.lod.h5"], "nothing.lod.h5: no such file"),
        (["words.lod.h5", "many.lod.h5::tag"], "no tensor named 'tag'"),
    ],
)
def test_bad_usage_is_one_line(lod: Lod, folder: Path, args: list[str], said: str) -> None:
    done = lod("diff", *args)
    assert done.code in (2, 3)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_pipe_is_compared(shell: Lod) -> None:
    done = shell("lod convert many.lod.h5 - | lod diff many.lod.h5 -")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    done = shell("lod slice words.lod.h5 1: | lod diff --stat words.lod.h5 -")
    assert done.code == 1


def test_the_largest_difference_may_be_in_any_block(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.commands.diff.comparing.BATCH_BYTES", 16)
    io.write("one.npz", LoDTensor(np.zeros(6)))
    io.write("other.npz", LoDTensor(np.array([1.0, 0, 0, 5, 2, 0])))
    done = lod("diff", "one.npz", "other.npz", "--json")
    (found,) = json.loads(done.stdout)["tensors"]
    assert (found["different_values"], found["different_rows"], found["max_abs"]) == (3, 3, 5)


def test_decimals_are_compared_with_other_scales_and_floats_by_value(
    lod: Lod, folder: Path
) -> None:
    digits = np.array([150, 205])
    io.write("a.lod.h5", LoDTensor(digits, marks=Marks(unit=Decimals(6, 2))))
    io.write("b.lod.h5", LoDTensor(digits * 10, marks=Marks(unit=Decimals(7, 3))))
    io.write("c.lod.h5", LoDTensor(np.array([1.5, 2.25])))
    done = lod("diff", "a.lod.h5", "b.lod.h5")
    assert done.stdout == "data: marks: decimal(6, 2) against decimal(7, 3)\n"
    done = lod("diff", "a.lod.h5", "c.lod.h5")
    assert "data: row 1: 2.05 against 2.25\n" in done.stdout
    assert "1 value in 1 of 2 rows differ, by at most 0.2\n" in done.stdout


def test_times_are_compared_as_instants(lod: Lod, folder: Path) -> None:
    def write(path: str, numbers: list[int], unit: Times) -> None:
        io.write(path, {"t": LoDTensor(np.array(numbers), marks=Marks(unit=unit))})

    write("a.lod.h5", [0, 60, -5, 2**62], Times("timestamp", "s"))
    write("b.lod.h5", [0, 60_000, -5_500, 7], Times("timestamp", "ms", "UTC"))
    done = lod("diff", "a.lod.h5", "b.lod.h5")
    assert done.code == 1
    assert done.stdout.splitlines()[:2] == [
        "t: marks: timestamp[s] against timestamp[ms, UTC]",
        "t: row 2: 1969-12-31T23:59:55.000 against 1969-12-31T23:59:54.500",
    ]
    assert "t: 2 values in 2 of 4 rows differ" in done.stdout
    write("c.lod.h5", [0, 1], Times("date", "D"))
    write("d.lod.h5", [0, 86_400_000_000_000], Times("timestamp", "ns"))
    done = lod("diff", "c.lod.h5", "d.lod.h5", "--json")
    (found,) = json.loads(done.stdout)["tensors"]
    assert found["different_values"] == 0
    assert [one["what"] for one in found["differences"]] == ["marks"]
    write("e.lod.h5", [0, 1], Times("duration", "s"))
    done = lod("diff", "c.lod.h5", "e.lod.h5", "--json")
    assert json.loads(done.stdout)["tensors"][0]["different_values"] == 0
