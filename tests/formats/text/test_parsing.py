"""Texts read as numbers by compiled code: as by float() and int()."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.csv import number_columns
from lodcli.formats.text import digits, parsing_native, records_native
from lodcli.kernels.errors import LodError
from lodcli.kernels.order.texts import Texts

# Which are read in another way, or are no numbers.
OTHERS = [
    *("", "-", "+", ".", "1e", "1e+", "1e400", "1e-400", "1_0", " 1", "1 ", "nan", "inf", "0x1"),
    *("\uff11\uff12", "1.2.3", "1e5.0", "1-2", "--1", "9" * 20, "18446744073709551616", "8.5e-320"),
    *("1844674407370955161.6", "0.00018446744073709551616"),
    *("1:", "1/", ":", "/", "1.:", "1./", ".:", "1e:", "1e/", "1e5:", "1.5/"),  # beside 9 and 0
]
NUMBERS = [
    *("1.", ".5", "-.5", "+1", "1e5", "1E-5", "-0", "-0.0", "0e5", "00012", "0" * 30 + "7"),
    *("0." + "0" * 30 + "1", "123456789012345678e-2", "9007199254740993", "1e22", "1e23"),
    *("9223372036854775807", "5e-324000000"[:5], "0.0007508929546912084"),
]


def test_texts_of_all_kinds_are_as_float_reads_them() -> None:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    words = [repr(one) for one in bits[np.isfinite(bits)].tolist()]
    words += [f"{one:.3f}" for one in rng.normal(size=5000).tolist()] + NUMBERS
    values, known = parsing_native.decimal_numbers(Texts.of_words(words))
    assert known[-len(NUMBERS) :].all()
    assert known.mean() > 0.99
    found = {word: one for word, one in zip(words, values.tolist(), strict=True)}
    assert {word: repr(one) for word, one in found.items()} == {
        word: repr(float(word)) if is_known else repr(found[word])
        for word, is_known in zip(words, known.tolist(), strict=True)
    }


@pytest.mark.parametrize("word", OTHERS)
def test_other_texts_are_not_known(word: str) -> None:
    for read in (parsing_native.decimal_numbers, parsing_native.whole_numbers):
        assert read(Texts.of_words(["1", word, "2"]))[1].tolist() == [True, False, True]


@given(st.lists(st.text("0123456789+-.eE _", max_size=25), max_size=40))
def test_known_texts_are_those_of_python(words: list[str]) -> None:
    texts = Texts.of_words(words)
    for name, exact in {"decimal_numbers": float, "whole_numbers": int}.items():
        values, known = getattr(parsing_native, name)(texts)
        for word, value, is_known in zip(words, values.tolist(), known.tolist(), strict=True):
            assert not is_known or repr(exact(word)) == repr(value)
        assert (known >= getattr(digits, name)(texts)[1]).all()


def test_csv_is_read_alike_by_compiled_code_numpy_and_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [word for word in [*OTHERS, *NUMBERS] if word and not set(word) - set("0123456789.-")]
    words = [word for word in words if word.count(".") < 2 and "-" not in word[1:] and word > "."]
    words = [word for word in words if "." in word or int(word) == float(word) < 2**63]
    lines = [f"0.5,1,{word}" for word in words] + ["1e3,-7,nan", ",,9007199254740993"]
    path = tmp_path / "x.csv"
    found = []
    for text in ("x,n,y\n" + "\n".join(lines[:-1]) + "\n,,2\n", "x,n,y\n" + "\n".join(lines)):
        path.write_text(text)
        for least, few in ((0, 0), (1 << 60, 0), (0, 1 << 60)):
            monkeypatch.setattr(records_native, "REPAID_VALUES", least)
            monkeypatch.setattr(number_columns, "_FEW", few)
            try:
                read = io.read_all(path)
                found.append(str({name: tensor.to_list() for name, tensor in read.items()}))
            except LodError as error:
                found.append(str(error))
    assert found[0] == found[1] == found[2]
    assert found[3] == found[4] == found[5]
    assert f"line {len(lines) + 1}" in found[3]
