"""Power cuts: the disk operations of a command are recorded, and unsynced ones lost."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

from tests.reliability.faults.commands import COMMANDS, content_of
from tests.reliability.faults.disk import Data, Disk, Names, Size, Step, Sync, Tree
from tests.reliability.faults.holds import After, start
from tests.reliability.faults.supervised import WRITING, Call, written
from tests.reliability.faults.workers import Bench, check_all, is_chosen
from tests.reliability.outcome import Outcome

# Operations that no command of lod uses for a target; they cannot be replayed here.
_UNKNOWN = frozenset({"writev", "pwritev", "sendfile", "fallocate", "truncate"})
_WRITES = ("write", "pwrite64", "copy_file_range")


def power_cuts(each: int, names: list[str] | None = None) -> Outcome:
    """Cut the power after every step of every command, and look at each `each`-th outcome.

    Holds: whatever was not synced is lost, reordered or garbage, the old target or the new one
    is found, all of its files, the new one after an exit code of 0; and the next command leaves
    no temporary file.
    """
    return check_all("a power cut, and what was not synced is lost", check, each, names)


def check(outcome: Outcome, name: str, bench: Bench, each: int) -> None:
    """Cut the power while one command runs, with an old target and without."""
    command = COMMANDS[name]
    for there in (True, False):
        old = start(bench, command, old=there)
        recorder = Recorder(bench.out)
        done = bench.run(command, recorder.note, force=there, names=WRITING)
        recorder.settle()
        assert done.code == 0, done.said
        new, disk, seen = content_of(bench.out), recorder.disk, set[bytes]()
        chance = random.Random(name)
        for step in range(len(disk.steps) + 1):
            for tree in disk.after_a_power_cut(step, chance):
                # Of each state once, but of the last step all: then it must be the new one.
                last = step == len(disk.steps)
                mark = hashlib.sha256(repr((last, sorted(tree.items()))).encode()).digest()
                if mark in seen:
                    continue
                seen.add(mark)
                if is_chosen(len(seen), name, each):
                    outcome.tried += 1
                    what = f"{name}{'' if there else ', nothing there'}: after {step} steps"
                    bench.clear()
                    _write(tree, bench.out)
                    after = After(outcome, what, bench, command, new if last else old, new)
                    after.expect_the_next_cleans_up()


def _write(tree: Tree, folder: Path) -> None:
    written: dict[int, Path] = {}
    for path, (inode, data) in sorted(tree.items()):
        if data is None:
            (folder / path).mkdir()
        elif inode in written:
            os.link(written[inode], folder / path)
        else:
            (folder / path).write_bytes(data)
            written[inode] = folder / path


class Recorder:
    """Records what calls do to a folder.

    The result of a call is read at the next one, since it may have failed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names: dict[tuple[int, str], int] = {}
        self.disk = Disk(folder.stat().st_ino, names, {}, {folder.stat().st_ino})
        for path in sorted(folder.rglob("*")):
            inode = path.stat().st_ino
            names[self._name(str(path))] = inode
            if path.is_dir():
                self.disk.folders.add(inode)
            else:
                self.disk.files[inode] = path.read_bytes()
        self._pending: Call | None = None
        self._before: list[int | None] = []
        self._places: list[tuple[int, str]] = []

    def note(self, call: Call) -> None:
        """Take a call in, before it happens."""
        self.settle()
        paths = [path.removesuffix(" (deleted)") for path in call.paths]
        inside = [path.startswith(f"{self.folder}/") for path in paths]
        if not (all(inside) or (paths == [str(self.folder)] and call.name == "fsync")):
            return
        assert call.name not in _UNKNOWN, call
        step = self._of_a_descriptor(call)
        if step is not None:
            self.disk.steps.append(step)
        elif call.name not in ("close", "flock", "fchmod", "dup", "write", "ftruncate"):
            self._pending = call
            self._before = [_inode(path) for path in paths]
            # Resolved now, because this call may rename the folder of the name.
            self._places = [self._name(path) for path in paths]

    def _of_a_descriptor(self, call: Call) -> Step | None:
        if call.name not in (*_WRITES, "ftruncate", "fsync", "fdatasync"):
            return None
        number = call.args[2 if call.name == "copy_file_range" else 0]
        fd = f"/proc/{call.process}/fd/{number}"
        inode = os.stat(fd).st_ino
        if call.name == "ftruncate":
            return Size(inode, call.args[1])
        if call.name not in _WRITES:
            return Sync(inode)
        data, position = written(call)
        if position is None:
            info = Path(fd.replace("/fd/", "/fdinfo/")).read_text()
            position = int(info.split()[1])
        return Data(inode, position, data)

    def settle(self) -> None:
        """Record what the last call did to names."""
        call, self._pending = self._pending, None
        if call is None:
            return
        after = [_inode(path) for path in call.paths]
        changes = {
            place: now
            for place, before, now in zip(self._places, self._before, after, strict=True)
            if before != now
        }
        if changes:
            made = frozenset(
                inode
                for inode, path in zip(after, call.paths, strict=True)
                if inode and os.path.isdir(path)
            )
            self.disk.steps.append(Names(changes, made))

    def _name(self, path: str) -> tuple[int, str]:
        parent, _, name = path.rpartition("/")
        return os.stat(parent).st_ino, name


def _inode(path: str) -> int | None:
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return None
