"""The items that `lod filter` keeps."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from lodcli.commands.choose.expression import Expression
from lodcli.commands.choose.outcomes import outcomes
from lodcli.formats.arrays.budget import require_fits
from lodcli.formats.choosing.choice import ALL_ITEMS, ValueRange
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Batch, tensor_of
from lodcli.formats.items.items import Items
from lodcli.formats.items.sharing import Shared
from lodcli.formats.items.taking import item_count, taken
from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Times
from lodcli.kernels.tensor.nulls import Mask

# For --indices: the maximum length of a line, the number of lines between checks of the memory
# budget, and the bytes of an int in a list.
_LINE_CHARS, _CHECKED, _NUMBER_BYTES = 1000, 1 << 14, 40
# Bytes of a row in masks and among the numbers of chosen rows.
_ROW_BYTES = 20


class Filter:
    """Selects the items to keep.

    Args:
        shared: the level and its tensors.
        expression: the condition; None: no condition.
        numbers: the items that may be kept, increasing; None: all.
        invert: whether the other items are kept instead.
        lead: the tensor that length() refers to if it names none.

    Raises:
        ExpressionError: the expression does not fit the tensors.
    """

    def __init__(
        self,
        shared: Shared,
        expression: Expression | None,
        numbers: Offsets | None,
        *,
        invert: bool,
        lead: str | None,
    ) -> None:
        self._schema, self._level = shared.schema, shared.level
        self._expression = expression
        self._numbers = numbers
        self._invert = invert
        # Of the items so far.
        self._count = 0
        if expression is not None:
            expression.check(self._schema, lead)
            name, marks = expression.marks_of(expression.tree)
            if isinstance(marks.unit, Times | Categories):
                expression.fail(
                    expression.tree, f"{name} is {marks.unit}; compare it, as in x == y"
                )

    def of_index(self, items: Items) -> Offsets:
        """Return the items to keep, for an expression that uses no values of tensors."""
        self._require_room(items.count)
        mask = np.ones(items.count, np.bool_)
        if self._expression is not None:
            mask &= self._expression.of_index(items).true
        self._check_numbers(items.count)
        return np.flatnonzero(self._listed(mask, 0) ^ self._invert).astype(np.int64, copy=False)

    def of(
        self, batches: Iterable[tuple[int, dict[str, LoDTensor]]]
    ) -> Iterator[dict[str, LoDTensor]]:
        """Yield batches of the items to keep; at least one batch.

        Args:
            batches: each with the number of its first item.
        """
        came = False
        for first, batch in batches:
            mask = self._mask(batch, first)
            if mask.all():
                came = True
                yield batch
            elif mask.any() or not came:
                came = True
                yield taken(batch, np.flatnonzero(mask))
        self._check_numbers(self._count)

    @property
    def deciding(self) -> Sequence[str]:
        """See Choice."""
        return () if self._expression is None else self._expression.read_names(self._schema)

    @property
    def span(self) -> range:
        """See Choice."""
        return ALL_ITEMS

    def of_ranges(self, ranges: Mapping[str, Sequence[ValueRange]], offsets: Offsets) -> Mask:
        """See Choice."""
        self._count = max(self._count, int(offsets[-1]))
        sizes = listed = np.diff(offsets)
        if self._numbers is not None:
            listed = np.diff(np.searchsorted(self._numbers, offsets))
        true, untrue = listed > 0, listed < sizes
        if self._expression is not None:
            found = outcomes(self._expression, self._schema, ranges, sizes.size)
            true &= found.true
            untrue |= (sizes > 0) & (found.false | found.null)
        return untrue if self._invert else true

    def of_batch(self, batch: Batch, first: int) -> bool:
        """See Choice."""
        tensors = {name: tensor_of(item) for name, item in batch.items()}
        return bool(self._mask(tensors, first).any())

    def _mask(self, batch: Mapping[str, LoDTensor], first: int) -> Mask:
        """Return which items of a batch to keep, the first of which has the number `first`."""
        count = item_count(batch)
        self._count = max(self._count, first + count)
        self._require_room(count)
        mask = np.ones(count, np.bool_)
        if self._expression is not None:
            mask &= self._expression.of_batch(batch, first, count).true
        return self._listed(mask, first) ^ self._invert

    def _require_room(self, count: int) -> None:
        """Raise TooLargeError for more rows without bytes than fit into memory as numbers.

        No size of a file limits how many there are.
        """
        if all(not spec.row_bytes and not spec.levels for spec in self._schema):
            names = listing(spec.name for spec in self._schema)
            require_fits(f"{names}: {count} rows without values", count * _ROW_BYTES, 1)

    def _listed(self, mask: Mask, first: int) -> Mask:
        """Return the mask of the items from `first` on, False for items that are not listed."""
        if self._numbers is None:
            return mask
        start, stop = np.searchsorted(self._numbers, [first, first + mask.size])
        listed = np.zeros_like(mask)
        listed[self._numbers[start:stop] - first] = True
        return mask & listed

    def _check_numbers(self, count: int) -> None:
        if self._numbers is not None and self._numbers.size and self._numbers[-1] >= count:
            raise SelectionError(
                f"--indices: no item {self._numbers[-1]}, there are {count}", level=self._level
            )


def read_numbers(path: str) -> Offsets:
    """Return the item numbers in a text file with one per line, increasing, without duplicates.

    Raises:
        InvalidDataError: a line that is not a number; names it.
        TooLargeError: more numbers than fit into the memory budget.
    """
    numbers: list[int] = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        # A device may have no end and no line breaks.
        limited = iter(functools.partial(lines.readline, _LINE_CHARS), "")
        for number, line in enumerate(limited, 1):
            if number % _CHECKED == 0:
                require_fits(f"{path}: line {number}", number * _NUMBER_BYTES, 1)
            if not re.fullmatch(r"\s*[0-9]{1,18}\s*", line, re.ASCII):
                raise InvalidDataError(
                    f"{path}: line {number}: expected the number of an item, "
                    f"found {line.strip()[:40]!r}"
                )
            numbers.append(int(line))
    return np.unique(np.array(numbers, np.int64))
