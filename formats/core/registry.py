"""Detects the format of a file, and imports formats when they are used."""

from __future__ import annotations

import errno
import importlib
import os
from functools import cache

from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.core.format import Format
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.table import FOLDERS, PAIRS, SUFFIXES, TABLE, UNFINISHED
from lodcli.formats.storage.compression import codec_of, codec_suffix, without_suffix
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import OptionError, UnsupportedError

_UNREAD_CODECS = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
# Magic numbers of other .bin files. A run of tokens has no magic number, and may begin with one of
# these by chance.
_OTHERS = {
    b"\x7fELF": "a program",
    b"PK\3\4": "a zip file",
    b"\x1f\x8b\x08": "a file packed with gzip",
    b"\x28\xb5\x2f\xfd": "a file packed with zstd",
    **{mark: f"a file packed with {codec}" for mark, codec in _UNREAD_CODECS.items()},
    b"\x89PNG": "an image",
    b"GGUF": "a GGUF model",
    b"\x80\x02": "a pickle",
    **dict.fromkeys((b"\x80\x04\x95", b"\x80\x05\x95"), "a pickle"),
    b"%PDF": "a PDF document",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"SQLite format 3": "an SQLite database",
    b"ORC": "an ORC table",
    b"Obj\x01": "an Avro file",
    b"root\0": "a ROOT file",
    **dict.fromkeys((b"CDF\x01", b"CDF\x02", b"CDF\x05"), "a netCDF 3 file"),
    b"MATLAB 5.0 MAT-file": "a file of MATLAB before 7.3",
    **{b"RIFF": "a WAV or AVI file", b"fLaC": "a FLAC file", b"OggS": "an Ogg file"},
    **dict.fromkeys((b"ID3", b"\xff\xfb"), "an MP3 file"),
}
_AUDIO = "; soundfile.read returns the samples of audio, numpy.save writes them as npy"
# How other programs rewrite some of them.
_REWRITTEN = {
    "a netCDF 3 file": "; rewrite it as HDF5 with nccopy -k nc4",
    "a file of MATLAB before 7.3": "; save it as HDF5 with -v7.3",
    "a pickle": ", as it may run any code; save what is in it as Parquet, npz or JSON",
    "an ORC table": "; pyarrow.orc.read_table reads it, pyarrow.parquet.write_table writes Parquet",
    "an Avro file": "; polars.read_avro reads it, and .write_parquet writes Parquet",
    **dict.fromkeys(("a WAV or AVI file", "a FLAC file", "an Ogg file", "an MP3 file"), _AUDIO),
    "a ROOT file": "; uproot reads its trees as Awkward arrays, ak.to_parquet writes Parquet",
}
_SPARSE = (
    "save data, indices and indptr of its CSR matrix with numpy.savez, and read them with --data "
)
_SPARSE += "data,indices --offsets indptr"
# Files that are known only by their extensions, and how to convert them.
_UNREAD_SUFFIXES = {
    ".arff": "ARFF; aeon's load_from_arff_file reads it, save_to_ts_file writes a .ts file",
    **dict.fromkeys((".svm", ".libsvm", ".svmlight"), f"LIBSVM files; {_SPARSE}"),
    ".mtx": f"Matrix Market files; {_SPARSE}",
    **dict.fromkeys(
        (".conll", ".conllu"),
        "CoNLL files; make a tsv of it, with the number of the sentence as a column, and give "
        "--levels sentence",
    ),
    ".xlsx": "Excel workbooks; save the sheet as CSV UTF-8",
    ".keras": "models of Keras as data; `lod weights` reads the RNNs in them",
    ".onnx": "ONNX models as data; `lod weights` reads the RNNs in them",
}
# Only for binary formats: text may begin with the letter of zlib's marks.
_ZLIB = dict.fromkeys((b"\x78\x01", b"\x78\x9c", b"\x78\xda"), "zlib")
_PRINTABLE = frozenset(b"\t\n\r" + bytes(range(32, 127)))
# Fewer bytes of tokens may be printable by chance.
_TEXT_BYTES = 16


def get(name: str) -> Format:
    """Return the format of that name, built in or of a plug-in."""
    if not isinstance(name, str):
        raise OptionError(f"expected the name of a format, found {type(name).__name__}")
    if name in TABLE:
        return _ours(name)
    from lodcli.formats.catalogue import plugins

    plugged = plugins.get(name)
    if plugged is None:
        known = ", ".join([*TABLE, *plugins.names()])
        raise UnsupportedError(f"no format named {name!r}; there are: {known}")
    return plugged


@cache
def _ours(name: str) -> Format:
    entry = TABLE[name]
    found: Format = getattr(importlib.import_module(entry.module), entry.class_name)()
    return found


def of_name(path: str | os.PathLike[str]) -> str | None:
    """Return the format for the extension of a file name, or None."""
    lower = without_suffix(os.fspath(path).lower())
    for suffix, name in SUFFIXES.items():
        if lower.endswith(suffix):
            return name
    from lodcli.formats.catalogue import plugins

    return plugins.of_ending(lower)


