"""Weights of Keras in HDF5: .weights.h5 of Keras 3, and .h5 of whole models before it.

    layers/lstm/cell/vars/0 1 2, layers/bidirectional/forward_layer/cell/vars/..
    model_weights/NAME/../lstm_cell/kernel, recurrent_kernel, bias

A whole model describes its layers in the attribute model_config. Where there is none, activations
are Keras's defaults.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.formats.arrays.in_memory import MemorySource
from lodcli.formats.container.owned import require_memory
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.limits import Limits, open_within
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import Item
from lodcli.formats.hdf5.datasets import MODULES
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.weights.common import gated, keeping_by_update
from lodcli.formats.weights.keras_layers import CLASSES, Layer, from_keras, stacked, to_keras
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
    r"(?P<layer>.*?)/(?P<direction>forward_|backward_)?(?P<inner>[^/]+)/(?:[^/]*cell[^/]*/)?"
    r"(?P<var>kernel|recurrent_kernel|bias)(?::0)?"
)
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

        fd = source.make_seekable().fileno()
        strict = StrictFile(fd, os.fstat(fd).st_size)
        paths = list(_recurrent(dataset_paths(strict)))
        texts = [path.encode() for path in paths]
        lod = LoD.from_lengths([[len(text) for text in texts]])
        items = {"paths": LoDTensor(np.frombuffer(b"".join(texts), np.uint8), lod)}
        items |= {
            str(n): LoDTensor(_read(strict, path, source.bounds)) for n, path in enumerate(paths)
        }
        text = strict.attributes()[0].get("model_config", "")
        items["model"] = LoDTensor(np.frombuffer(str(text).encode(), np.uint8))
        return MemorySource(items)


# Options that are only in the model's JSON.
_UNTOLD = ("nonlinearity", "gate_activation", "cell_activation", "candidate_activation")


def read(source: Input) -> StateDict:
    """Return the weights of the recurrent layers; consecutive ones that match form one RNN."""
    before: dict[str, str] = {}  # the path of the last layer, for each model
    layers = []
    found_layers, text = stored_layers(source)
    entries = _described(text)
    for stored in found_layers:
        model = stored.path.rpartition("/layers/")[0]
        name = stored.path.rpartition("/")[2]
        if name in entries:
            with naming(f"model_config: {name}"):
                layers.append(layer_as_described(stored, entries[name], after=before.get(model)))
        else:
            layers.append(layer_of(stored, {}, after=before.get(model)))
        before[model] = stored.path
    found = stacked(layers)
    return StateDict(found, found.said, untold=() if entries else _UNTOLD)


def _described(text: str) -> dict[str, dict[str, Any]]:
    """Return the recurrent layers of model_config by name; none of a name that is repeated."""
    try:
        waiting = [json.loads(text)] if text else []
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"model_config: is not JSON ({str(error)[:100]})") from None
    found: dict[str, list[dict[str, Any]]] = {}
    while waiting:
        entry = waiting.pop()
        config = entry.get("config") if isinstance(entry, dict) else None
        name = config.get("name") if isinstance(config, dict) else None
        if isinstance(name, str) and cell_of(entry) is not None:
            found.setdefault(name, []).append(entry)
            continue
        # A Sequential of old versions of Keras has a list.
        below = config.get("layers") if isinstance(config, dict) else config
        waiting += below if isinstance(below, list) else []
    return {name: entries[0] for name, entries in found.items() if len(entries) == 1}


def stored_layers(source: Input) -> tuple[list[Stored], str]:
    """Return likely recurrent layers, in the order of their numbered names, and model_config."""
    opened = open_within(Limits(), _Variables(), source, ReadOptions())
    try:
        items = {name: _tensor(item) for name, item in opened.read().items()}
    finally:
        opened.close()
    texts, model = items.pop("paths"), items.pop("model")
    places = _recurrent(bytes(texts[n].data).decode() for n in range(len(texts)))
    found: dict[str, dict[str, dict[str, Array]]] = {}
    for (layer, direction, variable), tensor in zip(places.values(), items.values(), strict=True):
        found.setdefault(layer, {}).setdefault(direction, {})[variable] = np.asarray(tensor.data)
    if not found:
        raise InvalidDataError(
            "holds no weights of an RNN: an HDF5 file of Keras has recurrent layers; `lod inspect` "
            "shows what is in other files"
        )
    layers = [Stored(path, found[path]) for path in sorted(found, key=_numbered)]
    return layers, bytes(model.data).decode()


def _tensor(item: Item) -> LoDTensor:
    assert isinstance(item, LoDTensor)
    return item


def _recurrent(paths: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    """Return layer, direction and variable of each dataset of a recurrent layer."""
    found: dict[str, tuple[str, str, str]] = {}
    old: dict[str, tuple[str, str, str]] = {}
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
    # Dense layers have a kernel and a bias as well.
    recurrent = {place[0] for place in old.values() if place[2] == "recurrent_kernel"}
    return found | {path: place for path, place in old.items() if place[0] in recurrent}


def _numbered(path: str) -> list[tuple[str, int]]:
    """Return a sort key: lstm, lstm_1, .., lstm_10."""
    parts = (re.fullmatch(r"(.*?)(?:_(\d{1,9}))?", part) for part in path.split("/"))
    return [(match[1], int(match[2] or 0)) for match in parts if match]


def _read(strict: Any, path: str, bounds: Bounds) -> Array:
    column = strict.column(path)
    dtype = column.dtype
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise UnsupportedError(f"{path}: holds {dtype}; expected float16, float32 or float64")
    if len(column.shape) not in (1, 2):
        raise InvalidDataError(f"{path}: expected a matrix or a vector, found {column.shape}")
    bounds.check(column.size_bytes, f"{path}: declares")
    # Zeros: if HDF5 does not write all of it, no old memory of this process is exposed.
    out: Array = np.zeros(column.shape, dtype)
    strict.read_rows(column, 0, out)
    return out


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


def cell_of(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return the recurrent layer that a model describes, that within a Bidirectional; else None."""
    options = entry.get("config")
    bidirectional = entry.get("class_name") == "Bidirectional" and isinstance(options, dict)
    cell = options.get("layer") if bidirectional and isinstance(options, dict) else entry
    return cell if isinstance(cell, dict) and cell.get("class_name") in CLASSES else None


def layer_as_described(stored: Stored, entry: dict[str, Any], *, after: str | None) -> Layer:
    """Return a layer with its arrays in torch's layout, and the options that a model describes.

    Args:
        stored: its arrays.
        entry: its description, for which `cell_of` returns a layer.
        after: see Layer.
    """
    cell, options = cell_of(entry), entry["config"]
    inner = None if cell is None else cell.get("config")
    if not isinstance(inner, dict):
        raise DamagedFileError("is described without a config")
    if inner.get("go_backwards"):
        raise UnsupportedError(
            "is backward-only, which is not supported; expected forward or bidirectional"
        )
    if cell is entry:
        return layer_of(stored, {"": inner}, after=after)
    if options.get("merge_mode", "concat") != "concat":
        raise UnsupportedError(f"merge_mode {ascii(options['merge_mode'])[:40]}; expected 'concat'")
    backward = options.get("backward_layer", cell)
    if not isinstance(backward, dict) or not isinstance(backward.get("config"), dict):
        raise DamagedFileError("describes no backward layer")
    return layer_of(stored, {"forward": inner, "backward": backward["config"]}, after=after)


def write(weights: RNNWeights, output: Output) -> None:
    """Write a .weights.h5 that a Keras model of these layers loads.

    Raises:
        UnsupportedError: a GRU without biases, whose kind only the shape of its bias tells.
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
