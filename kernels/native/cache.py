"""Cache of kernels compiled on this machine: for a checkout, or for types not shipped.

One file for each module and types, named by what it was made of, so that it never changes and all
environments of a user share it. Another process compiles it: numba is never loaded into this one.
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

#: What every process with kernels needs: compiled along with the first.
RUNTIME = ("kernels.native.python_numba", "kernels.native.pool_numba")
# Older files of the same module and types than so many are deleted.
_KEPT = 8


# A file's name tells all that is in it.
_opened: dict[Path, Library] = {}


class NotBuiltError(LibraryError):
    """A kernel is not there and cannot be compiled here: the message says why."""


def part(level: Level, module: str, name: str, types: tuple[str, ...]) -> Library:
    """Return a library with a kernel, compiled now if need be.

    Raises:
        NotBuiltError: it is not there, and cannot be compiled.
    """
    found = _held(level, module, name, types)
    if found is not None:
        return found
    if not sources.has_tools():
        raise NotBuiltError(
            "no compiled kernels are installed for some of this; pip install 'lodcli[jit]' has "
            "them compiled when they are needed"
        )
    import tempfile

    folder = _writable(settings.cache_folder())
    compiling.tell(folder is not None)
    if folder is not None:
        with _locked(folder, f"{module}.{'.'.join(types)}"):
            # Another process may have been at it.
            found = _held(level, module, name, types)
            if found is not None:
                return found
            _compile(level, folder, module, name, types)
            _remove_old(folder, level, module, types)
        found = _held(level, module, name, types)
    else:
        # Opened and gone: the system keeps what is mapped.
        with tempfile.TemporaryDirectory(prefix="lod-kernels-") as private:
            _compile(level, Path(private), module, name, types)
            found = _held(level, module, name, types, Path(private))
    if found is None:
        raise NotBuiltError(f"{module} declares no kernel {name}")
    return found


def build_of(level: Level, module: str) -> str:
    """Return what code of a module is known by."""
    checked = ".checked" if settings.checked() else ""
    return f"{level.name}{checked}.{_digest(module)}"


@cache
def _digest(module: str) -> str:
    return sources.digest_of(module)


def file_of(folder: Path, level: Level, module: str, types: tuple[str, ...], name: str) -> Path:
    """Return where the kernels of a module for some types are, or one if `name` is given."""
    return folder / ".".join([module, *filter(None, [name]), *types, build_of(level, module), "so"])


def _held(
    level: Level, module: str, name: str, types: tuple[str, ...], folder: Path | None = None
) -> Library | None:
    """Return a library with a kernel, if it is there and whole."""
    folder = folder or settings.cache_folder()
    if folder is None:
        return None
    for which in ("", name):
        path = file_of(folder, level, module, types, which)
        if not path.exists():
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
                continue  # damaged: compiled anew
            _opened[path] = found
        if found.find(module, name, types):
            return found
    return None


def _compile(level: Level, folder: Path, module: str, name: str, types: tuple[str, ...]) -> None:
    """Have another process compile a kernel, and those of its module for the same types."""
    import subprocess

    wanted = [":".join([module, name, *types])]
    for each in RUNTIME:
        if each != module and not file_of(folder, level, each, (), "").exists():
            wanted.append(f"{each}:")
    # -P: modules in the folder that the user happens to be in are not ours.
    command = [sys.executable, "-P", "-m", "lodcli.kernels.native.build"]
    command += ["--level", level.name, "--cache", str(folder)]
    if not sys.executable:
        raise NotBuiltError("kernels cannot be compiled: this Python does not say where it is")
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
    """Return a folder, made if need be, or None if nothing can be written there."""
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
    """Let one process at a time compile; all at once where the file system knows no locks."""
    from lodcli.kernels.platform import files

    number = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with contextlib.suppress(OSError):
            files.lock(number, wait=True)
        yield
    finally:
        os.close(number)


def _remove_old(folder: Path, level: Level, module: str, types: tuple[str, ...]) -> None:
    """Delete what other versions of the sources left, but for the newest."""
    beginning = ".".join([module, *types, level.name])
    with contextlib.suppress(OSError):
        held = [each for each in folder.glob(f"{beginning}.*.so")]
        held.sort(key=lambda path: path.stat().st_mtime)
        for path in held[:-_KEPT]:
            path.unlink(missing_ok=True)


def write(folder: Path, path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
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
