"""Numbers in many texts: compared with int() and float()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.formats.text import digits
from lodcli.formats.text.digits import decimal_numbers, whole_numbers
from lodcli.kernels.index.checks import Array
from lodcli.kernels.order.texts import Texts

WHOLE = ["0", "7", "-1", "+12", "00012", "12345678", "123456789", "1234567890123456", str(2**53)]
WHOLE += [str(2**63 - 1), str(-(2**63) + 1), "1700000000000000000", "-0"]
DECIMAL = ["0.5", "-0.0", "-0", "12.25", "1234567.8", "12345678.9", "123456789.125", "0.1", "+3.14"]
DECIMAL += ["1700000000.123456", "0.000000000000001", "9007199254740992", "900719925474099.2"]
NEITHER = [
    "",
    "-",
    "+",
    "--1",
    "+-1",
    "1-",
    "1_000",
    " 1",
    "1 ",
    "1,5",
    "x",
    "0x1",
    "nan",
    "\u0661",
]
NEITHER += ["1:2", "1/2", "1;", "12345678x", "123456789012345x", "x2345678", "9" * 20]
NEITHER += ["\u00b2", "\x00", "\x7f" * 8, "\u00ff" * 4, "1e5", "inf"]
POINTS = [".", "1.", ".5", "1.2.3", "..", "-.5", "1..2", "1.-2", "1.2-", "12345678.", "1234567..9"]

Read = Callable[[Texts], tuple[Array, Array]]


def read(function: Read, words: list[str]) -> list[Any]:
    """Return the number read from each text, or None; the same among others and alone."""
    together = _read(function, words)
    assert together == [_read(function, [word])[0] for word in words]
    return together


def _read(function: Read, words: list[str]) -> list[Any]:
    numbers, known = function(Texts.of_words(words))
    pairs = zip(numbers.tolist(), known.tolist(), strict=True)
    return [number if there else None for number, there in pairs]


def test_whole_numbers_are_those_of_int() -> None:
    assert read(whole_numbers, WHOLE) == list(map(int, WHOLE))


def test_decimal_numbers_are_those_of_float() -> None:
    words = [*DECIMAL, *(word for word in WHOLE if abs(int(word)) <= 2**53)]
    found = np.array(read(decimal_numbers, words))
    wanted = np.array(list(map(float, words)))
    np.testing.assert_array_equal(found.view(np.int64), wanted.view(np.int64))


def test_other_texts_are_not_read() -> None:
    assert set(read(whole_numbers, [*NEITHER, *POINTS, "0.5", str(2**63), str(-(2**63))])) == {None}
    assert set(read(decimal_numbers, [*NEITHER, *POINTS, str(2**53 + 1)])) == {None}


@pytest.mark.parametrize("block", [1, 2, 1 << 14])
@given(
    words=st.lists(st.text("0123456789.+-x \u0663\u00b2:/", max_size=22), max_size=20),
    numbers=st.lists(st.floats(allow_nan=False, width=32) | st.integers(-(2**64), 2**64)),
)
def test_numbers_are_those_that_python_reads(
    block: int, words: list[str], numbers: list[float]
) -> None:
    words += [str(number) for number in numbers] + [f"{number:.3f}" for number in numbers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "_BLOCK", block)
        for function, read_by in ((whole_numbers, int), (decimal_numbers, float)):
            for word, number in zip(words, _read(function, words), strict=True):
                if number is not None:
                    wanted = read_by(word)
                    assert (number, str(number)) == (wanted, str(wanted))
