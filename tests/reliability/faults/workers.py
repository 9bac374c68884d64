"""Processes that have imported the modules of a command, and fork for each fault."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.reliability.faults import kernel, supervised
from tests.reliability.faults.commands import COMMANDS, Command, make_sources
from tests.reliability.faults.supervised import Call, Decide, Fault, Run
from tests.reliability.outcome import Outcome

MEMORY_FOLDER = Path("/dev/shm")
Check = Callable[[Outcome, str, "Bench", int], None]


def unable() -> str | None:
    """Return why processes cannot be supervised here; None if they can."""
    if not kernel.NUMBERS or sys.platform != "linux":
        return "needs Linux on x86-64 or aarch64"
    try:
        with tempfile.TemporaryDirectory() as name:
            seen: list[str] = []
            done = supervised.run(
                _close, Path(name), supervised.WRITING, lambda call: seen.append(call.name)
            )
    except OSError as error:
        return f"may not supervise a process here: {error}"
    return None if done.code == 0 and "close" in seen else "may not supervise a process here"


def _close() -> int:
    os.close(1)
    return 0


class Bench:
    """A folder with sources, and one for targets; commands are run in forks of this process.

    Attributes:
        sources: where the sources are.
        out: where targets go.
    """

    def __init__(self, sources: Path, out: Path) -> None:
        self.sources, self.out = sources, out
        self.clear()

    def clear(self) -> None:
        """Empty the folder for targets."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(exist_ok=True)

    def run(
        self,
        command: Command,
        decide: Decide = lambda call: None,
        *,
        force: bool = True,
        names: frozenset[str] = frozenset(),
        prepare: Callable[[], None] = lambda: None,
    ) -> Run:
        """Run a command in a fork; see supervised.run."""
        args = command.line(self.out, force=force)

        def work() -> int:
            return _main(args, prepare)

        def decide_or_lack(call: Call) -> Fault:
            return errno.ENOSYS if call.name in command.lacking else decide(call)

        return supervised.run(work, self.sources, names | command.lacking, decide_or_lack)

    def lod(self, *args: str) -> Run:
        """Run another command, undisturbed."""
        return supervised.run(lambda: _main(args), self.sources, frozenset(), lambda call: None)

    def load(self, command: Command) -> None:
        """Import the modules that the command imports, so that its forks do not."""
        command.start(self.sources, self.out, old=False)
        with tempfile.NamedTemporaryFile("w+") as note:

            def work() -> int:
                code = _main(command.line(self.out, force=True))
                note.write(json.dumps(list(sys.modules)))
                note.flush()
                return code

            done = supervised.run(work, self.sources, frozenset(), lambda call: None)
            assert done.code == 0, done.said
            for name in json.loads(Path(note.name).read_text()):
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        self.clear()


def _main(args: Sequence[str], prepare: Callable[[], None] = lambda: None) -> int:
    from lodcli.main import main
    from lodcli.shell import watchdog

    # Its calls are made at arbitrary times, so the number of a call is not reproducible.
    vars(watchdog)["start"] = lambda: None
    sys.argv = ["lod", *args]
    prepare()
    return main()


def check_all(fault: str, check: Check, each: int, names: Sequence[str] | None = None) -> Outcome:
    """Run a check on every command, on all processors.

    Args:
        fault: the name of the check.
        check: called with the outcome to record in, the command's name, the bench to run it in,
            and `each`, which selects every `each`-th place.
        each: argument of the check.
        names: of the commands; None for all whose packages are installed.
    """
    outcome = Outcome(fault, unable=unable())
    if outcome.unable:
        return outcome
    wanted = [name for name in names or COMMANDS if not COMMANDS[name].missing]
    context = multiprocessing.get_context("spawn")
    workers = min(len(wanted), os.cpu_count() or 1)
    with _scratch() as sources, context.Pool(workers, _quiet) as pool:
        make_sources(sources)
        jobs = [(fault, check, name, each, sources) for name in wanted]
        for found in pool.imap_unordered(_check_one, jobs):
            outcome.tried += found.tried
            outcome.broken += found.broken
    return outcome


def is_chosen(number: int, name: str, each: int) -> bool:
    """Return whether a place of a command is among every `each`-th one.

    Each command begins at another place, so that the places of all commands differ.
    """
    return (number + zlib.crc32(name.encode())) % each == 0


def _quiet() -> None:
    # A fork has no other thread than the one that forked.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def _check_one(job: tuple[str, Check, str, int, Path]) -> Outcome:
    fault, check, name, each, sources = job
    outcome = Outcome(fault)
    with _scratch() as folder:
        bench = Bench(sources, folder / "out")
        bench.load(COMMANDS[name])
        check(outcome, name, bench, each)
    return outcome


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a folder in memory, where syncs take no time."""
    place = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="lod-faults-", dir=place) as name:
        yield Path(name)
