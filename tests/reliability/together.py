"""Several processes at one file: readers while it is replaced, two writers, a fork."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import tempfile
from collections.abc import Callable
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

import numpy as np

import lodcli
from lodcli.formats.core import io
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.hanging import HANG_SECONDS
from tests.reliability.outcome import LOD, Outcome, partials

READERS = 8
ROWS = 20_000


def _tensor(number: int) -> LoDTensor:
    """Return a tensor all of one number, of a size that depends on it."""
    rows = ROWS + number % 7 * 100
    return LoDTensor(np.full(rows, number), LoD.from_lengths([[rows // 2, rows - rows // 2]]))


def _number(item: object) -> int:
    """Return the number that all values of a tensor have; -1 if they differ."""
    assert isinstance(item, LoDTensor)
    number = int(item.data[0])
    return number if item.identical(_tensor(number)) else -1


def _reader(path: Path, ready: Semaphore, done: Event, note: str) -> None:
    """Read repeatedly; record the number of reads and the errors."""
    problems, times, last = [], 0, -1
    while not done.is_set():
        times += 1
        if times == 2:
            ready.release()
        try:
            number = _number(io.read(path))
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}")
            continue
        if number < last:
            problems.append(f"read {number} after {last}")
        last = number
    Path(note).write_text("\n".join([str(times), *problems]))


def readers(replaces: int) -> Outcome:
    """Replace a file again and again under processes that read it.

    Holds: each reading gets an old or a new file, whole, and never an older one than before.
    """
    outcome = Outcome("readers while the file is replaced")
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "shared.lod.h5")
        io.write(path, _tensor(0))
        ready, done = context.Semaphore(0), context.Event()
        notes = [str(Path(name, f"reader-{number}")) for number in range(READERS)]
        crowd = [context.Process(target=_reader, args=(path, ready, done, note)) for note in notes]
        for process in crowd:
            process.start()
        for _ in crowd:
            ready.acquire()
        for number in range(1, replaces + 1):
            io.write(path, _tensor(number), overwrite=True)
        done.set()
        for process, note in zip(crowd, notes, strict=True):
            process.join(HANG_SECONDS)
            outcome.expect(process.exitcode == 0, f"a reader ended with {process.exitcode}")
            times, *problems = Path(note).read_text().splitlines()
            outcome.tried += int(times)
            outcome.broken += problems
    return outcome


def writers(count: int) -> Outcome:
    """Let two commands write one target at a time.

    Holds: with --force both succeed and the target is what one of them wrote; without it
    one of them has a clear error.
    """
    outcome = Outcome("two writers on one target")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in (1, 2):
            io.write(folder / f"{number}.lod.h5", _tensor(number))
        for trial in range(count):
            force = ["--force"] if trial % 2 else []
            (folder / "out.lod.h5").unlink(missing_ok=True)
            both = [
                subprocess.Popen(
                    [LOD, "convert", f"{number}.lod.h5", "out.lod.h5", *force],
                    cwd=folder,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for number in (1, 2)
            ]
            said = [process.communicate(timeout=HANG_SECONDS)[1] for process in both]
            codes = [process.returncode for process in both]
            outcome.tried += 1
            what = f"two writers {' '.join(force)}: exits {codes}: {said}"
            expected = [0, 0] if force else [0, 3]
            outcome.expect(sorted(codes) == expected, what)
            outcome.expect(_number(io.read(folder / "out.lod.h5")) in (1, 2), f"{what}: a mixture")
            outcome.expect(not partials(folder), f"{what}: leaves {partials(folder)}")
            if not force:
                outcome.expect(any("--force" in text for text in said), what)
    return outcome


def open_files(count: int) -> Outcome:
    """Read a file that was unlinked, or replaced, while it was open; and fork with it open."""
    outcome = Outcome("an open file that is unlinked or replaced, or goes through a fork")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "shared.lod.h5")
        for number in range(count):
            io.write(path, _tensor(number), overwrite=True)
            outcome.tried += 1
            try:
                _read_meanwhile(outcome, path, number)
            except LodError as error:
                outcome.broken.append(f"opened {number}: {error}")
    return outcome


def _read_meanwhile(outcome: Outcome, path: Path, number: int) -> None:
    """Open a file, unlink or replace it, and read what was opened; in a forked child too."""
    with lodcli.open(path) as source:
        child = _forked(lambda: _number(source.read()["data"]))
        if number % 2:
            path.unlink()
        else:
            io.write(path, _tensor(number + 1), overwrite=True)
        found = _number(source.read()["data"])
        part = source.slice("data", (1,)).data
    outcome.expect(found == number, f"read {found}, opened {number}")
    outcome.expect(bool((part == number).all()), f"sliced {part[:1]}, opened {number}")
    outcome.expect(child == number % 100, f"a forked child read {child}, not {number}")


def _forked(call: Callable[[], int]) -> int:
    """Return the result of a call in a forked child, as its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            code = call() % 100
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
