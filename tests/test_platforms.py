"""lod on other systems: code that differs is in one package, and its fallbacks work."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.sampling import THOROUGH
from tests.test_imports import MODULES, ROOT, imports, parsed

PLACE = "lodcli.kernels.platform"
POSIX_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
# Names that these modules lack on Windows, and some of them on macOS as well.
POSIX_ONLY = {
    "os": {
        *("WEXITSTATUS", "WIFEXITED", "WIFSIGNALED", "WNOHANG", "WTERMSIG", "chown"),
        *("copy_file_range", "fchmod", "fchown", "fork", "forkpty", "geteuid", "getpgid", "getuid"),
        *("killpg", "lchown", "memfd_create", "mkfifo", "nice", "openpty", "pidfd_open"),
        *("posix_fadvise", "posix_fallocate", "pread", "preadv", "pwrite", "pwritev", "readv"),
        *("sched_getaffinity", "sched_setaffinity", "sendfile", "setpgid", "setsid", "statvfs"),
        *("sync", "sysconf", "uname", "wait", "waitid", "writev"),
        *("O_CLOEXEC", "O_DIRECTORY", "O_DSYNC", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC"),
    },
    "signal": {
        *("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGSTOP", "SIGUSR1"),
        *("SIGUSR2", "SIGXCPU", "pthread_kill", "pthread_sigmask", "setitimer", "sigwait"),
    },
    "mmap": {"MADV_DONTNEED", "MADV_FREE", "MADV_HUGEPAGE", "MAP_ANONYMOUS", "MAP_PRIVATE"},
}
# Not reached on systems without fork, or without MADV_FREE, which is checked first.
GUARDED = {
    "lodcli.formats.sandbox.process": {"fork", "WIFSIGNALED", "WTERMSIG", "SIGKILL", "SIGXCPU"},
    "lodcli.formats.sandbox.replies": {"readv", "writev"},
    "lodcli.kernels.runtime.buffers": {"MAP_ANONYMOUS", "MAP_PRIVATE"},
}


def differing(module: str) -> Iterator[str]:
    """Yield the system-dependent names that a module uses."""
    tree = parsed(MODULES[module])
    for found in imports(tree):
        if found.top in POSIX_MODULES:
            yield f"{found.line}: import {found.name}"
    allowed = GUARDED.get(module, set())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = POSIX_ONLY.get(node.value.id, set())
            if node.attr in used - allowed or (node.value.id, node.attr) == ("sys", "platform"):
                yield f"{node.lineno}: {node.value.id}.{node.attr}"
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith(("/proc/", "/sys/"))
        ):
            yield f"{node.lineno}: {node.value}"


def test_only_one_package_uses_what_differs_between_systems() -> None:
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{what}; see {PLACE}"
        for module in MODULES
        if not module.startswith(PLACE)
        for what in differing(module)
    ]
    assert not wrong, "\n".join(wrong)
    assert any(differing(f"{PLACE}.files"))
    assert all(module in MODULES for module in GUARDED)


# As on Windows: without the modules and names in the tables.
ON_WINDOWS = """
import sys
sys.modules.update(dict.fromkeys({modules!r}))
# These come with what Windows needs, and have looked at the system before it changes here.
import ctypes, mmap, os, platform, pydoc, shutil, signal, subprocess, tempfile
import click, h5py, numba, numpy as np, pyarrow
for module, names in {only!r}.items():
    for name in names:
        vars(sys.modules[module]).pop(name, None)
os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks = set(), set(), set()
sys.platform = "win32"
"""
READING = """
import lodcli
from lodcli.kernels.ops.softmax.softmax import sequence_softmax
from lodcli.kernels.runtime.threads import thread_count

