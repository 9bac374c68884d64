"""Types, filters and unwritten chunks of other programs' HDF5, compared with h5py."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pytest

import lodcli
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.options import ReadOptions
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import refused
from tests.formats.cases.processes import lod
from tests.slow import one_in

TEXTS = ["to", "", "be", "größer", "a\0b", " c ", "12345678", "or"]
ENDS = [0, 3, 3, 8]


def _read(path: Path, **options: Any) -> LoDTensor:
    """Return the tensor, after trying batches, slices and the index."""
    with lodcli.open(path, **options) as source:
        whole = source.read()["data"]
        parts = [batch["data"] for batch in source.batches(limit_bytes=20)]
        assert LoDTensor.concatenate(parts).identical(whole)
        assert source.read_index("data") == whole.lod
        for branch in ((slice(1, 3),), (2,), (2, slice(0, 1)), (slice(0, 0),)):
            try:
                expected = whole.select(*branch)
            except LodError as error:
                with pytest.raises(type(error)):
                    source.slice("data", branch)
            else:
                assert source.slice("data", branch).identical(expected)
    return whole


def _texts_type(padding: int, width: int, charset: int = h5py.h5t.CSET_UTF8) -> Any:
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(width)
    kind.set_strpad(padding)
    kind.set_cset(charset)
    return kind


def _put_texts(file: h5py.File, kind: Any, texts: list[str], fill: bytes) -> None:
    """Write texts of fixed length as C does: these bytes, without conversion by HDF5."""
    width = kind.get_size()
    raw = b"".join(text.encode().ljust(width, fill)[:width] for text in texts)
    space = h5py.h5s.create_simple((len(texts),))
    dataset = h5py.h5d.create(file.id, b"t", kind, space)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.frombuffer(raw, f"V{width}"), kind)


@pytest.mark.parametrize(
    ("padding", "fill"),
    [
        (h5py.h5t.STR_NULLTERM, b"\0"),
        (h5py.h5t.STR_NULLPAD, b"\0"),
        (h5py.h5t.STR_SPACEPAD, b" "),
    ],
)
@pytest.mark.parametrize("charset", [h5py.h5t.CSET_ASCII, h5py.h5t.CSET_UTF8])
def test_texts_of_fixed_length_are_text(
    padding: int, fill: bytes, charset: int, tmp_path: Path
) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        _put_texts(file, _texts_type(padding, 8, charset), TEXTS, fill)
    found = _read(path, data="/t")
    # By hand, from HDF5's definition: up to the first zero; without zeros; without blanks.
    expected = {
        h5py.h5t.STR_NULLTERM: [text.split("\0")[0] for text in TEXTS],
        h5py.h5t.STR_NULLPAD: TEXTS,
        h5py.h5t.STR_SPACEPAD: [text.rstrip(" ") for text in TEXTS],
    }
    assert found.to_list() == expected[padding]
    assert found.marks.values == "text"


@pytest.mark.parametrize("chunks", [None, (3,)])
def test_texts_are_those_of_h5py(chunks: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        kind = h5py.string_dtype("utf-8", 9)
        file.create_dataset("t", (len(TEXTS),), dtype=kind, chunks=chunks)
        file["t"][:] = np.array([text.encode() for text in TEXTS], kind)
        file["ends"] = ENDS
    with h5py.File(path) as file:
        theirs = file["t"].asstr()[:].tolist()
    assert _read(path, data="/t").to_list() == theirs
    found = _read(path, data="/t", offsets=("/ends",), levels=("line", "word"))
    assert found.to_list() == [theirs[:3], [], theirs[3:]]
    assert found.lod.names == ("line", "word")
    found = _read(path, data="/t", offsets=("/ends",), levels=("line",))
    assert found.lod.names == ("line", None)
    assert found.to_list() == [theirs[:3], [], theirs[3:]]


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (3, 0), (2, 1, 3)])
def test_further_axes_of_texts_are_levels(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    count = int(np.prod(shape))
    texts = np.array([b"a%d" % (n * n) for n in range(count)], "S4").reshape(shape)
    with h5py.File(path, "w") as file:
        file["t"] = texts
    found = _read(path, data="/t")
    assert found.to_list() == np.char.decode(texts).tolist()


def test_text_of_another_encoding_needs_its_name(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file["t"] = np.array(["Grüß".encode("latin1"), b"x"])
        file["n"] = [1, 2]
    refused(path, InvalidDataError, "is not UTF-8 (byte 0xfc at position 2)", data="/t")
    assert _read(path, data="/t", encoding="latin1").to_list() == ["Grüß", "x"]
    refused(path, UnsupportedError, "encoding= is for text", data="/n", encoding="latin1")


NUMBERS = {
    "pairs": np.dtype(("f4", (2,))),
    "matrices": np.dtype((">i2", (2, 3))),
    "bool": np.dtype(bool),
    "enum": h5py.enum_dtype({"NOUN": 0, "VERB": 7}, "u1"),
    "big-endian enum": h5py.enum_dtype({"NOUN": 0, "VERB": 7}, ">i4"),
    "complex": np.dtype("c8"),
    "record": np.dtype(
        [
            ("id", ">i8"),
            ("word", "S6"),
            ("at", [("x", "f4"), ("m/z", "<f8")]),
            ("box", "u2", (2, 2)),
            ("seen", bool),
            ("tag", h5py.enum_dtype({"NOUN": 0, "VERB": 7}, "i2")),
            ("corners", [("x", "f4"), ("y", "f4")], (2,)),
        ]
    ),
}


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Give a file with 8 items of each type."""
    path = tmp_path / "theirs.h5"
    generator = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for name, dtype in NUMBERS.items():
            dataset = file.create_dataset(name, (8,), dtype, chunks=(3,) if "r" in name else None)
            dataset[...] = _values(generator, dataset.dtype)
        file["ends"] = ENDS
    return path


