"""Files to write: in the two ways the container writes one, and with torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Schema, schema_of
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

OLD = b"the old file"
TENSOR = LoDTensor(np.arange(9000.0), LoD.from_lengths([[3, 1], [4000, 2000, 1000, 2000]]))


def saved(folder: Path, value: Any) -> Path:
    """Return a new file that torch writes."""
    import torch

    torch.save(value, folder / "given.pt")
    return folder / "given.pt"


def as_another_user(folder: Path, deed: Callable[[], object]) -> None:
    """Run a function, which must succeed, in a process of a user who may read the folders above."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for parent in folder.parents:
                os.chmod(parent, os.stat(parent).st_mode | 0o055)
            os.setuid(65534)
            deed()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def partials_in(folder: Path) -> list[Path]:
    return list(folder.glob(".*.lod-partial"))


def npy(array: Any) -> bytes:
    """Return the bytes of a .npy file that NumPy writes."""
    stream = BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def uncounted(schema: Schema) -> Schema:
    """Return a schema as it is before the end of its batches is known."""
    return tuple(spec.uncounted() for spec in schema)


def write(path: Path, *, overwrite: bool = True, compression: str | None = None) -> None:
    io.write(path, TENSOR, overwrite=overwrite, compression=compression)


def write_streamed(path: Path, *, overwrite: bool = True, compression: str | None = None) -> None:
    """Write with sizes that are not known before the end: through nameless files."""
    schema = uncounted(schema_of({"data": TENSOR}))
    batches = [{"data": TENSOR[0:1]}, {"data": TENSOR[1:2]}]
    options = WriteOptions(compression=compression)
    io.write_batches(path, schema, batches, overwrite=overwrite, options=options)


WRITERS = pytest.mark.parametrize("writer", [write, write_streamed])
