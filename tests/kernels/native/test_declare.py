"""Declarations of kernels: the recorded fields, and invalid declarations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple

import numpy as np
import pytest

from lodcli.kernels.native.declare import (
    Arguments,
    Group,
    Parameter,
    Pointer,
    T,
    U,
    declared,
    kernel,
)


class Pair(NamedTuple, Generic[T]):
    x: Pointer[T]
    size: int


def scale(
    x: Pointer[T], out: Pointer[U], offsets: Pointer[np.int64], like: type[T], factor: float,
    log: bool, many: int, first: int, last: int,
) -> int:  # fmt: skip
    return 0


def test_a_declaration_tells_types_parameters_and_pieces() -> None:
    kernel(types=[("float32", "float64")], name="scale_two", fastmath={"nsz"})(scale)
    found = declared(__name__)["scale_two"]
    assert found.variables == ("T", "U")
    assert found.types == (("float32", "float64"),)
    assert found.ranged
    assert found.fastmath == {"nsz"}
    assert [(word.kind, word.element) for word in found.words()] == [
        *(("p", "T"), ("p", "U"), ("p", "int64"), ("d", ""), ("b", ""), ("q", "")),
    ]


def test_a_structure_is_its_fields_one_behind_another() -> None:
    def reduce(to: Pair[T], more: int) -> int:
        return 0

    kernel(types=["float32"])(reduce)
    found = declared(__name__)["reduce"]
    fields = (Parameter("to.x", "p", "T"), Parameter("to.size", "q"))
    assert found.parameters == (Group("to", Pair, fields), Parameter("more", "q"))
    assert [word.name for word in found.words()] == ["to.x", "to.size", "more"]
    assert not found.ranged


def test_a_kernel_that_takes_its_arguments_apart_itself_is_passed_none() -> None:
    def raw(arguments: Arguments, first: int, last: int) -> int:
        return 0

    kernel()(raw)
    assert not list(declared(__name__)["raw"].words())


def test_two_kernels_of_one_name_are_refused() -> None:
    def made(number: int) -> Callable[..., int]:
        if number:

            def twice(n: int) -> int:
                return 1

        else:

            def twice(n: int) -> int:
                return 0

        return twice

    kernel()(made(0))
    kernel()(made(0))  # the module was imported again
    with pytest.raises(TypeError, match="twice is declared already"):
        kernel()(made(1))


@pytest.mark.parametrize("kind", [str, list[int], Any, None])
def test_a_parameter_of_another_kind_is_refused(kind: Any) -> None:
    def odd(n: int) -> int:
        return 0

    odd.__annotations__["n"] = kind
    with pytest.raises(TypeError, match="parameter n: expected int, float, bool"):
        kernel(name=f"odd {kind}")(odd)


def test_types_have_to_be_as_many_as_type_variables() -> None:
    with pytest.raises(TypeError, match=r"one dtype for each of the type variables T, U"):
        kernel(types=["float32"], name="scale_one")(scale)
