"""Weights of Keras in HDF5: .weights.h5 of Keras 3, and .h5 of whole models before it.

    layers/lstm/cell/vars/0 1 2, layers/bidirectional/forward_layer/cell/vars/..
    model_weights/NAME/../lstm_cell/kernel, recurrent_kernel, bias

A whole model describes its layers in the attribute model_config. Where there is none, activations
are Keras's defaults.
"""

from __future__ import annotations

import dataclasses
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.formats.arrays.in_memory import MemorySource
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.limits import Limits, open_within
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import tensor_of
from lodcli.formats.hdf5.datasets import MODULES
from lodcli.formats.hdf5.file_objects import require_memory
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.weights.common import gated, keeping_by_update
from lodcli.formats.weights.keras_layers import from_keras, to_keras
from lodcli.formats.weights.keras_model import (
    Described,
    configs_of,
    has_layers,
    parsed,
    recurrent_layers,
)
from lodcli.formats.weights.layers import Layer, stacked
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.state_dict import StateDict
from lodcli.kernels.tensor.lod_tensor import LoDTensor

_CELL = re.compile(
    r"(?P<layer>.*?)/(?P<direction>forward_layer/|backward_layer/)?cell/vars/(?P<var>[0-2])"
)
_OLD_CELL = re.compile(
    r"(?P<layer>.*?)/(?P<direction>forward_|backward_)?(?P<inner>[^/]+)/(?P<cell>[^/]*cell[^/]*/)?"
    r"(?P<var>kernel|recurrent_kernel|bias)(?::0)?"
)
# Attributes of the file: Keras's description of a whole model, and that lod wrote a single RNN.
STACK = "lod.rnn"
_ATTRIBUTES = ("model_config", STACK)
_VARIABLES = {"0": "kernel", "1": "recurrent_kernel", "2": "bias"}


@dataclass(frozen=True)
class Stored:
    """A recurrent layer's arrays: by direction ("", or "forward" and "backward"), by variable."""

    path: str
    directions: dict[str, dict[str, Array]]


class _Variables(Format):
    """The variables of recurrent layers, one tensor each, and their paths; read in a sandbox."""

    name = "keras-h5"
    read_only = "`lod weights` writes weights"
    modules = ("lodcli.formats.hdf5.tree", *MODULES)
    isolated = True

    def open(self, source: Input, options: ReadOptions) -> Source:
        from lodcli.formats.hdf5.strict import StrictFile
        from lodcli.formats.hdf5.tree import dataset_paths

        strict = StrictFile(source.make_seekable().fileno())
        found = dataset_paths(strict)
        places = _recurrent(found)
        if not places:
            what = "it is a lod.h5 file of tensors"
            if "/header" not in found:
                what = "an HDF5 file of Keras has recurrent layers"
            raise InvalidDataError(
                f"holds no weights of an RNN: {what}; `lod inspect` shows what is in it"
            )
        columns = {path: strict.column(path, bfloat16=True) for path in places}
        # Layers of the same names with convolutions instead of products.
        others = {places[path][0] for path, column in columns.items() if len(column.shape) > 2}
        if others < {place[0] for place in places.values()}:
            places = {path: place for path, place in places.items() if place[0] not in others}
        paths = list(places)
        texts = [path.encode() for path in paths]
        lod = LoD.from_lengths([[len(text) for text in texts]])
        items = {"paths": LoDTensor(np.frombuffer(b"".join(texts), np.uint8), lod)}
        items |= {
            str(n): LoDTensor(_read(strict, columns[path], source.bounds))
            for n, path in enumerate(paths)
        }
        there = strict.attributes()[0]
        for name in _ATTRIBUTES:
            text = str(there.get(name, ""))
            items[name] = LoDTensor(np.frombuffer(text.encode(), np.uint8))
        return MemorySource(items)


# Options that are only in the model's JSON.
_UNTOLD = ("nonlinearity", "gate_activation", "cell_activation", "candidate_activation")


def read(source: Input) -> StateDict:
    """Return the weights of the recurrent layers, each an RNN if their connections are unknown."""
    found_layers, attributes = stored_layers(source)
    described = _described(attributes["model_config"])
    if described is None:
        layers = [layer_of(stored, {}, after=None) for stored in found_layers]
        if attributes[STACK]:
            paths = [None, *(layer.path for layer in layers)]
            layers = [dataclasses.replace(a, after=b) for a, b in zip(layers, paths, strict=False)]
        found = stacked(layers)
        found.untold = frozenset(_UNTOLD)
        return found
    return stacked(_as_described(found_layers, described))


