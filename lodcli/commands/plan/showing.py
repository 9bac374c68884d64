"""A plan as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lodcli.commands.plan.planning import Plan
from lodcli.reports.batching import Cost
from lodcli.shell.output import plural, table
from lodcli.shell.printable import printable


def as_text(plan: Plan, costs: Sequence[Cost]) -> str:
    """Return the table, with a line above that describes its data."""
    rows = [
        (
            cost.strategy,
            f"{cost.batches:,}",
            f"{cost.padding:,}",
            f"{100 * cost.padding / max(1, cost.padding + plan.total):.1f} %",
            f"{100 * cost.fill:.1f} %",
        )
        for cost in costs
    ]
    sequences = plural(plan.chosen.size, "sequence")
    lines = [
        f"{printable(plan.name)}: {sequences}, {plural(plan.total, 'row')}, "
        f"in batches of {plan.tokens:,}"
    ]
    if plan.too_long:
        lines.append(f"left out: {plural(plan.too_long, 'sequence')} of more rows than a batch")
    headers = ("strategy", "batches", "padding", "of all", "filled")
    return "\n".join([*lines, "", table(headers, rows)])


def as_object(plan: Plan, costs: Sequence[Cost]) -> dict[str, Any]:
    """Return the plan for --json."""
    return {
        "tensor": plan.name,
        "tokens": plan.tokens,
        "sequences": int(plan.chosen.size),
        "rows": plan.total,
        "too_long": plan.too_long,
        "strategies": [asdict(cost) for cost in costs],
    }
