"""A fault at every call of every command that writes."""

from __future__ import annotations

import errno
import re
import signal
from collections import Counter

from tests.reliability.faults import supervised
from tests.reliability.faults.commands import COMMANDS, content_of
from tests.reliability.faults.holds import After, errors, start
from tests.reliability.faults.supervised import KILL, READING, SHORT, SIGNALS, WRITING, Call, Fault
from tests.reliability.faults.workers import Bench, check_all, is_chosen
from tests.reliability.outcome import Outcome

# In the names of temporary files.
_TEMPORARY = re.compile(r"\.[a-z0-9_]{8}\.(?=lod-)|#\d+|(?<=lod-)[a-z0-9_]{8}\b")
# A signal at each call: one of them, in turn.
SIGNAL = "a signal"
FAULTS: tuple[Fault, ...] = (errno.ENOSPC, errno.EIO, errno.EINTR, SHORT, KILL, SIGNAL)
# A command that cannot make these may leave a temporary file: the next one removes it.
CLEANING = frozenset({"unlink", "unlinkat", "rmdir", "open", "openat", "getdents64", "newfstatat"})


def every_call(each: int, names: list[str] | None = None) -> Outcome:
    """Inject a fault at each `each`-th place: a call of a command, and one of FAULTS.

    Holds: the old target is intact or the new one complete, all its files; an exit code of 0
    only with the new one, else 3 and one line, about the target if the call is; after a signal
    its code, and silence; no temporary file is left, or the next command removes it.
    """
    what = "a call fails, does half, or the process is killed or interrupted in it"
    return check_all(what, check, each, names)


def check(outcome: Outcome, name: str, bench: Bench, each: int) -> None:
    """Try every `each`-th place of one command, with an old target and without."""
    command, number = COMMANDS[name], 0
    for old in (True, False):
        calls: list[Call] = []
        start(bench, command, old=old)
        done = bench.run(command, calls.append, force=old, names=READING | WRITING)
        assert done.code == 0, done.said
        new = content_of(bench.out)
        seen = Counter[tuple[str, str]]()
        for call in calls:
            seen[_what(call)] += 1
            for fault in FAULTS:
                number += applies(call, fault)
                if applies(call, fault) and is_chosen(number, name, each):
                    outcome.tried += 1
                    chosen = SIGNALS[number % len(SIGNALS)] if fault == SIGNAL else fault
                    place = Place(name, call, seen[_what(call)], chosen, old)
                    _one(outcome, place, bench, new)


def applies(call: Call, fault: Fault) -> bool:
    """Return whether a call can have a fault."""
    if call.name in READING:
        return fault in (errno.EIO, errno.EINTR)
    return fault != SHORT or supervised.can_be_short(call)


def _what(call: Call) -> tuple[str, str]:
    """Return a call and its files; temporary files have a random name, which is left out."""
    names = " ".join(path.rpartition("/")[2] for path in call.paths)
    return call.name, _TEMPORARY.sub(".", names)


class Place:
    """Where a fault is injected: the n-th call that does the same to the same files.

    Not the n-th of all: one batch is read in a thread while another is written.
    """

    def __init__(self, name: str, call: Call, nth: int, fault: Fault, old: bool) -> None:
        self.command, self.call, self.fault, self.old = COMMANDS[name], call, fault, old
        self._left = nth
        what = errno.errorcode[fault] if type(fault) is int else str(fault)
        about = " ".join(path.rpartition("/")[2] for path in call.paths)
        self.label = (
            f"{name}{'' if old else ', nothing there'}: {what} at call {call.number}, "
            f"{call.name} {about}"
        )
        self.reached = False

    def decide(self, call: Call) -> Fault:
        """Return the fault if this is the call."""
        if _what(call) != _what(self.call):
            return None
        self._left -= 1
        if self._left:
            return None
        self.reached = True
        return self.fault


def _one(outcome: Outcome, place: Place, bench: Bench, new: dict[str, bytes]) -> None:
    call, fault = place.call, place.fault
    old = start(bench, place.command, old=place.old)
    done = bench.run(place.command, place.decide, force=place.old, names=READING | WRITING)
    after = After(outcome, place.label, bench, place.command, old, new)
    after.expect(place.reached, "was not reached")
    if fault == KILL:
        after.expect(done.code == -signal.SIGKILL, f"exit {done.code}: {done.said}")
    elif isinstance(fault, signal.Signals):
        after.expect_answer(done, (0, 128 + fault))
        after.expect(not errors(done), f"says {done.said!r}")
        after.expect(not after.litter, f"leaves {after.litter}")
    else:
        # A library may report an error of the disk as damage of the file.
        after.expect_answer(done, (0, 1, 3) if call.name in READING else (0, 3))
        if "/memfd:said (deleted)" not in call.paths:  # otherwise the error cannot be printed
            after.expect_one_line(done)
            about_target = any(path.startswith(str(bench.out)) for path in call.paths)
            named = done.code == 0 or not about_target or str(bench.out) in done.said
            after.expect(named, f"does not name the target: {done.said!r}")
        # The old folder may stay beside the new one, if it cannot be removed.
        committed = after.found == new or any(".lod-commit" in name for name in after.litter)
        borne = call.name in CLEANING or committed
        after.expect(borne or not after.litter, f"leaves {after.litter}")
    after.expect_the_next_cleans_up()