def _as_described(found: list[Stored], described: list[Described]) -> list[Layer]:
    """Return layers in the order of the model, with their options and connections."""
    counts = Counter(each.name for each in described)
    known = {each.name: each for each in described if counts[each.name] == 1}
    # The name of a layer is that of a group; in some versions those below add numbers to it.
    names = {
        stored.path: next((part for part in reversed(stored.path.split("/")) if part in known), "")
        for stored in found
    }
    paths = {known[name].path: path for path, name in names.items() if name}
    order = {each.name: place for place, each in enumerate(described)}
    layers = []
    for stored in sorted(found, key=lambda one: order.get(names[one.path], len(order))):
        name = names[stored.path]
        if name and paths[known[name].path] == stored.path:
            after = known[name].after
            after = None if after is None else paths.get(after)
            layers.append(layer_as_described(stored, known[name], "model_config", after=after))
        else:
            layers.append(
                _refused(
                    stored,
                    UnsupportedError(
                        f"{stored.path}: model_config describes no LSTM, GRU or SimpleRNN of this "
                        "name, or several"
                    ),
                )
            )
    return layers


def _described(text: str) -> list[Described] | None:
    """Return the recurrent layers of model_config; None without a description of layers."""
    with naming("model_config"):
        config = parsed(text or "{}")
        # A model of a custom class lists no layers here.
        return list(recurrent_layers(config)) if has_layers(config) else None


def stored_layers(source: Input) -> tuple[list[Stored], dict[str, str]]:
    """Return likely recurrent layers, in the order of their numbered names, and attributes."""
    opened = open_within(Limits(), _Variables(), source, ReadOptions())
    try:
        items = {name: tensor_of(item) for name, item in opened.read().items()}
    finally:
        opened.close()
    texts = items.pop("paths")
    attributes = {name: bytes(items.pop(name).data).decode() for name in _ATTRIBUTES}
    places = _recurrent(bytes(texts[n].data).decode() for n in range(len(texts)))
    found: dict[str, dict[str, dict[str, Array]]] = {}
    for (layer, direction, variable), tensor in zip(places.values(), items.values(), strict=True):
        found.setdefault(layer, {}).setdefault(direction, {})[variable] = np.asarray(tensor.data)
    layers = [Stored(path, found[path]) for path in sorted(found, key=_numbered)]
    return layers, attributes