for path in sys.argv[1:]:
    tensor = lodcli.read(path)
    (row,) = tensor.lod.levels
    assert row.tolist() == [0, 2, 5], path
    soft = sequence_softmax(tensor, backend="numpy").data
    # By hand: e / (1 + e), and thirds.
    assert np.allclose(soft, [0.26894142, 0.73105858, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6), path
    with lodcli.open(path) as source:
        (name,) = (spec.name for spec in source.schema)
        assert source.slice(name, (slice(0, 1),)).data.tolist() == [0, 1], path
    with lodcli.open(path) as source:
        assert source.read_index(name).levels[0].tolist() == [0, 2, 5], path
    print("read", os.path.basename(path))
assert thread_count() >= 1
try:
    lodcli.write(path + ".npz", tensor)
except lodcli.UnsupportedError as error:
    assert "t.jsonl.gz.npz: lod cannot rename an open file here" in str(error), error
else:
    raise AssertionError("it was written")
sys.argv = ["lod", "inspect", sys.argv[1]]
from lodcli.main import main

assert main() == 0
"""
ENDINGS = ("lod.h5", "npz", "jsonl", "lods", "safetensors", "parquet", "arrow", "h5", "jsonl.gz")


def test_reading_and_numpys_kernels_work_without_what_windows_lacks(tmp_path: Path) -> None:
    tensor = LoDTensor(np.array([0.0, 1.0, 2.0, 2.0, 2.0]), LoD.from_lengths([[2, 3]]))
    paths = [tmp_path / f"t.{ending}" for ending in ENDINGS]
    for path in paths:
        lodcli.write(path, tensor)
    code = ON_WINDOWS.format(modules=sorted(POSIX_MODULES), only=POSIX_ONLY) + READING
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, paths)],
        env={**os.environ, "COLUMNS": "300"},  # a long path is not wrapped
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[: len(paths)] == [f"read {path.name}" for path in paths]
    assert "t.lod.h5: lod.h5, 1 tensor" in lines[len(paths)]


# The tests that use most of the functions with fallbacks.
HERE = (
    "tests/kernels/platform",
    "tests/kernels/runtime/test_threads.py",
    "tests/kernels/runtime/test_buffers.py",
)
WITHOUT_LINUX = (
    *("tests/formats/storage/test_outputs.py", "tests/formats/storage/test_output_sets.py"),
    *("tests/formats/storage/test_journal.py", "tests/formats/storage/test_inputs.py"),
    *(
        "tests/formats/sandbox/test_isolation.py",
        "tests/formats/sandbox/test_isolation_requests.py",
    ),
    *("tests/formats/container/test_container_parts.py", "tests/formats/core/test_bombs.py"),
    "tests/formats/sandbox/test_sandbox.py",
    *("tests/lodcli/bench/test_session.py", "tests/lodcli/bench/test_harness.py"),
    *("tests/lodcli/bench/test_cases.py", "tests/lodcli/shell/test_signals.py"),
    # These also run in WITHOUT_POSIX, which hides everything that is hidden here.
    *(("tests/formats/container/test_container.py",) if THOROUGH else ()),
    *(("tests/formats/stream/test_stream.py",) if THOROUGH else ()),
)
# Locks and process limits are hidden as well.
WITHOUT_POSIX = (
    *("tests/formats/storage/test_outputs.py", "tests/formats/container/test_container.py"),
    *("tests/formats/stream/test_stream.py", "tests/formats/storage/test_inputs.py"),
    *("tests/formats/npz/test_npz.py", "tests/formats/json/test_jsonl.py"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("what", "tests"), [("linux", WITHOUT_LINUX), ("posix", WITHOUT_POSIX)])
def test_tests_pass_where_what_other_systems_lack_is_hidden(
    what: str, tests: tuple[str, ...]
) -> None:
    hidden = str(ROOT / "tests" / "hidden")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    if not THOROUGH:
        command.append("--hypothesis-profile=few")
    done = subprocess.run(
        [*command, *HERE, *tests],
        env={**os.environ, "PYTHONPATH": hidden, "LOD_HIDDEN": what},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-8000:]
