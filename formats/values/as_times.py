"""Texts and numbers as times: the text formats, such as csv and JSON, have no other times."""

from __future__ import annotations

import re

import numpy as np

from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.values.changed import Change, numbered, of_texts, place, value_at
from lodcli.formats.values.texts_arrow import encoded, moments
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.options import by_reader
from lodcli.kernels.tensor.casting import cast
from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS, nanoseconds_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Times
from lodcli.kernels.tensor.nulls import Mask

# Kinds of times that are made of each other.
_DAYS = {"date", "timestamp"}
_DAY_AND_MONTH = re.compile(r"([0-9]{2})([./-])[0-9]{2}\2[0-9]{4}")


class AsTimes(Change):
    """Times, of texts of ISO 8601, of whole numbers, which count the unit, and of other times.

    An empty text is null. Times without a zone are in UTC, as the numbers of all are.

    Args:
        times: the unit of the result.
        rounded: whether times between two of the unit become the earlier one.
        flag: the option that rounds, for messages.
    """

    def __init__(self, times: Times, *, rounded: bool, flag: str) -> None:
        self._times = times
        self._rounded = rounded
        self._flag = flag

    def spec(self, spec: TensorSpec) -> TensorSpec:
        unit, times, text = spec.marks.unit, self._times, spec.marks.is_text
        whole = spec.marks.kind is None and spec.dtype.kind in "iu"
        same = isinstance(unit, Times) and (
            unit.kind == times.kind
            or {unit.kind, times.kind} == _DAYS
            or (unit.kind, times.kind) == ("timestamp", "time")
        )
        if not (text or whole or same):
            such = isinstance(unit, Times)
            known = "text, whole numbers and such times" if such else "text and whole numbers"
            what = unit or spec.marks.values or spec.dtype.name
            if spec.marks.kind is None and is_float(spec.dtype):
                what = f"{what}; cast it to int64 first"
            raise UnsupportedError(f"{spec.name}: only {known} can be {times}, this is {what}")
        return numbered(spec, np.dtype(np.int64), times)

    def of(self, spec: TensorSpec, tensor: LoDTensor, before: int) -> LoDTensor:
        marks = self.spec(spec).marks
        if spec.marks.is_text:
            numbers = moments(tensor.values, tensor.lod.levels[-1], self._times)
            if numbers is None:
                numbers = self._parsed_one_by_one(tensor, before, spec.name)
            return of_texts(tensor, numbers, marks)
        unit, values = spec.marks.unit, tensor.values
        if isinstance(unit, Times):
            given = values
            if unit.kind != "time" == self._times.kind:  # the time of day
                given = values % (NANOSECONDS["D"] // NANOSECONDS[unit.unit])
            numbers, fits, whole = _in_unit(given, unit, self._times)
            whole = whole & (given == values) | self._rounded
        else:
            numbers, fits = cast(values, np.dtype(np.int64))
            whole = fits
        if not (fits & whole).all():
            flat = int(np.argmin(fits & whole))
            where, text = value_at(tensor, unit, flat, before)
            what = f"{text} is beyond 64 bits"
            if fits.reshape(-1)[flat]:
                what = self._between(text)
                if isinstance(unit, Times) and unit.kind != self._times.kind == "time":
                    what = f"{text} has a date; {self._flag} keeps only the time of day"
            raise InvalidDataError(f"{where}: {what}")
        if unit is None and self._times.kind == "time":
            self._require_in_a_day(tensor, before)
        return LoDTensor(numbers, tensor.lod, marks, tensor.nulls)

    def _require_in_a_day(self, tensor: LoDTensor, before: int) -> None:
        day = NANOSECONDS["D"] // NANOSECONDS[self._times.unit]
        wrong = (tensor.values < 0) | (tensor.values >= day)
        if tensor.nulls.rows is not None:
            wrong[~tensor.nulls.rows] = False
        if wrong.any():
            where, found = value_at(tensor, None, int(np.argmax(wrong)), before)
            raise InvalidDataError(
                f"{where}: expected {self._times} from 0 to {day - 1}, found {found}"
            )

    def _between(self, text: str) -> str:
        """Return the error about a time that is not a whole number of the unit."""
        step = "D" if self._times.kind == "date" else self._times.unit
        hint = f"{self._flag} makes it the time before it"
        return f"{text} is not a whole number of the unit {step}; {hint}"

    def _parsed_one_by_one(self, tensor: LoDTensor, before: int, name: str) -> Array:
        """Return the numbers of texts, 0 of an empty one; each different text is parsed once."""
        words, codes = encoded(tensor.values, tensor.lod.levels[-1])
        numbers = np.zeros(len(words), np.int64)
        for code, word in enumerate(words):
            try:
                numbers[code] = self._number(word, name) if word else 0
            except (InvalidDataError, OverflowError) as error:
                known = isinstance(error, InvalidDataError)
                what = error if known else f"{word} is beyond 64 bits"
                row = int(np.argmax(codes == code))  # words are in order of their first rows
                where = place(tensor.lod.without_finest(), row, before)
                raise InvalidDataError(f"{where}: {what}") from error
        found: Array = numbers[codes]
        return found

    def _number(self, text: str, name: str) -> int:
        unit = NANOSECONDS[self._times.unit]
        step = NANOSECONDS["D"] if self._times.kind == "date" else unit  # also in milliseconds
        try:
            count, rest = divmod(nanoseconds_of(text, self._times), step)
        except InvalidDataError as error:
            raise InvalidDataError(f"{error}{_rewriting(name, text, self._times)}") from None
        if rest and not self._rounded:
            raise InvalidDataError(self._between(repr(text)))
        return count * (step // unit)


def _rewriting(name: str, text: str, times: Times) -> str:
    """Return how to make ISO 8601 of a text in another form, as "; ..".

    >>> _rewriting("day", "31.12.2024", Times("date", "D"))
    '; write ISO 8601'
    """
    found = _DAY_AND_MONTH.fullmatch(text) if times.kind in _DAYS else None
    pattern, by, made = '".."', '".."', "other forms"
    if found is not None:
        mark, is_day = found[2], int(found[1]) > 12
        between = "[.]" if mark == "." else mark
        pattern = f'r"(..){between}(..){between}(....)"'
        by = r'r"\3-\2-\1"' if is_day else r'r"\3-\1-\2"'
        made = f"{'day' if is_day else 'month'}{mark}{'month' if is_day else 'day'}{mark}year"
    call = f"lod apply 'replace_matches({name}, {pattern}, {by})' .. --into {name}"
    return by_reader(shell=f"; {call} makes ISO 8601 of {made}", python="; write ISO 8601")


def _in_unit(values: Array, unit: Times, other: Times) -> tuple[Array, Mask, Mask]:
    """Return times in another unit, those before them if they are between two of the unit.

    Returns:
        The numbers; where they fit 64 bits; where they are the same time.
    """
    own, step = NANOSECONDS[unit.unit], NANOSECONDS[other.unit]
    day = NANOSECONDS["D"] if other.kind == "date" else step  # also of dates in milliseconds
    whole: Mask = np.ones(values.shape, np.bool_)
    if own < day:
        values, rest = np.divmod(values, day // own)
        whole, own = rest == 0, day
    most = (2**63 - 1) // (own // step)
    return values * (own // step), np.asarray((values <= most) & (values >= -most)), whole
