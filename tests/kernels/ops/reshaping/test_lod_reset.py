"""lod_reset and lod_append: PaddlePaddle 2.6.2, and what does not fit."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, InvalidLoDError
from lodcli.kernels.index.forms import Form, in_form
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.reshaping.lod_reset import sequence_lod_append, sequence_lod_reset
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import golden, same
from tests.golden_data import GoldenCase, rejected_cases
from tests.strategies import tensors


@golden("lod_reset", 11)
def test_golden_lod_reset(case: GoldenCase) -> None:
    x = case.tensor("X")
    op = sequence_lod_append if case.attrs["append"] else sequence_lod_reset
    if "Y" in case.inputs:
        out = op(x, like=case.tensor("Y"))
    else:
        out = op(x, offsets=case.attrs["target_lod"])
    same(out, case.outputs["Out"])
    if case.grads:  # data in, data out: so the gradient
        np.testing.assert_array_equal(case.grads["X"].data, case.upstream["Out"].data)


@given(tensors(any_bits=True), tensors(any_bits=True))
def test_reset_moves_no_byte_and_copies_none(tensor: LoDTensor, other: LoDTensor) -> None:
    target = tensor.lod if tensor.lod.n_levels else LoD.from_lengths([[tensor.rows]])
    plain = LoDTensor(tensor.data)
    for out in (
        sequence_lod_reset(plain, lod=target),
        sequence_lod_reset(plain, lengths=target.recursive_sequence_lengths()),
        sequence_lod_reset(plain, like=LoDTensor(tensor.data, target)),
        sequence_lod_append(plain, lod=target),
    ):
        assert out.lod.same_levels(target)
        assert out.data.tobytes() == tensor.data.tobytes()
        assert not out.nbytes or np.shares_memory(out.data, tensor.data)
    if other.lod.n_levels and other.rows != tensor.rows:
        with pytest.raises(InvalidLoDError, match="must be the number of rows"):
            sequence_lod_reset(tensor, like=other)


@given(tensors(any_bits=True, max_levels=2), st.data())
def test_rows_become_items_of_the_appended_level(tensor: LoDTensor, data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(0, 20), min_size=tensor.rows, max_size=tensor.rows))
    lengths = [owners.count(item) for item in range(tensor.rows)]
    levels = tensor.recursive_sequence_lengths()
    if sum(lengths) != tensor.rows:
        with pytest.raises(InvalidLoDError, match="must be the number of rows"):
            sequence_lod_append(tensor, lengths=[lengths])
        return
    out = sequence_lod_append(tensor, lengths=[lengths])
    assert out.recursive_sequence_lengths() == [*levels, lengths]
    assert out.lod.names == (*tensor.lod.names, None)
    assert out.data.tobytes() == tensor.data.tobytes()


def test_append_with_a_tensor_appends_its_levels() -> None:
    case = rejected_cases("lod_reset")["reject065"]  # PaddlePaddle replaces
    out = sequence_lod_append(case.tensor("X"), like=case.tensor("Y"))
    assert out.recursive_sequence_lengths() == [[2, 4], [1] * 6]


def test_errors_name_the_rule() -> None:
    rows = LoDTensor(np.zeros(6), LoD.from_lengths([[2, 4]], ["sentence"]))
    with pytest.raises(
        InvalidDataError, match=r"one of lod, offsets, lengths, .*and drop_ones, found 0"
    ):
        sequence_lod_reset(rows)
    with pytest.raises(InvalidDataError, match="found 2"):
        sequence_lod_append(rows, lengths=[[6]], offsets=[0, 6])
    with pytest.raises(InvalidLoDError, match=r"items of level 1 .expected 3, found 6"):
        sequence_lod_append(rows, offsets=[0, 1, 2, 6])
    with pytest.raises(InvalidDataError, match="whole numbers, found float64"):
        sequence_lod_reset(rows, like=LoDTensor(np.array([0.0, 6.0])))
    assert sequence_lod_append(rows, lengths=[[1] * 6]).lod.names == ("sentence", None)


# -- the forms of PaddlePaddle's design documents --------------------------------------

SIX = LoDTensor(np.arange(6.0), LoD.from_lengths([[2, 1], [3, 1, 2]]))


def test_levels_counted_in_rows() -> None:
    plain = LoDTensor(SIX.data)
    for absolute in ([[0, 4, 6], [0, 3, 4, 6]], [[0, 4], [0, 3, 4]]):
        assert sequence_lod_reset(plain, absolute=absolute).lod == SIX.lod
        back = sequence_lod_reset(plain, absolute=absolute[::-1], order="fine-to-coarse")
        assert back.lod == SIX.lod
    assert sequence_lod_reset(plain, row_lengths=[[4, 2], [3, 1, 2]]).lod == SIX.lod
    turned = sequence_lod_reset(plain, lengths=[[3, 1, 2], [2, 1]], order="fine-to-coarse")
    assert turned.lod == SIX.lod


@given(tensors())
def test_every_form_that_is_shown_is_read(tensor: LoDTensor) -> None:
    lod = tensor.lod.with_names(None)
    for order in ("coarse-to-fine", "fine-to-coarse"):
        shown = {form: in_form(lod, form, order) for form in get_args(Form)}
        found = sequence_lod_reset(tensor, lengths=shown["lengths"], order=order)
        assert found.lod == lod
        for form, argument in (
            *(("absolute", "absolute"), ("starts", "absolute"), ("row-lengths", "row_lengths")),
        ):
            levels: Any = {argument: shown[form]}
            with suppress(InvalidLoDError):  # two ways to read it, and none is guessed
                found = sequence_lod_reset(tensor, order=order, **levels)
                assert found.lod.n_levels == lod.n_levels
                assert form == "starts" or not tensor.rows or found.lod == lod


def test_a_level_of_ones_is_dropped_when_asked() -> None:
    lod = LoD.from_lengths([[2, 1], [1, 1, 1], [3, 1, 2]], ["a", "b", "c"])
    tensor = LoDTensor(SIX.data, lod)
    assert lod.ones() == (1,)
    found = sequence_lod_reset(tensor, drop_ones=True)
    assert found.recursive_sequence_lengths() == [[2, 1], [3, 1, 2]]
    assert found.lod.names == ("a", "c")
    assert sequence_lod_reset(SIX, drop_ones=True).lod is SIX.lod
    assert LoD.from_lengths([[1, 1], [1, 1]]).without_ones().n_levels == 0
    assert LoD.from_lengths([[]]).ones() == ()  # of no items, nothing is known
