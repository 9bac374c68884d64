"""Open files: keys of their tensors pick what they pick of a LoDTensor in memory."""

from __future__ import annotations

import gc
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lodcli
from lodcli import LoD, LoDTensor
from lodcli.errors import LodError, SelectionError, UnsupportedError
from lodcli.formats import File, StoredTensor

WORDS = LoDTensor(
    np.arange(30).reshape(15, 2),
    LoD.from_lengths([[3, 0, 2], [3, 2, 4, 1, 5]], ["article", "sentence"]),
)
TENSORS: dict[str, LoDTensor] = {
    "words": WORDS,
    "rows": LoDTensor(np.arange(5.0)),
    "texts": LoDTensor.from_lists([["Grüß", "a"], [], ["bc"]]),
    "gaps": LoDTensor.from_lists([[1, None], None, [3]]),
    "labels": LoDTensor(np.array([1, 0, 1], np.int8), [[2, 1]]).as_categories(["no", "yes"]),
}
KEYS: dict[str, list[Any]] = {
    "words": [
        0, -1, np.int64(2), slice(1, 3), slice(None), slice(None, None, -1), slice(0, 3, 2),
        [2, 0, 2], [], np.array([True, False, True]), ..., (), (0, 1), (0, -1), (2, slice(0, 1)),
        (slice(None), slice(0, 1)), (0, 1, 1), (0, 1, 1, 0), (0, slice(None), 0), ([2, 0], 0),
        (slice(None), slice(None), -1), (..., 1), ("sentence", 3), ("sentence", slice(1, 4)),
        ("sentence", [4, 0]), ("sentence", [4, 0], slice(None, None, 2)), "sentence",
        ("sentence", 3, 0), WORDS.with_data(WORDS.data[:, 0] % 2 == 0),
    ],
    "rows": [0, -1, slice(1, 3), slice(None, None, -2), [3, 3], ..., np.arange(5) > 2],
    "texts": [0, slice(0, 2), [2, 0], (0, 0), (slice(None, None, 2), 0), (0, 0, 1)],
    "gaps": [0, 1, slice(0, 2), [2, 1], (0, 1), (0, 0), slice(None, None, -1)],
    "labels": [0, [1, 0], (0, slice(1, 2))],
}  # fmt: skip
WRONG: list[Any] = [
    3, -4, [0, 3], 1.5, None, "paragraph", (0, 7), (0, 0, 9), ([True, False],), (0, 0, 0, 0, 0),
    slice(0.5, 2), [0.5], ("sentence", 5), ("sentence", [5]), True,
]  # fmt: skip


def same(found: Any, expected: Any) -> None:
    """Compare two selections: tensors with their index, marks and nulls, or values."""
    assert type(found) is type(expected)
    if isinstance(found, LoDTensor):
        assert found.identical(expected), f"{found!r} instead of {expected!r}"
    else:
        assert found is None or (found == expected and found.dtype == expected.dtype)


LEVELS: dict[str, Any] = {"levels": ["article", "sentence"]}


@pytest.fixture(params=["t.lod.h5", "t.lods", "t.npz", "t.jsonl"])
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", KEYS)
def test_a_key_picks_what_it_picks_in_memory(name: str, ending: str, tmp_path: Path) -> None:
    path, how = tmp_path / ending, LEVELS if name == "words" else {}
    lodcli.write(path, TENSORS[name])
    whole = lodcli.read(path, **how)
    with lodcli.open(path, **how) as file:
        stored = file["data"]
        for key in KEYS[name]:
            same(stored[key], whole[key])
        assert (len(stored), stored.rows) == (len(whole), whole.rows)
        assert (stored.dtype, stored.row_shape) == (whole.dtype, whole.row_shape)
        assert stored.lod.difference(whole.lod) is None
        for found, expected in zip(stored, whole, strict=True):
            same(found, expected)
        assert stored.read().identical(whole)


