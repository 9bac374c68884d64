"""A fault at every call with which a command writes: strace makes the kernel's answer."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.reliability.outcome import (
    OLD,
    WRITING,
    Outcome,
    has_strace,
    is_whole,
    make_sources,
    partials,
    run_lod,
)

CALLS = (
    *("write", "pwrite64", "fsync", "ftruncate", "close"),
    *("rename", "link", "unlink", "fchmod", "flock"),
)
FAULTS = ("ENOSPC", "EIO", "EINTR", "SIGKILL")


def every_call(each: int, commands: list[str] | None = None) -> Outcome:
    """Inject a fault at each `each`-th call, of every command that writes.

    Holds: the old file is intact or the new one complete; an exit code of 0 only with the
    new one; no temporary file is left, and after a kill the next run removes it.
    """
    outcome = Outcome("a write call fails, or the process is killed in it")
    if not has_strace():
        outcome.unable = "strace is not installed, or may not trace here"
        return outcome
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_sources(folder)
        place = 0
        for command in commands or list(WRITING):
            for call, number in _calls(command, folder):
                for fault in FAULTS:
                    place += 1
                    if place % each == 0:
                        outcome.tried += 1
                        _inject(outcome, command, call, number, fault, folder)
    return outcome


def _calls(command: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Yield each writing call from the making of the partial file on, with its number."""
    args, out = WRITING[command]
    (folder / out).write_bytes(OLD)
    trace = folder / "trace"
    watched = ",".join((*CALLS, "openat"))
    strace = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={watched}"]
    done = run_lod([*args, "-f", "-o", out], folder, *strace)
    assert done.returncode == 0, done.stderr
    counts = dict.fromkeys(CALLS, 0)
    begun = False
    for line in trace.read_text("utf-8", "replace").splitlines():
        found = re.match(r"\d+ +(\w+)\(", line)
        begun = begun or "lod-partial" in line
        if found and found[1] in counts:
            counts[found[1]] += 1
            if begun:
                yield found[1], counts[found[1]]
    trace.unlink()


def _inject(
    outcome: Outcome, command: str, call: str, number: int, fault: str, folder: Path
) -> None:
    args, out = WRITING[command]
    target = folder / out
    target.write_bytes(OLD)
    what = f"{command}: {fault} at {call} {number}"
    how = "signal=SIGKILL" if fault == "SIGKILL" else f"error={fault}"
    inject = f"inject={call}:{how}:when={number}"
    done = run_lod(
        [*args, "-f", "-o", out], folder, "strace", "-f", "-qq", "-o", "/dev/null", "-e", inject
    )
    killed = done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    outcome.expect(killed or done.returncode in (0, 3), f"{what}: exit {done.returncode}")
    outcome.expect("Traceback" not in done.stderr, f"{what}: {done.stderr}")
    old = target.read_bytes() == OLD
    outcome.expect(old or is_whole(target), f"{what}: neither the old file nor the new one")
    outcome.expect(done.returncode != 0 or not old, f"{what}: exit 0 and no new file")
    if not killed:
        left = partials(folder)
        # What could not be taken away is taken by the next writer.
        outcome.expect(not left or call == "unlink", f"{what}: leaves {left}")
        said = done.stderr.strip()
        outcome.expect(bool(said) == bool(done.returncode), f"{what}: says {said!r}")
    again = run_lod([*args, "-f", "-o", out], folder)
    outcome.expect(again.returncode == 0, f"{what}, then again: {again.stderr}")
    outcome.expect(not partials(folder), f"{what}, then again: leaves {partials(folder)}")