def _values(generator: np.random.Generator, dtype: np.dtype[Any]) -> Any:
    base, shape = dtype.subdtype or (dtype, ())
    if base.names:
        values = np.zeros((8, *shape), base)
        for name in base.names:
            kind = base[name]
            inner = kind.subdtype[1] if kind.subdtype else ()
            if (kind.subdtype or (kind,))[0].kind == "S":
                values[name] = [f"w{n}" for n in range(8)]
            elif shape:
                values[name] = generator.integers(0, 2, values.shape)
            else:
                found = _values(generator, kind)
                values[name] = found.reshape(8, *inner)
        return values
    return generator.integers(0, 2, (8, *shape)).astype(base) * 7


FIELDS = {
    **{f"/{name}": (name, ()) for name in NUMBERS if name != "record"},
    **{f"/record/{name}": ("record", (name,)) for name in ("id", "word", "box", "seen", "tag")},
    "/record/at/x": ("record", ("at", "x")),
    "/record/at/m/z": ("record", ("at", "m/z")),
    "/record/corners/y": ("record", ("corners", "y")),
}


@pytest.mark.parametrize("path", FIELDS)
def test_arrays_enumerations_and_fields_are_those_of_h5py(path: str, theirs: Path) -> None:
    dataset, fields = FIELDS[path]
    with h5py.File(theirs) as file:
        expected = file[dataset][:]
    for field in fields:
        expected = expected[field]
    found = _read(theirs, data=path)
    if expected.dtype.kind == "S":
        assert found.to_list() == [text.decode() for text in expected]
    else:
        assert found.dtype == expected.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found.data, expected)
    ragged = _read(theirs, data=path, offsets=("/ends",))
    assert ragged.lod.recursive_sequence_lengths()[0] == [3, 0, 5]


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("/record", UnsupportedError, "choose one of its fields: data='/record/id', data='/rec"),
        ("/record/at", UnsupportedError, "fields: data='/record/at/x', data='/record/at/m/z'"),
        ("/record/ID", SelectionError, "no such field; there are: data='/record/id', "),
        ("/record/at/y", SelectionError, "no such field; there are: data='/record/at/x', "),
        ("/bool/x", SelectionError, "there is no such dataset, and no field 'x'"),
    ],
)
def test_a_compound_names_its_fields(
    path: str, error: type[LodError], message: str, theirs: Path
) -> None:
    refused(theirs, error, message, data=path)


