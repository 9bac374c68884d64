"""The object that each command prints with --json, by its name in `lodcli.reports`.

A command that is not here writes files with -o and prints `written.Written`.
"""

from __future__ import annotations

import importlib
from typing import Any

WRITTEN = "written.Written"
# Those of `lod bench` and `lod apply` are of the group itself, or of all its commands.
TABLE = {
    "inspect": "inspection.Inspection | inspection.Forms",
    "split": "written.Split",
    "shard": WRITTEN,
    "diff": "comparison.Comparison",
    "plan": "batching.BatchPlan",
    "convert": f"converting.Formats | converting.ConversionPlan | {WRITTEN}",
    "apply": f"about.Ops | {WRITTEN}",
    "bench": "benchmark.Benchmark | benchmark.Changes",
    "train": "models.Training",
    "weights": "models.Weights",
    "verify": "verification.Verification",
    "view": "viewing.View",
    "plot": "viewing.Plot",
    "completion": "about.Completion",
    "schema": "about.Schemas",
    "env": "about.Environment",
    "error": "errors.ErrorLine | errors.NoteLine",
}
# Not a command: what all of them print on standard error.
ERROR = "error"


def of_command(name: str) -> tuple[type[Any], ...]:
    """Return the TypedDicts of the objects that a command may print with --json."""
    found = []
    for one in TABLE.get(name, WRITTEN).split(" | "):
        module, _, kind = one.partition(".")
        found.append(getattr(importlib.import_module(f"lodcli.reports.{module}"), kind))
    return tuple(found)
