"""The optional codecs lz4 and zstd, from the package hdf5plugin."""

from __future__ import annotations

from lodcli.kernels.errors import UnsupportedError


def register(codec: str) -> None:
    """Make the filters known to HDF5.

    Raises:
        UnsupportedError: the package is not installed.
    """
    try:
        import hdf5plugin  # noqa: F401 - importing it registers the filters
    except ImportError:
        raise UnsupportedError(
            f"the codec {codec} needs the package hdf5plugin; install lodcli[codecs]"
        ) from None
