"""Files as data sets of torch: items, samplers, collate, and worker processes."""

from __future__ import annotations

import os
import pickle
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import lodcli
from lodcli import LoD, LoDTensor
from lodcli.errors import (
    DamagedFileError,
    InvalidDataError,
    LodError,
    OptionError,
    SelectionError,
    UnsupportedError,
)
from lodcli.kernels.tensor.marks import Categories, Marks

torch: Any = pytest.importorskip("torch")
ours: Any = lodcli.torch

LENGTHS = [3, 0, 2, 1, 4]


class Labelled(NamedTuple):
    """An item of a dataset of the user."""

    rows: Any
    label: Any


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Tokens and marks of the same sequences, and one label for each."""
    path = tmp_path / "words.lod.h5"
    lod = LoD.from_lengths([LENGTHS])
    tokens = LoDTensor(np.arange(20, dtype=np.float32).reshape(10, 2), lod)
    marks = LoDTensor(np.arange(10) % 3, lod)
    lodcli.write(path, {"tokens": tokens, "marks": marks, "label": LoDTensor(np.arange(5) * 10)})
    return path


@pytest.fixture
def articles(tmp_path: Path) -> Path:
    path = tmp_path / "articles.lod.h5"
    lodcli.write(path, LoDTensor(np.arange(15.0), [[3, 1, 2], [3, 2, 4, 1, 2, 3]]))
    return path


def lists(batch: Any) -> Any:
    """Return the sequences of a batch in any layout as lists."""
    if isinstance(batch, LoDTensor):
        return batch.to_list()
    if isinstance(batch, ours.Varlen):
        return [
            part.tolist() for part in torch.split(batch.values, batch.cu_seqlens.diff().tolist())
        ]
    if isinstance(batch, torch.nn.utils.rnn.PackedSequence):
        batch = torch.nn.utils.rnn.pad_packed_sequence(batch, batch_first=True)
    if isinstance(batch, tuple):
        return [row[:count].tolist() for row, count in zip(*batch, strict=True)]
    return [part.tolist() for part in batch.unbind()]


@pytest.mark.parametrize("options", [{}, {"in_memory": True}, {"mmap": True}], ids=str)
def test_an_item_is_a_dict_of_what_shares_the_level(words: Path, options: dict[str, Any]) -> None:
    dataset = ours.Dataset(words, **options)
    assert len(dataset) == 5
    assert dataset.lengths.tolist() == LENGTHS
    item = dataset[2]
    assert item["tokens"].tolist() == [[6, 7], [8, 9]]
    assert item["marks"].tolist() == [0, 1]
    assert item["label"].item() == 20
    assert dataset[-1]["label"].item() == 40
    assert dataset[1]["tokens"].shape == (0, 2)
    alone = ours.Dataset(words, "marks", **options)
    assert [each.tolist() for each in alone] == [[0, 1, 2], [], [0, 1], [2], [0, 1, 2, 0]]


def test_any_level_is_the_item(articles: Path) -> None:
    whole = lodcli.read(articles)
    outer, inner = ours.Dataset(articles), ours.Dataset(articles, level=1)
    assert [each.to_list() for each in outer] == whole.to_list()
    assert outer.lengths.tolist() == [9, 1, 5]
    assert [each.tolist() for each in inner] == [*chain(*whole.to_list())]
    batch = ours.collate("lod")(outer.__getitems__([2, 0]))
    assert batch.to_list() == [whole.to_list()[2], whole.to_list()[0]]
    names = ["article", "sentence"]
    assert len(ours.Dataset(articles, level="sentence", levels=names)) == 6
    square = articles.parent / "square.lod.h5"
    lodcli.write(square, LoDTensor(np.arange(4), [[1, 1], [2, 2]]))
    with pytest.raises(UnsupportedError, match="with levels= cannot be read in any order"):
        ours.Dataset(square, levels=["pair"])
    assert len(ours.Dataset(square, levels=["pair"], in_memory=True)) == 2


def test_chosen_tensors_are_read_in_any_order_under_other_names(words: Path) -> None:
    dataset = ours.Dataset(words, columns=["label", "tokens"], rename={"tokens": "x"})
    assert [spec.name for spec in dataset.schema] == ["label", "x"]
    whole = lodcli.read_all(words)
    for place in (4, 1, 0):
        assert dataset[place]["label"] == whole["label"][place]
        assert dataset[place]["x"].tolist() == whole["tokens"][place].data.tolist()
    with lodcli.open(words, columns=["tokens", "marks"], levels=["sentence"]) as file:
        found = file["tokens"][[3, 0, 3]]
        assert found.lod.names == ("sentence",)
        assert found.to_list() == whole["tokens"][[3, 0, 3]].to_list()
    lods = ours.Dataset(words, columns=["tokens", "marks"], levels=["s"])._open().items.lods
    assert lods["tokens"] is lods["marks"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dtype": "float32"}, "dtype="),
        ({"columns": ["n", "t"], "rename": {"n": "m"}, "dtype": "float32"}, "dtype="),
        ({"text_levels": "bytes"}, "text_levels="),
        ({"text_levels": "text"}, "text_levels="),
        ({"nulls": "zero", "levels": ["s"]}, "nulls="),
        ({"text_levels": "bytes", "dtype": "float32"}, "text_levels= and dtype="),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["lod.h5", "safetensors"])
def test_options_that_change_rows_are_named(
    tmp_path: Path, options: dict[str, Any], named: str, kind: str
) -> None:
    content = {
        "n": LoDTensor.from_lists([[1], None]),
        "t": LoDTensor.from_lists(["a", "b"]),
        "c": LoDTensor(np.array([0, 1]), marks=Marks(unit=Categories(("x", "y")))),
    }
    path = tmp_path / f"x.{kind}"
    lodcli.write(path, content)
    with pytest.raises(UnsupportedError) as caught:
        ours.Dataset(path, **options)
    remedy = f"leave out {named}, or give in_memory=True"
    end = f"{kind} with {named} cannot be read in any order; {remedy}"
    assert str(caught.value) == f"{path}: {end}"


def test_a_format_that_is_read_in_order_is_converted_or_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("[1]\n[2, 3]\n")
    remedy = "jsonl cannot be read in any order; convert it to lod.h5, or give in_memory=True"
    with pytest.raises(UnsupportedError, match=rf"x\.jsonl: {remedy}"):
        ours.Dataset(path, dtype="float32")
    assert ours.Dataset(path, dtype="float32", in_memory=True)[1].tolist() == [2, 3]


@pytest.mark.parametrize("layout", ["jagged", "padded", "packed", "varlen", "lod"])
def test_collate_gives_the_layout_asked_for(words: Path, layout: Any) -> None:
    dataset = ours.Dataset(words)
    places = [4, 0, 2, 0]
    batch = ours.collate(layout)(dataset.__getitems__(places))
    for name in ("tokens", "marks"):
        assert lists(batch[name]) == [dataset[place][name].tolist() for place in places]
    label = batch["label"].data if layout == "lod" else batch["label"]
    assert label.tolist() == [40, 0, 20, 0]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_padded_batch_is_filled_with_the_value_of_each_tensor(words: Path, workers: int) -> None:
    loader = torch.utils.data.DataLoader(
        ours.Dataset(words),
        batch_size=3,
        collate_fn=ours.collate("padded", pad_value={"marks": -100, "tokens": [5, 6]}),
        num_workers=workers,
        timeout=300 * workers,
    )
    batch = next(iter(loader))
    tokens = [torch.arange(6.0).view(3, 2), torch.zeros(0, 2), torch.arange(6.0, 10.0).view(2, 2)]
    marks = [torch.arange(3), torch.arange(0), torch.tensor([0, 1])]
    pad = torch.nn.utils.rnn.pad_sequence
    assert torch.equal(batch["marks"][0], pad(marks, batch_first=True, padding_value=-100))
    expected = pad(tokens, batch_first=True, padding_value=-1)
    filled = torch.where(expected == -1, torch.tensor([5.0, 6.0]), expected)
    assert torch.equal(batch["tokens"][0], filled)
    assert batch["tokens"][1].tolist() == batch["marks"][1].tolist() == [3, 0, 2]


def test_padding_that_no_batch_has_is_an_error(words: Path) -> None:
    items = ours.Dataset(words).__getitems__([0, 2])
    with pytest.raises(OptionError, match="pad_value: no tensor 'mark' in the batch; there are: "):
        ours.collate("padded", pad_value={"mark": -100})(items)
    with pytest.raises(InvalidDataError, match=r"marks: .* int64 cannot hold the pad_value 0.5"):
        ours.collate("padded", pad_value={"marks": 0.5})(items)
    for value in (-100, {"marks": 1}, np.ones(2), float("nan")):
        with pytest.raises(OptionError, match="pad_value is for the layout 'padded'; 'varlen' has"):
            ours.collate("varlen", pad_value=value)


def test_collate_takes_single_items_too() -> None:
    """Those of torch.utils.data.ConcatDataset, and of a dataset of the user's own."""
    items = [{"x": torch.ones(2, 3), "y": 1}, {"x": torch.ones(0, 3), "y": 2}]
    batch = ours.collate()(items)
    assert batch["x"].offsets().tolist() == [0, 2, 2]
    assert batch["y"].tolist() == [1, 2]


