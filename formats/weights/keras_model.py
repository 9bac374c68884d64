"""Keras's description of a model: its recurrent layers, and what their inputs are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.weights.keras_layers import CLASSES
from lodcli.kernels.errors import UnsupportedError

MOST_DEPTH = 32
# Layers that do not change rows or their positions, except in training.
_TRANSPARENT = {"InputLayer", "Dropout", "Masking", "GaussianNoise", "SpatialDropout1D"}


@dataclass(frozen=True)
class Described:
    """A recurrent layer of a model.

    Attributes:
        entry: its description, for which `cell_of` returns a layer.
        name: of the layer; may be anything in a damaged file.
        models: the names of nested models around it, each with a dot.
        path: of its weights in a .weights.h5.
        after: path of the recurrent layer whose output is its input; None for another input.
        starts_from: the layer that computes its initial states; None: they are zeros, or inputs.
    """

    entry: dict[str, Any]
    name: str
    models: str
    path: str
    after: str | None
    starts_from: str | None


def cell_of(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return the recurrent layer, or the cell, in the description of a layer; else None."""
    cell = _within(entry, "Bidirectional", "layer")
    if cell.get("class_name") in CLASSES:
        return cell
    inside = _within(cell, "RNN", "cell")
    kind = inside.get("class_name")
    is_cell = isinstance(kind, str) and kind.endswith("Cell") and kind[: -len("Cell")] in CLASSES
    return inside if is_cell and inside is not cell else None


def _within(entry: dict[str, Any], kind: str, key: str) -> dict[str, Any]:
    """Return the layer that one of this class wraps; the layer itself if it is of another class."""
    options = entry.get("config")
    inner = options.get(key) if isinstance(options, dict) else None
    return inner if entry.get("class_name") == kind and isinstance(inner, dict) else entry


def configs_of(entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options of each direction of a recurrent layer: "", or "forward" and "backward".

    Raises:
        UnsupportedError: lod cannot run it.
    """
    if entry["class_name"] != "Bidirectional":
        return {"": _config(entry)}
    options = entry["config"]
    if options.get("merge_mode", "concat") != "concat":
        raise UnsupportedError(f"merge_mode {ascii(options['merge_mode'])[:40]}; expected 'concat'")
    forward = options["layer"]
    backward = options.get("backward_layer", forward)
    if not isinstance(backward, dict) or cell_of(backward) is None:
        raise DamagedFileError("describes no backward layer")
    return {"forward": _config(forward), "backward": _config(backward, backward=True)}


def _config(layer: dict[str, Any], *, backward: bool = False) -> dict[str, Any]:
    outer, cell = layer.get("config"), cell_of(layer)
    config = None if cell is None else cell.get("config")
    if not isinstance(config, dict) or not isinstance(outer, dict):
        raise DamagedFileError("is described without a config")
    if outer.get("go_backwards") and not backward:
        raise UnsupportedError(
            "is backward-only, which is not supported; expected forward or bidirectional"
        )
    return config


def parsed(text: str | bytes) -> Any:
    """Return the JSON that describes a model.

    Raises:
        DamagedFileError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"is not JSON ({str(error)[:100]})") from None


def recurrent_layers(config: dict[str, Any]) -> Iterator[Described]:
    """Yield the recurrent layers of a model, in its order.

    Raises:
        DamagedFileError: it is not the description of a model of layers.
    """
    yield from _layers(config, "layers/", "", 0)