def of_input(source: Input, options: ReadOptions) -> str:
    """Return the format of an input, detected from its content, then its extension.

    HDF5 is plain HDF5 if the options name its datasets.

    Raises:
        NotThisFormatError: the format is not recognised, or the input is empty.
    """
    if source.is_folder:
        return _of_folder(source)
    head = source.head()
    by_name = (_of_pair(source) or of_name(source.path)) if source.path else None
    if not head:
        if by_name is not None and get(by_name).empty_file:
            return by_name
        raise NotThisFormatError("is empty; expected data in some format")
    plugged = by_name is not None and by_name not in TABLE
    if plugged and by_name is not None:
        kind = get(by_name)
        if type(kind).sniff is Format.sniff or kind.sniff(head):
            return by_name
    for name, entry in TABLE.items():
        if entry.detected and get(name).sniff(head):
            if by_name is not None and not plugged and TABLE[by_name].begins_like == name:
                return by_name
            return "hdf5" if name == "lod.h5" and options.data is not None else name
    # HDF5 may begin with a user block, as files of MATLAB do.
    if head.startswith(_MATLAB) or (options.data is not None and by_name in ("lod.h5", "hdf5")):
        return "hdf5"
    if by_name is None:
        from lodcli.formats.catalogue import plugins

        found = plugins.of_content(head)
        if found is None:
            unread = _UNREAD_SUFFIXES.get(source.path.suffix.lower() if source.path else "")
            advice = f"lod does not read {unread}" if unread else _advice(head) + plugins.advice()
            raise NotThisFormatError(f"format not recognised; {advice}")
        return found
    if plugged:
        return by_name
    packed = _packed(head) if get(by_name).binary and by_name != "tokens" else None
    if packed is not None:
        raise NotThisFormatError(f"has the extension of {by_name} but is {packed}")
    if TABLE[by_name].announced:
        raise NotThisFormatError(
            f"has the extension of {by_name} but does not begin like it; it is damaged, or has "
            "another format; choose it with --from"
        )
    if by_name == "tokens":
        _refuse_other(head)
    return by_name


_MATLAB = b"MATLAB 7.3 MAT-file"


def _refuse_other(head: bytes) -> None:
    """Raise NotThisFormatError if a .bin file is not a raw token file."""
    found = next((what for mark, what in _OTHERS.items() if head.startswith(mark)), None)
    if found is None and len(head) >= _TEXT_BYTES and set(head) <= _PRINTABLE:
        found = "text"
    if found is not None:
        raise NotThisFormatError(f"begins like {found}; if it holds tokens, use --from tokens")


def _packed(head: bytes) -> str | None:
    """Return how a file is compressed and what to do, None if not compressed."""
    codec = codec_of(head)
    if codec is not None:
        ending = codec_suffix(codec)
        return (
            f"packed with {codec}; unpack it first, or give it a name that ends with {ending}, as "
            f"in .tar{ending}"
        )
    unread = (_UNREAD_CODECS | _ZLIB).items()
    codec = next((name for mark, name in unread if head.startswith(mark)), None)
    if codec is not None:
        return f"packed with {codec}, which lod does not read; unpack it, or pack it with gzip"
    return None


def _advice(head: bytes) -> str:
    """Return a hint for a file whose format was not recognised, guessed from its content."""
    if head.lstrip()[:1] in (b"[", b"{"):
        return "if it is JSON, --from json reads a document, --from jsonl one value per line"
    if codec_of(head) is not None:
        return f"it is {_packed(head)}"
    what = next((what for mark, what in _OTHERS.items() if head.startswith(mark)), None)
    if what is not None:
        remedy = "; unpack it first" if "packed" in what else _REWRITTEN.get(what, "")
        return f"it begins like {what}, which lod does not read{remedy}"
    text = head[: _TEXT_BYTES * 16]
    if b"\0" in text or any(byte < 32 and byte not in _PRINTABLE for byte in text):
        return "it is binary data of no format that lod knows; --from FORMAT says which it is"
    first = head.partition(b"\n")[0]
    guess = next((name for mark, name in ((b"\t", "tsv"), (b",", "csv")) if mark in first), "text")
    return f"it looks like {guess}: --from {guess}"


def _of_folder(source: Input) -> str:
    if not source.lists:
        return "lod.dataset"  # the only format of folders that is read behind URLs
    for name, found in FOLDERS.items():
        if source.has_beside(name):
            return found
    if source.has_beside(UNFINISHED):
        raise NotThisFormatError(
            "is a dataset without its manifest: a command with --jobs is not finished; run it again"
        )
    # No format is recognised: the same error as for opening a folder as a file.
    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source.label)


def _of_pair(source: Input) -> str | None:
    assert source.path is not None
    other, found = PAIRS.get(source.path.suffix.lower(), ("", None))
    return found if found and source.has_beside(source.path.stem + other) else None
