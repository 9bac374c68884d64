"""Tensors of text and bytes: operations that keep the mark, and operations that drop it."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining.windows import sequence_deinterleave, sequence_interleave
from lodcli.kernels.ops.ranking.rank_table import sequence_sort_by_length
from lodcli.kernels.ops.ranking.split_by_mask import sequence_merge_by_mask, sequence_split_by_mask
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import BYTES, NO_MARKS, TEXT, check_text
from lodcli.kernels.tensor.tensor_array import TensorArray

NESTED = [["Grüß", "a"], [], ["", "😀z"]]


@pytest.fixture
def words() -> LoDTensor:
    return LoDTensor.from_lists(NESTED)


def packed(words: LoDTensor, values: list[LoDTensor] | None = None) -> LoDTensor:
    """Return time steps of articles, or other values of them, as articles again."""
    array, index_map = TensorArray.unpack(words, 0)
    return (array if values is None else TensorArray(values=values)).pack(0, index_map)


MASK = [False, True, False]
KEPT: dict[str, tuple[Callable[[LoDTensor], LoDTensor], object]] = {
    "an item": (lambda t: t[0], NESTED[0]),
    "a range": (lambda t: t[1:], NESTED[1:]),
    "a step": (lambda t: t[::-1], NESTED[::-1]),
    "an array": (lambda t: t[[2, 0]], [NESTED[2], NESTED[0]]),
    "in every item": (lambda t: t[:, 0:1], [["Grüß"], [], [""]]),
    "select": (lambda t: t.select(slice(1, 3), level=1), ["a", ""]),
    "take_items": (lambda t: take_items(t, [2]), [NESTED[2]]),
    "copy": (LoDTensor.copy, NESTED),
    "deepcopy": (copy.deepcopy, NESTED),
    "pickle": (lambda t: pickle.loads(pickle.dumps(t)), NESTED),
    "concatenate": (lambda t: LoDTensor.concatenate([t, t]), NESTED + NESTED),
    "to_device": (lambda t: t.to_device("cpu"), NESTED),
    "a time step": (lambda t: TensorArray.unpack(t, 0)[0].read(0), ["Grüß", ""]),
    "pack": (packed, NESTED),
    "pack of written steps": (lambda t: packed(t, [*TensorArray.unpack(t, 0)[0]]), NESTED),
    "sort_by_length": (sequence_sort_by_length, [NESTED[0], NESTED[2], NESTED[1]]),
    "merge_by_mask": (
        lambda t: sequence_merge_by_mask(*sequence_split_by_mask(t, MASK), MASK),
        NESTED,
    ),
    "interleave": (lambda t: sequence_interleave([t, t]), [one for one in NESTED for _ in "ab"]),
    "deinterleave": (lambda t: sequence_deinterleave(t, 3)[2], NESTED[2:]),
    "arrow": (lambda t: LoDTensor.from_arrow(t.to_arrow()), NESTED),
    "arrow table": (lambda t: LoDTensor.from_arrow(pa.table(t)), NESTED),
}


@pytest.mark.parametrize("name", KEPT)
def test_whole_sequences_keep_the_mark(name: str, words: LoDTensor) -> None:
    make, expected = KEPT[name]
    found = make(words)
    assert found.marks == TEXT
    assert found.to_list() == expected


NUMBERS: dict[str, Callable[[LoDTensor], LoDTensor]] = {
    "one text": lambda t: t[0, 0],
    "bytes of texts": lambda t: t[:, :, :1],
    "a mask of bytes": lambda t: t[t < 128],
    "arithmetic": lambda t: t + np.uint8(0),
    "astype": lambda t: t.astype("uint8"),
    "with_data": lambda t: t.with_data(t.data),
    "as_numbers": LoDTensor.as_numbers,
    "a step of bytes": lambda t: TensorArray.unpack(t)[0].read(0),
    "steps of bytes": lambda t: TensorArray.unpack(t)[0].steps,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_computing_with_text_and_choosing_bytes_return_numbers(name: str, words: LoDTensor) -> None:
    assert NUMBERS[name](words).marks == NO_MARKS


def test_another_index_gives_numbers(words: LoDTensor) -> None:
    words.set_recursive_sequence_lengths([[words.rows]])
    assert words.marks == NO_MARKS


def test_bytes_come_back_as_bytes() -> None:
    found = LoDTensor.from_lists([b"\xff", b""])
    assert found.marks == BYTES
    assert found.to_list() == [b"\xff", b""]
    assert found.to_arrow().type == pa.large_binary()
    assert LoDTensor.from_arrow(found.to_arrow()).identical(found)
    with pytest.raises(InvalidDataError, match="item <0>: is not UTF-8"):
        found.as_text()


def test_awkward_takes_and_gives_strings(words: LoDTensor) -> None:
    ak = pytest.importorskip("awkward")
    assert words.to_awkward().to_list() == NESTED
    assert LoDTensor.from_awkward(ak.Array(NESTED)).identical(words)
    raw = ak.Array([b"a\xff", b""])
    assert LoDTensor.from_awkward(raw).to_list() == [b"a\xff", b""]


@pytest.mark.parametrize(
    ("data", "lengths"),
    [(np.zeros(2, np.int8), [[2]]), (np.zeros((2, 2), np.uint8), [[2]]), (np.zeros(2, "u1"), None)],
)
def test_other_tensors_cannot_be_text(data: np.ndarray, lengths: list[list[int]] | None) -> None:
    with pytest.raises(InvalidDataError, match="text is uint8 rows of one value"):
        LoDTensor(data, lengths, TEXT)


def test_text_and_numbers_are_not_joined(words: LoDTensor) -> None:
    with pytest.raises(ShapeMismatchError, match="marks of part 0 is text, of part 1 none"):
        LoDTensor.concatenate([words, words.as_numbers()])


def test_joined_categories_are_codes_of_all_words_as_in_pandas() -> None:
    pd = pytest.importorskip("pandas")
    from pandas.api.types import union_categoricals

    parts: list[tuple[list[str], list[int]]]
    parts = [(["b", "a"], [1, 0]), (["c", "a"], [0, 1, 1]), (["d"], [])]
    found = LoDTensor.concatenate(
        [
            LoDTensor(np.array(codes, np.int64), [[len(codes)]]).as_categories(words)
            for words, codes in parts
        ]
    )
    expected = union_categoricals(
        [pd.Categorical.from_codes(codes, words) for words, codes in parts]
    )
    assert found.categories == tuple(expected.categories)
    assert found.data.tolist() == expected.codes.tolist()


def test_text_and_numbers_are_not_identical(words: LoDTensor) -> None:
    assert not words.identical(words.as_numbers())
    assert words.identical(words.as_numbers().as_text())


@pytest.mark.parametrize("values", [["a", b"b"], ["a", 1], [["a"], [b"b"]], ["\ud800"]])
def test_lists_of_several_kinds_are_refused(values: list[object]) -> None:
    with pytest.raises(InvalidDataError, match="values: "):
        LoDTensor.from_lists(values)


def test_repr_shows_text_and_shortens_it(words: LoDTensor) -> None:
    assert repr(words) == "LoDTensor(12 text, [['Grüß', 'a'], [], ['', '😀z']])"
    assert "'..]" in repr(LoDTensor.from_lists(["ü" * 100]))
    assert words._repr_html_().count("Grüß") == 1


@pytest.mark.parametrize("seed", range(20))
def test_check_text_finds_what_decoding_each_sequence_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    letters = "aé€😀"
    texts = ["".join(rng.choice(list(letters), rng.integers(0, 4))).encode() for _ in range(30)]
    data = np.frombuffer(b"".join(texts), np.uint8).copy()
    if seed % 2 and data.size:
        data[rng.integers(data.size)] = rng.integers(256)
    ends = np.cumsum([0, *map(len, texts)])
    if seed % 3 == 2:
        ends[5] = min(ends[5] + 1, ends[6])
    lod = LoD([ends])
    wrong = None
    for item in range(30):
        try:
            data[ends[item] : ends[item + 1]].tobytes().decode()
        except UnicodeDecodeError:
            wrong = item
            break
    if wrong is None:
        check_text(data, lod)
        return
    with pytest.raises(InvalidDataError, match="is not UTF-8") as caught:
        check_text(data, lod)
    # A sequence that is cut short may show only where the next one begins.
    assert any(f"item <{item}>" in str(caught.value) for item in (wrong, wrong + 1))


def test_text_larger_than_a_block_is_checked_across_its_borders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lodcli.kernels.tensor.marks._BLOCK_BYTES", 5)
    text = json.dumps(NESTED, ensure_ascii=False).encode() * 10
    data = np.frombuffer(text, np.uint8).copy()
    check_text(data, LoD([[0, data.size]]))
    data[-9] = 0xFF
    with pytest.raises(InvalidDataError, match=f"byte 0xff at position {data.size - 9}"):
        check_text(data, LoD([[0, data.size]]))