@pytest.mark.parametrize("layout", ["jagged", "varlen", "padded"])
def test_collate_takes_tuples_of_a_dataset_of_the_user(layout: Any) -> None:
    items = [(torch.ones(2), torch.zeros(2), 1), (torch.ones(3), torch.zeros(3), 0)]
    one, two, labels = ours.collate(layout)(items)
    assert lists(one) == [[1, 1], [1, 1, 1]]
    assert lists(two) == [[0, 0], [0, 0, 0]]
    assert labels.tolist() == [1, 0]
    if layout == "jagged":  # with one tensor of offsets, so that torch combines them
        assert lists(one + two) == [[1, 1], [1, 1, 1]]
    for other, found in ((items[0][:2], "one of 2"), (torch.ones(2), "Tensor")):
        with pytest.raises(
            InvalidDataError, match=f"item 1: expected a tuple of 3 values, found {found}"
        ):
            ours.collate(layout)([items[0], other])


def test_a_batch_of_named_tuples_is_one() -> None:
    batch = ours.collate("padded")([Labelled(torch.ones(2), 1), Labelled(torch.ones(1), 0)])
    assert isinstance(batch, Labelled)
    assert batch.rows[1].tolist() == [2, 1]
    assert batch.label.tolist() == [1, 0]


def test_a_null_item_is_an_error(tmp_path: Path) -> None:
    lodcli.write(tmp_path / "nulls.lod.h5", LoDTensor.from_lists([1, None]))
    dataset = ours.Dataset(tmp_path / "nulls.lod.h5")
    with pytest.raises(UnsupportedError, match=r"nulls.lod.h5: \w+: an item is null.*fill_nulls"):
        dataset[1]


