"""Too little of something: disk, file size, memory, permission."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.launchers import limited
from tests.reliability.outcome import OLD, Outcome, is_whole, partials, run_lod

OUTPUTS = {
    "lod.h5": ["out.lod.h5"],
    "lod.h5, compressed": ["out.lod.h5", "--compress"],
    "lod.stream": ["out.lods"],
    "npz": ["out.npz"],
    "jsonl": ["out.jsonl"],
    "json": ["out.json"],
}
SOURCE_ROWS = 40_000


def full_disk(sizes: int) -> Outcome:
    """Write to a file system with room for a part of the file: `sizes` amounts of room.

    Holds: exit code 3 with the old file intact, or 0 with the new one complete.
    """
    outcome = Outcome("a file system of any free size")
    with _source() as source, tempfile.TemporaryDirectory() as name:
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", name]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            outcome.unable = "may not mount a file system here"
            return outcome
        try:
            for number in range(sizes):
                free = 4096 * (1 + number * 2 * SOURCE_ROWS * 8 // 4096 // sizes)
                remount = ["mount", "-o", f"remount,size={free + 8192}", name]
                subprocess.run(remount, check=True)
                for kind, args in OUTPUTS.items():
                    _one(outcome, f"{kind} with {free} bytes free", source, args, Path(name))
        finally:
            _unmount(name)
    return outcome


def file_size_limit(sizes: int) -> Outcome:
    """Write with a limit on the size of files (RLIMIT_FSIZE)."""
    outcome = Outcome("a limit on the size of files")
    with _source() as source, tempfile.TemporaryDirectory() as name:
        for number in range(sizes):
            limit = number * 2 * SOURCE_ROWS * 8 // sizes
            for kind, args in OUTPUTS.items():
                what = f"{kind} with files of at most {limit} bytes"
                _one(outcome, what, source, args, Path(name), (resource.RLIMIT_FSIZE, limit))
    return outcome


def little_memory(sizes: int) -> Outcome:
    """Convert with a limit on the address space, from hopeless to enough.

    Holds: as above, and never a crash. Python itself may fail to start.
    """
    outcome = Outcome("a limit on memory")
    with _source() as source, tempfile.TemporaryDirectory() as name:
        for number in range(sizes):
            limit = (200 << 20) + number * (1 << 30) // sizes
            for kind, args in OUTPUTS.items():
                what = f"{kind} in {limit >> 20} MiB"
                _one(outcome, what, source, args, Path(name), (resource.RLIMIT_AS, limit))
    return outcome


def read_only_folder() -> Outcome:
    """Write into a folder that is read-only, of the file system or by its mode."""
    outcome = Outcome("a folder that cannot be written to")
    with _source() as source, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", name]
        mounted = not subprocess.run(mount, capture_output=True, check=False).returncode
        if not mounted and os.geteuid() == 0:
            outcome.unable = "root may write anywhere, and may not mount a file system here"
            return outcome
        folder.chmod(0o500) if not mounted else None
        try:
            for kind, args in OUTPUTS.items():
                done = run_lod(["convert", str(source), str(folder / args[0]), *args[1:]], folder)
                outcome.tried += 1
                outcome.expect(done.returncode == 3, f"{kind}: exit {done.returncode}")
                outcome.expect(args[0] in done.stderr, f"{kind}: {done.stderr}")
                outcome.expect(not os.listdir(folder), f"{kind}: leaves {os.listdir(folder)}")
        finally:
            if mounted:
                _unmount(name)
    return outcome


def _unmount(folder: str) -> None:
    """Take a file system out of the tree now, even while another process is still in it."""
    subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def _source() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "source.lod.h5")
        rows = np.random.default_rng(1).integers(0, 1 << 62, SOURCE_ROWS)
        io.write(path, LoDTensor(rows, LoD.from_lengths([[SOURCE_ROWS // 4] * 4])))
        yield path


def _one(
    outcome: Outcome,
    what: str,
    source: Path,
    args: list[str],
    folder: Path,
    limit: tuple[int, int] | None = None,
) -> None:
    """Try one conversion, under a limit of the process if one is given."""
    target = folder / args[0]
    for path in folder.iterdir():
        path.unlink()
    try:
        target.write_bytes(OLD)
    except OSError:
        return  # not even room for the old file
    command = ["convert", str(source), str(target), *args[1:], "-f"]
    done = run_lod(command, folder, *(limited(*limit) if limit else ()))
    outcome.tried += 1
    old = target.read_bytes() == OLD
    # Under a limit on memory, Python or NumPy may not even start.
    started = limit is None or limit[0] != resource.RLIMIT_AS or "lod convert" in done.stderr
    allowed = (0, 3) if started else (0, 1, 3, 127)
    outcome.expect(done.returncode in allowed, f"{what}: exit {done.returncode}: {done.stderr}")
    outcome.expect(old == (done.returncode != 0), f"{what}: exit {done.returncode}, old {old}")
    outcome.expect(old or is_whole(target), f"{what}: neither the old file nor the new one")
    outcome.expect(not started or "Traceback" not in done.stderr, f"{what}: {done.stderr}")
    outcome.expect(not partials(folder), f"{what}: leaves {partials(folder)}")
