"""Input that PaddlePaddle refuses, or should: refused here too, on every backend, by a LodError.

What should become of the borderline ones, which need not be refused, stands in the tests of
their ops.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.conv.conv import sequence_conv, sequence_row_conv
from lodcli.kernels.ops.ids.edit_distance import sequence_ctc_align, sequence_edit_distance
from lodcli.kernels.ops.ids.ids import sequence_enumerate, sequence_erase
from lodcli.kernels.ops.joining.concat import sequence_concat
from lodcli.kernels.ops.joining.expand import sequence_expand, sequence_expand_as
from lodcli.kernels.ops.padding.pad import sequence_mask, sequence_pad, sequence_unpad
from lodcli.kernels.ops.pooling import pool
from lodcli.kernels.ops.reshaping.lod_reset import sequence_lod_append, sequence_lod_reset
from lodcli.kernels.ops.reshaping.reshape import sequence_reshape
from lodcli.kernels.ops.scatter.scatter import sequence_scatter
from lodcli.kernels.ops.slicing.reverse import sequence_reverse
from lodcli.kernels.ops.slicing.slice import sequence_slice
from lodcli.kernels.ops.softmax.softmax import sequence_softmax
from lodcli.kernels.rnn.stack.paddle_layout import (
    gru_from_paddle,
    lstm_blocks_from_paddle,
    lstm_from_paddle,
)
from lodcli.kernels.rnn.stack.run import run_rnn
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.golden_data import golden_dir

POOLS: dict[str, Callable[..., object]] = {
    "SUM": pool.sequence_sum,
    "AVERAGE": pool.sequence_mean,
    "SQRT": pool.sequence_sqrt,
    "MAX": pool.sequence_max_index,
    "FIRST": pool.sequence_first,
    "LAST": pool.sequence_last,
}


class Given:
    """The input of a case: tensors by slot, attributes, the backend."""

    def __init__(self, case: dict[str, Any], backend: Backend) -> None:
        with np.load(golden_dir() / case["file"], allow_pickle=False) as arrays:
            self.slots = {
                name: [(arrays[one["array"]], one["lod"]) for one in _listed(slot)]
                for name, slot in case["inputs"].items()
            }
        self.attrs: dict[str, Any] = case["attrs"]
        self.backend = backend

    def tensors(self, slot: str) -> list[LoDTensor]:
        return [LoDTensor(data, LoD(lod)) for data, lod in self.slots[slot]]

    def tensor(self, slot: str = "X") -> LoDTensor:
        return self.tensors(slot)[0]

    def array(self, slot: str) -> Any:
        """Return the data of a slot, None where it is not given."""
        return self.slots[slot][0][0] if slot in self.slots else None


def _listed(slot: Any) -> list[Any]:
    return slot if isinstance(slot, list) else [slot]


def _conv(given: Given) -> object:
    attrs = given.attrs
    # Paddle has an argument for a stride, but supports only 1; lod computes any.
    return sequence_conv(
        given.tensor(),
        given.array("Filter"),
        context_length=attrs["contextLength"],
        context_start=attrs["contextStart"],
        stride=attrs["contextStride"],
        padding=given.array("PaddingData"),
        backend=given.backend,
    )


def _lod_reset(given: Given) -> object:
    op: Any = sequence_lod_append if given.attrs.get("append") else sequence_lod_reset
    if "Y" in given.slots:
        return op(given.tensor(), like=given.tensor("Y"))
    return op(given.tensor(), offsets=given.attrs["target_lod"])


def _lstm(given: Given) -> object:
    weights = lstm_from_paddle(
        given.array("Weight"), given.array("Bias"), given.attrs["use_peepholes"]
    )
    rows = given.tensor("Input")
    data = rows.with_data(lstm_blocks_from_paddle(rows.data))
    return _rnn(data, weights, hidden=given.array("H0"), cell=given.array("C0"))


def _rnn(data: LoDTensor, weights: Any, *, hidden: Any, cell: Any) -> object:
    layers = RNNWeights(((weights,),))
    return run_rnn(data, layers, initial_hidden=hidden, initial_cell=cell)


def _gru(given: Given) -> object:
    weights = gru_from_paddle(given.array("Weight"), given.array("Bias"))
    return _rnn(given.tensor("Input"), weights, hidden=given.array("H0"), cell=None)


RUN: dict[str, Callable[[Given], object]] = {
    "sequence_pool": lambda g: POOLS[g.attrs["pooltype"].upper()](
        g.tensor(), pad_value=g.attrs["pad_value"], backend=g.backend
    ),
    "sequence_softmax": lambda g: sequence_softmax(g.tensor(), backend=g.backend),
    "sequence_expand": lambda g: sequence_expand(
        g.tensor(), g.tensor("Y"), ref_level=g.attrs["ref_level"], backend=g.backend
    ),
    "sequence_expand_as": lambda g: sequence_expand_as(
        g.tensor(), g.tensor("Y"), backend=g.backend
    ),
    "sequence_concat": lambda g: sequence_concat(g.tensors("X"), backend=g.backend),
    "sequence_conv": _conv,
    "row_conv": lambda g: sequence_row_conv(g.tensor(), g.array("Filter"), backend=g.backend),
    "sequence_reshape": lambda g: sequence_reshape(g.tensor(), g.attrs["new_dim"]),
    "sequence_slice": lambda g: sequence_slice(
        g.tensor(), g.array("Offset"), g.array("Length"), backend=g.backend
    ),
    "sequence_erase": lambda g: sequence_erase(g.tensor(), g.attrs["tokens"], backend=g.backend),
    "sequence_enumerate": lambda g: sequence_enumerate(
        g.tensor(), g.attrs["win_size"], pad_value=g.attrs["pad_value"], backend=g.backend
    ),
    "sequence_mask": lambda g: sequence_mask(g.array("X"), maxlen=g.attrs["maxlen"]),
    "sequence_pad": lambda g: sequence_pad(
        g.tensor(),
        pad_value=g.array("PadValue"),
        maxlen=g.attrs["padded_length"],
        backend=g.backend,
    ),
    "sequence_unpad": lambda g: sequence_unpad(g.array("X"), g.array("Length"), backend=g.backend),
    "sequence_reverse": lambda g: sequence_reverse(g.tensor(), backend=g.backend),
    "sequence_scatter": lambda g: sequence_scatter(
        g.tensor(), g.tensor("Ids"), g.tensor("Updates"), backend=g.backend
    ),
    "lod_reset": _lod_reset,
    "edit_distance": lambda g: sequence_edit_distance(
        g.tensor("Hyps"), g.tensor("Refs"), normalized=g.attrs["normalized"], backend=g.backend
    ),
    "ctc_align": lambda g: sequence_ctc_align(
        g.tensor("Input"),
        blank=g.attrs["blank"],
        merge_repeated=g.attrs["merge_repeated"],
        backend=g.backend,
    ),
    "lstm": _lstm,
    "gru": _gru,
}


# An argument of ours; an RNN over the finest of several levels; a missing state, zeros.
TAKEN = {("sequence_conv", "stride 2"), ("lstm", "two levels"), ("lstm", "H0 without C0")}
CASES: list[dict[str, Any]] = json.loads((golden_dir() / "rejects.json").read_text())["cases"]
REFUSED = [case for case in CASES if case["should"] == "reject"]


def test_every_op_that_should_refuse_is_run() -> None:
    assert {case["op"] for case in CASES} <= RUN.keys()
    assert REFUSED


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case['id']} {case['why']}")
def test_invalid_cases_of_paddle_are_refused(case: dict[str, Any], backend: Backend) -> None:
    if (case["op"], case["why"]) in TAKEN:
        RUN[case["op"]](Given(case, backend))
        return
    with pytest.raises(LodError) as caught:
        RUN[case["op"]](Given(case, backend))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["should"] != "reject"],
    ids=lambda case: f"{case['id']} {case['why']}",
)
def test_the_borderline_either_works_or_is_refused(case: dict[str, Any], backend: Backend) -> None:
    try:
        found = RUN[case["op"]](Given(case, backend))
    except LodError:
        # Only what may be refused is.
        assert case["should"] == "either" or "reject" in case["should"]
    else:
        assert found is not None
