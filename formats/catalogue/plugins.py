"""Format plug-ins: finds them by entry points, checks them, and wraps errors of their methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.schema import Batch, Item
from lodcli.formats.core.table import SUFFIXES, TABLE
from lodcli.formats.core.wrapped import Wrapped
from lodcli.kernels import plugins
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.options import by_reader
from lodcli.kernels.plugins import Plugin
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Extensions of compressed files, which no format may have.
_PACKED = (".gz", ".zst")
# Formats being tested, by name.
_TRIED: dict[str, Format] = {}


def names() -> list[str]:
    """Return the names of formats of plug-ins, without importing them."""
    return sorted({one.name for one in plugins.plugins(plugins.FORMATS)} - TABLE.keys())


def get(name: str) -> Format | None:
    """Return the format of a plug-in, or None if there is none of this name.

    Raises:
        UnsupportedError: it cannot be loaded, or breaks a rule; names its package.
    """
    if name in _TRIED:
        return _TRIED[name]
    found = plugins.named(plugins.FORMATS, name)
    return None if found is None else _loaded(found)


@contextmanager
def trying(kind: type[Format]) -> Iterator[None]:
    """Register the class of a plug-in under its name, unless it is a format of lod."""
    if kind.name not in TABLE:
        _TRIED[kind.name] = kind()
    try:
        yield
    finally:
        _TRIED.pop(kind.name, None)


def working() -> tuple[list[tuple[Plugin, Format]], list[UnsupportedError]]:
    """Load all plug-ins; return those that work, and the errors of the others."""
    formats, broken = list[tuple[Plugin, Format]](), list[UnsupportedError]()
    for one in plugins.plugins(plugins.FORMATS):
        try:
            formats.append((one, _loaded(one)))
        except UnsupportedError as error:
            broken.append(error)
    return formats, broken


def of_ending(name: str) -> str | None:
    """Return the format whose files have the extension of this lower-case name, or None.

    Raises:
        UnsupportedError: two formats have it.
    """
    kinds = [kind for _, kind in working()[0]]
    endings = {one for kind in kinds for one in kind.endings if name.endswith(one)}
    if not endings:
        return None
    longest = max(endings, key=len)
    found = [kind.name for kind in kinds if longest in kind.endings]
    if len(found) > 1:
        raise UnsupportedError(
            f"the plug-ins {' and '.join(found)} both have files {longest}; choose one with "
            f"{by_reader(shell='--from or --to', python='format_name=')}"
        )
    return found[0]


def of_content(head: bytes) -> str | None:
    """Return the first format that recognises the beginning of a file, or None."""
    return next((kind.name for _, kind in working()[0] if kind.sniff(head)), None)


def endings() -> list[str]:
    """Return the extensions of all plug-ins that work."""
    return [one for _, kind in working()[0] for one in kind.endings]


def advice() -> str:
    """Return text for messages that no format was found: errors of broken plug-ins; "" if none."""
    return "".join(f"; {error}" for error in working()[1])


@cache
def _loaded(plugin: Plugin) -> Format:
    kind = plugin.load()
    why = misfit(plugin.name, kind)
    if why is not None:
        raise plugin.refused(why)
    try:
        guarded: Format = _guarded(kind, plugin)()
    except Exception as error:
        raise plugin.broken(error) from error
    return guarded


def misfit(name: str, kind: object) -> str | None:
    """Return why an object cannot be the format of a plug-in called `name`; None if it can."""
    if not (isinstance(kind, type) and issubclass(kind, Format)):
        return f"expected a subclass of lodcli.formats.Format, found {kind!r}"
    if getattr(kind, "name", None) != name:
        return f"its format is called {getattr(kind, 'name', None)!r}, its entry point {name!r}"
    if name in TABLE:
        return "lod has a format of this name"
    for ending in kind.endings:
        if ending in SUFFIXES:
            return f"{ending} are files of {SUFFIXES[ending]}"
        if ending != ending.lower() or not ending.startswith(".") or ending.endswith(_PACKED):
            return f"expected an extension such as .fasta, found {ending!r}"
    if kind.layout != "file":
        return "plug-ins are formats of single files"
    if kind.open is Format.open:
        return "it has no method open"
    if (kind.write is Format.write) != bool(kind.read_only):
        return "expected a method write, or read_only, which says why there is none"
    return None


def _guarded(kind: type[Format], plugin: Plugin) -> type[Format]:
    """Return the class with unexpected exceptions of methods as errors that name the plug-in."""

    @contextmanager
    def blaming() -> Iterator[None]:
        try:
            yield
        except (LodError, OSError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise plugin.broken(error, "failed") from error

    def guard(name: str) -> Callable[..., Any]:
        method = getattr(kind, name)

        @functools.wraps(method)
        def call(*args: Any, **rest: Any) -> Any:
            with blaming():
                found = method(*args, **rest)
                if name == "open" and not isinstance(found, Source):
                    raise TypeError(
                        f"expected open to return a lodcli.formats.Source, found "
                        f"{type(found).__name__}"
                    )
                return _GuardedSource(found, blaming) if isinstance(found, Source) else found

        return call

    own = {
        name: guard(name)
        for name, method in vars(Format).items()
        if inspect.isfunction(method) and getattr(kind, name) is not method
    }
    guarded: type[Format] = type(kind.__name__, (kind,), {"__doc__": kind.__doc__, **own})
    return guarded


class _GuardedSource(Wrapped):
    """A source of a plug-in, with the same guard."""

    def __init__(self, inner: Source, blaming: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(inner)
        self._blaming = blaming

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        with self._blaming():
            yield from self._inner.batches_of(names, limit_bytes)

    def read(self, names: Iterable[str] | None = None) -> dict[str, Item]:
        with self._blaming():
            return self._inner.read(names)

    def read_index(self, name: str) -> LoD:
        with self._blaming():
            return self._inner.read_index(name)

    def index_parts(self, name: str) -> Iterator[LoD]:
        with self._blaming():
            yield from self._inner.index_parts(name)

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        with self._blaming():
            return self._inner.slice(name, branch, level)

    def close(self) -> None:
        with self._blaming():
            self._inner.close()
