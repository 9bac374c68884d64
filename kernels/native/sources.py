"""Modules that declare kernels, and the digests of their sources, as cache keys."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_IMPORT = re.compile(rb"^\s*(?:from|import)\s+lodcli\.([\w.]+)(?:\s+import\s+([^#\n]*))?", re.M)
# Compiled code depends on these too, although no kernel imports them.
_ALWAYS = ("kernels.native.compile_numba", "kernels.native.build", "kernels.native.linking.link")
_DECLARING = b"from lodcli.kernels.native.declare import "
_TOOLS = ("numba", "llvmlite")


def units() -> list[str]:
    """Return the modules that declare kernels, without "lodcli."; their names end in _numba."""
    return sorted(
        ".".join(path.relative_to(root).with_suffix("").parts)
        for root, path in _modules()
        if path.name.endswith("_numba.py") and _DECLARING in path.read_bytes()
    )


def _modules() -> Iterator[tuple[Path, Path]]:
    """Yield all Python files of kernels and formats, each with the parent folder of its package."""
    for top in ("kernels", "formats"):
        (root,) = _folder(top)
        for parent, folders, names in os.walk(root):
            folders[:] = [each for each in folders if not each.startswith((".", "__"))]
            for name in names:
                if name.endswith(".py"):
                    # The folder kernels/ may be installed as a link, or found elsewhere.
                    yield root.parent, Path(parent, name)


@cache
def _folder(package: str) -> list[Path]:
    spec = importlib.util.find_spec(f"lodcli.{package}")
    assert spec is not None
    return [Path(each) for each in spec.submodule_search_locations or ()][:1]


def digest_of(unit: str) -> str:
    """Return a digest of a module, all lodcli modules it imports, and the compiler versions."""
    digest = hashlib.sha256()
    for name in sorted(_closure([unit, *_ALWAYS])):
        digest.update(name.encode() + b"\0")
        digest.update(_bytes_of(name) or b"")
    digest.update(_tools())
    return digest.hexdigest()[:20]


def digest_of_all() -> str:
    """Return a digest of all modules that declare kernels."""
    digest = hashlib.sha256()
    for unit in units():
        digest.update(f"{unit} {digest_of(unit)}\n".encode())
    return digest.hexdigest()[:20]


def has_tools() -> bool:
    """Return whether kernels can be compiled here."""
    return bool(_tools())


def _closure(names: list[str]) -> set[str]:
    """Return modules and all lodcli modules that they import, also inside functions."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        source = _bytes_of(name)
        if source is None:
            continue
        found.add(name)
        for match in _IMPORT.finditer(source):
            module = match[1].decode()
            waiting.append(module)
            # In `from package import module` the names may be modules; others have no source.
            waiting += [
                f"{module}.{each.strip().split(' ')[0]}"
                for each in (match[2] or b"").decode().strip("() ").split(",")
                if each.strip()
            ]
    return found


@cache
def _bytes_of(name: str) -> bytes | None:
    """Return the source of a module of kernels or formats; None if there is no such module."""
    top, _, rest = name.partition(".")
    if top not in ("kernels", "formats"):
        return None
    base = _folder(top)[0].joinpath(*filter(None, rest.split(".")))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        try:
            return path.read_bytes()
        except OSError:
            continue
    return None


@cache
def _tools() -> bytes:
    """Return the versions of numba and llvmlite; empty if one is not installed."""
    held = []
    for name in _TOOLS:
        # Not importlib.metadata, which takes ten times as long.
        try:
            spec = importlib.util.find_spec(name)
            if spec is None or spec.origin is None:
                return b""
            held.append(Path(spec.origin).with_name("_version.py").read_bytes())
        except (ImportError, OSError):
            return b""
    return b"\0".join(held)
