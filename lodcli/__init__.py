"""Ragged tensors: nested sequences without padding.

    import lodcli

    words = lodcli.read("words.lod.h5")
    lodcli.write("first.lod.h5", words[0:1])

What `__init__.pyi` imports is public; it loads when it is first used, so that a plain
`import lodcli` costs nothing.
"""

from __future__ import annotations

import importlib


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("lodcli")
    elif name == "__all__":
        value = sorted({*_homes(), "__version__"})
    elif not name.startswith("_") and name in _homes():
        module, attribute = _homes()[name]
        value = getattr(importlib.import_module(module), attribute)
    else:
        raise AttributeError(f"module 'lodcli' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes(), "__version__"})


_homes_found: dict[str, tuple[str, str]] = {}


def _homes() -> dict[str, tuple[str, str]]:
    """Return the module that each public name lives in, and what it is called there."""
    if not _homes_found:
        import ast
        from pathlib import Path

        stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
        for node in stub.body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    _homes_found[alias.asname or alias.name] = (str(node.module), alias.name)
    return _homes_found