@pytest.mark.parametrize("key", WRONG, ids=repr)
def test_a_wrong_key_is_an_error_with_the_name_of_the_file(
    key: Any, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / ending
    lodcli.write(path, WORDS)
    with pytest.raises(SelectionError) as expected:
        lodcli.read(path, **LEVELS)[key]
    stored = lodcli.open(path, **LEVELS)["data"]
    with pytest.raises(SelectionError) as found:
        stored[key]
    # npz files have no names of levels: an error below the names that `levels` gives has numbers.
    said = re.sub(
        "article|sentence", "(article|sentence|level [01])", re.escape(str(expected.value))
    )
    assert re.fullmatch(f"{re.escape(str(path))}: {said}", str(found.value))


PART = st.one_of(
    st.integers(-3, 3),
    st.builds(slice, *[st.none() | st.integers(-3, 3)] * 2, st.sampled_from([None, 1, 2, -1])),
    st.lists(st.integers(-2, 2), max_size=3),
)


@settings(max_examples=100)
@given(st.lists(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3), max_size=4),
       st.lists(PART, min_size=1, max_size=3), st.sampled_from([None, "a", "b"]))  # fmt: skip
def test_random_keys(
    tmp_path_factory: pytest.TempPathFactory, lists: Any, parts: Any, level: str | None
) -> None:
    path = tmp_path_factory.mktemp("random") / "t.lod.h5"
    lod = LoD.from_lengths(
        [[*map(len, lists)], [len(two) for one in lists for two in one]], ["a", "b"]
    )
    tensor = LoDTensor(np.array([n for one in lists for two in one for n in two], np.int16), lod)
    lodcli.write(path, tensor)
    key = (level, *parts)[:3] if level else tuple(parts)
    try:
        expected = tensor[key]
    except SelectionError:
        return
    with lodcli.open(path) as file:
        same(file["data"][key], expected)


