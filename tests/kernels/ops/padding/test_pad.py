"""Padding against PaddlePaddle 2.6.2, plain loops, and by hand, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, OptionError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.padding.pad import (
    sequence_mask,
    sequence_pad,
    sequence_pad_grad,
    sequence_unpad,
    sequence_unpad_grad,
)
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import BACKENDS, golden, golden_rejects, on_every_backend
from tests.golden_data import GoldenCase, tensor_of
from tests.oracles_ops import pieces_of
from tests.strategies import tensors


@on_every_backend
@golden("sequence_pad")
def test_golden_pad(case: GoldenCase, backend: Backend) -> None:
    x, maxlen = case.tensor("X"), case.attrs["padded_length"]
    pad = case.inputs["PadValue"].data
    padded, lengths = sequence_pad(x, pad_value=pad, maxlen=maxlen, backend=backend)
    assert padded.dtype == case.outputs["Out"].data.dtype
    np.testing.assert_array_equal(padded, case.outputs["Out"].data)
    np.testing.assert_array_equal(lengths, case.outputs["Length"].data)
    if case.upstream:
        gradient = sequence_pad_grad(case.upstream["Out"].data, x)
        np.testing.assert_array_equal(gradient.data, case.grads["X"].data)


@on_every_backend
@golden("sequence_unpad")
def test_golden_unpad(case: GoldenCase, backend: Backend) -> None:
    x, out = case.inputs["X"].data, case.outputs["Out"]
    found = sequence_unpad(x, case.inputs["Length"].data, backend=backend)
    assert found.lod == LoD(out.lod)
    # Paddle makes rows of one value (rows, 1); ours keep the rank: (rows,).
    np.testing.assert_array_equal(found.data.reshape(out.data.shape), out.data)
    if case.upstream:
        upstream = case.upstream["Out"].data.reshape(found.data.shape)
        gradient = sequence_unpad_grad(upstream, x, case.inputs["Length"].data)
        np.testing.assert_array_equal(gradient, case.grads["X"].data)


@golden("sequence_mask")
def test_golden_mask(case: GoldenCase) -> None:
    given_length = case.array("MaxLenTensor")
    maxlen = case.attrs["maxlen"] if given_length is None else int(given_length[0])
    found = sequence_mask(case.inputs["X"].data, maxlen=maxlen, dtype=case.attrs["out_dtype"])
    expected = case.outputs["Y"].data
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@golden_rejects("sequence_pad", "sequence_unpad", "sequence_mask")
def test_golden_rejects(case: GoldenCase) -> None:
    x = case.inputs["X"]
    refused = (
        pytest.raises((SelectionError, ShapeMismatchError, InvalidDataError), match=case.op)
        if case.note == "reject"
        else None
    )
    if case.op == "sequence_mask":
        assert refused
        with refused:
            sequence_mask(x.data, maxlen=case.attrs["maxlen"])
    elif case.op == "sequence_unpad":
        lengths = case.inputs["Length"].data
        if refused:
            with refused:
                sequence_unpad(x.data, lengths)
        else:
            assert sequence_unpad(x.data, lengths).lod == LoD([[0, 0, 0, 0]])
    else:
        maxlen, pad = case.attrs["padded_length"], case.inputs["PadValue"].data
        if refused:
            with refused:
                sequence_pad(tensor_of(x), pad_value=pad, maxlen=maxlen)
        else:
            for backend in BACKENDS:
                padded, _ = sequence_pad(
                    tensor_of(x), pad_value=pad, maxlen=maxlen, backend=backend
                )
                lengths = np.diff(x.lod[0])
                steps = max(maxlen, int(lengths.max()))
                assert padded.shape == (lengths.size, steps, *x.data.shape[1:])
                if not x.data.size:
                    assert (padded == pad).all()


@on_every_backend
def test_a_box_in_another_byte_order_is_unpadded_into_an_array(backend: Backend) -> None:
    box, out = np.array([[1, 2], [3, 4]], np.dtype(np.int32).newbyteorder()), np.empty(3, np.int32)
    found = sequence_unpad(box, [2, 1], out=out, backend=backend)
    assert found.dtype == np.int32
    assert out.tolist() == [1, 2, 3]


@on_every_backend
def test_a_box_is_rounded_up_and_long_sequences_are_cut_on_request(backend: Backend) -> None:
    words = LoDTensor(np.array([1, 2, 3, 4]), [[3, 0, 1]])
    padded, lengths = sequence_pad(words, pad_value=9, pad_to_multiple=4, backend=backend)
    assert padded.tolist() == [[1, 2, 3, 9], [9, 9, 9, 9], [4, 9, 9, 9]]
    padded, lengths = sequence_pad(words, maxlen=2, truncate=True, backend=backend)
    assert padded.tolist() == [[1, 2], [0, 0], [4, 0]]
    assert lengths.tolist() == [2, 0, 1]
    assert sequence_pad_grad(padded, words).data.tolist() == [1, 2, 0, 4]
    with pytest.raises(ShapeMismatchError, match="sequence 0 has 3 rows, more than maxlen 2"):
        sequence_pad(words, maxlen=2)
    with pytest.raises(InvalidDataError, match="found -2 and 1"):
        sequence_pad(words, maxlen=-2)
    with pytest.raises(InvalidDataError, match="integers, found float64"):
        sequence_mask([0.5])
    for counts, maxlen in (np.array([1, 2]), 2**63), (np.array([2**63 + 5], np.uint64), -1):
        with pytest.raises(OptionError, match="no array holds 9223372036854775"):
            sequence_mask(counts, maxlen=maxlen)


@settings(deadline=None)
@given(tensors(min_levels=1, max_levels=1, any_bits=True), st.integers(0, 2))
def test_padding_is_that_of_plain_loops_and_undone(tensor: LoDTensor, more: int) -> None:
    lengths = tensor.recursive_sequence_lengths()[0]
    steps = max(lengths, default=0) + more
    expected = np.ones((len(lengths), steps, *tensor.row_shape), tensor.dtype)
    for s, rows in enumerate(pieces_of(list(range(tensor.rows)), lengths)):
        for t, row in enumerate(rows):
            expected[s, t] = tensor.data[row]
    for backend in BACKENDS:
        padded, found = sequence_pad(tensor, pad_value=1, maxlen=steps, backend=backend)
        assert padded.tobytes() == expected.tobytes()
        assert found.tolist() == lengths
        back = sequence_unpad(padded, found, backend=backend)
        assert back.with_data(back.data).data.tobytes() == tensor.data.tobytes()
        assert back.lod.same_levels(tensor.lod)
