"""Writing the tensors of a file with other dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
import numpy as np

from lodcli.formats.core.errors import naming_file, naming_os
from lodcli.formats.core.options import read_options
from lodcli.formats.core.schema import Schema, find
from lodcli.formats.values.casting import Cast, numbers_as
from lodcli.kernels.errors import SelectionError
from lodcli.shell.opened import opened
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


def write_cast(source: Reference, dtypes: Sequence[str], target: Target, *, rounded: bool) -> None:
    """Write a file with other dtypes, batch by batch.

    Args:
        source: the file.
        dtypes: a dtype for all tensors of numbers, and `TENSOR=DTYPE`.
        target: the output.
        rounded: see `lodcli.kernels.tensor.casting.cast`.
    """
    with opened(source) as file, naming_os(source.label), naming_file(source.label):
        for spec in file.schema:
            if spec.array:
                raise SelectionError(f"{spec.name} is a TensorArray; `lod pack` it first")
        made = _dtypes(file.schema, dtypes)
        cast = replace(file, source=Cast(file.source, made, rounded=rounded, flag="--dtype-unsafe"))
        target.write(cast.schema, cast.batches(), file.read_share)


def _dtypes(schema: Schema, texts: Sequence[str]) -> dict[str, np.dtype[Any]]:
    """Return the dtypes by tensor."""
    found: dict[str, np.dtype[Any]] = {}
    for text in sorted(texts, key=lambda text: "=" in text):
        name, mark, dtype_name = text.rpartition("=")
        dtype = read_options(None, {"dtype": dtype_name}).dtype
        assert dtype is not None
        if mark:
            found[find(schema, name).name] = dtype
        else:
            found = numbers_as(schema, dtype)
    names = [text.rpartition("=")[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            what = name or "all tensors"
            raise click.UsageError(f"several dtypes for {what}; write TENSOR=DTYPE once for each")
    return found
