"""Weights by torch's names, there and back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.stack.state_dict import state_dict, weights_from_state_dict
from tests.oracles_rnn import Array


def entries(cell: str = "lstm", prefix: str = "", **shape: Any) -> dict[str, Array]:
    weights = seeded_weights(cell, 5, 3, rng=np.random.default_rng(0), **shape)
    return {prefix + name: array for name, array in state_dict(weights).items()}


def test_names_and_shapes_are_torchs() -> None:
    # As printed by torch.nn.LSTM(5, 3, num_layers=2, bidirectional=True, proj_size=2).
    found = entries(layers=2, bidirectional=True, projection_size=2)
    first = {
        "weight_ih_l0": (12, 5),
        "weight_hh_l0": (12, 2),
        "bias_ih_l0": (12,),
        "bias_hh_l0": (12,),
        "weight_hr_l0": (2, 3),
    }
    second = {name.replace("l0", "l1"): shape for name, shape in first.items()}
    second["weight_ih_l1"] = (12, 4)
    forward = first | second
    backward = {name + "_reverse": shape for name, shape in forward.items()}
    assert {name: array.shape for name, array in found.items()} == forward | backward


@pytest.mark.parametrize("prefix", ["", "rnn.", "encoder.lstm."])
@pytest.mark.parametrize(
    ("cell", "shape"),
    [
        ("elman", {"layers": 2}),
        ("gru", {"bidirectional": True}),
        ("gru_paddle", {"bias": False}),
        ("lstm", {"layers": 3, "bidirectional": True, "projection_size": 2, "peepholes": True}),
        ("lstm", {}),
    ],
)
def test_weights_come_back_as_they_went(cell: str, shape: dict[str, Any], prefix: str) -> None:
    given = entries(cell, prefix, **shape)
    weights = weights_from_state_dict(given, cell)
    assert weights.cell == cell
    assert len(weights.layers) == shape.get("layers", 1)
    assert weights.directions == 1 + shape.get("bidirectional", False)
    assert (weights.input_size, weights.hidden_size) == (5, 3)
    back = state_dict(weights)
    assert {prefix + name for name in back} == given.keys()
    assert all(back[name.removeprefix(prefix)] is array for name, array in given.items())


@pytest.mark.parametrize(
    ("cell", "projection_size"), [("elman", 0), ("gru", 0), ("lstm", 0), ("lstm", 2)]
)
def test_the_cell_is_read_off_the_shapes(cell: str, projection_size: int) -> None:
    found = entries(cell, projection_size=projection_size)
    assert weights_from_state_dict(found).cell == cell


def test_a_paddle_gru_looks_like_torchs_and_must_be_named() -> None:
    assert weights_from_state_dict(entries("gru_paddle")).cell == "gru"
    assert weights_from_state_dict(entries("gru_paddle"), "gru_paddle").cell == "gru_paddle"


def test_other_modules_are_left_alone_beside_a_prefix() -> None:
    others = {"embed.weight": np.ones((9, 5)), "rnn.norm.weight": np.ones(3), "bias": np.ones(1)}
    weights = weights_from_state_dict(entries(prefix="rnn.") | others)
    assert weights.cell == "lstm"


def test_other_modules_beside_bare_weights_need_the_empty_prefix() -> None:
    mixed = entries() | {"fc.weight": np.ones((1, 3))}
    with pytest.raises(InvalidDataError, match=r'fc\.weight is not a weight.* the prefix ""'):
        weights_from_state_dict(mixed)
    assert weights_from_state_dict(mixed, prefix="").hidden_size == 3


def test_several_rnns_are_listed_and_one_can_be_picked() -> None:
    both = entries(prefix="encoder.") | entries("gru", prefix="decoder.gru.")
    with pytest.raises(
        InvalidDataError, match=r"2 RNNs, under 'decoder\.gru', 'encoder'; write .* --prefix NAME"
    ):
        weights_from_state_dict(both)
    assert weights_from_state_dict(both, prefix="decoder.gru").cell == "gru"
    assert weights_from_state_dict(both, prefix="encoder.").cell == "lstm"
    with pytest.raises(InvalidDataError, match="under prefix 'x'; there are some under: 'decoder"):
        weights_from_state_dict(both, prefix="x")


@pytest.mark.parametrize("prefix", [None, "rnn"])
def test_an_unknown_weight_beside_the_known_ones_is_refused(prefix: str | None) -> None:
    found = entries(prefix="rnn.") | {"rnn.weight_hh_l0_raw": np.ones((12, 3))}
    with pytest.raises(InvalidDataError, match=r"rnn\.weight_hh_l0_raw is not a weight"):
        weights_from_state_dict(found, prefix=prefix)


@pytest.mark.parametrize("prefix", ["", "rnn."])
@pytest.mark.parametrize(
    "name", ["parametrizations.bias_hh_l0.original0", "weight_hh_l0_g", "weight_ih_l0_mask"]
)
def test_a_part_of_a_parametrized_weight_is_refused(name: str, prefix: str) -> None:
    found = entries(prefix=prefix) | {prefix + name: np.ones((12, 3))}
    del found[f"{prefix}bias_hh_l0"]
    with pytest.raises(InvalidDataError, match=f"{prefix}{name} is a part of a weight, .*; remove"):
        weights_from_state_dict(found)


@pytest.mark.parametrize(
    ("remove", "message"),
    [
        ("rnn.weight_hh_l0", "rnn.weight_hh_l0 is missing"),
        ("rnn.weight_ih_l1", "rnn.weight_ih_l1 is missing"),
        ("rnn.weight_hh_l1_reverse", "rnn.weight_hh_l1_reverse is missing"),
    ],
)
def test_a_missing_weight_is_named(remove: str, message: str) -> None:
    found = entries(prefix="rnn.", layers=3, bidirectional=True)
    del found[remove]
    with pytest.raises(InvalidDataError, match=message):
        weights_from_state_dict(found)


def test_a_gap_in_the_layers_is_named_at_once_however_wide() -> None:
    found = entries() | {"weight_ih_l999999999999": np.ones((12, 3))}
    with pytest.raises(InvalidDataError, match="weight_ih_l1 is missing"):
        weights_from_state_dict(found)


@pytest.mark.parametrize(
    ("changes", "cell", "error", "message"),
    [
        ({"weight_hh_l1": np.ones((12, 2))}, None, ShapeMismatchError, r"weight_hh_l1: expected s"),
        ({"weight_ih_l1": np.ones((12, 5))}, None, ShapeMismatchError, r"weight_ih_l1: expected s"),
        ({"weight_hh_l0": np.ones(12)}, None, ShapeMismatchError, "expected 2 dimensions"),
        ({"weight_hh_l0": np.ones((7, 3))}, None, ShapeMismatchError, r"3 \(elman\), 9 \(gru\), 9"),
        ({}, "gru", ShapeMismatchError, r"hidden size of 3: 9 \(gru\); found 12"),
        ({}, "qrnn", UnsupportedError, "expected one of elman, gru"),
    ],
)
def test_shapes_that_do_not_fit_are_named(
    changes: dict[str, Array], cell: str | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        weights_from_state_dict(entries(layers=2) | changes, cell)


def test_a_weight_that_the_cell_does_not_have_is_refused() -> None:
    found = entries("gru") | {"peepholes_l0": np.ones((3, 3))}
    with pytest.raises(InvalidDataError, match="a cell of kind gru has no peepholes"):
        weights_from_state_dict(found)


@pytest.mark.parametrize("found", [{}, {"fc.weight": np.ones(2)}, {"myweight_ih_l0": np.ones(2)}])
def test_a_state_dict_without_an_rnn_is_refused(found: dict[str, Array]) -> None:
    with pytest.raises(InvalidDataError, match="no RNN weights; expected names such as"):
        weights_from_state_dict(found)


def test_weights_for_projected_data_have_no_state_dict() -> None:
    weights: Any = weights_from_state_dict(entries("gru")).layers[0][0]
    projected = type(weights)(weight_ih=None, weight_hh=weights.weight_hh)
    with pytest.raises(InvalidDataError, match="weight_ih_l0: a state dict needs it"):
        state_dict(RNNWeights(((projected,),)))


def minimal(*names: str) -> dict[str, Array]:
    return dict.fromkeys(names, np.ones((4, 2)))


def test_one_layer_of_a_linear_cell_has_the_published_names_as_they_are() -> None:
    published = minimal("rnn.to_hidden_and_gate.weight") | {"rnn.norm.weight": np.ones(3)}
    found = weights_from_state_dict(published)
    assert (found.cell, found.hidden_size) == ("mingru", 2)
    assert list(state_dict(found)) == ["to_hidden_and_gate.weight"]
    made = seeded_weights("mingru", 3, 2, layers=2, rng=np.random.default_rng(0))
    assert list(state_dict(made)) == [f"to_hidden_and_gate.weight_l{layer}" for layer in (0, 1)]
    assert weights_from_state_dict(state_dict(made)).cell == "mingru"


def test_a_missing_array_of_a_linear_cell_is_named_as_its_module_has_it() -> None:
    with pytest.raises(InvalidDataError, match=r"rnn\.theta_log is missing"):
        weights_from_state_dict({"rnn.nu_log": np.ones(3)})


def test_a_name_with_and_without_its_layer_is_refused() -> None:
    twice = minimal("to_hidden_and_gate.weight", "to_hidden_and_gate.weight_l0")
    with pytest.raises(InvalidDataError, match="appears twice, with _l0 and without"):
        weights_from_state_dict(twice)


@pytest.mark.parametrize("prefix", ["", "decoder.cells.0."])
@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
def test_the_cells_of_torch_have_no_layer_in_their_names(cell: str, prefix: str) -> None:
    layer = entries(cell)
    found = weights_from_state_dict(
        {prefix + name.removesuffix("_l0"): array for name, array in layer.items()}
    )
    assert found.cell == cell
    assert state_dict(found).keys() == layer.keys()
    assert all(state_dict(found)[name] is array for name, array in layer.items())


def test_a_cell_with_a_norm_is_not_read_as_one_without() -> None:
    cell = {f"cell.{name.removesuffix('_l0')}": array for name, array in entries().items()}
    with pytest.raises(InvalidDataError, match=r"cell\.norm\.weight is in the same module as cell"):
        weights_from_state_dict(cell | {"cell.norm.weight": np.ones(12)}, prefix="cell")
    assert weights_from_state_dict(cell | {"out.weight": np.ones((1, 3))}).cell == "lstm"


@pytest.mark.parametrize("prefix", ["", "encoder."])
def test_paddles_layers_list_their_arrays_twice(prefix: str) -> None:
    # The names of paddle.nn.LSTM(.., num_layers=2, direction="bidirect").state_dict().
    layers = entries(prefix=prefix, layers=2, bidirectional=True)
    twice = dict(layers)
    for name, array in layers.items():
        kind, layer = name.removeprefix(prefix).split("_l")
        direction = "bw" if layer.endswith("_reverse") else "fw"
        twice[f"{prefix}{layer[0]}.cell_{direction}.{kind}"] = array
    assert len(twice) == 2 * len(layers)
    assert (
        state_dict(weights_from_state_dict(twice)).keys()
        == entries(layers=2, bidirectional=True).keys()
    )


def test_a_recurrent_gemma_of_transformers_is_an_rglru() -> None:
    theirs = {  # transformers/models/recurrent_gemma/convert_recurrent_gemma_to_hf.py
        "a_param": "recurrent_param",
        "input_gate.w": "input_gate_weight",
        "input_gate.b": "input_gate_bias",
        "a_gate.w": "recurrent_gate_weight",
        "a_gate.b": "recurrent_gate_bias",
    }
    rng = np.random.default_rng(0)
    ours = state_dict(seeded_weights("rglru", 6, 6, heads=2, rng=rng))
    prefix = "model.layers.0.temporal_block.rg_lru."
    found = weights_from_state_dict({prefix + theirs[name]: ours[name] for name in theirs})
    assert found.cell == "rglru"
    assert all(state_dict(found)[name] is ours[name] for name in theirs)


def test_an_array_of_another_module_called_as_one_of_a_linear_cell_is_left_alone() -> None:
    found = weights_from_state_dict(entries("gru") | {"to_out.weight": np.ones((2, 9))}, prefix="")
    assert found.cell == "gru"
    with pytest.raises(InvalidDataError, match="no RNN weights"):
        weights_from_state_dict({"attention.to_out.weight": np.ones((2, 9))})


@pytest.mark.parametrize("cell", CELLS)
def test_an_entry_of_another_rank_or_none_is_named(cell: str) -> None:
    entries = state_dict(seeded_weights(cell, 3, 4, rng=np.random.default_rng(0)))
    for name, array in entries.items():
        for other in (np.float32(1), array[None], None, array.tolist()):
            with pytest.raises(InvalidDataError, match=re.escape(name)):
                weights_from_state_dict({**entries, name: other})  # type: ignore[dict-item]


def test_tensors_of_torch_are_weights() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.LSTM(3, 4, bidirectional=True)
    found = state_dict(weights_from_state_dict(module.state_dict()))["weight_hh_l0_reverse"]
    np.testing.assert_array_equal(found, module.weight_hh_l0_reverse.detach().numpy())
