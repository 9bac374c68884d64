"""Options in messages, as their reader writes them: `--nulls keep`, or `nulls='keep'` in Python.

A message is written for its reader where it is raised, so that errors, notes and texts made of
them are plain text. `str(error)` names arguments of Python, except while a command runs.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lodcli.kernels.platform.processes import held_during_forks

# Options whose arguments in Python have other names.
ARGUMENTS = {
    **{"compress": "compression", "force": "overwrite", "shard-size": "shard_bytes"},
    **{"from": "format_name", "to": "format_name", "isolate": "limits", "max-bytes": "limits"},
    "vocab": "vocabulary",
}

# The number of commands that run in the process. Threads that read for a command report to it.
_commands = 0
_lock = held_during_forks(threading.Lock())


@contextmanager
def for_shell() -> Iterator[None]:
    """Name options of commands in messages that are made within the block, or the function."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(number: int) -> None:
    global _commands
    with _lock:
        _commands += number


def option(name: str, *values: object) -> str:
    """Return an option for a message, as an argument of Python or, in a command, as its flag.

    Args:
        name: of the option, without the dashes.
        values: the value, or several to choose from; True for a switch.

    >>> option("nulls", "zero", "drop"), option("wide", True), option("to")
    ("nulls='zero' or 'drop'", 'wide=True', 'format_name=')
    >>> with for_shell():
    ...     option("nulls", "zero", "drop"), option("wide", True), option("to")
    ('--nulls zero or drop', '--wide', '--to')
    """
    if not _commands:
        return f"{option_name(name)}={_alternatives(list(map(repr, values)))}"
    said = _alternatives([shlex.quote(str(value)) for value in values if value is not True])
    return f"{option_name(name)} {said}".rstrip()


def option_name(name: str) -> str:
    """Return the name of an option, to precede a colon and the error.

    >>> option_name("index-dtype")
    'index_dtype'
    """
    return f"--{name}" if _commands else ARGUMENTS.get(name, name.replace("-", "_"))


def together(*options: str) -> str:
    """Return several options that one call has.

    >>> together(option("from", "hdf5"), option("data", "/x"))
    "format_name='hdf5', data='/x'"
    """
    return (" " if _commands else ", ").join(options)


def by_reader(*, shell: str, python: str) -> str:
    """Return the one of two texts that the reader of a message understands."""
    return shell if _commands else python


def to_main_memory(what: str) -> str:
    """Return advice about something that a GPU does not compute, for a message.

    >>> to_main_memory("the rows")
    'move the rows to main memory with LoDTensor.to_device'
    """
    how = by_reader(shell=option("device", "cpu"), python="LoDTensor.to_device")
    return f"move {what} to main memory with {how}"


def _alternatives(values: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(values[:-1]), *values[-1:]]))
