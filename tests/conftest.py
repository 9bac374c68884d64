"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.plugins.slow",
    "tests.plugins.skipped",
    "tests.plugins.memory",
]

# A shell has the jobs it starts in the background ignore interrupts, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests of the sources, where only an installed package is: see INSTALLED in tests/run.sh.
ROOT = Path(__file__).parent.parent
if not (ROOT / "kernels").exists():
    collect_ignore = ["test_imports.py", "test_packaging.py", "test_platforms.py", "test_site.py"]

# Tables keep to this width, and pytest-xdist sets it in its workers.
os.environ.pop("COLUMNS", None)
# No result depends on a clock: RNNs on a GPU are run as the estimates say.
os.environ.setdefault("LOD_GPU_COSTS", "estimated")

# Torch computes a few rows at a time; its idle threads would keep processors from other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# How long an example takes says something of the machine, and of compiling at first use; not
# of the code.
#
# Examples are drawn alike each time, so that the change is to blame for what fails.
settings.register_profile(
    "lod", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("lod")
# To look for faults: new examples each time, and more where a test does not say how many.
settings.register_profile(
    "search", settings.get_profile("lod"), derandomize=False, max_examples=1000
)
# For runs under tools that slow everything down many times.
settings.register_profile("few", settings.get_profile("lod"), max_examples=20)


# Files whose tests take up to a minute each: at the end one process would wait for another.
LONGEST = ("test_packaging.py", "test_platforms.py")


def pytest_collection_finish() -> None:
    """Have no garbage collection look at the tests themselves, which are 800,000 objects."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first; skip what needs a GPU where there is none, saying why."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    for item in wanting:
        # Such machines have the versions of other packages that they happen to have.
        item.add_marker(pytest.mark.filterwarnings("default"))
        item.add_marker(pytest.mark.filterwarnings("error:::lodcli"))
    # Only then, so that no other test finds cupy loaded.
    from lodcli.kernels.errors import UnsupportedError
    from lodcli.kernels.runtime.devices import require_gpu

    try:
        require_gpu("cuda")
    except UnsupportedError as error:
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=str(error)))