def test_an_open_file_is_a_mapping_of_its_tensors(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    lodcli.write(path, TENSORS)
    with lodcli.open(path) as file:
        assert isinstance(file, File)
        assert isinstance(file["rows"], StoredTensor)
        assert list(file) == list(file.keys()) == list(TENSORS)
        assert len(file) == 5
        assert "rows" in file
        assert "row" not in file
        assert file.get("row") is None
        assert file._ipython_key_completions_() == list(TENSORS)
        for name, stored in file.items():
            assert stored.read().identical(TENSORS[name])
        assert file == file
        assert file != lodcli.open(path)
        assert len({file, file}) == 1
        with pytest.raises(SelectionError, match="no tensor named 'row'; there are: words, rows"):
            file["row"]
        assert repr(file) == f"<File {path}: words, rows, texts, gaps, labels>"
        assert repr(file["words"]) == (
            "<StoredTensor 'words': 3 article, 5 sentence, 15 rows (2,), int64>"
        )
    assert repr(file).startswith("<closed File")


@pytest.mark.parametrize("ending", ["lod.h5", "parquet"])
def test_the_words_of_categories_are_known_before_rows_are_read(
    ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"some.{ending}"
    labels = LoDTensor(np.array([1, 0], np.int8)).as_categories(["no", "yes"])
    lodcli.write(path, {"n": LoDTensor([3, 4]), "label": labels})
    with lodcli.open(path) as file:
        assert file["label"].categories == ("no", "yes")
        assert file["n"].categories is None


def test_a_file_is_closed_by_with_by_close_and_after_its_last_use(tmp_path: Path) -> None:
    path, folder = tmp_path / "t.lod.h5", Path("/proc/self/fd")
    lodcli.write(path, TENSORS)

    def open_here() -> int:
        return sum(one.is_symlink() and one.readlink() == path for one in folder.iterdir())

    with lodcli.open(path) as file:
        assert open_here() == 1
        assert not file.closed
    assert open_here() == 0
    assert file.closed
    stored = lodcli.open(path)["words"]  # the tensor keeps the file open
    gc.collect()
    assert stored[0].identical(WORDS[0])
    assert open_here() == 1
    del stored
    assert open_here() == 0
    file = lodcli.open(path)
    stored = file["words"]
    file.close()
    file.close()
    assert open_here() == 0
    assert len(stored) == 3
    for read in (stored.read, lambda: stored[0], lambda: stored[[0]], lambda: list(stored)):
        with pytest.raises(UnsupportedError, match=r"t\.lod\.h5: is closed"):
            read()
    with pytest.raises(UnsupportedError, match="is closed"), file:
        pass


def test_functions_of_tensors_name_the_remedy_for_a_stored_tensor(tmp_path: Path) -> None:
    lodcli.write(tmp_path / "t.npz", {"rows": TENSORS["rows"]})
    stored = lodcli.open(tmp_path / "t.npz")["rows"]
    with pytest.raises(LodError, match=r"found StoredTensor; its read\(\) returns one"):
        lodcli.ops.sum(stored)  # type: ignore[arg-type]
    with pytest.raises(LodError, match=r"found StoredTensor; its read\(\) returns one"):
        lodcli.write(tmp_path / "u.npz", stored)  # type: ignore[arg-type]
    assert np.asarray(stored, np.float32).tolist() == [0, 1, 2, 3, 4]
    assert 4.0 in stored
    assert 5.0 not in stored


@pytest.mark.parametrize("ending", ["t.lod.h5", "t.jsonl", "t.dataset"])
def test_wrong_arguments_of_an_open_file_are_errors(ending: str, tmp_path: Path) -> None:
    path, words = tmp_path / ending, {"words": WORDS}
    wrong: Any
    lodcli.write(path, words, format_name="lod.dataset" if "dataset" in ending else None)
    with pytest.raises(SelectionError, match=rf"{ending}: no tensor named 'r'; there are: [wd]"):
        lodcli.open(path, "r")
    with lodcli.open(path) as file:
        (name,) = file
        for wrong in ("8", None, 1.5, [8]):
            said = rf"{ending}: limit_bytes: expected a whole number of bytes, found {wrong!r}"
            for batches in (file.batches, file[name].batches):
                with pytest.raises(LodError, match=re.escape(said)):
                    next(iter(batches(wrong)))
        for wrong, said in (
            (["other"], "no tensor named 'other'"),
            (1, "expected the names of tensors, found 1"),
        ):
            for reading in (file.read, lambda names: next(file.batches_of(names))):
                with pytest.raises(LodError, match=f"{ending}: {said}"):
                    reading(wrong)
        for wrong in ([name], 1, b"words"):
            with pytest.raises(SelectionError, match=f"{ending}: no tensor named"):
                file.slice(wrong, (0,))
            with pytest.raises(SelectionError, match=f"{ending}: no tensor named"):
                next(file.index_parts(wrong))


def test_the_only_tensor_of_a_file_needs_no_name(ending: str, tmp_path: Path) -> None:
    lodcli.write(tmp_path / ending, TENSORS["labels"].as_numbers())
    with lodcli.open(tmp_path / ending) as file:
        assert file.read_index(None).n_levels == 1  # type: ignore[arg-type]
        assert file.slice(None, (0,)).rows == 2  # type: ignore[arg-type]


def test_a_missing_file_is_named_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"directory: '/.*/missing\.npz'$"):
        lodcli.open(tmp_path / "missing.npz")


def test_a_tensor_array_is_read_whole(tmp_path: Path) -> None:
    array, index_map = lodcli.TensorArray.unpack(TENSORS["labels"].as_numbers())
    lodcli.write(tmp_path / "t.lod.h5", {"steps": lodcli.StoredArray(array, index_map)})
    with lodcli.open(tmp_path / "t.lod.h5") as file:
        assert isinstance(file["steps"].read(), lodcli.StoredArray)
        with pytest.raises(SelectionError, match=r"t\.lod\.h5: steps is a TensorArray"):
            file["steps"][0]


def test_picking_some_items_takes_no_memory_for_the_others(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    lodcli.write(path, LoDTensor(np.arange(100_000), [np.ones(100_000, np.int64)]))
    with lodcli.open(path) as file:
        stored = file["data"]
        stored[[0]]  # the first reads the index
        tracemalloc.start()
        try:
            assert stored[[7, -1]].data.tolist() == [7, 99_999]
            assert stored[::-50_000].data.tolist() == [99_999, 49_999]
            assert tracemalloc.get_traced_memory()[1] < 200_000
        finally:
            tracemalloc.stop()


def test_an_item_of_a_large_file_reads_no_other_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    lodcli.write(path, LoDTensor(np.zeros((1 << 16, 64), np.float32), [[1 << 10] * 64]))
    with lodcli.open(path) as file, path.open("r+b") as raw:
        stored = file["data"]
        raw.seek(8 << 20)  # in the middle of the rows
        raw.write(b"\x01")
        raw.flush()
        assert not stored[0].data.any()
        assert not stored[[63, 1]].data.any()
        with pytest.raises(lodcli.DamagedFileError, match="checksum"):
            stored[:, 0]