@pytest.mark.parametrize("options", [{}, {"in_memory": True}, {"mmap": True}], ids=str)
@pytest.mark.parametrize("layout", ["jagged", "padded", "packed", "varlen"])
def test_an_error_about_nulls_names_file_and_tensor(
    tmp_path: Path, layout: str, options: dict[str, bool]
) -> None:
    path = tmp_path / "nulls.lod.h5"
    lodcli.write(
        path,
        {"n": LoDTensor.from_lists([1, None, 3]), "l": LoDTensor.from_lists([[], [2], [None]])},
    )
    dataset = ours.Dataset(path, **options)
    with pytest.raises(UnsupportedError) as caught:
        dataset[2]
    assert str(caught.value).startswith(f"{path}: l: row <0> is null; ")
    with pytest.raises(UnsupportedError) as caught:
        ours.collate(layout)(dataset.__getitems__([0, 1]))
    assert str(caught.value).startswith(f"{path}: n: row <1> is null; ")
    with pytest.raises(UnsupportedError) as caught:
        ours.collate(layout)(ours.Dataset(path, "l", **options).__getitems__([1, 2]))
    assert str(caught.value).startswith(f"{path}: l: row <1,0> is null; ")


def test_collate_takes_items_of_every_dtype() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.bool, torch.complex64):
        items = [torch.ones(2, dtype=dtype), torch.zeros(1, dtype=dtype)]
        found = ours.collate("varlen")(items)
        assert found.values.dtype == dtype
        assert torch.equal(found.values, torch.cat(items))
    assert ours.collate()([torch.tensor(1.0, dtype=torch.bfloat16)]).dtype == torch.bfloat16


