"""A table of skipped tests, with the reasons, at the end of the output."""

from __future__ import annotations

import re
from collections import Counter

import pytest


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason of a skipped test, the same text for all tests that miss a package."""
    longrepr = report.longrepr
    words = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    words = words.removeprefix("Skipped: ")
    missing = re.match(r"could not import '([^'.]+)", words)
    return f"needs the package {missing[1]}" if missing else words


def table(reports: list[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Return a line for each reason, the most frequent first."""
    counts: dict[str, Counter[str]] = {}
    for report in reports:
        kind = "tests" if isinstance(report, pytest.TestReport) else "files"
        counts.setdefault(reason_of(report), Counter())[kind] += 1
    lines = [f"{'tests':>7} {'files':>7}  why"]
    for reason, count in sorted(counts.items(), key=lambda each: (-each[1].total(), each[0])):
        lines.append(f"{count['tests'] or '':>7} {count['files'] or '':>7}  {reason}")
    return lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table; a file counts once if none of its tests could be collected."""
    if skipped := terminalreporter.stats.get("skipped"):
        terminalreporter.section("skipped")
        for line in table(skipped):
            terminalreporter.write_line(line)
