"""The table of checks: names, and functions that run a check completely or in part."""

from __future__ import annotations

from collections.abc import Callable

from tests.reliability import invariants, moments, pipes, room, together
from tests.reliability.faults import calls, memory, power
from tests.reliability.outcome import Outcome

Check = Callable[[int], Outcome]


def _fewer(check: Callable[[int], Outcome], full: int) -> Check:
    """Return a check that runs `full` times, or a fraction of that."""
    return lambda part: check(max(1, full // part))


CHECKS: dict[str, Check] = {
    # For these the number selects every n-th place, instead of a count.
    "calls": calls.every_call,
    "power": power.power_cuts,
    "allocations": memory.refused,
    "cut": pipes.cut,
    "signals": _fewer(moments.signals, 100),
    "full-disk": _fewer(room.full_disk, 60),
    "file-size": _fewer(room.file_size_limit, 60),
    "memory": _fewer(room.little_memory, 40),
    "read-only": lambda part: room.read_only_folder(),
    "killed": _fewer(pipes.killed, 60),
    "gone": _fewer(pipes.gone, 60),
    "readers": _fewer(together.readers, 200),
    "writers": _fewer(together.writers, 60),
    "open-files": _fewer(together.open_files, 200),
    "invariants": _fewer(invariants.trees, 10_000),
}
