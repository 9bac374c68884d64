"""The text of `lod --version`, collected with few imports."""

from __future__ import annotations

import importlib.util
import platform
from importlib.metadata import PackageNotFoundError, version


def version_text() -> str:
    """Return the versions of lod and of its main dependencies, and the GPU."""
    return f"lod {version('lodcli')}\n{_below()}\nGPU: {_gpu()}"


def _below() -> str:
    try:
        from h5py.version import hdf5_version as hdf5
    except ImportError as error:
        hdf5 = f"not usable ({error})"
    numpy, h5py = installed_version("numpy"), installed_version("h5py")
    return f"Python {platform.python_version()}, NumPy {numpy}, h5py {h5py}, HDF5 {hdf5}"


def installed_version(package: str) -> str:
    """Return the version of a package, or "not installed"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _gpu() -> str:
    # Only checks whether cupy is installed: loading it takes a second and may start the GPU.
    if importlib.util.find_spec("cupy") is None:
        return "none (cupy not installed)"
    kvikio = "" if importlib.util.find_spec("kvikio") is None else ", kvikio too"
    return f"cupy is installed{kvikio}"
