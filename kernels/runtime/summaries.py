"""Short texts of dataclasses that hold arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

_LONGEST = 300  # characters of a part that is shown as a whole


class Summarized:
    """Base of dataclasses that hold arrays: their repr shows dtypes and shapes, not all values.

    Fields that are None, and options with their default, are left out.

    >>> import numpy as np
    >>> @dataclasses.dataclass
    ... class Pair(Summarized):
    ...     first: object
    ...     second: object = None
    >>> Pair(np.zeros((2, 3)), [Pair(7), True])
    Pair(first=float64 (2, 3), second=[Pair(first=7), True])
    """

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        # dataclass() adds a repr only to a class that does not define one itself.
        setattr(cls, "__repr__", Summarized.__repr__)  # noqa: B010 - mypy allows no other

    def __repr__(self) -> str:
        shown = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            is_default = isinstance(value, str | bool) and value == field.default
            if value is not None and not is_default:
                shown.append(f"{field.name}={_short(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if hasattr(value, "row_shape"):  # a LoDTensor
        shape = " x ".join(map(str, (value.rows, *value.row_shape)))
        return f"{type(value).__name__}({shape} {value.dtype})"
    if hasattr(value, "dtype") and getattr(value, "shape", None):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, tuple | list):
        opening, closing = "()" if isinstance(value, tuple) else "[]"
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        text = f"{opening}{', '.join(map(_short, value))}{comma}{closing}"
    elif isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key!r}: {_short(one)}" for key, one in value.items()) + "}"
    else:
        text = repr(value)
    is_short = len(text) <= _LONGEST and "\n" not in text
    return text if is_short else f"<{type(value).__name__}>"
