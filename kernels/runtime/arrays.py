"""Array modules: distinguishes arrays in main memory and on a GPU."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.checks import Array


def is_on_device(data: object) -> TypeGuard[Array]:
    """Return whether `data` is an array that acts like NumPy's but lies on a GPU, as cupy's."""
    if type(data) is np.ndarray:  # looking for what is not there takes longer
        return False
    return hasattr(data, "__cuda_array_interface__") and hasattr(data, "__array_ufunc__")


def as_array(values: npt.ArrayLike) -> Array:
    """Return values as an array where they are: on a GPU they stay there.

    Raises:
        InvalidDataError: no array can be made of them.
    """
    if type(values) is np.ndarray or is_on_device(values):
        return values
    try:
        return np.asarray(values)
    except (LodError, MemoryError):
        raise
    except Exception as error:  # what other libraries raise when NumPy asks for an array
        raise InvalidDataError(_why_no_array(values, str(error).partition("\n")[0])) from None


RAGGED = "ragged data is given as flat rows and lengths, LoDTensor([1, 2, 3], [[2, 1]])"


def _why_no_array(values: object, said: str) -> str:
    if getattr(values, "is_nested", False):
        return (
            "data is a nested tensor; give its rows and lengths, LoDTensor("
            "torch.cat(nested.unbind()), [[len(part) for part in nested.unbind()]])"
        )
    hint = f"; {RAGGED}" if "inhomogeneous" in said or "not regular" in said else ""
    return f"no array can be made of this {type(values).__name__}: {said}{hint}"


def on_host(values: npt.ArrayLike, what: str) -> Array:
    """Return what describes an index, or is a number, in main memory wherever the rows are.

    Raises:
        UnsupportedError: it lies on a GPU.
    """
    if is_on_device(values):
        raise UnsupportedError(
            f"{what} is read in main memory and lies on a GPU; move it with cupy.asnumpy"
        )
    return np.asarray(values)


def beside(values: Array, rows: Array) -> Array:
    """Return an array that was worked out of an index, copied to where `rows` lie."""
    return np.asarray(values, like=rows) if is_on_device(rows) else values
