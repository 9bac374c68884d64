"""Cache of kernels compiled on this machine: for a checkout, or for types not shipped.

There is one file for each module and types. Its name contains the digest of its sources, so it
never changes, and all environments of a user share it. A child process compiles it: numba is never
loaded into this one.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lodcli.kernels.native import settings, sources
from lodcli.kernels.native.linking.library import Library, LibraryError
from lodcli.kernels.native.processor import Level
from lodcli.kernels.runtime import compile_events as compiling

#: Modules that every process with kernels needs; compiled along with the first kernel.
RUNTIME = ("kernels.native.python_numba", "kernels.native.pool_numba")
# Number of files kept for each module, types and level; older ones are deleted.
_KEPT = 8


# Open libraries by path: a file name identifies the content.
_opened: dict[Path, Library] = {}


class NotBuiltError(LibraryError):
    """A kernel is not compiled yet and cannot be compiled here; the message says why."""


def part(level: Level, module: str, name: str, types: tuple[str, ...]) -> Library:
    """Return a library with a kernel; compile it if it is not in the cache.

    Raises:
        NotBuiltError: it is not in the cache, and cannot be compiled.
    """
    found = _held(level, module, name, types)
    if found is not None:
        return found
    if not sources.has_tools():
        raise NotBuiltError(
            "some of the kernels for this are not installed; with pip install 'lodcli[jit]' lod "
            "compiles them when they are needed"
        )
    import tempfile

    folder = _writable(settings.cache_folder())
    compiling.tell(folder is not None)
    if folder is not None:
        with _locked(folder, f"{module}.{'.'.join(types)}"):
            # Another process may have compiled it meanwhile.
            found = _held(level, module, name, types)
            if found is not None:
                return found
            _compile(level, folder, module, name, types)
            _remove_old(folder, level, module, types)
        found = _held(level, module, name, types)
    else:
        # The file is deleted while it is open: the system keeps the mapped memory.
        with tempfile.TemporaryDirectory(prefix="lod-kernels-") as private:
            _compile(level, Path(private), module, name, types)
            found = _held(level, module, name, types, Path(private))
    if found is None:
        raise NotBuiltError(f"{module} declares no kernel {name}")
    return found


def build_of(level: Level, module: str) -> str:
    """Return the build id of a module: level, bounds checks and digest of the sources."""
    checked = ".checked" if settings.checked() else ""
    return f"{level.name}{checked}.{_digest(module)}"


@cache
def _digest(module: str) -> str:
    return sources.digest_of(module)


def file_of(folder: Path, level: Level, module: str, types: tuple[str, ...], name: str) -> Path:
    """Return the path of a module's kernels for some types, or of one kernel if `name` is given."""
    return folder / ".".join([module, *filter(None, [name]), *types, build_of(level, module), "so"])


def _held(
    level: Level, module: str, name: str, types: tuple[str, ...], folder: Path | None = None
) -> Library | None:
    """Return a cached library with a kernel; None if it is missing or damaged."""
    folder = folder or settings.cache_folder()
    if folder is None:
        return None
    for which in ("", name):
        path = file_of(folder, level, module, types, which)
        if not os.path.exists(path):  # unlike Path.exists, False in a folder that may not be read
            continue
        found = _opened.get(path)
        if found is None:
            try:
                found = Library(
                    path,
                    level=level.name,
                    build=build_of(level, module),
                    checked=settings.checked(),
                )
            except LibraryError:
                continue  # damaged: compiled again
            _opened[path] = found
        if found.find(module, name, types):
            return found
    return None


def _compile(level: Level, folder: Path, module: str, name: str, types: tuple[str, ...]) -> None:
    """Compile a kernel, and others of its module for the same types, in a child process."""
    import subprocess

    wanted = [":".join([module, name, *types])]
    for each in RUNTIME:
        if each != module and not file_of(folder, level, each, (), "").exists():
            wanted.append(f"{each}:")
    # -P: a module in the working directory must not shadow another one.
    command = [sys.executable, "-P", "-m", "lodcli.kernels.native.build"]
    command += ["--level", level.name, "--cache", str(folder)]
    if not sys.executable:
        raise NotBuiltError("kernels cannot be compiled: sys.executable is empty")
    try:
        done = subprocess.run(
            [*command, *wanted],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise NotBuiltError(f"kernels cannot be compiled: {error}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NotBuiltError(f"kernel {name} of {module} cannot be compiled: {last}")


def _writable(folder: Path | None) -> Path | None:
    """Return a folder, created if needed; None if it is not writable."""
    if folder is None:
        return None
    import tempfile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return folder


@contextlib.contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    """Let only one process compile at a time, unless the file system has no locks.

    If several users share the folder, the file may belong to another one: then several may compile.
    """
    from lodcli.kernels.platform import files

    try:
        number = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        number = None
    if number is None:  # not in the block above: errors of compiling would come with that one
        yield
        return
    try:
        with contextlib.suppress(OSError):
            files.lock(number, wait=True)
        yield
    finally:
        os.close(number)


def _remove_old(folder: Path, level: Level, module: str, types: tuple[str, ...]) -> None:
    """Delete the files of older versions of the sources, except the newest ones."""
    beginning = ".".join([module, *types, level.name])
    with contextlib.suppress(OSError):
        held = sorted(folder.glob(f"{beginning}.*.so"), key=lambda path: path.stat().st_mtime)
        for path in held[:-_KEPT]:
            path.unlink(missing_ok=True)


def write(folder: Path, path: Path, content: bytes) -> None:
    """Write a file atomically."""
    import tempfile

    with tempfile.NamedTemporaryFile(dir=folder, prefix=".new-", delete=False) as file:
        try:
            file.write(content)
            file.close()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            raise
