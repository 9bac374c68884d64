"""Digests of everything that a result depends on: options, and the content of files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from lodcli.formats.storage.sums import files_of


def digest(value: Any, files: Iterable[str | PathLike[str]] = ()) -> str:
    """Return the SHA-256 of values and of files.

    Args:
        value: consists of dataclasses, mappings, sequences, arrays, functions and plain values.
        files: files that count by their content, instead of by their names in `value`.
    """
    found = {fspath(file): file_digest(file) for file in files}
    return hashlib.sha256(_text(value, found).encode()).hexdigest()


def file_digest(path: str | PathLike[str]) -> str:
    """Return the SHA-256 of a file, or of all files of a folder.

    Raises:
        OSError: it cannot be read.
    """
    found = hashlib.sha256()
    for place in files_of(Path(path)):
        with place.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def _text(value: Any, files: Mapping[str, str]) -> str:
    """Return a value as text that is different for different values."""
    if isinstance(value, str | PathLike):
        return repr(files.get(fspath(value), fspath(value)))
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return f"{type(value).__qualname__}({_text(parts, files)})"
    if isinstance(value, Mapping):
        pairs = sorted(f"{key!r}: {_text(part, files)}" for key, part in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(_text(part, files) for part in value))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(part, files) for part in value)}]"
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(value, "tobytes"):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    return repr(value)
