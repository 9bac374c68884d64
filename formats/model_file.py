"""A trained model: a safetensors file with torch's names, and what the arrays do not say."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from lodcli.formats.errors import DamagedFileError
from lodcli.formats.outputs import Output
from lodcli.kernels.checks import Array

# Where in the file's metadata, which holds text only, our own entry stands.
_KEY = "lod"


def write_model(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Array],
    about: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """Write a model to a file that appears whole or not at all.

    Args:
        path: where; "-" is standard output.
        arrays: by torch's names.
        about: what is to be known of the model beside them, as JSON can hold it.
        overwrite: whether an existing file may be replaced.

    Raises:
        OSError: it cannot be written.
    """
    import safetensors.numpy

    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    # One entry: the package puts several in another order each time.
    content = safetensors.numpy.save(whole, {_KEY: json.dumps(dict(about), sort_keys=True)})
    with Output(path, overwrite=overwrite) as output:
        output.write(content)


def read_about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what `write_model` was told about a model; nothing where the file is not ours.

    Args:
        path: a file that `read_weights` has read.

    Raises:
        DamagedFileError: our entry is there, but is no JSON object.
    """
    import safetensors

    try:
        with safetensors.safe_open(os.fspath(path), framework="np") as opened:
            text = (opened.metadata() or {}).get(_KEY, "{}")
    except safetensors.SafetensorError:
        return {}  # weights may come from other kinds of files, which say nothing
    try:
        about = json.loads(text)
    except ValueError:
        about = None
    if not isinstance(about, dict):
        raise DamagedFileError(f"{os.fspath(path)}: metadata {_KEY}: is no JSON object")
    return about
