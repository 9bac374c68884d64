"""Weights in ONNX models: the nodes LSTM, GRU and RNN, and their initializers.

Arrays of a direction are gate blocks of H rows: LSTM i o f c, GRU z r h, RNN one block.
W (directions, k*H, D), R (directions, k*H, H), B (directions, 2*k*H) of the input and then of the
recurrence, P (directions, 3*H) peepholes i o f. A GRU with linear_before_reset is that of torch,
without it that of Paddle with origin_mode. Nodes that feed each other are layers of one RNN.
References: https://onnx.ai/onnx/operators
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, NotThisFormatError, naming
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.pread import read_into
from lodcli.formats.weights.common import Said, options_of
from lodcli.formats.weights.layers import Layer, stacked
from lodcli.formats.weights.onnx_model import model_of
from lodcli.formats.weights.onnx_tables import ACTIVATIONS, ORDERS, PEEPHOLES, onnx, reordered
from lodcli.formats.weights.safetensors_weights import exact
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.state_dict import StateDict

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": [b"Sigmoid", b"Tanh", b"Tanh"], "GRU": [b"Sigmoid", b"Tanh"], "RNN": [b"Tanh"]}
STATES = ((5, "initial_h"), (6, "initial_c"))  # places of inputs
# Nodes allowed between two layers: they do not move values from one sequence to another.
_BETWEEN = {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Cast"}
# Nodes whose values are those of their first input; of a Concat those of all.
_PASSING = _BETWEEN | {"Expand", "Slice", "Gather", "Tile", "Split", "Concat"}
_FLOATS = ("float", "double", "float16", "bfloat16")
MOST_BYTES = 2**31  # limit of protobuf


# -- reading -----------------------------------------------------------------------------


def read(source: Input) -> StateDict:
    """Return the weights of all RNNs of a model; several have the names of nodes as prefixes."""
    graph = _graph(source)
    constants = _constants(graph)
    widths = _widths(graph, constants)
    makers = {output: node for node in graph.node for output in node.output if output}
    layers: list[Layer] = []
    refused: list[Layer] = []
    for number, node in enumerate(graph.node):
        if node.op_type in GATES and node.domain in ("", "ai.onnx"):
            try:
                with naming(node.name or f"node {number}"):
                    _check_states(node, widths)
                    layers.append(_read_node(node, number, constants, makers, source))
            except UnsupportedError as error:
                refused.append(Layer("", _name(node, number), {}, [], None, refused=error))
    if not (layers or refused):
        raise InvalidDataError(
            "the model has no node LSTM, GRU or RNN; if the exporter unrolled it to other nodes, "
            "take the weights of the model before the export"
        )
    return stacked([*_linked(layers, makers), *refused])


def _name(node: Any, number: int) -> str:
    """Return a node's name as a prefix of names of weights."""
    name = node.name or f"{node.op_type}_{number}"
    return "".join(char if char.isalnum() or char in "_-." else "_" for char in name).strip("_.")


def _graph(source: Input) -> Any:
    package = onnx()
    file = source.make_seekable()
    if file.seek(0, 2) > MOST_BYTES:
        raise UnsupportedError(f"is larger than an ONNX model can be ({MOST_BYTES} bytes)")
    file.seek(0)
    model = package.ModelProto()
    try:
        model.ParseFromString(file.read())
    except Exception as error:  # the class depends on the installed protobuf
        raise DamagedFileError(
            f"is not a complete ONNX model ({' '.join(str(error).split())[:120]}){FETCH_AGAIN}"
        ) from None
    if not model.graph.node:
        raise NotThisFormatError("is not an ONNX model: it has no nodes")
    return model.graph


def _constants(graph: Any) -> dict[str, Any]:
    """Return the initializers and the values of Constant nodes, not decoded, by name."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and len(node.output) == 1:
            for attribute in node.attribute:
                if attribute.name == "value":
                    found[node.output[0]] = attribute.t
    return found


def _widths(graph: Any, constants: dict[str, Any]) -> dict[str, int]:
    """Return the last extent of each value with a known one, by name."""
    extents = {
        value.name: value.type.tensor_type.shape.dim[-1].dim_value
        for value in (*graph.input, *graph.value_info)
        if value.type.tensor_type.shape.dim
    }
    extents |= {name: tensor.dims[-1] for name, tensor in constants.items() if tensor.dims}
    return {name: extent for name, extent in extents.items() if extent > 0}


def _check_states(node: Any, widths: dict[str, int]) -> None:
    """Raise UnsupportedError for initial states of another size than the node's."""
    inputs = [*node.input, *[""] * 8]
    sizes = [attribute.i for attribute in node.attribute if attribute.name == "hidden_size"]
    size = sizes[0] if sizes else widths.get(inputs[2], 0)
    for place, what in STATES:
        width = widths.get(inputs[place], size)
        if size and width != size:
            raise UnsupportedError(
                f"{what}: expected states of {size} values, found {width}; torch exports an LSTM "
                "with proj_size so, without its projection; take the weights of the model before "
                "the export"
            )


