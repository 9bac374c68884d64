"""The table of formats, one entry each. Pure data: importing it loads no other module.

Everything else that lists formats is derived from it: what `--from` and `--to` take, completion,
the detection of formats, and the tests that go over all formats.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """Where the class of a format is, and how its files are recognised.

    Attributes:
        module: the module of its class.
        class_name: the class, a `Format`.
        endings: of its files, lower case, with the dot.
        marks: positions and bytes, of which every head that `Format.sniff` accepts has at least one
            there; if the position is None, anywhere and in any case, the mark in lower case.
            `Format.sniff`, which detects a file by its content alone, is called only then. () if
            no file is detected so.
        announced: whether every file begins with a magic number, so that a file with one of
            `endings` and without it is damaged.
        begins_like: a format with the same magic number; the extension decides which it is.
        folder_marks: files of which one is in every folder of this format; () if it is not a
            folder.
        pair_ending: the extension of a second file beside the first; "" if there is none.
    """

    module: str
    class_name: str
    endings: tuple[str, ...] = ()
    marks: tuple[tuple[int | None, bytes], ...] = ()
    announced: bool = False
    begins_like: str | None = None
    folder_marks: tuple[str, ...] = ()
    pair_ending: str = ""


HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# Of a member, or of the end of an archive without members.
_ZIP = ((0, b"PK\x03\x04"), (0, b"PK\x05\x06"))
# The directives of which one begins a .ts file, after comments.
_DIRECTIVES = (
    b"@problemname",
    b"@timestamps",
    b"@missing",
    b"@univariate",
    b"@dimension",  # also that of @dimensions
    b"@equallength",
    b"@serieslength",
    b"@classlabel",
    b"@targetlabel",
    b"@data",
)
# In the order in which unknown content is tried.
TABLE = {
    "lod.h5": Entry(
        "lodcli.formats.container.format",
        "Container",
        (".lod.h5",),
        marks=((0, HDF5_MAGIC),),
        announced=True,
    ),
    "lod.stream": Entry(
        "lodcli.formats.stream.format",
        "LodStream",
        (".lods",),
        # The others are of streams that a transfer in text mode changed.
        marks=(
            (0, b"\x89LODS"),
            (0, b"\tLODS"),
            (0, b"\xc2\x89LODS"),
            (0, b"\xef\xbf\xbdLODS"),
        ),
        announced=True,
    ),
    "lod.dataset": Entry(
        "lodcli.formats.dataset.format", "Dataset", folder_marks=("manifest.lod.h5",)
    ),
    "hdf5": Entry("lodcli.formats.hdf5.plain", "PlainHdf5", (".h5", ".hdf5"), announced=True),
    "megatron": Entry(
        "lodcli.formats.tokens.megatron",
        "Megatron",
        (".idx",),
        marks=((0, b"MMIDIDX"), (0, b"TNTIDX"), (0, b"HUFFIDX")),
        pair_ending=".bin",
    ),
    "awkward": Entry("lodcli.formats.awkward.awkward_npz", "Awkward", marks=_ZIP),
    "awkward-hdf5": Entry("lodcli.formats.awkward.awkward_hdf5", "AwkwardHdf5"),
    "npz": Entry("lodcli.formats.npz.npz", "Npz", (".npz",), marks=_ZIP, announced=True),
    "npy": Entry(
        "lodcli.formats.npz.npy", "Npy", (".npy",), marks=((0, b"\x93NUMPY"),), announced=True
    ),
    "torch": Entry("lodcli.formats.torch.torch_file", "Torch", (".pt", ".pth"), marks=_ZIP),
    "safetensors": Entry(
        "lodcli.formats.safetensors.safetensors_file",
        "Safetensors",
        (".safetensors",),
        marks=((4, b"\0\0\0\0{"),),
        announced=True,
    ),
    "paddle": Entry(
        "lodcli.formats.paddle.lod_tensor",
        "Paddle",
        (".lodt", ".pdiparams"),
        marks=((0, b"\0\0\0\0"),),
    ),
    "arrow": Entry(
        "lodcli.formats.arrow.formats",
        "ArrowFile",
        (".arrow", ".feather", ".ipc"),
        marks=((0, b"ARROW1"), (0, b"FEA1")),
        announced=True,
    ),
    "arrow-stream": Entry(
        "lodcli.formats.arrow.formats",
        "ArrowStream",
        (".arrows",),
        marks=((0, b"\xff\xff\xff\xff"),),
        announced=True,
    ),
    "parquet": Entry(
        "lodcli.formats.arrow.formats",
        "Parquet",
        (".parquet", ".pq"),
        marks=((0, b"PAR"),),
        announced=True,
    ),
    # Not announced: it may begin with "ORC" and then text.
    "orc": Entry("lodcli.formats.arrow.formats", "Orc", (".orc",), marks=((0, b"ORC"),)),
    "tfrecord": Entry(
        "lodcli.formats.tfrecord.tfrecord",
        "TfRecord",
        (".tfrecord", ".tfrecords"),
        # The upper byte of a length: a file whose first record has 64 PiB or more is not detected.
        marks=((7, b"\0"), (0, b"\x1f\x8b")),
        announced=True,
    ),
    "zarr": Entry(
        "lodcli.formats.zarr.zarr_format",
        "Zarr",
        (".zarr",),
        folder_marks=("zarr.json", ".zgroup", ".zarray"),
    ),
    "zarr-zip": Entry(
        "lodcli.formats.zarr.zarr_format", "ZarrZip", (".zarr.zip",), marks=_ZIP, announced=True
    ),
    "mds": Entry("lodcli.formats.records.mds", "Mds", folder_marks=("index.json",)),
    "datasets": Entry(
        "lodcli.formats.arrow.datasets_folder",
        "Datasets",
        folder_marks=("state.json", "dataset_dict.json"),
    ),
    "nwb": Entry("lodcli.formats.hdf5.nwb", "Nwb", (".nwb",), begins_like="lod.h5"),
    "vtkhdf": Entry("lodcli.formats.hdf5.vtkhdf", "VtkHdf", (".vtkhdf",), begins_like="lod.h5"),
    "h5ad": Entry("lodcli.formats.hdf5.h5ad", "H5ad", (".h5ad",), begins_like="lod.h5"),
    "hdf5-vlen": Entry("lodcli.formats.hdf5.vlen", "Hdf5Vlen"),
    "webdataset": Entry(
        "lodcli.formats.records.webdataset", "WebDataset", (".tar",), marks=((257, b"ustar"),)
    ),
    "llmc": Entry("lodcli.formats.tokens.tokens", "LlmC", marks=((2, b"\x34\x01"),)),
    "tokens": Entry("lodcli.formats.tokens.tokens", "Tokens", (".bin",)),
    "ts": Entry(
        "lodcli.formats.ts.ts",
        "SktimeTs",
        (".ts",),
        marks=tuple((None, directive) for directive in _DIRECTIVES),
    ),
    "jsonl": Entry("lodcli.formats.json.jsonl", "JsonLines", (".jsonl", ".ndjson", ".geojsonl")),
    "json": Entry("lodcli.formats.json.documents", "JsonDocument", (".json", ".geojson")),
    "csv": Entry("lodcli.formats.csv.csv_file", "Csv", (".csv",)),
    "tsv": Entry("lodcli.formats.csv.csv_file", "Tsv", (".tsv",)),
    "text": Entry("lodcli.formats.text.text", "Text", (".txt",)),
}

# By extension, those with most dots first: the format.
SUFFIXES = dict(
    sorted(
        ((ending, name) for name, entry in TABLE.items() for ending in entry.endings),
        key=lambda found: -found[0].count("."),
    )
)
# In the order of the table: position, mark and format.
MARKS = [(*mark, name) for name, entry in TABLE.items() for mark in entry.marks]
# A file in the folder of an unfinished dataset, which does not have its manifest yet.
UNFINISHED = "job.json"
# The format of a folder, by the name of a file in it.
FOLDERS = {mark: name for name, entry in TABLE.items() for mark in entry.folder_marks}
# By the extension of the second file: that of the first, and the format of the pair.
PAIRS = {
    entry.pair_ending: (entry.endings[0], name)
    for name, entry in TABLE.items()
    if entry.pair_ending
}
