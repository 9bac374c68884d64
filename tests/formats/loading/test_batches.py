"""Batches of a file in a seeded order: divided among ranks and workers, and resumed."""

from __future__ import annotations

import importlib
import json
import pickle
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lodcli
from lodcli import LoDTensor
from lodcli.errors import OptionError, SelectionError
from lodcli.formats.loading.epochs import RUNS, epoch
from tests.formats.dataset.test_dataset import sharded
from tests.formats.loading.test_loading import torch

LENGTHS = np.random.default_rng(5).integers(0, 30, 600)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 sequences, the values of each its number."""
    path = tmp_path_factory.mktemp("batches") / "numbers.lod.h5"
    numbers = np.repeat(np.arange(LENGTHS.size), LENGTHS)
    length = LoDTensor(LENGTHS)
    lodcli.write(path, {"x": LoDTensor(numbers, [LENGTHS.tolist()]), "length": length})
    return path


@pytest.mark.parametrize("options", [{}, {"batch_size": 4}, {"batch_size": 1, "num_workers": 1}])
@pytest.mark.parametrize("layout", ["varlen", "padded", "jagged", "lod"])
def test_a_data_loader_that_joins_batches_is_refused(
    file: Path, layout: str, options: dict[str, int]
) -> None:
    loader = torch.utils.data.DataLoader(batches(file, layout=layout), **options)
    with pytest.raises(OptionError, match="give it batch_size=None"):
        next(iter(loader))


def test_a_data_loader_that_hands_on_each_batch_is_not_refused(file: Path) -> None:
    loader = torch.utils.data.DataLoader(batches(file), batch_size=1, collate_fn=lambda few: few[0])
    assert len(list(loader)) == len(list(batches(file)))


def batches(path: Any, **options: Any) -> Any:
    return lodcli.torch.Batches(path, **({"tokens": 100, "pool": 64, "seed": 3} | options))


def keys(found: Any) -> list[list[int]]:
    """Return the items of each batch, identified by their values, and their lengths."""
    return [[*batch["x"].values.tolist(), -1, *batch["length"].tolist()] for batch in found]


def loaded(of: Any, workers: int, **options: Any) -> Iterator[Any]:
    return iter(torch.utils.data.DataLoader(of, batch_size=None, num_workers=workers, **options))


@given(
    st.lists(st.integers(0, 9), max_size=60),
    st.tuples(st.integers(1, 30), st.none() | st.integers(1, 5))
    | st.tuples(st.none(), st.integers(1, 5)),
    st.integers(1, 40),
    st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_each_item_is_in_one_batch_and_no_batch_is_too_large(
    lengths: list[int],
    most: tuple[int | None, int | None],
    pool: int,
    seed: tuple[int, int] | None,
) -> None:
    tokens, items = most
    made = epoch(np.array(lengths, np.int64), tokens=tokens, items=items, pool=pool, seed=seed)
    found = [made[number].tolist() for number in range(len(made))]
    assert sorted(chain(*found)) == list(range(len(lengths)))
    for batch in found:
        assert batch == sorted(batch)
        assert batch
        assert len(batch) <= (items or len(batch))
        rows = sum(lengths[item] for item in batch)
        assert tokens is None or rows <= tokens or len(batch) == 1
    if seed is None:
        assert list(chain(*found)) == list(range(len(lengths)))
        for one, other in pairwise(found):
            more = sum(lengths[item] for item in one) + lengths[other[0]]
            assert len(one) == items or (tokens is not None and more > tokens)


def test_batches_may_be_limited_by_items_alone(file: Path) -> None:
    found = keys(lodcli.torch.Batches(file, items=7, pool=64, seed=3))
    lengths = [batch[batch.index(-1) + 1 :] for batch in found]
    assert sorted(chain(*lengths)) == sorted(LENGTHS.tolist())
    assert max(map(len, lengths)) == 7
    state = lodcli.torch.Batches(file, items=7, pool=64, seed=3)
    state.load_state_dict(lodcli.torch.Batches(file, items=7, pool=64, seed=3).state_dict(5))
    assert keys(state) == found[5:]


def test_a_batch_takes_similar_lengths_of_one_pool() -> None:
    made = epoch(LENGTHS, tokens=100, items=None, pool=200, seed=(0, 0))
    spread = [np.ptp(LENGTHS[made[number]]) for number in range(len(made))]
    neighbours = epoch(LENGTHS, tokens=100, items=None, pool=200, seed=None)
    assert np.mean(spread) < 2
    assert np.mean([np.ptp(LENGTHS[neighbours[number]]) for number in range(5)]) > 10


def test_the_order_is_of_the_seed_and_the_epoch(file: Path) -> None:
    one, again, other = batches(file), batches(file), batches(file, seed=4)
    first = keys(one)
    assert keys(again) == first != keys(other)
    assert one.epoch == 1  # the next one begins by itself
    second = keys(one)
    assert second != first
    again.set_epoch(0)
    assert keys(again) == first


@pytest.mark.parametrize("drop_last", [False, True])
def test_every_rank_gets_equally_many_batches(file: Path, drop_last: bool) -> None:
    whole = keys(batches(file))
    for world in range(1, 17):
        parts = [
            batches(file, rank=rank, world=world, drop_last=drop_last) for rank in range(world)
        ]
        found = [keys(part) for part in parts]
        (count,) = {len(each) for each in found}
        taken = [batch for turn in zip(*found, strict=True) for batch in turn]
        assert count == (len(whole) // world if drop_last else -(-len(whole) // world))
        assert taken == (whole + whole)[: count * world]
        again = [batches(file, rank=rank, world=world, drop_last=drop_last) for rank in (0,)]
        assert len(again[0]) == count


@pytest.mark.parametrize("workers", [1, 2])  # torch warns of more than there are processors
def test_workers_change_nothing(file: Path, workers: int) -> None:
    alone = keys(batches(file, rank=1, world=2))
    assert keys(loaded(batches(file, rank=1, world=2), workers)) == alone


@pytest.mark.slow
def test_spawned_workers_change_nothing(file: Path) -> None:
    context = {"multiprocessing_context": "spawn"}
    assert keys(loaded(batches(file), 2, **context)) == keys(batches(file))


@pytest.mark.slow
def test_workers_that_live_on_see_the_epoch(file: Path) -> None:
    one, other = batches(file), batches(file)
    loader = torch.utils.data.DataLoader(
        one, batch_size=None, num_workers=2, persistent_workers=True
    )
    for number in range(3):
        one.set_epoch(number)
        assert keys(loader) == keys(other)


@pytest.mark.parametrize("stopped", [0, 1, 17])
def test_an_epoch_goes_on_with_other_ranks_and_workers(file: Path, stopped: int) -> None:
    whole = keys(batches(file))
    first = [batches(file, rank=rank, world=3) for rank in range(3)]
    taken = [[batch for batch, _ in zip(each, range(stopped), strict=False)] for each in first]
    state = first[0].state_dict(stopped)
    assert [each.state_dict(stopped) for each in first] == [state] * 3
    rest = []
    for rank in range(2):
        part = batches(file, rank=rank, world=2)
        part.load_state_dict(state)
        part.set_epoch(0)  # as a loop over epochs does
        count = len(part)
        rest.append(keys(loaded(part, rank * 2)))
        assert len(rest[-1]) == count
    seen = [batch for turn in zip(*map(keys, taken), strict=True) for batch in turn]
    seen += [batch for turn in zip(*rest, strict=True) for batch in turn]
    assert seen[: len(whole)] == whole
    assert len(seen) <= len(whole) + 1


def test_without_workers_a_state_counts_the_batches_that_were_given(file: Path) -> None:
    one, other = batches(file), batches(file)
    taken = iter(one)
    before = keys(next(taken) for _ in range(4))
    other.load_state_dict(one.state_dict())
    assert before + keys(other) == keys(batches(file))
    list(taken)
    other.load_state_dict(one.state_dict())
    assert other.epoch == 1
    assert len(other) == len(keys(other))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_number_of_batches_after_the_last_is_of_the_epoch_that_ended(
    file: Path, workers: int
) -> None:
    one, other = batches(file), batches(file)
    whole = keys(loaded(one, workers))
    for taken in (len(whole), 4):
        other.load_state_dict(one.state_dict(taken))
        other.set_epoch(0)  # as a loop over epochs does
        assert keys(other) == whole[taken:]
    assert one.state_dict(0)["epoch"] == (0 if workers else 1)
    one.set_epoch(1)
    assert one.state_dict(4) == {**one.state_dict(), "epoch": 1, "taken": 4}
    list(zip(range(2), one, strict=False))
    assert one.state_dict(2) == one.state_dict()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # by torchdata's own call
@pytest.mark.parametrize("workers", [0, 2])
def test_the_stateful_loader_goes_on(file: Path, workers: int) -> None:
    pytest.importorskip("torchdata")
    stateful = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader

    def loader() -> Any:
        return stateful(batches(file), batch_size=None, num_workers=workers)

    one, other = loader(), loader()
    taken = iter(one)
    before = keys(next(taken) for _ in range(7))
    state = one.state_dict()
    other.load_state_dict(state)
    assert before + keys(other) == keys(batches(file))
    del taken


@pytest.mark.parametrize("changed", [0, 1])
def test_a_worker_in_inference_mode_sends_padded_batches(file: Path, changed: int) -> None:
    def collate(items: Any) -> Any:
        batch = lodcli.torch.collate("padded")(items)
        if changed:
            batch["x"][0].add_(changed)  # the padding too, which is then sent
        return batch

    def padded(**options: Any) -> list[Any]:
        data = lodcli.torch.Dataset(file)
        loader = torch.utils.data.DataLoader(data, 200, collate_fn=collate, **options)
        return [batch["x"][0].tolist() for batch in loader]

    with torch.inference_mode():  # which a forked worker inherits
        found = padded(num_workers=1, multiprocessing_context="fork", timeout=60)
    assert found == padded()


def test_the_default_device_of_torch_is_not_that_of_batches(file: Path) -> None:
    with torch.device("meta"):  # the one besides the CPU that every machine has
        found = keys(batches(file))
    assert found == keys(batches(file))


def test_a_dataset_of_shards_gives_the_batches_of_the_file(file: Path, tmp_path: Path) -> None:
    content = lodcli.read_all(file)
    folder = sharded(tmp_path, content, shards=7)
    assert keys(batches(folder)) == keys(batches(file))


def test_layouts_are_those_of_collate(file: Path) -> None:
    jagged = next(iter(batches(file, name="x", layout="jagged")))
    assert jagged.is_nested
    values, lengths = next(iter(batches(file, name="x", layout="padded", pad_value=-1)))
    assert values.shape == (len(lengths), lengths.max())
    assert int((values == -1).sum()) == values.numel() - int(lengths.sum()) > 0


def test_errors_on_the_form_of_batches_name_the_loader(file: Path, tmp_path: Path) -> None:
    layouts = "jagged, packed, padded, varlen, lod"
    wrong: Any
    for wrong, shown in (("x", "'x'"), (3, "int")):
        with pytest.raises(OptionError) as found:
            lodcli.torch.Batches(file, "x", tokens=9, layout=wrong)
        expected = f"expected one of {layouts}, found {shown}"
        assert str(found.value) == f"Batches: layout: {expected}"
    with pytest.raises(OptionError, match=r"^Batches: pad_value is for the layout 'padded'"):
        lodcli.torch.Batches(file, "x", tokens=9, pad_value=1)
    unknown = lodcli.torch.Batches(file, tokens=9, layout="padded", pad_value={"y": 1})
    with pytest.raises(OptionError, match=r"^Batches: pad_value: no tensor 'y' in the batch"):
        next(iter(unknown))
    nested = tmp_path / "nested.lod.h5"
    lodcli.write(nested, LoDTensor([1, 2, 3], [[2], [1, 2]]))
    with pytest.raises(lodcli.UnsupportedError, match=r'^Batches: .*; take layout="lod"'):
        next(iter(lodcli.torch.Batches(nested, tokens=9)))
    assert next(iter(lodcli.torch.Batches(nested, tokens=9, layout="lod"))).rows == 3


def test_the_ranks_of_torch_distributed_are_taken(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 5)
    assert keys(batches(file)) == keys(batches(file, rank=2, world=5))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tokens": 0}, "tokens: expected at least 1, found 0"),
        ({"items": 0}, "items: expected at least 1, found 0"),
        ({"pool": 0}, "pool: expected at least 1, found 0"),
        ({"tokens": 2.5}, "tokens: expected a whole number, found 2.5"),
        ({"shuffle": "no"}, "shuffle: expected True or False, found 'no'"),
        ({"drop_last": 1}, "drop_last: expected True or False, found 1"),
        ({"seed": -1}, "seed: expected at least 0, found -1"),
        ({"seed": None}, "seed: expected a whole number, found None"),
        ({"rank": 2, "world": 2}, "rank: expected 0 to 1, found 2"),
        ({"world": 4}, "world= needs rank=; without both, those of torch.distributed are used"),
        ({"rank": 0}, "rank= needs world="),
        ({"rank": 0, "world": 0}, "world: expected at least 1, found 0"),
        ({"rank": 0.5, "world": 2}, "rank: expected a whole number, found 0.5"),
        ({"tokens": None}, "give tokens= or items=, the maximum of a batch"),
    ],
    ids=str,
)
def test_numbers_that_mean_nothing_are_refused(
    file: Path, options: dict[str, int], said: str
) -> None:
    with pytest.raises(OptionError, match=f"Batches: {said}"):
        batches(file, **options)


def test_states_are_plain_numbers(file: Path) -> None:
    whole: Any = np.int64  # as of an array of lengths, or of a random generator
    loader = batches(file, tokens=whole(100), seed=whole(3), pool=whole(64), shuffle=np.bool_(True))
    loader.set_epoch(whole(2))
    sampler = lodcli.torch.BatchSampler(LENGTHS, rows=whole(100), seed=whole(3))
    sampler.set_epoch(whole(2))
    numbers: Any = iter(sampler)
    for state in (loader.state_dict(whole(1)), numbers.state_dict()):
        assert json.loads(json.dumps(state)) == state


def test_states_of_other_orders_are_refused(file: Path) -> None:
    state = batches(file).state_dict()
    with pytest.raises(OptionError, match="saved with tokens=100, this one has 50"):
        batches(file, tokens=50).load_state_dict(state)
    with pytest.raises(OptionError, match="the state has no epoch"):
        batches(file).load_state_dict({k: v for k, v in state.items() if k != "epoch"})
    with pytest.raises(OptionError, match=r"of worker 1 of 2; .* state_dict\(batches\) of"):
        batches(file).load_state_dict(state | {"worker": [1, 2]})
    with pytest.raises(OptionError, match="epoch: expected at least 0, found -1"):
        batches(file).set_epoch(-1)
    with pytest.raises(OptionError, match="epoch: expected a whole number, found 'a'"):
        batches(file).set_epoch("a")


@pytest.mark.parametrize("value", [None, -1, 1.5, True, "x", [1], 1 << 70, float("nan")])
@pytest.mark.parametrize("name", ["epoch", "taken", "given", "worker"])
def test_damaged_states_are_refused(file: Path, name: str, value: object) -> None:
    one = batches(file)
    with pytest.raises(OptionError, match=f"Batches: the state: {name}: expected "):
        one.load_state_dict(one.state_dict() | {name: value})
    with pytest.raises(OptionError, match=r"expected what state_dict\(\) returned, found "):
        one.load_state_dict(value)


def test_a_state_of_more_batches_than_the_epoch_has_is_refused(file: Path) -> None:
    one, count = batches(file), len(batches(file))
    ends = batches(file, rank=0, world=count - 1).state_dict(2)  # the first are repeated
    one.load_state_dict(ends)
    assert (len(one), keys(one)) == (0, [])
    state = batches(file).state_dict()
    one.load_state_dict(state | {"taken": count - 1, "given": 1})
    for name, more in (("taken", {"taken": count + 1}), ("given", {"taken": 3, "given": count})):
        with pytest.raises(OptionError, match=f"the state: {name}: expected at most"):
            one.load_state_dict(state | more)


@pytest.mark.parametrize("taken", [-1, 1.5, 10**9])
def test_a_number_of_batches_that_no_epoch_has_is_refused(file: Path, taken: int) -> None:
    one = batches(file)
    assert one.state_dict(len(one))["taken"] == len(one)
    with pytest.raises(OptionError, match="batches since the epoch began: expected "):
        one.state_dict(taken)


def test_no_items_make_no_batches(tmp_path: Path) -> None:
    path = tmp_path / "none.lod.h5"
    lodcli.write(path, LoDTensor(np.zeros((0, 2)), [[]]))
    none = batches(path, world=3, rank=1)
    assert len(none) == 0
    assert list(none) == []


def test_the_representation_of_a_loader_names_its_file_and_arguments(file: Path) -> None:
    one = batches(file)
    dataset = repr(one.dataset)
    assert dataset == f"<Dataset {file}: 600 items of x, length>"
    assert repr(one) == (
        f"<Batches of {dataset}: tokens=100, items=None, shuffle=True, seed=3, pool=64, "
        "drop_last=False, rank=0, world=1, epoch=0>"
    )
    assert repr(lodcli.torch.BatchSampler(one.dataset, rows=5)) == (
        "<BatchSampler of 600 items: rows=5, items=None, padded=False, buckets=1, shuffle=True, "
        "seed=0, drop_last=False, epoch=0>"
    )
    assert repr(pickle.loads(pickle.dumps(one.dataset))) == f"<Dataset {file}>"


def test_batches_of_items_are_compared_by_identity(file: Path) -> None:
    found = [lodcli.torch.Dataset(file).__getitems__([0, 1]) for _ in range(2)]
    assert found[0] == found[0]
    assert found[0] != found[1]
    assert len(set(found)) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_parts_of_a_dataset_give_their_items(file: Path, workers: int) -> None:
    """Those of random_split: together they have every item once."""
    whole = lodcli.torch.Dataset(file)
    generator = torch.Generator().manual_seed(1)
    parts = torch.utils.data.random_split(whole, [250, 350], generator)
    seen: list[int] = []
    for part in parts:
        loader = torch.utils.data.DataLoader(batches(part), batch_size=None, num_workers=workers)
        found = [batch["length"].tolist() for batch in loader]
        assert sorted(chain(*found)) == sorted(LENGTHS[part.indices].tolist())
        numbers = [batch["x"].values.unique().tolist() for batch in batches(part)]
        of_part = {item for item in part.indices if LENGTHS[item]}
        assert sorted(chain(*numbers)) == sorted(of_part)
        seen += chain(*numbers)
    assert sorted(seen) == np.flatnonzero(LENGTHS).tolist()


def test_a_part_of_a_part_in_order(file: Path) -> None:
    whole = lodcli.torch.Dataset(file, in_memory=True)
    inner = torch.utils.data.Subset(whole, range(100, 200))
    part = torch.utils.data.Subset(inner, [7, 3, -1, 7])
    (batch,) = batches(part, shuffle=False, tokens=1000)
    wanted = [107, 103, 199, 107]
    assert sorted(batch["length"].tolist()) == sorted(LENGTHS[wanted].tolist())
    found, *_ = batches(whole, shuffle=False, tokens=10)
    assert (
        found["length"].tolist()
        == next(iter(batches(file, shuffle=False, tokens=10)))["length"].tolist()
    )
    assert repr(batches(part)).startswith("<Batches of 4 of <Dataset ")


def test_an_epoch_of_a_part_goes_on(file: Path) -> None:
    part = torch.utils.data.Subset(lodcli.torch.Dataset(file), range(0, 600, 2))
    one, other = batches(part), batches(pickle.loads(pickle.dumps(part)))
    wanted = keys(one)
    one.set_epoch(0)
    taken = [next(iterator) for iterator in [iter(one)] for _ in range(3)]
    state = one.state_dict()
    other.load_state_dict(state)
    assert keys(taken) + keys(other) == wanted
    with pytest.raises(OptionError, match="the state was saved with count=300"):
        batches(file).load_state_dict(state)


def test_options_of_a_dataset_and_datasets_of_others_are_errors(file: Path) -> None:
    whole = lodcli.torch.Dataset(file)
    other = torch.utils.data.TensorDataset(torch.zeros(3))
    for one, more, said in (
        (whole, {"level": 0, "in_memory": True}, "in_memory: give it to the Dataset, not beside"),
        (whole, {"name": "x"}, "name: give it to the Dataset"),
        (whole, {"columns": ["x"]}, "columns: give it to the Dataset"),
        (other, {}, "expected a file, a Dataset of lod or a Subset of one, found TensorDataset"),
        (torch.utils.data.Subset(other, [0]), {}, "found TensorDataset; a DataLoader with"),
    ):
        with pytest.raises(OptionError, match=f"Batches: .*{said}"):
            batches(one, **more)


def test_the_indices_of_a_part_are_checked_like_those_of_a_dataset(file: Path) -> None:
    whole = lodcli.torch.Dataset(file)
    found = "an item has a whole number, found"
    for indices, said in (
        ([0, 1.9], f"{found} 1.9"),
        (["1"], f"{found} '1'"),
        ([True], f"{found} True"),
        ([[0, 1]], rf"{found} \[0, 1\]"),
        ([None], f"{found} None"),
        (range(590, 601), "no item 600, there are 600"),
        ([-601], "no item -601, there are 600"),
        ([2**63], f"no item {2**63}, there are 600"),
        ([-1, 2**63], f"no item {2**63}, there are 600"),
        ([0, [1, 2]], rf"{found} \[1, 2\]"),
        (5, f"{found} 5"),
    ):
        part = torch.utils.data.Subset(whole, indices)
        with pytest.raises(SelectionError, match=rf"{file.name}: {said}$"):
            batches(part)
        with pytest.raises(SelectionError, match=f"BatchSampler: {said}$"):
            lodcli.torch.BatchSampler(part, rows=9)
    inner = torch.utils.data.Subset(whole, range(100))
    with pytest.raises(SelectionError, match=f"{file.name}: no item 100, there are 100"):
        batches(torch.utils.data.Subset(inner, [100]))


def test_a_pool_of_a_part_is_runs_of_the_file(file: Path) -> None:
    whole = lodcli.torch.Dataset(file)
    inner = torch.utils.data.Subset(whole, np.random.default_rng(1).permutation(600))
    part = torch.utils.data.Subset(inner, np.random.default_rng(2).permutation(600)[:480])
    read: list[int] = []

    class Recording(lodcli.torch.Dataset):
        def __getitems__(self, places: Any) -> Any:
            read.append(int((np.diff(np.sort(places)) > 5).sum()))
            return super().__getitems__(places)

    inner.dataset = Recording(file)
    assert sorted(keys(batches(part))) == sorted(keys(batches(whole_of(part, whole))))
    assert read
    assert max(read) <= 2 * RUNS


def whole_of(part: Any, whole: Any) -> Any:
    """Return a part of a part as a part of the dataset."""
    return torch.utils.data.Subset(whole, np.asarray(part.dataset.indices)[part.indices])


def test_the_state_of_another_part_is_refused(tmp_path: Path) -> None:
    """Items of equal lengths: resuming would train on items of the other part."""
    path = tmp_path / "equal.lod.h5"
    lodcli.write(path, LoDTensor(np.arange(80), [[2] * 40]))
    whole = lodcli.torch.Dataset(path)
    one, other = (
        batches(part, tokens=8) for part in torch.utils.data.random_split(whole, [20, 20])
    )
    state = one.state_dict()
    one.load_state_dict(state)
    with pytest.raises(OptionError, match="the state was saved with items_crc32="):
        other.load_state_dict(state)
    several = batches(torch.utils.data.Subset(whole, [0] * 40))
    with pytest.raises(OptionError, match="items_crc32="):
        batches(whole).load_state_dict(several.state_dict())
    before = batches(whole).state_dict()
    del before["items_crc32"]  # as the release before saved it
    batches(whole).load_state_dict(before)


def test_a_class_whose_items_would_not_be_returned_is_refused(file: Path) -> None:
    class Transformed(torch.utils.data.Subset):  # type: ignore[misc]
        def __getitem__(self, place: Any) -> Any:
            return super().__getitem__(place)

        def __getitems__(self, places: Any) -> Any:
            return [self[place] for place in places]

    class AtOnce(torch.utils.data.Subset):  # type: ignore[misc]
        def __getitems__(self, places: Any) -> Any:
            return super().__getitems__(places)

    class Own(lodcli.torch.Dataset):
        def __getitem__(self, place: Any) -> Any:
            return super().__getitem__(place)

    class Named(torch.utils.data.Subset):  # type: ignore[misc]
        pass

    whole = lodcli.torch.Dataset(file)
    for one, said in (
        (Transformed(whole, [0]), "Transformed has a __getitem__ of its own"),
        (AtOnce(whole, [0]), "AtOnce has a __getitems__ of its own"),
        (torch.utils.data.Subset(Transformed(whole, [0]), [0]), "Transformed has a __getitem__"),
        (Own(file), "Own has a __getitem__ of its own"),
    ):
        with pytest.raises(OptionError, match=f"Batches: path: {said}"):
            batches(one)
    assert len(batches(Named(whole, [0]))) == 1
