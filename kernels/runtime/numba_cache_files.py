"""Compiled kernels as files: with several processes, damage, and nowhere to write.

Numba's own files, but for what it leaves open: two processes that compile one function for
different dtypes at once may give both the same file, a function is held for fresh though one
that it was made of has changed, and an unwritable folder or a damaged file is an error.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import inspect
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching, dispatcher, event

from lodcli.kernels.platform import files
from lodcli.kernels.runtime import compile_events as compiling

# Typed nowhere, like all of numba.core.
_dispatcher: Any = dispatcher
_event: Any = event
_caching: Any = caching
_KERNELS = Path(__file__).parents[1]
_FunctionCache: Any = _caching.FunctionCache
_IndexFile: Any = _caching.IndexDataCacheFile
_Listener: Any = _event.Listener


def take_over(*, kept: bool) -> None:
    """Keep our functions' code in these files from now on, and tell when one is compiled."""
    # Numba has no setting for this; functions that are not ours get what they got before.
    _dispatcher.FunctionCache = _cache_for
    _event.register("numba:compile", _Told(kept))


def usable(wanted: str) -> tuple[str, bool]:
    """Return a folder that can be written, and whether it stays: `wanted`, or a private one."""
    if not wanted.startswith("~"):  # which is left of the home of a user who has none
        with contextlib.suppress(OSError):
            os.makedirs(wanted, exist_ok=True)
            tempfile.TemporaryFile(dir=wanted).close()
            return wanted, True
    with contextlib.suppress(OSError):
        # Of this process alone: code is run from it, so nobody else may have put it there.
        made = tempfile.mkdtemp(prefix="lod-numba-")
        atexit.register(_remove, made, os.getpid())
        return made, False
    return wanted, False


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and no child of it
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(function: Any) -> bool:
    return str(function.__module__).startswith("lodcli.")


def _cache_for(function: Any) -> Any:
    if not _is_ours(function):
        return _FunctionCache(function)
    try:
        return _Cache(function)
    except RuntimeError:  # nowhere to write at all
        return _caching.NullCache()


class _Cache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache of a function, whose failures cost time and nothing else."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        source = inspect.getfile(function)
        stamp = (self._impl.locator.get_source_stamp(), _stamp(_folder_of(source)))
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            return super().load_overload(signature, context)
        except Exception:
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        with contextlib.suppress(OSError):  # a full disk, for instance
            super().save_overload(signature, result)


class _Files(_IndexFile):  # type: ignore[misc]
    """The index of a function, and a file for each version, of a name never used before."""

    def save(self, key: Any, data: Any) -> None:
        with _locked(self._cache_path):
            held = self._known()
            if not held:
                self._remove_old()
            name = held.get(key) or self._data_name(secrets.randbits(63))
            # Before the index tells of it, so that nobody finds less than all of it.
            self._save_data(name, data)
            self._save_index({**held, key: name})

    def _known(self) -> dict[Any, str]:
        try:
            return dict(self._load_index())
        except Exception:
            return {}

    def _remove_old(self) -> None:
        """Delete what another version of the source left."""
        prefix = self._index_name.removesuffix("nbi")
        for name in os.listdir(self._cache_path):
            if name.startswith(prefix) and name.endswith(".nbc"):
                with contextlib.suppress(OSError):
                    os.unlink(self._data_path(name))


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Let one process at a time in; all at once where there are no locks."""
    if not files.FOLDERS_OPEN:
        yield
        return
    number = files.open_folder(folder)
    try:
        with contextlib.suppress(OSError):
            files.lock(number, wait=True)
        yield
    finally:
        os.close(number)


def _folder_of(source: str) -> Path | None:
    """Return kernels/ or formats/, if a file is below it."""
    return next((one for one in Path(source).parents if one.name in ("kernels", "formats")), None)


@cache
def _stamp(folder: Path | None) -> bytes:
    """Return what changes when a kernel in a folder does, or one of those all others call."""
    digest = hashlib.sha256()
    for path in sorted(path for one in {folder, _KERNELS} if one for path in one.rglob("*.py")):
        if "numba" in path.stem or path.parent.name in ("numba", "simd"):
            digest.update(path.read_bytes())
    return digest.digest()


class _Told(_Listener):  # type: ignore[misc]
    """Told of every function that is compiled, not of those that are loaded."""

    def __init__(self, kept: bool) -> None:
        self._kept = kept

    def on_start(self, found: Any) -> None:
        if _is_ours(found.data["dispatcher"].py_func):
            compiling.tell(self._kept)

    def on_end(self, found: Any) -> None:
        pass
