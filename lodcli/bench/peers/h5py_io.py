"""h5py: two plain datasets without checksums, contiguous or in 256 KB chunks with deflate."""

from __future__ import annotations

import os
from typing import Any

import h5py


def version() -> str:
    """Return the measured versions."""
    return f"{h5py.__version__} on HDF5 {h5py.version.hdf5_version}"


def io(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op on files with h5py."""
    if op == "verify":
        return {}
    data = inputs["data"]
    row_bytes = data.itemsize * data.shape[1]
    rows = max(1, min(len(data), (256 << 10) // row_bytes))
    chunked = {"chunks": (rows, data.shape[1]), "compression": "gzip", "shuffle": True}
    return {
        label: _way(op, os.path.join(inputs["folder"], f"{name}.h5"), inputs, options)
        for label, name, options in (("", "plain", {}), ("gzip", "chunked", chunked))
    }


def _way(op: str, path: str, inputs: dict[str, Any], options: dict[str, Any]) -> Any:
    def write() -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("data", data=inputs["data"], **options)
            file.create_dataset("offsets", data=inputs["offsets"])

    def write_synced() -> None:
        write()
        with open(path, "rb") as file:
            os.fsync(file.fileno())

    def read(_: Any = None) -> list[Any]:
        with h5py.File(path, "r") as file:
            return [file["data"][...], file["offsets"][...]]

    def each() -> list[Any]:
        found = []
        for n in inputs["wanted"].tolist():
            with h5py.File(path, "r") as file:
                start, stop = file["offsets"][n : n + 2]
                found.append(file["data"][start:stop])
        return found

    write()
    if op in ("write", "write_synced"):
        return write if op == "write" else write_synced, read
    if op == "read":
        return read, list
    if op == "open_and_sequence":
        return each, list
    rows, offsets = h5py.File(path, "r")["data"], inputs["offsets"]

    def picked() -> list[Any]:
        return [rows[offsets[n] : offsets[n + 1]] for n in inputs["wanted"].tolist()]

    return picked, list