def test_files_of_a_pattern_are_to_be_made_a_dataset(words: Path) -> None:
    with pytest.raises(UnsupportedError) as error:
        ours.Dataset(words.parent / "*.lod.h5")
    assert str(error.value) == (
        f"{words.parent}/*.lod.h5: several files of lod.h5 cannot be read in any order; make a "
        "dataset of them with `lod shard`, or give in_memory=True"
    )
    assert len(ours.Dataset(words.parent / "*.lod.h5", in_memory=True)) == 5


def test_a_reference_chooses_a_tensor_of_the_file(words: Path) -> None:
    dataset = ours.Dataset(f"{words}::marks")
    assert dataset[0].tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(dataset))[2].tolist() == [0, 1]
    assert len(next(iter(ours.Batches(f"{words}::label", items=3)))) == 3


def test_an_error_of_a_worker_keeps_the_lines_of_its_traceback(words: Path) -> None:
    dataset = ours.Dataset(words)
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=[[9]], num_workers=1)
    with pytest.raises(SelectionError) as error:
        next(iter(loader))
    first, *_, last = str(error.value).splitlines()
    assert first == "Caught SelectionError in DataLoader worker process 0."
    assert last == f"lodcli.kernels.errors.SelectionError: {words}: no item 9, there are 5"


def test_other_formats_of_random_access_are_read(tmp_path: Path) -> None:
    path = tmp_path / "words.safetensors"
    lodcli.write(path, LoDTensor(np.arange(10), [LENGTHS]))
    assert ours.Dataset(path)[4].tolist() == [6, 7, 8, 9]


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """Words and their tags, with equal sentences that the file stores twice, and a label."""
    lengths = [[2, 0, 3], [3, 1, 2, 0, 4]]
    words = LoDTensor(np.arange(10), lengths)
    path = tmp_path / "tagged.lod.h5"
    label = LoDTensor(np.array([1, 0, 1]))
    longer = LoDTensor(np.arange(11), [[2, 0, 3], [3, 1, 2, 1, 4]])
    tags = LoDTensor(words.data % 3, lengths)
    lodcli.write(path, {"words": words, "tags": tags, "label": label, "pieces": longer})
    return path


@pytest.mark.parametrize("options", [{}, {"in_memory": True}, {"mmap": True}], ids=str)
def test_equal_sequences_of_an_inner_level_are_one_item(
    tagged: Path, options: dict[str, Any]
) -> None:
    sentences = ours.Dataset(tagged, level=1, **options)
    assert {name: one.tolist() for name, one in sentences[4].items()} == {
        "words": [6, 7, 8, 9],
        "tags": [0, 1, 2, 0],
    }
    assert sorted(ours.Dataset(tagged, **options)[2]) == ["label", "pieces", "tags", "words"]
    assert ours.Dataset(tagged, "words", level=1, **options)[1].tolist() == [3]
    jsonl = tagged.with_suffix(".jsonl")
    lodcli.write(jsonl, lodcli.read_all(tagged))
    assert sorted(ours.Dataset(jsonl, level=-1, in_memory=True)[0]) == ["tags", "words"]


