"""Arrays of texts, as NumPy saves them."""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.arrays import fixed_texts
from lodcli.formats.core import io
from lodcli.formats.core.errors import TooLargeError
from lodcli.formats.core.limits import Limits
from lodcli.kernels.errors import InvalidDataError, UnsupportedError

WORDS = ["", "a", "déf", "日本", "😀", "a\0b", "ab\0", "zwölf Wörter", " "]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("kind", ["<U", ">U", "S"])
def test_texts_are_those_of_numpy(
    save: Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixed_texts, "_DECODED", 7)
    words = random.Random(1).choices(WORDS, k=50)
    array = np.array([word.encode() if kind == "S" else word for word in words], kind)
    save(tmp_path / "x.npz", words=array, few=array[:3], none=array[:0], x=np.arange(50))
    np.save(tmp_path / "x.npy", array)
    # NumPy takes zeros at the end of a text as padding.
    expected = [word.decode() if kind == "S" else word for word in array.tolist()]
    found = io.read_all(tmp_path / "x.npz")
    assert found["words"].to_list() == expected
    assert found["few"].to_list() == expected[:3]
    assert found["none"].to_list() == []
    assert found["x"].rows == 50
    assert io.read(tmp_path / "x.npy").to_list() == expected
    for name in ("x.npz", "x.npy"):
        with io.open_file(tmp_path / name, name="words" if name == "x.npz" else None) as file:
            tensor = file.source.schema[0].name
            assert file.source.slice(tensor, (slice(7, 20),)).to_list() == expected[7:20]
            parts = [batch[tensor].to_list() for batch in file.source.batches_of([tensor], 40)]
            assert list(chain.from_iterable(parts)) == expected
            assert len(parts) > 1


def test_texts_are_the_finest_level_of_their_sequences(tmp_path: Path) -> None:
    words = np.array(["the", "cat", "sat", "ok"])
    np.savez(tmp_path / "x.npz", words=words, ends=np.array([0, 3, 3, 4]))
    found = io.read(tmp_path / "x.npz", data="words", offsets="ends")
    assert found.to_list() == [["the", "cat", "sat"], [], ["ok"]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([b"ok", b"\xff"]), r"items 0 to 1: a text is not Unicode \('utf-8' codec .*'u1'"),
        (np.array(["ok", "\ud800"]), "items 0 to 1: a text is not Unicode"),
        (np.array([0x41, 0x110000], "<u4").view("<U1"), r"items 0 to 1: .* beyond U\+10FFFF"),
    ],
)
def test_invalid_text_is_named(array: Any, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=array)
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InvalidDataError, match=f"x.npz: x.npy: {message}"):
        io.read_all(tmp_path / "x.npz")
    with pytest.raises(InvalidDataError, match=message):
        io.read_all(tmp_path / "x.npy")


@pytest.mark.filterwarnings("ignore:Custom dtypes are saved as python objects")
@pytest.mark.parametrize("dtype", [np.dtypes.StringDType(), object])
def test_texts_that_numpy_pickles_have_a_remedy(dtype: Any, tmp_path: Path) -> None:
    words = np.array(["a", "déf", ""], dtype)
    np.save(tmp_path / "x.npy", words)
    remedy = r"of texts, none of them missing, numpy.array\(array.tolist\(\)\);"
    with pytest.raises(UnsupportedError, match=remedy):
        io.read(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array(words.tolist()))
    assert io.read(tmp_path / "x.npy").to_list() == words.tolist()


def test_the_remedy_for_pickled_texts_makes_no_word_of_none(tmp_path: Path) -> None:
    words = np.array(["a", None], object)
    np.save(tmp_path / "x.npy", np.array(words.tolist()))
    with pytest.raises(UnsupportedError, match="holds Python objects"):
        io.read(tmp_path / "x.npy")


@pytest.mark.parametrize("save", [np.save, np.savez_compressed])
def test_texts_beyond_the_limit_are_refused(save: Any, tmp_path: Path) -> None:
    path = tmp_path / ("x.npy" if save is np.save else "x.npz")
    save(path, np.full(1000, "a" * 100))
    with pytest.raises(TooLargeError, match="allow more with limits="):
        io.read_all(path, limits=Limits(max_bytes=100_000))
