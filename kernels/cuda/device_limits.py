"""Resource limits of a GPU as values, so that decisions based on them need no GPU."""

from __future__ import annotations

from typing import NamedTuple


class DeviceLimits(NamedTuple):
    """Resource limits of a device.

    Attributes:
        capability: (9, 0) and the like.
        multiprocessors: how many.
        shared_bytes: of shared memory, for one block.
        together: whether a launch can ask for all blocks at once.
    """

    capability: tuple[int, int]
    multiprocessors: int
    shared_bytes: int
    together: bool


def blocks(count: int, each: int) -> int:
    """Return how many blocks of `each` it takes for `count`."""
    return -(-count // each)
