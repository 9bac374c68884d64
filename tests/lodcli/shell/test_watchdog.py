"""The watchdog: an interrupt ends the process during any library call, without noise."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.storage import interrupts
from lodcli.kernels.native import load
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell import watchdog
from tests.hanging import HANG_SECONDS
from tests.launchers import handling
from tests.lodcli.conftest import environment
from tests.sampling import by_turns

if not hasattr(os, "fork"):
    pytest.skip("needs a fork", allow_module_level=True)

START = """
import contextlib, ctypes, os, time
from lodcli.shell import watchdog
from lodcli.formats.storage import interrupts
from lodcli.formats.storage.interrupts import Interrupted, shielded
from lodcli.formats.storage.outputs import Output

def ready():
    print("ready", flush=True)

def hang(library):
    \"\"\"Wait for a mutex that this thread holds: no signal ends that, and no Python is run.\"\"\"
    mutex = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    with shielded():
        ready()
        library.pthread_mutex_lock(mutex)

free, held = ctypes.CDLL(None), ctypes.PyDLL(None)  # the interpreter's lock
interrupts.install()
watchdog.start()
"""
SWALLOWED = """
with contextlib.suppress(BaseException):
    ready()
    time.sleep(600)
time.sleep(600)
"""
IN_A_SHIELD = "with shielded():\n    ready()\n    while True: pass\n"
NEVER_CLEANED = """
try:
    ready()
    time.sleep(600)
finally:
    while True: time.sleep(1)
"""
IN_HDF5 = """
import io
import h5py
class File(io.BytesIO):
    def write(self, data): hang(free)
h5py.File(File(), "w").close()
"""
CASES = {
    "in C": "hang(free)",
    "in HDF5": IN_HDF5,
    "swallowed": SWALLOWED,
    "in a shield": IN_A_SHIELD,
    "never cleaned": NEVER_CLEANED,
}


def interrupted(code: str, signum: int, folder: Path) -> tuple[int, bytes]:
    """Return the exit code, as a shell shows it, and stderr of a process after a signal."""
    with subprocess.Popen(
        [*handling(interrupts.SIGNALS), sys.executable, "-c", START + code],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signum)
            _, stderr = process.communicate(timeout=HANG_SECONDS)
        finally:
            process.kill()
    ended = process.returncode
    return (ended if ended >= 0 else 128 - ended), stderr


LACKING_THREAD = """
import asyncio, concurrent.futures, sys, threading, click
from lodcli.formats.zarr.lost_errors import interrupt_for_lost_errors
from lodcli.shell import failures, standard_streams

def lack():
    raise MemoryError

def in_loop():
    loop = asyncio.new_event_loop()
    loop.call_soon(lack)
    loop.run_forever()

def in_pool():
    concurrent.futures.Future.set_result = lambda *_: lack()
    concurrent.futures.ThreadPoolExecutor().submit(int).result()

def wait(group):  # as a library does for the result of its own thread
    interrupt_for_lost_errors()
    threading.Thread(target={target}, daemon=True).start()
    threading.Event().wait()

standard_streams.prepare_streams()
failures._complete = wait
sys.exit(failures.run(click.Group(), []))
"""


@pytest.mark.parametrize("target", ["lack", "in_loop", "in_pool"])
def test_memory_that_a_librarys_thread_lacks_ends_the_wait_for_it(target: str) -> None:
    command = [sys.executable, "-c", START + LACKING_THREAD.replace("{target}", target)]
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=HANG_SECONDS)
    assert done.returncode == 3
    assert done.stderr.startswith(b"lod: not enough memory"), done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("signum", interrupts.SIGNALS)
@pytest.mark.parametrize("code", CASES.values(), ids=CASES)
def test_a_process_that_does_not_end_is_ended(code: str, signum: int, tmp_path: Path) -> None:
    assert interrupted(code, signum, tmp_path) == (128 + signum, b"")


@pytest.mark.slow
def test_a_library_that_keeps_the_interpreters_lock_is_killed(tmp_path: Path) -> None:
    code = "output = Output('t.npz'); output.write(b'x')\nhang(held)"
    assert interrupted(code, signal.SIGINT, tmp_path) == (137, b"")
    assert [name[:7] for name in os.listdir(tmp_path)] == [".t.npz."]
    with_another = "with Output('t.npz') as output: output.write(b'new')"
    subprocess.run(
        [sys.executable, "-c", START + with_another], cwd=tmp_path, env=environment(), check=True
    )
    assert os.listdir(tmp_path) == ["t.npz"], "the next writer has not cleaned up"


def test_a_signal_that_was_handled_leaves_time_for_the_cleanup(tmp_path: Path) -> None:
    # A signal that comes just before one long sleep would not end it.
    code = """
try:
    ready()
    while True: time.sleep(0.01)
except Interrupted:
    interrupts.handled()
