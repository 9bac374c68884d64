"""Invariants after any fault: one of two complete targets, and no other files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

from lodcli.formats.storage import journal
from tests.reliability.faults.commands import Command, content_of
from tests.reliability.faults.supervised import Run
from tests.reliability.faults.workers import Bench
from tests.reliability.outcome import Outcome

Content = Mapping[str, bytes]


def start(bench: Bench, command: Command, *, old: bool) -> dict[str, bytes]:
    """Write an old target, if requested, into the emptied folder; return its content."""
    bench.clear()
    return command.start(bench.sources, bench.out, old=old)


def logical(command: Command, out: Path) -> dict[str, bytes]:
    """Return all files of the target as a reader without write permission sees them."""
    found: dict[str, bytes] = {}
    with mock.patch.object(journal, "finish", side_effect=PermissionError):
        for name in [command.target] if command.is_folder else command.files:
            try:
                place = journal.opened(out / name, _existing)
            except FileNotFoundError:
                continue
            inside = content_of(place) if place.is_dir() else {"": place.read_bytes()}
            found |= {os.path.normpath(f"{name}/{one}"): data for one, data in inside.items()}
    return found


def _existing(place: Path) -> Path:
    place.stat()
    return place


def hidden(out: Path) -> list[str]:
    """Return the temporary files in a folder."""
    return sorted(name for name in os.listdir(out) if name.startswith("."))


class After:
    """The state after a fault; records violated invariants.

    Args:
        outcome: where violations are recorded.
        what: the fault, in words.
        bench: the folders of sources and targets.
        command: the command with the fault.
        old: the target before.
        new: the target that the command writes.

    Attributes:
        found: the target as read.
    """

    def __init__(
        self,
        outcome: Outcome,
        what: str,
        bench: Bench,
        command: Command,
        old: Content,
        new: Content,
    ) -> None:
        self.bench, self.command, self.old, self.new = bench, command, old, new
        self._note: Callable[[bool, str], None] = lambda holds, text: outcome.expect(
            holds, f"{what}: {text}"
        )
        self.litter = hidden(bench.out)
        self.found = logical(command, bench.out)
        self.expect(self.found in (old, new), f"neither old nor new, but {sizes(self.found)}")
        visible = content_of(bench.out)
        # Programs that ignore the journal see a set without its index as incomplete; or no folder,
        # on a system that cannot exchange two.
        bearable = len(command.files) > 1 and (not command.is_folder or bool(command.lacking))
        bearable = bearable and not any(name.split("/")[0] == command.target for name in visible)
        self.expect(visible in (old, new) or bearable, f"other programs see {sizes(visible)}")

    def expect(self, holds: bool, text: str) -> None:
        """Record `text` if a condition is false."""
        self._note(holds, text)

    def expect_answer(self, done: Run, codes: tuple[int, ...] = (0, 3)) -> None:
        """Check the output of a command that was not killed: none, or one line and a code."""
        self.expect(done.code in codes, f"exit {done.code}: {done.said!r}")
        self.expect(self.found == self.new or done.code != 0, "exit 0 without the new target")
        self.expect("Traceback" not in done.said, done.said)

    def expect_one_line(self, done: Run) -> None:
        """Check that there is one line for an error, and none without; notes do not count."""
        self.expect(len(errors(done)) == (done.code > 0), f"exit {done.code}, says {done.said!r}")

    def expect_the_next_cleans_up(self) -> None:
        """Check that a reader and then a writer remove all temporary files."""
        if not self.litter:
            return
        if any(name.endswith(".lod-commit") for name in self.litter):
            self.bench.lod("inspect", "--json", str(self.bench.out / self.command.target))
            found = content_of(self.bench.out)
            self.expect(found == self.found, f"a reader makes {sizes(found)} of it")
        again = self.bench.run(self.command, force=bool(content_of(self.bench.out)))
        self.expect(again.code == 0, f"then again: {again}")
        self.expect(content_of(self.bench.out) == self.new, "then again: is not the new target")
        self.expect(not hidden(self.bench.out), f"then again: leaves {hidden(self.bench.out)}")


def errors(done: Run) -> list[str]:
    """Return the lines of standard error except for notes."""
    return [line for line in done.said.splitlines() if ": note: " not in line]


def sizes(content: Content) -> dict[str, int]:
    """Return the sizes of files, for messages."""
    return {name: len(data) for name, data in content.items()}