@pytest.mark.parametrize("workers", [0, 1])
def test_nested_tensors_of_equal_sequences_are_combined(tagged: Path, workers: int) -> None:
    sentences = ours.Dataset(tagged, level=1)
    loader = torch.utils.data.DataLoader(
        sentences, batch_size=2, collate_fn=ours.collate(), num_workers=workers
    )
    found = [lists(batch["words"] - batch["tags"]) for batch in loader]
    assert found == [[[0, 0, 0], [3]], [[3, 3], []], [[6, 6, 6, 9]]]


def test_nested_tensors_of_a_concatenated_dataset_are_combined(tagged: Path) -> None:
    twice = torch.utils.data.ConcatDataset([ours.Dataset(tagged, level=1) for _ in range(2)])
    (batch,) = torch.utils.data.DataLoader(twice, batch_size=len(twice), collate_fn=ours.collate())
    one, two = batch.values()
    assert lists(one + two) == [
        (a + b).tolist() for a, b in zip(one.unbind(), two.unbind(), strict=True)
    ]


def test_items_with_levels_need_another_layout(articles: Path) -> None:
    dataset = ours.Dataset(articles)
    said = (
        r"^collate: data: an item has 1 level of its own, and the layout 'padded' of torch holds "
    )
    with pytest.raises(
        UnsupportedError,
        match=said + r"rows only; take collate\(\"lod\"\), or a Dataset with level=-1",
    ):
        ours.collate("padded")(dataset.__getitems__([0, 1]))
    assert ours.collate("lod")(dataset.__getitems__([0, 1])).lod.n_levels == 2
    sentences = ours.Dataset(articles, level=-1)
    assert lists(ours.collate("padded")(sentences.__getitems__([0, 3]))) == [[0, 1, 2], [9]]


def test_one_tensor_with_levels_among_others_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.lod.h5"
    tags = LoDTensor(np.arange(6), [[2, 1], [1, 2, 3]])
    lodcli.write(path, {"tags": tags, "label": LoDTensor(np.arange(2))})
    with pytest.raises(UnsupportedError, match="or with columns= that leave out tags"):
        ours.collate()(ours.Dataset(path).__getitems__([0, 1]))
    batch = ours.collate()(ours.Dataset(path, columns=["label"]).__getitems__([0, 1]))
    assert batch.tolist() == [0, 1]


def test_a_missing_tensor_or_item_is_an_error(words: Path, tmp_path: Path) -> None:
    for place in (5, -6):
        with pytest.raises(SelectionError, match=f"no item {place}, there are 5"):
            ours.Dataset(words)[place]
    with pytest.raises(SelectionError, match="no level 3"):
        ours.Dataset(words, level=3)
    with pytest.raises(FileNotFoundError):
        ours.Dataset(tmp_path / "missing.lod.h5")
    with pytest.raises(OptionError, match="expected first the path of a file"):
        ours.Dataset(None)
    with pytest.raises(LodError, match="nonsense"):
        ours.Dataset(words, "nonsense")
    with pytest.raises(OptionError, match="jagged, packed, padded, varlen, lod, found 'nonsense'"):
        ours.collate("nonsense")


@pytest.mark.parametrize("place", [1.5, "a", True, None, slice(0, 2), np.array([1, 2]), []])
def test_an_item_has_a_whole_number(words: Path, place: Any) -> None:
    with pytest.raises(SelectionError, match="an item has a whole number, found "):
        ours.Dataset(words)[place]
    assert ours.Dataset(words)[np.int8(4)]["label"].item() == 40


def test_collate_without_its_call_is_an_error(words: Path) -> None:
    uncalled: Any = ours.collate
    loader = torch.utils.data.DataLoader(ours.Dataset(words), batch_size=2, collate_fn=uncalled)
    with pytest.raises(OptionError, match=r"lod, found Batch; call it .* collate_fn=collate\(\)$"):
        next(iter(loader))


