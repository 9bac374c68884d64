"""The machine and its processes, and fallbacks for missing calls."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lodcli.kernels.platform import machine, processes
from tests.hanging import HANG_SECONDS
from tests.test_imports import MODULES


@pytest.fixture
def no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "lines_of", lambda path: [])
    monkeypatch.setattr(processes, "lines_of", lambda path: [])


def test_the_usable_processors_are_all_where_the_system_cannot_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert 1 <= machine.usable_cores() <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert machine.usable_cores() == (os.cpu_count() or 1)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.usable_cores() == 1


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_the_control_group_limits_the_processors(
    files: dict[str, str], cores: int | None, tmp_path: Path
) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    assert machine.cores_of_group(tmp_path) == cores


def test_the_smallest_quota_of_the_groups_around_the_process_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "lines_of", lambda path: ["0::/jobs/7"])
    (tmp_path / "jobs" / "7").mkdir(parents=True)
    (tmp_path / "jobs" / "cpu.max").write_text("200000 100000\n")
    (tmp_path / "jobs" / "7" / "cpu.max").write_text("max 100000\n")
    assert machine.cores_of_group(tmp_path) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP and /proc")
def test_a_stopped_process_is_reported() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        try:
            assert not processes.is_stopped(child.pid)
            child.send_signal(signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            can_say = any(processes.lines_of("/proc/self/stat"))
            assert processes.is_stopped(child.pid) == can_say
        finally:
            child.kill()
    assert not processes.is_stopped(child.pid)


def test_other_threads_that_run_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            hashlib.sha256(bytes(1 << 20))  # without the interpreter's lock

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        can_say, found = any(processes.lines_of("/proc/self/stat")), False
        for _ in range(20):
            time.sleep(0.001)
            found |= processes.others_run()
        assert found == can_say
        monkeypatch.setattr(processes, "lines_of", lambda path: [])
        assert not processes.others_run()
    finally:
        stop.set()
        thread.join()


# A thread holds a lock, and releases it only after a fork has begun.
FORK = """
import importlib, os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
lock = importlib.import_module(sys.argv[1])._lock
held, forks = threading.Event(), threading.Event()
def hold():
    with lock:
        held.set()
        forks.wait()
        time.sleep(0.1)
threading.Thread(target=hold).start()
held.wait()
os.register_at_fork(before=forks.set)
child = os.fork()
if child == 0:
    signal.alarm(int(sys.argv[2]))
    with lock:
        os._exit(0)
with lock:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not processes.CAN_FORK, reason="needs fork")
@pytest.mark.parametrize("module", ["native.load", "options"])
def test_a_lock_that_a_thread_holds_is_free_in_a_forked_process(module: str) -> None:
    words = [f"lodcli.kernels.{module}", str(HANG_SECONDS)]
    assert subprocess.run([sys.executable, "-c", FORK, *words], check=False).returncode == 0


def test_all_locks_of_modules_are_held_during_forks() -> None:
    left_out = {
        "lodcli.kernels.platform.files": "_positions",  # for systems without fork
        "lodcli.kernels.rnn.engine.cupy.graphs": "_lock",  # CUDA does not work in a forked process
    }
    found = {}
    for module, path in MODULES.items():
        for name in re.findall(r"^(\w+)\b.* = threading\.R?Lock\(", path.read_text("utf-8"), re.M):
            found[module] = name
    assert found == left_out


@pytest.mark.usefixtures("no_proc")
def test_the_machine_is_described_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.cpu_name()
    whole = machine.memory_bytes()
    assert whole is not None
    assert whole >= 1 << 20
    assert machine.available_bytes() is not None
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr(machine, "left_in_group", lambda: None)
    assert machine.memory_bytes() is None
    assert machine.available_bytes() is None


def test_memory_is_advised_where_the_system_takes_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    with mmap.mmap(-1, 1 << 16) as block:
        assert machine.advise(block, "MADV_DONTNEED")
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
        assert not machine.advise(block, "MADV_HUGEPAGE")


def test_the_usage_of_a_process_is_known_without_getrusage(monkeypatch: pytest.MonkeyPatch) -> None:
    known = processes.usage()
    monkeypatch.setattr(processes, "resource", None)
    found = processes.usage()
    assert found.preemptions == 0
    assert found.user >= known.user - 0.1  # its clock ticks every 10 ms


def test_without_limits_and_prctl_a_process_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit may be set in the process that runs the tests; so these are."""
    monkeypatch.setattr(processes, "resource", None)
    monkeypatch.setattr(processes, "libc", lambda name: None)
    processes.limit_memory(1 << 20)
    processes.limit_core_dumps()
    processes.limit_writing()
    processes.limit_descriptors(1)
    processes.limit_seconds(1)
    processes.end_with_parent()
    monkeypatch.delattr(signal, "SIGSTOP")
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        processes.suspend(child)
    processes.suspend(child)  # it has ended


@pytest.mark.usefixtures("no_proc")
def test_without_proc_memory_is_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        processes, "_limit", lambda name, value: pytest.fail("of what is not known")
    )
    processes.limit_memory(1 << 20)


def test_no_function_of_the_c_library_is_looked_for_but_on_linux(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert processes.libc("no_such_function") is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert processes.libc("renameat2") is None


def test_the_platform_of_a_worker_needs_no_other_module_of_ours() -> None:
    code = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('apart', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "assert module.usage().user >= 0\n"
        "assert not any(name.startswith('lodcli') for name in sys.modules)"
    )
    command = [sys.executable, "-I", "-S", "-c", code, processes.__file__]
    subprocess.run(command, check=True)


def test_the_second_cache_is_the_one_that_says_so(tmp_path: Path) -> None:
    for number, (level, size) in enumerate((("1", "48K"), ("2", "2048K"), ("3", "491520K"))):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    assert machine.second_cache_bytes(tmp_path) == 2048 * 1024
    (tmp_path / "index1" / "size").write_text("unknown\n")
    assert machine.second_cache_bytes(tmp_path) is None
    assert machine.second_cache_bytes(tmp_path / "none") is None
