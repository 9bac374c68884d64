"""Writing the tensors of a file with other dtypes."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from lodcli.expressions.hints import as_written
from lodcli.formats.core.errors import naming_source
from lodcli.formats.core.format import Source
from lodcli.formats.core.names import repeated
from lodcli.formats.core.options import read_options
from lodcli.formats.core.schema import Schema, find
from lodcli.formats.items.indexed_copy import indexed
from lodcli.formats.values.as_decimals import AsDecimals
from lodcli.formats.values.as_numbers import AsNumbers
from lodcli.formats.values.as_times import AsTimes
from lodcli.formats.values.as_words import AsCategories, AsText, words_in_file, words_of
from lodcli.formats.values.casting import Cast, numbers_as
from lodcli.formats.values.changed import Change, Changed
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import OptionError, SelectionError, UnsupportedError
from lodcli.kernels.suggestions import or_near
from lodcli.kernels.tensor.marks import DECIMAL_DIGITS, TIME_UNITS, Decimals, TimeKind, Times
from lodcli.shell.opened import opened
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

_FLAG = "--dtype-unsafe"
_OTHERS = "text, category, decimal(10, 2), timestamp[us], date, time[us], duration[us]"
_KINDS = ("text", "category", "decimal", *TIME_UNITS)
# What other libraries call these dtypes, without brackets.
_ELSEWHERE = {
    **dict.fromkeys(("str", "string", "utf8", "varchar", "object"), "text"),
    **dict.fromkeys(("categorical", "dictionary", "enum", "factor"), "category"),
    **dict.fromkeys(("datetime", "datetime64", "timestamp", "timestamptz"), "timestamp[us]"),
    **dict.fromkeys(("timedelta", "timedelta64", "interval"), "duration[us]"),
    **dict.fromkeys(("bigint", "integer"), "int64"),
    **dict.fromkeys(("number", "real"), "float64"),
    **dict.fromkeys(("decimal", "numeric"), "decimal(10, 2)"),
    "boolean": "bool",
}
_DECIMALS = re.compile(
    r"(?:(.+)=)?decimal(32|64|128|256)?\(([0-9]{1,3})(?:, ?(-?[0-9]{1,3}))?\)", re.ASCII
)


def write_cast(
    source: Reference,
    dtypes: Sequence[str],
    target: Target,
    *,
    rounded: bool,
    vocabulary: Path | None,
) -> None:
    """Write a file with other dtypes, batch by batch.

    Args:
        dtypes: a dtype for all tensors of numbers, and `TENSOR=DTYPE`, where DTYPE may also be
            times, decimals, `text` or `category`.
        rounded: see `lodcli.kernels.tensor.casting.cast`; times become those before them.
        vocabulary: the file of the words of categories; None: all texts of a tensor, sorted.
    """
    fixed = words_in_file(vocabulary) if vocabulary else None
    with opened(source) as file, naming_source(source.label), ExitStack() as stack:
        for spec in file.schema:
            if spec.array:
                raise SelectionError(f"{spec.name} is a TensorArray; `lod pack` it first")
        _check_once(dtypes)
        kinds = {text: found for text in dtypes if (found := _kind(text)) is not None}
        made = _dtypes(file.schema, [text for text in dtypes if text not in kinds])
        named = {find(file.schema, name).name: kind for name, kind in kinds.values()}
        inner: Source = file.source
        coded = [name for name, kind in named.items() if kind == "category"]
        if fixed is not None:
            if not coded:
                raise click.UsageError("--vocab: has the words of categories; give TENSOR=category")
            words = dict.fromkeys(coded, fixed)
        else:
            if coded:  # read twice
                inner = stack.enter_context(indexed(inner, [spec.name for spec in file.schema]))
            words = words_of(inner, coded)
        changes: dict[str, Change] = {}
        for name, kind in named.items():
            if isinstance(kind, Times):
                changes[name] = AsTimes(kind, rounded=rounded, flag=_FLAG)
            elif isinstance(kind, Decimals):
                changes[name] = AsDecimals(
                    kind, rounded=rounded, flag=_FLAG, written=as_written(name)
                )
            else:
                changes[name] = (
                    AsText() if kind == "text" else AsCategories(words[name], vocabulary)
                )
        for name, dtype in made.items():
            if find(file.schema, name).marks.is_text and dtype.kind != "c":
                changes[name] = AsNumbers(dtype, rounded=rounded, flag=_FLAG)
        made = {name: dtype for name, dtype in made.items() if name not in changes}
        inner = Changed(inner, changes) if changes else inner
        changed = replace(file, source=Cast(inner, made, rounded=rounded, flag=_FLAG))
        target.write(changed.schema, changed.batches(), file.read_share)


def _kind(text: str) -> tuple[str, Times | Decimals | str] | None:
    """Return the tensor, and the kind of `TENSOR=timestamp[us, UTC]`, such as "text".

    None for a dtype.
    """
    name, equals, kind = text.rpartition("=")
    if kind in ("text", "category"):
        if not equals:
            raise click.UsageError(f"{text}: names no tensor; write for example TENSOR={text}")
        return name, kind
    decimals = _DECIMALS.fullmatch(text)
    if decimals is not None:
        return _decimals(text, *decimals.groups())
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
    if zone is not None and not _is_zone(zone):
        raise click.UsageError(
            f"{text}: no time zone {zone!r}; write for example UTC, Europe/Oslo or +02:00"
        )
    return name, times


def _decimals(
    text: str, name: str | None, bits: str | None, precision: str, scale: str | None
) -> tuple[str, Decimals]:
    """Return the tensor and the decimals of `TENSOR=decimal(10, 2)`."""
    width = int(bits) if bits else 128 if int(precision) <= DECIMAL_DIGITS[128] else 256
    decimals = Decimals(int(precision), int(scale or 0), width)
    wrong = decimals.misfit()
    if wrong or name is None:
        example = f"{name or 'TENSOR'}=decimal(10, 2)"
        raise click.UsageError(f"{text}: {wrong or 'names no tensor'}; write for example {example}")
    return name, decimals


def _is_zone(zone: str) -> bool:
    """Return whether a zone is an offset, or of the system's database, if there is one."""
    if re.fullmatch(r"[+-][0-9]{2}:?[0-9]{2}", zone, re.ASCII):
        return True
    known = zoneinfo.available_timezones()
    return zone in known or not known


