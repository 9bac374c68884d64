"""Broken pipes: a stream cut at each byte, a consumer that exits or is slow."""

from __future__ import annotations

import os
import shlex
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.hanging import HANG_SECONDS
from tests.reliability.outcome import LOD, OLD, Outcome, is_whole, make_sources, partials, run_lod

PREFIX_BYTES, FRAME_BYTES = 8, 24


def cut(each: int) -> Outcome:
    """Give a consumer a stream that ends at every `each`-th byte, and at every frame.

    Holds: exit code 1, an error that says so, the old file intact.
    """
    outcome = Outcome("a producer that dies: a stream cut at any byte")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_sources(folder)
        run_lod(["convert", "words.lod.h5", "whole.lods"], folder)
        whole = (folder / "whole.lods").read_bytes()
        for size in sorted({*range(0, len(whole), each), *_frames(whole), len(whole) - 1}):
            _consume(outcome, f"cut at byte {size}", whole[:size], folder, 1)
        _consume(outcome, "two streams after each other", whole + whole, folder, 1)
        _consume(outcome, "the whole stream", whole, folder, 0)
    return outcome


def _frames(whole: bytes) -> list[int]:
    """Return where each frame of a stream begins."""
    places, place = [], PREFIX_BYTES
    while place < len(whole):
        places.append(place)
        place += FRAME_BYTES + struct.unpack_from("<Q", whole, place + 8)[0]
    return places


def _consume(outcome: Outcome, what: str, stream: bytes, folder: Path, code: int) -> None:
    target = folder / "out.lod.h5"
    target.write_bytes(OLD)
    done = subprocess.run(
        [LOD, "convert", "-", "out.lod.h5", "--force"],
        cwd=folder,
        input=stream,
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    said = done.stderr.decode()
    outcome.tried += 1
    outcome.expect(done.returncode == code, f"{what}: exit {done.returncode}: {said}")
    outcome.expect(("standard input" in said) == bool(code), f"{what}: says {said!r}")
    outcome.expect(said.count("\n") == bool(code), f"{what}: says {said!r}")
    outcome.expect(not partials(folder), f"{what}: leaves {partials(folder)}")
    if code:
        outcome.expect(target.read_bytes() == OLD, f"{what}: the old file is gone")
    else:
        outcome.expect(is_whole(target), f"{what}: the new file is not whole")


def killed(count: int) -> Outcome:
    """Kill a producer `count` times while its consumer reads.

    Holds: an error, and the old file intact; or all rows, where the last frame was out before.
    """
    outcome = Outcome("a producer that is killed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events.jsonl").write_text("[1,2,3,4,5,6,7,8,9]\n" * 100_000)
        target = folder / "out.lod.h5"
        for number in range(count):
            target.write_bytes(OLD)
            producer = subprocess.Popen(
                [LOD, "convert", "events.jsonl", "-"], cwd=folder, stdout=subprocess.PIPE
            )
            consumer = subprocess.Popen(
                [LOD, "convert", "-", "out.lod.h5", "--force"],
                cwd=folder,
                stdin=producer.stdout,
                stderr=subprocess.PIPE,
            )
            assert producer.stdout is not None
            producer.stdout.close()
            time.sleep(0.05 + 0.7 * number / count)
            producer.send_signal(signal.SIGKILL)
            died = producer.wait(HANG_SECONDS) != 0
            code = consumer.wait(HANG_SECONDS)
            assert consumer.stderr is not None
            said = consumer.stderr.read().decode()
            consumer.stderr.close()
            what = f"killed in run {number}"
            outcome.tried += 1
            outcome.expect(code in ((0, 1) if died else (0,)), f"{what}: exit {code}: {said}")
            if code:
                outcome.expect(target.read_bytes() == OLD, f"{what}: the old file is gone")
            else:
                shown = run_lod(["inspect", "--json", target.name], folder).stdout
                outcome.expect(
                    '"rows": 900000' in shown and is_whole(target), f"{what}: rows are lost"
                )
            outcome.expect(not partials(folder), f"{what}: leaves {partials(folder)}")
    return outcome


def gone(count: int) -> Outcome:
    """Let the consumer go after a few bytes, or take its time.

    Holds: the producer ends with 141 and says nothing; a slow reader gets all.
    """
    outcome = Outcome("a consumer that goes, or is slow")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events.jsonl").write_text("[1,2,3,4,5,6,7,8,9]\n" * 100_000)
        for number in range(count):
            for kind in ("lod.stream", "jsonl", "npz"):
                size = number * 997
                line = f"lod convert events.jsonl - --to {kind} | head -c {size} > /dev/null"
                _shell(outcome, folder, line, lambda codes: codes[0] == 141)
        line = (
            "lod convert events.jsonl - | "
            "python -c 'import sys, time\nwhile part := sys.stdin.buffer.read(1 << 18):"
            " sys.stdout.buffer.write(part); time.sleep(0.01)' | lod verify -q -"
        )
        _shell(outcome, folder, line, lambda codes: codes == [0, 0, 0])
    return outcome


def _shell(outcome: Outcome, folder: Path, line: str, holds: Callable[[list[int]], bool]) -> None:
    path = f"{shlex.quote(str(Path(LOD).parent))}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f'{line}; echo "${{PIPESTATUS[@]}}"'],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    codes = [int(code) for code in done.stdout.split()]
    outcome.tried += 1
    outcome.expect(holds(codes), f"{line}: exits {codes}")
    outcome.expect(done.stderr == "", f"{line}: says {done.stderr!r}")
