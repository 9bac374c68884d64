"""Compare a command's first call with its second, in an environment that has the wheel.

python first_calls.py [--limit SECONDS] [--rounds N]

The home folder is empty before each first call. Exits with 1 if a first call takes more than
SECONDS of processor time longer than the second (the median of all rounds), or leaves a file there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

DTYPES = ("float32", "float64", "int32", "int64", "uint8")
OPS = ("softmax", "max", "sum", "sort_by_length")
CELLS = ("elman", "gru", "gru_paddle", "lstm")
ROWS, WIDTH, LENGTH = 4000, 8, 20


def make_files(folder: Path) -> None:
    """Write a file of each kind that commands read."""
    numbers = np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH) % 97
    lengths = [LENGTH] * (ROWS // LENGTH)
    offsets = np.arange(0, ROWS + 1, LENGTH)
    for dtype in DTYPES:
        np.savez(folder / f"{dtype}.npz", **{"data": numbers.astype(dtype), "lod.0": offsets})
    rows = iter((numbers / 97).tolist())
    with open(folder / "a.jsonl", "w") as file:
        for length in lengths * 10:
            part = [next(rows, [0.5] * WIDTH) for _ in range(length)]
            file.write(json.dumps({"data": part}) + "\n")
    with open(folder / "a.csv", "w") as file:
        file.write("sequence,x,y\n")
        file.writelines(f"{n // LENGTH},{n % 7},{n / 8}\n" for n in range(ROWS))
    (folder / "a.txt").write_text("three words here\nand two\n\nanother article\n" * ROWS)
    with open(folder / "a.ts", "w") as file:
        file.write("@problemName a\n@timestamps false\n@univariate true\n@classLabel true 0 1\n")
        file.write("@data\n")
        file.writelines(f"{n % 5},{n % 3},1.5,{n % 7}:{n % 2}\n" for n in range(200))


def commands() -> Iterator[list[str]]:
    """Yield the commands to compare, as words after `lod`."""
    for dtype in DTYPES:
        for op in OPS:
            if op != "softmax" or dtype.startswith("float"):
                yield ["apply", op, f"{dtype}.npz", "-o", "out.npz", "-f"]
    for dtype in DTYPES[:2]:
        for cell in CELLS:
            run = ["run-rnn", f"{dtype}.npz", "--cell", cell, "--hidden", "8", "--seed", "1"]
            yield [*run, "-o", "out.npz", "-f"]
            yield [*run, "--grad", "-o", "out.npz", "-f"]
    yield ["train", "a.ts", "-o", "out.safetensors", "-f", "--epochs", "1", "--seed", "1"]
    small = ["--rows", "60", "--features", "2", "--rounds", "1", "--budget", "0"]
    yield ["bench", "kernels", *small, "--op", "sum", "--against", "none"]
    for ending in ("jsonl", "csv", "txt"):
        yield ["convert", f"a.{ending}", "out.lod.h5", "-f"]


def seconds_of(words: list[str], home: Path) -> float:
    """Return the processor time of a command in a separate process."""
    environment = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("LOD_", "XDG_", "PYTHON"))
    }
    environment.update(HOME=str(home), LOD_THREADS="1")
    with tempfile.TemporaryFile() as said:
        child = os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "lodcli", *words],
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, said.fileno(), number) for number in (1, 2)],
        )
        _, status, used = os.wait4(child, 0)
        if status:
            said.seek(0)
            sys.exit(f"lod {' '.join(words)}: {said.read().decode(errors='replace').strip()}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for name in ("numba", "llvmlite"):
        if importlib.util.find_spec(name):
            sys.exit(f"{name} is installed here: that proves nothing")
    slow = 0
    with tempfile.TemporaryDirectory() as name:
        folder, home = Path(name), Path(name, "home")
        make_files(folder)
        os.chdir(folder)
        print(f"{'first':>7} {'second':>7} {'apart':>7}  s of processor time, Python", sys.version)
        for words in commands():
            firsts, seconds = [], []
            for _ in range(given.rounds):
                shutil.rmtree(home, ignore_errors=True)
                home.mkdir()
                firsts.append(seconds_of(words, home))
                if left := sorted(home.rglob("*")):
                    sys.exit(f"lod {' '.join(words)} wrote {left[0].relative_to(home)}")
                seconds.append(seconds_of(words, home))
            first, second = statistics.median(firsts), statistics.median(seconds)
            apart = statistics.median(a - b for a, b in zip(firsts, seconds, strict=True))
            slow += apart > given.limit
            mark = "  SLOW" if apart > given.limit else ""
            print(
                f"{first:7.3f} {second:7.3f} {apart:7.3f}  {' '.join(words[:7])}{mark}", flush=True
            )
    sys.exit(f"{slow} commands are slow the first time" if slow else 0)


if __name__ == "__main__":
    main()
