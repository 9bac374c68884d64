"""Weights of trained models: a safetensors file, whose names are torch's."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from lodcli.formats.errors import DamagedFileError, NotThisFormatError
from lodcli.kernels.checks import Array
from lodcli.kernels.errors import UnsupportedError

# What begins a pickle, or the zip file of pickles that torch.save writes.
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")
_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_weights(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of a safetensors file by name.

    Args:
        path: the file. bfloat16 comes as float32, which holds it exactly.

    Raises:
        OSError: it cannot be read.
        UnsupportedError: a pickle such as torch.save writes: reading one runs its code.
        NotThisFormatError, DamagedFileError: no safetensors file, or a broken one.
    """
    import safetensors

    label = os.fspath(path)
    with open(path, "rb") as file:
        head = file.read(9)
    if head.startswith(_PICKLES):
        raise UnsupportedError(
            f"{label}: is a pickle, and reading one runs the code in it; save the weights with "
            "safetensors.torch.save_file(model.state_dict(), 'weights.safetensors')"
        )
    if head.startswith(_HDF5) or head[8:9] != b"{":
        raise NotThisFormatError(f"{label}: is no safetensors file")
    try:
        with safetensors.safe_open(label, framework="np") as opened:
            return {name: _array(opened, name) for name in opened.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise DamagedFileError(f"{label}: is no whole safetensors file ({error})") from None


def _array(opened: Any, name: str) -> Array:
    if opened.get_slice(name).get_dtype() == "BF16":
        import ml_dtypes  # noqa: F401 - teaches NumPy the dtype, which safetensors looks up

        return np.asarray(opened.get_tensor(name)).astype(np.float32)
    return np.asarray(opened.get_tensor(name))