def _recurrent(paths: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    """Return layer, direction and variable of each dataset of a recurrent layer."""
    found: dict[str, tuple[str, str, str]] = {}
    old: dict[str, tuple[str, str, str]] = {}
    cells: dict[tuple[str, str], set[str]] = {}
    for path in paths:
        match = _CELL.fullmatch(path)
        if match:
            direction = (match["direction"] or "").removesuffix("_layer/")
            found[path] = (match["layer"], direction, _VARIABLES[match["var"]])
            continue
        match = _OLD_CELL.fullmatch(path)
        if match:
            direction = (match["direction"] or "").removesuffix("_")
            layer = match["layer"] if direction else f"{match['layer']}/{match['inner']}"
            old[path] = (layer, direction, match["var"])
            cells.setdefault((layer, direction), set()).add(match["cell"] or "")
    # Dense layers have a kernel and a bias as well. Several cells in a layer are one step of it.
    recurrent = {place[0] for place in old.values() if place[2] == "recurrent_kernel"}
    recurrent -= {layer for (layer, _), inside in cells.items() if len(inside) > 1}
    return found | {path: place for path, place in old.items() if place[0] in recurrent}


def _numbered(path: str) -> list[tuple[str, int]]:
    """Return a sort key: lstm, lstm_1, .., lstm_10."""
    parts = (re.fullmatch(r"(.*?)(?:_(\d{1,9}))?", part) for part in path.split("/"))
    return [(match[1], int(match[2] or 0)) for match in parts if match]


def _read(strict: Any, column: Any, bounds: Bounds) -> Array:
    """Return the values of a column; bfloat16 as float32."""
    path, dtype = column.path, column.dtype
    if (dtype.kind != "f" or dtype.itemsize > 8) and dtype.name != "bfloat16":
        raise UnsupportedError(f"{path}: holds {dtype}; expected float16, float32 or float64")
    if len(column.shape) not in (1, 2):
        raise InvalidDataError(f"{path}: expected a matrix or a vector, found {column.shape}")
    bounds.check(column.size_bytes, f"{path}: declares")
    # Zeros: if HDF5 does not write all of it, no old memory of this process is exposed.
    out: Array = np.zeros(column.shape, dtype)
    strict.read_rows(column, 0, out)
    return out.astype(np.float32) if dtype.name == "bfloat16" else out


def layer_of(stored: Stored, configs: Mapping[str, dict[str, Any]], *, after: str | None) -> Layer:
    """Return a layer with its arrays in torch's layout.

    Args:
        stored: its arrays.
        configs: the options of each direction of `stored`; none for Keras's defaults.
        after: see Layer.
    """
    with naming(stored.path):
        names = sorted(stored.directions, reverse=True)  # forward before backward
        if names not in ([""], ["forward", "backward"]):
            raise InvalidDataError(f"has the directions {', '.join(names)}; expected one or both")
        saids, directions = [], []
        for name in names:
            arrays = stored.directions[name]
            missing = {"kernel", "recurrent_kernel"} - set(arrays)
            if missing:
                raise InvalidDataError(f"has no {', '.join(sorted(missing))}")
            said, parts = from_keras(
                arrays["kernel"], arrays["recurrent_kernel"], arrays.get("bias"), configs.get(name)
            )
            saids.append(said)
            directions.append(parts)
        if saids[0] != saids[-1]:
            raise UnsupportedError("has different cells or activations forward and backward")
        name = stored.path.rpartition("/")[2]
        return Layer(stored.path, name, saids[0], directions, after)


def layer_as_described(
    stored: Stored, described: Described, place: str, *, after: str | None
) -> Layer:
    """Return a layer with its arrays in torch's layout, and the options that a model describes.

    Args:
        stored: its arrays.
        described: its description.
        place: of the description in the file, for messages.
        after: see Layer.
    """
    try:
        with naming(f"{place}: {described.name}"):
            layer = layer_of(stored, configs_of(described.entry), after=after)
    except UnsupportedError as error:
        return _refused(stored, error)
    return dataclasses.replace(layer, starts_from=described.starts_from)


def _refused(stored: Stored, error: UnsupportedError) -> Layer:
    return Layer(stored.path, stored.path.rpartition("/")[2], {}, [], None, refused=error)


def write(weights: RNNWeights, output: Output) -> None:
    """Write a .weights.h5 that a Keras model of these layers loads.

    Raises:
        UnsupportedError: a GRU without biases, whose kind is known only by the shape of its bias.
    """
    biases = {"bias_ih", "bias_hh"}
    cells = [cell for layer in weights.layers for cell in layer]
    if weights.cell in ("gru", "gru_paddle") and not any(biases & set(c.arrays()) for c in cells):
        raise UnsupportedError(
            "Keras's HDF5 of a GRU without biases does not store whether its reset comes after the "
            "matmul; write a .keras file, which does"
        )
    output.write(image_of(weights)[0])


def image_of(weights: RNNWeights) -> tuple[bytes, list[dict[str, Any]]]:
    """Return a .weights.h5, and the description of each layer."""
    import h5py

    if weights.cell == "gru_paddle":
        weights = keeping_by_update(weights)
    image = io.BytesIO()
    described: list[dict[str, Any]] = []
    require_memory()
    with h5py.File(image, "w") as file:
        file.attrs[STACK] = "the layers are those of one RNN, in the order of their names"
        for number, layer in enumerate(weights.layers):
            kind, config, _ = to_keras(gated(layer[0]))
            base = "simple_rnn" if kind == "SimpleRNN" else kind.lower()
            name = ("bidirectional" if len(layer) == 2 else base) + (f"_{number}" if number else "")
            for cell, direction in zip(layer, ("forward_layer/", "backward_layer/"), strict=False):
                inner = direction if len(layer) == 2 else ""
                _, own, arrays = to_keras(gated(cell))
                if own != config:
                    raise UnsupportedError("Keras needs a bias in both directions, or in neither")
                for place, array in enumerate(arrays):
                    path = f"layers/{name}/{inner}cell/vars/{place}"
                    file.create_dataset(path, data=array, track_times=False)
            described.append({"class_name": kind, "config": config, "name": name})
    return image.getvalue(), described
