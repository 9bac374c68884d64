"""Labels of sequences, as class numbers or as numbers to predict, for `lod train`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.expressions.digits import without_decimals
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.tensor.casting import cast
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Times
from lodcli.shell.references import Reference

# Expressions that make floating-point numbers of times, by their kind.
_NUMBERS_OF_TIMES = {
    "timestamp": "({} - '1970-01-01') / 'PT1S'",
    "date": "({} - '1970-01-01') / 'P1D'",
    "time": "({} - '00:00:00') / 'PT1S'",
    "duration": "{} / 'PT1S'",
}


def numbered(labels: LoDTensor, name: str, *, of_values: bool) -> tuple[Array, tuple[str, ...]]:
    """Return the number of each label, and the words of all numbers; () for plain numbers.

    Args:
        labels: of any levels.
        name: of their tensor, for messages.
        of_values: whether whole numbers are numbers to predict as well.

    Returns:
        Whole numbers, the classes, or float64, the numbers to predict: one for each row of
        `labels`.

    Raises:
        InvalidDataError: labels that are neither.
    """
    if labels.marks.kind == "bytes":
        raise InvalidDataError("expected whole numbers or words, found bytes")
    if labels.marks.is_text:
        if labels.lod.n_levels != 1:
            raise InvalidDataError("expected one text for each sequence, found lists of texts")
        labels.data  # noqa: B018 - raises an error about nulls
        words, numbers = np.unique(labels.to_list(), return_inverse=True)
        return numbers, tuple(map(str, words))
    unit, known = labels.marks.unit, labels.marks.categories
    if isinstance(unit, Times):
        expression = _NUMBERS_OF_TIMES[unit.kind].format(name)
        raise InvalidDataError(
            f'expected numbers or words, found {unit}; lod apply "{expression}" SOURCE --into '
            f"{name} makes numbers to predict, lod cast {name}=text makes classes"
        )
    values = without_decimals(labels, exact=False).data
    if values.dtype.kind == "c":
        raise InvalidDataError(f"expected real numbers or words, found {values.dtype}")
    if known is not None:
        return values, known.words
    if of_values or (is_float(values.dtype) and unit is None):
        return _finite(values), ()
    if unit is not None:
        values = _whole(values, name)
    classes = values.astype(np.int64) if values.dtype == bool else values
    negative = np.argwhere(classes < 0)
    if len(negative):
        raise InvalidDataError(
            f"position {negative[0][0]}: expected class numbers, from 0, found "
            f"{classes[tuple(negative[0])]}; {cast_to_predict(name)}"
        )
    return classes, ()


def cast_to_predict(name: str) -> str:
    """Return the remedy for whole numbers that are no classes."""
    return f"lod cast {name}=float64 makes numbers to predict"


def _whole(decimals: Array, name: str) -> Array:
    """Return decimals as class numbers. Raises InvalidDataError: one is a fraction."""
    numbers, whole = cast(decimals, np.dtype(np.int64))
    if not whole.all():
        place = tuple(np.argwhere(~whole)[0])
        # Most decimals are no exact float64, so that a cast has to round them.
        raise InvalidDataError(
            f"position {place[0]}: expected whole numbers, found {decimals[place]}; lod cast "
            f"{name}=float64 --dtype-unsafe makes numbers to predict"
        )
    return numbers


def _finite(numbers: Array) -> Array:
    """Return numbers to predict in float64. Raises InvalidDataError: one is not finite."""
    finite = np.isfinite(numbers)
    if not finite.all():
        place = tuple(np.argwhere(~finite)[0])
        found = numbers[place]
        raise InvalidDataError(f"position {place[0]}: expected a finite value, found {found}")
    if 0 in numbers.shape[1:]:
        raise InvalidDataError(f"expected rows of values, found shape {numbers.shape}")
    return numbers.astype(np.float64)


def of_sequences(
    labels: LoDTensor,
    numbers: Array,
    tensor: LoDTensor,
    number: int,
    name: str,
    reference: Reference,
    *,
    ids: bool,
) -> Array:
    """Return the label of each sequence, (S,), or several numbers to predict, (S, C).

    Args:
        labels: without levels; with those of the sequences, so that a list has the labels of the
            sequences of one item; or with lists of equal length, of one label or of C numbers.
        numbers: of its rows, see `numbered`.
        number: the level of the sequences.
        name: of the labels' tensor, for messages.
        ids: whether the data are ids, which are not parts of a row.

    Raises:
        ShapeMismatchError: the lists do not fit the sequences, or have several classes.
    """
    levels = [] if labels.marks.is_text else list(labels.lod.levels)
    rows = _by_sequence(numbers, levels, tensor.lod.levels[:number])
    count = tensor.lod.count(number)
    if rows is not None and len(rows) == count and (rows.ndim == 1 or is_float(rows.dtype)):
        return rows
    found = _fitting_level(levels, numbers, tensor, number, reference, ids=ids)
    if found is None and rows is None:
        found = _misfit(levels, tensor.lod.levels[:number])
    elif found is None and rows is not None and rows.ndim > 1 and not is_float(rows.dtype):
        found = f"{rows.shape[1]} for each"
        if labels.marks.categories is None:
            found += f"; {cast_to_predict(name)}"
    if found is not None:
        raise ShapeMismatchError(
            f"{name}: expected {count} labels, one for each sequence of level {number}, found "
            f"{found}"
        )
    assert rows is not None
    return rows  # of another number, which `Labelled` refuses


def _by_sequence(numbers: Array, levels: list[Offsets], above: Sequence[Offsets]) -> Array | None:
    """Return one row, (S,) or (S, C), for each sequence; None if the levels do not fit.

    Args:
        numbers: (N,) or (N, ..).
        levels: of the labels.
        above: the levels above the sequences.
    """
    levels, size = list(levels), 1
    while levels and not _same(levels, above):
        lengths = np.diff(levels.pop())
        if len(lengths) and (lengths != lengths[0]).any():
            return None
        size *= int(lengths[0]) if len(lengths) else 1
    width = size * int(np.prod(numbers.shape[1:], dtype=np.int64))
    if width == 1:
        return numbers.reshape(-1)
    if not width:
        return None
    return numbers.reshape(numbers.size // width, width)


def _same(some: Sequence[Offsets], others: Sequence[Offsets]) -> bool:
    return len(some) == len(others) and all(map(np.array_equal, some, others))


def _misfit(levels: Sequence[Offsets], above: Sequence[Offsets]) -> str:
    """Return what lists of labels have instead of one for each sequence."""
    if len(levels) == len(above) == 1 and levels[0].shape == above[0].shape:
        found, wanted = np.diff(levels[0]), np.diff(above[0])
        item = int(np.argmax(found != wanted))
        return f"{found[item]} for the {wanted[item]} sequences of item {item}"
    lengths = np.diff(levels[-1])
    return (
        f"lists of {lengths.min()} to {lengths.max()}; several numbers to predict need lists of "
        "equal length"
    )


def _fitting_level(
    levels: Sequence[Offsets],
    numbers: Array,
    tensor: LoDTensor,
    number: int,
    reference: Reference,
    *,
    ids: bool,
) -> str | None:
    """Return the level with as many items as there are labels, and advice; None if there is none.

    Args:
        numbers: of the labels, a row for each.
        number: the level whose sequences need labels.
        ids: whether the data are ids, which are not parts of a row.
    """

    def fit(level: int, count: int) -> bool:
        return (not levels and len(numbers) == count) or (
            bool(levels) and _same(levels, tensor.lod.levels[:level])
        )

    if fit(tensor.lod.n_levels, tensor.rows):
        return (
            "one for each row; lod train classifies sequences: to classify rows, train a module of "
            "torch with the layers of lodcli.torch"
        )
    for other in range(tensor.lod.n_levels):
        if other != number and fit(other, tensor.lod.count(other)):
            remedy = f"{len(numbers)}; --level {other} has as many sequences"
            lengths = tensor.lod.lengths(-1)
            alike = bool((lengths == max(lengths[0], 2)).all())
            if not ids and tensor.lod.n_levels == other + 2 and alike:
                command = reference.as_rows(tensor.lod.names[:number])
                remedy += f"; if the {lengths[0]} rows of each are one: {command}"
            return remedy
    return None
