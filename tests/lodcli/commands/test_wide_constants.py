"""Numbers in expressions that a dtype does not hold: what they are, and what errors say to do."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, applied, tensor, write_jsonl

MOST = 2**64 - 1
TENSORS = {
    "n": np.array([1, 2, 0]),
    "b": np.array([True, False, True]),
    "i": np.array([1, -2, 3], np.int8),
    "u": np.array([1, 2, MOST], np.uint64),
    "z": np.array([1, 2, 3], np.complex64),
    "h": np.array([1, 2, 3], np.float16),
}


@pytest.fixture
def table(folder: Path) -> None:
    """Write tensors of several dtypes, to a.lod.h5, and times to t.jsonl."""
    io.write("a.lod.h5", {name: LoDTensor(data) for name, data in TENSORS.items()})
    Path("t.jsonl").write_text('{"t":"2024-05-01","x":1}\n{"t":null,"x":0}\n')


@pytest.mark.parametrize("op", ["==", "<", ">="])
@pytest.mark.parametrize(
    "constant",
    [
        f"{MOST} - 1",
        f"{MOST} * 2",
        f"{MOST} // 2",
        f"maximum(-1, {MOST})",
        f"minimum({MOST}, {MOST} - 2)",
        f"abs({MOST})",
        f"{MOST} ** -1",
        f"({MOST} == {MOST} - 1)",
        f"sign({MOST})",
    ],
)
def test_constants_are_those_of_filter(lod: Lod, table: None, constant: str, op: str) -> None:
    assert lod("apply", f"u {op} ({constant})", "a.lod.h5", "-o", "o.lod.h5").clean
    assert lod("filter", "a.lod.h5", f"u {op} ({constant})", "-o", "f.lod.h5").code == 0
    kept = TENSORS["u"][tensor("o.lod.h5").data]
    assert tensor("f.lod.h5", "u").data.tolist() == kept.tolist()


def test_constants_are_added_to_a_tensor(lod: Lod, table: None) -> None:
    for text, wanted in {
        f"n + ({MOST} + 1) * 2": [2.0**65] * 3,
        "n + 2 ** 65": [2.0**65] * 3,
        "n - 36893488147419103232": [-(2.0**65)] * 3,
        "n * (10**22)": [1e22, 2e22, 0],
        f"n + {MOST} // {MOST}": [2, 3, 1],
        f"n + {MOST} % 4": [4, 5, 3],
        f"n + ({MOST} - {MOST - 1})": [2, 3, 1],
        f"u - ({MOST} - {MOST - 1})": [0, 1, MOST - 1],
        f"n + {MOST} / 2": [2.0**63] * 3,
    }.items():
        assert lod("apply", text, "a.lod.h5", "-fo", "o.lod.h5").clean, text
        assert tensor("o.lod.h5").data.tolist() == wanted, text


@pytest.mark.parametrize(
    "text",
    [
        f"n + {MOST}",
        f"n + ({MOST} - 1)",
        f"n + maximum(-1, {MOST})",
        f"b + {MOST}",
        f"coalesce(b, {MOST})",
        "i + 300",
        "coalesce(i, 300)",
        f"i + {MOST}",
        "u + (-1)",
        "stack(u, -1)",
        "coalesce(z, 1e300)",
        "coalesce(h, 1e30)",
        "coalesce(h, 1e300)",
    ],
)
def test_the_remedy_for_a_number_that_does_not_fit_works(lod: Lod, table: None, text: str) -> None:
    done = lod("apply", text, "a.lod.h5", "-o", "o.lod.h5")
    assert done.code == 2
    said = done.stderr.split(" does not fit ")[1].strip()
    name = next(one for one in re.findall(r"\w+", text) if one in TENSORS)
    casts = re.findall(r"lod cast TENSOR=\w+", said)
    floats = re.findall(r"--dtype \w+", said)
    assert casts or floats
    for cast in casts:
        option = shlex.split(cast.replace("TENSOR", name))[1:]
        done = lod(*option[:1], "a.lod.h5", *option[1:], "-qfo", "c.lod.h5")
        if " without " in said:  # as i and u are not
            assert done.code == (0 if name == "n" else 1)
        else:
            assert done.code == 0
        if done.code == 0:
            assert lod("apply", text, "c.lod.h5", "-fo", "o.lod.h5").code == 0
    for option in floats:
        assert lod("apply", text, "a.lod.h5", *option.split(), "-fo", "o.lod.h5").code == 0


@pytest.mark.parametrize(
    "text",
    [
        't < ("9999-12-31" if x > 0 else "2000-01-01")',
        'coalesce(t, "9999-12-31") > "2000-01-01"',
        'maximum(t, "9999-12-31") > "2000-01-01"',
    ],
)
def test_a_time_beyond_64_bits_fits_a_coarser_unit(lod: Lod, table: None, text: str) -> None:
    assert lod("cast", "t.jsonl", "t=timestamp[ns]", "-qo", "t.lod.h5").code == 0
    for command in (["apply", text, "t.lod.h5"], ["filter", "t.lod.h5", text]):
        done = lod(*command, "-o", "o.lod.h5")
        assert done.code == 2
        assert "does not fit 64 bits; lod cast 'TENSOR=timestamp[s]' gives" in done.stderr
    option = shlex.split(done.stderr.split("lod cast ")[1])[0].replace("TENSOR", "t")
    assert lod("cast", "t.lod.h5", option, "-qo", "c.lod.h5").code == 0
    assert lod("apply", text, "c.lod.h5", "-qo", "o.jsonl").code == 0
    first = json.loads(Path("o.jsonl").read_text().splitlines()[0])
    assert first in (True, {"t": True})


def test_a_number_beside_times_has_no_cast_of_numbers(lod: Lod, table: None) -> None:
    assert lod("cast", "t.jsonl", "t=timestamp[us]", "-qo", "t.lod.h5").code == 0
    for text in (f"coalesce(t, {MOST})", f"maximum(t, {MOST})", f"t if x > 0 else {MOST}"):
        done = lod("apply", text, "t.lod.h5", "-o", "o.lod.h5")
        assert done.code == 2
        assert (
            f"{MOST} does not fit int64; lod cast 'TENSOR=timestamp[s]' gives times a coarser unit"
            in done.stderr
        ), text


def test_maximum_and_minimum_round_no_whole_number(lod: Lod, folder: Path) -> None:
    whole = np.array([2**53 + 1, 3, -5])
    tensors = {"i": whole, "u": np.array([1, 7, 2**64 - 1], np.uint64), "f": whole * 0.5}
    nulls = LoDTensor.from_lists([None, 0.5, None])
    io.write("a.lod.h5", {**{k: LoDTensor(v) for k, v in tensors.items()}, "x": nulls})
    for text, wanted in {
        "minimum(i, u)": [1, 3, -5],
        "maximum(f, i * 0)": [2.0**52, 1.5, 0],
        "maximum(i, x)": [None, 3, None],
        "minimum(f, i)": [2.0**52, 1.5, -5],
    }.items():
        assert applied(lod, text, "a.lod.h5") == wanted, text
    for text in ("maximum(i, u)", "maximum(i, 0.5)", "maximum(f, i)"):
        done = lod("apply", text, "a.lod.h5", "-o", "no.lod.h5")
        assert done.code == 2, text
        assert "column 1: 9007199254740993 is not exact in float64" in done.stderr


@pytest.mark.parametrize("other", ["f", "0.5", "float32"])
def test_the_greater_of_a_whole_number_and_a_float_is_not_rounded(
    lod: Lod, folder: Path, other: str
) -> None:
    wide = 2**53 + 1
    lines = [{"i": wide, "float32": 0.5, "f": 0.5}, {"i": wide - 1, "float32": 0.5, "f": 0.5}]
    write_jsonl("m.jsonl", lines)
    assert lod("cast", "-q", "m.jsonl", "float32=float32", "-fo", "m.lod.h5").code == 0
    for text in (f"maximum(i, {other}) == {wide}", f"-minimum(-i, {other}) == {wide}"):
        assert lod("filter", "-q", "m.lod.h5", text, "-fo", "o.lod.h5").code == 0
        assert tensor("o.lod.h5", "i").data.tolist() == [wide], text
    assert (
        lod("sort", "-q", "m.lod.h5", "--by", f"maximum(i, {other})", "-fo", "o.lod.h5").code == 0
    )
    assert tensor("o.lod.h5", "i").data.tolist() == [wide - 1, wide]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("i == 2**53+1", [2**53 + 1]),
        ("2**53 < i", [2**53 + 1, 2**62 + 3, 2**63 - 1]),
        ("i == 2**53+-1+2", [2**53 + 1]),
        ("i == 2**62+3", [2**62 + 3]),
        ("i in (2**53+1, 2**63-1)", [2**53 + 1, 2**63 - 1]),
        ("i == -(2**63)", [-(2**63)]),
        ("i > -2**63+1", [2**53, 2**53 + 1, 2**62 + 3, 2**63 - 1]),
        ("i < 2**64", [2**53, 2**53 + 1, 2**62 + 3, 2**63 - 1, -(2**63)]),
        ("i < 2**1000", [2**53, 2**53 + 1, 2**62 + 3, 2**63 - 1, -(2**63)]),
        ("i - 2**53 == 3**2-2**3", [2**53 + 1]),
        ("i > (2**62+2) * 2**0", [2**62 + 3, 2**63 - 1]),
    ],
)
def test_numbers_computed_from_whole_numbers_are_exact(
    lod: Lod, folder: Path, text: str, wanted: list[int]
) -> None:
    given = [2**53, 2**53 + 1, 2**62 + 3, 2**63 - 1, -(2**63)]
    write_jsonl("i.jsonl", [{"i": one} for one in given])
    assert lod("filter", "i.jsonl", text, "-qo", "f.lod.h5").clean
    assert tensor("f.lod.h5", "i").data.tolist() == wanted
    assert lod("apply", text, "i.jsonl", "-qo", "o.lod.h5").code == 0
    assert tensor("o.lod.h5").data.tolist() == [one in wanted for one in given]


def test_the_greatest_number_of_64_bits_can_be_computed(lod: Lod, table: None) -> None:
    assert lod("filter", "a.lod.h5", "u == 2**64-1", "-qo", "f.lod.h5").code == 0
    assert tensor("f.lod.h5", "u").data.tolist() == [MOST]
    assert lod("apply", "u == 2**64-1", "a.lod.h5", "-qo", "o.lod.h5").code == 0
    assert tensor("o.lod.h5").data.tolist() == [False, False, True]
    assert lod("filter", "a.lod.h5", "n / 2**64 < 2", "-qo", "n.lod.h5").code == 0  # floats
    assert tensor("n.lod.h5", "n").data.size == 3


@pytest.mark.parametrize("constant", ["2**64 + 1", "18446744073709551617", "10**23", "-(3**50)"])
def test_a_number_beyond_64_bits_loses_no_digits(lod: Lod, table: None, constant: str) -> None:
    near = repr(float(eval(constant)))
    for command in (["apply", "{}", "a.lod.h5"], ["sort", "a.lod.h5", "--by", "{}"]):
        args = [one.format(f"n + ({constant})") for one in command]
        done = lod(*args, "-fo", "o.lod.h5")
        assert done.code == 2
        assert f"does not fit 64 bits; write {near} for the nearest float" in done.stderr
        assert lod(*(one.format(f"n + {near}") for one in command), "-fo", "o.lod.h5").code == 0


@pytest.fixture
def times(lod: Lod, folder: Path) -> None:
    """Write lists of times t, a duration d and a number x, to t.lod.h5."""
    write_jsonl("t.jsonl", [{"t": ["2024-05-01", None], "d": 2, "x": 1}, {"t": [], "d": 0, "x": 2}])
    kinds = ("t=timestamp[ns]", "d=duration[ns]")
    assert lod("cast", "t.jsonl", *kinds, "-qo", "t.lod.h5").code == 0


@pytest.mark.parametrize(
    "text",
    [
        "d * 2**64",
        "2**65 * d",
        "d + (2**64 + 1)",
        "max(t) + 2**64",
        "max(t) - 18446744073709551616",
        "maximum(d, 2**64)",
        "coalesce(d, 2**64)",
        "d if x > 9 else -(2**64)",
    ],
)
def test_a_number_beyond_64_bits_beside_times_is_an_error(lod: Lod, times: None, text: str) -> None:
    for command in (["apply", text, "t.lod.h5"], ["filter", "t.lod.h5", f"({text}) is not None"]):
        done = lod(*command, "-o", "o.lod.h5")
        assert done.code == 2
        assert "the number does not fit 64 bits; lod cast 'TENSOR=timestamp[s]'" in done.stderr
        assert not Path("o.lod.h5").exists()


@pytest.mark.parametrize("text", ["d * 1e30", "t + 2.0**64", "d * x * 9e18"])
def test_a_multiple_of_times_beyond_64_bits_is_an_error(lod: Lod, times: None, text: str) -> None:
    done = lod("apply", text, "t.lod.h5", "-o", "o.lod.h5")
    assert done.code == 2
    assert "column 1: a time does not fit 64 bits" in done.stderr


def test_quotients_and_comparisons_of_times_take_any_number(lod: Lod, times: None) -> None:
    none = np.timedelta64(0, "ns")
    for text, wanted in {
        "d / 2**64": [none, none],
        "d / 0": [None, None],
        "d < 2**64": [True, True],
        "d / 0 * 2": [None, None],
    }.items():
        assert applied(lod, text, "t.lod.h5") == wanted, text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("h if h > 2 else 2049", "2049 is not exact in float16"),
        ("coalesce(s, 16777217)", "16777217 is not exact in float32"),
        ("s if h > 2 else 16777217", "16777217 is not exact in float32"),
        ("maximum(h, 2049)", "2049 is not exact in float16"),
        ("minimum(s, -16777217)", "-16777217 is not exact in float32"),
        ("minimum(b, 257)", [1, 2, 4]),
        ("minimum(257, b + 256)", "257 is not exact in bfloat16"),
        ("minimum(-257, b)", "-257 is not exact in bfloat16"),
        ("maximum(d, 9007199254740993)", "9007199254740993 is not exact in float64"),
        ("stack(h, 2049)", "2049 is not exact in float16"),
        ("z if h > 2 else 16777217", "16777217 is not exact in complex64"),
        ("maximum(h, 70000)", "70000 does not fit float16"),
        ("minimum(h, -1e30)", "-1e+30 does not fit float16"),
        ("maximum(h, 2048)", [2048, 2048, 2048]),
        ("minimum(h, 2049)", [1, 2, 4]),
        ("minimum(h, 70000)", [1, 2, 4]),
        ("maximum(h, 0.1)", [1, 2, 4]),
        ("maximum(h, 1e999)", [np.inf, np.inf, np.inf]),
        ("coalesce(h, 2049)", [1, 2, 4]),
        ("h if h > 0 else 2049", [1, 2, 4]),
    ],
)
def test_a_chosen_whole_number_is_not_rounded(
    lod: Lod, folder: Path, text: str, wanted: str | list[float]
) -> None:
    data = np.array([1, 2, 4])
    kinds = {"h": "float16", "b": "bfloat16", "d": "float64", "z": "complex64"}
    tensors = {name: LoDTensor(data.astype(dtype_of_rows(kind))) for name, kind in kinds.items()}
    io.write("x.lod.h5", {**tensors, "s": LoDTensor.from_lists([1.0, None, 4.0])})
    assert lod("cast", "x.lod.h5", "s=float32", "-qo", "c.lod.h5").code == 0
    done = lod("apply", text, "c.lod.h5", "-qo", "o.lod.h5")
    if isinstance(wanted, list):
        assert (done.code, done.stderr) == (0, "")
        assert tensor("o.lod.h5").to_list() == wanted
        return
    assert done.code == 2
    assert wanted in done.stderr
    if " not exact " not in wanted:
        return
    number = wanted.split()[0]
    if "write " in done.stderr:
        near = done.stderr.split("write ")[1].split()[0]
        assert lod("apply", text.replace(number, near), "c.lod.h5", "-qo", "o.lod.h5").code == 0
    else:
        (dtype,) = re.findall(r"lod cast TENSOR=(\w+) holds it", done.stderr)
        name = re.findall(r"\b[hsbdz]\b", text)[0]
        assert lod("cast", "c.lod.h5", f"{name}={dtype}", "-qo", "w.lod.h5").code == 0
        assert lod("apply", text, "w.lod.h5", "-qo", "o.lod.h5").code == 0


def test_a_time_in_quotes_beside_means_of_times_is_rounded(lod: Lod, times: None) -> None:
    text = 'coalesce(mean(t), "2024-05-01T00:00:00.123456789")'
    assert lod("apply", text, "t.lod.h5", "-qo", "o.lod.h5").code == 0
    assert tensor("o.lod.h5").data[1] == int(1714521600123456789.0)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("n + 2**5000 > 3", 5),
        ("n < 2**4096", 5),
        ("-(2**5000) < n", 3),
        ("n < 2**3000 + 2**5000", 15),
        ("n < 2**4000 * 2**4000", 5),
        ("n in (1, 10**2000)", 10),
        (f"n < {'9' * 1300}", 5),
        ("n * 2**2**5000 > 3", 8),
    ],
)
def test_a_number_of_more_than_4096_bits_is_an_error(
    lod: Lod, table: None, text: str, column: int
) -> None:
    for command in (["apply", text, "a.lod.h5"], ["filter", "a.lod.h5", text]):
        done = lod(*command, "-o", "o.lod.h5")
        assert done.code == 2
        assert f"column {column}: the number has more than 4096 bits" in done.stderr


@pytest.mark.parametrize(
    "number", ["2**3000", "2**4095", "3**2583", "2**4095 + (2**4095 - 1)", "-(-2)**4095"]
)
def test_numbers_of_4096_bits_are_compared(lod: Lod, table: None, number: str) -> None:
    assert lod("apply", f"n < {number}", "a.lod.h5", "-qo", "o.lod.h5").code == 0
    assert tensor("o.lod.h5").data.tolist() == [True] * 3
    assert lod("filter", "a.lod.h5", f"n < {number}", "-qo", "f.lod.h5").code == 0
    assert tensor("f.lod.h5", "n").data.size == 3