@pytest.mark.parametrize("kind", ["u1", ">u2", ">i8"])
def test_numbers_outside_of_an_enumeration_are_kept(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    flags = np.array([1, 3, 100, 0], kind)
    with h5py.File(path, "w") as file:
        file["x"] = flags.astype(h5py.enum_dtype({"A": 1, "B": 2}, kind))
    found = _read(path, data="/x").data
    np.testing.assert_array_equal(found, flags.astype(flags.dtype.newbyteorder("=")), strict=True)


COMPLEX = np.array([1 + 2j, -3.5, 4j])


@pytest.mark.parametrize(
    ("names", "part", "dtype"),
    [
        (("real", "imag"), "<f8", "c16"),  # Octave, MATLAB
        (("Real", "Imaginary"), ">f8", "c16"),  # R
        (("re", "im"), ">f4", "c8"),
        (("real", "imag"), "<i2", None),
        (("real", "imag"), "<f2", None),
        (("imag", "real"), "<f8", None),
    ],
)
def test_complex_numbers_of_other_programs(
    names: tuple[str, str], part: str, dtype: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "t.h5"
    stored = np.zeros(3, [("id", "i1"), ("z", [(names[0], part), (names[1], part)])])
    stored["z"][names[0]], stored["z"][names[1]] = COMPLEX.real, COMPLEX.imag
    with h5py.File(path, "w") as file:
        file["x"], file["table"] = stored["z"], stored
    for place in ("/x", "/table/z"):
        if dtype is None:
            refused(path, UnsupportedError, f"{place}: is a compound; choose one", data=place)
        else:
            found = _read(path, data=place).data
            np.testing.assert_array_equal(found, COMPLEX.astype(dtype), strict=True)
    np.testing.assert_array_equal(_read(path, data=f"/x/{names[1]}").data, stored["z"][names[1]])


@pytest.mark.skipif(not hasattr(h5py.h5t, "TypeComplexID"), reason="complex type of HDF5 2.0")
@pytest.mark.parametrize("width", ["32", "64"])
def test_complex_numbers_of_hdf5_2(width: str, tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    expected = COMPLEX.astype(f"c{int(width) // 4}")
    with h5py.File(path, "w") as file:
        kind = getattr(h5py.h5t, f"COMPLEX_IEEE_F{width}BE")
        native = h5py.h5t.NATIVE_FLOAT_COMPLEX if width == "32" else h5py.h5t.NATIVE_DOUBLE_COMPLEX
        dataset = h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((3,)))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, expected, native)
    np.testing.assert_array_equal(_read(path, data="/x").data, expected, strict=True)


@pytest.mark.skipif(not hasattr(h5py.h5t, "TypeComplexID"), reason="complex type of HDF5 2.0")
def test_complex_numbers_of_long_doubles_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        kind = h5py.h5t.NATIVE_LDOUBLE_COMPLEX
        h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((3,)))
    message = "/x: holds complex256, which tensors cannot hold; store it as float64 or complex128"
    refused(path, UnsupportedError, message, data="/x")


def test_the_list_of_datasets_has_the_axes_of_items_that_are_arrays(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (3,), np.dtype(("f4", (2, 5))))
        file.create_dataset("y", (), np.dtype(("i8", (4,))))
        file.create_dataset("z", (3,), np.dtype(("S4", (2,))))
    listed = "/x (float32, 3 x 2 x 5), /y (int64, 4), /z (text, 3 x 2)"
    refused(path, LodError, f"there are: {listed}")


