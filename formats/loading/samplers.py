"""Batches of items by their lengths: with a maximum number of rows, and from buckets."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import OptionError, SelectionError, counted
from lodcli.kernels.index.checks import Offsets, as_int64


def require_counts(what: str, **given: object) -> None:
    """Raise OptionError unless each argument is a whole number of at least 1."""
    for name, value in given.items():
        require_whole(what, name, value, 1)


def require_maxima(what: str, **given: object) -> None:
    """Raise OptionError unless at least one argument is not None, and those are counts."""
    maxima = {name: value for name, value in given.items() if value is not None}
    if not maxima:
        names = " or ".join(f"{name}=" for name in given)
        raise OptionError(f"{what}: give {names}, the maximum of a batch")
    require_counts(what, **maxima)


def require_booleans(what: str, **given: object) -> None:
    """Raise OptionError unless each argument is True or False."""
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise OptionError(f"{what}: {name}: expected True or False, found {value!r}")


def require_whole(
    what: str, name: str, value: object, least: int = 0, most: int | None = None
) -> None:
    """Raise OptionError unless an argument is a whole number from `least` to `most`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise OptionError(f"{what}: {name}: expected a whole number, found {value!r}")
    if value < least:
        raise OptionError(f"{what}: {name}: expected at least {least}, found {value}")
    if most is not None and value > most:
        raise OptionError(f"{what}: {name}: expected at most {most}, found {value}")


def require_state(
    what: str, state: Any, order: Mapping[str, object], position: AbstractSet[str]
) -> None:
    """Raise OptionError unless a state has these settings, which the order depends on.

    Args:
        what: the class, for the message.
        state: the result of its `state_dict`.
        order: the settings.
        position: names of the other entries of a state.
    """
    if not isinstance(state, Mapping):
        found = type(state).__name__
        raise OptionError(f"{what}: expected what state_dict() returned, found {found}")
    if missing := sorted((order.keys() | position) - state.keys()):
        raise OptionError(f"{what}: the state has no {', '.join(missing)}")
    for name, value in order.items():
        found = state[name]
        # The type first: a comparison with an array is an array.
        if not isinstance(found, int | np.integer | np.bool_ | None) or found != value:
            raise OptionError(
                f"{what}: the state was saved with {name}={found!r}, this one has {value!r}"
            )


def plain_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state without numbers of NumPy, which torch.load and JSON do not take."""
    plain = {name: one.item() for name, one in state.items() if isinstance(one, np.generic)}
    return {**state, **plain}


def lengths_crc32(lengths: Offsets) -> int:
    """Return a checksum of the lengths of items, for states: the order depends on them."""
    return zlib.crc32(np.ascontiguousarray(lengths, "<i8").data)


def item_numbers(places: Any, count: int, where: str) -> Offsets:
    """Return the numbers of items as an array, (K,); negative ones count from the end.

    Args:
        places: as given.
        count: number of items that there are.
        where: the file or the function, for messages.

    Raises:
        SelectionError: they are not whole numbers, or there is no such item.
    """
    try:
        wanted = np.asarray(places)
    except ValueError:  # lists in it are of different lengths
        wanted = np.empty((0, 0))
    if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
        whole = isinstance(places, Sequence)
        # Not all of them in the message: a Subset may have millions.
        for one in places if whole else [places]:
            if not whole or not isinstance(one, int | np.integer) or isinstance(one, bool):
                raise SelectionError(f"{where}: an item has a whole number, found {one!r}")
        wanted = np.asarray(places, object)  # numbers too large for int64
    # Before the cast: large unsigned numbers would become negative.
    for place in wanted[(wanted < -count) | (wanted >= count)][:1]:
        raise SelectionError(f"{where}: no item {place}, there are {count}")
    wanted = wanted.astype(np.int64)
    return np.where(wanted < 0, wanted + count, wanted)


def _lengths(of: Any) -> npt.ArrayLike:
    """Return the lengths of a dataset, or of torch's Subset or ConcatDataset, or those given."""
    if hasattr(of, "lengths"):
        found: npt.ArrayLike = of.lengths
        return found
    if hasattr(of, "dataset") and hasattr(of, "indices"):
        whole = np.asarray(_lengths(of.dataset))
        return whole[item_numbers(of.indices, len(whole), "BatchSampler")]
    if hasattr(of, "cumulative_sizes"):
        return np.concatenate([np.asarray(_lengths(one)) for one in of.datasets])
    listed = isinstance(of, Sequence) and not isinstance(of, str)
    if hasattr(of, "lod") or not (listed or hasattr(of, "__array__")):
        raise OptionError(
            "BatchSampler: lengths: expected a list or an array, a Dataset of lod, or a Subset or "
            f"ConcatDataset of such; found {type(of).__name__}"
        )
    first: Any = of[0] if listed and of else 0
    if hasattr(first, "__len__") and getattr(first, "ndim", True):  # a number of torch has a length
        raise OptionError(
            "BatchSampler: lengths: expected the number of rows of each item, found a "
            f"{type(first).__name__}; those of a list of items are [len(item) for item in items]"
        )
    given: npt.ArrayLike = of
    return given


