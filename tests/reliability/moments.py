"""SIGINT and SIGTERM at random moments of a conversion."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.hanging import HANG_SECONDS
from tests.launchers import handling
from tests.reliability.outcome import LOD, OLD, Outcome, is_whole, partials

# The documented limit is one second; a busy machine may take longer.
END_SECONDS = 20.0
LINES = 20_000


def signals(count: int) -> Outcome:
    """Send each signal `count` times, at moments spread over the whole run.

    Holds: exit code 130 or 143 within a second, or the work was done before; the old file
    intact or the new one complete; nothing on standard error; no temporary file.
    """
    outcome = Outcome("SIGINT or SIGTERM at any moment")
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events.jsonl").write_text("[1,2,3,4,5,6,7,8,9]\n" * LINES)
        target = folder / "out.lod.h5"
        whole = _undisturbed(folder)
        for number in range(2 * count):
            target.write_bytes(OLD)
            signum = (signal.SIGINT, signal.SIGTERM)[number % 2]
            moment = chance.uniform(0, whole)
            process = _started(folder)
            time.sleep(moment)
            _one(outcome, process, signum, folder, f"{signum.name} after {moment:.3f} s")
    return outcome


def _undisturbed(folder: Path) -> float:
    """Return how long the command takes once it handles signals."""
    process = _started(folder)
    begun = time.monotonic()
    _, said = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, said
    return time.monotonic() - begun


def _started(folder: Path) -> subprocess.Popen[bytes]:
    """Start the command, and wait until it handles signals itself, instead of Python."""
    process = subprocess.Popen(
        [*handling([signal.SIGINT]), LOD, *["convert", "events.jsonl", "out.lod.h5", "--force"]],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    status = Path("/proc", str(process.pid), "status")
    while process.poll() is None:
        caught = re.search(r"SigCgt:\s*([0-9a-f]+)", status.read_text())
        if caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
            break
        time.sleep(0.002)
    return process


def _one(
    outcome: Outcome,
    process: subprocess.Popen[bytes],
    signum: signal.Signals,
    folder: Path,
    what: str,
) -> None:
    process.send_signal(signum)
    sent = time.monotonic()
    code = process.wait(HANG_SECONDS)
    took = time.monotonic() - sent
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.stderr.close()
    outcome.tried += 1
    target = folder / "out.lod.h5"
    old = target.read_bytes() == OLD
    outcome.expect(code in (0, 128 + signum), f"{what}: exit {code}: {said}")
    outcome.expect(took < END_SECONDS or code == 0, f"{what}: took {took:.2f} s")
    outcome.expect(said == "", f"{what}: says {said!r}")
    outcome.expect(old or is_whole(target), f"{what}: neither the old file nor the new one")
    outcome.expect(code != 0 or not old, f"{what}: exit 0 and no new file")
    outcome.expect(not partials(folder), f"{what}: leaves {partials(folder)}")
