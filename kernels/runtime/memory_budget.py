"""Memory budget: how much memory the data of a command may take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lodcli.kernels.errors import OptionError
from lodcli.kernels.platform import environment, machine, processes

LEAST_BYTES = 1 << 20
# With at least this budget, batches are as large as without one, and sums of floats are bit for bit
# the same.
FULL_BYTES = 256 << 20
# The default is 1 / this of the machine's memory, or of the limit of the control group
# or of the address space.
DEFAULT_SHARE = 4

_SIZE = r"(?i)([0-9]{1,15}(?:\.[0-9]{1,3})?)\s*([KMGT]?)(?:i?B)?"

# One for the process, not for each thread: data prefetched by other threads counts as well.
_budget: int | None = None


def parsed_size(text: str) -> int | None:
    """Return the bytes of a size such as 4096, 500M or 1.5G; None if the text is not a size.

    >>> parsed_size("1.5k"), parsed_size("2 GiB"), parsed_size("many")
    (1536, 2147483648, None)
    """
    found = re.fullmatch(_SIZE, text)
    if found is None:
        return None
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))


def memory_setting() -> int | None:
    """Return the value of LOD_MEMORY in bytes; None if it is not set, or empty.

    Raises:
        OptionError: not a size, or less than 1M.
    """
    text = environment.value("LOD_MEMORY").strip()
    if not text:
        return None
    size = parsed_size(text)
    if size is None or size < LEAST_BYTES:
        raise OptionError(f"LOD_MEMORY: expected a size of 1M or more, found {text[:40]!r}")
    return size


def default_budget() -> int | None:
    """Return the budget if no option sets one: LOD_MEMORY, or a quarter of the memory.

    None if the size of the memory cannot be found out.
    """
    setting = memory_setting()
    if setting is not None:
        return setting
    known = (
        machine.memory_bytes(),
        machine.group_limit_bytes(),
        processes.address_limit_bytes(),
    )
    sizes = [size for size in known if size is not None]
    return max(LEAST_BYTES, min(sizes) // DEFAULT_SHARE) if sizes else None


@contextmanager
def within_budget(size_bytes: int | None) -> Iterator[None]:
    """Set the budget of this process within the block; None removes it.

    >>> with within_budget(1 << 20):
    ...     memory_budget()
    1048576
    """
    global _budget
    before, _budget = _budget, size_bytes
    try:
        yield
    finally:
        _budget = before


def memory_budget() -> int | None:
    """Return the budget that is set; None outside commands: calls from Python have none."""
    return _budget


def shared_budget(processes: int) -> int | None:
    """Return the budget of each of several processes of a command; None if there is none.

    An equal share; of the default budget at least FULL_BYTES, so that results do not depend on the
    number of processes.
    """
    chosen = _budget or memory_setting()
    if chosen is not None:
        return max(LEAST_BYTES, chosen // processes)
    whole = default_budget()
    return None if whole is None else max(min(whole, FULL_BYTES), whole // processes)


def at_most(size_bytes: int, share: int) -> int:
    """Return `size_bytes`, or one part in `share` of the budget if that is less.

    >>> with within_budget(64 << 20):
    ...     at_most(32 << 20, 8) >> 20, at_most(1 << 20, 8) >> 20
    (8, 1)
    """
    return size_bytes if _budget is None else min(size_bytes, max(1, _budget // share))
