"""The errors of all floors.

Kernels name the level and the position, formats add the file and the dataset, and
the command line maps the class to an exit code. There is a separate class only where
a caller would handle it differently.
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
    """An argument that is invalid for any data, such as a window of no rows; or a contradiction."""


class InvalidLoDError(InvalidDataError):
    """An index that breaks a rule of docs/format.md, "What a tensor is".

    Attributes:
        level: the invalid level, 0 the outermost; None if no single level is invalid.
        position: the position inside the level; None if the whole level is invalid.
        expected: what the rule requires, in words or as a number.
        found: what was found instead.
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
    """A level, sequence, tensor or step that does not exist.

    Attributes:
        choices: names of tensors, if one of them must be chosen.
        level: the level that lacks the item, 0 the outermost; with L levels, level L is the rows.
    """

    # The default for an error that the sandbox sent without this attribute.
    choices: Sequence[str] = ()

    def __init__(
        self, message: str, choices: Sequence[str] = (), *, level: int | None = None
    ) -> None:
        super().__init__(message)
        self.choices = choices
        self.level = level


class ShapeMismatchError(InvalidDataError):
    """Two arguments whose shapes, dtypes, marks or indexes do not match.

    Attributes:
        expected: the property of one of them, in words or as a number; None if unknown.
        found: the property of the other one.
    """

    def __init__(self, what: str, *, expected: object = None, found: object = None) -> None:
        super().__init__(what)
        self.expected = expected
        self.found = found


class EmptySequenceError(InvalidDataError):
    """An empty sequence for an operation that is undefined for it."""


class NotDefinedError(InvalidDataError):
    """A dtype for which an op is not defined, such as complex numbers for max."""


class NotFloatingError(NotDefinedError):
    """Integers or booleans where floating-point numbers are required."""


class UnsupportedError(LodError):
    """An operation that a format or backend does not support, or a missing optional package."""


class NullError(UnsupportedError):
    """A null where none is allowed."""


class LaunchRefusedError(UnsupportedError):
    """A launch that the driver of a GPU refuses, such as one of more blocks than run at once."""
