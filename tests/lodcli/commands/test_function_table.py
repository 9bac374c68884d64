"""Tests of the table of functions against the code that computes them."""

from __future__ import annotations

import pytest

from lodcli.commands.choose.item_values import REDUCTIONS
from lodcli.expressions.function_table import FUNCTIONS, QUANTILES
from lodcli.expressions.functions import ONE, TWO
from lodcli.kernels.ops.registry import OPS


def test_functions_of_all_values_are_in_the_table() -> None:
    assert set(REDUCTIONS) == {name for name, one in FUNCTIONS.items() if one.reduces}
    assert {*QUANTILES} <= {*REDUCTIONS}


def test_elementwise_functions_of_numpy_are_in_the_table() -> None:
    assert all(FUNCTIONS[name].elementwise for name in (*ONE, *TWO))


def test_functions_that_are_ops_are_in_the_registry() -> None:
    assert {name for name, one in FUNCTIONS.items() if one.op} == FUNCTIONS.keys() & OPS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_facts_of_one_kind(name: str) -> None:
    function = FUNCTIONS[name]
    assert not (function.elementwise and function.reduces)
    assert not function.of_nothing or function.reduces
    assert function.words is None or function.elementwise


def test_text_functions_are_in_the_table() -> None:
    pytest.importorskip("pyarrow")
    from lodcli.expressions import text_functions_arrow

    named = {name for name, one in FUNCTIONS.items() if one.words is not None}
    assert named == {*text_functions_arrow._FUNCTIONS, "split"}
