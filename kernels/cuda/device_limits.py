"""Resource limits of a GPU as values, so that decisions based on them need no GPU."""

from __future__ import annotations

from typing import NamedTuple


class DeviceLimits(NamedTuple):
    """Resource limits of a device.

    Attributes:
        capability: compute capability, such as (9, 0).
        multiprocessors: their number.
        shared_bytes: maximum shared memory of one block.
        together: whether cooperative launches, which run all blocks at once, are supported.
    """

    capability: tuple[int, int]
    multiprocessors: int
    shared_bytes: int
    together: bool


def blocks(count: int, each: int) -> int:
    """Return the number of blocks of `each` items that hold `count` items."""
    return -(-count // each)
