"""Optional packages that formats need, and how to install them."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

from lodcli.kernels.errors import UnsupportedError


class Package(NamedTuple):
    """A package that a format needs.

    Attributes:
        module: its name in an import statement.
        install: argument for `pip install`: an extra of lodcli or of a plug-in.
        use: what it is needed for: "reading", "writing", or a part of these; "" for everything.
    """

    module: str
    install: str
    use: str = ""

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def advice(self) -> str:
        """The command that installs it."""
        return f"pip install '{self.install}'"

    def require(self, what: str, otherwise: str = "") -> None:
        """Raise the error about the package if it is missing; see `missing`."""
        if not self.installed:
            raise self.missing(what, otherwise)

    def missing(self, what: str, otherwise: str = "") -> UnsupportedError:
        """Return the error about the missing package, with the command that installs it.

        Args:
            what: needs the package.
            otherwise: what to do without it; ends the message.
        """
        return UnsupportedError(f"{what} needs the package {self.module}; {self.advice}{otherwise}")
