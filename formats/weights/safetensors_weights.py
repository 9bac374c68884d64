"""Weights in safetensors, by torch's names, with the cell and its options in the metadata."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping

import numpy as np

from lodcli.formats.arrays.array_file import read_rows
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.safetensors.header import Header, encoded_header, read_header
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.weights.common import with_two_biases
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.state_dict import StateDict, state_dict

_SAID = "lod.rnn"


def read(source: Input, wanted: Callable[[str], bool] = lambda name: True) -> StateDict:
    """Return all arrays whose dtypes a tensor may have; others are not weights of an RNN.

    Args:
        wanted: whether to read an array of this name; the others are zeros that take no memory.
    """
    file = source.make_seekable()
    fd = file.fileno()
    header = read_header(fd, file.seek(0, 2))
    found = StateDict(said=_said(header.metadata), metadata=header.metadata)
    for name, array in header.placed().items():
        if not wanted(name):
            found[name] = np.broadcast_to(np.zeros((), array.dtype), array.shape)
            continue
        # A single value is read as one row.
        rows = dataclasses.replace(array, shape=array.shape or (1,))
        found[name] = exact(read_rows(fd, rows, 0, rows.shape[0]).reshape(array.shape))
    return found


def write(weights: RNNWeights, output: Output) -> None:
    """Write the weights, and the metadata that arrays cannot express."""
    write_entries(state_dict(with_two_biases(weights)), output, {})


def write_entries(entries: StateDict, output: Output, metadata: Mapping[str, str]) -> None:
    """Write arrays by torch's names, the description of their RNN, and more metadata."""
    header = Header({}, {_SAID: json.dumps(entries.said, sort_keys=True), **metadata})
    arrays = {name: np.ascontiguousarray(array) for name, array in entries.items()}
    for name, array in arrays.items():
        header.add(name, array.dtype, array.shape)
    output.write(encoded_header(header))
    for array in arrays.values():
        output.write(array.reshape(-1).view(np.uint8).data)


def exact(array: Array) -> Array:
    """Return bfloat16, which NumPy cannot compute with, as float32; others unchanged."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _said(metadata: Mapping[str, str]) -> dict[str, dict[str, str | bool]]:
    """Return the metadata about RNNs; empty for files of other programs."""
    if _SAID not in metadata:
        return {}
    try:
        found = json.loads(metadata[_SAID])
        sound = all(
            isinstance(options, dict)
            and all(isinstance(value, str | bool) for value in options.values())
            for options in found.values()
        )
    except (ValueError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise DamagedFileError(f"the header: {_SAID} of its metadata is not a description of RNNs")
    checked: dict[str, dict[str, str | bool]] = found
    return checked
