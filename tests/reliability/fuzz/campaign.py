"""Read many damaged copies of a base, and count the outcomes."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from lodcli.kernels.errors import UnsupportedError
from tests.reliability.fuzz.base import Base
from tests.reliability.fuzz.bases import BASES
from tests.reliability.fuzz.reading import (
    CHANGED,
    CRASH,
    FAULTS,
    HANG,
    READ,
    SAME,
    SILENT,
    SLICE,
    Answer,
    Target,
    operations,
)
from tests.reliability.fuzz.watchdog import JUDGE, Watchdog
from tests.reliability.mutators.generic import ANY, Mutator, several, splicer
from tests.reliability.mutators.table import FIELDS, REPAIRED

_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Fault:
    """A damaged file that was not answered as it should be.

    Attributes:
        number: of the file; with base and seed it can be made again.
        damage: which mutator made it.
        operation: how it was read.
        answer: what came of it.
        alone: whether a new worker, which had read nothing before, did the same.
    """

    number: int
    damage: str
    operation: str
    answer: Answer
    alone: bool = True

    def __str__(self) -> str:
        after = "" if self.alone else " (not alone, only behind others)"
        how = f"{self.number} [{self.damage}, {self.operation}]"
        return f"{how} {self.answer.outcome}{after}: {self.answer.detail}"


@dataclass
class Tally:
    """What came of the damaged copies of a base.

    Attributes:
        base: its name.
        tried: how many files.
        generic: how many of them were damaged blindly, no checksum repaired.
        outcomes: how often each came.
        accepted: how many of the blindly damaged ones were taken for other content.
        faults: those that are none of what holds.
        seconds: all of it took.
    """

    base: str
    tried: int = 0
    generic: int = 0
    accepted: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Damaged:
    """A damaged copy of a base: its files, and how they were damaged.

    Attributes:
        files: content by name; a file may be missing.
        damage: the name of what was done.
        repaired: whether checksums were made right after.
    """

    files: dict[str, bytes]
    damage: str
    repaired: bool


def damaged(name: str, seed: int, number: int) -> Damaged:
    """Return the damaged copy of a base that has this number; always the same one."""
    base = BASES[name]()
    rng = np.random.default_rng([seed, number, *name.encode()])
    if len(base.files) > 1 and rng.random() < 0.1:
        return _files_damaged(base, rng)
    names = sorted(base.files)
    chosen = names[int(rng.integers(len(names)))]
    kind, content = base.kind(chosen), base.files[chosen]
    mutator, repaired = _mutator(name, kind, content, rng)
    changed = mutator(content, rng) if content else rng.bytes(1 + int(rng.integers(16)))
    return Damaged({**base.files, chosen: changed}, mutator.__name__, repaired)


def _mutator(
    name: str, kind: str, content: bytes, rng: np.random.Generator
) -> tuple[Mutator, bool]:
    """Return some damage for a file of a kind, and whether it repairs checksums."""
    repaired, fields = REPAIRED.get(kind, ()), FIELDS.get(kind, ())
    choice = rng.random()
    if repaired and choice < 0.5:
        return repaired[int(rng.integers(len(repaired)))], True
    if fields and choice < 0.7:
        return fields[int(rng.integers(len(fields)))], False
    blind = (*ANY, several(ANY), *map(splicer, _relatives(name, kind)))
    return blind[int(rng.integers(len(blind)))], False


@cache
def _relatives(name: str, kind: str) -> tuple[bytes, ...]:
    """Return files of a kind out of other bases of the same format, to join with."""
    format_name = name.partition(",")[0]
    found = []
    for other in BASES:
        if other != name and other.partition(",")[0] == format_name:
            try:
                base = BASES[other]()
            except UnsupportedError:  # made with a package that is not there
                continue
            found += [content for file, content in base.files.items() if base.kind(file) == kind]
    return tuple(content for content in found if content)[:4]


def _files_damaged(base: Base, rng: np.random.Generator) -> Damaged:
    """Lose a file, empty one, or put one in the place of another."""
    files = dict(base.files)
    names = sorted(files)
    one, other = (names[int(at)] for at in rng.integers(len(names), size=2))
    kind = int(rng.integers(4))
    if kind == 0 and one != base.main:
        del files[one]
    elif kind == 1:
        files[one] = b""
    elif kind == 2:
        files[one], files[other] = files[other], files[one]
    else:
        files[f"{one}.0"] = files[one]
    return Damaged(files, ("lose a file", "empty a file", "swap files", "add a file")[kind], False)


def run(
    name: str, count: int, *, seed: int = 1, first: int = 0, plant: Callable[[], None] | None = None
) -> Tally:
    """Read `count` damaged copies of a base, from number `first` on."""
    begun = time.monotonic()
    base, tally = BASES[name](), Tally(name)
    target = Target.of(base)
    ways = operations(target)
    memory = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="lod-fuzz-") as place:
        folder = Path(place)
        with Watchdog(target, folder, plant) as watchdog:
            _put(folder, base.files, {})
            answer = watchdog.ask(READ, 0)
            assert answer.outcome == SAME or plant, f"{name}, undamaged: {answer}"
            files = base.files
            for number in range(first, first + count):
                damage = damaged(name, seed, number)
                _put(folder, damage.files, files)
                files = damage.files
                _try(tally, base, damage, watchdog, ways[number % len(ways)], number)
    tally.seconds = time.monotonic() - begun
    return tally


def _try(
    tally: Tally, base: Base, damage: Damaged, watchdog: Watchdog, operation: str, number: int
) -> None:
    answer, alone = watchdog.ask(operation, number), True
    if answer.outcome == CHANGED:
        answer = _judged(base, damage, watchdog, operation, answer)
    elif answer.outcome in (CRASH, HANG):
        watchdog.restart()
        alone = watchdog.ask(operation, number).outcome == answer.outcome
    tally.tried += 1
    tally.outcomes[answer.outcome] += 1
    if not damage.repaired:
        tally.generic += 1
        tally.accepted += answer.outcome == CHANGED
    if answer.outcome in FAULTS:
        tally.faults.append(Fault(number, damage.damage, operation, answer, alone))


def _judged(
    base: Base, damage: Damaged, watchdog: Watchdog, operation: str, answer: Answer
) -> Answer:
    """Return what other content means: no checksum told, it is what the file says, or a fault."""
    if damage.repaired:
        # A slice that differs need not be judged apart: the whole would.
        judged = watchdog.ask(JUDGE, 0) if base.oracle and operation != SLICE else answer
        if judged.outcome in (CRASH, HANG):
            return Answer(SILENT, f"{answer.detail}; another reader: {judged.detail}")
        return Answer(judged.outcome, f"{answer.detail}; {judged.detail}")
    # Of a part that is read alone, the checksum of the whole cannot be checked.
    sealed = base.sealed_parts if operation == SLICE else base.sealed
    return Answer(SILENT, answer.detail) if sealed else answer


def _put(folder: Path, files: dict[str, bytes], before: dict[str, bytes]) -> None:
    """Make the files of a folder these; never in place, for a reader may have mapped them."""
    for name in before.keys() - files.keys():
        (folder / name).unlink()
    for name, content in files.items():
        path = folder / name
        if before.get(name) is content:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content)