class BatchSampler:
    """Batches of item numbers, as `batch_sampler` of torch.utils.data.DataLoader.

    A batch ends before it would exceed a maximum; an item that exceeds it is a batch by itself.
    Every item is in one batch of an epoch. Each epoch has another order, which depends only on the
    seed and the number of the epoch. Its iterators have `state_dict` and `load_state_dict`, with
    which torchdata's StatefulDataLoader continues in the middle of an epoch.

    Args:
        lengths: the number of rows of every item, or an object with `lengths`, such as a Dataset;
            also torch's Subset or ConcatDataset of such objects.
        rows: maximum number of rows of a batch.
        items: maximum number of items of a batch.
        padded: whether `rows` includes padding: items times the longest.
        buckets: number of buckets of about equal lengths; the items of a batch are from one
            bucket. 1: a batch may have any lengths.
        shuffle: whether items and batches are in a random order.
        seed: seed of the random order.
        drop_last: whether to leave out the last batch of each bucket if another item would fit.

    Raises:
        OptionError: no lengths, a negative length, neither `rows` nor `items`, a number that is not
            whole or is below 1, a negative seed, or another value than True and False for
            `padded`, `shuffle` or `drop_last`.
        SelectionError: a Subset has an index that is not a whole number, or no such item.

    >>> sampler = BatchSampler([5, 1, 4, 2, 9], rows=6, shuffle=False)
    >>> list(sampler)
    [[0, 1], [2, 3], [4]]
    >>> list(BatchSampler([5, 1, 4, 2], items=2, buckets=2, shuffle=False))
    [[1, 3], [2, 0]]
    """

    def __init__(
        self,
        lengths: Any,
        *,
        rows: int | None = None,
        items: int | None = None,
        padded: bool = False,
        buckets: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        require_maxima("BatchSampler", rows=rows, items=items)
        require_counts("BatchSampler", buckets=buckets)
        require_booleans("BatchSampler", padded=padded, shuffle=shuffle, drop_last=drop_last)
        require_whole("BatchSampler", "seed", seed)
        self.lengths: Offsets = as_int64(_lengths(lengths), level=0, what="lengths")
        least = self.lengths.min(initial=0)
        if least < 0:
            raise OptionError(f"BatchSampler: lengths: expected 0 or more rows, found {least}")
        self.rows, self.items, self.padded = rows, items, padded
        self.buckets, self.shuffle, self.seed, self.drop_last = buckets, shuffle, seed, drop_last
        self.epoch = 0
        self._made: tuple[int, list[list[int]]] = (-1, [])

    def __repr__(self) -> str:
        names = ("rows", "items", "padded", "buckets", "shuffle", "seed", "drop_last", "epoch")
        said = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"<BatchSampler of {counted(self.lengths.size, 'item')}: {said}>"

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, from 0; by default each one begins the next.

        An iteration begins with its first batch.
        """
        require_whole("BatchSampler", "epoch", epoch)
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches of the next epoch."""
        return len(self._batches(self.epoch))

    def __iter__(self) -> Iterator[list[int]]:
        return _Iterator(self)

    @cached_property
    def _crc32(self) -> int:
        return lengths_crc32(self.lengths)

    def _order(self) -> dict[str, Any]:
        """Return the settings that the order depends on."""
        names = ("rows", "items", "padded", "buckets", "shuffle", "seed", "drop_last")
        of_lengths = {"count": self.lengths.size, "lengths_crc32": self._crc32}
        return of_lengths | {name: getattr(self, name) for name in names}

    def _batches(self, epoch: int) -> list[list[int]]:
        if self._made[0] != epoch:
            random = np.random.default_rng([self.seed, epoch])
            order = np.arange(self.lengths.size)
            if self.shuffle:
                random.shuffle(order)
            found = []
            for bucket in self._bucketed(order):
                found += self._cut(bucket)
            if self.shuffle and self.buckets > 1:
                random.shuffle(found)
            self._made = epoch, found
        return self._made[1]

    def _bucketed(self, order: Offsets) -> list[Offsets]:
        if self.buckets == 1:
            return [order]
        # A stable sort of shuffled items: those of equal lengths stay in random order.
        ascending = order[np.argsort(self.lengths[order], kind="stable")]
        parts = np.array_split(ascending, self.buckets)
        if not self.shuffle:
            return parts
        places = np.empty_like(order)
        places[order] = np.arange(order.size)
        return [part[np.argsort(places[part])] for part in parts]

    def _cut(self, order: Offsets) -> list[list[int]]:
        rows = self.rows or np.iinfo(np.int64).max
        items = self.items or order.size
        batches: list[list[int]] = []
        batch: list[int] = []
        cost = 0
        for item, length in zip(order.tolist(), self.lengths[order].tolist(), strict=True):
            more = max(cost, length) if self.padded else cost + length
            size = more * (len(batch) + 1) if self.padded else more
            if batch and (size > rows or len(batch) == items):
                batches.append(batch)
                batch, more = [], length
            batch.append(item)
            cost = more
        if batch and not (self.drop_last and self._fits_more(batch, cost, rows, items)):
            batches.append(batch)
        return batches

    def _fits_more(self, batch: list[int], cost: int, rows: int, items: int) -> bool:
        """Return whether an item of one row would fit."""
        size = max(cost, 1) * (len(batch) + 1) if self.padded else cost + 1
        return len(batch) < items and size <= rows


class _Iterator(Iterator[list[int]]):
    """The batches of an epoch, with a state.

    The epoch begins with the first batch: a DataLoader with workers makes two iterators for an
    epoch, and uses one.
    """

    def __init__(self, sampler: BatchSampler) -> None:
        self._sampler = sampler
        self._position: tuple[int, int] | None = None  # the epoch, and the batches taken of it
        self._batches: list[list[int]] = []

    def __next__(self) -> list[int]:
        epoch, taken = self._position or self._begin(self._sampler.epoch, 0)
        if taken >= len(self._batches):
            raise StopIteration
        self._position = epoch, taken + 1
        return self._batches[taken]

    def _begin(self, epoch: int, taken: int) -> tuple[int, int]:
        """Begin an epoch after some batches; the next iteration of the sampler begins the next."""
        self._batches = self._sampler._batches(epoch)
        self._position = epoch, taken
        self._sampler.set_epoch(epoch + 1)
        return self._position

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the epoch."""
        epoch, taken = self._position or (self._sampler.epoch, 0)
        return plain_state(self._sampler._order() | {"epoch": epoch, "taken": taken})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; the next iteration of the sampler begins the epoch after it.

        Raises:
            OptionError: `state_dict` did not return it, or the sampler has another order.
        """
        require_state("BatchSampler", state, self._sampler._order(), {"epoch", "taken"})
        epoch, taken = state["epoch"], state["taken"]
        require_whole("BatchSampler: the state", "epoch", epoch)
        most = len(self._sampler._batches(epoch))
        require_whole("BatchSampler: the state", "taken", taken, most=most)
        self._begin(epoch, taken)
