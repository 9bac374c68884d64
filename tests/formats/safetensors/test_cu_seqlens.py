"""Packed batches for attention kernels: rows with int32 offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from lodcli.formats.core import io
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.options import WriteOptions
from lodcli.kernels.errors import InvalidLoDError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content

SUFFIXES = pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
INDEX = LoD.from_lengths([[3, 0, 2]])
IDS = LoDTensor(np.array([7, 8, 9, 4, 5]), INDEX)
LABELS = LoDTensor(np.arange(5, dtype=np.float32), INDEX)


def arrays_of(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    if path.suffix == ".npz":
        with np.load(path) as found:
            return dict(found)
    return safetensors.numpy.load_file(path)


def save(path: Path, **arrays: Any) -> Path:
    kept: Any = {name: np.asarray(array) for name, array in arrays.items()}
    if path.suffix == ".npz":
        np.savez(path, **kept)
    else:
        safetensors.numpy.save_file(kept, path)
    return path


def options(*names: str, dtype: str | None = None) -> WriteOptions:
    return WriteOptions(cu_seqlens=names, index_dtype=dtype)


@SUFFIXES
def test_offsets_stand_once_beside_all_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    io.write(path, {"input_ids": IDS, "labels": LABELS}, options=options("cu_seqlens"))
    found = arrays_of(path)
    assert set(found) == {"input_ids", "labels", "cu_seqlens"}
    assert found["cu_seqlens"].tolist() == [0, 3, 3, 5]
    assert found["cu_seqlens"].dtype == np.int32
    assert found["input_ids"].dtype == np.int64
    again = content(path, offsets=("cu_seqlens",))
    assert list(again) == ["input_ids", "labels"]
    assert again["input_ids"].identical(IDS)
    assert again["labels"].identical(LABELS)
    assert again["labels"].lod is again["input_ids"].lod


@SUFFIXES
def test_offsets_of_several_levels_and_int64(tmp_path: Path, suffix: str) -> None:
    words = LoDTensor(np.arange(15.0), LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]]))
    path = tmp_path / f"x{suffix}"
    io.write(path, {"words": words}, options=options("articles", "sentences", dtype="int64"))
    found = arrays_of(path)
    assert found["articles"].tolist() == [0, 3, 4, 6]
    assert found["sentences"].dtype == np.int64
    assert content(path, offsets=("articles", "sentences"))["words"].identical(words)


@SUFFIXES
def test_the_index_of_the_plain_layout_can_be_int32(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    io.write(path, IDS, index_dtype="int32")
    assert arrays_of(path)["lod.0"].dtype == np.int32
    assert content(path)["data"].identical(IDS)


@SUFFIXES
def test_arrays_of_others_are_chosen_by_name(tmp_path: Path, suffix: str) -> None:
    path = save(
        tmp_path / f"x{suffix}",
        ids=[1, 2, 3],
        **{"max.seqlen": [2], "a/b/c": [1.0]},
        cu=np.array([0, 1, 3], np.int32),
        seqlens=np.array([1, 2], np.uint16),
    )
    assert content(path, data="ids", offsets=("cu",))["ids"].recursive_sequence_lengths() == [
        [1, 2]
    ]
    assert content(path, data="ids", lengths=("seqlens",))["ids"].lod == LoD([[0, 1, 3]])
    assert content(path, data="ids,seqlens")["seqlens"].dtype == np.uint16


@SUFFIXES
@pytest.mark.parametrize(
    ("chosen", "error", "message"),
    [
        ({"data": "no"}, SelectionError, "no array named 'no'; there are: .*ids"),
        ({"offsets": ("no",)}, SelectionError, "no array named 'no'"),
        ({"data": "F::ids"}, SelectionError, "no array named 'F::ids'; give its name alone: ids"),
        ({"data": "ids", "offsets": ("cu",), "lengths": ("cu",)}, SelectionError, "not both"),
        ({"data": "ids", "offsets": ("ids",)}, InvalidLoDError, "ids.*position 0: first offset"),
        (
            {"data": "ids", "offsets": ("one_two",)},
            InvalidLoDError,
            r"first offset: expected 0, found 1; these seem to be lengths: use lengths$",
        ),
        (
            {"data": "ids", "offsets": ("two", "one_two")},
            InvalidLoDError,
            r"two.*: level 0, position 0: first offset: .* seem to be lengths: use lengths$",
        ),
        ({"data": "ids", "offsets": ("two",)}, InvalidLoDError, "expected 0, found 2$"),
        (
            {"data": "ids", "offsets": ("falls",)},
            InvalidLoDError,
            "falls.*decrease.* lengths$",
        ),
        ({"data": "ids", "offsets": ("short",)}, InvalidLoDError, "must be the number of rows"),
        ({"data": "ids", "offsets": ("real",)}, LodError, "real.*offsets must be integers"),
        ({"data": "ids", "offsets": ("deep",)}, LodError, "deep.*in one dimension"),
        ({"data": "ids", "lengths": ("minus",)}, InvalidLoDError, "minus.*level 0, position 0"),
        ({"data": "ids", "lengths": ("large",)}, InvalidLoDError, "large.*level 0"),
        (
            {"data": "ids", "lengths": ("rises",)},
            InvalidLoDError,
            "rises.*: level 0: .*: expected 3, found 5; these seem to be offsets: use offsets$",
        ),
        (
            {"data": "ids", "lengths": ("cu",)},
            InvalidLoDError,
            "cu.*: level 0: .*: expected 3, found 4; these seem to be offsets: use offsets$",
        ),
    ],
)
def test_wrong_choices_are_named(
    tmp_path: Path, suffix: str, chosen: dict[str, Any], error: type[LodError], message: str
) -> None:
    path = save(
        tmp_path / f"x{suffix}",
        ids=[1, 2, 3],
        cu=[0, 1, 3],
        falls=[0, 2, 1],
        one_two=[1, 2],
        two=[2],
        short=[0, 1],
        rises=[0, 1, 1, 3],
        real=[0.0, 3.0],
        deep=[[0, 3]],
        minus=[-1, 4],
        large=np.array([2**62, 2**62], np.uint64),
    )
    with pytest.raises(error, match=message):
        content(path, **chosen)


@SUFFIXES
def test_an_offset_beyond_int32_is_refused(tmp_path: Path, suffix: str) -> None:
    # Rows of no bytes: as many as one likes.
    many = LoDTensor(np.zeros((2**31, 0), np.uint8), LoD([[0, 2**31]]))
    with pytest.raises(
        UnsupportedError, match="2147483648 does not fit int32; use index_dtype='int64'"
    ):
        io.write(tmp_path / f"x{suffix}", {"x": many}, options=options("cu"))
    assert not list(tmp_path.iterdir())
    io.write(tmp_path / f"x{suffix}", {"x": many}, options=options("cu", dtype="int64"))
    limits = Limits(max_bytes=1 << 32)
    found = io.read_all(tmp_path / f"x{suffix}", offsets=("cu",), limits=limits)
    assert found["x"].rows == 2**31


@SUFFIXES
@pytest.mark.parametrize(
    ("names", "tensors", "message"),
    [
        (("cu", "cu"), {"x": IDS}, "expected 1 different names, one per level, found cu, cu"),
        (("x",), {"x": IDS}, "x is the name of a tensor already"),
        (("a/b",), {"x": IDS}, "cannot name a tensor"),
        (("cu",), {"x": IDS, "y": LoDTensor(np.arange(5), [[5]])}, "do not share their levels"),
    ],
)
def test_names_that_do_not_fit_are_refused(
    tmp_path: Path, suffix: str, names: tuple[str, ...], tensors: Any, message: str
) -> None:
    with pytest.raises(LodError, match=message):
        io.write(tmp_path / f"x{suffix}", tensors, options=options(*names))
    assert not list(tmp_path.iterdir())
