"""How `lod split` divides items."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from lodcli.shell.limits import SIZE
from lodcli.shell.options import LEVEL

if TYPE_CHECKING:
    from lodcli.kernels.index.checks import Offsets

KINDS = ("count", "size", "fractions")


@dataclass(frozen=True)
class How:
    """The value of --by: one of these.

    Attributes:
        count: items per file.
        size_bytes: maximum size of a file; a single item may exceed it.
        fractions: shares of the items, which sum to 1.
        level: the level whose items get a file each.
    """

    count: int | None = None
    size_bytes: int | None = None
    fractions: tuple[float, ...] = ()
    level: int | str | None = None

    def borders(self, total: int, ends: Offsets | None) -> list[int]:
        """Return the boundaries of the parts, in items.

        Args:
            total: number of items, K.
            ends: (K + 1,) offsets of the items in bytes, in the order in which they are divided;
                needed only for sizes.
        """
        if self.fractions:
            shares = [sum(self.fractions[:number]) for number in range(len(self.fractions))]
            return [*(round(share * total) for share in shares), total]
        if self.size_bytes is None:
            return [*range(0, max(total, 1), self.count or 1), total]
        assert ends is not None
        found = [0]
        while found[-1] < total:
            limit = int(ends[found[-1]]) + self.size_bytes
            stop = int(ends.searchsorted(limit, "right")) - 1
            found.append(max(stop, found[-1] + 1))
        return found if total else [0, 0]


def parse_how(text: str) -> How:
    """Return the value of --by: `count:N`, `size:BYTES`, `fractions:F,F,..` or a level.

    Raises:
        click.BadParameter: an invalid number or size, or shares that do not sum to 1.
    """
    kind, mark, value = text.strip().partition(":")
    value = value.strip()
    if kind not in KINDS:
        return How(level=LEVEL.convert(text, None, None))
    if not mark:
        raise _bad(f"expected a value after {kind}, found none; write {kind} {_EXAMPLES[kind]}")
    if kind == "size":
        size_bytes = SIZE.convert(value, None, click.get_current_context(silent=True))
        if size_bytes < 1:
            raise _bad("a file must hold at least 1 byte")
        return How(size_bytes=size_bytes)
    if kind == "count":
        if not re.fullmatch(r"[0-9]{1,18}", value) or not int(value):
            raise _bad(f"expected a number of items from 1, found {value!r}")
        return How(count=int(value))
    parts = [part.strip() for part in value.split(",")]
    if not all(re.fullmatch(r"[0-9]*\.?[0-9]+", part) for part in parts):
        raise _bad(f"expected shares such as 0.8,0.1,0.1, found {value!r}")
    fractions = tuple(map(float, parts))
    # Shares with few digits, such as 0.333,0.333,0.334, sum to 1 only up to rounding.
    if abs(sum(fractions) - 1) > 1e-6:
        raise _bad(f"expected shares that sum to 1, found a sum of {sum(fractions):g}")
    return How(fractions=fractions)


_EXAMPLES = {"count": "1000", "size": "64M", "fractions": "0.8,0.1,0.1"}


def _bad(what: str) -> click.BadParameter:
    return click.BadParameter(what, click.get_current_context(silent=True), param_hint="--by")
