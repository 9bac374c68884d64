"""HDF5 that other tools write, and containers of older versions."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import h5py
import numpy as np

from tests.reliability.fuzz.base import Base, base
from tests.reliability.fuzz.bases_ours import ROWS
from tests.reliability.fuzz.bases_theirs import FLAT, KEPT, THEIRS, of_file
from tests.reliability.fuzz.known import known, ragged


@base("lod.h5, kept")
def kept_container() -> Base:
    return _kept("version1.lod.h5")


@base("lod.h5, kept deflate")
def kept_deflate() -> Base:
    return _kept("version1_deflate.lod.h5")


def _kept(name: str) -> Base:
    # Its generator no longer exists: h5py reads it, by the specification.
    from tests.reliability.fuzz.oracles import container

    content = container(KEPT / name)
    about = {"sealed": True, "sealed_parts": True, "oracle": "container"}
    return of_file(KEPT / name, "lod.h5", content, **about)


@base("h5ad, anndata")
def anndata() -> Base:
    rows = [[1], [0, 2], [], [2]]
    content = {
        "data": replace(ragged(rows, 1, "float32"), rows=np.array([1.5, 2, -3, 4], "f4").tobytes()),
        "indices": ragged(rows, 1, "int32"),
        "obs_names": ragged(list("abcd"), 1, "uint8"),
        "var_names": ragged(["Actb", "g2", "größe"], 1, "uint8"),
    }
    return of_file(THEIRS / "anndata.h5ad", "h5ad", content)


@base("nwb")
def nwb() -> Base:
    content = {"spike_times": ragged([[0.5, 1.25, 2.0], [], [3.5]], 1, "float64")}
    options = {"data": "/units/spike_times"}
    return of_file(THEIRS / "units.nwb", "nwb", content, options=options)


@base("vtkhdf")
def vtkhdf() -> Base:
    points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    content = {
        "Connectivity": ragged([[[0, 1, 2, 3], [1, 2, 3, 4]]], 2, "int64"),
        "Types": ragged([[10, 10]], 1, "uint8"),
        "Points": known(points, [[5]], None, "float32"),
    }
    return of_file(THEIRS / "grid.vtkhdf", "vtkhdf", content)


@base("awkward-hdf5")
def awkward_hdf5() -> Base:
    content = {"x": ragged([[[1, 2], [3]], []], 2, "int64"), "y": ragged(["ab", "c"], 1, "uint8")}
    return of_file(THEIRS / "awkward.h5", "awkward-hdf5", content)


def _hdf5(write: Callable[[h5py.File], None], **options: Any) -> dict[str, bytes]:
    image = io.BytesIO()
    with h5py.File(image, "w", **options) as file:
        write(file)
    return {"good.h5": image.getvalue()}


PLAIN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "hdf5": ({}, {}),
    "hdf5, latest": ({"libver": "latest"}, {}),
    "hdf5, chunks": ({}, {"chunks": (4, 2), "compression": "gzip", "shuffle": True}),
    "hdf5, latest chunks": (
        {"libver": "latest"},
        {"chunks": (4, 2), "maxshape": (None, 2), "fletcher32": True},
    ),
    "hdf5, latest fixed": ({"libver": "latest"}, {"chunks": (4, 2), "compression": "gzip"}),
    "hdf5, latest trees": ({"libver": "latest"}, {"chunks": (4, 1), "maxshape": (None, None)}),
}
for _name, (_file, _dataset) in PLAIN.items():

    @base(_name)
    def plain(
        name: str = _name, file: dict[str, Any] = _file, dataset: dict[str, Any] = _dataset
    ) -> Base:
        def write(made: h5py.File) -> None:
            made.create_dataset("x", data=ROWS, track_times=False, **dataset)
            made.create_dataset("o", data=[0, 9, 10, 15], track_times=False)
            made["g/more"] = np.arange(3)
            made["x"].attrs["unit"] = "m"
            # So many that their names are in heaps and trees.
            for number in range(20 if "trees" in name else 0):
                made[f"many/{number}"] = number
                made["x"].attrs[f"a{number}"] = number

        files = _hdf5(write, **file)
        content = {"data": known(ROWS, [[9, 1, 5]])}
        options = {"data": "/x", "offsets": ("/o",)}
        return Base("hdf5", files, "good.h5", content, options=options)


RECORD = np.array(
    [(n, f"w{n}", [n, -n]) for n in range(6)],
    [("id", ">i4"), ("word", "S3"), ("pair", "i2", (2,))],
)


@base("hdf5, text")
def fixed_text() -> Base:
    words = ["to", "be", "", "or not", "größe"]

    def write(made: h5py.File) -> None:
        kind = h5py.string_dtype(length=7)
        made.create_dataset("t", (5,), kind, chunks=(2,))
        made["t"][:] = np.array([word.encode() for word in words], kind)

    content = {"data": ragged(words, 1, "uint8")}
    return Base("hdf5", _hdf5(write), "good.h5", content, options={"data": "/t"})


@base("hdf5, compound")
def compound() -> Base:
    def write(made: h5py.File) -> None:
        made.create_dataset("r", data=RECORD, chunks=(4,), compression="lzf")

    content = {"data": known(RECORD["pair"])}
    return Base("hdf5", _hdf5(write), "good.h5", content, options={"data": "/r/pair"})


@base("hdf5, unwritten")
def unwritten() -> Base:
    def write(made: h5py.File) -> None:
        made.create_dataset("x", (9,), "i2", chunks=(2,), fillvalue=-3)
        made["x"][4:6] = 7, 8

    content = {"data": known(np.array([-3] * 4 + [7, 8] + [-3] * 3, np.int16))}
    return Base("hdf5", _hdf5(write), "good.h5", content, options={"data": "/x"})


@base("hdf5, blosc")
def blosc() -> Base:
    import hdf5plugin

    def write(made: h5py.File) -> None:
        made.create_dataset("x", data=ROWS, chunks=(4, 2), **hdf5plugin.Blosc())

    return Base("hdf5", _hdf5(write), "good.h5", {"data": known(ROWS)}, options={"data": "/x"})


@base("hdf5-vlen")
def hdf5_vlen() -> Base:
    return _texts()


@base("hdf5-vlen, latest")
def hdf5_vlen_latest() -> Base:
    return _texts(libver="latest")


def _texts(**options: Any) -> Base:
    def write(made: h5py.File) -> None:
        made["v"] = ["to", "be", "", "or not"]

    content = {"data": ragged(["to", "be", "", "or not"], 1, "uint8")}
    files = _hdf5(write, **options)
    return Base("hdf5-vlen", files, "good.h5", content, options={"data": "/v"})


@base("hdf5-vlen, numbers")
def hdf5_vlen_numbers() -> Base:
    def write(made: h5py.File) -> None:
        dataset = made.create_dataset("v", (4,), h5py.vlen_dtype(np.int16), chunks=(2,))
        for at, row in enumerate(FLAT):
            dataset[at] = row

    content = {"data": ragged(FLAT, 1, "int16")}
    return Base("hdf5-vlen", _hdf5(write), "good.h5", content, options={"data": "/v"})
