"""The batches of a file as an iterable dataset of torch, divided among ranks and resumable."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import FrameType
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch

from lodcli.formats.core.limits import Limits
from lodcli.formats.core.options import ReadKeywords
from lodcli.formats.loading.dataset_torch import Batch, Collate, Dataset, Layout
from lodcli.formats.loading.epochs import Epoch, epoch
from lodcli.formats.loading.handing_torch import in_worker
from lodcli.formats.loading.samplers import (
    item_numbers,
    lengths_crc32,
    plain_state,
    require_booleans,
    require_counts,
    require_maxima,
    require_state,
    require_whole,
)
from lodcli.kernels.errors import OptionError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.platform.files import PathLike

# Reading a single item costs as much time as copying this many bytes.
ITEM_BYTES = 64 << 10
POOL_BYTES = 256 << 20
MOST = np.iinfo(np.int64).max
# How a file is read, of a Dataset that is given.
_DEFAULTS: Mapping[str, Any] = {"level": 0, "in_memory": False, "limits": None}
_POSITION = {"epoch", "taken", "given", "worker"}  # in a state, beside the settings of the order


class Batches(torch.utils.data.IterableDataset[Any]):
    """Batches with a maximum number of rows or items, of items of similar lengths.

    Iterate over it, or give it to a DataLoader or to torchdata's StatefulDataLoader, with
    `batch_size=None`: otherwise these would join batches. Workers may be forked or spawned.

    The order of an epoch depends only on `seed` and the number of the epoch. Rank r of W takes
    every W-th batch from the r-th on. The workers of a DataLoader divide the batches of their rank
    in the same way: the order is the same for any number of workers. Every rank gets equally many:
    the first batches of the epoch are repeated at its end, or `drop_last` leaves out the last.

    Call `set_epoch` before each epoch, as for torch's DistributedSampler. Without worker
    processes the next epoch begins automatically.

    Args:
        path: a file that can be read in any order, or FILE::NAME; or a dataset: a folder of
            `lod shard`. Also a Dataset, or a Subset of one, as random_split of torch makes; then
            without `name`, `level`, `in_memory`, `limits` and keywords.
        name: a tensor to read alone. None: all that share the level.
        tokens: maximum number of rows of a batch; a longer item is a batch by itself.
        items: maximum number of items of a batch. Either may be None: any number.
        level: the level whose sequences are the items, a number or a name.
        layout, pad_value: of a batch: see `collate`.
        shuffle: whether items are in random order. Otherwise in the order of the file.
        seed: of the random order.
        pool: number of items that are shuffled and sorted by length together. They are eight runs
            of neighbours in the file, which are read faster than scattered items.
        drop_last: whether to leave out the last batches if there is not one for each rank.
        rank, world: number of this process, and of all; by default from torch.distributed.
        in_memory, limits, keywords: see `Dataset`.

    Raises:
        OptionError: neither `tokens` nor `items`, a number that is not whole or is below 1, another
            value than True and False for `shuffle` or `drop_last`, a rank that is not below
            `world`, or an argument of a Dataset beside one. On iteration: a DataLoader has a
            batch_size.
        SelectionError: a Subset has an index that is not a whole number, or no such item.
        UnsupportedError, SelectionError, OSError, LodError: see `Dataset`.

    >>> batches = Batches("samples/events.jsonl", tokens=64, level=1, in_memory=True)
    >>> first = next(iter(batches))
    >>> int(first.cu_seqlens[-1]) == len(first.values) <= 64
    True
    """

    def __init__(
        self,
        path: PathLike | Dataset | torch.utils.data.Subset[Any],
        name: str | None = None,
        *,
        tokens: int | None = None,
        items: int | None = None,
        level: int | str = 0,
        layout: Layout = "varlen",
        pad_value: npt.ArrayLike | Mapping[str, npt.ArrayLike] = 0,
        shuffle: bool = True,
        seed: int = 0,
        pool: int = 16384,
        drop_last: bool = False,
        rank: int | None = None,
        world: int | None = None,
        in_memory: bool = False,
        limits: Limits | None = None,
        **keywords: Unpack[ReadKeywords],
    ) -> None:
        self.rank, self.world = _place(rank, world)
        require_maxima("Batches", tokens=tokens, items=items)
        require_counts("Batches", pool=pool)
        require_booleans("Batches", shuffle=shuffle, drop_last=drop_last)
        require_whole("Batches", "seed", seed)
        how: dict[str, Any] = {"level": level, "in_memory": in_memory, "limits": limits, **keywords}
        self.dataset: Dataset | _Part = _dataset(path, name, how)
        if shuffle and isinstance(self.dataset, _Part):
            self.dataset = self.dataset.in_order_of_file()
        self.tokens, self.items, self.pool, self.seed = tokens, items, pool, seed
        self.shuffle, self.drop_last = shuffle, drop_last
        self._collate = Collate(layout, pad_value, "Batches")
        # The epoch, and its first batch that no rank has taken yet. In shared memory, so that
        # persistent workers see changes by set_epoch.
        self._begin: torch.Tensor = torch.zeros(2, dtype=torch.int64, device="cpu")
        self._begin.share_memory_()  # type: ignore[no-untyped-call]
        # Batches returned by this process since then, and skipped when it continued from a state.
        self._given = self._skipped = 0
        # The epoch that this process ended, where it began and its number of batches, until the
        # next begins: `batches` of state_dict counts from there.
        self._ended: tuple[int, int, int] | None = None
        self._made: tuple[int, Epoch] | None = None

    def __repr__(self) -> str:
        names = (
            "tokens",
            "items",
            "shuffle",
            "seed",
            "pool",
            "drop_last",
            "rank",
            "world",
            "epoch",
        )
        said = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"<Batches of {self.dataset!r}: {said}>"

    @property
    def epoch(self) -> int:
        """The number of the epoch; the first is 0."""
        return int(self._begin[0])

    def set_epoch(self, number: int) -> None:
        """Begin an epoch; if `load_state_dict` continued it, continue where it was."""
        require_whole("Batches", "epoch", number, most=MOST)
        self._ended = None
        if number != self.epoch:
            self._begin[0], self._begin[1] = number, 0
            self._given = self._skipped = 0

    def __len__(self) -> int:
        """Return the number of batches of this rank in the rest of the epoch."""
        return self._rounds(len(self._epoch()) - int(self._begin[1]))

    def _rounds(self, left: int) -> int:
        return max(0, left // self.world if self.drop_last else -(-left // self.world))

    def __iter__(self) -> Iterator[Any]:
        _refuse_joining(sys._getframe(1))
        number, batches, begin, rounds = self.epoch, self._epoch(), int(self._begin[1]), len(self)
        worker, workers = _worker()
        read = _Reader(self.dataset, batches, self.world * workers)
        self._given, self._skipped, self._ended = self._skipped, 0, None
        for turn in range(self._given * workers + worker, rounds, workers):
            place = (begin + turn * self.world + self.rank) % len(batches)
            found = self._collate(read(place))
            self._given = turn // workers + 1
            yield found
        if not in_worker():
            self.set_epoch(number + 1)
            self._ended = number, begin, len(batches)

    def _epoch(self, number: int | None = None) -> Epoch:
        number = self.epoch if number is None else number
        if self._made is None or self._made[0] != number:
            seed = (self.seed, number) if self.shuffle else None
            order = epoch(
                self.dataset.lengths,
                tokens=self.tokens,
                items=self.items,
                pool=self.pool,
                seed=seed,
            )
            self._made = number, order
        return self._made[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": None}

    # -- resuming ------------------------------------------------------------------

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return the position in the epoch for `load_state_dict` with any ranks and workers.

        Args:
            batches: number of batches that this rank took since the epoch began or a state was
                loaded; after the last batch, of the epoch that ended, until the next begins; 0
                is the beginning of the next if no worker read it. By default the number that this
                process returned, which must be given if a DataLoader has workers.

        Raises:
            OptionError: `batches` is not a number from 0 to that of the rest of the epoch.
        """
        if batches and self._ended is not None:
            number, taken, count = self._ended
        else:
            number, taken, count = self.epoch, int(self._begin[1]), len(self._epoch())
        if batches is not None:
            most = self._rounds(count - taken)
            require_whole("Batches", "batches since the epoch began", batches, most=most)
        given = self._given if batches is None else batches
        worker = list(_worker())
        if worker == [0, 1]:
            # The last batches may be the first again, for as many on every rank.
            taken, given = min(taken + given * self.world, count), 0
        position = {"epoch": number, "taken": taken, "given": given, "worker": worker}
        return plain_state(self._order() | position)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            OptionError: the state is of batches in another order, of other items (those of another
                random_split, for example), or of one of several workers, or `state_dict` did not
                return it.
        """
        if isinstance(state, Mapping):
            # Before a Subset could be given, states had no checksum of its items.
            state = {"items_crc32": None, **state}
        require_state("Batches", state, self._order(), _POSITION)
        require_whole("Batches: the state", "epoch", state["epoch"], most=MOST)
        left = len(self._epoch(state["epoch"]))
        for name in ("taken", "given"):
            require_whole("Batches: the state", name, state[name], most=left)
            left -= state[name]
        worker = state["worker"]
        if not isinstance(worker, list) or len(worker) != 2:
            raise OptionError(
                f"Batches: the state: worker: expected its number and how many, found {worker!r}"
            )
        if worker not in ([0, 1], list(_worker())):
            raise OptionError(
                "Batches: the state is of worker {} of {}; to continue with another number of "
                "workers, load state_dict(batches) of the main process".format(*worker)
            )
        self._begin[0], self._begin[1] = state["epoch"], state["taken"]
        self._given, self._skipped, self._ended = 0, state["given"], None

    def _order(self) -> dict[str, Any]:
        """Return the settings that the order depends on."""
        names = ("seed", "tokens", "items", "pool", "shuffle")
        part = self.dataset if isinstance(self.dataset, _Part) else None
        of_items = {
            "count": len(self.dataset),
            "lengths_crc32": self._crc32,
            "items_crc32": None if part is None else part.items_crc32,
        }
        return of_items | {name: getattr(self, name) for name in names}

    @cached_property
    def _crc32(self) -> int:
        return lengths_crc32(self.dataset.lengths)


class _Part:
    """Some items of a Dataset, like a Dataset of them.

    Args:
        whole: the dataset.
        items: their numbers.
    """

    def __init__(self, whole: Dataset, items: Offsets) -> None:
        self._whole, self._items = whole, items

    def of(self, places: Offsets) -> _Part:
        """Return some of these items, in this order."""
        return _Part(self._whole, self._items[places])

    def in_order_of_file(self) -> _Part:
        """Return these items with neighbours in the file side by side, for pools."""
        return _Part(self._whole, np.sort(self._items))

    @property
    def label(self) -> str:
        return self._whole.label

    @cached_property
    def items_crc32(self) -> int:
        return lengths_crc32(self._items)

    def __repr__(self) -> str:
        return f"{len(self)} of {self._whole!r}"

    def __len__(self) -> int:
        return self._items.size

    @property
    def lengths(self) -> Offsets:
        return self._whole.lengths[self._items]

    def __getitems__(self, places: Offsets) -> Batch:
        return self._whole.__getitems__(self._items[places])

    def bytes_of(self, places: Offsets) -> int | None:
        return self._whole.bytes_of(self._items[places])


def _dataset(of: Any, name: str | None, how: Mapping[str, Any]) -> Dataset | _Part:
    """Return the dataset of a file, or the one given, or the part of one that a Subset is.

    Raises:
        OptionError: a Subset of another dataset, or a class of the user whose items this would
            not return; or a name or options beside a dataset.
        SelectionError: an index of a Subset is not the number of an item.
    """
    if not isinstance(of, torch.utils.data.Dataset):
        return Dataset(of, name, **how)
    given = [one for one, default in _DEFAULTS.items() if how[one] != default]
    given += [*(["name"] if name is not None else []), *(how.keys() - _DEFAULTS.keys())]
    if given:
        raise OptionError(f"Batches: {given[0]}: give it to the Dataset, not beside one")
    if isinstance(of, torch.utils.data.Subset):
        _refuse_own_items(of, torch.utils.data.Subset, ("__getitem__", "__getitems__"))
        whole = _dataset(of.dataset, None, _DEFAULTS)
        places = item_numbers(of.indices, len(whole), whole.label)
        return whole.of(places) if isinstance(whole, _Part) else _Part(whole, places)
    if not isinstance(of, Dataset):
        raise OptionError(
            "Batches: path: expected a file, a Dataset of lod or a Subset of one, found "
            f"{type(of).__name__}; a DataLoader with BatchSampler takes others"
        )
    if type(of).__getitems__ is Dataset.__getitems__:  # which is what reads the batches
        _refuse_own_items(of, Dataset, ("__getitem__",))
    return of


def _refuse_own_items(of: object, base: type, methods: tuple[str, ...]) -> None:
    """Raise OptionError if a class changes items with a method that would not be called."""
    for method in methods:
        if getattr(type(of), method) is not getattr(base, method):
            raise OptionError(
                f"Batches: path: {type(of).__name__} has a {method} of its own, which would not be "
                f"called: give it a {base.__name__} without it and change the batches, or take a "
                "DataLoader with BatchSampler"
            )


class _Reader:
    """Reads batches: a whole pool at once if that is faster than item by item.

    Args:
        dataset: to read.
        batches: of an epoch.
        share: number of readers that share the batches of a pool.
    """

    def __init__(self, dataset: Dataset | _Part, batches: Epoch, share: int) -> None:
        self._dataset, self._batches, self._share = dataset, batches, share
        self._number = -1
        self._items: Offsets = np.zeros(0, np.int64)
        self._pool: Batch | None = None

    def __call__(self, number: int) -> Batch:
        items = self._batches[number]
        pool = self._batches.pool_of(number)
        if pool != self._number:
            self._number, self._pool = pool, None
            self._items = np.sort(self._batches.pool(pool))
            size = self._dataset.bytes_of(self._items)
            most = min(POOL_BYTES, ITEM_BYTES * self._items.size // self._share)
            if size is not None and size <= most:
                self._pool = self._dataset.__getitems__(self._items)
        if self._pool is None:
            return self._dataset.__getitems__(items)
        return self._pool.take(np.searchsorted(self._items, items))


def _refuse_joining(caller: FrameType) -> None:
    """Raise OptionError if a DataLoader would join batches.

    By default it joins one, which adds an axis. A dataset has no other access to batch_size.
    """
    # By the attributes of torch's fetcher: its class is private.
    fetcher = caller.f_locals.get("self")
    joins = getattr(fetcher, "auto_collation", False) is True
    if joins and getattr(fetcher, "collate_fn", None) is torch.utils.data.default_collate:
        raise OptionError(
            "Batches: the DataLoader would join several batches to one; give it batch_size=None, "
            "and Batches the size: tokens= or items="
        )


def _worker() -> tuple[int, int]:
    """Return the number of this worker of a DataLoader, and the number of workers."""
    found = torch.utils.data.get_worker_info()
    return (0, 1) if found is None else (found.id, found.num_workers)


def _place(rank: int | None, world: int | None) -> tuple[int, int]:
    """Return the rank and the number of ranks; from torch.distributed if neither is given."""
    if rank is None and world is None:
        group = torch.distributed
        if group.is_available() and group.is_initialized():
            return group.get_rank(), group.get_world_size()
        return 0, 1
    if rank is None or world is None:
        # Not rank 0 of a world: every process would get the same batches.
        given, missing = ("rank", "world") if world is None else ("world", "rank")
        raise OptionError(
            f"Batches: {given}= needs {missing}=; without both, those of torch.distributed are used"
        )
    require_whole("Batches", "world", world, 1)
    require_whole("Batches", "rank", rank)
    if not rank < world:
        raise OptionError(f"Batches: rank: expected 0 to {world - 1}, found {rank}")
    return rank, world
