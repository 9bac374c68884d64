"""A limit on the memory of each test process, and which tests made it grow."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from lodcli.kernels.runtime import buffers
from tests.plugins.slow import chosen, is_quick

# Limit per process in a quick run; a laptop runs as many processes as it has cores.
QUICK_BYTES = 1_200_000_000
# Limit for one process with torch, Keras, ONNX, pandas, polars, Zarr and all compiled kernels.
ALL_BYTES = 2_200_000_000
SHOWN = 5
_STATUS = Path("/proc/self/status")

GROWTH = pytest.StashKey[dict[str, int]]()
PEAKS = pytest.StashKey[dict[str, dict[str, Any]]]()


def peak_bytes() -> int:
    """Return the peak memory of this process, or 0 if the system does not report it."""
    if not _STATUS.exists():
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def limit(config: pytest.Config) -> int | None:
    """Return the memory limit of a process; None if the command line selects tests."""
    if chosen(config):
        return None
    has_slow = not is_quick(config) or config.getoption("--slow-share")
    return ALL_BYTES if has_slow else QUICK_BYTES


def pytest_configure(config: pytest.Config) -> None:
    """Create the records."""
    config.stash[GROWTH] = {}
    config.stash[PEAKS] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record by how much a test raises the peak, including imports and compiled kernels.

    Free blocks in the buffer pool count until the system reclaims them, so each test starts with an
    empty pool.
    """
    before = peak_bytes()
    done = yield
    if grown := peak_bytes() - before:
        item.config.stash[GROWTH][item.nodeid] = grown
    buffers.clear()
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which a process exceeded the limit; a worker only reports its usage."""
    config = session.config
    growth = sorted(config.stash[GROWTH].items(), key=lambda each: -each[1])[:SHOWN]
    found = {"peak": peak_bytes(), "growth": growth}
    if hasattr(config, "workeroutput"):
        config.workeroutput["memory"] = found
        return
    peaks = config.stash[PEAKS]
    if not peaks:
        peaks["the process"] = found
    most = limit(config)
    if most and any(one["peak"] > most for one in peaks.values()) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Record the usage that a worker of pytest-xdist reports."""
    if found := getattr(node, "workeroutput", {}).get("memory"):
        node.config.stash[PEAKS][f"worker {node.gateway.id}"] = found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the memory usage; for a process over the limit, also which tests caused it."""
    most = limit(terminalreporter.config)
    for name, found in sorted(terminalreporter.config.stash[PEAKS].items()):
        if most and found["peak"] > most:
            terminalreporter.section("too much memory")
            terminalreporter.write_line(f"{name}: {_mb(found['peak'])}, allowed are {_mb(most)}")
            for test, grown in found["growth"]:
                terminalreporter.write_line(f"  +{_mb(grown)}  {test}")
        elif found["peak"]:
            terminalreporter.write_line(f"{name}: at most {_mb(found['peak'])} of memory")


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
