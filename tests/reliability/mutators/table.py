"""The mutators of each kind of file, in two registries: those that know a format's structure.

A kind is the name of a format, or that of a file inside of one ("json" for the index of a folder,
"jsonl.gz" for one that is packed). Generic damage is not here: every file gets it as well.
"""

from __future__ import annotations

from tests.reliability.mutators import (
    fixed_fields,
    flatbuffers,
    hdf5,
    json_values,
    lod_container,
    lod_stream,
    npy,
    packed,
    pickles,
    protobuf,
    texts,
    thrift,
    zips,
)
from tests.reliability.mutators.generic import Mutator

Registry = dict[str, tuple[Mutator, ...]]


def _in_npz(name: bytes) -> tuple[Mutator, ...]:
    return npy.NPY if name.endswith(b".npy") else ()


def _in_torch(name: bytes) -> tuple[Mutator, ...]:
    return pickles.PICKLE if name.endswith(b".pkl") else ()


def _in_keras(name: bytes) -> tuple[Mutator, ...]:
    return json_values.JSON if name.endswith(b".json") else ()


_NPZ = (*[zips.member_changer(_in_npz)] * 3, zips.rearrange_members)
_TORCH = (*[zips.member_changer(_in_torch)] * 3, zips.rearrange_members)
_HDF5 = ("hdf5", "hdf5-vlen", "h5ad", "nwb", "vtkhdf", "awkward-hdf5")
_TEXTS: Registry = {
    **dict.fromkeys(("jsonl", "json"), texts.JSON_LINES),
    **dict.fromkeys(("csv", "tsv", "ts", "text"), texts.TEXT),
}

# Change something and repair all checksums: only the content can show the damage.
REPAIRED: Registry = {
    "lod.h5": lod_container.LOD_CONTAINER,
    "lod.stream": lod_stream.LOD_STREAM,
    "npz": _NPZ,
    "npy": npy.NPY,
    "awkward": _NPZ,
    "torch": _TORCH,
    "keras": (*[zips.member_changer(_in_keras)] * 3, zips.rearrange_members),
    "safetensors": fixed_fields.SAFETENSORS,
    "paddle": fixed_fields.PADDLE,
    "megatron": fixed_fields.MEGATRON,
    "llmc": fixed_fields.LLMC,
    "mds": fixed_fields.MDS,
    "tfrecord.inside": (packed.change_inside_records,),
    "mds.zstd": (packed.inside_zstd(fixed_fields.MDS),),
    "json": json_values.JSON,
    "webdataset": fixed_fields.TAR,
    "arrow": flatbuffers.ARROW,
    "arrow-stream": flatbuffers.ARROW,
    "parquet": thrift.PARQUET,
    "onnx": protobuf.PROTOBUF,
    **dict.fromkeys(_HDF5, hdf5.HDF5),
    **_TEXTS,
    **{f"{kind}.gz": (packed.inside_gzip(inside),) for kind, inside in _TEXTS.items()},
    **{f"{kind}.zst": (packed.inside_zstd(inside),) for kind, inside in _TEXTS.items()},
}
# Change one field of a structure, and no checksum.
FIELDS: Registry = {
    **dict.fromkeys(("npz", "awkward", "torch", "keras"), zips.FIELDS),
    **dict.fromkeys(("lod.h5", *_HDF5), hdf5.FIELDS),
}
