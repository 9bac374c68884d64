"""Weights of trained RNNs: readers and writers, one module for each kind of file.

For every kind, `read_weights` returns arrays by torch's names, in torch's gate order if torch has
the cell. What arrays cannot express (the cell, activations) is in attributes of the result.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from types import ModuleType

from lodcli.formats.catalogue.unread import in_place_of
from lodcli.formats.core.errors import NotThisFormatError, naming
from lodcli.formats.core.names import repeated
from lodcli.formats.core.table import HDF5_MAGIC
from lodcli.formats.storage.inputs import Input, require_path
from lodcli.formats.storage.outputs import Output
from lodcli.formats.weights.common import SAVE_ARRAYS
from lodcli.formats.weights.model_file import write_model
from lodcli.kernels.errors import OptionError, SelectionError, UnsupportedError
from lodcli.kernels.options import by_reader
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.state_dict import StateDict, is_weight_name
from lodcli.kernels.rnn.training.classifier import Classifier
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.suggestions import or_near

# name: module, which has `read(Input) -> StateDict` and `write(RNNWeights, Output)`.
KINDS = {
    "safetensors": "lodcli.formats.weights.safetensors_weights",
    "torch": "lodcli.formats.weights.torch_weights",
    "keras": "lodcli.formats.weights.keras_weights",
    "keras-h5": "lodcli.formats.weights.keras_h5",
    "onnx": "lodcli.formats.weights.onnx_weights",
    "paddle": "lodcli.formats.weights.paddle_weights",
}
SUFFIXES = {
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".keras": "keras",
    ".h5": "keras-h5",
    ".hdf5": "keras-h5",
    ".onnx": "onnx",
    ".lodt": "paddle",
    ".pdiparams": "paddle",
}
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def read_weights(path: PathLike) -> StateDict:
    """Return the arrays of a weights file by torch's names.

    Args:
        path: safetensors, .pt of torch, .keras or HDF5 of Keras, ONNX, or Paddle's LoDTensor
            stream, detected from the content. bfloat16 is returned as float32, which is exact.

    Raises:
        OSError: it cannot be read.
        UnsupportedError: it cannot be read safely, such as a pickle; it holds an RNN that lod does
            not support; or a package is not installed.
        NotThisFormatError, DamagedFileError: it is not a weights file, or is damaged.
    """
    with Input(path) as source, naming(source.label):
        found: StateDict = _module(_kind_of(source)).read(source)
        return found


def read_rnns(path: PathLike) -> StateDict:
    """Return the result of `read_weights`, with zeros for arrays of safetensors outside of RNNs.

    A file may be far larger than the RNNs in it, and than memory.
    """
    with Input(path) as source, naming(source.label):
        kind = _kind_of(source)
        wanted = [is_weight_name] if kind == "safetensors" else []
        found: StateDict = _module(kind).read(source, *wanted)
        return found


@types_explained
def write_weights(
    path: PathLike,
    weights: RNNWeights | Classifier,
    *,
    classes: Sequence[str] = (),
    kind: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write the weights of an RNN, or a classifier, as `lod train` does.

    Args:
        path: the target.
        weights: of the RNN; or a classifier, which is safetensors.
        classes: of a classifier, the name of each class, for `lod run-rnn --emit class`.
        kind: one of KINDS; None: by the file extension.
        overwrite: whether an existing file may be replaced.

    Raises:
        UnsupportedError: the kind cannot hold these weights; nothing is written.
        SelectionError: no such kind, or an unknown file extension.
        OptionError: names for an RNN, or not one text for each class, all different.
    """
    require_path(path)
    kind = kind or kind_of_name(path)
    if isinstance(weights, Classifier):
        if kind != "safetensors":
            raise UnsupportedError(
                f"{os.fspath(path)}: {kind} holds no classifier; write safetensors, or the weights "
                "of its RNN alone"
            )
        _require_words(classes, weights.classes)
        about = {"classes": list(classes), "pool": weights.pool}
        write_model(path, weights.arrays(), about, overwrite=overwrite)
        return
    if classes:
        raise OptionError("classes: the weights of an RNN have none; a Classifier has")
    module = _module(kind)
    with Output(path, overwrite=overwrite, seekable=True) as output, naming(output.label):
        module.write(weights, output)


def _require_words(classes: Sequence[str], count: int) -> None:
    """Raise OptionError unless these are the names of this many classes, or there are none."""
    if isinstance(classes, str | bytes):
        raise OptionError(f"classes: expected a list of names, found {classes!r}")
    if len(classes) and len(classes) != count:
        raise OptionError(f"classes: expected {count} names, found {len(classes)}")
    for name in classes:
        if not isinstance(name, str):
            raise OptionError(f"classes: expected text for each name, found {name!r}")
    if twice := repeated(classes):
        raise OptionError(f"classes: several are named {next(iter(twice))!r}")


def kind_of_name(path: PathLike) -> str:
    """Return the kind for the extension of a file name."""
    kind = known_kind(path)
    if kind is None:
        raise SelectionError(
            f"{os.fspath(path)}: unknown file extension for weights ({' '.join(SUFFIXES)}); "
            f"choose one with {by_reader(shell='--to', python='kind=')}"
        )
    return kind


def known_kind(path: PathLike) -> str | None:
    """Return the kind for the extension of a file name; None if it is not one of weights."""
    lower = os.fspath(path).lower()
    if lower.endswith(".lod.h5"):  # a container, not HDF5 of Keras
        return None
    return next((kind for suffix, kind in SUFFIXES.items() if lower.endswith(suffix)), None)


def _module(kind: str) -> ModuleType:
    if kind not in KINDS:
        raise SelectionError(
            f"no kind of weights {kind!r}; there are: {', '.join(KINDS)}{or_near(kind, KINDS)}"
        )
    return importlib.import_module(KINDS[kind])


def _kind_of(source: Input) -> str:
    """Return the kind of a file, by its first bytes."""
    head = source.head()
    if not head:
        raise NotThisFormatError("is empty; expected weights")
    # Before pickles: the length of the header, its first 8 bytes, may begin like one.
    if head[4:9] == b"\0\0\0\0{":
        return "safetensors"
    if head.startswith(_PICKLES):
        path = str(source.path)
        library = "paddle" if path.endswith((".pdparams", ".pdopt")) else "torch"
        what = "is a pickle, and reading one runs the code in it"
        if path.endswith(".pdopt"):
            what = "is the state of an optimizer, not a model"
        raise UnsupportedError(
            f"{what}; save the weights with "
            f"safetensors.{library}.save_file(model.state_dict(), 'weights.safetensors')"
        )
    if head.startswith(HDF5_MAGIC):
        return "keras-h5"
    if head.startswith(b"PK\x03\x04"):
        # A zip file begins with its first member: the name is at 30, its length at 26.
        name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
        return "torch" if b"/" in name else "keras"
    if head[:4] == bytes(4):
        return "paddle"
    if head[:1] == b"\x08":  # field 1 of a protobuf message, ONNX's version
        return "onnx"
    other = in_place_of(head)
    if other is not None:
        raise NotThisFormatError(
            f"is not a weights file: it begins like {other.what}{other.advice}"
        )
    raise NotThisFormatError(
        "is not a weights file: no safetensors, .pt, ONNX, Keras or Paddle file begins like it; "
        f"{SAVE_ARRAYS}"
    )
