"""Weights of nested RNNs by torch's names, with one prefix for each level.

    article.weight_ih_l0  ..      the RNN over articles
    sentence.weight_ih_l0  ..     the RNN over sentences
    sentence_boot.weight  sentence_boot.bias     its boot, a Linear

They are those of a torch module with `article = nn.GRU(..)`, `sentence = nn.GRU(..)` and
`sentence_boot = nn.Linear(..)`. A boot without weight and bias passes the state unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lodcli.kernels.errors import OptionError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.nested.backward import LevelGradients
from lodcli.kernels.rnn.nested.initial_states import Boot, boot_shape
from lodcli.kernels.rnn.nested.nested import NestedLevel, NestedRNN
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.stack.state_dict import require_shape, state_dict, weights_from_state_dict
from lodcli.kernels.runtime.argument_types import types_explained


@dataclass(frozen=True)
class LevelShape:
    """Description of one RNN of a chain.

    Attributes:
        level: the level of its sequences, by number or name.
        prefix: of its weights' names, without the dot.
        cell: the kind of cell; None: inferred from weights.
        hidden: H; None: inferred from weights.
        layers: number of layers; None: inferred from weights, or 1 without weights.
        bidirectional: both directions; with weights, False means inferred.
        reverse: run from the last item to the first.
        boot: its sequences start from the state of the RNN above.
    """

    level: int | str
    prefix: str
    cell: str | None = None
    hidden: int | None = None
    layers: int | None = None
    bidirectional: bool = False
    reverse: bool = False
    boot: bool = False


@types_explained
def seeded_nested(
    shapes: Sequence[LevelShape], input_size: int, *, rng: np.random.Generator
) -> NestedRNN:
    """Return a chain with random float32 weights, initialised as in torch.

    A boot whose two widths are equal passes the state unchanged, else it is a random Linear.

    Args:
        shapes: outermost first; each with a cell and a hidden size.
        input_size: D, of a row.
        rng: the generator of the random numbers.

    Raises:
        OptionError: a shape has no cell or hidden size, or the RNNs do not match.

    >>> shapes = [LevelShape(0, "a", "gru", 5), LevelShape(1, "s", "gru", 3, boot=True)]
    >>> made = seeded_nested(shapes, 4, rng=np.random.default_rng(0))
    >>> made.levels[0].weights.input_size, made.levels[1].boot.weight.shape
    (3, (3, 5))
    """
    weights: list[RNNWeights] = []
    width = input_size
    for shape in reversed(shapes):
        if shape.cell is None or shape.hidden is None:
            raise OptionError(f"nested, {shape.prefix}: needs a cell and a hidden size")
        made = seeded_weights(
            shape.cell,
            width,
            shape.hidden,
            layers=shape.layers or 1,
            bidirectional=shape.bidirectional,
            rng=rng,
        )
        weights.insert(0, made)
        width = made.output_size
    boots = [
        _seeded_boot(outer, inner, rng) if shape.boot else None
        for shape, outer, inner in zip(shapes, weights[:1] + weights, weights, strict=False)
    ]
    return _chained(shapes, weights, boots)


def _seeded_boot(outer: RNNWeights, inner: RNNWeights, rng: np.random.Generator) -> Boot:
    rows, width = boot_shape(outer, inner)
    if inner.layers[0][0].output_size == width:
        return Boot()
    bound = 1 / math.sqrt(width)
    return Boot(
        rng.uniform(-bound, bound, (rows, width)).astype(np.float32),
        rng.uniform(-bound, bound, rows).astype(np.float32),
    )


@types_explained
def nested_from_state_dict(entries: Mapping[str, Array], shapes: Sequence[LevelShape]) -> NestedRNN:
    """Return the chain found in a state dict.

    Args:
        entries: arrays by name; those with none of the prefixes are ignored.
        shapes: outermost first. Layers, directions, sizes and, as far as possible, the cell
            are inferred from the arrays; they must agree with the shapes.

    Raises:
        OptionError: a shape contradicts the arrays, or there is a boot that no shape has.
        InvalidDataError: an array is missing.
        ShapeMismatchError: the shapes of arrays do not match.
    """
    weights, boots = [], []
    for shape in shapes:
        one = weights_from_state_dict(entries, shape.cell, prefix=shape.prefix)
        require_shape(
            one, hidden=shape.hidden, layers=shape.layers, bidirectional=shape.bidirectional
        )
        weights.append(one)
        named = {name: entries.get(f"{shape.prefix}_boot.{name}") for name in ("weight", "bias")}
        found = {name: array for name, array in named.items() if array is not None}
        if found and not shape.boot:
            raise OptionError(
                f"state dict: has {shape.prefix}_boot.{next(iter(found))}, but "
                f"{shape.prefix} does not boot"
            )
        boots.append(Boot(**found) if shape.boot else None)
    return _chained(shapes, weights, boots)


def _chained(
    shapes: Sequence[LevelShape], weights: Sequence[RNNWeights], boots: Sequence[Boot | None]
) -> NestedRNN:
    return NestedRNN(
        tuple(
            NestedLevel(shape.level, one, boot, reverse=shape.reverse)
            for shape, one, boot in zip(shapes, weights, boots, strict=True)
        )
    )


@types_explained
def nested_state_dict(
    levels: Sequence[NestedLevel | LevelGradients], prefixes: Sequence[str]
) -> dict[str, Array]:
    """Return the arrays of a chain, or of its gradients, by name.

    Args:
        levels: outermost first.
        prefixes: one each.

    Raises:
        OptionError: the numbers of prefixes and levels differ.
    """
    if len(prefixes) != len(levels):
        raise OptionError(f"prefixes: expected one for each of {len(levels)}, found {prefixes!r}")
    entries: dict[str, Array] = {}
    for level, prefix in zip(levels, prefixes, strict=True):
        named = state_dict(level.weights).items()
        entries |= {f"{prefix}.{name}": array for name, array in named}
        if level.boot is not None:
            arrays = level.boot.arrays().items()
            entries |= {f"{prefix}_boot.{name}": array for name, array in arrays}
    return entries
