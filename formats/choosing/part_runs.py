"""Which parts of a file of records are read, if only some records are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lodcli.kernels.tensor.nulls import Mask

# Reading other columns of a part later takes longer than decoding this many bytes of them at once.
_LEAST_BYTES = 256 << 10


def pays_to_look(of_all: int, of_deciding: int, parts: int) -> bool:
    """Return whether it may pay to read first the columns that decide, and often only them.

    Args:
        of_all, of_deciding: bytes of the columns, in all parts.
        parts: how many parts there are.
    """
    others = of_all - of_deciding
    return 0 < of_deciding <= others and others >= parts * _LEAST_BYTES


def runs(
    may_hold: Mask, offsets: Sequence[int], look: Callable[[int, int], bool] | None
) -> Iterator[tuple[int, int]]:
    """Yield ranges of records to read: adjacent parts that may hold chosen records, or do.

    Where all parts hold some, to look is lost work. Each time that a part holds one, twice as many
    as before are read next without a look, so that few looks are lost.

    Args:
        may_hold: (P,), of the parts.
        offsets: (P + 1,), of the parts in records.
        look: returns whether there are chosen records in a range; None if it does not pay.

    >>> import numpy as np
    >>> list(runs(np.array([True, True, False, True]), [0, 5, 9, 12, 20], None))
    [(0, 9), (12, 20)]
    """
    first, wait, unseen = None, 1, 0
    for part, may in enumerate(may_hold.tolist()):
        start, stop = offsets[part], offsets[part + 1]
        if may and look is not None:
            if unseen:
                unseen -= 1
            else:
                may = look(start, stop)
                wait = 2 * wait if may else 1
                unseen = wait if may else 0
        if may and first is None:
            first = start
        elif not may and first is not None:
            yield first, start
            first = None
    if first is not None:
        yield first, offsets[len(may_hold)]
