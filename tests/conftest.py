"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.plugins.slow",
    "tests.plugins.skipped",
    "tests.plugins.memory",
]

# Background jobs of a shell ignore SIGINT, and their child processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests of the sources, not run on an installed package: see INSTALLED in tests/run.sh.
ROOT = Path(__file__).parent.parent
if not (ROOT / "kernels").exists():
    collect_ignore = [
        *("test_imports.py", "test_option_names.py", "test_packaging.py", "test_platforms.py"),
        "test_site.py",
    ]

# COLUMNS limits the width of tables, and pytest-xdist sets it in its workers.
os.environ.pop("COLUMNS", None)
# RNNs on a GPU run as estimated, so that no result depends on measured times.
os.environ.setdefault("LOD_GPU_COSTS", "estimated")

# Torch computes few rows at a time; its idle threads would take processors from other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# No deadline: the time of an example depends on the machine and on compilation at first use.
#
# The same examples in each run, so that a failure is caused by a change of the code.
settings.register_profile(
    "lod", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("lod")
# To search for bugs: new examples in each run, and more if a test does not set their number.
settings.register_profile(
    "search", settings.get_profile("lod"), derandomize=False, max_examples=1000
)
# For runs under tools that slow down everything many times.
settings.register_profile("few", settings.get_profile("lod"), max_examples=20)


# Files whose tests take up to a minute each. If they ran last, one process would run on alone.
LONGEST = ("test_packaging.py", "test_platforms.py")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, and never examine their 800,000 objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first; skip tests that need a GPU if there is none, with the reason."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    for item in wanting:
        # Machines with a GPU may have any versions of other packages, which may warn.
        item.add_marker(pytest.mark.filterwarnings("default"))
        item.add_marker(pytest.mark.filterwarnings("error:::lodcli"))
    # Imported only for GPU tests, so that other tests run without cupy loaded.
    from lodcli.kernels.errors import UnsupportedError
    from lodcli.kernels.runtime.devices import require_gpu

    try:
        require_gpu("cuda")
    except UnsupportedError as error:
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=str(error)))
