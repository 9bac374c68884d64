"""Leave out the tests marked slow, unless they are selected.

A run without arguments, or with folders only, is quick. `--all` runs everything, and so does a
run that selects tests: a file, `FILE::NAME`, -k, -m or --last-failed. `--slow-share N` adds
one of N of the slow tests, always the same: .ci/run uses it, and .ci/nightly runs all.
"""

from __future__ import annotations

import zlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --all and --slow-share."""
    parser.addoption("--all", action="store_true", help="run the tests marked slow as well")
    parser.addoption(
        "--slow-share", type=int, metavar="N", help="run one of N of the tests marked slow as well"
    )


def in_quick_run(item: pytest.Item) -> bool:
    """Return whether a test is quick, or in the share of slow ones that runs."""
    share = item.config.getoption("--slow-share")
    slow = item.get_closest_marker("slow") is not None
    return not slow or (share is not None and zlib.crc32(item.nodeid.encode()) % share == 0)


def chosen(config: pytest.Config) -> bool:
    """Return whether the command line selects tests."""
    options = ("keyword", "markexpr", "lf")
    files = any("::" in argument or argument.endswith(".py") for argument in config.args)
    return files or any(config.getoption(option, False) for option in options)


def is_quick(config: pytest.Config) -> bool:
    """Return whether the slow tests are left out."""
    return not (config.getoption("--all") or chosen(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the slow tests of a quick run."""
    if is_quick(config):
        left_out = [item for item in items if not in_quick_run(item)]
        items[:] = [item for item in items if in_quick_run(item)]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print that tests were left out; pytest-xdist does not count them."""
    if is_quick(terminalreporter.config):
        share = terminalreporter.config.getoption("--slow-share")
        which = f"all but one of {share} of the" if share else "the"
        terminalreporter.write_line(f"{which} tests marked slow were left out; --all runs them too")
