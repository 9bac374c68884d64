"""Options for the messages of a command: -q, -v, --color and --json."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lodcli.shell.output import COLOR, JSON, QUIET, VERBOSE, tell_of_backends, tell_of_compiling

F = TypeVar("F", bound=Callable[..., Any])


def _keep(key: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that stores a value in the context; no value keeps that given to `lod`."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value:
            ctx.meta[key] = value
        return value

    return keep


def quiet(function: F) -> F:
    """-q, -v and --color; `output` reads them from the context, so commands do not handle them."""

    def keep(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.meta[QUIET] = value or ctx.meta.get(QUIET, False)
        if not ctx.meta[QUIET]:
            tell_of_compiling(ctx.command_path)

    def loudly(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.meta.get(VERBOSE):
            ctx.meta[VERBOSE] = True
            tell_of_backends(ctx)

    for option in (
        click.option(
            "--color",
            type=click.Choice(("auto", "always", "never")),
            expose_value=False,
            callback=_keep(COLOR),
            help="When to print in colour [default: auto, on a terminal].",
        ),
        click.option(
            "-v",
            "--verbose",
            is_flag=True,
            expose_value=False,
            callback=loudly,
            help="Print notes on files read and written, backends, time and memory.",
        ),
        click.option(
            "-q",
            "--quiet",
            is_flag=True,
            expose_value=False,
            callback=keep,
            help="Print no notes and no progress.",
        ),
    ):
        function = option(function)
    return function


as_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=_keep(JSON),
    help="Print one JSON object, for scripts; errors and notes are JSON too.",
)
