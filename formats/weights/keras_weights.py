"""Weights in .keras files: a zip of the model's description and its weights in HDF5."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any

from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError, naming
from lodcli.formats.npz.members import COPY_BYTES
from lodcli.formats.npz.npz import new_archive
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.zip_archive import damage, open_archive
from lodcli.formats.weights.common import SAVE_ARRAYS
from lodcli.formats.weights.keras_h5 import (
    Stored,
    cell_of,
    image_of,
    layer_as_described,
    stored_layers,
)
from lodcli.formats.weights.keras_layers import Layer, stacked
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.state_dict import StateDict

WEIGHTS, CONFIG, METADATA = "model.weights.h5", "config.json", "metadata.json"
MOST_CONFIG_BYTES = 64 << 20
MOST_DEPTH = 32
# Layers that do not change rows or their positions, except in training.
_TRANSPARENT = {"InputLayer", "Dropout", "Masking", "GaussianNoise", "SpatialDropout1D"}


def read(source: Input) -> StateDict:
    """Return the weights of the recurrent layers; several RNNs have layers' names as prefixes."""
    archive = open_archive(source.make_seekable())
    by_name = {info.filename: info for info in archive.infolist()}
    if WEIGHTS not in by_name or CONFIG not in by_name:
        raise NotThisFormatError(
            f"is not a weights file: a .keras file has {CONFIG} and {WEIGHTS}, this zip file has "
            f"not; {SAVE_ARRAYS}"
        )
    config = _config(archive, by_name[CONFIG])
    with tempfile.TemporaryFile(prefix="lod-") as image, naming(WEIGHTS):
        with damage("is damaged"), archive.open(by_name[WEIGHTS]) as stream:
            while block := stream.read(COPY_BYTES):
                image.write(block)
        image.flush()
        with Input.of_raw(io.FileIO(os.dup(image.fileno())), WEIGHTS) as weights:
            stored = {layer.path.lstrip("/"): layer for layer in stored_layers(weights)[0]}
    found = list(_layers(config, "layers/", "", stored, 0))
    if not found:
        raise InvalidDataError("the model has no LSTM, GRU or SimpleRNN")
    return stacked(found)


def _config(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> dict[str, Any]:
    with naming(CONFIG):
        if info.file_size > MOST_CONFIG_BYTES:
            raise DamagedFileError(f"has {info.file_size} bytes; at most {MOST_CONFIG_BYTES}")
        with damage("is damaged"):
            text = archive.read(info)
        try:
            config = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DamagedFileError(f"is not JSON ({str(error)[:100]})") from None
        if not isinstance(config, dict):
            raise DamagedFileError("is not a JSON object")
        return config


def _layers(
    config: dict[str, Any], prefix: str, model: str, stored: dict[str, Stored], depth: int
) -> Iterator[Layer]:
    """Yield the recurrent layers of a model.

    Args:
        config: the description of the model.
        prefix: of the paths of its layers in the weights.
        model: the names of nested models around its layers, each with a dot.
        stored: arrays of recurrent layers by path.
        depth: number of models around this one.
    """
    if depth > MOST_DEPTH:
        raise DamagedFileError(f"{CONFIG}: models nested more than {MOST_DEPTH} deep")
    used: dict[str, int] = {}
    # The recurrent layer whose output a layer passes on: of each layer by name, of the one before.
    passed: dict[str | None, str | None] = {}
    before: str | None = None
    for entry in _entries(config):
        kind, options = entry["class_name"], entry["config"]
        base = _snake(kind)
        path = prefix + base + (f"_{used[base]}" if base in used else "")
        used[base] = used.get(base, 0) + 1
        if "inbound_nodes" in entry:
            before = passed.get(_input_of(entry))
        name = options.get("name")
        name = name if isinstance(name, str) and re.fullmatch(r"[\w.-]{1,100}", name) else path
        if cell_of(entry) is not None:
            with naming(f"{CONFIG}: {name}"):
                if path not in stored:
                    raise DamagedFileError(f"{WEIGHTS} has no {path} for it")
                layer = layer_as_described(stored[path], entry, after=before)
            yield dataclasses.replace(layer, name=f"{model}{name.rpartition('/')[2]}")
            before = layer.path
        elif kind not in _TRANSPARENT:
            before = None
        passed[name] = before if _calls(entry) < 2 else None
        if isinstance(options.get("layers"), list):
            yield from _layers(entry, f"{path}/layers/", f"{model}{name}.", stored, depth + 1)


def _calls(entry: dict[str, Any]) -> int:
    """Return how often a functional model calls a layer; 0 in other models."""
    nodes = entry.get("inbound_nodes")
    return len(nodes) if isinstance(nodes, list) else 0


def _input_of(entry: dict[str, Any]) -> str | None:
    """Return the name of the layer whose first output a layer of a functional model takes.

    None if it takes another input, or is called several times.
    """
    try:
        (call,) = entry["inbound_nodes"]
        name, _, output = call["args"][0]["config"]["keras_history"]
    except (LookupError, TypeError, ValueError):
        return None
    return name if isinstance(name, str) and output == 0 else None


def _entries(config: dict[str, Any]) -> list[dict[str, Any]]:
    inner = config.get("config")
    entries = inner.get("layers") if isinstance(inner, dict) else None
    if not isinstance(entries, list):
        raise DamagedFileError(f"{CONFIG}: describes no model of layers")
    for entry in entries:
        sound = isinstance(entry, dict) and isinstance(entry.get("class_name"), str)
        if not sound or not isinstance(entry.get("config"), dict):
            raise DamagedFileError(f"{CONFIG}: a layer without class_name and config")
    return entries


def _snake(name: str) -> str:
    """Return the name of a class in Keras's paths of weights: SimpleRNN is simple_rnn."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def write(weights: RNNWeights, output: Output) -> None:
    """Write a model of these layers that keras.models.load_model loads."""
    image, described = image_of(weights)
    dtype = weights.layers[0][0].dtype.name
    layers = [
        _described(
            "InputLayer",
            {"batch_shape": [None, None, weights.input_size], "dtype": dtype, "name": "rows"},
        )
    ]
    for entry in described:
        config = {**entry["config"], "dtype": dtype}
        if weights.directions == 1:
            layers.append(_described(entry["class_name"], {**config, "name": entry["name"]}))
            continue
        inner = [
            _described(
                entry["class_name"],
                {**config, "name": f"{way}_{entry['name']}", "go_backwards": way == "backward"},
            )
            for way in ("forward", "backward")
        ]
        own = {"name": entry["name"], "merge_mode": "concat", "dtype": dtype}
        own |= {"layer": inner[0], "backward_layer": inner[1]}
        layers.append(_described("Bidirectional", own))
    model = {"module": "keras", "class_name": "Sequential", "registered_name": None}
    config = {**model, "config": {"name": "rnn", "layers": layers}}
    metadata = {"keras_version": "3.0.0", "date_saved": "1980-01-01@00:00:00"}
    with new_archive(output) as archive:
        for name, content in (
            (METADATA, json.dumps(metadata).encode()),
            (CONFIG, json.dumps(config).encode()),
            (WEIGHTS, image),
        ):
            # The earliest date of zip: files of equal content are equal.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)


def _described(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "module": "keras.layers",
        "class_name": kind,
        "config": config,
        "registered_name": None,
    }
