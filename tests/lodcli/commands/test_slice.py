"""`lod slice`: what is cut out, and what is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lodcli.conftest import Lod, articles, tensor

# The table of docs, "Slices": branch, lengths, rows.
CASES = [
    (["2"], [[2, 3]], slice(10, 15)),
    (["2:3"], [[2], [2, 3]], slice(10, 15)),
    (["2,0"], [], slice(10, 12)),
    (["2,0:1"], [[2]], slice(10, 12)),
    (["--level", "1", "2"], [], slice(5, 9)),
    (["--level", "1", "3:6"], [[1, 2, 3]], slice(9, 15)),
    (["--level", "sentence", "3:6"], [[1, 2, 3]], slice(9, 15)),
    (["-1"], [[2, 3]], slice(10, 15)),
    (["-2:"], [[1, 2], [1, 2, 3]], slice(9, 15)),
    ([":1"], [[3], [3, 2, 4]], slice(0, 9)),
    (["-1,-1"], [], slice(12, 15)),
    (["--level", "-1", "-1"], [], slice(12, 15)),
]


@pytest.mark.parametrize(("args", "lengths", "rows"), CASES, ids=lambda value: str(value))
def test_a_slice_keeps_these_lengths_and_rows(
    lod: Lod, folder: Path, args: list[str], lengths: list[list[int]], rows: slice
) -> None:
    done = lod("slice", "words.lod.h5", *args, "-o", "out.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    found = tensor("out.lod.h5")
    assert found.recursive_sequence_lengths() == lengths
    np.testing.assert_array_equal(found.data, articles().data[rows])


def test_one_tensor_of_several_is_sliced_by_name(lod: Lod, folder: Path) -> None:
    assert lod("slice", "many.lod.h5::tags", "1", "-o", "out.lod.h5").code == 0
    assert tensor("out.lod.h5", "tags").data.tolist() == [9]


def test_several_tensors_and_no_name_is_a_usage_error_that_lists_them(
    lod: Lod, folder: Path
) -> None:
    done = lod("slice", "many.lod.h5", "1", "-o", "out.lod.h5")
    assert done.code == 2
    assert "vectors, tags, other" in done.stderr
    assert "::NAME" in done.stderr


@pytest.mark.parametrize(
    ("branch", "said"),
    [
        ("1:9", "asks for 8 items, but only 2 exist"),
        ("-9:", "asks for 9 items, but only 3 exist"),
        ("5:6", "asks for 1 items, but only 0 exist"),
        ("-9:-1", "asks for 8 items, but only 2 exist"),
        ("2,0:7", "asks for 7 items, but only 2 exist"),
        ("0:3", ""),
        ("1:", ""),
        ("-2:", ""),
        ("-2:3", ""),
        (":", ""),
    ],
)
def test_a_range_beyond_the_end_is_cut_and_noted(
    lod: Lod, folder: Path, branch: str, said: str
) -> None:
    done = lod("slice", "words.lod.h5", branch, "-o", "out.lod.h5")
    assert done.code == 0
    assert said in done.stderr
    assert bool(done.stderr) == bool(said)
    assert lod("slice", "words.lod.h5", branch, "-q", "-fo", "out.lod.h5").stderr == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["7"], "no item 7"),
        (["-4"], "no item -4"),
        (["0,0,0,0"], "4 parts"),
        (["0:1,0"], "only the last part may be one"),
        (["--level", "word", "0"], "no level is named 'word'"),
        (["--level", "5", "0"], "no level 5"),
        (["x"], "write 2, 2,0"),
        (["0:4:2"], "no step"),
    ],
)
def test_a_slice_that_is_not_there_is_a_usage_error(
    lod: Lod, folder: Path, args: list[str], said: str
) -> None:
    done = lod("slice", "words.lod.h5", *args, "-o", "out.lod.h5")
    assert done.code == 2
    assert said in done.stderr
    assert not Path("out.lod.h5").exists()


def test_an_unknown_option_is_not_taken_for_a_number(lod: Lod, folder: Path) -> None:
    done = lod("slice", "words.lod.h5", "0", "--frobnicate")
    assert done.code == 2
    assert "--frobnicate" in done.stderr


def test_slices_of_slices_travel_through_pipes(shell: Lod) -> None:
    done = shell("lod slice words.lod.h5 2 | lod slice - 0 | lod convert - out.npz")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    done = shell("lod slice words.lod.h5 2,0 -o direct.npz && cmp out.npz direct.npz")
    assert (done.code, done.stdout) == (0, "")