@pytest.mark.parametrize("subset", [False, True])
def test_without_collate_torch_stacks_dicts_of_one_shape_alone(words: Path, subset: bool) -> None:
    dataset = ours.Dataset(words)
    items = torch.utils.data.Subset(dataset, range(5)) if subset else dataset
    batches = torch.utils.data.DataLoader(items, batch_sampler=[[0, 0], [1, 2]])
    found = iter(batches)
    assert next(found)["tokens"].shape == (2, 3, 2)
    with pytest.raises(UnsupportedError) as error:
        next(found)
    assert str(error.value) == (
        f"{words}: tokens: items of 0 to 2 rows cannot be stacked; give the DataLoader "
        "collate_fn=lodcli.torch.collate()"
    )


def test_without_collate_torch_stacks_items_of_one_shape_alone(words: Path, articles: Path) -> None:
    def first(name: str) -> Any:
        return next(iter(torch.utils.data.DataLoader(ours.Dataset(words, name), batch_size=5)))

    with pytest.raises(UnsupportedError, match=r"give .* collate_fn=lodcli.torch.collate\(\)"):
        first("marks")
    nested = torch.utils.data.DataLoader(ours.Dataset(articles), batch_size=3)
    with pytest.raises(UnsupportedError, match="items of 1 to 3 sequences cannot be stacked"):
        next(iter(nested))
    assert first("label").tolist() == [0, 10, 20, 30, 40]


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ([], "a list of items, found none"),
        (3, "a list of items, found int"),
        ([{"x": 1}, 2], "item 1: expected a dict of x, found int"),
        ([{"x": 1}, {"y": 1}], "item 1: expected a dict of x, found y"),
        ([[torch.ones(1), 1], [torch.ones(3), 2]], "item 0: .* found list; .* are tuples or dicts"),
        ([torch.ones(1), (torch.ones(2), 1)], "item 1: expected a tensor, .* found tuple"),
        ([(torch.ones(1), "a"), (torch.ones(2), "b")], "item 0, value 1: .* found str"),
        ([(torch.ones(1), 1), (torch.ones(2), None)], "item 1, value 1: .* found NoneType"),
        ([{"x": 1}, {"x": np.array(["a"])}], "item 1, x: .* found an array of <U1"),
        ([Labelled(1, b"a")], "item 0, label: .* found bytes"),
        ([{"x": 1}, {"x": torch.ones(2)}], r"item 1, x: expected a single value, .* \(2,\)"),
        ([torch.ones(2), torch.tensor(1)], r"item 1: expected rows, .* found the shape \(\)"),
        ([{"x": torch.ones(2, 3)}, {"x": torch.ones(1, 4)}], "x: .*array 1 has rows of shape"),
    ],
)
def test_collate_names_what_is_no_item(items: Any, found: str) -> None:
    with pytest.raises(InvalidDataError, match=f"^collate: .*{found}"):
        ours.collate()(items)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "ts"])
