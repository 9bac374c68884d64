"""The errors of all floors.

Kernels name the level and the position, formats add the file and the dataset, and
the command line turns the class into an exit code. A class exists where a caller
would act differently on it, not for every message.
"""

from __future__ import annotations

from collections.abc import Sequence

_TRACEBACK = "Traceback (most recent call last):\n"


def counted(count: int, what: str) -> str:
    """Return a number of things for a message.

    >>> counted(1, "level"), counted(2, "level")
    ('1 level', '2 levels')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


class LodError(Exception):
    """Any error of this project. The message is one line, meant for a person."""

    def __str__(self) -> str:
        text = super().__str__()
        if _TRACEBACK in text:  # a DataLoader of torch adds that of its worker process
            return text
        # The representation of a value that the message quotes, such as an array, may have several.
        return " ".join(map(str.strip, text.split("\n")))


class InvalidDataError(LodError, ValueError):
    """Data that breaks a rule: a wrong dtype, shape, number of rows, damaged bytes."""


class OptionError(InvalidDataError):
    """An argument that no data would make sense of: a window of no rows, two options at odds."""


class InvalidLoDError(InvalidDataError):
    """An index that breaks a rule of docs/format.md, "What a tensor is".

    Attributes:
        level: the level at fault, 0 the outermost; None if the fault is no level's.
        position: the position inside the level; None if the whole level is at fault.
        expected: what the rule asks for, in words or as a number.
        found: what was there instead.
    """

    def __init__(
        self,
        what: str,
        *,
        level: int | None = None,
        position: int | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        where = "" if level is None else f"level {level}"
        if position is not None:
            where += f", position {position}"
        super().__init__(f"{where}: {what}" if where else what)
        self.what = what
        self.level = level
        self.position = position
        self.expected = expected
        self.found = found


class SelectionError(LodError, IndexError):
    """A level, sequence, tensor or step that is not there.

    Attributes:
        choices: names of tensors, if one of them must be chosen.
        level: the level without the item, 0 the outermost; with L levels, level L is the rows.
    """

    # Of an error that the sandbox sent without it.
    choices: Sequence[str] = ()

    def __init__(
        self, message: str, choices: Sequence[str] = (), *, level: int | None = None
    ) -> None:
        super().__init__(message)
        self.choices = choices
        self.level = level


class ShapeMismatchError(InvalidDataError):
    """Two arguments that do not fit each other.

    Attributes:
        expected: what one of them has, in words or as a number; None if it is not known.
        found: what the other one has.
    """

    def __init__(self, what: str, *, expected: object = None, found: object = None) -> None:
        super().__init__(what)
        self.expected = expected
        self.found = found


class EmptySequenceError(InvalidDataError):
    """An operation that is undefined for an empty sequence got one."""


class NotFloatingError(InvalidDataError):
    """Whole numbers or booleans where only floating ones have a meaning."""


class UnsupportedError(LodError):
    """Something a format, backend or missing optional package cannot do."""


class NullError(UnsupportedError):
    """A null where there can be none."""


class LaunchRefusedError(UnsupportedError):
    """A GPU does not run all blocks of a launch at once."""
