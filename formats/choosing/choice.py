"""Items that are chosen while a file is read: parts of it without any need not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lodcli.formats.core.schema import Batch
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.tensor.nulls import Mask


@dataclass(frozen=True)
class ValueRange:
    """The range of the values of a tensor in a part of a file, as stored; floats may also be nan.

    Attributes:
        low: no value is less. A number in the unit of the tensor, or the bytes of a text or of a
            word of categories. None if unknown.
        high: no value is greater; None if unknown.
        nulls: whether there may be nulls; True of values in lists, which may be empty.
        values: whether there may be other values than nulls; True of values in lists.
    """

    low: int | float | bytes | None = None
    high: int | float | bytes | None = None
    nulls: bool = True
    values: bool = True


UNKNOWN = ValueRange()
# The span of a choice that depends on values, which are not known yet.
ALL_ITEMS = range(2**63 - 1)


class Choice(Protocol):
    """Which outermost items of a file are chosen."""

    @property
    def deciding(self) -> Sequence[str]:
        """The names of the tensors whose values decide."""

    @property
    def span(self) -> range:
        """The numbers of items among which all chosen ones are."""

    def of_ranges(self, ranges: Mapping[str, Sequence[ValueRange]], offsets: Offsets) -> Mask:
        """Return for each part of a file whether any of its items may be chosen, (P,).

        Args:
            ranges: of some of the deciding tensors in each part.
            offsets: (P + 1,) of the parts, in items.
        """

    def of_batch(self, batch: Batch, first: int) -> bool:
        """Return whether an item of a batch is chosen.

        Args:
            batch: the deciding tensors, or more.
            first: the number of its first item.
        """
