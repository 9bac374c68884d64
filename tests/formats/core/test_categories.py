"""Categories: codes of words, in memory, in files and through commands."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.errors import TooLargeError
from lodcli.formats.core.losses import losses
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import schema_of
from lodcli.formats.core.table import TABLE
from lodcli.formats.values import in_words
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import MOST_WORD_BYTES, MOST_WORDS, Categories, Marks
from lodcli.kernels.tensor.nulls import Nulls
from tests.formats.cases.opening import tensor_in
from tests.sampling import many

LABELS = LoDTensor(np.array([1, 0, 1], np.int8), [[2, 1]]).as_categories(["no", "yes"])
WORDS = ["a", "", "Grüß", "数", "[PAD]", "x y"]
CODES = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]


@st.composite
def coded(draw: Any) -> LoDTensor:
    words = draw(st.lists(st.text(max_size=4).filter(_is_utf8), unique=True, max_size=5))
    lengths = draw(st.lists(st.integers(0, 3), max_size=4))
    rows = draw(
        st.lists(
            st.none() | st.integers(0, len(words) - 1) if words else st.none(),
            min_size=sum(lengths),
            max_size=sum(lengths),
        )
    )
    dtype = draw(st.sampled_from(CODES))
    data = np.array([row or 0 for row in rows], dtype)
    nulls = Nulls.of([None, np.array([row is not None for row in rows], np.bool_)])
    marks = Marks(unit=Categories(tuple(words), draw(st.booleans())))
    return LoDTensor(data, LoD.from_lengths([lengths]), marks, nulls)


def _is_utf8(text: str) -> bool:
    try:
        return bool(text.encode()) or True
    except UnicodeEncodeError:
        return False


def _words(tensor: LoDTensor) -> list[Any]:
    """Return the words of a tensor of one level, by a plain loop."""
    found, bounds, valid = [], tensor.lod.levels[0], tensor.nulls.rows
    assert tensor.categories is not None
    for low, high in pairwise(bounds):
        one: list[str | None] = []
        for row in range(low, high):
            null = valid is not None and not valid[row]
            one.append(None if null else tensor.categories[int(tensor.values[row])])
        found.append(one)
    return found


@given(coded())
def test_lists_and_text_are_the_words(tensor: LoDTensor) -> None:
    assert tensor.to_list() == _words(tensor)
    text = tensor.as_text()
    assert text.marks.is_text
    assert text.to_list() == _words(tensor)
    assert text.nulls.count == tensor.nulls.count


@settings(max_examples=many(50, share=3))
@given(coded(), st.sampled_from(["x.lod.h5", "x.lods", "x.npz", "x.safetensors"]))
def test_files_keep_categories(tmp_path_factory: Any, tensor: LoDTensor, name: str) -> None:
    path = tmp_path_factory.mktemp("c") / name
    if name in ("x.npz", "x.safetensors"):
        tensor = tensor.drop_nulls()
    io.write(path, tensor, strict=True)
    found = tensor_in(path)
    assert found.identical(tensor)


@given(st.lists(coded(), min_size=1, max_size=3))
def test_parts_with_other_words_are_recoded(parts: list[LoDTensor]) -> None:
    parts = [part.as_numbers().as_categories(part.categories or ()) for part in parts]
    parts = [LoDTensor(p.values.astype("int8"), p.lod, p.marks, p.nulls) for p in parts]
    whole = LoDTensor.concatenate(parts)
    assert whole.to_list() == [one for part in parts for one in part.to_list()]
    assert whole.categories is not None
    assert whole.categories[: len(parts[0].categories or ())] == parts[0].categories
    assert set(whole.categories) == {word for part in parts for word in part.categories or ()}


def test_a_code_dtype_becomes_wider_for_more_words() -> None:
    one = LoDTensor(np.array([99], np.int8)).as_categories([f"a{n}" for n in range(100)])
    two = LoDTensor(np.array([99], np.int8)).as_categories([f"b{n}" for n in range(100)])
    whole = LoDTensor.concatenate([one, two])
    assert whole.dtype == np.int16
    assert whole.to_list() == ["a99", "b99"]


def test_ordered_categories_of_other_words_have_no_common_order() -> None:
    one = LoDTensor([0]).as_categories(["low", "high"], ordered=True)
    two = LoDTensor([0]).as_categories(["low", "middle", "high"], ordered=True)
    with pytest.raises(InvalidDataError, match="have no common order"):
        LoDTensor.concatenate([one, two])
    assert LoDTensor.concatenate([one, one]).marks == one.marks
    with pytest.raises(ShapeMismatchError, match="marks of part 0"):
        LoDTensor.concatenate([one, LoDTensor([1])])


def test_choosing_rows_keeps_categories_and_computing_does_not() -> None:
    for kept in (LABELS[1:], LABELS[0], LABELS[:, 0], LABELS[[1, 0]], LABELS.copy()):
        assert kept.categories == ("no", "yes")
    assert pickle.loads(pickle.dumps(LABELS)).identical(LABELS)
    assert LABELS.as_numbers().marks == Marks()
    assert (LABELS + 1).categories is None
    assert LABELS.astype("int16").categories is None
    assert repr(LABELS) == "LoDTensor(3 category[2], [['yes', 'no'], ['yes']])"
    assert "category[2]" in LABELS._repr_html_()
    other = LABELS.as_numbers().as_categories(["no", "oui"])
    assert not other.identical(LABELS)
    assert LABELS.as_numbers().as_categories(["no", "yes"], ordered=True).marks != LABELS.marks


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("no", "expected a list of words, found one text"),
        (["a", 1], "word 1: expected text, found int"),
        (["a", "b", "a"], "word 2 is the same as word 0: 'a'"),
        (["\ud800"], "word 0: half of a surrogate pair"),
        (["a"], r"item <0,0>: expected the code of one of 1 words, found 1"),
        ([str(n) for n in range(MOST_WORDS + 1)], "1048577 words, at most 1048576"),
        (["x" * (MOST_WORD_BYTES + 1)], "8388609 bytes of words, at most 8388608"),
    ],
)
def test_impossible_categories(words: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        LoDTensor([1, 0], [[2]]).as_categories(words)


@pytest.mark.parametrize(
    ("tensor", "categories", "message"),
    [
        (LABELS.as_numbers(), Categories(("no", "yes")), "expected categories, found none"),
        (LABELS, ["no", "yes"], "recoded: categories: expected a Categories, found list"),
        (LABELS, None, "recoded: categories: expected a Categories, found None"),
        (LABELS, Categories(("no",)), "all words of this tensor, found none called 'yes'"),
    ],
)
def test_impossible_recoding(tensor: LoDTensor, categories: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        tensor.recoded(categories)


@pytest.mark.parametrize("dtype", CODES)
def test_codes_of_every_dtype_are_checked(dtype: Any) -> None:
    words = [str(number) for number in range(200)]
    most = min(np.iinfo(dtype).max, 199)
    assert LoDTensor(np.array([most], dtype)).as_categories(words).to_list() == [str(most)]
    with pytest.raises(InvalidDataError, match="row 1: expected the code of one of 3 words, found"):
        LoDTensor(np.array([2, np.iinfo(dtype).max], dtype)).as_categories(words[:3])
    with pytest.raises(InvalidDataError, match="are codes, whole numbers; found float32"):
        LoDTensor(np.zeros(1, "f4")).as_categories(words)


def test_codes_changed_in_memory_are_found_when_written(tmp_path: Path) -> None:
    tensor = LABELS.copy()
    tensor.data[0] = 5
    assert tensor.to_list() == [[5, "no"], ["yes"]]
    with pytest.raises(InvalidDataError, match=r"data: item <0,0>: .* found 5"):
        io.write(tmp_path / "x.lod.h5", tensor)
    assert not (tmp_path / "x.lod.h5").exists()


def test_words_may_be_a_list(tmp_path: Path) -> None:
    tensor = LoDTensor([1, 0], marks=Marks(unit=Categories(["no", "yes"])))  # type: ignore[arg-type]
    io.write(tmp_path / "x.parquet", tensor)
    assert io.read(tmp_path / "x.parquet").to_list() == ["yes", "no"]


def test_a_tensor_called_categories_or_words_is_in_no_way(tmp_path: Path) -> None:
    given = {name: LABELS for name in ("data", "categories", "words", "header")}
    io.write(tmp_path / "x.lod.h5", given)
    found = io.read_all(tmp_path / "x.lod.h5")
    assert all(isinstance(one, LoDTensor) and one.identical(LABELS) for one in found.values())


@pytest.mark.slow  # for its memory
def test_many_words_fit_and_more_are_refused_before_a_file_is_there(tmp_path: Path) -> None:
    many = LoDTensor([70_000]).as_categories([f"{n:0100}" for n in range(80_000)])
    for name in ("x.lod.h5", "x.lods", "x.npz"):
        io.write(tmp_path / name, many)
        found = tensor_in(tmp_path / name)
        assert found.identical(many)
    more = {name: many for name in "abc"}
    for name in ("y.lods", "y.npz", "y.safetensors"):
        with pytest.raises(UnsupportedError, match=r"bytes.*, at most 16777216; write lod.h5"):
            io.write(tmp_path / name, more)
        assert not (tmp_path / name).exists()


KEEPS_TEXT = [
    name
    for name in TABLE
    if "text" in table.get(name).kept_marks and "category" not in table.get(name).kept_marks
]


@pytest.mark.parametrize("name", KEEPS_TEXT)
def test_formats_of_text_get_the_words_and_say_so(name: str) -> None:
    kind, schema = table.get(name), schema_of({"x": LABELS})
    (loss,) = [one for one in losses(kind, schema, WriteOptions()) if one.what == "marks"]
    assert loss.lost == ("category[2] of x",)


def test_json_and_csv_have_the_words(tmp_path: Path) -> None:
    both = {"label": LoDTensor([1, 0, 1]).as_categories(["no", "jä, x"]), "n": LoDTensor([1, 2, 3])}
    io.write(tmp_path / "x.csv", both)
    assert (tmp_path / "x.csv").read_text() == 'label,n\n"jä, x",1\nno,2\n"jä, x",3\n'
    nulls = LoDTensor.from_lists([[1, None], [], [0]]).as_categories(WORDS)
    io.write(tmp_path / "x.jsonl", {"label": nulls, "pairs": LoDTensor([[0, 1]] * 3)})
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [line["label"] for line in lines] == [["", None], [], ["a"]]


def test_rows_of_several_codes_are_lists_of_words(tmp_path: Path) -> None:
    pairs = LoDTensor(np.array([[[0, 2], [3, 1]], [[5, 5], [4, 4]]])).as_categories(WORDS)
    io.write(tmp_path / "x.jsonl", pairs)
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert lines == pairs.to_list() == pairs.as_text().to_list()
    nulls = LoDTensor.from_lists([[0, 2], None, [1, 1]], levels=0).as_categories(WORDS)
    assert nulls.as_text().to_list() == [["a", "Grüß"], None, ["", ""]]


def test_a_batch_of_words_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_words, "BATCH_BYTES", 200)
    codes = np.random.default_rng(3).integers(0, 3, 500)
    lod = LoD.from_lengths([[2] * 100, [3, 2] * 100])
    batch = {
        "words": LoDTensor(codes, lod).as_categories(["", "é", "word " * 4]),
        "rows": LoDTensor(np.arange(500), lod),
    }
    found = list(in_words.batches_in_words([batch]))
    assert len(found) > 10
    for name, whole in {"words": batch["words"].as_text(), "rows": batch["rows"]}.items():
        parts = [piece[name] for piece in found]
        assert all(isinstance(one, LoDTensor) for one in parts)
        assert LoDTensor.concatenate(parts).identical(whole)  # type: ignore[arg-type]
    assert max(piece["words"].rows for piece in found) < 400  # type: ignore[union-attr]


@pytest.mark.parametrize("row_shape", [(), (2,), (0,)])
@pytest.mark.parametrize("lengths", [None, [[]], [[0, 0]]])
def test_a_batch_without_codes_stays_without_words(
    row_shape: tuple[int, ...], lengths: Any
) -> None:
    rows = np.zeros((0, *row_shape), np.int64)
    lod = LoD() if lengths is None else LoD.from_lengths(lengths)
    whole = LoDTensor(rows, lod).as_categories(["a", "b"])
    (found,) = in_words.batches_in_words([{"words": whole}])
    words = found["words"]
    assert isinstance(words, LoDTensor)
    assert words.identical(whole.as_text())


def test_an_item_of_too_many_words_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_words, "MOST_BYTES", 50)
    tensor = LoDTensor([0] * 8, [[4, 4]]).as_categories(["a word of 20 letters"])
    message = r"words: the words of an item take \d+ bytes as text, at most 50 are written at once"
    with pytest.raises(TooLargeError, match=message):
        io.write(tmp_path / "t.jsonl", {"words": tensor})
    assert not list(tmp_path.iterdir())
