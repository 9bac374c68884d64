"""SHA-256 sidecars of a file, pair or folder, in the format of sha256sum.

FILE.sha256 beside FILE holds a line for each file, with its path relative to the sidecar's folder,
so that `sha256sum -c FILE.sha256` works there. For formats without checksums.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.table import PAIRS
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import LodError
from lodcli.kernels.platform import files

SUFFIX = ".sha256"
MOST_SIDECAR_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 20
_NO_FILE = "is not a regular file"
# A backslash in front means that the name is escaped. A star means a binary file, and is ignored.
# The second form is that of `sha256sum --tag`.
_LINE = re.compile(r"(?P<escaped>\\?)(?P<sum>[0-9a-fA-F]{64}) [ *](?P<name>.+)")
_TAGGED = re.compile(r"(?P<escaped>\\?)SHA256 \((?P<name>.+)\) = (?P<sum>[0-9a-fA-F]{64})")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_PLAIN = {escape: char for char, escape in _ESCAPES.items()}


class NoSumsError(LodError, OSError):
    """There is no sidecar to compare with."""


def sidecar_of(path: Path) -> Path:
    """Return the path of the sums of a file or folder; for a pair, they are beside its index."""
    index = _pair(_named(path))[0]
    return index.with_name(index.name + SUFFIX)


def files_of(path: Path) -> list[Path]:
    """Return all files that belong to a path: itself, its pair, or those in the folder."""
    path, found = _named(path), []
    if not path.is_dir():
        return sorted(_pair(path))
    for folder, _, names in os.walk(path):
        found += [Path(folder, name) for name in names]
    return sorted(found)


def _named(path: Path) -> Path:
    """Return the path with a name at its end, after which the sidecar is named."""
    return Path(os.path.abspath(path)) if path.name in ("", "..") else path


def _pair(path: Path) -> tuple[Path, ...]:
    """Return the index of a pair and its data; any other path alone."""
    for ending, (index, _) in PAIRS.items():
        both = (path.with_suffix(index), path.with_suffix(ending))
        if path.suffix.lower() in (index, ending) and all(one.is_file() for one in both):
            return both
    return (path,)


def write_sums(path: Path, *, overwrite: bool) -> Path:
    """Write the sidecar of a file, pair or folder, and return where it is.

    Raises:
        TargetExistsError: it is there, and may not be replaced.
        OSError: something cannot be read, or the sidecar not be written.
    """
    sidecar = sidecar_of(path)
    with Output(sidecar, overwrite=overwrite) as output:
        for file in files_of(path):
            name = os.fspath(file.relative_to(sidecar.parent))
            shown = "".join(_ESCAPES.get(char, char) for char in name)
            mark = "\\" if shown != name else ""
            output.write(os.fsencode(f"{mark}{sum_of(file)}  {shown}\n"))
    return sidecar


def sum_of(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits.

    Raises:
        DamagedFileError: it is not a regular file: a pipe or a device may never end.
        OSError: it cannot be read.
    """
    found = hashlib.sha256()
    try:
        # O_NONBLOCK: opening a pipe must not wait for its writer.
        fd = os.open(path, files.READ | getattr(os, "O_NONBLOCK", 0))
        with open(fd, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise DamagedFileError(f"{path}: {_NO_FILE}")
            while block := file.read(_BLOCK_BYTES):
                found.update(block)
    except OSError as error:
        error.filename = os.fspath(path)  # a read does not name it
        raise
    return found.hexdigest()


def differences(path: Path) -> Iterator[DamagedFileError]:
    """Yield an error for each file that is altered, missing or not listed in the sidecar.

    Raises:
        NoSumsError: there is no sidecar.
        OSError: something cannot be read.
        DamagedFileError: the sidecar is not a list of sums.
    """
    sidecar = sidecar_of(path)
    if not sidecar.exists():
        raise NoSumsError(f"{sidecar}: no such file; write it with --write-sums")
    listed = read_sums(sidecar)
    # By absolute path: sha256sum may have been called with other paths to the same files.
    sums = {os.path.abspath(file): told for file, told in listed.items()}
    names = {os.path.abspath(file): file for file in (*listed, *files_of(path))}
    for place, file in sorted(names.items()):
        if place not in sums:
            yield DamagedFileError(f"{file}: is not listed in {sidecar}; it was added later")
        elif not file.exists():
            yield DamagedFileError(f"{file}: is missing; {sidecar} lists it")
        elif not file.is_file():
            yield DamagedFileError(f"{file}: {_NO_FILE}; {sidecar} lists it")
        elif (found := sum_of(file)) != sums[place]:
            yield DamagedFileError(
                f"{file}: is altered: expected SHA-256 {sums[place]}, found {found}"
            )


def read_sums(sidecar: Path) -> dict[Path, str]:
    """Return the sums in a sidecar, by path; relative paths are relative to its folder."""
    if not sidecar.is_file():
        raise DamagedFileError(f"{sidecar}: is not a list of sums: {_NO_FILE}")
    if sidecar.stat().st_size > MOST_SIDECAR_BYTES:
        raise DamagedFileError(
            f"{sidecar}: is not a list of sums: more than {MOST_SIDECAR_BYTES} bytes"
        )
    found: dict[Path, str] = {}
    with naming(os.fspath(sidecar)):
        for number, raw in enumerate(sidecar.read_bytes().split(b"\n")):
            line = os.fsdecode(raw).removesuffix("\r")
            if not line or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line) or _TAGGED.fullmatch(line)
            if match is None:
                raise DamagedFileError(
                    f"line {number + 1}: expected 64 hexadecimal digits, two blanks and a name, "
                    "as sha256sum writes them"
                )
            name = match["name"]
            if match["escaped"]:
                name = re.sub(r"\\.", lambda one: _PLAIN.get(one[0], one[0]), name)
            found[sidecar.parent / name] = match["sum"].lower()
        if not found:
            raise DamagedFileError("lists no file")
    return found