def _read_node(
    node: Any, number: int, constants: dict[str, Any], makers: dict[str, Any], source: Input
) -> Layer:
    kind = node.op_type
    package = onnx()
    attributes = {a.name: package.helper.get_attribute_value(a) for a in node.attribute}
    directions = _direction_count(attributes)
    inputs = [*node.input, *[""] * 8][:8]
    given = {
        name: _array(inputs[place], name, constants, source)
        for name, place in (("W", 1), ("R", 2), ("B", 3))
        if inputs[place]
    }
    if kind == "LSTM" and inputs[7]:
        given["P"] = _array(inputs[7], "P", constants, source)
    if "W" not in given or "R" not in given:
        raise DamagedFileError("has no inputs W and R")
    if attributes.get("clip") is not None:
        raise UnsupportedError("clips its cells, which is not supported")
    starts_from = [
        _starts_from(inputs[place], what, constants, makers, source) for place, what in STATES
    ]
    _check_shapes(given, GATES[kind], directions)
    said = _said(kind, attributes, directions)
    order = ORDERS[str(said["cell"])]
    parts = [_parts({n: a[d] for n, a in given.items()}, order) for d in range(directions)]
    gives = node.output[0] if node.output else ""
    return Layer(
        *(gives, _name(node, number), said, parts, inputs[0]),
        starts_from=next((each for each in starts_from if each is not None), None),
    )


def _starts_from(
    name: str, what: str, constants: dict[str, Any], makers: dict[str, Any], source: Input
) -> str | None:
    """Return the node that computes initial states; None for zeros, and for inputs of the model.

    Raises:
        UnsupportedError: the model stores initial states that are not zeros.
    """
    waiting, seen = [name], {""}
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        maker = makers.get(value)
        stored = value in constants and _array(value, what, constants, source).any()
        if maker is not None and maker.op_type == "ConstantOfShape":
            filled = {attribute.name: attribute.t for attribute in maker.attribute}
            stored = "value" in filled and _array("value", what, filled, source).any()
        elif maker is not None and maker.op_type in _PASSING:
            waiting += maker.input if maker.op_type == "Concat" else maker.input[:1]
        elif maker is not None and value not in constants:
            return ascii(maker.name or f"{maker.op_type} node {value}")[1:-1][:80]
        if stored:
            raise UnsupportedError(
                f"{what} ({ascii(value)[1:-1][:80]}): the model stores initial states that are not "
                "zeros, which are no weights; remove this input of the node, and give them as --h0 "
                "and --c0"
            )
    return None


def _direction_count(attributes: dict[str, Any]) -> int:
    direction = attributes.get("direction", b"forward")
    if direction == b"reverse":
        raise UnsupportedError(
            "is backward-only, which is not supported; expected forward or bidirectional"
        )
    if direction not in (b"forward", b"bidirectional"):
        raise DamagedFileError(f"unknown direction {ascii(direction)[:50]}")
    return 2 if direction == b"bidirectional" else 1


def _array(name: str, what: str, constants: dict[str, Any], source: Input) -> Array:
    if name not in constants:
        raise UnsupportedError(
            f"{what} ({ascii(name)[1:-1][:80]}) is computed by the model, not stored in it; fold "
            "its constants first (onnxsim, or torch.onnx.export with do_constant_folding)"
        )
    tensor = constants[name]
    package = onnx()
    kinds = package.TensorProto.DataType
    known = tensor.data_type in kinds.values()
    wanted = kinds.Name(tensor.data_type).lower() if known else str(tensor.data_type)
    if wanted not in _FLOATS:
        raise UnsupportedError(f"{what}: is of type {wanted}; expected one of {', '.join(_FLOATS)}")
    if tensor.data_location == package.TensorProto.EXTERNAL:
        with naming(what):
            raw = _beside(tensor, source)
        tensor = package.TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=raw)
    try:
        if any(extent < 0 for extent in tensor.dims):
            raise ValueError(f"dims {list(tensor.dims)}")
        array: Array = np.array(package.numpy_helper.to_array(tensor))
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise DamagedFileError(f"{what}: {' '.join(str(error).split())[:120]}") from None
    return exact(array)