def _layers(config: dict[str, Any], prefix: str, models: str, depth: int) -> Iterator[Described]:
    if depth > MOST_DEPTH:
        raise DamagedFileError(f"models nested more than {MOST_DEPTH} deep")
    used: dict[str, int] = {}
    # The recurrent layer whose output a layer passes on: of each layer by name, of the one before.
    passed: dict[str | None, str | None] = {}
    inputs: set[str] = set()
    before: str | None = None
    for entry in _entries(config):
        kind, options = entry["class_name"], entry["config"]
        base = _snake(kind)
        path = prefix + base + (f"_{used[base]}" if base in used else "")
        used[base] = used.get(base, 0) + 1
        sources, states = _sources(entry)
        if "inbound_nodes" in entry:
            before = passed.get(sources[0]) if len(sources) == 1 else None
        if kind == "TimeDistributed":
            entry, path = _within(entry, kind, "layer"), f"{path}/layer"
            options = entry["config"] if isinstance(entry.get("config"), dict) else {}
        name = options.get("name")
        name = name if isinstance(name, str) and _is_name(name) else path
        if kind == "InputLayer":
            inputs.add(name)
        if cell_of(entry) is not None:
            starts_from = next((state for state in states if state not in inputs), None)
            yield Described(entry, name, models, path, before, starts_from)
            before = path if kind != "TimeDistributed" else None
        elif kind not in _TRANSPARENT:
            before = None
        passed[name] = before if len(sources) < 2 else None
        if isinstance(options.get("layers"), list):
            yield from _layers(entry, f"{path}/layers/", f"{models}{name}.", depth + 1)


def _is_name(name: str) -> bool:
    """Return whether this is the name of a layer that may be shown, and be a prefix of weights."""
    return 0 < len(name) <= 100 and name.isprintable() and not set(name) & {"/", ","}


def _sources(entry: dict[str, Any]) -> tuple[list[str | None], list[str]]:
    """Return the input of each call of a layer, and the layers its initial states come from.

    An input is the name of a layer whose first output it is; None is any other input.
    """
    nodes = entry.get("inbound_nodes")
    sources: list[str | None] = []
    states: list[str] = []
    for node in nodes if isinstance(nodes, list) else []:
        found = list(_histories(node))
        first = found[0] if found else None
        sources.append(first[0] if first is not None and first[1] == 0 else None)
        # An RNN is called on one tensor, and then on its states.
        states += [name for name, _ in found[1:]]
    return sources, states


def _histories(node: Any, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the layer and the number of its output of each tensor in a call, the first one first.

    Keras 3 has {"args": [TENSOR], "kwargs": {..}} with tensors {"config": {"keras_history": [NAME,
    NODE, OUTPUT]}}; Keras 2 has lists [NAME, NODE, OUTPUT, {..}].
    """
    if depth > MOST_DEPTH:
        return
    if isinstance(node, dict) and isinstance(node.get("config"), dict):
        node = node["config"].get("keras_history")
    if isinstance(node, dict):  # a call, or the keywords of one, which may hold a mask too
        keywords = node.get("kwargs", node)
        states = keywords.get("initial_state") if isinstance(keywords, dict) else None
        inner = [node.get("args"), states]
    elif isinstance(node, list) and len(node) > 2 and isinstance(node[0], str):
        if isinstance(node[2], int):
            yield node[0], node[2]
        inner = node[3:]
    else:
        inner = node if isinstance(node, list) else []
    for part in inner:
        yield from _histories(part, depth + 1)


def has_layers(config: Any) -> bool:
    """Return whether this is the description of a model of layers."""
    return isinstance(config, dict) and isinstance(_listed(config), list)


def _listed(config: dict[str, Any]) -> Any:
    inner = config.get("config")
    # A Sequential of old versions of Keras has a list.
    return inner.get("layers") if isinstance(inner, dict) else inner


def _entries(config: dict[str, Any]) -> list[dict[str, Any]]:
    if not has_layers(config):
        raise DamagedFileError("describes no model of layers")
    entries = _listed(config)
    for entry in entries:
        sound = isinstance(entry, dict) and isinstance(entry.get("class_name"), str)
        if not sound or not isinstance(entry.get("config"), dict | list):
            raise DamagedFileError("a layer without class_name and config")
    return [entry for entry in entries if isinstance(entry["config"], dict)]


def _snake(name: str) -> str:
    """Return the name of a class in Keras's paths of weights: SimpleRNN is simple_rnn."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
