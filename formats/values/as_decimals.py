"""Numbers and texts as decimals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from shlex import quote
from typing import Any

import ml_dtypes
import numpy as np

from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.values.casting import nearest_quotient
from lodcli.formats.values.changed import Change, numbered, of_texts, place, value_at
from lodcli.formats.values.texts_arrow import decimal_digits, encoded
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.casting import scaled
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals
from lodcli.kernels.tensor.nulls import Mask

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,9})?", re.ASCII | re.I)
# Powers of ten up to this exponent are exact floats, and this many digits fit an int64.
_EXACT_POWER, _MOST_DIGITS = 22, 18
_MOST = 2**63 - 1
# Products with a power of ten err by less than this, in relation to them.
_PRODUCT_ERROR = 8 * np.finfo(np.longdouble).eps
# So many digits distinguish all bfloat16.
_BFLOAT16_DIGITS = 4

# Digits; where they fit 64 bits; and where they are exact.
Digits = tuple[Array, Mask, Mask]


class AsDecimals(Change):
    """Decimals, of floating and whole numbers, other decimals, and texts such as "-1.50".

    A floating number is the decimal that is its shortest text: 0.1 is 0.1. An empty text is null.

    Args:
        decimals: the unit of the result.
        rounded: whether numbers of more digits are rounded, halves to even.
        flag: the option that rounds, for messages.
        written: the tensor as expressions refer to it, for messages.
    """

    def __init__(self, decimals: Decimals, *, rounded: bool, flag: str, written: str) -> None:
        self._decimals = decimals
        self._written = written
        self._rounded = rounded
        self._flag = flag
        self._most = min(10**decimals.precision - 1, _MOST)

    def spec(self, spec: TensorSpec) -> TensorSpec:
        unit, text = spec.marks.unit, spec.marks.is_text
        number = spec.marks.kind is None and (is_float(spec.dtype) or spec.dtype.kind in "iu")
        if not (text or number or isinstance(unit, Decimals)):
            what = unit or spec.marks.values or spec.dtype.name
            raise UnsupportedError(
                f"{spec.name}: only text, numbers and decimals can be {self._decimals}, this is "
                f"{what}"
            )
        return numbered(spec, np.dtype(np.int64), self._decimals)

    def of(self, spec: TensorSpec, tensor: LoDTensor, before: int) -> LoDTensor:
        marks = self.spec(spec).marks
        if spec.marks.is_text:
            return of_texts(tensor, self._parsed(tensor, before), marks)
        unit, values, scale = spec.marks.unit, tensor.values, self._decimals.scale
        if is_float(values.dtype):
            found = _of_floats(values, self._decimals)
        else:
            found = _moved(values, scale - (unit.scale if isinstance(unit, Decimals) else 0))
        flat = self._misfit(found)
        if flat is not None:
            where, text = value_at(tensor, unit, flat, before)
            raise InvalidDataError(f"{where}: {self._said(text, found, flat)}")
        return LoDTensor(found[0], tensor.lod, marks, tensor.nulls)

    def _parsed(self, tensor: LoDTensor, before: int) -> Array:
        """Return the digits of texts."""
        offsets = tensor.lod.levels[-1]
        whole: Mask = np.ones(offsets.size - 1, np.bool_)
        digits = decimal_digits(tensor.values, offsets, self._decimals.scale)
        if digits is None or self._misfit((digits, whole, whole)) is not None:
            digits = self._with_care(tensor, before)
        return digits

    def _with_care(self, tensor: LoDTensor, before: int) -> Array:
        """Return the digits of texts that are rounded, or the error of one that is not a number."""
        words, numbers = encoded(tensor.values, tensor.lod.levels[-1])
        wrong = [bool(word) and not _NUMBER.fullmatch(word) for word in words]
        known = [
            Decimal(word if word and not bad else 0) for word, bad in zip(words, wrong, strict=True)
        ]
        digits, fits, exact = _of_decimals(known, self._decimals.scale)
        found = digits[numbers], fits[numbers] & ~np.array(wrong, np.bool_)[numbers], exact[numbers]
        flat = self._misfit(found)
        if flat is not None:
            number = int(numbers[flat])
            said = self._said(words[number][:40], found, flat)
            if wrong[number]:
                said = f"expected a number, found {words[number][:40]!r}"
            where = place(tensor.lod.without_finest(), flat, before)
            raise InvalidDataError(f"{where}: {said}")
        return found[0]

    def _misfit(self, found: Digits) -> int | None:
        """Return the flat index of the first number that cannot be such a decimal, or None."""
        digits, fits, exact = found
        good = fits & (digits <= self._most) & (digits >= -self._most)
        if not self._rounded:
            good &= exact
        return None if good.all() else int(np.argmin(good))

    def _said(self, text: str, found: Digits, flat: int) -> str:
        digits, fits, _ = (one.reshape(-1)[flat] for one in found)
        if text == "nan":
            choice = quote(f"{self._written} if {self._written} == {self._written} else None")
            return f"nan is not a {self._decimals}; lod apply {choice} makes nulls"
        if not fits or abs(int(digits)) > self._most:
            bits = " and 64 bits" if self._decimals.precision > _MOST_DIGITS else ""
            return f"{text} does not fit {self._decimals}{bits}"
        return f"{text} is not exact in {self._decimals}; {self._flag} rounds it"


def _of_floats(values: Array, decimals: Decimals) -> Digits:
    """Return the digits of the decimals that are the shortest texts of floating numbers.

    Where the shortest text has more digits, the exact value is rounded.
    """
    scale = decimals.scale
    info = ml_dtypes.finfo(values.dtype)  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):
        wide = values.astype(np.longdouble)
        power = np.longdouble(10) ** abs(scale)
        product = wide * power if scale >= 0 else wide / power
        nearest = np.rint(product)
        size = np.abs(nearest)
        fits = np.asarray(size <= _MOST)
        digits = np.where(fits, nearest, 0).astype(np.int64)
        # A quotient of whole numbers that are floats is the float next to the decimal.
        exact = np.asarray(
            scaled(digits.astype(np.float64), decimals).astype(values.dtype) == values
        )
        # Of decimals with more digits, or subnormal ones, several are the same float.
        several = (size >= 10**info.precision) | (np.abs(wide) < np.longdouble(info.tiny))
        half = np.abs(np.abs(product - nearest) - 0.5) <= _PRODUCT_ERROR * np.abs(product)
        careful = (several & (nearest != 0)) | (half & ~exact)
        # The text of a number beyond 64 bits may be within.
        careful = np.asarray((careful | (abs(scale) > _EXACT_POWER)) & (size <= 2.0**64))
    if careful.any():
        bits = values[careful].view(f"u{values.itemsize}")
        known, places = np.unique(bits, return_inverse=True)
        found = _of_distinct_floats(known.view(values.dtype), scale)
        digits[careful], fits[careful], exact[careful] = (one[places] for one in found)
    return digits, fits, exact


def _of_distinct_floats(values: Array, scale: int) -> Digits:
    """Return the result of `_of_floats` for finite numbers, computed one by one."""
    with np.errstate(over="ignore"):
        digits, fits, exact = _of_decimals(map(_shortest, values), scale)
    rounded = _of_decimals((Decimal(float(one)) for one in values[~exact]), scale)
    digits[~exact], fits[~exact] = rounded[:2]
    return digits, fits, exact


def _shortest(value: Any) -> Decimal:
    """Return the decimal with the fewest digits from which a floating number is read back."""
    if value.dtype.kind == "f":
        return Decimal(str(value))
    # ml_dtypes writes up to six digits of a bfloat16, where fewer distinguish it.
    texts_of_it = (f"{float(value):.{digits}g}" for digits in range(1, _BFLOAT16_DIGITS))
    same = (text for text in texts_of_it if value.dtype.type(float(text)) == value)
    return Decimal(next(same, f"{float(value):.{_BFLOAT16_DIGITS}g}"))


def _of_decimals(values: Iterable[Decimal], scale: int) -> Digits:
    """Return the digits of numbers rounded to a scale, halves to even."""
    digits, exact = [], []
    for value in values:
        sign, own, exponent = value.as_tuple()
        if value and value.adjusted() + scale > _MOST_DIGITS:
            digits.append(_MOST + 1)
            exact.append(True)
            continue
        moved = Decimal((sign, own, int(exponent) + scale)) if value else Decimal(0)
        nearest = moved.to_integral_value()
        digits.append(int(nearest))
        exact.append(nearest == moved)
    fits = np.array([abs(one) <= _MOST for one in digits], np.bool_)
    held = [one if fit else 0 for one, fit in zip(digits, fits.tolist(), strict=True)]
    return np.array(held, np.int64), fits, np.array(exact, np.bool_)


def _moved(values: Array, places: int) -> Digits:
    """Return whole numbers times a power of ten, which may be negative."""
    whole: Any = np.ones(values.shape, np.bool_)
    if places == -_MOST_DIGITS - 1:  # 64 bits hold half of this power of ten
        moved = _of_decimals(map(Decimal, values.reshape(-1).tolist()), places)
        digits, fits, exact = (one.reshape(values.shape) for one in moved)
        return digits, fits, exact
    if places < -_MOST_DIGITS:
        return np.zeros(values.shape, np.int64), whole, np.asarray(values == 0)
    if places < 0:
        numbers, exact = nearest_quotient(values, 10**-places)
        return numbers.astype(np.int64), whole, exact
    factor = 10 ** min(places, _MOST_DIGITS)
    most = _MOST // factor if places <= _MOST_DIGITS else 0
    fits = np.asarray((values <= most) & (values >= -most))
    return np.where(fits, values, 0).astype(np.int64) * factor, fits, whole