def _beside(tensor: Any, source: Input) -> bytes:
    """Return the values of a tensor that are stored in another file, in the same folder."""
    told = {entry.key: entry.value for entry in tensor.external_data}
    name = told.get("location", "")
    with source.beside(name) as other:
        file = other.make_seekable()
        size = file.seek(0, 2)
        try:
            start = int(told.get("offset", 0))
            length = int(told.get("length", size - start))
        except ValueError:
            raise DamagedFileError(f"its offset or length in {name} is not a number") from None
        if start < 0 or length < 0 or start + length > size:
            raise DamagedFileError(
                f"needs {length} bytes of {name} from byte {start} on, which has {size}"
            )
        raw = np.empty(length, np.uint8)
        read_into(file.fileno(), raw, start)
    return raw.tobytes()


def _check_shapes(given: dict[str, Array], gates: int, directions: int) -> None:
    recurrent = given["R"]
    size = recurrent.shape[-1] if recurrent.ndim == 3 else 0
    width = given["W"].shape[-1] if given["W"].ndim == 3 else 0
    expected = {
        "R": (directions, gates * size, size),
        "W": (directions, gates * size, width),
        "B": (directions, 2 * gates * size),
        "P": (directions, 3 * size),
    }
    for name, array in given.items():
        if array.shape != expected[name] or not size:
            raise DamagedFileError(f"{name}: expected shape {expected[name]}, found {array.shape}")


def _parts(given: dict[str, Array], order: tuple[int, ...]) -> dict[str, Array]:
    """Return the arrays of one direction by torch's names, with blocks in torch's order."""
    arrays = {
        "weight_ih": reordered(given["W"], order),
        "weight_hh": reordered(given["R"], order),
    }
    if "B" in given:
        ih, hh = np.split(given["B"], 2)
        arrays |= {"bias_ih": reordered(ih, order), "bias_hh": reordered(hh, order)}
    if "P" in given and given["P"].any():
        arrays["peepholes"] = given["P"].reshape(3, -1)[list(PEEPHOLES)]
    return arrays


def _said(kind: str, attributes: dict[str, Any], directions: int) -> Said:
    """Return the cell and its options."""
    given = attributes.get("activations")
    names = [_activation(name) for name in given or DEFAULTS[kind]]
    each = len(DEFAULTS[kind])
    if given and len(names) != each * directions:
        raise DamagedFileError(f"expected {each * directions} activations, found {len(names)}")
    if names[:each] * (len(names) // each) != names:
        raise UnsupportedError("has different activations forward and backward")
    if kind == "LSTM":
        gate, candidate, cell = names[:3]
        return options_of(
            "lstm",
            gate_activation=gate,
            candidate_activation=candidate,
            cell_activation=cell,
            coupled=bool(attributes.get("input_forget", 0)),
        )
    if kind == "RNN":
        return options_of("elman", nonlinearity=names[0])
    if not attributes.get("linear_before_reset", 0):
        return options_of(
            "gru_paddle", gate_activation=names[0], candidate_activation=names[1], origin_mode=True
        )
    if names[:2] != ["sigmoid", "tanh"]:
        raise UnsupportedError("a GRU of linear_before_reset must have sigmoid and tanh")
    return options_of("gru")


def _activation(name: bytes) -> str:
    shown = name.decode("ascii", "replace").lower()
    if shown not in ACTIVATIONS:
        raise UnsupportedError(
            f"activation {ascii(shown)[1:-1][:40]}; expected one of {', '.join(ACTIVATIONS)}"
        )
    return shown


def _linked(layers: list[Layer], makers: dict[str, Any]) -> Iterator[Layer]:
    """Yield the layers with the output that each takes, unchanged by nodes between."""
    outputs = {layer.path for layer in layers}
    for layer in layers:
        name = layer.after or ""
        for _ in range(len(makers)):
            maker = makers.get(name)
            if name in outputs or maker is None or maker.op_type not in _BETWEEN:
                break
            name = maker.input[0] if maker.input else ""
        yield replace(layer, after=name)


def write(weights: RNNWeights, output: Output) -> None:
    """Write a model of these weights, which onnxruntime runs."""
    output.write(model_of(weights).SerializeToString())
