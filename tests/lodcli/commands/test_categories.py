"""Commands keep categories, and show their words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, filtered, tensor

USERS = ["c", "b", "c", "a"]


def coded(words: list[str], *codes: int, dtype: str = "int8") -> LoDTensor:
    return LoDTensor(np.array(codes, dtype)).as_categories(words)


@pytest.fixture(autouse=True)
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tags = LoDTensor(np.array([0, 1, 0]), [[1, 0, 2, 0]]).as_categories(["new", "old"])
    users = coded(["b", "a", "c"], 2, 0, 2, 1)
    io.write("e.lod.h5", {"user": users, "tags": tags, "n": LoDTensor([1, 2, 3, 4])})


KEEPING: dict[str, list[str]] = {
    "slice e.lod.h5::user 1:3": ["b", "c"],
    "head e.lod.h5::user -n 2": ["c", "b"],
    "tail e.lod.h5::user -n 2": ["c", "a"],
    "filter e.lod.h5 n>2": ["c", "a"],
    "sort e.lod.h5 --by user": ["b", "a", "c", "c"],
    "group e.lod.h5 --by user": ["b", "a", "c"],
    "select e.lod.h5 user": USERS,
    "drop e.lod.h5 n": USERS,
    "rename e.lod.h5 n=m": USERS,
    "cast e.lod.h5 n=int8": USERS,
    "concat e.lod.h5 e.lod.h5": USERS * 2,
    "join e.lod.h5 more.lod.h5 --on user": ["a", "c", "c"],
    "merge e.lod.h5::user more.lod.h5::score": USERS,
}


@pytest.mark.parametrize("command", KEEPING)
def test_commands_keep_categories(command: str, lod: Lod) -> None:
    scores = LoDTensor([10, 20, 30, 40])
    io.write("more.lod.h5", {"user": coded(["a", "x", "c", "y"], 0, 1, 2, 3), "score": scores})
    assert lod(*command.split(), "-o", "o.lod.h5").code == 0
    found = tensor("o.lod.h5", "user")
    assert found.to_list() == KEEPING[command]
    assert found.categories == ("b", "a", "c")


def test_shuffle_sample_split_and_a_pipe_keep_categories(lod: Lod) -> None:
    assert lod("shuffle", "e.lod.h5::user", "-o", "o.lod.h5").code == 0
    assert sorted(tensor("o.lod.h5", "user").to_list()) == sorted(USERS)
    assert lod("sample", "e.lod.h5::user", "4", "-o", "s.lod.h5").code == 0
    assert tensor("s.lod.h5", "user").categories == ("b", "a", "c")
    assert lod("split", "e.lod.h5::user", "--by", "count", "2", "-o", "p-{}.lod.h5").code == 0
    parts = [tensor(path, "user").to_list() for path in sorted(map(str, Path().glob("p-*")))]
    assert [one for part in parts for one in part] == USERS
    assert lod("convert", "e.lod.h5", "--isolate", "i.lods").code == 0
    assert tensor("i.lods", "user").to_list() == USERS


def test_concat_puts_words_together(lod: Lod) -> None:
    io.write("a.lod.h5", coded(["no", "yes"], 1, 0))
    io.write("b.lod.h5", coded(["maybe", "yes"], 0, 1))
    assert lod("concat", "a.lod.h5", "b.lod.h5", "-o", "c.lod.h5").code == 0
    found = tensor("c.lod.h5", "data")
    assert found.to_list() == ["yes", "no", "maybe", "yes"]
    assert found.categories == ("no", "yes", "maybe")
    io.write("o.lod.h5", coded(["no", "yes"], 1).as_categories(["no", "yes"], ordered=True))
    done = lod("concat", "a.lod.h5", "o.lod.h5", "-o", "d.lod.h5")
    assert done.code == 1
    assert (
        "o.lod.h5: data: does not fit a.lod.h5: it has the marks category[2, ordered]"
        in done.stderr
    )
    io.write("q.lod.h5", coded(["no"], 0).as_categories(["no"], ordered=True))
    done = lod("concat", "o.lod.h5", "q.lod.h5", "-o", "d.lod.h5")
    assert done.code == 1
    assert "q.lod.h5: data: ordered categories with other words have no common" in done.stderr
    assert done.stderr.endswith("; lod cast TENSOR=text makes texts of them\n")
    for name in ("o", "q"):
        assert lod("cast", f"{name}.lod.h5", "data=text", "-o", f"{name}t.lod.h5").code == 0
    assert lod("concat", "ot.lod.h5", "qt.lod.h5", "-o", "d.lod.h5").code == 0
    assert tensor("d.lod.h5", "data").to_list() == ["yes", "no"]


def test_join_refuses_keys_of_which_one_is_text(lod: Lod) -> None:
    io.write("t.lod.h5", {"user": LoDTensor.from_lists(["a"]), "m": LoDTensor([1])})
    done = lod("join", "e.lod.h5", "t.lod.h5", "--on", "user", "-o", "o.lod.h5")
    assert done.code == 1
    assert done.stderr.endswith(
        "user: the keys are categories in the first file and text in the second; "
        "`lod convert --text-levels text` makes texts of categories\n"
    )


def test_inspect_and_diff_show_words(lod: Lod) -> None:
    shown = lod("inspect", "e.lod.h5").stdout
    assert "category[3] (int8)" in shown
    assert "words of user: b, a, c\nwords of tags: new, old\n" in shown
    found = json.loads(lod("inspect", "e.lod.h5", "--json").stdout)
    assert found["tensors"][0]["marks"] == {"values": "category", "words": ["b", "a", "c"]}
    io.write("f.lod.h5", coded(["b", "x", "c"], 2, 0, 2, 1))
    shown = lod("diff", "e.lod.h5::user", "f.lod.h5").stdout
    assert "word 1: a against x" in shown
    many = [f"w{number}" for number in range(1000)]
    io.write("m.lod.h5", coded(many, 0))
    assert "w19 and 980 more" in lod("inspect", "m.lod.h5").stdout


def test_convert_tells_what_becomes_of_categories_and_makes_them_text(lod: Lod) -> None:
    shown = lod("convert", "e.lod.h5::user", "o.jsonl", "--dry-run").stdout
    assert "category[3] of user" in shown
    assert lod("convert", "e.lod.h5::user", "o.lod.h5", "--text-levels", "text").code == 0
    assert tensor("o.lod.h5", "user").marks.is_text
    assert tensor("o.lod.h5", "user").to_list() == USERS
    done = lod("convert", "e.lod.h5::user", "n.lod.h5", "--text-levels", "numbers")
    assert tensor("n.lod.h5", "user").to_list() == [2, 0, 2, 1]
    done = lod("convert", "e.lod.h5::user", "o.jsonl", "--strict")
    assert done.code == 4


@pytest.mark.parametrize(
    ("expression", "users"),
    [
        ("user == 'c'", ["c", "c"]),
        ("'c' != user", ["b", "a"]),
        ("user in ('a', 'b')", ["b", "a"]),
        ("user not in ('a', 'b') and n > 1", ["c"]),
        ("any(tags == 'old')", ["c"]),
        ("user == 'c' or user == 'a'", ["c", "c", "a"]),
    ],
)
def test_filter_compares_categories_with_words(expression: str, users: list[str], lod: Lod) -> None:
    for source in ("e.lod.h5", "e.lods"):
        io.write("e.lods", io.read_all("e.lod.h5"), overwrite=True)
        assert lod("filter", source, expression, "-o", "o.lod.h5", "-f").code == 0
        assert tensor("o.lod.h5", "user").to_list() == users


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("user == 'x'", "column 9: user: no category 'x'; there are: 'b', 'a', 'c'"),
        ("user < 'b'", "column 8: the categories of user have no order; use ==, != or in"),
        ("'b' == max(user)", "column 8: the categories of user have no order; use first, last"),
        ("n == 'b'", "column 6: expected a number, found 'b'; n is not text"),
        ("length() == 'b'", "column 13: expected a number, found 'b'; this is not text"),
        (
            "user - 'b' > 1",
            "column 1: - is not defined for category[3] and a text; lod convert",
        ),
        ("coalesce(user, n) == 'b'", "column 16: user is category[3]; expected a word in quotes"),
        ("coalesce(n, user) == 'b'", "column 10: user is category[3]; expected a word in quotes"),
        ("coalesce(user, 0) == 'b'", "column 16: user is category[3]; expected a word in quotes"),
        ("maximum(n, user)", "column 9: user is category[3]; expected a word in quotes"),
    ],
)
def test_words_that_are_no_categories_are_refused(expression: str, message: str, lod: Lod) -> None:
    done = lod("filter", "e.lod.h5", expression, "-o", "o.lod.h5")
    assert done.code == 2
    assert message in done.stderr


def test_expressions_compare_the_words_of_two_dictionaries(lod: Lod) -> None:
    two = {"one": coded(["x", "y", "z"], 0, 1, 2), "two": coded(["y", "x", "z"], 0, 1, 2)}
    none = LoDTensor.from_lists([None] * 3, dtype="int8").as_categories([])
    io.write("w.lod.h5", {**two, "none": none})
    for expression, words in {
        "one == two": ["z"],
        "two != one": ["x", "y"],
        "one == none": [],
    }.items():
        assert filtered(lod, expression, "w.lod.h5", "one") == words
    assert lod("apply", "one == two", "w.lod.h5", "-fo", "o.lod.h5").code == 0
    assert tensor("o.lod.h5").to_list() == [False, False, True]
    for expression in ("one < two", "maximum(one, two) == 0"):
        done = lod("filter", "w.lod.h5", expression, "-fo", "o.lod.h5")
        assert done.code == 2
        assert "have no order; use == or !=" in done.stderr
    sizes = [
        LoDTensor([0, 1, 2]).as_categories(words, ordered=True)
        for words in (list("xyz"), list("yxz"))
    ]
    io.write("w.lod.h5", {"one": sizes[0], "two": sizes[1]}, overwrite=True)
    done = lod("filter", "w.lod.h5", "one < two", "-fo", "o.lod.h5")
    assert done.code == 2
    assert "column 7: ordered categories with other words have no common order" in done.stderr


# Of the words 1, lo and hi in this order: a number is a word, and no code.
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("convert c.lod.h5 --nulls fill=lo", ["lo", "lo", "1"]),
        ("convert c.lod.h5 --nulls fill=1", ["lo", "1", "1"]),
        ("convert c.lod.h5 --nulls fill=2", "data: no category '2'; there are: '1', 'lo', 'hi'"),
        ("convert w.lod.h5::l --nulls fill=zz", "--nulls: fill=zz: expected a number, a date"),
        ("convert w.lod.h5::n --nulls fill=lo", "n: no int64 is 'lo', which nulls are to be"),
        ("apply erase w.lod.h5::l --tokens hi,1", [["lo"], []]),
        ("apply erase w.lod.h5::l --tokens 2", "no category '2'"),
        ("apply ctc_align w.lod.h5::l --blank hi", [["1", "lo"], []]),
        ("apply erase(l,tokens=['hi','1']) w.lod.h5", [["lo"], []]),
        (
            "apply erase(l,['hi',0]) w.lod.h5",
            "tokens: expected a word in quotes such as '1', found 0",
        ),
        (
            "apply ctc_align(l,blank=0) w.lod.h5",
            "blank: expected a word in quotes such as '1', fou",
        ),
        ("apply shift(l,pad_value='lo') w.lod.h5", [["lo", "1", "hi", "hi"], []]),
        ("apply shift(l,2,pad_value=1) w.lod.h5", "column 1: pad_value: expected a word in quotes"),
    ],
)
def test_options_take_words(line: str, found: list[object] | str, lod: Lod) -> None:
    codes = LoDTensor([0, 2, 2, 1], [[4, 0]]).as_categories(["1", "lo", "hi"])
    some = LoDTensor.from_lists([1, None, 0]).as_categories(["1", "lo", "hi"])
    io.write("c.lod.h5", some)
    io.write("w.lod.h5", {"l": codes, "n": LoDTensor.from_lists([1, None, 3])})
    done = lod(*line.split(), "-q", "-o", "o.lod.h5")
    if isinstance(found, str):
        assert done.code
        assert found in done.stderr
    else:
        assert done.code == 0, done.stderr
        assert tensor("o.lod.h5").to_list() == found


def test_a_dtype_does_not_round_codes(lod: Lod) -> None:
    words = [f"{n:04}" for n in range(3000)]
    codes = LoDTensor(np.arange(3000)).as_categories(words)
    io.write("w.lod.h5", {"word": codes, "text": LoDTensor.from_lists(words)})
    for text, wanted in {
        "word == text": [True] * 3000,
        "word == '2999'": [False] * 2999 + [True],
        "coalesce(word, '0000')": words,
    }.items():
        assert lod("apply", text, "w.lod.h5", "--dtype", "float16", "-q", "-fo", "o.lod.h5").clean
        assert tensor("o.lod.h5").to_list() == wanted


def test_sort_by_a_word_puts_its_items_last(lod: Lod) -> None:
    assert lod("sort", "e.lod.h5", "--by", "user == 'c'", "-o", "o.lod.h5").code == 0
    assert tensor("o.lod.h5", "user").to_list() == ["b", "a", "c", "c"]


def test_classes_of_ts_are_categories_and_come_back(lod: Lod) -> None:
    head = "@univariate true\n@classLabel true {}\n@data\n"
    Path("a.ts").write_text(head.format("rest sport") + "1,2:sport\n3:rest\n")
    Path("b.ts").write_text(head.format("sport work") + "4:work\n5:sport\n")
    assert filtered(lod, "label == 'sport'", "a.ts", "label") == ["sport"]
    assert lod("concat", "a.ts", "b.ts", "-o", "c.ts").code == 0
    assert tensor("c.ts", "label").to_list() == ["sport", "rest", "work", "sport"]
    assert "@classLabel true rest sport work\n" in Path("c.ts").read_text()


def test_words_are_read_and_written_without_importing_pandas(shell: Lod, folder: Path) -> None:
    # pyarrow.array imports it if it is installed, which takes longer than to read a small file.
    (folder / "pandas.py").write_text("open('imported', 'w').close()\n")
    parts = [(["é", "b"], [0, 1, None]), (["b", "c"], [1, 0])]
    arrays = [pa.DictionaryArray.from_arrays(pa.array(n, "int8"), words) for words, n in parts]
    with pq.ParquetWriter(folder / "w.parquet", pa.table([arrays[0]], ["w"]).schema) as writer:
        for array in arrays:
            writer.write_table(pa.table([array], ["w"]))
    done = shell("lod sort w.parquet --by w -o s.parquet && ls", PYTHONPATH=".")
    assert done.code == 0, done.stderr
    assert "imported" not in done.stdout
    found = pq.read_table(folder / "s.parquet")["w"]
    assert found.to_pylist() == ["é", "b", "b", "c", None]
    assert found.type.value_type == pa.string()


EMPTY = pa.array([], pa.dictionary(pa.int32(), pa.string()))


@pytest.mark.parametrize(
    "condition",
    [
        *('c == "x"', '"x" != c', 'c in ("x", "y")', 'c not in ("x", "y")', '"x" in tags'),
        *('x == 1 or c == "x"', 'not c == ("x" if x > 1 else "y")', 'any(tags == "x")'),
    ],
)
def test_a_comparison_with_categories_without_words_keeps_no_item(condition: str, lod: Lod) -> None:
    lists = pa.array([], pa.list_(EMPTY.type))
    pq.write_table(pa.table({"c": EMPTY, "x": pa.array([], "int64"), "tags": lists}), "e.parquet")
    assert lod("filter", "e.parquet", condition, "-o", "o.parquet").clean
    assert pq.read_table("o.parquet").num_rows == 0
    assert lod("apply", condition, "e.parquet", "--into", "r", "-o", "r.parquet").clean
    assert pq.read_table("r.parquet").column_names == ["c", "x", "tags", "r"]


def test_categories_of_nulls_alone_equal_no_word(lod: Lod) -> None:
    nulls = pa.array([None, None], EMPTY.type)
    pq.write_table(pa.table({"c": nulls, "x": [1, 2]}), "e.parquet")
    assert lod("filter", "e.parquet", 'c == "x" or c != "x" or x == 2', "-o", "o.parquet").code == 0
    assert pq.read_table("o.parquet")["x"].to_pylist() == [2]
    assert lod("apply", 'coalesce(c, "x")', "e.parquet", "-o", "p.parquet").code == 0
    assert pq.read_table("p.parquet")["c"].to_pylist() == ["x", "x"]


def test_a_word_that_some_files_lack_is_one_of_all_their_words(lod: Lod) -> None:
    for place, words in enumerate((["a", "b"], [], ["b", "c"])):
        column = pa.array(words, pa.string()).dictionary_encode()
        number = pa.array(range(len(words)), pa.int64())
        pq.write_table(pa.table({"c": column, "x": number}), f"part{place}.parquet")
    for condition, expected in (('c == "c"', ["c"]), ('c != "a"', ["b", "b", "c"])):
        assert lod("filter", "part*.parquet", condition, "-o", "o.parquet", "-f").code == 0
        assert pq.read_table("o.parquet")["c"].to_pylist() == expected
    done = lod("filter", "part*.parquet", 'c == "x"', "-o", "p.parquet")
    assert "c: no category 'x'; there are: 'a', 'b', 'c'" in done.stderr
