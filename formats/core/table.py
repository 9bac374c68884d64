"""The formats, one line each: nothing here loads a module."""

# name: (module, class). In the order in which unknown content is tried.
TABLE = {
    "lod.h5": ("lodcli.formats.container.format", "Container"),
    "lod.stream": ("lodcli.formats.stream.format", "LodStream"),
    "hdf5": ("lodcli.formats.hdf5.plain", "PlainHdf5"),
    "megatron": ("lodcli.formats.tokens.megatron", "Megatron"),
    "awkward": ("lodcli.formats.awkward.awkward_npz", "Awkward"),
    "awkward-hdf5": ("lodcli.formats.awkward.awkward_hdf5", "AwkwardHdf5"),
    "npz": ("lodcli.formats.npz.npz", "Npz"),
    "torch": ("lodcli.formats.torch.torch_file", "Torch"),
    "safetensors": ("lodcli.formats.safetensors.safetensors_file", "Safetensors"),
    "paddle": ("lodcli.formats.paddle.lod_tensor", "Paddle"),
    "arrow": ("lodcli.formats.arrow.formats", "ArrowFile"),
    "arrow-stream": ("lodcli.formats.arrow.formats", "ArrowStream"),
    "parquet": ("lodcli.formats.arrow.formats", "Parquet"),
    "datasets": ("lodcli.formats.arrow.datasets_folder", "Datasets"),
    "nwb": ("lodcli.formats.hdf5.nwb", "Nwb"),
    "vtkhdf": ("lodcli.formats.hdf5.vtkhdf", "VtkHdf"),
    "h5ad": ("lodcli.formats.hdf5.h5ad", "H5ad"),
    "hdf5-vlen": ("lodcli.formats.hdf5.vlen", "Hdf5Vlen"),
    "webdataset": ("lodcli.formats.records.webdataset", "WebDataset"),
    "mds": ("lodcli.formats.records.mds", "Mds"),
    "llmc": ("lodcli.formats.tokens.tokens", "LlmC"),
    "tokens": ("lodcli.formats.tokens.tokens", "Tokens"),
    "ts": ("lodcli.formats.ts.ts", "SktimeTs"),
    "jsonl": ("lodcli.formats.json.jsonl", "JsonLines"),
    "csv": ("lodcli.formats.csv.csv_file", "Csv"),
    "tsv": ("lodcli.formats.csv.csv_file", "Tsv"),
    "text": ("lodcli.formats.text.text", "Text"),
}

# What the names of files say, the longest ending first.
SUFFIXES = {
    ".lod.h5": "lod.h5",
    ".lods": "lod.stream",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".npz": "npz",
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".lodt": "paddle",
    ".pdiparams": "paddle",
    ".idx": "megatron",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow-stream",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".nwb": "nwb",
    ".vtkhdf": "vtkhdf",
    ".h5ad": "h5ad",
    ".tar": "webdataset",
    ".bin": "tokens",
    ".ts": "ts",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
}

# Folders, by a file that lies in every one of a format.
FOLDERS: dict[str, str] = {
    "index.json": "mds",
    "state.json": "datasets",
    "dataset_dict.json": "datasets",
}
# What is in two files: an ending, and if the file of the other ending is there, the format.
PAIRS = {".bin": (".idx", "megatron")}
