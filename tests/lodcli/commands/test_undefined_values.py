"""What is not defined for times and categories is an error, not a result of their numbers."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor

NOON = datetime(2024, 5, 1, 12)
SPANS = [[timedelta(hours=1), timedelta(hours=3)], [timedelta(hours=5)], []]


@pytest.fixture
def events(folder: Path) -> None:
    days = [[date(2024, 5, 1), date(2024, 5, 4)], [date(2024, 5, 2)], []]
    sizes = LoDTensor(np.array([0, 2, 1]), [[2, 1, 0]]).as_categories(["s", "m", "l"], ordered=True)
    content = {
        "label": LoDTensor(np.array([2, 0, 1], np.int8)).as_categories(["b", "a", "c"]),
        "labels": LoDTensor(np.array([1, 0, 2]), [[2, 1, 0]]).as_categories(["b", "a", "c"]),
        "sizes": sizes,
        "day": LoDTensor.from_lists([one[0] if one else date(2024, 5, 3) for one in days]),
        "days": LoDTensor.from_lists(days),
        "waits": LoDTensor.from_lists(SPANS),
        "t": LoDTensor.from_lists([NOON] * 3),
        "n": LoDTensor([1, 2, 3]),
    }
    io.write("e.lod.h5", content)


CODES = "lod convert --text-levels numbers makes numbers of its codes"
# As in pandas, Polars and DuckDB: the expression, and where and what the error is.
WRONG = {
    "label + 1 > 0": f"column 1: + is not defined for category[3] and a number; {CODES}",
    "1 - label > 0": f"column 1: - is not defined for a number and category[3]; {CODES}",
    "sum(labels) > 0": f"column 1: sum is not defined for category[3]; {CODES}",
    "mean(sizes) > 0": f"column 1: mean is not defined for category[3, ordered]; {CODES}",
    "max(labels) == 'a'": "column 1: the categories of labels have no order; use first, last, any",
    "not label": f"column 1: not is not defined for category[3]; {CODES}",
    "n > 1 and label": f"column 11: and is not defined for category[3]; {CODES}",
    "any(labels)": f"column 1: any is not defined for category[3]; {CODES}",
    "abs(label) > 1": f"column 1: abs is not defined for category[3]; {CODES}",
    "-label < 0": f"column 1: - is not defined for category[3]; {CODES}",
    "label == 2": "column 10: label is category[3]; expected a word in quotes such as 'b', or",
    "0 < label": "column 1: label is category[3]; expected a word in quotes such as 'b', or",
    "label in (1, 2)": "column 11: label is category[3]; expected a word in quotes such as 'b', or",
    "label == n": "column 10: label is category[3]; expected a word in quotes such as 'b', or",
    "5 - day > 0": "column 1: - is not defined for a number and date[D]; write "
    "(day - '1970-01-01') / 'P1D'",
    "day * 2 > 0": "column 1: * is not defined for date[D] and a number; write (day - ",
    "t + t > 0": "column 1: + is not defined for timestamp[us] and timestamp[us]; write "
    "(t - '1970-01-01') / 'PT1S'",
    "t % 'PT1H' > 0": "column 1: % is not defined for timestamp[us] and a text; write (t",
    "sum(days) > 0": "column 1: sum is not defined for date[D]; write (days - '1970-01-01') / 'P1D",
    "exp(day) > 0": "column 1: exp is not defined for date[D]; write (day - '1970-01-01') / 'P1D'",
    "any((waits + 'PT1H') ** 2 > 0)": "column 5: ** is not defined for duration[us] and a "
    "number; write (waits + 'PT1H') / 'PT1S'",
    "-day < 0": "column 1: - is not defined for date[D]; write (day - '1970-01-01') / 'P1D'",
    "not (t - day)": "column 1: not is not defined for duration[us]; write (t - day) / 'PT1S'",
}


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("text", WRONG)
def test_numbers_of_times_and_codes_are_not_computed_with(text: str, lod: Lod) -> None:
    for command in (["filter", "e.lod.h5", text], ["apply", text, "e.lod.h5"]):
        done = lod(*command, "-o", "out.lod.h5")
        assert done.code == 2
        assert WRONG[text] in done.stderr
        assert not Path("out.lod.h5").exists()


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize(
    "text",
    [
        "isnan(label) == False",
        "max(sizes) >= 's'",
        "sizes > 's'",
        "length(labels) > 0",
        "any(labels == 'a')",
        "(day - '1970-01-01') / 'P1D' > 19000",
        "waits / max(waits) <= 1",
        "abs(waits) > 'PT0S'",
        "day + 1 > '2024-05-01'",
        "t >= 1714564800000000",
    ],
)
def test_functions_defined_for_times_and_categories_are_computed(text: str, lod: Lod) -> None:
    assert lod("apply", text, "e.lod.h5", "-o", "out.lod.h5").clean


@pytest.mark.usefixtures("events")
def test_a_condition_is_no_time_or_category(lod: Lod) -> None:
    for text, said in {"label": "label is category[3]", "day + 1": "this is date[D]"}.items():
        done = lod("filter", "e.lod.h5", text, "-o", "out.lod.h5")
        assert done.code == 2
        assert f"column 1: {said}; compare it, as in x == y" in done.stderr


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize(
    ("key", "days"),
    [("-day", [3, 2, 1]), ("label", [2, 3, 1]), ("-label", [1, 3, 2]), ("-max(days)", [1, 2, 3])],
)
def test_items_are_sorted_by_them(key: str, days: list[int], lod: Lod) -> None:
    assert lod("sort", "e.lod.h5", "--by", key, "-o", "out.lod.h5").clean
    assert [one.day for one in tensor("out.lod.h5", "day").to_list()] == days


OPS = {
    "sum e.lod.h5::labels": f"sum is not defined for category[3]; {CODES}",
    "mean e.lod.h5::labels": f"mean is not defined for category[3]; {CODES}",
    "max e.lod.h5::labels": "the categories of labels have no order; use first, last, any or all",
    "max_index e.lod.h5::labels": "the categories of labels have no order",
    "topk e.lod.h5::labels --k 2": "the categories of labels have no order",
    "add e.lod.h5::label 1": f"add is not defined for category[3] and a number; {CODES}",
    "sub e.lod.h5::label e.lod.h5::n": "sub is not defined for category[3] and a number",
    "mul e.lod.h5::t 2": "mul is not defined for timestamp[us] and a number; write",
    "sum e.lod.h5::days": "sum is not defined for date[D]; write (days - '1970-01-01') / 'P1D'",
    "softmax e.lod.h5::waits": "softmax is not defined for duration[us]; write waits / 'PT1S'",
    "softmax e.lod.h5::waits --dtype float32": "softmax is not defined for duration[us]; write",
    "dot e.lod.h5::labels e.lod.h5::labels": "dot is not defined for category[3]",
    "reverse e.lod.h5::labels --then sum": "sum is not defined for category[3]",
}


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("line", OPS)
def test_ops_refuse_what_expressions_refuse(line: str, lod: Lod) -> None:
    done = lod("apply", *line.split(), "-o", "out.lod.h5")
    assert done.code == 2
    assert OPS[line] in done.stderr
    assert not Path("out.lod.h5").exists()


# Of an op of two tensors, what is said of them after the name of the command.
OF_TWO = {
    "add e.lod.h5::day e.lod.h5::t": "e.lod.h5: add is not defined for date[D] and timestamp[us]; "
    "write (day - '1970-01-01') / 'P1D'",
    "sub e.lod.h5::n e.lod.h5::day": "e.lod.h5: sub is not defined for a number and "
    "date[D]; write (day - '1970-01-01') / 'P1D'",
    "mul e.lod.h5::day 2": "e.lod.h5: mul is not defined for date[D] and a number; "
    "write (day - '1970-01-01') / 'P1D'",
    "add e.lod.h5::day e.lod.h5::label": "e.lod.h5: add: day is date[D] and label is category[3]",
    "mul e.lod.h5::n one.lod.h5": "e.lod.h5, one.lod.h5: mul is not defined for a "
    "number and date[D]; write (data - '1970-01-01') / 'P1D'",
    "add one.lod.h5 two.lod.h5": "one.lod.h5, two.lod.h5: add is not defined for date[D] and "
    "date[D]; write (data - '1970-01-01') / 'P1D'",
    "mul three.lod.h5 one.lod.h5": "three.lod.h5, one.lod.h5: mul is not defined for a "
    "number and date[D]; write (data - '1970-01-01') / 'P1D'",
    "sub four.lod.h5 one.lod.h5": "four.lod.h5, one.lod.h5: sub: data is duration[us] and the "
    "second is date[D]: the kinds differ",
    "sub e.lod.h5::day e.lod.h5::t --then add one.lod.h5 --then add one.lod.h5": "one.lod.h5: add "
    "is not defined for timestamp[us] and date[D]; write (day - '1970-01-01') / 'PT1S'",
}


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("line", OF_TWO)
def test_an_op_of_two_tensors_names_them(line: str, lod: Lod) -> None:
    days = LoDTensor.from_lists([date(2024, 5, 1)] * 3)
    io.write("one.lod.h5", days)
    io.write("two.lod.h5", days)
    io.write("three.lod.h5", LoDTensor(np.arange(3)))
    io.write("four.lod.h5", LoDTensor.from_lists([HOUR] * 3))
    done = lod("apply", *line.split(), "-o", "out.lod.h5")
    assert done.code == 2
    assert done.stderr.startswith(f"lod apply: {OF_TWO[line]}")


HOUR = timedelta(hours=1)
OF_TIMES = {
    "sum e.lod.h5::waits": [4 * HOUR, 5 * HOUR, 0 * HOUR],
    "mean e.lod.h5::waits": [2 * HOUR, 5 * HOUR, None],
    "cumsum e.lod.h5::waits": [[HOUR, 4 * HOUR], [5 * HOUR], []],
    "cumsum e.lod.h5::waits --exclusive": [[0 * HOUR, HOUR], [0 * HOUR], []],
    "sum e.lod.h5::waits --level 0 --backend numpy": [4 * HOUR, 5 * HOUR, 0 * HOUR],
    "sub e.lod.h5::waits e.lod.h5::waits --then sum": [0 * HOUR] * 3,
    "sub e.lod.h5::t e.lod.h5::day": [12 * HOUR, -12 * HOUR, -36 * HOUR],
    "sub e.lod.h5::t e.lod.h5::day --dtype float32": [12 * HOUR, -12 * HOUR, -36 * HOUR],
    "max e.lod.h5::sizes": ["l", "m", None],
    "argsort e.lod.h5::labels": [[1, 0], [0], []],
}


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("line", OF_TIMES)
def test_ops_of_times_are_those_of_an_expression(line: str, lod: Lod) -> None:
    assert lod("apply", *line.split(), "-o", "out.lods").clean
    assert tensor("out.lods").to_list() == OF_TIMES[line]


@pytest.mark.usefixtures("events")
def test_the_mean_of_dates_is_that_of_polars(lod: Lod) -> None:
    polars = pytest.importorskip("polars")
    assert lod("apply", "mean", "e.lod.h5::days", "-o", "out.lod.h5").code == 0
    days = tensor("e.lod.h5", "days").to_list()
    means = [polars.Series(one, dtype=polars.Date).mean() for one in days]
    # Fractions of a day are cut.
    assert tensor("out.lod.h5").to_list() == [one and one.date() for one in means]


@pytest.mark.usefixtures("folder")
def test_text_is_no_number_and_no_dtype_makes_it_one(lod: Lod) -> None:
    io.write("t.lod.h5", LoDTensor.from_lists(["ab", "c"]))
    for more in ([], ["--dtype", "float32"]):
        done = lod("apply", "softmax", "t.lod.h5", *more, "-o", "out.lod.h5")
        assert done.code == 2
        assert "lod convert --text-levels numbers makes numbers of text" in done.stderr


def test_an_error_about_lists_names_the_item_of_any_batch(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "BATCH_BYTES", 64)
    lengths = [3] * 40
    x = LoDTensor(np.arange(120), [lengths])
    lengths[33:35] = [2, 4]
    io.write("l.lod.h5", {"x": x, "y": LoDTensor(np.arange(120), [lengths])})
    done = lod("filter", "l.lod.h5", "any(x == y)", "-o", "o.lod.h5")
    assert done.code == 2
    assert "column 10: the two sides have different numbers of rows in item 33: 3 and 2" in (
        done.stderr
    )
