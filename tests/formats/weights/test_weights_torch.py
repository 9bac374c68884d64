"""Weights in .pt files: beside other content of a checkpoint, and files that hold none."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.weights import read_weights
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.rnn.stack.state_dict import weights_from_state_dict
from tests.formats.cases.writing import saved

torch = pytest.importorskip("torch")


def test_weights_are_read_beside_objects_of_other_classes(tmp_path: Path) -> None:
    state = torch.nn.GRU(2, 3).state_dict()
    others = {"args": argparse.Namespace(lr=1), "path": Path("x"), "eye": torch.eye(2).to_sparse()}
    found = weights_from_state_dict(read_weights(saved(tmp_path, {"model": state, **others})))
    assert (found.cell, found.input_size, found.hidden_size) == ("gru", 2, 3)


@pytest.mark.parametrize("key", [0.5, None, True, (1, 2), torch.float32, b"best"])
def test_weights_are_read_beside_dicts_with_other_keys_than_names(tmp_path: Path, key: Any) -> None:
    state = torch.nn.GRU(2, 3).state_dict()
    path = saved(tmp_path, {"history": {key: torch.ones(2), "x": 1}, "model": state})
    assert set(read_weights(path)) == {f"model.{name}" for name in state}


def test_a_weight_of_an_unsupported_class_is_refused(tmp_path: Path) -> None:
    state = torch.nn.LSTM(2, 3).state_dict()
    state["weight_hh_l0"] = state["weight_hh_l0"].to_sparse()
    refers = r"model\.weight_hh_l0: refers to torch\._utils\._rebuild_sparse_tensor"
    with pytest.raises(UnsupportedError, match=refers):
        read_weights(saved(tmp_path, {"model": state}))


MODULE = r"torch\.nn\.modules\.rnn\.LSTM; only tensors, lists, tuples and dicts are read"
NONE: list[tuple[Any, type[LodError], str]] = [
    (torch.nn.LSTM(2, 3), UnsupportedError, rf"refers to {MODULE}"),
    (
        {"model": torch.nn.LSTM(2, 3)},
        UnsupportedError,
        rf"no RNN weights, and model: refers to {MODULE}",
    ),
    (torch.zeros(2), NotThisFormatError, "holds a tensor, expected a state dict"),
]


@pytest.mark.parametrize(("value", "error", "message"), NONE)
def test_files_without_a_state_dict_are_reported(
    tmp_path: Path, value: Any, error: type[LodError], message: str
) -> None:
    remedy = r"; save weights with torch\.save\(module\.state_dict\(\), 'weights\.pt'\)"
    with pytest.raises(error, match=message + remedy):
        read_weights(saved(tmp_path, value))
