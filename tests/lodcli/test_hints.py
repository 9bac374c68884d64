"""Suggestions in error messages, and references from Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from itertools import product
from pathlib import Path

import click
import h5py
import numpy as np
import pytest

import lodcli
from lodcli.commands import TABLE
from lodcli.formats.core import io
from lodcli.kernels.errors import LodError, SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.rnn.cells.registry import weights_class
from lodcli.kernels.suggestions import did_you_mean
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.failures import explained
from lodcli.shell.group import group
from lodcli.shell.remedies import CONVERTING, ELSEWHERE, OPTIONS_ELSEWHERE
from tests.lodcli.conftest import Lod, read_jsonl, write_jsonl
from tests.lodcli.test_all_commands import leaves

FILES = {
    "words.log": b"a b c\nsecond line\n",
    "a b.csv": b"x\n1\n",
    "comma.log": b"user,day\nann,1\n",
    "tab.log": b"user\tday\nann\t1\n",
    "list.log": b"[1, 2]\n[3]\n",
    "rows.svm": b"1 3:0.5 7:1\n",
    "rnn.onnx": b"\x08\x08\x12\x07",
    "frame.pkl": b"\x80\x05\x95\0\0",
    "table.dat": b"Obj\x01\x04",
    "events.root": b"root\0\0\xf3\xc0",
    "song.wav": b"RIFF$\x08\0\0WAVEfmt \x10",
    "photo.webp": b"RIFF$\x08\0\0WEBPVP8 ",
    "film.mov": b"\0\0\0\x14ftypqt  ",
    "photo.heic": b"\0\0\0\x18ftypheic",
    "table.rds": b"\x1f\x8b\x08\0\0\0\0\0",
    "packed.pkl": b"\x1f\x8b\x08\0\0\0\0\0",
    "old.pkl": b"(lp0\nI1\naI2\na.",
    "params.msgpack": b"\x81\xa1a\xc7\x20\1",
    "four.mat": b"\0\0\0\0\2\0\0\0\2\0\0\0\0\0\0\0\2\0\0\0x\0",
    "data.duckdb": b"\1\2\3\4\5\6\7\0DUCK\x40\0",
    "data.mdb": bytes(16) + b"\xde\xc0\xef\xbe\1\0\0\0",
    "table.parquet": b"Obj\x01\x04",
    "song.mp3": b"\xff\xfb\x90\x00",  # no ID3
    "song.flac": b"fLaC\0\0\0\x22",
    "lid.bin": b"\xba\x16\x4f\x2f\x0c\0\0\0\x64\0\0\0",
    "vectors.bin": b"2 3\nthe \0\0\x80?",
    "graphs.bin": b"\x3f\xa1\xb4\x46\xf0\x4f\x2e\xdd\2\0\0\0\0\0\0\0",
    "ggml.bin": b"lmgg\x80\xca\0\0",
    "kenlm.bin": b"mmap lm http://kheafield.com/code format version 5\n\0",
    "data.array_record": b"\0\1\2\3",
    "roads.shp": b"\0\0\x27\x0a",
    "roads.fgb": b"fgb\x03fgb\x01",
    "feats.ark": b"u1 \0BFM \4\3\0\0\0",
    "dump.bson": b"\x16\0\0\0\x10i\0",
    "raw.npy": b"\5\0\6\0P\xc4\7\0",
    "roads.geojsons": b'\x1e{"type": "Feature"}\n\x1e{"type": "Feature"}\n',
    "paper.pdf": b"%PDF-1.7\n%\xe2\xe3",
    "sheet.xlsx": b"PK\3\4\x14\0\6\0",
    "photo.jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "shard.gzip": b"\x1f\x8b\x08\0\0\0\0\0",
    "shard.txz": b"\xfd7zXZ\0\0\4",
    "data.sqlite": b"SQLite format 3\0\x10\0",
    "five.mat": b"MATLAB 5.0 MAT-file, Platform: posix\0\0",
    "classic.nc": b"CDF\x01\0\0\0\0\0\0\0\n",
    **dict.fromkeys(
        (
            *("weights.safetensors", "days.csv", "days.jsonl", "words.txt", "model.pt"),
            *("tokens.bin", "lines.jsonl.gz", "w.onnx", "w.keras", "w.h5"),
        ),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
    ),
    "page.parquet": b"\n<!DOCTYPE html><html><body>Not Found</body></html>",
    "error.pt": b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>',
    "page.txt": b"<html>\n",
    **dict.fromkeys(
        ("page.csv", "page.tsv", "page.jsonl", "page.bin", "page"),
        b"\xef\xbb\xbf<!DOCTYPE html>\n<html><body>Not Found</body></html>",
    ),
    "array.b2nd": b"\x9e\xa8b2frame\0\xd2",
    "store.b2z": b"PK\3\4\x14\0\6\0",
    "drive.mcap": b"\x89MCAP0\r\n\1",
    "drive.bag": b"#ROSBAG V2.0\n",
    "value.cbor": b"\xd9\xd9\xf7\xa1aa\1",
    "table.vortex": b"VTXF\0\0\0\0",
    "part.lance": b"\0\1\2\3",
    "program.pt2": b"PK\3\4\x14\0\6\0",
    "unknown.dat": bytes(range(1, 200)),
    "words.jsonl": b'{"ids": [1, 2], "tags": [3]}\n',
    "one.jsonl": b"[1, 2]\n[3]\n",
    "words.npz": b"",
}


@pytest.fixture
def files(folder: Path) -> Path:
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    lod = LoD.from_lengths([[1, 2]])
    tensors = {"a b": LoDTensor(np.arange(3), lod), "c": LoDTensor(np.arange(3.0), lod)}
    io.write("two.lod.h5", dict(tensors))
    with h5py.File("seven.mat", "w", userblock_size=512) as file:
        file["x"] = [[1.5], [2]]
    with Path("seven.mat").open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64")
    for name, size in (("block.h5", 512), ("block.lod.h5", 1024), ("block.dat", 2048)):
        with h5py.File(name, "w", userblock_size=size) as file:
            file["x"] = [1.5, 2]
    return folder


# Of a command line, its exit code, and what its one line on standard error says.
HINTS = [
    ("inspect words.log", 1, "format not recognised; it looks like text: --from text"),
    ("inspect comma.log", 1, "format not recognised; it looks like csv: --from csv"),
    ("inspect tab.log", 1, "format not recognised; it looks like tsv: --from tsv"),
    ("inspect list.log", 1, "format not recognised; if it is JSON, --from json reads a document"),
    ("inspect roads.geojsons", 1, "JSON with the separators of RFC 7464, --from json reads it"),
    ("inspect paper.pdf", 1, "not recognised; it begins like a PDF document, which lod does not"),
    ("inspect sheet.xlsx", 1, "format not recognised; lod does not read Excel workbooks; save the"),
    ("inspect rows.svm", 1, "not read LIBSVM files; save data, indices and indptr of its CSR mat"),
    ("inspect rnn.onnx", 1, "lod does not read ONNX models as data; `lod weights` reads the RNNs"),
    ("inspect frame.pkl", 1, "it begins like a pickle, which lod does not read, as it may run any"),
    ("inspect table.dat", 1, "like an Avro file, which lod does not read; polars.read_avro reads"),
    ("inspect events.root", 1, "a ROOT file, which lod does not read; uproot reads its trees as"),
    ("inspect song.wav", 1, "like a WAV file, which lod does not read; soundfile.read returns"),
    ("inspect photo.webp", 1, "like an image, which lod does not read; PIL.Image.open reads the"),
    ("inspect film.mov", 1, "like an MP4 or QuickTime file, which lod does not read; PyAV returns"),
    ("inspect table.rds", 1, "lod does not read files of R; in R, arrow::write_parquet writes a"),
    ("inspect packed.pkl", 1, "lod does not read pickles, as they may run any code; save what is"),
    ("inspect old.pkl", 1, "lod does not read pickles, as they may run any code; save what is in"),
    ("inspect params.msgpack", 1, "lod does not read MessagePack; flax.serialization.msgpack_rest"),
    ("inspect four.mat", 1, "lod does not read files of MATLAB before 7.3; save it as HDF5 with"),
    ("inspect data.duckdb", 1, "like a DuckDB database, which lod does not read; in DuckDB, COPY"),
    ("inspect data.mdb", 1, "like an LMDB database, which lod does not read; write its values as"),
    ("inspect table.parquet", 1, "has the extension of parquet but begins like an Avro file; pol"),
    ("inspect song.mp3", 1, "it begins like an MP3 file"),
    ("inspect photo.heic", 1, "it begins like an image"),
    ("inspect song.flac", 1, "of audio, numpy.save writes them as npy"),
    (
        "inspect shard.gzip",
        1,
        "it is packed with gzip; unpack it first, or give it a name that ends with .gz",
    ),
    ("inspect shard.txz", 1, "it begins like a file packed with xz, which lod does not read"),
    ("inspect photo.jpeg", 1, "format not recognised; it begins like an image, which lod does"),
    ("inspect data.sqlite", 1, "not recognised; it begins like an SQLite database, which lod"),
    ("inspect seven.mat", 2, "there are: /x (float64, 2 x 1) (lod convert has --data and --off"),
    ("inspect block.h5", 2, "there are: /x (float64, 2) (lod convert has --data and --offsets and"),
    ("inspect block.lod.h5", 2, "there are: /x (float64, 2) (lod convert has --data and --offset"),
    ("inspect block.dat", 2, "there are: /x (float64, 2) (lod convert has --data and --offsets an"),
    ("inspect weights.safetensors", 1, "extension of safetensors but begins like a pointer of Gi"),
    ("inspect days.csv", 1, "has the extension of csv but begins like a pointer of Git LFS; git l"),
    ("inspect days.jsonl", 1, "has the extension of jsonl but begins like a pointer of Git LFS;"),
    ("inspect words.txt", 1, "has the extension of text but begins like a pointer of Git LFS; gi"),
    ("inspect words.txt", 1, "git lfs pull fetches the file itself; --from text reads its lines"),
    ("inspect model.pt", 1, "has the extension of torch but begins like a pointer of Git LFS; git"),
    (
        "inspect tokens.bin",
        1,
        "extension of tokens but begins like a pointer of Git LFS; git lfs p",
    ),
    (
        "inspect lines.jsonl.gz",
        1,
        "is named as if compressed (.gz) but begins like a pointer of Gi",
    ),
    ("weights weights.safetensors", 1, "is not a weights file: it begins like a pointer of Git LF"),
    (
        "weights model.pt",
        1,
        "is not a weights file: it begins like a pointer of Git LFS; git lfs p",
    ),
    (
        "weights w.onnx",
        1,
        "is not a weights file: it begins like a pointer of Git LFS; git lfs pull",
    ),
    (
        "weights w.keras",
        1,
        "is not a weights file: it begins like a pointer of Git LFS; git lfs pul",
    ),
    (
        "weights w.h5",
        1,
        "is not a weights file: it begins like a pointer of Git LFS; git lfs pull f",
    ),
    (
        "weights error.pt",
        1,
        "a weights file: it begins like HTML or XML; if a server sent it in pla",
    ),
    (
        "inspect page.csv",
        1,
        "has the extension of csv but begins like HTML or XML; if a server sen",
    ),
    (
        "inspect page.tsv",
        1,
        "has the extension of tsv but begins like HTML or XML; if a server sen",
    ),
    ("inspect page.jsonl", 1, "has the extension of jsonl but begins like HTML or XML; if a serve"),
    ("inspect page.bin", 1, "has the extension of tokens but begins like HTML or XML; if a server"),
    ("inspect page", 1, "and .to_parquet writes Parquet; --from text reads its lines"),
    ("inspect page.parquet", 1, "extension of parquet but begins like HTML or XML; if a server s"),
    ("inspect error.pt", 1, "has the extension of torch but begins like HTML or XML; if a server"),
    ("inspect array.b2nd", 1, "like data of Blosc2, which lod does not read; blosc2.open(FILE)[:"),
    ("inspect store.b2z", 1, "lod does not read data of Blosc2; blosc2.open(FILE)[:] returns an"),
    ("inspect drive.mcap", 1, "like messages of robots (ROS, MCAP), which lod does not read; ros"),
    ("inspect drive.bag", 1, "like messages of robots (ROS, MCAP), which lod does not read; rosb"),
    ("inspect value.cbor", 1, "it begins like CBOR, which lod does not read; cbor2.load reads it"),
    ("inspect table.vortex", 1, "like a Vortex file, which lod does not read; write its rows to a"),
    ("inspect part.lance", 1, "lod does not read files of Lance; lance.dataset(TABLE).to_table()"),
    ("inspect program.pt2", 1, "lod does not read programs of torch.export; save the tensors of"),
    ("inspect five.mat", 1, "MATLAB before 7.3, which lod does not read; save it as HDF5 with"),
    ("inspect classic.nc", 1, "netCDF 3 file, which lod does not read; rewrite it as HDF5 with"),
    ("inspect unknown.dat", 1, "it is binary data of no format that lod knows; --from FORMAT says"),
    ("inspect lid.bin", 1, "begins like a fastText model; if it holds tokens, use --from tokens"),
    ("inspect vectors.bin", 1, "begins like vectors of word2vec; if it holds tokens, use --from"),
    ("inspect graphs.bin", 1, "begins like graphs of DGL; if it holds tokens, use --from tokens"),
    ("inspect ggml.bin", 1, "begins like a GGML model; if it holds tokens, use --from tokens"),
    ("inspect kenlm.bin", 1, "begins like a KenLM model; if it holds tokens, use --from tokens"),
    (
        "inspect data.array_record",
        1,
        "lod does not read ArrayRecord files; write their recor",
    ),
    (
        "inspect roads.shp",
        1,
        "lod does not read shapefiles; geopandas.read_file reads it, an",
    ),
    ("inspect roads.fgb", 1, "like a FlatGeobuf file, which lod does not read; geopandas.read_fi"),
    ("inspect feats.ark", 1, "lod does not read archives of Kaldi; kaldiio.load_ark returns their"),
    ("inspect dump.bson", 1, "lod does not read BSON; bsondump writes JSON, one value per line"),
    ("inspect raw.npy", 1, "choose it with --from, such as tokens for token numbers without a he"),
    ("convert one.jsonl x.lod.h5 --compress brotli", 2, "'--compress': 'brotli' is not one of"),
    (
        "convert one.jsonl --to jsnl",
        2,
        "no format 'jsnl'; did you mean jsonl or json?; see lod convert --help",
    ),
    ("convert one.jsonl x.npz --compress", 4, "no option --compress; it is for lod.h5, lod.data"),
    ("convert one.jsonl x.npz --form list", 4, "no option --form; it is for torch"),
    ("convert one.jsonl x.lod.h5 --form jsonl", 2, "is a format: write --from or --to jsonl"),
    ("inspect one.jsonl --form jsonl", 2, "'jsonl' is a format: write --from jsonl; see lod insp"),
    ("head one.jsonl -n x", 2, "'x' is not a whole number"),
    ("inspect --head x one.jsonl", 2, "'x' is not a whole number"),
    ("sample one.jsonl -5", 2, "AMOUNT: expected a number of items such as 100"),
    ("filter one.jsonl data == 3", 2, "arguments (==, 3); put the expression in quotes; see"),
    ("train one.jsonl --target y", 2, "no option '--target'; did you mean --labels?; see"),
    ("filter one.jsonl data % 3", 2, "arguments (%, 3); put the expression in quotes; see"),
    ("filter one.jsonl not data", 2, "argument (data); put the expression in quotes; see"),
    ("filter - a b", 2, "got unexpected extra argument (b); see"),
    ("sort one.jsonl --by data + 1", 2, "arguments (+, 1); put the expression in quotes; see"),
    ("inspect one.jsonl data + 1", 2, "got unexpected extra arguments (data, +, 1); see"),
    ("filter one.jsonl a b", 2, "got unexpected extra argument (b); see"),
    ("inspect one.jsonl -5", 2, "got unexpected extra argument (-5); see"),
    ("head -5 one.jsonl", 2, "argument (one.jsonl); the number of items goes after -n: -n 5;"),
    ("tail one.jsonl 12", 2, "extra argument (12); the number of items goes after -n: -n 12;"),
    ("head one.jsonl words.jsonl -n 3", 2, "argument (words.jsonl); a pattern in quotes, such as"),
    ("convert one.jsonl words.jsonl x.npz", 2, "argument (x.npz); a pattern in quotes, such as"),
    ("filter one.jsonl words.jsonl data>1", 2, "(data>1); a pattern in quotes, such as '*.csv',"),
    ("filter one.jsonl words.jsonl data > 1", 2, "(data, >, 1); a pattern in quotes, such as"),
    ("head one.jsonl words.jsonl 3", 2, "(words.jsonl, 3); a pattern in quotes, such as"),
    ("head one.jsonl x.npz", 2, "(x.npz); the file to write goes after -o: -o x.npz; see lod head"),
    ("filter one.jsonl data>1 x.lod.h5", 2, "; the file to write goes after -o: -o x.lod.h5"),
    ("weights x.pt y.safetensors", 2, "; the file to write goes after -o: -o y.safetensors; see"),
    ("apply softmax one.jsonl x.npz", 2, "found 2; the file to write goes after -o: -o x.npz; see"),
    ("apply softmax one.jsonl x.npz -o y.npz", 2, "found 2; see lod apply softmax --help"),
    ("head one.jsonl x.npz -o y.npz", 2, "extra argument (x.npz); see lod head --help"),
    ("head one.jsonl x.orc", 2, "extra argument (x.orc); see lod head --help"),
    ("head one.jsonl x*.csv", 2, "extra argument (x*.csv); see lod head --help"),
    ("head one.jsonl s3://b/x.npz", 2, "extra argument (s3://b/x.npz); see lod head --help"),
    ("plot one.jsonl x.npz -o x.svg", 2, "extra argument (x.npz); see lod plot --help"),
    ("weights one.jsonl words.jsonl", 2, "extra argument (words.jsonl); see lod weights --help"),
    ("weights one.jsonl x.npz", 2, "extra argument (x.npz); see lod weights --help"),
    ("train one.jsonl words.npz", 2, "extra argument (words.npz); see lod train --help"),
    ("train one.jsonl x.npz", 2, "extra argument (x.npz); see lod train --help"),
    ("train one.jsonl x.safetensors", 2, "; the file to write goes after -o: -o x.safetensors;"),
    ("plan one.jsonl x.npz --tokens 9", 2, "; the file to write goes after -o: -o x.npz; see lod"),
    ("plan one.jsonl x.h5 --tokens 9", 2, "; the file to write goes after -o: -o x.h5; see lod"),
    ("head one.jsonl x.hdf5", 2, "; the file to write goes after -o: -o x.hdf5; see lod head"),
    ("plan one.jsonl x.svg --tokens 9", 2, "extra argument (x.svg); see lod plan --help"),
    ("apply softmax one.jsonl y", 2, "found 2; a tensor of a file is one.jsonl::y; see lod"),
    ("apply softmax y one.jsonl", 2, "found 2; a tensor of a file is one.jsonl::y; see lod"),
    ("shard one.jsonl -o x", 2, "no option '-o'; the folder to write goes after the file; see"),
    ("convert one.jsonl x.npz y.npz", 2, "got unexpected extra argument (y.npz); see lod convert"),
    ("convert one.jsonl x.npz y", 2, "got unexpected extra argument (y); see"),
    ("slice 0 one.jsonl", 2, "the file goes first: lod slice one.jsonl 0; see lod slice --help"),
    ("sample 50% two.lod.h5::c", 2, "the file goes first: lod sample two.lod.h5::c 50%; see"),
    ("select ids words.jsonl", 2, "the file goes first: lod select words.jsonl ids; see lod sel"),
    ("drop ids tags words.jsonl", 2, "the file goes first: lod drop words.jsonl, then the others"),
    ("cast ids int32 words.jsonl", 2, "file goes first: lod cast words.jsonl, then the others"),
    ("rename a=b words.jsonl", 2, "the file goes first: lod rename words.jsonl a=b; see lod ren"),
    ("select wrds.jsonl words.jsonl", 3, "wrds.jsonl: no such file; did you mean words.jsonl?"),
    ("inspect a b.csv", 2, "extra argument (b.csv); a name with blanks goes in quotes: 'a b.csv'"),
    ("inspect words.jsonl ids", 2, "(ids); a tensor of a file is words.jsonl::ids; see lod ins"),
    ("sort words.jsonl ids", 2, "extra argument (ids); a key goes after --by: --by ids; see"),
    ("sort --by ids desc x.csv", 2, "(x.csv); lod sort --by x puts the least first, --by -x the"),
    ("group words.jsonl --by a b", 2, "(b); several names are joined by commas: --by a,b; see"),
    ("group --by a b words.jsonl", 2, "several names are joined by commas: --by a,b; see lod"),
    ("group words.jsonl --by a --agg b", 2, "'--agg'; lod group FILE --by KEY | lod apply 'me"),
    ("convert one.jsonl comma.log x.npz", 2, "reads one file: lod concat one.jsonl comma.log -o"),
    ("convert -i one.jsonl x.npz", 2, "'-i'; the file to read goes without an option; see lod"),
    ("split one.jsonl --by fractions .8 .2 -o {a,b}.npz", 2, "commas: --by fractions .8,.2; see"),
    ("split one.jsonl --by count=3 -o {a,b}.npz", 2, "'count=3'; none has a name; use a number; w"),
    ("split one.jsonl --by count 3 -o a.npz b.npz", 2, "(b.npz); quote the pattern of -o, as in"),
    ("inspect one.jsonl --column ids", 2, "'--column'; FILE::NAME chooses one tensor, lod conv"),
    ("print one.jsonl", 2, "no command 'print'; lod inspect FILE describes a file, lod head FILE"),
    ("apply one.jsonl softmax -o x.npz", 2, "the op goes first: lod apply softmax one.jsonl; see"),
    ("apply data*2 one.jsonl --then sum -o x.npz", 2, "--then needs --into NAME before it, a name"),
    ("inspect one.jsonl" + " x" * 99, 2, ", x, x and 79 more); see lod inspect --help"),
    ("inspect -5", 3, "lod inspect: -5: no such file"),
    ("diff one.jsonl paper.pdf", 1, "lod diff: paper.pdf: format not recognised"),
    ("select words.jsonl ids,tags -o x.npz", 2, "no tensor named 'ids,tags'; give each name separ"),
    ("select words.jsonl words.jsonl::tags", 2, "'words.jsonl::tags'; give its name alone: tags"),
    ("merge one.jsonl two.lod.h5::d -o x.npz", 2, "lod merge: two.lod.h5: no tensor named 'd'"),
    ("sort two.lod.h5::c --level 1 -o x.npz", 2, "c: no level 1: there is 1 level"),
    (
        "slice one.jsonl 0,1,2 -o x.lod.h5",
        2,
        "expected at most 2: data has 1 level from level 0 down, and the rows",
    ),
    ("convert one.jsonl x.lod.h5 --levels a,b", 4, "the lines have 1 level, found 2 names"),
    ("weights two.lod.h5", 1, "two.lod.h5: holds no weights of an RNN: "),
    ("apply mean two.lod.h5 -o x.npz", 2, "choose one: 'two.lod.h5::a b' two.lod.h5::c"),
    ("unpack two.lod.h5 -o x.lod.h5", 2, "choose one: 'two.lod.h5::a b' two.lod.h5::c"),
    ("head one.jsonl --isolat", 2, "no option '--isolat'; did you mean --isolate?; see"),
    *(
        (
            f"{one} --columns ids",
            2,
            "no option '--columns'; FILE::NAME chooses one tensor, lod convert --columns several",
        )
        for one in ("inspect one.jsonl", "head one.jsonl", "filter one.jsonl 1", "apply sum x.npz")
    ),
    ("slice one.jsonl 0 --wide", 2, "no option '--wide'; lod convert has --wide; see lod slice"),
    ("head one.jsonl --form jsonl", 2, "no option '--form'; did you mean --from or --force?; see"),
    ("head one.jsonl --vocab v", 2, "'--vocab'; lod convert and lod cast have --vocab; see"),
    (
        "train one.jsonl --vocab v",
        2,
        "no option '--vocab'; did you mean --vocabulary? lod convert and lod cast have --vocab; s",
    ),
    ("inspect one.jsonl --field ids", 2, "no option '--field'; FILE::NAME chooses one tensor, lo"),
    ("head one.jsonl --item 1", 2, "no option '--item'; did you mean --items?; see"),
    ("--json inspect one.jsonl", 2, "no option '--json' of lod itself; options of a command go af"),
    (
        "-o x.npz convert one.jsonl",
        2,
        "no option '-o' of lod itself; options of a command go after",
    ),
    ("--jsn", 2, "no option '--jsn'; see"),
    ("trial one.jsonl", 2, "no command 'trial'; did you mean tail?"),
    ("qqq one.jsonl", 2, "no command 'qqq'; there are: inspect, view, plot, "),
    ("SLICE one.jsonl", 2, "no command 'SLICE'; did you mean slice?"),
    ("cast one.jsonl data:int32 -o x.npz", 2, "no dtype 'data:int32'; write data=int32"),
    ("cast one.jsonl a:category -o x.npz", 2, "no dtype 'a:category'; write a=category"),
    (
        "select one.jsonl data,b -o x.npz",
        2,
        "'data,b'; give each name separately; there are: data",
    ),
    ("sort one.jsonl --descending", 2, "no option '--descending'; did you mean --reverse?; see"),
    ("convert one.jsonl --format npz", 2, "no option '--format'; did you mean --to or --from?"),
    ("head one.jsonl --desc", 2, "no option '--desc'; see lod head --help"),
    ("run-rnn one.jsonl --model m", 2, "no option '--model'; did you mean --weights?; see"),
    ("cat one.jsonl", 2, "no command 'cat'; lod convert FILE --to jsonl prints items, lod concat"),
    ("uniq one.jsonl", 2, "no command 'uniq'; lod group FILE --by KEY --keep first keeps"),
    ("help slce", 2, "no command 'slce'; did you mean slice?"),
    ("sum one.jsonl", 2, "no command 'sum'; did you mean lod apply sum?"),
    ("version", 2, "no command 'version'; did you mean --version?"),
    ("split one.jsonl --by fraction 0.5,0.5 -o {a,b}.npz", 2, "did you mean fractions?; see"),
    ("split one.jsonl --by item 3 -o {a,b}.npz", 2, "--by item: a value goes only after count, s"),
    ("split one.jsonl x --by count 3 -o {a,b}.npz", 2, "argument (x); see lod split --help"),
    ("bench kernel", 2, "no command 'kernel'; did you mean kernels?"),
    (
        "apply -x one.jsonl",
        2,
        "no option '-x'; if this is the negative of a tensor, write '-(NAME)';",
    ),
    ("apply -o x.npz sum one.jsonl", 2, "no option '-o' before the op; the op goes first; see"),
    ("apply --into y sum one.jsonl", 2, "no option '--into' before the op; the op goes first; see"),
    ("filter one.jsonl -d", 2, "did you mean --separator? if this is the negative of a tensor, w"),
    ("apply -- sum one.jsonl -x", 2, "no option '-x'; see lod apply sum --help"),
    ("apply --", 2, "expected OP or EXPRESSION; see lod apply --help"),
    (
        "apply x+1 one.jsonl --into y --then -x",
        2,
        "--then needs an expression; if this is the negative of a tensor, write '-(NAME)'; see",
    ),
    ("apply x+1 one.jsonl --into y --then -o y.npz", 2, "--then needs an expression; see lod"),
    ("apply sum -x one.jsonl", 2, "no option '-x'; see lod apply sum --help"),
    (
        "filter one.jsonl -xyz",
        2,
        "no option '-x'; if this is the negative of a tensor, write '-(N",
    ),
    ("sort one.jsonl -k data", 2, "no option '-k'; did you mean --by?; see"),
    ("sample one.jsonl -n 5", 2, "no option '-n'; write a number, or a share such as 10%; see"),
    ("sample one.jsonl --frac .5", 2, "no option '--frac'; write a number, or a share such as"),
    ("filter one.jsonl --where data>1", 2, "'--where'; the expression goes after the file; see"),
    ("select one.jsonl --columns data", 2, "'--columns'; the names go after the file; see"),
    ("plan one.jsonl --batch-size 8", 2, "'--batch-size'; did you mean --tokens?; see"),
    ("apply data+1 one.jsonl --as x", 2, "no option '--as'; did you mean --into?; see"),
    ("apply data one.jsonl", 2, "no op 'data'; lod apply --list shows all; lod select FILE NAME w"),
    ("inspect one.jsonl:data", 3, "one.jsonl:data: no such file; a tensor is one.jsonl::data"),
    (
        "one.jsonl",
        2,
        "no command 'one.jsonl'; a command goes before the file, as in lod inspect one",
    ),
    ("train one.jsonl -o m.safetensors --lr a", 2, "'--lr': 'a' is not a number; see lod train"),
    ("validate one.jsonl", 2, "no command 'validate'; lod verify FILE checks every byte"),
    ("list one.jsonl", 2, "no command 'list'; lod inspect FILE counts items and rows"),
    ("sort one.jsonl -x", 2, "no option '-x'; see lod sort --help"),
    ("bench x.json", 2, "no command 'x.json'; there are: convert, io, kernels, levels, linear,"),
    ("bench kernels x.json", 2, "; the file to write goes after -o: -o x.json; see lod bench kern"),
    ("bench rnn --op sum", 2, "no option '--op'; see"),
    ("apply topk -k 1 one.jsonl", 2, "no option '-k'; did you mean --k?"),
    ("head one.jsonl -n", 2, "option '-n' requires an argument; see lod head --help"),
    ("inspect one.jsonl --from jsn", 2, "no format 'jsn'; did you mean json or jsonl?; see"),
    ("head one.jsonl --to xls", 2, "no format 'xls'; lod convert --formats lists all; see"),
    ("head one.jsonl --to lods", 2, "no format 'lods'; did you mean lod.stream?; see"),
    ("head one.jsonl -o x.xyz", 2, "x.xyz: unknown file extension; choose a format with --to"),
    ("plan one.jsonl --tokens 9 -o x.xyz", 2, "unknown file extension; name the format by the"),
    ("plan one.jsonl --tokens 9 -o x.npz::a", 2, "takes no ::NAME: write x.npz"),
    ("head one.jsonl -o x.npz::a", 2, "x.npz::a: a file to write takes no ::NAME: write x.npz"),
    ("head one.jsonl -o x.xyz::a", 2, "x.xyz::a: unknown file extension; choose a format"),
    ("head one.jsonl -o x.josnl.gz", 2, "unknown file extension; did you mean .jsonl?; choose"),
    ("head one.jsonl -o x.parqet", 2, "unknown file extension; did you mean .parquet?; choose"),
    ("slice one.jsonl 1,x -o x.npz", 2, "'x' in '1,x' is not an item or a range of items; write"),
    (
        "inspect two.lod.h5 --level verse",
        2,
        "no level named 'verse'; none has a name; use a number",
    ),
    ("schema inspct", 2, "no command 'inspct'; did you mean inspect?"),
    ("completion bsh", 2, "'SHELL': 'bsh' is not one of 'bash', 'zsh', 'fish'; did you mean"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lod head one.jsonl | lod inspect", "'SOURCE'; - reads standard input; see"),
        ("lod inspect < one.jsonl", "'SOURCE'; - reads standard input; see"),
        ("lod head one.jsonl | lod slice 0,1", "reads standard input: lod slice - 0,1; see"),
        ("lod head one.jsonl | lod filter 'x>1'", "standard input: lod filter - 'x>1'; see"),
        ("lod head one.jsonl | lod select a", "reads standard input: lod select - a; see"),
        ("lod head one.jsonl | lod select a b", "relative to .*; - reads standard input\n"),
        ("lod inspect < /dev/null", "'SOURCE'; see"),
        ("lod head one.jsonl | lod slice one.jsonl", "'BRANCH'; see"),
    ],
)
def test_a_piped_command_names_standard_input(
    line: str, said: str, shell: Lod, files: Path
) -> None:
    done = shell(f"{line} > /dev/null")
    assert done.code in (2, 3)
    assert re.search(said, done.stderr), done.stderr


@pytest.mark.parametrize(("line", "code", "said"), HINTS, ids=[line for line, _, _ in HINTS])
def test_an_error_says_what_was_meant(
    lod: Lod, files: Path, line: str, code: int, said: str
) -> None:
    done = lod(*line.split())
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(Path().glob("x.*"))


@pytest.mark.parametrize("line", ["inspect", "apply sum", "verify", "inspect --json"])
def test_a_hint_of_another_command_names_it(lod: Lod, files: Path, line: str) -> None:
    with h5py.File("theirs.h5", "w") as file:
        file["x"] = np.arange(3)
    done = lod(*line.split(), "theirs.h5")
    assert done.code == 1
    assert "(lod convert has --data and --offsets and" in done.stderr
    done = lod("convert", "theirs.h5", "ours.lod.h5")
    assert "lod convert has" not in done.stderr
    assert lod("convert", "theirs.h5", "ours.lod.h5", "--data", "x").code == 0


def test_values_and_names_of_a_file_are_no_options(lod: Lod, folder: Path) -> None:
    Path("v.csv").write_text("a\n1\n--vocab\n")
    done = lod("inspect", "v.csv")
    assert "found '--vocab'; " in done.stderr
    assert done.stderr.endswith(" (lod convert has --columns)\n")


def test_an_expression_may_begin_with_a_minus_and_a_parenthesis(lod: Lod, files: Path) -> None:
    for one in ("-(length())", "-(length() > 1)"):
        assert lod("filter", "one.jsonl", one, "-o", "x.lod.h5", "--force").code == 0
    assert lod("apply", "-(data)", "one.jsonl", "-o", "x.npz").code == 0


def test_a_file_may_be_named_like_a_negative_number(lod: Lod, files: Path) -> None:
    assert lod("convert", "one.jsonl", "-5", "--to", "npz").code == 0
    assert Path("-5").exists()
    assert lod("inspect", "-5").stdout.startswith("-5: npz")


def test_read_takes_a_reference_as_the_shell_does(files: Path) -> None:
    found = lodcli.read("two.lod.h5::a b")
    assert isinstance(found, LoDTensor)
    assert found.to_list() == [[0], [1, 2]]
    with pytest.raises(SelectionError, match="no tensor named 'd'; there are: a b, c"):
        lodcli.read("two.lod.h5::d")
    with pytest.raises(SelectionError, match=r"2 tensors; choose one with ::NAME: a b, c"):
        lodcli.read("two.lod.h5")
    # A file of the whole name goes first, and a name given as such is not looked for in the path.
    Path("two.lod.h5").rename("two::c")
    assert lodcli.read("two::c", "c").marks == lodcli.read("two::c", "a b").marks
    with pytest.raises(OSError, match="x::c"):
        lodcli.read("x::c", "c")


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("sort t.jsonl --by lenght", "there are: n, t, tags; did you mean length(..)?"),
        ("filter t.jsonl maxx>1", "no tensor 'maxx'; there are: n, t, tags; did you mean max(..)?"),
        ("filter t.jsonl data>1", "no tensor 'data'; there are: n, t, tags\n"),
        (
            "filter t.jsonl times>1",
            "no tensor 'times'; there are: n, t, tags; did you mean time(..)?",
        ),
        ("filter t.jsonl length(tgas)>1", "; did you mean tags?"),
        ("cast t.jsonl tags", "dtype: 'tags' is a tensor; write tags=DTYPE"),
        ("sort t.jsonl --by n:desc", "lod sort --by x puts the least first, --by -x the greatest"),
        ("cast t.jsonl t=categry", "; did you mean category?"),
        ("cast t.jsonl n=flaot32", "; did you mean float32?"),
        ("cast t.jsonl n=decimals(10,2)", "; did you mean decimal?"),
        ("cast t.jsonl t=timestmp[us]", "; did you mean timestamp?"),
        ("convert t.jsonl --nulls kep", "found 'kep'; did you mean keep?"),
        ("apply max(tags,levl=0) t.jsonl", "; did you mean level?"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_name_that_was_meant_is_suggested(line: str, near: str, lod: Lod) -> None:
    Path("t.jsonl").write_text('{"n":1,"t":"a","tags":["a"]}\n')
    done = lod(*line.split(), "-o", "out.lod.h5")
    assert done.code == 2
    assert near in done.stderr


def test_python_suggests_names_too(tmp_path: Path) -> None:
    words = LoDTensor(np.arange(3), LoD.from_lengths([[1, 2]], ["word"]))
    colors = LoDTensor(np.array([0, 1])).as_categories(["red", "green"])
    io.write(tmp_path / "x.lod.h5", words)
    calls: dict[str, Callable[[], object]] = {
        "did you mean nulls?": lambda: lodcli.read(tmp_path / "x.lod.h5", nuls="keep"),  # type: ignore[call-arg]
        "found 'kep'; did you mean keep?": lambda: lodcli.read(tmp_path / "x.lod.h5", nulls="kep"),
        "did you mean float32?": lambda: words.astype("flaot32"),
        "did you mean word?": lambda: words.lod.level("wrd"),
        "did you mean green?": lambda: colors.marks.categories.code_of("gren"),  # type: ignore[union-attr]
        "did you mean npz?": lambda: io.write(tmp_path / "x", words, format_name="npzz"),
        "did you mean lstm?": lambda: weights_class("lstmm"),
    }
    for near, call in calls.items():
        with pytest.raises((LodError, TypeError), match=re.escape(near)):
            call()


def test_commands_of_other_programs_are_none_of_lod() -> None:
    assert not ELSEWHERE.keys() & {*TABLE, *OPS}
    for hint in ELSEWHERE.values():
        for name in re.findall(r"\blod ([a-z-]+)", hint):
            assert name in TABLE, hint


def test_options_of_other_commands_are_named_after_similar_ones_of_this() -> None:
    commands = dict(leaves(group))
    flags = {
        name: [flag for one in command.params for flag in one.opts if flag.startswith("--")]
        for name, command in commands.items()
    }
    for name, option in product(commands, CONVERTING):
        if option in flags[name] or "--from" not in flags[name]:
            continue
        error = click.NoSuchOption(option, ctx=click.Context(commands[name], info_name=name))
        said, _ = explained(error)
        near = did_you_mean(option, flags[name])
        assert said.startswith(f"no option '{option}'; {near}"), name
        having = re.findall(r"\blod ([a-z]+)", said)
        assert set(having) == {one for one in ("convert", "cast") if option in flags[one]}


def test_options_of_other_programs_are_hints_to_those_of_lod() -> None:
    flags = {flag for _, one in leaves(group) for each in one.params for flag in each.opts}
    assert {flag for meant in OPTIONS_ELSEWHERE.values() for flag in meant} <= flags


def test_help_before_a_command_shows_its_help(lod: Lod) -> None:
    for line, same in (("help", "--help"), ("help join", "join --help"), ("help help", "--help")):
        done, wanted = lod(*line.split()), lod(*same.split())
        assert (done.code, done.stderr) == (0, "")
        assert done.stdout == wanted.stdout != ""


REMEDIES = [
    ("filter n.jsonl 'r is None'", "its records have fields: r.a, r.b; name one (a record is null"),
    ("apply 'x if r is None else 0' n.jsonl", "its records have fields: r.a, r.b; name one"),
    ("apply 'length(r)' n.jsonl", "its records have fields: r.a, r.b; name one"),
    ("sort n.jsonl --by 'x desc'", "lod sort --by x puts the least first, --by -x the greatest"),
    ("sort n.jsonl --by 'x, id ASC'", "lod sort --by x puts the least first"),
    ("apply 'y = x * 2' n.jsonl", "; equality is ==; lod apply --into NAME names the result"),
    ("filter n.jsonl 'x = -2'", "; equality is ==\n"),
    ("filter n.jsonl 'WHERE x > 1'", "; write the condition alone, as in x > 1"),
    ("filter n.jsonl 'x > 1;'", "; write it without the semicolon"),
    ("filter n.jsonl '.x > 1'", "; write a name without a point before it"),
    ("filter n.jsonl 'select(.x > 1)'", "; write a name without a point before it"),
    ("filter n.jsonl 'x contains 2'", "; write 'a' in x of a list, and contains(x, 'ab') of a te"),
    ("filter n.jsonl 'x > 1 AND contains(t, \"a\")'", "; write and, or, not"),
    ("filter n.jsonl 'x > 1 && not contains(t, \"a\")'", "; write and, or, not"),
    ("filter n.jsonl 'x = 1 and contains (t, \"a\")'", "; equality is =="),
    ("apply 'x + 1 as total' n.jsonl", "; lod apply --into NAME names the result"),
    ("sort n.jsonl --by 'abs(x) desc'", "lod sort --by x puts the least first"),
    (
        "apply histogram n.jsonl::x",
        "as in lod apply histogram tensor.lod.h5 --edges 0,1,2 -o out.lod.h5; see lod apply",
    ),
    (
        "join n.jsonl n.jsonl",
        "missing option '--on', as in lod join clicks.csv users.csv --on user",
    ),
    (
        "cast n.jsonl t=date -o o.parquet",
        """lod apply 'replace_matches(t, r"(..)/(..)/(....)", r"\\3-\\1-\\2")' .. --into t makes """
        "ISO 8601 of month/day/year",
    ),
    (
        "cast n.jsonl 'u=timestamp[s]' -o o.parquet",
        """lod apply 'replace_matches(u, r"(..)[.](..)[.](....)", r"\\3-\\2-\\1")' .. --into u """
        "makes ISO 8601 of day.month.year",
    ),
    (
        "cast n.jsonl v=date -o o.parquet",
        """lod apply 'replace_matches(v, "..", "..")' .. --into v makes ISO""",
    ),
    ("filter b.lod.h5 'k == \"a\"'", "k is bytes; lod convert --text-levels text makes text of"),
    ("filter b.lod.h5 'upper(k) == 1'", "upper takes texts, and k is bytes; lod convert --text-l"),
    ("sort b.lod.h5 --by k", "one for each byte; lod convert --text-levels text makes text of"),
    (
        "join b.lod.h5 n.jsonl --on k=t",
        "text in the second; `lod convert --text-levels text` makes",
    ),
    ("convert b.lod.h5 o.lod.h5 --nulls drop", ", or lod filter FILE 'NAME is not None' chooses"),
]


@pytest.mark.parametrize(("line", "said"), REMEDIES, ids=[line for line, _ in REMEDIES])
def test_an_error_says_what_to_do(line: str, said: str, lod: Lod, folder: Path) -> None:
    record = {
        "id": 1,
        "r": {"a": 1, "b": 2},
        "x": 5,
        "t": "05/01/2024",
        "u": "31.12.2024",
        "v": "x",
    }
    write_jsonl("n.jsonl", [record, {**record, "r": None}])
    tensors = {"k": LoDTensor.from_lists([b"b", b"a"]), "n": LoDTensor.from_lists([1, None])}
    lodcli.write("b.lod.h5", tensors)
    done = lod(*shlex.split(line))
    assert done.code in (1, 2, 4)
    assert said in done.stderr


@pytest.mark.usefixtures("folder")
def test_remedies_work(lod: Lod) -> None:
    write_jsonl("n.jsonl", [{"t": "05/01/2024", "x": 1}, {"t": "12/31/2024", "x": 2}])
    call = r"""replace_matches(t, r"(..)/(..)/(....)", r"\3-\1-\2")"""
    assert lod("apply", call, "n.jsonl", "--into", "t", "-o", "d.jsonl").code == 0
    assert lod("cast", "d.jsonl", "t=date", "-o", "d.parquet").code == 0
    assert lod("convert", "d.parquet::t", "-q", "-o", "o.jsonl").code == 0
    assert read_jsonl("o.jsonl") == ["2024-05-01", "2024-12-31"]
    tensors = {"k": LoDTensor.from_lists([b"b", b"a"]), "n": LoDTensor.from_lists([1, None])}
    lodcli.write("b.lod.h5", tensors)
    assert lod("filter", "b.lod.h5", "n is not None", "-o", "n.lod.h5").code == 0
    assert lod("convert", "n.lod.h5", "t.lod.h5", "--text-levels", "text").code == 0
    assert lod("filter", "t.lod.h5", "k == 'b'", "-o", "k.jsonl").code == 0
    assert read_jsonl("k.jsonl") == [{"k": "b", "n": 1}]
