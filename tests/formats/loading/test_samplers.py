"""Samplers: batches by lengths, the order of an epoch, and states to continue from."""

from __future__ import annotations

import pickle
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lodcli
from lodcli import LoDTensor
from lodcli.errors import InvalidDataError, OptionError
from lodcli.formats.loading.samplers import BatchSampler

torch: Any = pytest.importorskip("torch")
ours: Any = lodcli.torch

LENGTHS = [3, 0, 2, 1, 4]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Tokens, and one label for each sequence."""
    path = tmp_path / "words.lod.h5"
    tokens = LoDTensor(np.arange(10), [LENGTHS])
    lodcli.write(path, {"tokens": tokens, "label": LoDTensor(np.arange(5) * 10)})
    return path


LISTS = st.lists(st.integers(0, 30), max_size=40)


@given(
    LISTS,
    st.one_of(st.none(), st.integers(1, 60)),
    st.integers(1, 8),
    st.booleans(),
    st.integers(1, 5),
    st.booleans(),
)
def test_batches_keep_to_the_budget_and_have_every_item_once(
    lengths: list[int], rows: int | None, items: int, padded: bool, buckets: int, shuffle: bool
) -> None:
    options: dict[str, Any] = {"rows": rows, "items": items, "padded": padded, "buckets": buckets}
    sampler = BatchSampler(lengths, shuffle=shuffle, seed=3, **options)
    count = len(sampler)
    batches = list(sampler)
    assert len(batches) == count
    assert sorted(chain(*batches)) == list(range(len(lengths)))
    for batch in batches:
        sizes = [lengths[item] for item in batch]
        cost = max(sizes) * len(batch) if padded else sum(sizes)
        assert len(batch) <= items
        assert rows is None or cost <= rows or len(batch) == 1
    again = BatchSampler(lengths, shuffle=shuffle, seed=3, **options)
    assert list(again) == batches


@given(LISTS, st.integers(1, 60), st.integers(1, 5))
def test_drop_last_drops_at_most_a_batch_for_each_bucket(
    lengths: list[int], rows: int, buckets: int
) -> None:
    whole = BatchSampler(lengths, rows=rows, buckets=buckets)
    short = BatchSampler(lengths, rows=rows, buckets=buckets, drop_last=True)
    kept, every = ({tuple(batch) for batch in each} for each in (short, whole))
    assert kept <= every
    assert len(every - kept) <= buckets


def test_an_epoch_has_its_own_order_and_can_be_repeated() -> None:
    lengths = np.arange(100)
    sampler = BatchSampler(lengths, items=7, buckets=4, seed=5)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first
    assert list(sampler) == second
    assert list(BatchSampler(lengths, items=7, buckets=4, seed=6)) != first


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # by torchdata's own call
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("before", [0, 1])
def test_a_stateful_loader_continues_a_sampler_in_its_epoch(
    words: Path, workers: int, before: int
) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    dataset = ours.Dataset(words)

    def loader(seed: int = 4) -> Any:
        return stateful.StatefulDataLoader(
            dataset,
            batch_sampler=BatchSampler(dataset, items=1, seed=seed),
            collate_fn=ours.collate("varlen"),
            num_workers=workers,
        )

    def labels(batches: Any) -> list[int]:
        return [int(batch["label"]) for batch in batches]

    whole = loader()
    epochs = [labels(whole) for _ in range(3)]
    order = BatchSampler(dataset, items=1, seed=4)
    assert epochs == [[item * 10 for (item,) in order] for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    stopped = loader()
    for _ in range(before):
        labels(stopped)
    running = iter(stopped)
    first = labels(next(running) for _ in range(2))
    state = pickle.loads(pickle.dumps(stopped.state_dict()))
    continued = loader()
    continued.load_state_dict(state)
    assert first + labels(continued) == epochs[before]
    assert labels(continued) == epochs[before + 1]
    other = loader(seed=5)
    other.load_state_dict(state)
    with pytest.raises(OptionError, match="saved with seed=4, this one has 5"):
        next(iter(other))


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("taken", 6, "taken: expected at most 5, found 6"),
        ("taken", "1", "taken: expected a whole number, found '1'"),
        ("epoch", -1, "epoch: expected at least 0, found -1"),
        ("count", 4, "saved with count=4, this one has 5"),
        ("items", np.array([1, 2]), "saved with items=array"),
        ("items", torch.tensor([1, 2]), "saved with items=tensor"),
    ],
)
def test_a_damaged_state_of_a_sampler_is_an_error(entry: str, value: Any, said: str) -> None:
    running: Any = iter(BatchSampler(LENGTHS, items=1))
    with pytest.raises(OptionError, match=said):
        running.load_state_dict(running.state_dict() | {entry: value})
    with pytest.raises(OptionError, match="expected what state_dict\\(\\) returned, found list"):
        running.load_state_dict([])
    with pytest.raises(OptionError, match="the state has no buckets, count"):
        running.load_state_dict({})
    assert len(list(running)) == 5


def test_a_state_of_items_of_other_lengths_is_an_error(tmp_path: Path) -> None:
    """Batches would have other items: some would be left out."""
    state = iter(BatchSampler([5, 1, 1, 1], rows=5)).state_dict()  # type: ignore[attr-defined]
    running: Any = iter(BatchSampler([1, 1, 1, 5], rows=5))
    with pytest.raises(OptionError, match="saved with lengths_crc32="):
        running.load_state_dict(state)
    made = []
    for name, lengths in (("a", [5, 1]), ("b", [1, 5])):
        lodcli.write(tmp_path / f"{name}.lod.h5", LoDTensor(np.arange(6), [lengths]))
        made.append(ours.Batches(tmp_path / f"{name}.lod.h5", tokens=5))
    with pytest.raises(OptionError, match="saved with lengths_crc32="):
        made[1].load_state_dict(made[0].state_dict())


def test_an_epoch_begins_with_its_first_batch() -> None:
    sampler = BatchSampler(LENGTHS, items=1, seed=4)
    wanted = [list(sampler) for _ in range(2)]
    sampler.set_epoch(0)
    unused, used = iter(sampler), iter(sampler)
    assert list(used) == wanted[0]
    assert list(unused) == wanted[1]
    assert sampler.epoch == 2


@pytest.mark.parametrize(
    ("workers", "persistent"),
    [
        (0, False),
        pytest.param(2, False, marks=pytest.mark.slow),
        pytest.param(2, True, marks=pytest.mark.slow),
    ],
)
def test_a_loader_takes_the_epochs_of_a_sampler_one_after_another(
    words: Path, workers: int, persistent: bool
) -> None:
    dataset = ours.Dataset(words)
    sampler = BatchSampler(dataset, items=1, seed=4)
    wanted = [[item for (item,) in sampler] for _ in range(3)]
    sampler.set_epoch(0)
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_sampler=sampler,
        collate_fn=ours.collate("varlen"),
        num_workers=workers,
        persistent_workers=persistent,
    )

    def items() -> list[int]:
        return [int(batch["label"]) // 10 for batch in loader]

    assert [items() for _ in range(2)] == wanted[:2]
    for epoch in (0, 2):
        sampler.set_epoch(epoch)
        assert items() == wanted[epoch]


def test_buckets_hold_equal_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 1000, 2000)
    spreads = [
        np.mean(
            [np.ptp(lengths[batch]) for batch in BatchSampler(lengths, items=20, buckets=buckets)]
        )
        for buckets in (1, 20)
    ]
    assert spreads[1] < spreads[0] / 10


def test_parts_of_a_dataset_have_lengths(words: Path) -> None:
    dataset = ours.Dataset(words)
    part = torch.utils.data.Subset(dataset, [4, 0, 3])
    both = torch.utils.data.ConcatDataset([part, dataset])
    for of, lengths in ((part, [4, 3, 1]), (both, [4, 3, 1, *LENGTHS])):
        sampler = ours.BatchSampler(of, items=2, shuffle=False)
        assert sampler.lengths.tolist() == lengths
        loader = torch.utils.data.DataLoader(
            of, batch_sampler=sampler, collate_fn=ours.collate("padded")
        )
        assert [n for batch in loader for n in batch["tokens"][1].tolist()] == lengths


def test_other_datasets_have_no_lengths(words: Path) -> None:
    """The items of a StackDataset are not those of its datasets one after another."""
    data, dataset = torch.utils.data, ours.Dataset(words)
    for of in (data.StackDataset(dataset, dataset), data.TensorDataset(torch.arange(3))):
        with pytest.raises(OptionError, match=f"ConcatDataset of such; found {type(of).__name__}"):
            ours.BatchSampler(of, items=2)
        with pytest.raises(OptionError, match=type(of).__name__):
            ours.BatchSampler(data.Subset(of, [0]), items=2)
    for of in (str(words), lodcli.LoDTensor([1, 2], [[2]])):
        with pytest.raises(OptionError, match=f"ConcatDataset of such; found {type(of).__name__}"):
            ours.BatchSampler(of, items=2)


def test_items_in_place_of_their_lengths_are_an_error_that_says_so() -> None:
    for items in ([torch.zeros(2), torch.zeros(3)], [[1, 2], [3]], ["ab"]):
        said = f"found a {type(items[0]).__name__}; those of a list of items are \\[len"
        with pytest.raises(OptionError, match=said):
            ours.BatchSampler(items, items=2)
    numbers = [torch.tensor(3), torch.tensor(4)]
    assert list(ours.BatchSampler(numbers, items=2, shuffle=False)) == [[0, 1]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give rows= or items="),
        ({"rows": 0}, "rows: expected at least 1"),
        ({"rows": 2.5}, "rows: expected a whole number, found 2.5"),
        ({"rows": 1, "items": True}, "items: expected a whole number, found True"),
        ({"rows": 1, "buckets": None}, "buckets: expected a whole number, found None"),
        ({"rows": 1, "shuffle": "no"}, "shuffle: expected True or False, found 'no'"),
        ({"rows": 1, "padded": 0}, "padded: expected True or False, found 0"),
        ({"rows": 1, "drop_last": None}, "drop_last: expected True or False, found None"),
        ({"rows": 1, "seed": -1}, "seed: expected at least 0"),
        ({"rows": 1, "seed": None}, "seed: expected a whole number, found None"),
    ],
)
def test_a_sampler_without_a_budget_is_an_error(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        BatchSampler([1], **options)


@pytest.mark.parametrize(
    ("epoch", "said"), [(-1, "at least 0, found -1"), ("a", "a whole number, found 'a'")]
)
def test_an_epoch_that_does_not_exist_is_an_error(epoch: Any, said: str) -> None:
    sampler = BatchSampler([1, 2], rows=5)
    with pytest.raises(InvalidDataError, match=f"epoch: expected {said}"):
        sampler.set_epoch(epoch)
    assert sum(map(len, sampler)) == 2


@pytest.mark.parametrize("lengths", [[1.5, 2.0], [[1, 2]], [True], [None], [3, -1], "12"])
def test_a_sampler_of_other_lengths_is_an_error(lengths: Any) -> None:
    with pytest.raises(InvalidDataError, match="lengths"):
        BatchSampler(lengths, rows=5)
