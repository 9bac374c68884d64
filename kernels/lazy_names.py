"""Lazy public names: imported from their modules on first use."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` would take half of the time of `import lodcli`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

# Where a name is defined: a module, and the name there ("" for the module itself).
Home = tuple[str, str]


def lazy_names(
    module: str, homes: Callable[[], Mapping[str, Home]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a module of lazy names.

    Args:
        module: its name; it has an `__all__`. Imported names are stored in it.
        homes: called when a name is first looked up.

    >>> homes = by_module({"lodcli.kernels.errors": "LodError"})
    >>> get, names = lazy_names("lodcli.kernels.lazy_names", lambda: homes)
    >>> get("LodError").__name__
    'LodError'
    """

    def get(name: str) -> Any:
        found = None if name.startswith("__") else homes().get(name)
        if found is None:
            # Python uses the name and the module to suggest a similar name.
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module]
            )
        home, attribute = found
        __import__(home)
        value: Any = sys.modules[home]
        if attribute:
            value = getattr(value, attribute)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        known = vars(sys.modules[module])
        return sorted({*homes(), *known["__all__"], *(each for each in known if each[:2] == "__")})

    return get, names


def by_module(names: Mapping[str, str]) -> dict[str, Home]:
    """Return the home of each name, given the names of each module, with spaces between.

    >>> by_module({"lodcli.kernels.errors": "LodError SelectionError"})["LodError"]
    ('lodcli.kernels.errors', 'LodError')
    """
    return {name: (module, name) for module, many in names.items() for name in many.split()}
