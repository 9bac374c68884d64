"""Concurrent reads of one open file return the same as separate reads."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli import LoD, LoDTensor
from lodcli.formats.core.format import Source
from lodcli.formats.core.io import write_batches
from lodcli.formats.core.schema import Batch, Item, schema_of

LENGTHS = np.random.default_rng(0).integers(1, 9, 3000)
WORDS = LoDTensor(np.arange(LENGTHS.sum()), LoD.from_lengths([LENGTHS.tolist()], names=["word"]))
OFFSETS = WORDS.lod.levels[0]
SMALL = 4096  # bytes a batch
ENDINGS = ["lod.h5", "lods", "npz", "jsonl", "json", "csv", "tfrecord", "tar", "jsonl.gz"]


@pytest.fixture(params=ENDINGS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    if request.param == "tfrecord":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"words.{request.param}"
    parts = [{"data": WORDS[start : start + 100]} for start in range(0, 3000, 100)]
    write_batches(path, schema_of({"data": WORDS}), parts)
    with lodcli.open(path, levels=["word"] if request.param == "csv" else None) as file:
        yield file


def _rows(batches: Iterable[Batch]) -> list[int]:
    return [row for batch in batches for row in _ravelled(*batch.values())]


def _ravelled(item: Item) -> list[int]:
    assert isinstance(item, LoDTensor)
    found: list[int] = np.ravel(item.data).tolist()
    return found


def test_two_readings_in_turns_each_give_everything(opened: Source) -> None:
    pairs = list(zip_longest(opened.batches(SMALL), opened.batches(SMALL)))
    assert len(pairs) > 1
    for batches in zip(*pairs, strict=True):
        assert _rows(filter(None, batches)) == WORDS.data.tolist()


def test_a_slice_between_two_batches_leaves_both_right(opened: Source) -> None:
    name = opened.schema[0].name
    found = []
    for number, batch in enumerate(opened.batches(1 << 15)):
        found.append(batch)
        start = 100 * number
        expected = WORDS.data[OFFSETS[start] : OFFSETS[start + 3]]
        got = opened.slice(name, (slice(start, start + 3),))
        np.testing.assert_array_equal(np.ravel(got.data), expected)
    assert _rows(found) == WORDS.data.tolist()


def test_threads_slice_one_open_file(opened: Source) -> None:
    name = opened.schema[0].name

    def sliced(start: int) -> list[int]:
        return _ravelled(opened.slice(name, (slice(start, start + 20),)))

    starts = list(range(0, 2900, 290))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(sliced, starts))
    assert found == [WORDS.data[OFFSETS[at] : OFFSETS[at + 20]].tolist() for at in starts]


def test_a_file_is_read_further_after_it_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "words.jsonl"
    lodcli.write(path, WORDS)
    with lodcli.open(path) as file:
        begun = file.batches(SMALL)
        first = next(begun)
        lodcli.write(path, LoDTensor([1, 2], [[2]]), overwrite=True)
        assert _rows(file.batches(SMALL)) == WORDS.data.tolist()
        assert _rows([first, *begun]) == WORDS.data.tolist()
