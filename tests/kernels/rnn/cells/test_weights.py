"""Weights with other arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.rnn.cells.weights import LayerWeights, Shapes, Sizes
from lodcli.kernels.rnn.stack.stack import seeded_weights


def drawn(cell: str, hidden: int = 4) -> LayerWeights:
    made = seeded_weights(cell, 3, hidden, rng=np.random.default_rng(0))
    return made.layers[0][0]


def sizes(one: LayerWeights) -> tuple[object, ...]:
    one.check()
    return one.hidden_size, one.input_size, one.output_size, one.state_sizes, one.operations


@pytest.mark.parametrize("cell", CELLS)
def test_weights_with_other_arrays_have_the_sizes_of_these(cell: str) -> None:
    narrow, wide = drawn(cell), drawn(cell, hidden=6)
    expected = sizes(drawn(cell)), sizes(wide)
    assert sizes(narrow.with_arrays(narrow.zeros_like().arrays())) == expected[0]
    assert sizes(narrow) == expected[0]
    again = narrow.with_arrays(narrow.zeros_like().arrays())
    assert sizes(again) == expected[0]
    assert not any(array.any() for array in again.arrays().values())
    assert sizes(narrow.with_arrays(wide.arrays())) == expected[1]


def test_options_are_those_of_the_other_weights() -> None:
    one = drawn("elman")
    relu = seeded_weights("elman", 3, 4, rng=np.random.default_rng(0)).with_options(
        nonlinearity="relu"
    )
    found = relu.layers[0][0].with_arrays(one.arrays())
    assert vars(found)["nonlinearity"] == "relu"


def test_weights_that_are_no_arrays_or_do_not_fit_are_refused() -> None:
    one = drawn("gru")
    sizes(one)
    with pytest.raises(InvalidDataError, match="GRUWeights: bias_ih: expected an array, found li"):
        one.with_arrays({"bias_ih": [1.0]})  # type: ignore[dict-item]
    with pytest.raises(InvalidDataError, match=r"GRUWeights: expected arrays of weight_ih, .* f"):
        one.with_arrays({"hidden_size": np.zeros(1)})
    with pytest.raises(InvalidDataError, match="with_arrays: arrays: expected a dict, found list"):
        one.with_arrays([np.zeros(1)])  # type: ignore[arg-type]
    short = one.with_arrays({"bias_ih": np.zeros(2)})
    with pytest.raises(ShapeMismatchError, match=r"bias_ih: expected shape \(12,\), found \(2,\)"):
        short.check()


@dataclass(frozen=True, eq=False, kw_only=True)
class WithoutRanks(LayerWeights):
    KIND: ClassVar[str] = "toy"

    matrix: Array

    @classmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        return {"matrix": (sizes.hidden, sizes.input)}

    def sizes(self) -> Sizes:
        hidden, width = self.matrix.shape
        return Sizes(width, hidden)


class WithRanks(WithoutRanks):
    RANKS: ClassVar[Mapping[str, int]] = MappingProxyType({"matrix": 2})


def test_a_kind_has_to_declare_the_ranks_of_its_arrays() -> None:
    WithRanks(matrix=np.ones((2, 3))).check()
    with pytest.raises(ShapeMismatchError, match=r"matrix: expected 2 dimensions, found shape"):
        WithRanks(matrix=np.ones(2)).check()
    with pytest.raises(TypeError, match=r"WithoutRanks .*RANKS"):
        WithoutRanks(matrix=np.ones((2, 3)))  # type: ignore[abstract]
