"""Weights in .keras files: a zip of the model's description and its weights in HDF5."""

from __future__ import annotations

import dataclasses
import io
import json
import os
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
from lodcli.formats.weights.keras_h5 import Stored, image_of, layer_as_described, stored_layers
from lodcli.formats.weights.keras_model import has_layers, parsed, recurrent_layers
from lodcli.formats.weights.layers import Layer, stacked
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.state_dict import StateDict

WEIGHTS, CONFIG, METADATA = "model.weights.h5", "config.json", "metadata.json"
MOST_CONFIG_BYTES = 64 << 20


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
    found = list(_layers(config, stored))
    if not found:
        raise InvalidDataError("the model has no LSTM, GRU or SimpleRNN")
    return stacked(found)


def _config(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> dict[str, Any]:
    with naming(CONFIG):
        if info.file_size > MOST_CONFIG_BYTES:
            raise DamagedFileError(f"has {info.file_size} bytes; at most {MOST_CONFIG_BYTES}")
        with damage("is damaged"):
            text = archive.read(info)
        config = parsed(text)
        if not isinstance(config, dict):
            raise DamagedFileError("is not a JSON object")
        return config


def _layers(config: dict[str, Any], stored: dict[str, Stored]) -> Iterator[Layer]:
    """Yield the recurrent layers of a model; `stored` has their arrays by path."""
    with naming(CONFIG):
        if isinstance(config.get("config"), dict) and not has_layers(config):
            raise UnsupportedError(
                "describes no layers, as for a subclass of keras.Model; read the file of "
                "model.save_weights('model.weights.h5')"
            )
        described = list(recurrent_layers(config))
    for each in described:
        if each.path not in stored:
            raise DamagedFileError(f"{CONFIG}: {each.name}: {WEIGHTS} has no {each.path} for it")
        after = stored[each.after].path if each.after in stored else None
        layer = layer_as_described(stored[each.path], each, CONFIG, after=after)
        yield dataclasses.replace(layer, name=f"{each.models}{each.name.rpartition('/')[2]}")


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
