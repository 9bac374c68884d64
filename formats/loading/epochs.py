"""The order of an epoch: the items of each batch, from only their lengths and a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lodcli.kernels.index.checks import Offsets, lengths_to_offsets

# A pool consists of this many runs of neighbours: fewer ranges to read than items, while items are
# pooled with other neighbours in the next epoch.
RUNS = 8


@dataclass(frozen=True)
class Epoch:
    """The batches of an epoch.

    Attributes:
        order: (K,) numbers of items, batch after batch; ascending within a batch.
        ends: (B + 1,) offsets of the batches in `order`.
        pools: (P + 1,) offsets of the pools in batches; batches of one pool are consecutive.
    """

    order: Offsets
    ends: Offsets
    pools: Offsets

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, batch: int) -> Offsets:
        return self.order[self.ends[batch] : self.ends[batch + 1]]

    def pool_of(self, batch: int) -> int:
        """Return the number of the pool of a batch."""
        return int(np.searchsorted(self.pools, batch, "right")) - 1

    def pool(self, number: int) -> Offsets:
        """Return the items of a pool, in the order of its batches."""
        first, last = self.ends[self.pools[number : number + 2]]
        return self.order[first:last]


def epoch(
    lengths: Offsets,
    *,
    tokens: int | None,
    items: int | None,
    pool: int,
    seed: tuple[int, int] | None,
) -> Epoch:
    """Return the batches of an epoch, with each item in one of them.

    A batch takes items of similar lengths from one pool, with at most `tokens` rows in total; a
    longer item is a batch by itself. Memory is a few arrays of K.

    Args:
        lengths: (K,) rows of each item.
        tokens: maximum number of rows of a batch; None: any.
        items: maximum number of items of a batch; None: any.
        pool: number of items that are shuffled and sorted by length together.
        seed: of the random order, and the number of the epoch. None: items in their order.

    >>> found = epoch(np.array([5, 1, 4, 2, 9]), tokens=6, items=None, pool=8, seed=None)
    >>> [found[batch].tolist() for batch in range(len(found))]
    [[0, 1], [2, 3], [4]]
    """
    if seed is None:
        ends = _cut(lengths, tokens, items)
        return Epoch(np.arange(lengths.size), ends, np.arange(ends.size))
    random = np.random.default_rng(seed)
    empty = np.zeros(0, np.int64)
    orders, sizes = [empty], [empty]
    for part in _pools(lengths.size, pool, random):
        random.shuffle(part)
        part = part[np.argsort(lengths[part], kind="stable")]
        counts = np.diff(_cut(lengths[part], tokens, items))
        places = random.permutation(counts.size)
        orders.append(part[np.lexsort((part, np.repeat(places, counts)))])
        counts[places] = counts.copy()
        sizes.append(counts)
    ends = lengths_to_offsets(np.concatenate(sizes), level=0)
    pools = lengths_to_offsets(np.array([each.size for each in sizes[1:]], np.int64), level=0)
    return Epoch(np.concatenate(orders), ends, pools)


def _pools(count: int, pool: int, random: np.random.Generator) -> list[Offsets]:
    """Return the items of each pool; runs have other borders in every epoch."""
    size = max(1, pool // RUNS)
    borders = np.arange(-random.integers(size), count + size, size).clip(0, count)
    starts = borders[:-1]
    order = random.permutation(starts.size)
    runs = [np.arange(borders[place], borders[place + 1]) for place in order]
    runs = [run for run in runs if run.size]
    return [np.concatenate(runs[at : at + RUNS]) for at in range(0, len(runs), RUNS)]


def _cut(lengths: Offsets, tokens: int | None, items: int | None) -> Offsets:
    """Return the offsets of batches of items in this order."""
    if tokens is None:
        return np.append(np.arange(0, lengths.size, items), lengths.size)
    sums = np.cumsum(lengths)
    borders, before = [0], 0
    while (start := borders[-1]) < lengths.size:
        stop = max(int(np.searchsorted(sums, before + tokens, "right")), start + 1)
        stop = stop if items is None else min(stop, start + items)
        borders.append(stop)
        before = int(sums[stop - 1])
    return np.array(borders, np.int64)
