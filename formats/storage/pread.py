"""Checked reads of arrays at file positions, never mapped (a truncated map raises SIGBUS)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform import files


def read_into(fd: int, out: Array, position: int) -> None:
    """Fill the C-contiguous `out` with the bytes of a file from `position` on.

    Raises:
        DamagedFileError: the file has fewer.
    """
    size = out.nbytes
    done = files.read_at(fd, out, position)
    if done == size:  # nearly always: a view of the bytes takes as long as reading a few
        return
    view = out.reshape(-1).view(np.uint8).data
    while done < size:
        if not done:
            raise DamagedFileError(f"the file ended {size} bytes early")
        view, position, size = view[done:], position + done, size - done
        done = files.read_at(fd, view, position)


def read_array(fd: int, shape: int | tuple[int, ...], dtype: npt.DTypeLike, position: int) -> Array:
    """Return the bytes of a file from `position` on as an array; see `read_into`."""
    out: Array = np.empty(shape, dtype)
    read_into(fd, out, position)
    return out
