"""Divides batches of items into consecutive parts with given numbers of items."""

from __future__ import annotations

from collections.abc import Iterator

from lodcli.formats.items.taking import item_count, part
from lodcli.kernels.tensor.lod_tensor import LoDTensor


class Divider:
    """Takes given numbers of items from batches, one after another.

    Args:
        batches: of tensors that share their items; at least one.

    >>> import numpy as np
    >>> divider = Divider(iter([{"data": LoDTensor(np.arange(3))}, {"data": LoDTensor([3, 4])}]))
    >>> [[batch["data"].data.tolist() for batch in divider.part(count)] for count in (1, 4, 0)]
    [[[0]], [[1, 2], [3, 4]], [[]]]
    """

    def __init__(self, batches: Iterator[dict[str, LoDTensor]]) -> None:
        self._batches = batches
        self._rest: dict[str, LoDTensor] = {}

    def part(self, count: int) -> Iterator[dict[str, LoDTensor]]:
        """Yield the next `count` items in batches; at least one. Exhaust earlier parts first."""
        self._rest = self._rest or next(self._batches)
        left = count
        while (held := item_count(self._rest)) < left:
            if held:
                yield self._rest
                left -= held
            self._rest = next(self._batches)
        first, self._rest = part(self._rest, 0, left), part(self._rest, left, held)
        yield first
