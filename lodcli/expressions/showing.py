"""Showing where an expression is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from lodcli.expressions.parsing import ExpressionError
from lodcli.shell.output import is_json
from lodcli.shell.printable import printable


@contextmanager
def showing_where(option: str = "expression") -> Iterator[None]:
    """Show on standard error which column of an expression an error is about.

    Args:
        option: the option that has it as value, for the message.
    """
    try:
        yield
    except ExpressionError as error:
        if not is_json():  # where each line is one object, and the message has the column
            shown = printable(error.text[: error.column])
            click.echo(f"  {printable(error.text)}\n  {' ' * len(shown)}^", err=True)
        error.args = (str(error).replace("expression, column", f"{option}, column", 1),)
        raise
