"""Dividing sequences into batches, and the padding of each strategy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lodcli.formats.items.items import Items
from lodcli.formats.items.random_order import shuffled
from lodcli.formats.structs.names import named
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.batch_plans import packed_batches, padded_batches
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.reports.batching import Cost


@dataclass(frozen=True, eq=False)
class Plan:
    """The sequences of a level and how they are batched.

    Attributes:
        name: the tensor whose rows are counted.
        tokens: the maximum number of rows in a batch.
        lengths: (S,) rows of each sequence, including those that are too long.
        chosen: the sequences that fit in a batch, in the order of batching.
        seed: for the order of packed batches; None: in the order of packing.
    """

    name: str
    tokens: int
    lengths: Array
    chosen: Offsets
    seed: int | None

    @classmethod
    def of(cls, items: Items, name: str | None, tokens: int, seed: int | None) -> Plan:
        """Return the plan for the items of a level."""
        deep = [one for one, lod in items.lods.items() if lod.n_levels]
        what = "expected a tensor"
        if name is not None:
            some = {spec.name for spec in named(items.schema, name)}
            deep, what = [one for one in deep if one in some], f"{name}: {what}"
        if not deep:
            raise SelectionError(f"{what} of at least one level, found none: no sequences to batch")
        name = "data" if "data" in deep else deep[0]
        ends = items.lods[name].absolute(0)
        others = [one for one in deep if not np.array_equal(items.lods[one].absolute(0), ends)]
        if others:
            raise SelectionError(
                f"{', '.join(dict.fromkeys([name, *others]))} differ in their lengths; choose one "
                "with FILE::NAME"
            )
        lengths = np.diff(ends)
        order = np.arange(items.count) if seed is None else shuffled(items.count, seed)
        return cls(name, tokens, lengths, order[lengths[order] <= tokens], seed)

    @property
    def too_long(self) -> int:
        """Number of sequences with more rows than a batch."""
        return self.lengths.size - self.chosen.size

    @cached_property
    def total(self) -> int:
        """Number of rows of the chosen sequences."""
        return int(self.lengths[self.chosen].sum())

    def cost(self, strategy: str) -> Cost:
        """Return the cost of a strategy."""
        if strategy == "pack":
            batches, padding = self.packed[1].size - 1, 0
        else:
            lengths = self.lengths[self.chosen]
            if strategy == "bucket":
                lengths.sort()  # in place: a copy of all lengths less
            borders = padded_batches(lengths, self.tokens)
            batches, padding = borders.size - 1, 0
            if batches:
                longest = np.maximum.reduceat(lengths, borders[:-1])
                padding = int((longest * np.diff(borders)).sum()) - self.total
        fill = self.total / (batches * self.tokens) if batches else 0.0
        return Cost(strategy, batches, padding, fill)

    @cached_property
    def packed(self) -> tuple[Offsets, Offsets]:
        """The items in order of packed batches, and where each batch begins."""
        order, batches = packed_batches(self.lengths[self.chosen], self.tokens)
        order = self.chosen[order]
        if self.seed is None or batches.size < 3:
            return order, batches
        mixed = shuffled(batches.size - 1, self.seed)
        counts = np.diff(batches)[mixed]
        ends = np.cumsum(counts)
        first = np.repeat(batches[mixed] - (ends - counts), counts)
        return order[first + np.arange(order.size)], np.concatenate([[0], ends])
