"""Write all or some reports of docs/benchmarks/, the input of page.py.

    python -m tests.benchmarks.measure                    # all parts except those on a GPU
    python -m tests.benchmarks.measure rnn-b 'kernels-*'  # only these parts
    python -m tests.benchmarks.measure 'gpu-*'            # all parts on a GPU
    python -m tests.benchmarks.measure --list
    python -m tests.benchmarks.measure --quick --folder /tmp/reports 'gpu-*'

A part is one run of `lod bench`, whose report is written when it is done; parts on a GPU run only
if they are named. --quick checks on small data that every part runs; its times mean nothing. A
report names missing peers and failed tasks. If all tasks of a part fail, its old report is kept.
--limit SECONDS interrupts the running part, and its report has the tasks done so far. Failed parts
are listed at the end, with exit code 1. The machine should be idle otherwise.

Uses the `lod` beside this Python. The package must be built (`pip install .`): in a checkout NumPy
computes small arrays, so times would differ from those of users. Parts on a GPU run in a checkout,
too.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "benchmarks"
# Files are measured where no disk is, but for what waits for one.
SHARED_MEMORY = "/dev/shm"
# So that every part, and every candidate of it, is tried in a few minutes.
QUICK = "--rounds 1 --budget 0"
QUICK_ROWS = 20_000
# Of an RNN on a GPU: as wide as they are, but a few sequences.
QUICK_RNN = "--rows 2000"
STARTUP, GROWTH = "startup", "growth"
# Parts that are separate scripts, and the options that shorten them.
SCRIPTS = {STARTUP: "--runs 2 --large-gb 0.1", GROWTH: "--most 1e4"}

_ONE = "--threads 1"
_TWO = "--threads 2"
_POOL = "sum,mean,max,min,max_index"
_SOFTMAX = "softmax,log_softmax"
_COPY = "expand,concat,reverse,last,slice"
_MORE = "first,cumsum,add,sort_by_length,pick,conv"
_ODD = "sum,max,softmax,expand,reverse,last,sort_by_length,add,conv"
_HALF = ",".join(
    f"attention{which}_{dtype}" for which in ("", "_grad") for dtype in ("float16", "bfloat16")
)
# With all processors: they compute what results are compared with.
_GPU = "--device cuda"
_LINEAR = "--op sum,softmax,reverse --against none --rounds 7 --budget 1"
_NARROW = "h64,h128,h192"

# name of the report: what follows `lod bench`.
PARTS: dict[str, str] = {
    "kernels-B1-pool": f"kernels --op {_POOL} --case B1 {_TWO} --rounds 7 --budget 2",
    "kernels-B1-softmax": f"kernels --op {_SOFTMAX} --case B1 {_TWO} --rounds 5 --budget 3",
    "kernels-B1-copy": f"kernels --op {_COPY} --case B1 {_TWO} --rounds 7 --budget 2",
    "kernels-B1-pad": f"kernels --op pad,unpad --case B1 {_TWO} --rounds 5 --budget 4",
    "kernels-B2-pool": f"kernels --op {_POOL},{_SOFTMAX} --case B2 {_TWO} --rounds 7 --budget 1.5",
    "kernels-B2-copy": f"kernels --op {_COPY},pad,unpad --case B2 {_TWO} --rounds 7 --budget 1.5",
    "kernels-B3-pool": f"kernels --op {_POOL},{_SOFTMAX} --case B3 {_TWO} --rounds 7 --budget 2",
    "kernels-B3-copy": f"kernels --op {_COPY} --case B3 {_TWO} --rounds 5 --budget 2",
    "kernels-B3-pad": f"kernels --op pad,unpad --case B3 {_TWO} --rounds 5 --budget 2",
    "kernels-more": f"kernels --op {_MORE} --case B1,B2,B3 {_TWO} --rounds 7 --budget 1.5",
    "kernels-attention": f"kernels --op attention --case B1,B3 {_TWO} --rounds 5 --budget 2",
    "kernels-small": f"kernels --case S1,S2 {_TWO} --rounds 7 --budget 0.5",
    "kernels-odd": f"kernels --op {_ODD} --case W3,W5,W7,W48,W100,W300 {_TWO} --rounds 5 "
    "--budget 1",
    "kernels-1-thread": f"kernels --op sum,max_index,softmax,reverse,concat,last,add,conv {_ONE} "
    "--rounds 5 --budget 1.5",
    "rnn-ad": f"rnn --case a,d {_TWO} --rounds 9 --budget 2",
    "rnn-b": f"rnn --case b {_TWO} --rounds 5 --budget 5",
    "rnn-c": f"rnn --case c {_TWO} --rounds 5 --budget 6",
    "rnn-few": f"rnn --cell lstm,gru --case 1x200,1x512,8x200,64x200 {_TWO} --rounds 7 --budget 2",
    "rnn-odd": f"rnn --cell lstm --case b --hidden 250 --features 250 {_TWO} --against torch "
    "--rounds 5 --budget 4",
    "rnn-1-thread": f"rnn --cell lstm,gru --case a,b,c,d {_ONE} --rounds 5 --budget 2.5",
    "rnn-float64": f"rnn --cell lstm,gru --case b --dtype float64 {_TWO} --rounds 5 --budget 3",
    "rnn-linear": f"linear {_ONE} --rounds 5 --budget 2",
    "convert": f"convert {_TWO} --rounds 5 --budget 2 --folder {SHARED_MEMORY}",
    "io": f"io --op write,read,verify,sequence,open_and_sequence {_TWO} --rounds 5 --budget 2 "
    f"--folder {SHARED_MEMORY}",
    # In the folder for temporary files, which must be on a disk.
    "io-synced": f"io --op write_synced {_TWO} --rounds 5 --budget 2",
    "slice": f"slice {_TWO} --rounds 7 --budget 1.5 --folder {SHARED_MEMORY}",
    "padding": f"padding {_TWO} --rounds 7 --budget 1",
    "offsets": f"offsets {_TWO} --rounds 7 --budget 1",
    "sorting": f"sorting {_TWO} --rounds 7 --budget 1",
    "levels": f"levels {_TWO} --rounds 7 --budget 1",
    "linear-rows": f"kernels {_LINEAR} --sweep rows=1e4,1e5,1e6,1e7,1e8 --features 4 {_TWO}",
    "linear-sequences": f"kernels {_LINEAR} --sweep sequences=1,1e2,1e4,1e6 --rows 4e6 "
    f"--features 16 {_TWO}",
    "scaling": "kernels --op sum,softmax,reverse --against numpy,torch,awkward --rounds 5 "
    f"--budget 1 --sweep rows=1e4,1e5,1e6,1e7 --features 8 {_TWO}",
    "linear-skew": f"kernels {_LINEAR} --sweep skew=0,1,2,3,4 --rows 4e6 --features 16 {_TWO}",
    **dict.fromkeys(SCRIPTS, ""),
    # Each takes minutes; skewed lengths come first, for of them --quick makes its own.
    "gpu-pool": f"kernels --op {_POOL} --case G2,G1 {_GPU}",
    "gpu-softmax": f"kernels --op {_SOFTMAX} --case G2,G1 {_GPU}",
    "gpu-attention": f"kernels --op attention --case G2,G1 {_GPU}",
    "gpu-attention-half": f"kernels --op {_HALF} --case G2,G1 {_GPU}",
    "gpu-copy": f"kernels --op {_COPY},cumsum --case G2,G1 {_GPU}",
    "gpu-pad": f"kernels --op pad,unpad --case G3,G1 {_GPU}",
    "gpu-narrow": f"kernels --case B2 {_GPU}",
    "gpu-wide": f"kernels --case B3 {_GPU}",
    "gpu-rnn": f"rnn --case b,c,b-equal,c-equal {_GPU}",
    "gpu-rnn-tf32": f"rnn --cell lstm,gru --case b,c --precision tf32 {_GPU}",
    "gpu-rnn-small": f"rnn --case d {_GPU}",
    "gpu-rnn-narrow": f"rnn --case {_NARROW} {_GPU}",
    "gpu-rnn-narrow-tf32": f"rnn --cell lstm,gru --case {_NARROW} --precision tf32 {_GPU}",
    **{
        f"gpu-rnn-{precision}": f"rnn --cell lstm,gru --case {_NARROW},b,c --precision {precision} "
        f"{_GPU}"
        for precision in ("float16", "bfloat16")
    },
    **{
        f"gpu-rnn-large-{precision}": f"rnn --cell lstm,gru --case e,e-equal --precision "
        f"{precision} {_GPU}"
        for precision in ("tf32", "float16", "bfloat16")
    },
    "gpu-rnn-large": f"rnn --case e,e-equal {_GPU}",
}
ON_GPU = "gpu-"
STOPPING_SECONDS = 10


def command_of(name: str, folder: Path, *, quick: bool) -> list[str]:
    """Return the words of the command that makes a report."""
    # Reports hold their command: it is to be repeated elsewhere.
    inside = folder.is_relative_to(ROOT)
    target = str((folder.relative_to(ROOT) if inside else folder) / f"{name}.json")
    if name in SCRIPTS:
        size = shlex.split(SCRIPTS[name]) if quick else []
        return ["python", "-m", f"tests.benchmarks.{name}", *size, "-o", target]
    words = ["lod", "bench", *shlex.split(PARTS[name]), "-f", "-o", target]
    return quickened(words) if quick else words


def quickened(words: Sequence[str]) -> list[str]:
    """Return the same command with few rows and one round."""
    found = [*words, *shlex.split(QUICK)]
    if "--sweep" in found:
        place = found.index("--sweep") + 1
        what, _, values = found[place].partition("=")
        few = [value for value in values.split(",") if float(value) <= QUICK_ROWS]
        found[place] = f"{what}={','.join(few)}"
    if found[2] != "rnn":
        found += ["--rows", str(QUICK_ROWS)]
    elif "cuda" in found:
        found += shlex.split(QUICK_RNN)
    return found


def is_built() -> bool:
    """Return whether the kernels of the package that is measured were built with it."""
    code = "import sys; from lodcli.kernels.native import load; sys.exit(not load.is_shipped())"
    return subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


def measure(
    name: str, folder: Path, *, quick: bool, threads: int, limit_seconds: float | None = None
) -> str:
    """Make one report; return what went wrong, or nothing."""
    words = command_of(name, folder, quick=quick)
    program = Path(sys.executable)
    start = [str(program if words[0] == "python" else program.with_name("lod"))]
    if "--threads" in words:
        place = words.index("--threads") + 1
        words[place] = str(min(int(words[place]), threads))
    # As installed: with compiled bytecode.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [*start, *words[1:]],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = process.communicate(timeout=limit_seconds)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # it stores its measurements
        try:
            said = process.communicate(timeout=STOPPING_SECONDS)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[1]
        kept = "; what was is kept" if "interrupted; " in said else ""
        return f"was not done in the {limit_seconds:.0f} s that were left{kept}"
    last = said.strip().splitlines()[-1:] or [f"code {process.returncode}"]
    return last[0] if process.returncode else ""


def held(folder: Path, name: str) -> str:
    """Return a summary of the checks in the report of a part that passed, and that failed."""
    report = json.loads((folder / f"{name}.json").read_bytes())
    parts = [f"{len(report.get('results', report.get('rows', [])))} rows"]
    if report.get("missing"):
        parts.append(f"without {', '.join(report['missing'])}")
    left_out = {way for ways in report.get("skipped", {}).values() for way in ways}
    if left_out:
        parts.append(f"ways left out at times: {', '.join(sorted(left_out))}")
    return "; ".join(parts)


def chosen(patterns: Sequence[str]) -> list[str]:
    """Return the parts that match names or patterns, in order; by default all that need no GPU."""
    for pattern in patterns:
        if not fnmatch.filter(PARTS, pattern):
            raise SystemExit(f"{pattern}: no such part; there are: {', '.join(PARTS)}")
    if not patterns:
        return [name for name in PARTS if not name.startswith(ON_GPU)]
    return [name for name in PARTS if any(fnmatch.fnmatch(name, p) for p in patterns)]


def main() -> int:
    """Make the reports asked for; end with 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="names or patterns; all but gpu-* if none")
    parser.add_argument("--list", action="store_true", help="print the parts and end")
    parser.add_argument(
        "--quick", action="store_true", help="one round each, to check that it runs"
    )
    parser.add_argument(
        "--limit", type=float, metavar="SECONDS", help="time limit for all parts together"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    names = chosen(options.parts)
    if options.list:
        print("\n".join(shlex.join(command_of(name, FOLDER, quick=False)) for name in names))
        return 0
    if options.quick and options.folder == FOLDER:
        parser.error("--quick: name another --folder, so that no measured report is replaced")
    if not (options.quick or is_built() or all(name.startswith(ON_GPU) for name in names)):
        parser.error("the package of this Python is not built; install it: pip install .")
    options.folder.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    began, failed = time.monotonic(), []
    for name in names:
        start = time.monotonic()
        left = None if options.limit is None else max(0.0, options.limit - (start - began))
        wrong = measure(
            *(name, options.folder.resolve()),
            **{"quick": options.quick, "threads": cores, "limit_seconds": left},
        )
        failed += [name] if wrong else []
        seconds = time.monotonic() - start
        print(f"{seconds:6.0f} s  {name}: {wrong or held(options.folder, name)}", flush=True)
    then = "" if options.quick else "; now: python -m tests.benchmarks.page"
    print(f"{time.monotonic() - began:6.0f} s  in all{then}")
    if failed:
        print(f"failed, in whole or in part: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