def test_a_range_of_octave_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    kind = [("base", "f8"), ("limit", "f8"), ("increment", "f8")]
    with h5py.File(path, "w") as file:
        file["x/value"] = np.array((1, 5, 1), kind)
    message = "/x/value: is a range of Octave, stored without its values; save it as a matrix"
    refused(path, UnsupportedError, message, data="/x/value")


def test_a_compound_names_its_fields_although_numpy_has_no_type_for_one(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    kind = h5py.h5t.create(h5py.h5t.COMPOUND, 12)
    kind.insert(b"id", 0, h5py.h5t.STD_I32LE)
    kind.insert(b"at", 4, h5py.h5t.UNIX_D64LE)  # Time64Col of PyTables
    with h5py.File(path, "w") as file:
        h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((2,)))
    refused(path, UnsupportedError, "choose one of its fields: data='/x/id', data=", data="/x")
    refused(path, UnsupportedError, "/x/at: holds numbers that NumPy does not", data="/x/at")
    assert _read(path, data="/x/id").data.tolist() == [0, 0]


@pytest.mark.parametrize("kind", [h5py.vlen_dtype("i4"), h5py.string_dtype(), h5py.ref_dtype])
def test_fields_without_a_length_are_refused(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2,), [("a", "i4"), ("b", kind)])
    assert _read(path, data="/x/a").data.tolist() == [0, 0]
    refused(path, UnsupportedError, "/x/b: holds ", data="/x/b")


def test_values_never_written_are_the_fill_value(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("none", (7, 2), "f4", fillvalue=2.5)
        file.create_dataset("some", (70,), "i2", chunks=(10,), fillvalue=-1)
        file["some"][15:25] = range(10)
        file.create_dataset("word", (3,), "S4", fillvalue=b"?")
        file.create_dataset("much", (1 << 20,), "f8", chunks=(1 << 12,), compression="gzip")
        expected = {name: dataset[()] for name, dataset in file.items()}
    for name in ("none", "some", "much"):
        with lodcli.open(path, data=f"/{name}") as source:
            found = source.read()["data"]
            np.testing.assert_array_equal(found.data, expected[name])
            told = {"none": "the rows", "some": "5 of 7 chunks", "much": "256 of 256 chunks"}
            words = f"/{name}: {told[name]} were never written; their values are the fill value"
            assert list(source.notes) == [words]
    assert _read(path, data="/word").to_list() == ["?"] * 3


def test_attributes_of_netcdf_that_would_change_values_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.nc"
    with h5py.File(path, "w") as file:
        file["packed"] = np.array([1, 2, -9], "i2")
        file["packed"].attrs.update({"add_offset": 10.0, "scale_factor": 0.1, "_FillValue": -9})
        file["bytes"] = np.array([1, -2], "i1")
        file["bytes"].attrs["_Unsigned"] = "true"  # 254, as netCDF 3 has no unsigned numbers
        file["signed"] = np.array([1, 254], "u1")
        file["signed"].attrs["_Unsigned"] = "false"
        for name, said in (("u1", "true"), ("i1", "false"), ("f4", "true")):
            file[name] = np.array([1, 2], name)
            file[name].attrs["_Unsigned"] = said
        file["plain"] = np.arange(3)
        file["plain"].attrs["units"] = "m"
        file["floats"] = np.array([0, np.nan, 2])
        file["floats"].attrs.update(
            {"_FillValue": np.nan, "missing_value": np.array([np.nan], "f4")}
        )
    told = "packed: values are as stored: scale_factor, add_offset, _FillValue not applied"
    for name, rows, notes in (
        ("packed", [1, 2, -9], [told]),
        ("bytes", [1, -2], ["bytes: values are as stored: _Unsigned not applied"]),
        ("signed", [1, 254], ["signed: values are as stored: _Unsigned not applied"]),
        *((name, [1, 2], []) for name in ("u1", "i1", "f4")),
        ("plain", [0, 1, 2], []),
        ("floats", [0, pytest.approx(np.nan, nan_ok=True), 2], []),
    ):
        with lodcli.open(path, data=name) as source:
            found = source.read()["data"]
            assert list(source.notes) == notes
        assert found.to_list() == rows


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/fixed/axis1", "ns"),
        ("/fixed/block0_values", "us"),
        ("/table/table/index", "ns"),
        ("/table/table/due", "us"),
    ],
)
def test_times_of_pandas_are_reported(path: str, unit: str) -> None:
    file = Path(__file__).parents[1] / "theirs" / "pandas.h5"
    with lodcli.open(file, data=path) as source:
        assert source.notes == [
            f"{path}: values are as stored: '{unit} since 1970-01-01' not applied; "
            f"data counts {unit} since 1970, the least int64 for a missing time"
        ]


