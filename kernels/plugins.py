"""Plug-ins: formats and ops of other packages, found by their entry points.

Entry points are only looked up for a name or a file that lod itself does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from lodcli.kernels.errors import UnsupportedError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FORMATS = "lodcli.formats"
OPS = "lodcli.ops"


@dataclass(frozen=True)
class Plugin:
    """An entry point of a package.

    Attributes:
        name: its name in the group.
        package: the name and version of its package.
        entry_point: where it is.
    """

    name: str
    package: str
    entry_point: EntryPoint

    def __str__(self) -> str:
        return f"the plug-in {self.name} of {self.package}"

    def load(self) -> Any:
        """Return what the entry point refers to; its module is imported now.

        Raises:
            UnsupportedError: it cannot be loaded; names the plug-in and its package.
        """
        try:
            return self.entry_point.load()
        except (Exception, SystemExit) as error:
            raise self.broken(error) from error

    def broken(self, error: BaseException, what: str = "cannot be loaded") -> UnsupportedError:
        """Return the error about its failure, in one line."""
        return UnsupportedError(f"{self} {what}: {type(error).__name__}: {_line(error)}")

    def refused(self, why: str) -> UnsupportedError:
        """Return the error about the rule that it breaks."""
        return UnsupportedError(f"{self} is not used: {why}")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


@cache
def plugins(group: str) -> tuple[Plugin, ...]:
    """Return the plug-ins of a group, by name; nothing of them is imported.

    >>> [plugin.name for plugin in plugins("no.such.group")]
    []
    """
    from importlib.metadata import entry_points

    found = {
        (one.name, _package(one)): Plugin(one.name, _package(one), one)
        for one in entry_points(group=group)
    }
    return tuple(found[key] for key in sorted(found))


def _package(entry_point: EntryPoint) -> str:
    dist = entry_point.dist
    return "an unknown package" if dist is None else f"{dist.name} {dist.version}"


def named(group: str, name: str) -> Plugin | None:
    """Return the plug-in of that name, or None.

    Raises:
        UnsupportedError: two packages have one of this name.
    """
    found = [one for one in plugins(group) if one.name == name]
    if len(found) > 1:
        packages = " and ".join(one.package for one in found)
        raise UnsupportedError(f"{packages} both have a plug-in {name}; uninstall one of them")
    return found[0] if found else None
