"""Helpers for tests over shards: a dataset, a step function that can be paused, processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.schema import Item
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.hanging import HANG_SECONDS, wait_for
from tests.lodcli.conftest import Lod, tensor, tensors
from tests.reliability.outcome import LOD

SHARDS = 6
RUN = ["run-rnn", "ds::data", "--cell", "lstm", "--hidden", "8", "--seed", "1", "-o", "out"]
STEP = ["run-rnn", "ds::data", "--step", "model:step", "-o", "out"]
# A step that does something to its own process, once.
MODEL = """
import os, signal, time
from pathlib import Path

def step(inputs, memory):
    {trouble}
    return inputs * 2, memory

def once(name):
    try:
        Path(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
"""
Content = dict[str, bytes]
Workers = Callable[[int], list[int]]  # of the process of a command


def make_dataset() -> Path:
    """ds: 6 shards of sequences with labels, and names that one shard holds; one.lod.h5 as well."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 9, 60)
    items: dict[str, Item] = {
        "data": LoDTensor(rng.random((lengths.sum(), 3)).astype("f"), LoD.from_lengths([lengths])),
        "label": LoDTensor(np.arange(60, dtype=np.int8) % 3),
        "names": LoDTensor(np.arange(5)),
    }
    io.write("ds", items, format_name="lod.dataset", shards=SHARDS)
    io.write("one.lod.h5", items)
    return Path("ds")


def assert_same(path: str, other_path: str) -> None:
    """Check that two files hold the same tensors, but for the last digits of float32."""
    found, others = tensors(path), tensors(other_path)
    assert list(found) == list(others)
    for name, item in found.items():
        other = others[name]
        assert item.lod == other.lod
        np.testing.assert_allclose(item.data, other.data, rtol=1e-5)  # batches differ


def content(path: str | Path) -> Content:
    return {one.name: one.read_bytes() for one in Path(path).iterdir()}


def model(trouble: str) -> None:
    Path("model.py").write_text(MODEL.format(trouble=trouble))


def flip_a_row(shard: Path) -> None:
    """Change one byte of the rows, which changes neither the size nor the header."""
    data = bytearray(shard.read_bytes())
    row = tensor(shard, "data").data[-1].tobytes()
    data[data.index(row)] ^= 1
    shard.write_bytes(data)


def inodes(path: str) -> dict[str, int]:
    return {one.name: one.stat().st_ino for one in Path(path).glob("data-*")}


@contextmanager
def running(args: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [LOD, *args], stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def spawned_by(parent: int) -> list[int]:
    """Return the processes that multiprocessing has spawned in a process."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if b"spawn_main" in (place / "cmdline").read_bytes():
                of = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                found += [int(place.name)] if parent == of else []
        except (OSError, IndexError, ValueError):
            continue  # it is over
    return found


def wait_until_gone(pids: list[int]) -> None:
    wait_for(lambda: not any(Path("/proc", str(pid)).exists() for pid in pids))


def hold(folder: str = "out") -> None:
    """Have processes wait at the step once three shards are there, while the file hold exists."""
    model(
        f"""while Path('hold').exists() and len(list(Path('{folder}').glob('data-*'))) > 2:
        Path(f'at-{{os.getpid()}}').touch()
        time.sleep(0.02)"""
    )
    Path("hold").touch()


def check_continuing(lod: Lod, *args: str) -> None:
    """Check that an interrupted command keeps its shards, and its result is that of one process."""
    kept = inodes("out")
    assert len(kept) > 2
    assert not Path("out/manifest.lod.h5").exists()
    Path("hold").unlink()
    assert lod(*STEP, *args).code == 0
    assert kept.items() <= inodes("out").items()
    check_alone(lod)


def check_alone(lod: Lod) -> None:
    """Check that the result is that of one process."""
    assert lod(*STEP[:-1], "fresh", "--jobs", "1").code == 0
    assert content("out") == content("fresh")


def check_kills(
    lod: Lod, workers: Workers, tries: int, times: int, pause: tuple[float, float], *args: str
) -> None:
    """Check that commands make the same if workers of theirs are killed, after random pauses."""
    model("time.sleep(0.3)")
    assert lod(*STEP, "--jobs", "2").code == 0
    expected = content("out")
    rng, killed = random.Random(5), 0
    for number in range(tries):
        out = f"out{number}"
        with running([*STEP[:-1], out, *args]) as process:
            wait_for(Path(out, "job.json").exists)
            for _ in range(times):
                time.sleep(rng.uniform(*pause))
                for victim in rng.sample(found := workers(process.pid), min(1, len(found))):
                    os.kill(victim, signal.SIGKILL)
                    killed += 1
            _, said = process.communicate(timeout=HANG_SECONDS)
        assert (process.returncode, said) == (0, "")
        assert content(out) == expected
    assert killed


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
