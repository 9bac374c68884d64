"""The optional codecs lz4 and zstd, from the package hdf5plugin."""

from __future__ import annotations

from lodcli.formats.catalogue.packages import Package

PACKAGE = Package("hdf5plugin", "lodcli[codecs]", "the codecs lz4 and zstd")


def register(codec: str) -> None:
    """Make the filters known to HDF5.

    Raises:
        UnsupportedError: the package is not installed.
    """
    try:
        import hdf5plugin  # noqa: F401 - importing it registers the filters
    except ModuleNotFoundError:
        raise PACKAGE.missing(f"the codec {codec}") from None
