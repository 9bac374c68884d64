"""Writing the tensors of a file with other dtypes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import click
import numpy as np

from lodcli.formats.core.errors import naming_file, naming_os
from lodcli.formats.core.options import read_options
from lodcli.formats.core.schema import Schema, find
from lodcli.formats.values.casting import Cast, numbers_as
from lodcli.formats.values.parsed_times import ParsedTimes
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.tensor.marks import TIME_UNITS, TimeKind, Times
from lodcli.shell.opened import opened
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


def write_cast(source: Reference, dtypes: Sequence[str], target: Target, *, rounded: bool) -> None:
    """Write a file with other dtypes, batch by batch.

    Args:
        source: the file.
        dtypes: a dtype for all tensors of numbers, and `TENSOR=DTYPE`, or a time for texts.
        target: the output.
        rounded: see `lodcli.kernels.tensor.casting.cast`.
    """
    with opened(source) as file, naming_os(source.label), naming_file(source.label):
        for spec in file.schema:
            if spec.array:
                raise SelectionError(f"{spec.name} is a TensorArray; `lod pack` it first")
        _check_once(dtypes)
        times = {text: found for text in dtypes if (found := _time(text)) is not None}
        made = _dtypes(file.schema, [text for text in dtypes if text not in times])
        named = {find(file.schema, name).name: unit for name, unit in times.values()}
        parsed = ParsedTimes(file.source, named) if named else file.source
        changed = replace(file, source=Cast(parsed, made, rounded=rounded, flag="--dtype-unsafe"))
        target.write(changed.schema, changed.batches(), file.read_share)


def _time(text: str) -> tuple[str, Times] | None:
    """Return the tensor and the times of `TENSOR=timestamp[us, UTC]`; None if it names no time."""
    kinds = "|".join(TIME_UNITS)
    found = re.fullmatch(rf"(?:(.+)=)?({kinds})(?:\[([^],]*)(?:, ?([^]]*))?\])?", text)
    if found is None:
        return None
    name, kind, unit, zone = found.groups()
    times = Times(cast(TimeKind, kind), unit or ("D" if kind == "date" else ""), zone)
    wrong = times.misfit()
    if wrong or name is None:
        example = f"{name or 'TENSOR'}={'date' if kind == 'date' else f'{kind}[us]'}"
        raise click.UsageError(f"{text}: {wrong or 'names no tensor'}; write for example {example}")
    return name, times


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
    return found


def _check_once(texts: Sequence[str]) -> None:
    """Raise click.UsageError if a tensor is named twice."""
    names = [text.rpartition("=")[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            what = name or "all tensors"
            raise click.UsageError(f"several dtypes for {what}; write TENSOR=DTYPE once for each")
