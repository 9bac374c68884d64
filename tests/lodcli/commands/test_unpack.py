"""`lod unpack`: sequences into time steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from lodcli.formats.core import io
from lodcli.formats.core.schema import StoredArray
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.lodcli.conftest import Lod


def stored(path: str, name: str | None = None) -> StoredArray:
    item = io.read(path, name)
    assert isinstance(item, StoredArray)
    return item


def test_the_finest_level_is_cut_longest_sentence_first(lod: Lod, folder: Path) -> None:
    done = lod("unpack", "words.lod.h5", "-o", "steps.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    found = stored("steps.lod.h5")
    # Sentences have 3, 2, 4, 1, 2, 3 words.
    assert found.index_map.order.tolist() == [2, 0, 5, 1, 4, 3]
    assert [len(step.data) for step in found.array] == [6, 5, 3, 1]


def test_without_sorting_the_order_stays(lod: Lod, folder: Path) -> None:
    assert lod("unpack", "words.lod.h5", "--no-sort", "-o", "steps.lod.h5").code == 0
    assert stored("steps.lod.h5").index_map.order.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("level", ["0", "article", "-2"])
def test_an_upper_level_gives_steps_of_sentences(lod: Lod, folder: Path, level: str) -> None:
    assert lod("unpack", "words.lod.h5", "--level", level, "-o", "steps.lod.h5").code == 0
    steps = list(stored("steps.lod.h5").array)
    # Articles have 3, 1, 2 sentences: all three have a first one, of 3, 2 and 1 words.
    assert steps[0].recursive_sequence_lengths() == [[3, 2, 1]]
    assert [step.lod.count(0) for step in steps] == [3, 2, 1]


def test_one_tensor_of_several_keeps_its_name(lod: Lod, folder: Path) -> None:
    assert lod("unpack", "many.lod.h5::tags", "-o", "steps.lod.h5").code == 0
    assert list(io.read_all("steps.lod.h5")) == ["tags"]


def test_a_tensor_array_cannot_be_unpacked_or_sliced(lod: Lod, folder: Path) -> None:
    assert lod("unpack", "words.lod.h5", "-o", "steps.lod.h5").code == 0
    for command in (["unpack", "steps.lod.h5"], ["slice", "steps.lod.h5", "0"]):
        done = lod(*command, "-o", "out.lod.h5")
        assert done.code == 2
        assert "lod pack" in done.stderr


def test_a_format_without_tensor_arrays_says_so(lod: Lod, folder: Path) -> None:
    done = lod("unpack", "words.lod.h5", "-o", "steps.jsonl")
    assert done.code == 4
    assert "TensorArray" in done.stderr


def test_marks_that_a_file_of_time_steps_does_not_keep_are_reported(lod: Lod, folder: Path) -> None:
    codes = LoDTensor([1, 0, 1], [[2, 1]]).as_categories(["no", "yes"])
    io.write("codes.lod.h5", codes.with_attributes({"unit": "m"}))
    done = lod("unpack", "codes.lod.h5", "-o", "steps.lod.h5")
    expected = (
        "lod.h5 does not keep these marks of time steps: category[2] of data, attributes of data"
    )
    assert (done.code, done.stderr) == (0, f"lod unpack: note: {expected}\n")
    strict = lod("unpack", "codes.lod.h5", "--strict", "-o", "strict.lod.h5")
    assert strict.code == 4
    assert strict.stderr == f"lod unpack: strict.lod.h5: {expected}; do without --strict\n"
    assert not Path("strict.lod.h5").exists()
    with pytest.raises(
        UnsupportedError, match="marks of time steps: category\\[2\\] of data, attrib"
    ):
        io.write("x.lods", StoredArray(*TensorArray.unpack(io.read("codes.lod.h5"))), strict=True)
