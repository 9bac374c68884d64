"""Recurrent layers of a model file, joined to RNNs of several layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lodcli.formats.weights.common import Said, prefixes
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.stack.state_dict import StateDict


@dataclass(frozen=True)
class Layer:
    """One recurrent layer.

    Attributes:
        path: of its weights, or of its output, in the file; unique. "" if nothing takes its output.
        said: the cell and its options.
        directions: arrays by torch's names, forward and then backward.
        after: path of the recurrent layer whose output is its input; None for another input.
        starts_from: the layer that computes its initial states, if there is one.
        refused: why it is not supported; then it has no directions.
    """

    path: str
    name: str
    said: Said
    directions: list[dict[str, Array]]
    after: str | None
    starts_from: str | None = None
    refused: UnsupportedError | None = None

    @property
    def sizes(self) -> list[int]:
        """H of each direction."""
        return [int(arrays["weight_hh"].shape[1]) for arrays in self.directions]

    @property
    def input_size(self) -> int:
        """D."""
        return int(self.directions[0]["weight_ih"].shape[1])


def stacked(layers: Sequence[Layer]) -> StateDict:
    """Return layers by torch's names; layers that feed each other form one RNN.

    Raises:
        UnsupportedError: no layer is supported.
    """
    refused = [layer.refused for layer in layers if layer.refused is not None]
    if refused and len(refused) == len(layers):
        raise refused[0]
    stacks: list[list[Layer]] = []
    open_ends: dict[str | None, list[Layer]] = {}  # stacks by the path of their last layer
    for layer in layers:
        if layer.after in open_ends and _feeds(open_ends[layer.after][-1], layer):
            stack = open_ends.pop(layer.after)
        else:
            stack = []
            stacks.append(stack)
        stack.append(layer)
        if layer.path:
            open_ends[layer.path] = stack
    found = StateDict()
    for stack, prefix in zip(stacks, prefixes(stack[0].name for stack in stacks), strict=True):
        found.said[prefix] = stack[0].said
        if stack[0].refused is not None:
            found.refused[prefix] = str(stack[0].refused)
        if stack[0].starts_from is not None:
            found.starts_from[prefix] = stack[0].starts_from
        for number, layer in enumerate(stack):
            for arrays, direction in zip(layer.directions, ("", "_reverse"), strict=False):
                for field, array in arrays.items():
                    found[f"{prefix}{field}_l{number}{direction}"] = array
    return found


def _feeds(before: Layer, layer: Layer) -> bool:
    """Return whether two layers have one kind, options and size, as layers of one RNN have."""
    return (
        layer.refused is before.refused is None
        and (layer.starts_from is None) == (before.starts_from is None)
        and layer.said == before.said
        and layer.sizes == before.sizes
        and layer.input_size == sum(before.sizes)
    )
