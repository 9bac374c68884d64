"""`lod convert --dry-run`: losses, and reasons why a format cannot hold a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import click

from lodcli.formats.core import io
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Batch, Schema
from lodcli.shell import output
from lodcli.shell.failures import UNSUPPORTED
from lodcli.shell.printable import printable
from lodcli.shell.targets import Target


def show_plan(target: Target, schema: Schema, batches: Iterable[Batch]) -> NoReturn:
    """Print the errors and losses of writing, and exit with the code that writing would have."""
    plan = io.planned(
        target.path, schema, batches, format_name=target.kind.name, options=target.full_options
    )
    if output.is_json():
        lost = [{"what": one.what, "names": [*one.lost]} for one in plan.lost]
        output.as_json({"format": plan.format_name, "refused": [*plan.refused], "lost": lost})
    else:
        lines = [f"refused: {reason}" for reason in plan.refused]
        lines += [f"lost: {one.what}: {listing(one.lost)}" for one in plan.lost]
        lines = lines or [f"{plan.format_name} keeps everything"]
        output.text("\n".join(map(printable, lines)))
    refused = plan.refused or (target.strict and plan.lost)
    click.get_current_context().exit(UNSUPPORTED if refused else 0)