TIMES = [
    (
        "hours since 2024-01-01 06:00:00",
        "i8",
        "* 3600 + 1704088800 counts s since 1970, the least int64 for a missing time",
    ),
    ("Days since 1970-1-2", "i2", "+ 1 counts days since 1970, in int64"),
    ("days since 1800-1-1 00:00:0.0", "u8", "- 62091 counts days since 1970, in int64"),
    ("days since 1800-1-1 00:00:0.0", "f4", None),
    ("nanoseconds since 1600-1-1", "i8", None),
    ("days since 1970-01-01T12", "i4", "* 86400 + 43200 counts s since 1970, in int64"),
    ("seconds since 1970-01-01T00:00:00Z", "u4", "counts s since 1970"),
    ("msecs since 1970-01-01 00:00:01 +00:00", "u2", "+ 1000 counts ms since 1970, in int64"),
    ("months since 2000-01-01", "i4", None),
    ("hours since 2000-01-01 00:00:00 -6:00", "i4", None),
    ("days since 1-1-1", "i4", None),
    ("days since 1970-02-30", "i4", None),
]


@pytest.mark.parametrize(("units", "dtype", "counted"), TIMES)
def test_units_of_times_in_netcdf_are_reported(
    units: str, dtype: str, counted: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "t.nc"
    with h5py.File(path, "w") as file:
        file["a/time"] = np.array([1, 2], dtype)
        file["a/time"].attrs["units"] = [units] if "+" in units else np.bytes_(units)
        file["a/time"].attrs["calendar"] = "standard"
    for data in ("/a/time", "*/time"):
        with lodcli.open(path, data=data) as source:
            ((name, found),) = source.read().items()
            told = f"/a/time: values are as stored: '{units}' not applied"
            # The other datasets of a pattern may have other units.
            told += f"; {name} {counted}" if counted and data == "/a/time" else ""
            assert list(source.notes) == [told]
        assert found.data.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("calendar", "told"),
    [
        ("proleptic_gregorian", "; data - 719162 counts days since 1970, in int64"),
        (["Proleptic_Gregorian"], "; data - 719162 counts days since 1970, in int64"),
        ("Gregorian", ""),
        ("360_day" * 30, f", calendar '{'360_day' * 14}36'"),
    ],
)
def test_the_calendar_of_times_decides_on_their_conversion(
    calendar: object, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.nc"
    with h5py.File(path, "w") as file:
        file["time"] = np.array([1, 2], np.int32)
        file["time"].attrs.update({"units": "days since 1-1-1", "calendar": calendar})
        file["text"] = np.array([b"ab"])
        file["text"].attrs["units"] = "days since 1-1-1"
    with lodcli.open(path, data="time") as source:
        source.read()
        assert list(source.notes) == [
            f"time: values are as stored: 'days since 1-1-1' not applied{told}"
        ]
    with lodcli.open(path, data="text") as source:
        assert not source.notes


def test_packed_times_have_no_advice(tmp_path: Path) -> None:
    path = tmp_path / "t.nc"
    with h5py.File(path, "w") as file:
        file["t"] = np.array([1, -9])
        file["t"].attrs.update({"units": "hours since 2000-01-01", "_FillValue": -9})
    with lodcli.open(path, data="t") as source:
        source.read()
        assert list(source.notes) == [
            "t: values are as stored: _FillValue not applied",
            "t: values are as stored: 'hours since 2000-01-01' not applied",
        ]


def _characters(*rows: str, dtype: str = "<u2") -> Any:
    """Return a matrix of characters with its axes reversed, as MATLAB and Octave store it."""
    encoding = "utf-16-le" if dtype == "<u2" else "utf-8"
    return np.array([np.frombuffer(one.encode(encoding, "surrogatepass"), dtype) for one in rows]).T


def test_characters_of_matlab_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.mat"
    with h5py.File(path, "w") as file:
        file["row"], file["matrix"] = _characters("grün 😀"), _characters("abc", "de ")
        file["half"], file["numbers"] = _characters("\ud800"), _characters("ab")
        for name in ("row", "matrix", "half"):
            file[name].attrs["MATLAB_class"] = np.bytes_("char")
        file["numbers"].attrs["MATLAB_class"] = np.bytes_("uint16")
        file["lengths"] = [5.0, 2.0]
    assert _read(path, data="row").to_list() == ["grün 😀"]
    assert _read(path, data="matrix").to_list() == ["abc", "de "]
    assert _read(path, data="numbers").to_list() == [[97], [98]]
    note = "characters of MATLAB or Octave are read as their numbers"
    for data, lengths in (("half", None), ("row", ("lengths",)), ("ro*", None)):
        with lodcli.open(path, data=data, lengths=lengths) as source:
            (found,) = source.read().values()
            assert found.data.dtype == np.uint16
            assert list(source.notes) == [f"{data.replace('ro*', '/row')}: {note}"]
    refused(
        path, UnsupportedError, "whose encoding is known; leave out", data="row", encoding="latin-1"
    )


def test_characters_of_octave_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        for name, kind in (("s", b"string"), ("q", b"sq_string"), ("n", b"int8 matrix")):
            file[f"{name}/type"] = np.array(kind, "S12")
            file[f"{name}/value"] = _characters("grün", "abcde", dtype="i1")
        file["bytes/type"], file["bytes/value"] = np.array(b"string"), np.array([[-4]], "i1")
    for name in ("s", "q"):
        assert _read(path, data=f"{name}/value").to_list() == ["grün", "abcde"]
    assert _read(path, data="n/value").dtype == np.int8
    assert _read(path, data="bytes/value").data.tolist() == [[-4]]


@pytest.mark.parametrize("chunks", [None, (3,)])
@pytest.mark.parametrize("how", ["undefined", "never"])
def test_values_never_written_are_refused_without_a_fill_value(
    how: str, chunks: Any, tmp_path: Path
) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if how == "never":
            plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        else:
            _undefine(plist)
        if chunks:
            plist.set_chunk(chunks)
        for name in (b"none", b"all"):
            space = h5py.h5s.create_simple((7,))
            h5py.h5d.create(file.id, name, h5py.h5t.NATIVE_INT32, space, dcpl=plist)
        file["all"][:] = range(7)
    assert _read(path, data="/all").data.tolist() == list(range(7))
    refused(path, UnsupportedError, "never written, and it has no fill value", data="/none")


def _undefine(plist: Any) -> None:
    """Take the fill value away, with a call that h5py has not."""
    library = ctypes.CDLL(h5py.h5p.__file__)
    library.H5Pset_fill_value.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    assert library.H5Pset_fill_value(plist.id, h5py.h5t.NATIVE_INT32.id, None) >= 0


ROWS = np.arange(4000, dtype=np.float32).reshape(2000, 2) // 7


def test_lzf_comes_with_h5py(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=ROWS, chunks=(100, 2), compression="lzf", shuffle=True)
    np.testing.assert_array_equal(_read(path, data="/x").data, ROWS)


def test_szip_is_read_where_hdf5_has_it(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        try:
            file.create_dataset("x", data=ROWS, chunks=(100, 2), compression="szip")
        except ValueError:
            pytest.skip("this h5py has no szip")
    np.testing.assert_array_equal(_read(path, data="/x").data, ROWS)


PLUGINS = ["Blosc", "Blosc2", "Bitshuffle", "BZip2", "LZ4", "Zstd", "Zfp"]


@pytest.mark.parametrize("name", one_in(3, PLUGINS))
def test_filters_of_hdf5plugin_are_read(name: str, tmp_path: Path) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin")
    path = tmp_path / "t.h5"
    options = {"reversible": True} if name == "Zfp" else {}
    with h5py.File(path, "w") as file:
        codec = getattr(hdf5plugin, name)(**options)
        file.create_dataset("x", data=ROWS, chunks=(500, 2), **codec)
    np.testing.assert_array_equal(_read(path, data="/x").data, ROWS)
    args = ["convert", path, "-q", "--data", "/x", "--to", "jsonl"]
    assert lod(*args).returncode == 0
    done = lod(*args, without="hdf5plugin")
    assert done.returncode != 0
    said = f"the codec {name.lower()} needs the package hdf5plugin; pip install 'lodcli[codecs]'"
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_filter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=ROWS, chunks=(100, 2), compression="lzf")
    # The number of the filter as it is stored; the header has no checksum in this version.
    content = path.read_bytes()
    place = content.index(b"lzf\0") - 8
    assert content[place : place + 2] == (32000).to_bytes(2, "little")
    path.write_bytes(content[:place] + (305).to_bytes(2, "little") + content[place + 2 :])
    refused(path, UnsupportedError, "has its filter 305 ('lzf')", data="/x")


def test_a_large_fill_takes_as_long_as_it_needs(tmp_path: Path) -> None:
    """The time a child may take is not that of the few bytes that are stored."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (3 << 30,), "i1", fillvalue=3)
    total = 0
    options, limits = ReadOptions(data="/x"), Limits(max_bytes=4 << 30)
    with lodcli.open(path, options=options, limits=limits) as source:
        for batch in source.batches():
            tensor = batch["data"]
            assert tensor.data[0] == 3
            total += tensor.rows
    assert total == 3 << 30


def test_text_of_variable_length_is_text(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file["v"] = ["to", "größe", ""]
    with lodcli.open(path, format_name="hdf5-vlen", data="/v") as source:
        found = source.read()["data"]
        assert found.to_list() == ["to", "größe", ""]
        assert found.marks.values == "text"
        assert source.slice("data", (slice(1, 2),)).to_list() == ["größe"]


def test_a_level_of_texts_is_shared_with_nothing(theirs: Path) -> None:
    found = _read(theirs, data="/record/word", offsets=("/ends",))
    assert found.lod == LoD.from_lengths([[3, 0, 5], [2] * 8])


@pytest.mark.parametrize(("order", "letters"), [("<", "LE"), (">", "BE")])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_fields_of_bits_are_unsigned_integers(
    bits: int, order: Literal["<", ">"], letters: str, tmp_path: Path
) -> None:
    kind = getattr(h5py.h5t, f"STD_B{bits}{letters}")
    values = np.array([0, 1, 2 ** (bits - 1) + 3, 200], f"u{bits // 8}")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        space = h5py.h5s.create_simple((4,))
        stored = h5py.h5d.create(file.id, b"x", kind, space)
        stored.write(space, space, values.astype(values.dtype.newbyteorder(order)), kind)
        fields = h5py.h5t.create(h5py.h5t.COMPOUND, 1 + bits // 8)
        fields.insert(b"n", 0, h5py.h5t.NATIVE_INT8)
        fields.insert(b"flags", 1, kind)
        h5py.h5d.create(file.id, b"c", fields, space)
    found = _read(tmp_path / "t.h5", data="/x")
    assert found.dtype == values.dtype
    assert found.data.tolist() == values.tolist()
    assert _read(tmp_path / "t.h5", data="/c/flags").data.tolist() == [0, 0, 0, 0]