def test_an_item_has_what_shares_the_level_once_all_are_counted(
    tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"records.{ending}"
    lod = LoD.from_lengths([[2, 1, 1]])
    content = {
        "jsonl": {
            "name": LoDTensor.from_lists(["a", "bc"]),
            "ids": LoDTensor.from_lists([[1, 2, 3], []]),
        },
        "csv": {"name": LoDTensor.from_lists(["a", "bc"]), "z": LoDTensor([7, 8])},
        "ts": {"data": LoDTensor(np.ones((4, 1)), lod), "label": LoDTensor([0, 1, 0])},
    }[ending]
    lodcli.write(path, content)
    dataset = ours.Dataset(path, in_memory=True)
    assert len(dataset) == (3 if ending == "ts" else 2)
    assert list(dataset[1]) == list(content)
    with pytest.raises(UnsupportedError, match="give in_memory=True"):
        ours.Dataset(path)


def test_a_data_set_pickles_by_its_path(words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(words.parent)
    dataset = ours.Dataset(words.name, in_memory=True)
    stored = pickle.dumps(dataset)
    assert len(stored) < 1000
    monkeypatch.chdir("/")
    again = pickle.loads(stored)
    assert again[0]["marks"].tolist() == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("options", [{}, {"in_memory": True}], ids=str)
def test_workers_read_every_item_once(words: Path, context: str, options: dict[str, Any]) -> None:
    dataset = ours.Dataset(words, **options)
    dataset[0]  # the file is open when the process forks
    sampler = ours.BatchSampler(dataset, rows=5, seed=1)
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_sampler=sampler,
        collate_fn=ours.collate(),
        num_workers=2,
        multiprocessing_context=context,
        timeout=300,
    )
    for _ in range(2):
        batches = list(loader)
        assert sorted(x for batch in batches for x in batch["label"].tolist()) == [
            0,
            10,
            20,
            30,
            40,
        ]
        for batch in batches:
            for label, tokens in zip(
                batch["label"].tolist(), batch["tokens"].unbind(), strict=True
            ):
                assert tokens.tolist() == dataset[label // 10]["tokens"].tolist()


def changed(items: Any) -> Any:
    batch = ours.collate("padded")(items)
    batch[0].mul_(2)
    return batch


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Two batches of 2: a small one, and one of 4 MB whose padding makes it 8."""
    path = tmp_path / "uneven.lod.h5"
    rows = np.arange(1_000_012, dtype=np.float32)
    lodcli.write(path, LoDTensor(rows, [[5, 7, 1_000_000, 0]]))
    return path


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("layout", ["jagged", "varlen", "padded", "lod", changed])
def test_batches_arrive_from_a_worker_as_they_left_it(
    uneven: Path, layout: Any, context: str
) -> None:
    dataset = ours.Dataset(uneven, in_memory=True)
    collate = layout if callable(layout) else ours.collate(layout)
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_size=2,
        collate_fn=collate,
        num_workers=1,
        multiprocessing_context=context,
        timeout=300,
    )
    found = list(loader)
    for batch, places in zip(found, [[0, 1], [2, 3]], strict=True):
        right = collate(dataset.__getitems__(places))
        assert lists(batch) == lists(right)
        if layout == "jagged":
            assert batch.is_nested
            assert batch.offsets().tolist() == right.offsets().tolist()
            if len(batch.values()) < 100:
                assert batch.to_padded_tensor(0.0).shape == (2, 7)
        elif layout == "padded":
            assert type(batch) is tuple
            batch[0].zero_()  # it can be written to
    if layout == "varlen":
        assert [batch.values.is_shared() for batch in found] == [False, True]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3),
        torch.arange(6).reshape(2, 3).T,
        torch.arange(10)[3:5],
        torch.arange(10)[::3],
        torch.tensor(1).expand(4),
        torch.from_numpy(np.zeros(0)),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.float8_e4m3fn),
        torch.ones(3, requires_grad=True),
        torch.zeros(0, 4),
        torch.eye(3).to_sparse(),
        torch.nn.Parameter(torch.ones(2)),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_any_tensor_can_leave_a_worker(tensor: Any) -> None:
    from lodcli.formats.loading.handing_torch import small_by_value

    rebuilt, parts = small_by_value(tensor)
    found = rebuilt(*parts)
    assert (found.dtype, found.layout) == (tensor.dtype, tensor.layout)
    assert found.requires_grad == tensor.requires_grad
    assert found.resolve_conj().to_dense().tolist() == tensor.to_dense().tolist()


def test_a_tensor_without_values_leaves_a_worker_for_the_cpu() -> None:
    from lodcli.formats.loading.handing_torch import small_by_value

    rebuilt, parts = small_by_value(torch.zeros(0, 4))
    with torch.device("meta"):  # as if this were the default device of the main process
        assert rebuilt(*parts).device.type == "cpu"


def test_damage_found_by_a_batch_names_the_file(words: Path) -> None:
    rows = np.arange(20, dtype=np.float32).tobytes()
    words.write_bytes(words.read_bytes().replace(rows, bytes(len(rows))))
    dataset = ours.Dataset(words)
    with pytest.raises(DamagedFileError) as caught:
        dataset.__getitems__([1, 2])
    assert str(caught.value).startswith(f"{words}: ")


@pytest.mark.parametrize("kind", ["file", "map", "dataset"])
def test_a_file_that_was_replaced_is_an_error_in_a_worker(
    words: Path, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "many" if kind == "dataset" else words
    how: dict[str, Any] = {"overwrite": True}
    if kind == "dataset":
        how |= {"format_name": "lod.dataset", "shards": 2}
    content = lodcli.read_all(words)
    lodcli.write(path, content, **how)
    found = ours.Dataset(path, **({"mmap": True} if kind == "map" else {}))
    pickled = pickle.dumps(found)
    lodcli.write(path, content, **how)  # the same content
    assert int(pickle.loads(pickled)[1]["label"]) == 10
    lodcli.write(path, content | {"label": LoDTensor(np.arange(5) * 11)}, **how)
    with pytest.raises(DamagedFileError, match="was replaced since the dataset was made"):
        pickle.loads(pickled)[1]
    assert int(found[1]["label"]) == 10  # this process still has the old file open


@pytest.mark.parametrize("ending", ["safetensors", "npz", "zarr", "jsonl", "jsonl.gz"])
def test_a_file_of_equal_size_that_was_replaced_is_an_error_in_a_worker(
    ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"words.{ending}"
    rows = np.arange(6)
    lodcli.write(path, LoDTensor(rows, [[4, 2]]))
    pickled = pickle.dumps(ours.Dataset(path, in_memory=ending not in ("safetensors", "npz")))
    assert pickle.loads(pickled)[1].tolist() == [4, 5]
    (tmp_path / "another").write_text("")
    assert pickle.loads(pickled)[1].tolist() == [4, 5]
    lodcli.write(path, LoDTensor(rows, [[2, 4]]), overwrite=True)
    with pytest.raises(DamagedFileError, match="was replaced since the dataset was made"):
        pickle.loads(pickled)[1]


def test_one_of_several_files_that_was_replaced_is_an_error_in_a_worker(tmp_path: Path) -> None:
    for name in "ab":
        lodcli.write(tmp_path / f"{name}.jsonl", LoDTensor(np.arange(6), [[4, 2]]))
    pickled = pickle.dumps(ours.Dataset(f"{tmp_path}/*.jsonl", in_memory=True))
    (tmp_path / "another.txt").write_text("")
    assert pickle.loads(pickled)[3].tolist() == [4, 5]
    lodcli.write(tmp_path / "b.jsonl", LoDTensor(np.arange(6), [[2, 4]]), overwrite=True)
    with pytest.raises(DamagedFileError, match="was replaced since the dataset was made"):
        pickle.loads(pickled)[3]


def test_a_forked_process_opens_the_file_itself(words: Path) -> None:
    dataset = ours.Dataset(words)
    dataset[0]
    mine = dataset._opened
    dataset._opened.process = -1  # as if this process were a fork of that
    assert dataset[2]["marks"].tolist() == [0, 1]
    assert dataset._opened is not mine
    assert dataset._opened.process == os.getpid()


@pytest.mark.parametrize("how", [{}, {"in_memory": True}, {"mmap": True}])
def test_categories_are_int64_as_torch_takes_class_numbers(
    how: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "labelled.lod.h5"
    colors = LoDTensor(np.array([1, 0, 1], np.int8), [[2, 0, 1]]).as_categories(["red", "blue"])
    kind = LoDTensor(np.array([1, 0, 1], np.int8)).as_categories(["no", "yes"])
    lodcli.write(path, {"colors": colors, "kind": kind})
    dataset = ours.Dataset(path, **how)
    assert dataset[2]["kind"].dtype == dataset[2]["colors"].dtype == torch.int64
    batch = ours.collate("padded")(dataset.__getitems__([2, 0, 1]))
    assert torch.nn.Embedding(2, 4)(batch["colors"][0]).shape == (3, 2, 4)
    assert batch["colors"][0].tolist() == [[1, 0], [1, 0], [0, 0]]
    found = torch.nn.functional.cross_entropy(torch.zeros(3, 2), batch["kind"])
    assert found.item() == pytest.approx(np.log(2))
    (batch,) = ours.Batches(path, items=3, layout="varlen", **how)
    assert batch["colors"].values.dtype == torch.int64
