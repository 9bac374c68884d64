"""`lod cast` to text, to categories and to other times, against pandas and Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.commands.tensors import casting
from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.formats.core.format import Source
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories
from tests.lodcli.conftest import Lod, tensor, write_jsonl

WORDS = ["yes", None, "", "é", "no", "yes", "😀", None, "no"]


@pytest.mark.parametrize("kind", ["jsonl", "lod.h5", "lods", "parquet"])
def test_categories_of_texts_are_those_of_pandas_and_come_back(
    lod: Lod, folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(base, "BATCH_BYTES", 8)
    lists = [["b", "a"], [], None, ["a", None]] * 2 + [["c"]]
    rows = [
        {"w": w, "l": some, "n": n} for n, (w, some) in enumerate(zip(WORDS, lists, strict=True))
    ]
    write_jsonl("a.jsonl", rows)
    if kind != "jsonl":
        assert lod("convert", "-q", "a.jsonl", f"a.{kind}").code == 0
    assert lod(
        "cast", "-q", f"a.{kind}", "w=category", "l=category", "int8", "-o", "b.lod.h5"
    ).clean
    found, wanted = tensor("b.lod.h5", "w"), pandas.Categorical(WORDS)
    assert found.to_list() == WORDS
    assert list(found.categories or ()) == wanted.categories.tolist()
    known = wanted.codes >= 0
    assert found.values[known].tolist() == wanted.codes[known].tolist()
    assert found.dtype == wanted.codes.dtype == "int8"
    assert tensor("b.lod.h5", "l").to_list() == lists
    assert tensor("b.lod.h5", "n").dtype == "int8"
    assert lod("cast", "-q", "b.lod.h5", "w=text", "l=text", "-o", "c.lod.h5").clean
    for name, values in {"w": WORDS, "l": lists}.items():
        back = tensor("c.lod.h5", name)
        assert back.marks.is_text
        assert back.to_list() == values


def test_text_from_a_pipe_becomes_categories(shell: Lod) -> None:
    line = "printf 'user,n\\nbob,1\\nann,2\\nbob,3\\n' | lod cast - --from csv -q user=category"
    done = shell(f"{line} | lod convert - -q --to jsonl")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == '{"user":"bob","n":1}\n{"user":"ann","n":2}\n{"user":"bob","n":3}\n'


def test_many_words_need_wider_codes_and_too_many_are_refused(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io.write("w.lod.h5", {"w": LoDTensor.from_lists([f"w{n % 300}" for n in range(600)])})
    assert lod("cast", "w.lod.h5", "w=category", "-o", "c.lod.h5").code == 0
    found = tensor("c.lod.h5", "w")
    assert found.dtype == "int16"
    assert found.to_list() == [f"w{n % 300}" for n in range(600)]
    from lodcli.formats.values import as_words

    monkeypatch.setattr(as_words, "MOST_WORDS", 299)
    done = lod("cast", "w.lod.h5", "w=category", "-o", "d.lod.h5")
    assert done.code == 4
    assert "w.lod.h5: w: more than 299 different texts, which categories cannot have" in done.stderr
    assert not Path("d.lod.h5").exists()


NOON = datetime(2024, 5, 1, 12)
CONTENT: dict[str, list[Any]] = {
    "t": [NOON, None, datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "day": [date(2024, 5, 1), date(1900, 1, 1), None],
    "wait": [timedelta(seconds=-1), timedelta(0), timedelta(days=400)],
    "price": [Decimal("12.50"), None, Decimal("-0.05")],
    "id": [2**63 - 1, -1, None],
    "x": [0.5, 1.0, 2.0],
}


@pytest.fixture
def table(folder: Path) -> None:
    io.write("t.lod.h5", {name: LoDTensor.from_lists(one) for name, one in CONTENT.items()})


@pytest.mark.usefixtures("table")
def test_times_decimals_and_whole_numbers_become_text_and_times_come_back(lod: Lod) -> None:
    names = ["t", "day", "wait", "price", "id"]
    assert lod("cast", "t.lod.h5", *(f"{name}=text" for name in names), "-o", "s.lod.h5").clean
    assert {name: tensor("s.lod.h5", name).to_list() for name in names} == {
        "t": ["2024-05-01T12:00:00.000000", None, "1969-12-31T23:59:59.999999"],
        "day": ["2024-05-01", "1900-01-01", None],
        "wait": ["-PT1.000000S", "PT0.000000S", "PT34560000.000000S"],
        "price": ["12.50", None, "-0.05"],
        "id": ["9223372036854775807", "-1", None],
    }
    back = ["t=timestamp[us]", "day=date", "wait=duration[us]"]
    assert lod("cast", "s.lod.h5", *back, "-o", "b.lod.h5").code == 0
    for name in names[:3]:
        assert tensor("b.lod.h5", name).to_list() == CONTENT[name]
    done = lod("cast", "t.lod.h5", "x=text", "-o", "no.lod.h5")
    assert done.code == 4
    assert "x: only categories, times, decimals and whole numbers, one in a row, can be" in (
        done.stderr
    )


# What is cast to what: as Arrow casts.
@pytest.mark.parametrize(
    ("values", "kind", "arrow"),
    [
        ([NOON, None, datetime(1960, 1, 1)], "timestamp[s]", ("timestamp", "s", None)),
        ([NOON, None], "timestamp[ns, Europe/Oslo]", ("timestamp", "ns", "Europe/Oslo")),
        ([NOON.replace(hour=0), None], "date", ("date32",)),
        ([date(2024, 5, 1), date(1800, 1, 1), None], "timestamp[ms]", ("timestamp", "ms", None)),
        ([timedelta(hours=5), None], "duration[s]", ("duration", "s")),
        ([1714564800, None, -1], "timestamp[s]", ("timestamp", "s", None)),
        ([1714564800, None, -1], "timestamp[s, UTC]", ("timestamp", "s", "UTC")),
        ([19000, None, -1], "date", ("date32",)),
        ([86399, None], "time[s]", ("time32", "s")),
        ([5, None], "duration[ms]", ("duration", "ms")),
    ],
)
def test_times_are_those_that_arrow_casts(
    lod: Lod, folder: Path, values: list[Any], kind: str, arrow: tuple[Any, ...]
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    column = pa.array(values)
    if kind in ("date", "time[s]") and pa.types.is_integer(column.type):
        column = column.cast("int32")
    pq.write_table(pa.table({"v": column, "l": [[one] for one in values]}), "a.parquet")
    wanted = column.cast(getattr(pa, arrow[0])(*(one for one in arrow[1:] if one)))
    assert lod("cast", "-q", "a.parquet", f"v={kind}", f"l={kind}", "-o", "b.parquet").clean
    found = pq.read_table("b.parquet")
    assert found["v"].to_pylist() == wanted.to_pylist()
    assert found["l"].to_pylist() == [[one] for one in wanted.to_pylist()]
    assert lod("cast", "-q", "a.parquet", f"v={kind}", "-o", "b.lod.h5").code == 0
    assert tensor("b.lod.h5", "v").to_arrow().type == wanted.type


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("cast", "code", "error"),
    [
        ("t=timestamp[s]", 1, "t: row 2: 1969-12-31T23:59:59.999999 is not a whole number of the "),
        ("t=date", 1, "t: row 0: 2024-05-01T12:00:00.000000 is not a whole number of the unit D; "),
        ("day=timestamp[ns]", 0, ""),
        ("wait=timestamp[s]", 4, "wait: only text, whole numbers and such times can be timestamp"),
        ("t=time[us]", 1, "t: row 0: 2024-05-01T12:00:00.000000 has a date; --dtype-unsafe keeps"),
        ("day=time[us]", 4, "day: only text, whole numbers and such times can be time[us], this"),
        ("x=timestamp[s]", 4, "can be timestamp[s], this is float64; cast it to int64 first"),
        (
            "t=date[ms]",
            1,
            "t: row 0: 2024-05-01T12:00:00.000000 is not a whole number of the unit D; ",
        ),
        ("t=string", 2, "no dtype 'string'; there are: bfloat16, "),
        ("t=string", 2, "duration[us]; write t=text\n"),
        ("t=datetime64[ns]", 2, "duration[us]; write t=timestamp[ns]\n"),
        ("t=datetime64[ms, UTC]", 2, "duration[us]; write t=timestamp[ms, UTC]\n"),
        ("t=datetime64[h]", 2, "duration[us]; write t=timestamp[us]\n"),
        ("t=datetime64", 2, "duration[us]; write t=timestamp[us]\n"),
        ("t=timedelta64[s]", 2, "duration[us]; write t=duration[s]\n"),
        ("x=bigint", 2, "duration[us]; write x=int64\n"),
        ("x=INTEGER", 2, "duration[us]; write x=int64\n"),
        ("x=number", 2, "duration[us]; write x=float64\n"),
        ("t=timedelta", 2, "duration[us]; write t=duration[us]\n"),
        ("t=categorical", 2, "duration[us]; write t=category\n"),
        ("x=decimal", 2, "duration[us]; write x=decimal(10, 2)\n"),
        (
            "t=string",
            2,
            "; besides, TENSOR=text, category, decimal(10, 2), timestamp[us], date, time",
        ),
        (
            "price=date",
            4,
            "price: only text and whole numbers can be date[D], this is decimal(4, 2)",
        ),
        ("id=category", 4, "id: only text can be category, this is int64; cast it to text first"),
        ("t=category", 4, "t: only text can be category, this is timestamp[us]; cast it to text"),
        ("x=category", 4, "x: only text can be category, this is float64\n"),
        (
            "t=timestamp[us, Nowhere/X]",
            2,
            "no time zone 'Nowhere/X'; write for example UTC, Europe/Oslo or +02:00",
        ),
        ("t=timestamp[us, -0330]", 0, ""),
        ("t=timestamp[us, America/New_York]", 0, ""),
        ("m=text", 2, "no tensor named 'm'"),
        ("text", 2, "text: names no tensor; write for example TENSOR=text"),
        ("category", 2, "category: names no tensor; write for example TENSOR=category"),
    ],
)
def test_a_cast_to_an_impossible_kind_is_an_error(
    lod: Lod, cast: str, code: int, error: str
) -> None:
    done = lod("cast", "t.lod.h5", cast, "-o", "out.lod.h5")
    assert done.code == code
    assert error in done.stderr
    assert Path("out.lod.h5").exists() == (not code)


@pytest.mark.usefixtures("table")
def test_a_time_between_two_of_the_unit_becomes_the_one_before_it(lod: Lod) -> None:
    assert lod("cast", "t.lod.h5", "t=timestamp[s]", "--unsafe", "-o", "s.lod.h5").code == 0
    assert tensor("s.lod.h5", "t").to_list() == [NOON, None, datetime(1969, 12, 31, 23, 59, 59)]
    assert lod("cast", "t.lod.h5", "t=date", "--unsafe", "-o", "d.lod.h5").code == 0
    assert tensor("d.lod.h5", "t").to_list() == [date(2024, 5, 1), None, date(1969, 12, 31)]


@pytest.mark.usefixtures("folder")
def test_a_time_beyond_64_bits_names_its_place(lod: Lod) -> None:
    io.write("t.lod.h5", LoDTensor.from_lists([[NOON], [datetime(9999, 1, 1), NOON]]))
    done = lod("cast", "t.lod.h5", "data=timestamp[ns]", "--unsafe", "-o", "out.lod.h5")
    assert done.code == 1
    assert "level 0 item 1, row 0: 9999-01-01T00:00:00.000000 is beyond 64 bits" in done.stderr
    io.write("u.lod.h5", LoDTensor(np.array([2**63], np.uint64)))
    done = lod("cast", "u.lod.h5", "data=timestamp[s]", "-o", "out.lod.h5")
    assert "data: row 0: 9223372036854775808 is beyond 64 bits" in done.stderr


NUMBERS = ["1", "-2.5e3", "", None, "+.5", "1", "nan", "-inf", "3."]


def test_numbers_of_texts_are_those_of_python(lod: Lod, folder: Path) -> None:
    lists = [[one, "7"] for one in NUMBERS]
    io.write("t.lod.h5", {"x": LoDTensor.from_lists(NUMBERS), "l": LoDTensor.from_lists(lists)})
    assert lod("cast", "t.lod.h5", "x=float64", "l=float32", "-o", "o.lod.h5").clean
    wanted = [float(one) if one else None for one in NUMBERS]
    assert str(tensor("o.lod.h5", "x").to_list()) == str(wanted)  # nan equals nan
    assert str(tensor("o.lod.h5", "l").to_list()) == str([[one, 7.0] for one in wanted])
    assert tensor("o.lod.h5", "l").dtype == "float32"
    ids = ["9223372036854775807", None, "-5", "+7", ""]
    flags = ["true", "False", None, "", "TRUE"]
    io.write("i.lod.h5", {"i": LoDTensor.from_lists(ids), "b": LoDTensor.from_lists(flags)})
    assert lod("cast", "i.lod.h5", "i=int64", "b=bool", "-o", "o.lod.h5", "-f").clean
    assert tensor("o.lod.h5", "i").to_list() == [2**63 - 1, None, -5, 7, None]
    assert tensor("o.lod.h5", "b").to_list() == [True, False, None, None, True]


@pytest.mark.parametrize(
    ("text", "dtype", "said"),
    [
        ("1,5", "float64", "x: row 2: expected a number, found '1,5'"),
        (" 1", "float64", "x: row 2: expected a number, found ' 1'"),
        ("0x10", "int64", "x: row 2: expected a whole number, found '0x10'"),
        ("1.0", "int64", "x: row 2: expected a whole number, found '1.0'"),
        ("\u0661", "int64", "x: row 2: expected a whole number, found '\u0661'"),
        ("256", "uint8", "x: row 2: 256 does not fit uint8"),
        ("9" * 30, "int64", f"x: row 2: {'9' * 30} does not fit int64"),
        ("0.1", "float32", "x: row 2: 0.1 is not exact in float32; --dtype-unsafe rounds it"),
        ("1e400", "float64", "x: row 2: 1e400 does not fit float64"),
        ("-1e400", "float32", "x: row 2: -1e400 does not fit float32"),
        ("9" * 310, "float64", f"x: row 2: {'9' * 40} does not fit float64"),
        ("1e39", "float32", "x: row 2: 1e39 does not fit float32"),
        (
            "9007199254740993",
            "float64",
            "x: row 2: 9007199254740993 is not exact in float64; --dtype-unsafe rounds it",
        ),
        ("yes", "bool", "x: row 2: expected true or false, found 'yes'"),
        ("1", "complex64", "x: is marked text, and cannot be complex64"),
    ],
)
def test_a_text_that_is_no_number_names_its_place(
    lod: Lod, folder: Path, text: str, dtype: str, said: str
) -> None:
    first = "true" if dtype == "bool" else "1"
    io.write("t.lod.h5", {"x": LoDTensor.from_lists([first, None, text, text])})
    done = lod("cast", "t.lod.h5", f"x={dtype}", "-o", "o.lod.h5")
    assert done.code
    assert said in done.stderr
    assert not Path("o.lod.h5").exists()


def test_rounded_texts_are_the_nearest_numbers_but_not_infinite(lod: Lod, folder: Path) -> None:
    texts = ["9007199254740993", "-9007199254740992", "0" * 5000 + "90071992547409930", "1e23"]
    io.write("t.lod.h5", {"x": LoDTensor.from_lists(["Infinity", *texts, "-inf"])})
    assert lod("cast", "t.lod.h5", "x=float64", "--unsafe", "-o", "o.lod.h5").clean
    assert tensor("o.lod.h5", "x").to_list() == [
        *(float("inf"), 2.0**53, -(2.0**53), 90071992547409936.0, 1e23, float("-inf")),
    ]
    io.write("e.lod.h5", {"x": LoDTensor.from_lists(texts[1:])})
    done = lod("cast", "e.lod.h5", "x=float64", "-o", "no.lod.h5")
    assert f"x: row 1: {'0' * 40} is not exact in float64" in done.stderr
    for text, dtype in [("1e400", "float64"), ("-1e39", "float32"), ("70000", "float16")]:
        io.write("t.lod.h5", {"x": LoDTensor.from_lists(["1", text])}, overwrite=True)
        done = lod("cast", "t.lod.h5", f"x={dtype}", "--unsafe", "-o", "no.lod.h5")
        assert done.code == 1
        assert f"x: row 1: {text} does not fit {dtype}" in done.stderr
        assert not Path("no.lod.h5").exists()


def test_a_dtype_for_texts_alone_names_the_remedy(lod: Lod, folder: Path) -> None:
    Path("b.jsonl").write_text('{"x":"1","y":"2"}\n')
    done = lod("cast", "b.jsonl", "float32", "-o", "o.lod.h5")
    assert done.code == 4
    assert (
        "cannot cast numbers to float32; there are: x, y; TENSOR=float32 makes numbers of texts"
        in (done.stderr)
    )


def test_the_words_of_several_tensors_are_read_once(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.formats.values import as_words

    passes: list[tuple[Any, ...]] = []

    def counted(source: Source, names: Iterable[str]) -> dict[str, Categories]:
        read = source.batches_of

        def once(*given: Any) -> Any:
            passes.append(given)
            return read(*given)

        monkeypatch.setattr(source, "batches_of", once)
        return words_of(source, names)

    words_of = as_words.words_of
    monkeypatch.setattr(casting, "words_of", counted)
    io.write("w.lod.h5", {n: LoDTensor.from_lists([n, None, "z"]) for n in "abc"})
    types = [f"{n}=category" for n in "abc"]
    assert lod("cast", "w.lod.h5", *types, "-o", "o.lod.h5").code == 0
    assert {n: tensor("o.lod.h5", n).to_list() for n in "abc"} == {n: [n, None, "z"] for n in "abc"}
    assert passes[0] == (["a", "b", "c"],)


def test_decimals_become_whole_numbers_as_python_rounds_them(lod: Lod, folder: Path) -> None:
    prices = [Decimal(n).scaleb(-2) for n in (0, 50, 150, 250, -50, -150, -149, 12345, 100)]
    io.write("p.lod.h5", {"p": LoDTensor.from_lists([*prices, None])})
    done = lod("cast", "p.lod.h5", "p=int32", "-o", "o.lod.h5")
    assert done.code == 1
    assert "p: row 1: 0.50 is not exact in int32; --dtype-unsafe rounds it" in done.stderr
    assert lod("cast", "p.lod.h5", "p=int64", "--unsafe", "-o", "o.lod.h5").code == 0
    assert tensor("o.lod.h5", "p").to_list() == [*map(round, prices), None]


LINES = [{"w": ["the", None, "cat"], "n": 1}, {"w": None, "n": 2}, {"w": ["dog", "the"], "n": 3}]


def test_a_vocabulary_numbers_words_by_its_lines_and_others_are_unknown(
    lod: Lod, folder: Path
) -> None:
    write_jsonl("some.jsonl", LINES)
    Path("words.txt").write_text("the\n<unk>\r\nbig cat\ncat\n")
    assert lod(
        "cast", "-q", "some.jsonl", "w=category", "--vocab", "words.txt", "-o", "numbered.lod.h5"
    ).clean
    found = tensor("numbered.lod.h5", "w")
    assert found.categories == ("the", "<unk>", "big cat", "cat")
    assert found.to_list() == [["the", None, "cat"], None, ["<unk>", "the"]]
    assert found.values.tolist() == [0, 0, 3, 1, 0]
    assert found.dtype == "int8"


def test_a_word_that_a_vocabulary_lacks_is_an_error_that_names_its_place(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "BATCH_BYTES", 8)
    write_jsonl("some.jsonl", LINES)
    Path("words.txt").write_text("the\ncat\n")
    done = lod("cast", "some.jsonl", "w=category", "--vocab", "words.txt", "-o", "none.lod.h5")
    assert done.code == 1
    assert done.stderr == (
        "lod cast: some.jsonl: w: level 0 item 2, row 0: 'dog' is not in words.txt; add it, or "
        "<unk> for all other texts\n"
    )
    assert not Path("none.lod.h5").exists()


def test_a_text_that_is_new_when_a_file_is_read_again_is_no_unknown_word(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl("some.jsonl", [{"w": "the"}, {"w": "<unk>"}, {"w": "dog"}])
    before = Categories(("<unk>", "the"))
    monkeypatch.setattr(casting, "words_of", lambda source, names: dict.fromkeys(names, before))
    done = lod("cast", "some.jsonl", "w=category", "-o", "none.lod.h5")
    said = "was changed while it was read; read it again"
    assert (done.code, done.stderr) == (1, f"lod cast: some.jsonl: w: {said}\n")
    assert not Path("none.lod.h5").exists()


@pytest.mark.parametrize(
    ("content", "cast", "code", "said"),
    [
        (
            b"the\nthe\n",
            "w=category",
            1,
            "lod cast: words.txt: categories: word 1 is the same as word 0",
        ),
        (b"the\n\xff\n", "w=category", 1, "lod cast: words.txt: line 2: '\ufffd' is not UTF-8"),
        (b"the\n", "n=int8", 2, "--vocab: has the words of categories; give TENSOR=category"),
    ],
)
def test_a_wrong_vocabulary_is_an_error(
    lod: Lod, folder: Path, content: bytes, cast: str, code: int, said: str
) -> None:
    write_jsonl("some.jsonl", LINES)
    Path("words.txt").write_bytes(content)
    done = lod("cast", "some.jsonl", cast, "--vocab", "words.txt", "-o", "none.lod.h5")
    assert done.code == code
    assert said in done.stderr


def test_a_tensor_called_like_a_code_of_numpy_is_no_dtype(lod: Lod, folder: Path) -> None:
    Path("t.csv").write_text("n,x\n1,2\n")
    done = lod("cast", "t.csv", "n", "-o", "o.lod.h5")
    assert (done.code, done.stderr) == (
        2,
        "lod cast: t.csv: dtype: 'n' is a tensor; write n=DTYPE\n",
    )
    assert lod("cast", "t.csv", "f", "-o", "o.lod.h5").code == 0
