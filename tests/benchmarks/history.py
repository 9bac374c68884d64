"""How fast our own kernels were at each commit, measured in turn on this machine.

    python -m tests.benchmarks.history HEAD~5..HEAD -- kernels --op sum,softmax
    python -m tests.benchmarks.history v0.1 HEAD --passes 5 -- rnn --cell lstm --case a

Each commit is checked out into a work tree of its own, and `lod bench` of that commit runs
there; what follows -- goes to it. All commits run once, then all again, so that a drifting
machine disturbs all alike. Prints one line a measurement and commit, and what changed from the
one before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lodcli.bench.report.compare import compared
from lodcli.bench.report.text_table import time_text
from lodcli.kernels.errors import InvalidDataError

# What the runs of one commit say together.
POOLED = ("times", "limit_times", "samples", "dropped")
ROOT = Path(__file__).parent.parent.parent


@dataclass
class Commit:
    """A commit, its work tree, and the report of all its runs."""

    name: str
    subject: str
    folder: Path
    report: dict[str, Any] | None = None
    failure: str = ""


def git(*arguments: str) -> str:
    """Return what git says."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commits_of(texts: Sequence[str]) -> list[str]:
    """Return the commits that ranges and names mean, the oldest first."""
    found: list[str] = []
    for text in texts:
        one = ["-1"] if ".." not in text else []
        found += reversed(git("rev-list", "--first-parent", *one, text).split())
    return list(dict.fromkeys(found))


@contextlib.contextmanager
def checked_out(names: Sequence[str]) -> Iterator[list[Commit]]:
    """Give the commits, each in a work tree; remove those at the end."""
    with tempfile.TemporaryDirectory(prefix="lod-history-") as parent:
        found: list[Commit] = []
        try:
            for name in names:
                folder = Path(parent) / name[:12]
                git("worktree", "add", "--detach", "--force", str(folder), name)
                subject = git("log", "-1", "--format=%h %s", name)
                found.append(Commit(name, subject, folder))
            yield found
        finally:
            for commit in found:
                git("worktree", "remove", "--force", str(commit.folder))


def measure(commit: Commit, arguments: Sequence[str]) -> None:
    """Run `lod bench` of a commit, and add the results to the commit's report."""
    done = subprocess.run(
        [sys.executable, "-m", "lodcli", "bench", *arguments, "--against", "none", "--json"],
        cwd=commit.folder,
        env={**os.environ, "PYTHONPATH": str(commit.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        commit.failure = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        return
    report = json.loads(done.stdout)
    if commit.report is None:
        commit.report = report
        return
    again = {row["command"]: row for row in report["results"]}
    for row in commit.report["results"]:
        if row["command"] in again:
            other = again[row["command"]]
            row["noisy"] = row["noisy"] and other["noisy"]
            for key in POOLED:
                row[key] += other[key]


def changes(commits: Sequence[Commit], threshold: float, alpha: float) -> Iterator[str]:
    """Yield a line for each commit and measurement."""
    before: Commit | None = None
    for commit in commits:
        yield commit.subject
        if commit.report is None:
            yield f"  not measured: {commit.failure}"
            continue
        base = (before or commit).report
        assert base is not None
        try:
            found = compared(base, commit.report, threshold=threshold, alpha=alpha)
        except InvalidDataError as error:
            yield f"  not compared: {error}"
            found = []
        for one in found:
            mark = "" if one.verdict == "same" else f"  {one.verdict} ({one.ratio:.2f} of before)"
            yield f"  {time_text(one.new):>10}  {one.command}{mark}"
        before = commit


def main() -> None:
    """Measure the commits asked for, print what changed."""
    given = sys.argv[1:]
    split = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commits", nargs="+", help="names or ranges")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--threshold", type=float, default=5.0, help="percent")
    parser.add_argument("--alpha", type=float, default=0.01)
    parser.add_argument("--json", type=Path, help="keep the reports in this file")
    options = parser.parse_args(given[:split])
    arguments = given[split + 1 :] or ["kernels", "--case", "B1"]
    with checked_out(commits_of(options.commits)) as commits:
        for _ in range(options.passes):
            for commit in commits:
                if not commit.failure:
                    measure(commit, arguments)
        for line in changes(commits, options.threshold / 100, options.alpha):
            print(line)
        if options.json:
            kept = [{"commit": one.subject, "report": one.report} for one in commits]
            options.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
