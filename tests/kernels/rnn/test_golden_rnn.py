"""lstm, gru, fusion_lstm, fusion_gru and attention_lstm as PaddlePaddle 2.6.2 computed them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.rnn.engine.engine import RNNResult, States, rnn_backward, rnn_forward
from lodcli.kernels.rnn.loops.attention_lstm import AttentionLSTMWeights, attention_lstm
from lodcli.kernels.rnn.stack.paddle_layout import (
    gru_from_paddle,
    gru_to_paddle,
    lstm_blocks_from_paddle,
    lstm_blocks_to_paddle,
    lstm_from_paddle,
    lstm_to_paddle,
)
from lodcli.kernels.runtime.dispatch import Backend
from tests.golden_data import Array, GoldenCase, golden_cases, is_another_set
from tests.oracles_rnn import close

# Relative to 1+|x|, as the golden data were checked when they were made. Sums of float32
# products come in another order here than in Paddle's gradients.
FORWARD = {np.dtype(np.float32): 4e-6, np.dtype(np.float64): 1e-12}
GRADIENT = {np.dtype(np.float32): 3e-6, np.dtype(np.float64): 1e-12}

LSTM_CASES = golden_cases("lstm")
GRU_CASES = golden_cases("gru")
FUSION_CASES = golden_cases("fusion_lstm", "fusion_gru")
ATTENTION_CASES = golden_cases("attention_lstm")


def by_id(cases: list[GoldenCase]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[f"{c.op}-{c.id}" for c in cases])


def activations(case: GoldenCase) -> dict[str, Any]:
    return {name: value for name, value in case.attrs.items() if name.endswith("activation")}


def run(
    case: GoldenCase, weights: Any, data: Array, *, keep: bool = False, backend: Backend = "numpy"
) -> RNNResult[Any]:
    slot = case.inputs["Input" if "Input" in case.inputs else "X"]
    return rnn_forward(
        data,
        np.array(slot.lod[0]),
        weights,
        initial=States(hidden=case.array("H0"), cell=case.array("C0")),
        reverse=case.attrs["is_reverse"],
        keep=keep,
        backend=backend,
    )


def check_outputs(case: GoldenCase, result: RNNResult[Any]) -> None:
    tolerance = FORWARD[result.outputs.dtype]
    assert result.outputs.dtype == case.outputs["Hidden"].data.dtype
    close(result.outputs, case.outputs["Hidden"].data, tolerance, "Hidden")
    if "Cell" in case.outputs:
        close(result.cells, case.outputs["Cell"].data, tolerance, "Cell")


def check_gradients(case: GoldenCase, found: dict[str, Array | None]) -> None:
    assert case.grads.keys() <= found.keys()
    for name, slot in case.grads.items():
        close(found[name], slot.data, GRADIENT[slot.data.dtype], f"gradient of {name}")


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@by_id(LSTM_CASES)
def test_lstm_agrees_with_paddle(case: GoldenCase, backend: Backend) -> None:
    data = lstm_blocks_from_paddle(case.inputs["Input"].data)
    weights = lstm_from_paddle(
        case.inputs["Weight"].data,
        case.inputs["Bias"].data,
        case.attrs["use_peepholes"],
        **activations(case),
    )
    if backend == "numba" and not weights.is_plain:
        with pytest.raises(UnsupportedError):
            run(case, weights, data, backend=backend)
        return
    result = run(case, weights, data, keep=True, backend=backend)
    check_outputs(case, result)
    if case.grads:
        assert result.tape is not None
        gradients = rnn_backward(result.tape, grad_outputs=case.upstream["Hidden"].data)
        weight, bias = lstm_to_paddle(gradients.weights)
        found = {
            "Input": lstm_blocks_to_paddle(gradients.input),
            "Weight": weight,
            "Bias": bias,
            "H0": gradients.initial_hidden,
            "C0": gradients.initial_cell,
        }
        check_gradients(case, found)


@by_id(GRU_CASES)
def test_gru_agrees_with_paddle(case: GoldenCase) -> None:
    weights = gru_from_paddle(
        case.inputs["Weight"].data,
        case.array("Bias"),
        origin_mode=case.attrs["origin_mode"],
        **activations(case),
    )
    result = run(case, weights, case.inputs["Input"].data, keep=True)
    check_outputs(case, result)
    if case.grads:
        assert result.tape is not None
        gradients = rnn_backward(result.tape, grad_outputs=case.upstream["Hidden"].data)
        weight, bias = gru_to_paddle(gradients.weights)
        found = {"Input": gradients.input, "Weight": weight, "Bias": bias}
        check_gradients(case, found | {"H0": gradients.initial_hidden})


@pytest.mark.parametrize("backend", ["numpy", "auto"])
@by_id(FUSION_CASES)
def test_fusion_ops_agree_with_paddle(case: GoldenCase, backend: Backend) -> None:
    weight_x, weight_h = case.inputs["WeightX"].data, case.inputs["WeightH"].data
    weights: Any
    if case.op == "fusion_lstm":
        weights = lstm_from_paddle(
            weight_h, case.array("Bias"), case.attrs["use_peepholes"], weight_x=weight_x
        )
    else:
        weights = gru_from_paddle(weight_h, case.array("Bias"), weight_x=weight_x)
    plain = "numba" if backend == "auto" and weights.is_plain else backend
    check_outputs(case, run(case, weights, case.inputs["X"].data, backend=plain))


@by_id(ATTENTION_CASES)
def test_attention_lstm_agrees_with_paddle(case: GoldenCase) -> None:
    weights = AttentionLSTMWeights(
        attention_weight=case.inputs["AttentionWeight"].data,
        lstm_weight=case.inputs["LSTMWeight"].data,
        lstm_bias=case.inputs["LSTMBias"].data,
        attention_bias=case.array("AttentionBias"),
        attention_scalar=case.array("AttentionScalar"),
        attention_scalar_bias=case.array("AttentionScalarBias"),
        **activations(case),
    )
    result = attention_lstm(
        case.inputs["X"].data,
        np.array(case.inputs["X"].lod[0]),
        weights,
        initial_cell=case.inputs["C0"].data,
        initial_hidden=case.array("H0"),
    )
    tolerance = FORWARD[result.outputs.dtype]
    close(result.outputs, case.outputs["Hidden"].data, tolerance, "Hidden")
    close(result.cells, case.outputs["Cell"].data, tolerance, "Cell")


@pytest.mark.skipif(is_another_set(), reason="LOD_GOLDEN names another set")
def test_all_golden_cases_are_there() -> None:
    counts = [len(cases) for cases in (LSTM_CASES, GRU_CASES, FUSION_CASES, ATTENTION_CASES)]
    assert counts == [24, 21, 8, 6]
    assert sum(bool(case.grads) for case in LSTM_CASES + GRU_CASES) == 42