time.sleep(4)  # longer than the watchdog waits
os._exit(7)
"""
    assert interrupted(code, signal.SIGINT, tmp_path) == (7, b"")


def test_a_signal_that_interrupts_nothing_ends_nothing() -> None:
    """As SIGWINCH, when the terminal of `lod view` is resized."""
    code = START.replace("watchdog.start()", "watchdog.PENDING_SECONDS = 0.1\nwatchdog.start()")
    code += """
import signal
signal.signal(signal.SIGWINCH, lambda *_: None)
os.kill(os.getpid(), signal.SIGWINCH)
time.sleep(0.6)
os._exit(7)
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment(), timeout=HANG_SECONDS)
    assert done.returncode == 7


def test_time_in_which_nothing_could_run_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the machine were suspended for an hour between any two readings of the clock."""
    hours = itertools.count(step=3600)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(hours)))
    signals, wake = os.pipe()
    assert watchdog._is_pending(signals, 2 * watchdog._SLICE_SECONDS)
    assert next(hours) == 2 * 2 * 3600, "not two slices"
    os.write(wake, bytes([0]))  # the interrupt was met
    assert not watchdog._is_pending(signals, watchdog.PENDING_SECONDS)
    os.close(signals)
    os.close(wake)


def test_an_interrupt_in_a_destructor_makes_no_noise_and_is_raised_again(tmp_path: Path) -> None:
    code = """
class Late:
    def __del__(self):
        ready()
        time.sleep(600)
        raise AssertionError("nobody interrupted")

try:
    late = Late()
    del late
    interrupts.check()
except Interrupted as error:
    os._exit(128 + error.signum)
"""
    assert interrupted(code, signal.SIGTERM, tmp_path) == (143, b"")


def test_other_errors_in_destructors_are_still_printed() -> None:
    code = """
class Broken:
    def __del__(self):
        raise ValueError("in a destructor")

Broken()
"""
    result = subprocess.run(
        [sys.executable, "-c", START + code], env=environment(), capture_output=True, check=True
    )
    assert b"Exception ignored" in result.stderr
    assert b"in a destructor" in result.stderr


def test_the_child_ends_with_the_process(tmp_path: Path) -> None:
    """A pipe that it inherits is closed: it closes all, and ends."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    subprocess.run(
        [sys.executable, "-c", START],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        pass_fds=(writing,),
        check=True,
    )
    os.close(writing)
    assert os.read(reading, 1) == b"", "the child still runs"
    os.close(reading)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
def test_a_command_leaves_no_zombie_to_the_first_process_of_a_container() -> None:
    """Children of a process that ended go to the subreaper, as to process 1."""
    code = """
import ctypes, os, subprocess
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
subprocess.run(["lod", "env"], stdout=subprocess.DEVNULL, check=True)
try:
    left = os.waitpid(-1, 0)
except ChildProcessError:
    left = None
assert left is None, left
"""
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs /proc")
def test_the_child_holds_no_folder(tmp_path: Path) -> None:
    """It may end after the process; the file system of the folder can be unmounted then."""
    code = f"""
def is_mine(process):
    with contextlib.suppress(OSError):  # it has ended meanwhile
        fields = open(f"/proc/{{process}}/stat").read().rpartition(")")[2].split()
        return int(fields[1]) == os.getpid()

ready()
child = next(name for name in os.listdir("/proc") if name.isdigit() and is_mine(name))
until = time.monotonic() + {HANG_SECONDS / 4}
while os.readlink(f"/proc/{{child}}/cwd") != "/" and time.monotonic() < until:
    time.sleep(0.01)
assert os.readlink(f"/proc/{{child}}/cwd") == "/"
"""
    subprocess.run(
        [sys.executable, "-c", START + code], cwd=tmp_path, env=environment(), check=True
    )


# Both compile for several seconds where nothing is kept.
COMPILING = (
    "apply sort in.lod.h5 -o out.lod.h5",
    "run-rnn in.lod.h5 --cell gru --hidden 8 --seed 1 -o out.lod.h5",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "signum"), by_turns(2, COMPILING, [signal.SIGINT, signal.SIGTERM])
)
def test_an_interrupt_while_kernels_are_compiled_ends_the_process_in_silence(
    line: str, signum: int, tmp_path: Path
) -> None:
    # Too much for NumPy, which computes what is small in a checkout.
    rows = np.ones((300_000, 4), np.float32)
    lodcli.write(tmp_path / "in.lod.h5", LoDTensor(rows, [[100_000, 200_000]]))
    for seconds in (0.1, 1.0, 3.0):
        cache = tmp_path / f"cache-{seconds}"
        with subprocess.Popen(
            [*handling(interrupts.SIGNALS), "lod", *line.split(), "-f"],
            cwd=tmp_path,
            env=environment(LOD_CACHE=str(cache), LOD_BUILD_OBJECTS=""),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            while not cache.exists() and process.poll() is None:
                time.sleep(0.02)
            assert cache.exists() or load.is_shipped()
            time.sleep(seconds)
            process.send_signal(signum)
            _, stderr = process.communicate(timeout=HANG_SECONDS)
        if process.returncode != 0:  # on a fast machine it was done before
            assert (process.returncode, stderr) == (128 + signum, b"")
