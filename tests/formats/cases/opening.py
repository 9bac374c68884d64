"""Opening bytes as some format, from a file and from a pipe."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.format import Source
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.options import ReadOptions, read_options
from lodcli.formats.core.schema import Item
from lodcli.kernels.errors import LodError
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@contextmanager
def source_of(
    path: Path, *, format_name: str | None = None, limits: Limits | None = None, **keywords: Any
) -> Iterator[Source]:
    """Open a file as commands do: as a Source, which `lodcli.open` wraps in a File."""
    options = read_options(None, keywords)  # type: ignore[arg-type]
    with io.open_file(path, format_name=format_name, limits=limits, options=options) as file:
        yield file.source


def content(path: Path, **options: Any) -> dict[str, LoDTensor]:
    """Return all tensors of a file, read with these ReadOptions."""
    with lodcli.open(path, options=ReadOptions(**options)) as source:
        return tensors_of(source.read())


def content_of(folder: Path, suffix: str, data: bytes, **options: Any) -> dict[str, LoDTensor]:
    """Return all tensors of a file of these bytes."""
    path = folder / f"given{suffix}"
    path.write_bytes(data)
    return content(path, **options)


def refused(path: Path, error: type[LodError], message: str, **options: Any) -> None:
    """Assert that reading all of a file raises this, in one line that begins with its path."""
    with pytest.raises(error) as caught:
        content(path, **options)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def tensor_in(path: PathLike, name: str | None = None, **keywords: Any) -> LoDTensor:
    """Return one tensor of a file, read with these keywords of `lodcli.read`."""
    found = lodcli.read(path, name, **keywords)
    assert isinstance(found, LoDTensor)
    return found


def tensors_of(items: dict[str, Item]) -> dict[str, LoDTensor]:
    assert all(isinstance(item, LoDTensor) for item in items.values())
    return {name: item for name, item in items.items() if isinstance(item, LoDTensor)}


def batches_of(path: Path, limit_bytes: int, **options: Any) -> list[dict[str, LoDTensor]]:
    """Return the batches of a file."""
    with lodcli.open(path, options=ReadOptions(**options)) as source:
        return [tensors_of(dict(batch)) for batch in source.batches(limit_bytes)]


@contextmanager
def pipe(folder: Path, suffix: str, data: bytes) -> Iterator[Path]:
    """Give the name of a pipe out of which these bytes come, a few at first."""
    path = folder / f"pipe{suffix}"
    os.mkfifo(path)

    def feed() -> None:
        with open(path, "wb", buffering=0) as file:
            file.write(data[:2])
            file.write(data[2:])

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield path
    finally:
        thread.join()
        path.unlink()


def nested(tensor: LoDTensor) -> Any:
    """Return a tensor as nested lists, made by plain loops."""
    items = tensor.data.tolist()
    for lengths in reversed(tensor.recursive_sequence_lengths()):
        left = iter(items)
        items = [[next(left) for _ in range(length)] for length in lengths]
    return items
