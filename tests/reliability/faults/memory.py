"""Memory that is refused: by the kernel, by a limit, and inside the interpreter."""

from __future__ import annotations

import errno
import importlib
import random
import re
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.reliability.faults.commands import COMMANDS, content_of
from tests.reliability.faults.holds import After, start
from tests.reliability.faults.supervised import ALLOCATING, Call, Decide, Fault
from tests.reliability.faults.workers import Bench, check_all, is_chosen
from tests.reliability.outcome import Outcome

LIMITS, STEP_BYTES = 60, 128 << 10
ALLOCATIONS = 400
MOST_ALLOCATIONS = 200_000
# Allocations for the stack frames of a new thread: if they fail, Thread.start waits forever.
_FRAMES_BYTES = 16 << 10
# The library that checks the result crashes without memory, or its loader ends the process.
_LEFT_OUT = ("weights to onnx",)
# CPython's code for threads: if it fails, the caller that starts one, or gives it work, waits
# forever.
_WAITS_FOR_THREADS = "zarr"
# A destructor of h5py's cannot raise: it prints the error, and the command goes on.
_TRACEBACK = r"Traceback .*\n(?:  .*\n)+MemoryError.*\n"
_H5PYS = re.compile(rf"{_TRACEBACK}Exception ignored in: 'h5py\..*__dealloc__'\n{_TRACEBACK}")


def refused(each: int, names: list[str] | None = None) -> Outcome:
    """Refuse memory at each `each`-th place.

    Holds: exit code 0 and the new target, or 3 and one line; the old target or the new one; no
    temporary file, or the next command removes it.
    """
    wanted = [name for name in names or COMMANDS if name not in _LEFT_OUT]
    return check_all("memory is refused", check, each, wanted)


@dataclass(frozen=True)
class Place:
    """A point at which memory is refused.

    Attributes:
        what: description in words.
        prepare: called in the process before the command.
        decide: called for each system call that allocates memory; None: not called.
        codes: the allowed exit codes of the command.
    """

    what: str
    prepare: Callable[[], None] = lambda: None
    decide: Decide | None = None
    codes: tuple[int, ...] = (0, 3)


def check(outcome: Outcome, name: str, bench: Bench, each: int) -> None:
    """Refuse memory to one command in three ways."""
    command = COMMANDS[name]
    start(bench, command, old=True)
    calls: list[Call] = []
    done = bench.run(command, calls.append, names=ALLOCATING)
    assert done.code == 0, done.said
    new = content_of(bench.out)
    chance = random.Random(name)
    places = _places(calls, chance, within_threads=_WAITS_FOR_THREADS in name)
    for number, place in enumerate(places, 1):
        if not is_chosen(number, name, each):
            continue
        outcome.tried += 1
        old = start(bench, command, old=True)
        names = ALLOCATING if place.decide else frozenset[str]()
        decide = place.decide or (lambda call: None)
        done = bench.run(command, decide, names=names, prepare=place.prepare)
        done = replace(done, said=_H5PYS.sub("", done.said))
        after = After(outcome, f"{name}: {place.what}", bench, command, old, new)
        after.expect_answer(done, place.codes)
        after.expect_one_line(done)
        after.expect_the_next_cleans_up()


def _places(calls: list[Call], chance: random.Random, *, within_threads: bool) -> Iterator[Place]:
    for call in calls:
        if call.name == "mmap" and call.args[1] == _FRAMES_BYTES:
            continue
        what = f"ENOMEM at call {call.number}, {call.name}"
        yield Place(what, decide=partial(_refuse, call.number))
    for number in range(LIMITS):
        spare = number * STEP_BYTES
        yield Place(f"{spare >> 10} KiB to spare", partial(_limit, spare))
    for _ in range(0 if within_threads else ALLOCATIONS):
        # Small numbers more often, because one-time work is done early.
        number = int(MOST_ALLOCATIONS ** chance.random())
        # CPython and the libraries make other errors of some: SystemError, TypeError.
        yield Place(f"MemoryError at allocation {number}", partial(_fail, number), codes=(0, 1, 3))


def _refuse(number: int, call: Call) -> Fault:
    return errno.ENOMEM if call.number == number else None


def _limit(spare: int) -> None:
    """Limit this process to this much more memory than it has."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + spare, used + spare))


def _fail(number: int) -> None:
    """Make an allocation of the interpreter fail, the `number`-th from now on."""
    # A module of CPython's tests, which some installations leave out.
    importlib.import_module("_testcapi").set_nomemory(number, number + 1)
