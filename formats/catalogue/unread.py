"""Files that lod does not read: how they begin or end, and how other programs convert them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.storage.compression import codec_of, codec_suffix
from lodcli.kernels.options import by_reader, option, together


class Unread(NamedTuple):
    """A kind of file, with its article, and advice on it; "" if there is none.

    The advice is a function if it names options.
    """

    what: str
    remedy: str | Callable[[], str] = ""

    @property
    def advice(self) -> str:
        """Advice on such a file, for a message."""
        return self.remedy if isinstance(self.remedy, str) else self.remedy()


_CODECS = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
# Only for binary formats: text may begin with the letter of zlib's marks.
_ZLIB = dict.fromkeys((b"\x78\x01", b"\x78\x9c", b"\x78\xda"), "zlib")
_AS_PARQUET = "and .to_parquet writes Parquet"
_PICKLE = Unread("a pickle", ", as it may run any code; save what is in it as Parquet, npz or JSON")
_PIXELS = "; PIL.Image.open reads the pixels of an image, numpy.save writes them as npy"
_AUDIO = "; soundfile.read returns the samples of audio, numpy.save writes them as npy"
_VIDEO = "; PyAV returns the frames of a video, numpy.save writes them as npy"
_SHAPES = f"; geopandas.read_file reads it, {_AS_PARQUET}"
_VECTORS = "; gensim reads its vectors, numpy.save writes them as npy"
# How a .bin file of word2vec begins: the numbers of words and of dimensions, as text.
_WORD2VEC = rb"[1-9][0-9]{0,9} [1-9][0-9]{0,5}\n[^\0-\x20]"
# Beginnings of files that replace others: a text pointer, or an error page of a server.
_LFS_POINTER = rb"version https://git-lfs\.github\.com/spec/"
_MARKUP = rb"(?i)(\xef\xbb\xbf)?\s*<(!doctype html|html|\?xml)"
_PAGE = Unread("HTML or XML", "; if a server sent it in place of the file, fetch the file again")
_TABLES = f"; pandas.read_html and read_xml read tables in it, {_AS_PARQUET}"
# As GDAL writes .geojsons files, and jq --seq.
_JSON_SEQUENCE = rb"\x1e\s*\{"
# Their specification limits them to less.
_POINTER_BYTES = 1024
_NETCDF3 = Unread("a netCDF 3 file", "; rewrite it as HDF5 with nccopy -k nc4")
_IMAGE = Unread("an image", _PIXELS)
_ROBOTS = Unread(
    "messages of robots (ROS, MCAP)", "; rosbags or mcap reads them: write them as JSON lines"
)
_CBOR = Unread("CBOR", "; cbor2.load reads it: write its values as JSON, one per line")
_BLOSC2 = Unread("data of Blosc2", "; blosc2.open(FILE)[:] returns an array, numpy.save writes npy")
_MP3 = Unread("an MP3 file", _AUDIO)
_WAV = Unread("a WAV file", _AUDIO)
# By their first bytes, of files that may hold anything.
_ARCHIVES = {
    b"PK\3\4": "a zip file",
    b"\x1f\x8b\x08": "a file packed with gzip",
    b"\x28\xb5\x2f\xfd": "a file packed with zstd",
    **{mark: f"a file packed with {codec}" for mark, codec in _CODECS.items()},
}
# By bytes near their beginning, from a position on. A run of tokens may have one of these by
# chance.
_BEGINNINGS = {
    (0, b"\x7fELF"): Unread("a program"),
    (0, b"GGUF"): Unread(
        "a GGUF model",
        "; gguf.GGUFReader returns its arrays, safetensors.numpy.save_file saves them",
    ),
    **dict.fromkeys(((0, b"\x80\x02"), (0, b"\x80\x04\x95"), (0, b"\x80\x05\x95")), _PICKLE),
    (0, b"\xba\x16\x4f\x2f"): Unread("a fastText model", _VECTORS),
    (0, b"lmgg"): Unread("a GGML model"),
    (0, b"mmap lm http://kheafield.com/code"): Unread("a KenLM model"),
    (0, b"\x3f\xa1\xb4\x46\xf0\x4f\x2e\xdd"): Unread(
        "graphs of DGL", "; dgl.load_graphs reads them, numpy.savez saves their arrays"
    ),
    (0, b"%PDF"): Unread("a PDF document"),
    **dict.fromkeys(((0, b"\x89PNG"), (0, b"\xff\xd8\xff"), (0, b"GIF8"), (8, b"WEBP")), _IMAGE),
    **dict.fromkeys(((0, b"II*\0"), (0, b"MM\0*")), _IMAGE),
    (0, b"SQLite format 3"): Unread(
        "an SQLite database", f"; pandas.read_sql reads its tables, {_AS_PARQUET}"
    ),
    (8, b"DUCK"): Unread(
        "a DuckDB database", "; in DuckDB, COPY TABLE TO 'FILE.parquet' writes a table as Parquet"
    ),
    (0, b"Obj\x01"): Unread(
        "an Avro file", "; polars.read_avro reads it, and .write_parquet writes Parquet"
    ),
    **dict.fromkeys(((0, b"#ROSBAG V"), (0, b"\x89MCAP0\r\n")), _ROBOTS),
    (0, b"\xd9\xd9\xf7"): _CBOR,
    (2, b"b2frame\0"): _BLOSC2,
    (0, b"VTXF"): Unread("a Vortex file", "; write its rows to a Parquet file"),
    (0, b"fgb\x03fgb"): Unread("a FlatGeobuf file", _SHAPES),
    (0, b"root\0"): Unread(
        "a ROOT file", "; uproot reads its trees as Awkward arrays, ak.to_parquet writes Parquet"
    ),
    **dict.fromkeys(((0, b"CDF\x01"), (0, b"CDF\x02"), (0, b"CDF\x05")), _NETCDF3),
    (0, b"GRIB"): Unread("a GRIB file", "; xarray.open_dataset reads it, .to_netcdf writes HDF5"),
    (0, b"\x0e\x03\x13\x01"): Unread("an HDF4 file", "; h4toh5 writes HDF5"),
    (0, b"SIMPLE  ="): Unread(
        "a FITS file", "; astropy.io.fits reads its arrays, numpy.save writes them as npy"
    ),
    (0, b"MATLAB 5.0 MAT-file"): Unread(
        "a file of MATLAB before 7.3", "; save it as HDF5 with -v7.3"
    ),
    (16, b"\xde\xc0\xef\xbe"): Unread(
        "an LMDB database", "; write its values as Parquet, webdataset or another format of lod"
    ),
    **dict.fromkeys(((8, b"WAVEfmt "), (8, b"WAVEJUNK"), (8, b"WAVEbext")), _WAV),
    (8, b"AIFF"): Unread("an AIFF file", _AUDIO),
    (0, b"fLaC"): Unread("a FLAC file", _AUDIO),
    (0, b"OggS"): Unread("an Ogg file", _AUDIO),
    **dict.fromkeys(((0, b"ID3"), (0, b"\xff\xfb")), _MP3),
    (8, b"AVI "): Unread("an AVI file", _VIDEO),
    **dict.fromkeys(((4, b"ftyphei"), (4, b"ftypmif1"), (4, b"ftypavi")), _IMAGE),
    (4, b"ftypM4A"): Unread("an M4A file", _AUDIO),
    (4, b"ftyp"): Unread("an MP4 or QuickTime file", _VIDEO),
    (0, b"\x1a\x45\xdf\xa3"): Unread("a Matroska or WebM file", _VIDEO),
}


def of_csr() -> str:
    """Return the options that read the arrays of a CSR matrix, for a message."""
    return together(option("data", "data,indices"), option("offsets", "indptr"))


def _sparse() -> str:
    return (
        "; save data, indices and indptr of its CSR matrix with numpy.savez, and read them with "
        f"{of_csr()}"
    )


def _conll() -> str:
    return (
        "; make a tsv of it, with the number of the sentence as a column, and give "
        f"{option('levels', 'sentence')}"
    )


def _kaldi() -> str:
    return (
        "; kaldiio.load_ark returns their matrices: save them one after another and their lengths "
        f"with numpy.savez, for {option('data')} and {option('lengths')}"
    )


_CONLL = Unread("CoNLL files", _conll)
_OF_R = Unread(
    "files of R", "; in R, arrow::write_parquet writes a data frame, also with columns of lists"
)
_SHEETS = Unread("Excel workbooks", "; save the sheet as CSV UTF-8")
_PICKLES = Unread(
    "pickles", ", as they may run any code; save what is in them as Parquet, npz or JSON"
)
_RNNS = "; `lod weights` reads the RNNs in them"
# By the extension.
_ENDINGS = {
    ".arff": Unread(
        "ARFF", "; aeon's load_from_arff_file reads it, save_to_ts_file writes a .ts file"
    ),
    **dict.fromkeys((".svm", ".libsvm", ".svmlight"), Unread("LIBSVM files", _sparse)),
    ".mtx": Unread("Matrix Market files", _sparse),
    **dict.fromkeys((".conll", ".conllu"), _CONLL),
    **dict.fromkeys((".xlsx", ".xls"), _SHEETS),
    ".ods": Unread("spreadsheets", "; save the sheet as CSV"),
    ".keras": Unread("models of Keras as data", _RNNS),
    ".onnx": Unread("ONNX models as data", _RNNS),
    **dict.fromkeys((".rds", ".rda", ".rdata"), _OF_R),
    ".dta": Unread("files of Stata", f"; pandas.read_stata reads it, {_AS_PARQUET}"),
    ".sav": Unread("files of SPSS", f"; pandas.read_spss reads it, {_AS_PARQUET}"),
    ".sas7bdat": Unread("files of SAS", f"; pandas.read_sas reads it, {_AS_PARQUET}"),
    ".mat": Unread("files of MATLAB before 7.3", "; save it as HDF5 with -v7.3"),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), _PICKLES),
    ".msgpack": Unread(
        "MessagePack",
        "; flax.serialization.msgpack_restore reads that of Flax, safetensors.flax.save_file saves "
        "its arrays",
    ),
    ".cbor": _CBOR,
    **dict.fromkeys((".b2nd", ".b2frame", ".b2z", ".b2e", ".b2d"), _BLOSC2),
    ".lance": Unread(
        "files of Lance",
        "; lance.dataset(TABLE).to_table() returns a table, pyarrow.parquet.write_table writes it",
    ),
    ".pt2": Unread(
        "programs of torch.export", "; save the tensors of the module, module.state_dict()"
    ),
    ".bson": Unread("BSON", "; bsondump writes JSON, one value per line"),
    ".shp": Unread("shapefiles", _SHAPES),
    ".ark": Unread("archives of Kaldi", _kaldi),
    ".array_record": Unread("ArrayRecord files", "; write their records with tf.io.TFRecordWriter"),
    ".beton": Unread("files of FFCV", "; write the samples as webdataset or Parquet"),
    **dict.fromkeys((".mp3", ".au", ".caf", ".w64", ".rf64"), Unread("audio", _AUDIO)),
    ".bmp": Unread("images", _PIXELS),
}
_PRINTABLE = frozenset(b"\t\n\r" + bytes(range(32, 127)))
# Fewer bytes of tokens may be printable by chance.
_TEXT_BYTES = 16


def in_place_of(head: bytes, *, markup: bool = True) -> Unread | None:
    """Return a description of a file that replaces another, such as a pointer of Git LFS; or None.

    Args:
        head: its first bytes.
        markup: whether HTML and XML count as such; not for text formats, which may be HTML.
    """
    if re.match(_LFS_POINTER, head):
        return Unread("a pointer of Git LFS", "; git lfs pull fetches the file itself")
    if markup and re.match(_MARKUP, head):
        return _PAGE
    return None


def begins_instead(head: bytes) -> str:
    """Return the end of an error about a file that lacks the beginning of its format.

    >>> begins_instead(b"<!DOCTYPE html>")
    '; it begins like HTML or XML; if a server sent it in place of the file, fetch the file again'
    >>> begins_instead(b"words")
    ''
    """
    found = in_place_of(head)
    return "" if found is None else f"; it begins like {found.what}{found.advice}"


def refuse_pointer(begin: Callable[[int], bytes], size: int | None) -> None:
    """Raise NotThisFormatError if a file, one of several, is a pointer of Git LFS.

    Args:
        begin: returns its first bytes; called only for small files.
        size: its bytes; None for a pipe.
    """
    if size is None or size >= _POINTER_BYTES:
        return
    kind = in_place_of(begin(_POINTER_BYTES), markup=False)
    if kind is not None:
        raise NotThisFormatError(f"begins like {kind.what}{kind.advice}")


def of_beginning(head: bytes) -> Unread | None:
    """Return the kind of file that begins like this; None if it is unknown."""
    if re.match(_WORD2VEC, head):
        return Unread("vectors of word2vec", _VECTORS)
    found = in_place_of(head)
    if found is not None:
        return found._replace(remedy=found.advice + _TABLES) if found is _PAGE else found
    return next(
        (kind for (at, mark), kind in _BEGINNINGS.items() if head.startswith(mark, at)), None
    )


def _archive(head: bytes) -> str | None:
    return next((what for mark, what in _ARCHIVES.items() if head.startswith(mark)), None)


def refuse_other(head: bytes) -> None:
    """Raise NotThisFormatError if a .bin file is not a raw token file."""
    kind = of_beginning(head)
    found = _archive(head) if kind is None else kind.what
    if found is None and len(head) >= _TEXT_BYTES and set(head) <= _PRINTABLE:
        found = "text"
    if found is not None:
        raise NotThisFormatError(
            f"begins like {found}; if it holds tokens, use {option('from', 'tokens')}"
        )


def packed(head: bytes, *, unpacked: bool = False) -> str | None:
    """Return the compression of a file, and advice on it; None if it is not compressed.

    Args:
        head: its first bytes.
        unpacked: whether it was decompressed already where it can be, as pipes are.
    """
    codec = codec_of(head)
    if codec is not None:
        if unpacked:
            return f"still packed with {codec} when it was decompressed once; unpack it first"
        ending = codec_suffix(codec)
        return (
            f"packed with {codec}; unpack it first, or give it a name that ends with {ending}, as "
            f"in .tar{ending}"
        )
    unread = (_CODECS | _ZLIB).items()
    codec = next((name for mark, name in unread if head.startswith(mark)), None)
    if codec is not None:
        return f"packed with {codec}, which lod does not read; unpack it, or pack it with gzip"
    return None


def advice(head: bytes, ending: str, *, unpacked: bool = False) -> str:
    """Return a hint for a file whose format was not recognised.

    Args:
        head: its first bytes.
        ending: of its name, lower case, with the dot.
        unpacked: see `packed`.
    """
    kind = of_beginning(head)
    if kind is not None:
        lines = f"; {option('from', 'text')} reads its lines" if re.match(_MARKUP, head) else ""
        return f"it begins like {kind.what}, which lod does not read{kind.advice}{lines}"
    if ending in _ENDINGS:
        return f"lod does not read {_ENDINGS[ending].what}{_ENDINGS[ending].advice}"
    if re.match(_JSON_SEQUENCE, head):
        json = option("from", "json")
        return f"if it is JSON with the separators of RFC 7464, {json} reads it"
    if head.lstrip()[:1] in (b"[", b"{"):
        json, jsonl = option("from", "json"), option("from", "jsonl")
        return f"if it is JSON, {json} reads a document, {jsonl} one value per line"
    if codec_of(head) is not None:
        return f"it is {packed(head, unpacked=unpacked)}"
    archive = _archive(head)
    if archive is not None:
        return f"it begins like {archive}, which lod does not read; unpack it first"
    text = head[: _TEXT_BYTES * 16]
    if b"\0" in text or any(byte < 32 and byte not in _PRINTABLE for byte in text):
        return (
            "it is binary data of no format that lod knows; "
            f"{by_reader(shell='--from FORMAT', python='format_name=')} says which it is, such as "
            f"{option('from', 'tokens')} for token numbers without a header"
        )
    first = head.partition(b"\n")[0]
    guess = next((name for mark, name in ((b"\t", "tsv"), (b",", "csv")) if mark in first), "text")
    return f"it looks like {guess}: {option('from', guess)}"
