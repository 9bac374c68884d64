"""Filters of foreign HDF5: those of HDF5 and h5py, and those of hdf5plugin."""

from __future__ import annotations

from h5py import h5p, h5z

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.hdf5.hdf5plugin import register
from lodcli.kernels.errors import UnsupportedError

# The filters of hdf5plugin; those of HDF5 and h5py are always available.
PLUGINS = {
    307: "bzip2",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32017: "sz",
    32018: "fcidecomp",
    32024: "sz3",
    32026: "blosc2",
    32028: "sperr",
}
MOST_NAME_CHARS = 60


def check_filters(plist: h5p.PropDCID, path: str) -> None:
    """Register the filters of a dataset that hdf5plugin has.

    Raises:
        UnsupportedError: HDF5 has no such filter, or hdf5plugin is not installed.
        DamagedFileError: a filter occurs twice.
    """
    filters = [plist.get_filter(number) for number in range(plist.get_nfilters())]
    codes = [code for code, *_ in filters]
    for code, _, _, name in filters:
        if code in PLUGINS:
            register(PLUGINS[code])
        if not h5z.filter_avail(code):
            called = ascii(name.decode("ascii", "replace"))[:MOST_NAME_CHARS]
            raise UnsupportedError(
                f"{path}: neither HDF5 nor hdf5plugin has its filter {code} ({called}); copy "
                "it without filters where it was written, with `h5repack -f NONE`"
            )
    if len(set(codes)) < len(codes):
        raise DamagedFileError(f"{path}: filters {codes}; each may occur only once")