def _dtypes(schema: Schema, texts: Sequence[str]) -> dict[str, np.dtype[Any]]:
    """Return the dtypes by tensor."""
    found: dict[str, np.dtype[Any]] = {}
    for text in sorted(texts, key=lambda text: "=" in text):
        name, mark, dtype_name = text.rpartition("=")
        # Before NumPy's codes of one letter.
        if not mark and text not in ALL_DTYPES and any(spec.name == text for spec in schema):
            raise OptionError(f"dtype: {text!r} is a tensor; write {text}=DTYPE")
        try:
            dtype = read_options(None, {"dtype": dtype_name}).dtype
        except OptionError:
            bare = dtype_name.partition("[")[0].partition("(")[0].lower()
            meant = _elsewhere(dtype_name, bare)
            before, colon, after = text.rpartition(":")
            if (
                colon
                and not mark
                and after.partition("[")[0].partition("(")[0] in (*ALL_DTYPES, *_KINDS)
            ):
                raise OptionError(f"dtype: no dtype {text!r}; write {before}={after}") from None
            hint = (
                f"; write {name or 'TENSOR'}={meant}"
                if meant
                else or_near(bare, [*ALL_DTYPES, *_KINDS])
            )
            raise OptionError(
                f"dtype: no dtype {dtype_name!r}; there are: {', '.join(sorted(ALL_DTYPES))}; "
                f"besides, TENSOR={_OTHERS}{hint}"
            ) from None
        assert dtype is not None
        if mark:
            found[find(schema, name).name] = dtype
        else:
            try:
                found = numbers_as(schema, dtype)
            except UnsupportedError as error:
                if not any(spec.marks.is_text for spec in schema):
                    raise
                remedy = f"TENSOR={dtype.name} makes numbers of texts"
                raise UnsupportedError(f"{error}; {remedy}") from None
    return found


def _elsewhere(text: str, bare: str) -> str | None:
    """Return the type of lod for one of other libraries, with its unit and time zone; or None.

    Args:
        text: such as "datetime64[ns, UTC]".
        bare: the same in lower case, without brackets.
    """
    meant = _ELSEWHERE.get(bare)
    kind, bracket, _ = (meant or "").partition("[")
    given = re.search(r"\[([a-z]+)(?:, ?([^]]+))?\]$", text)
    if not bracket or given is None or given[1] not in TIME_UNITS[kind]:
        return meant
    times = Times(cast(TimeKind, kind), given[1], given[2] if kind == "timestamp" else None)
    return str(times)


def _check_once(texts: Sequence[str]) -> None:
    """Raise click.UsageError if a tensor is named twice."""
    for name in repeated(text.rpartition("=")[0] for text in texts):
        what = name or "all tensors"
        raise click.UsageError(f"several dtypes for {what}; write TENSOR=DTYPE once for each")
