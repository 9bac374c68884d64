"""Leave out the tests marked slow, unless they are asked for.

A run that names nothing, or folders only, is quick. `--all` runs everything, and so does a
run that chooses tests itself: a file, `FILE::NAME`, -k, -m or --last-failed.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --all."""
    parser.addoption("--all", action="store_true", help="run the tests marked slow as well")


def chosen(config: pytest.Config) -> bool:
    """Return whether the command line chooses tests itself."""
    options = ("keyword", "markexpr", "lf")
    files = any("::" in argument or argument.endswith(".py") for argument in config.args)
    return files or any(config.getoption(option, False) for option in options)


def is_quick(config: pytest.Config) -> bool:
    """Return whether the slow tests are left out."""
    return not (config.getoption("--all") or chosen(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the slow tests of a quick run."""
    if is_quick(config):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that some were left out; pytest-xdist does not count them."""
    if is_quick(terminalreporter.config):
        terminalreporter.write_line("the tests marked slow were left out; --all runs them too")
