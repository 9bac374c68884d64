"""A trained model: a safetensors file with torch's names, and metadata for the rest."""

from __future__ import annotations

import json
from typing import Any

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.outputs import Output
from lodcli.formats.weights.safetensors_weights import write_entries
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.rnn.stack.state_dict import StateDict
from lodcli.kernels.rnn.training.classifier import ABOUT


def write_model(
    path: PathLike, arrays: StateDict, about: dict[str, Any], *, overwrite: bool = False
) -> None:
    """Write a model to a file, atomically.

    Args:
        path: the target; "-" is standard output.
        arrays: by torch's names, with the description of their RNN.
        about: other facts about the model, a JSON object.
        overwrite: whether an existing file may be replaced.

    Raises:
        OSError: it cannot be written.
    """
    with Output(path, overwrite=overwrite) as output:
        write_entries(arrays, output, {ABOUT: json.dumps(about, sort_keys=True)})


def about_of(entries: StateDict) -> dict[str, Any]:
    """Return the facts that `write_model` stored with weights; empty for those of other files.

    Args:
        entries: the result of `read_weights`.

    Raises:
        DamagedFileError: the facts are not a JSON object, or "classes" or "ids" are not words.
    """
    try:
        about = json.loads(entries.metadata.get(ABOUT, "{}"))
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise DamagedFileError(f"metadata {ABOUT}: is not a JSON object")
    for name in ("classes", "ids"):
        words = about.get(name, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DamagedFileError(f"metadata {ABOUT}: {name} are not a list of words")
    return about
