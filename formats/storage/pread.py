"""Checked reads of arrays at file positions, never mapped (a truncated map raises SIGBUS)."""

from __future__ import annotations

from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform import files


def read_into(fd: int, out: Array, position: int) -> None:
    """Fill the C-contiguous `out` with the bytes of a file from `position` on.

    Raises:
        DamagedFileError: the file has fewer.
    """
    view = memoryview(out.reshape(-1).view("u1").data)
    while len(view):
        done = files.read_at(fd, view, position)
        if not done:
            raise DamagedFileError(f"the file ended {len(view)} bytes early")
        view, position = view[done:], position + done
