"""`lod head`, `tail`, `sample`, `shuffle`, `sort` and `filter`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.items.items import Items
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, read_jsonl, tensor


@pytest.fixture
def labelled(folder: Path) -> list[list[int]]:
    """labelled.lod.h5: 40 sequences, a label and weights beside them, and names of classes."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 9, 40)
    lod = LoD.from_lengths([lengths], ["sentence"])
    ids = rng.integers(0, 100, lengths.sum())
    io.write(
        folder / "labelled.lod.h5",
        {
            "ids": LoDTensor(ids, lod),
            "weights": LoDTensor(rng.random((ids.size, 2)), lod),
            "label": LoDTensor(np.arange(40, dtype=np.int8) % 4),
            "classes": LoDTensor(np.arange(4)),
        },
    )
    return LoDTensor(ids, lod).to_list()


def chosen(path: str = "out.lod.h5") -> list[tuple[list[int], int]]:
    """Return the sequences and labels of a file, having checked that the weights fit."""
    ids, weights = tensor(path, "ids"), tensor(path, "weights")
    assert ids.lod.same_levels(weights.lod)
    assert ids.lod.names == ("sentence",)
    return list(zip(ids.to_list(), tensor(path, "label").data.tolist(), strict=True))


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (["head", "-n", "3"], slice(0, 3)),
        (["head"], slice(0, 10)),
        (["head", "-n", "0"], slice(0, 0)),
        (["head", "-n", "99"], slice(0, 40)),
        (["head", "-n", "-38"], slice(0, 2)),
        (["head", "-n", "-99"], slice(0, 0)),
        (["tail", "-n", "3"], slice(37, 40)),
        (["tail", "-n", "0"], slice(40, 40)),
        (["tail", "-n", "99"], slice(0, 40)),
        (["tail", "-n", "-38"], slice(38, 40)),
        (["tail", "-n", "-99"], slice(40, 40)),
    ],
    ids=lambda value: str(value),
)
def test_head_and_tail_keep_these_items_of_all_tensors(
    lod: Lod, labelled: list[list[int]], args: list[str], kept: slice
) -> None:
    name, *rest = args
    done = lod(name, "labelled.lod.h5", *rest, "-o", "out.lod.h5")
    assert (done.code, done.stdout) == (0, "")
    assert "classes is left out: does not share the items of ids (sentence)" in done.stderr
    assert chosen() == [(labelled[item], item % 4) for item in range(40)[kept]]


@pytest.mark.parametrize("source", ["records.jsonl", "records.lod.h5", "records.parquet"])
def test_the_fields_of_records_stay_together(lod: Lod, folder: Path, source: str) -> None:
    records = [{"text": "aé" * item, "ids": [item] * (item % 3), "n": item} for item in range(9)]
    lines = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in records]
    Path("records.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if source != "records.jsonl":
        assert lod("convert", "-q", "records.jsonl", source).code == 0
    for args, kept in (
        (["head", source, "-n", "4"], lines[:4]),
        (["tail", source, "-n", "4"], lines[-4:]),
        (["filter", source, "n in (1, 4)"], [lines[1], lines[4]]),
        (["filter", source, "length(ids) == 2"], [lines[2], lines[5], lines[8]]),
        (["sort", source, "--by", "-length(text)"], lines[::-1]),
        (["sort", source, "--by", "-n"], lines[::-1]),
        (["slice", source, "2:5"], lines[2:5]),
    ):
        assert lod(*args, "-q", "-o", "out.jsonl", "-f").clean
        assert Path("out.jsonl").read_text().splitlines() == kept


def test_head_of_a_level_keeps_its_items(lod: Lod, folder: Path) -> None:
    done = lod("head", "many.lod.h5::tags", "-n", "4", "--level", "sentence", "-o", "out.npz")
    assert done.code == 0
    assert tensor("out.npz", "tags").to_list() == [[0, 1, 2], [3, 4], [5, 6, 7, 8], [9]]
    assert tensor("out.npz", "vectors").rows == 10


def test_a_sample_has_items_of_the_file_in_its_order(lod: Lod, labelled: list[list[int]]) -> None:
    whole = [(ids, item % 4) for item, ids in enumerate(labelled)]
    for amount, count in (("7", 7), ("25%", 10), ("0", 0), ("40", 40), ("0.1%", 0)):
        assert lod("sample", "labelled.lod.h5", amount, "-fo", "out.lod.h5").code == 0
        found = chosen()
        assert len(found) == count
        rest = iter(whole)
        assert all(one in rest for one in found)  # a subsequence
    first = chosen() if lod("sample", "labelled.lod.h5", "7", "-fo", "out.lod.h5") else []
    lod("sample", "labelled.lod.h5", "7", "-fo", "out.lod.h5")
    assert chosen() == first
    lod("sample", "labelled.lod.h5", "7", "--seed", "1", "-fo", "out.lod.h5")
    assert chosen() != first


def test_a_shuffle_is_a_permutation_that_the_seed_decides(
    lod: Lod, labelled: list[list[int]]
) -> None:
    whole = sorted((ids, item % 4) for item, ids in enumerate(labelled))
    orders = []
    for seed in ("1", "1", "2"):
        assert lod("shuffle", "labelled.lod.h5", "--seed", seed, "-fqo", "out.lod.h5").clean
        orders.append(chosen())
        assert sorted(orders[-1]) == whole
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != [(ids, item % 4) for item, ids in enumerate(labelled)]


@pytest.mark.parametrize(
    ("args", "key", "reverse"),
    [
        ([], len, False),
        (["--by", "-length"], len, True),
        (["--by", "length:sentence", "--reverse"], len, True),
        (["--by", "-length:0", "--reverse"], len, False),
        (["--by", "sum(ids)"], sum, False),
        (["--by", "-sum(ids) + 1"], sum, True),
    ],
    ids=lambda value: str(value),
)
def test_sort_is_that_of_python(
    lod: Lod, labelled: list[list[int]], args: list[str], key: object, reverse: bool
) -> None:
    assert lod("sort", "labelled.lod.h5", *args, "-qo", "out.lod.h5").clean
    whole = [(ids, item % 4) for item, ids in enumerate(labelled)]
    assert callable(key)
    assert chosen() == sorted(whole, key=lambda one: key(one[0]), reverse=reverse)


@pytest.mark.parametrize("options", [["--by", "t"], ["--by", "-t"], ["--by", "t", "--reverse"]])
def test_texts_are_sorted_by_their_bytes(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr(Items.range, "__defaults__", (2,))
    texts = ["b", "", "\u00fc", "ab", "b", "a", "Z", "b"]
    numbered = [{"t": text, "n": number} for number, text in enumerate(texts)]
    Path("t.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in numbered))
    assert lod("sort", "t.jsonl", *options, "-qo", "out.jsonl").clean
    wanted = sorted(numbered, key=lambda one: str(one["t"]).encode(), reverse=len(options) > 2)
    if options[1] == "-t":
        wanted = sorted(numbered, key=lambda one: str(one["t"]).encode(), reverse=True)
    assert read_jsonl("out.jsonl") == wanted


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("n", [1, 2, 0]),
        ("-n + length(ids)", [0, 1, 2]),
        ("length(ids) + length(t)", [1, 0, 2]),
        ("sum(ids), -n", [0, 1, 2]),
        ("-t,n", [2, 0, 1]),
    ],
)
def test_a_key_has_the_tensors_that_it_names(
    lod: Lod, folder: Path, by: str, order: list[int]
) -> None:
    rows = [
        {"t": "b", "ids": [1], "n": 9, "flag": None},
        {"t": "", "ids": [2], "n": 3, "flag": True},
        {"t": "bc", "ids": [1, 1, 1], "n": 4, "flag": False},
    ]
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert lod("convert", "t.jsonl", "-qo", "t.lod.h5").code == 0
    for source in ("t.jsonl", "t.lod.h5"):
        assert lod("sort", source, f"--by={by}", "-fqo", "out.jsonl").code == 0
        lines = (folder / "out.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == [rows[n] for n in order]


def test_items_without_a_key_come_last(lod: Lod, labelled: list[list[int]]) -> None:
    for args in (["--by", "mean(ids)"], ["--by", "mean(ids)", "--reverse"]):
        assert lod("sort", "labelled.lod.h5", *args, "-fqo", "out.lod.h5").code == 0
        found = [ids for ids, _ in chosen()]
        full = [ids for ids in found if ids]
        assert found == full + [[]] * (40 - len(full)) != full
        means = [sum(ids) / len(ids) for ids in full]
        assert means == sorted(means, reverse="--reverse" in args)


FILTERS = [
    ("length() >= 5", lambda ids, label: len(ids) >= 5),
    ("length(sentence) >= 5 and label in (1, 3)", lambda ids, label: len(ids) >= 5 and label % 2),
    ("label not in [0, 2]", lambda ids, label: label % 2),
    ("2 <= length(0) < 6", lambda ids, label: 2 <= len(ids) < 6),
    ("mean(ids) > 50", lambda ids, label: ids and sum(ids) / len(ids) > 50),
    ("not mean(ids) > 50", lambda ids, label: ids and not sum(ids) / len(ids) > 50),
    ("max(ids) == 99 or min(ids) < 3", lambda ids, label: 99 in ids or {0, 1, 2} & {*ids}),
    ("any(ids % 7 == 0)", lambda ids, label: any(one % 7 == 0 for one in ids)),
    ("all(ids > 9)", lambda ids, label: all(one > 9 for one in ids)),
    ("first(ids) < last(ids)", lambda ids, label: ids and ids[0] < ids[-1]),
    ("sum(ids * 2 - 1) > 200", lambda ids, label: sum(2 * one - 1 for one in ids) > 200),
    ("sum(ids * label) > 300", lambda ids, label: sum(ids) * label > 300),
    ("sum(weights[1] < 2) == length()", lambda ids, label: True),
    ("max(abs(-tensor('ids'))) >= 90", lambda ids, label: ids and max(ids) >= 90),
    ("label / 2 == 1.5", lambda ids, label: label == 3),
    ("1", lambda ids, label: True),
    ("0", lambda ids, label: False),
]


@pytest.mark.parametrize(("text", "holds"), FILTERS, ids=[text for text, _ in FILTERS])
def test_a_filter_keeps_what_python_would(
    lod: Lod, labelled: list[list[int]], text: str, holds: object
) -> None:
    assert callable(holds)
    whole = [(ids, item % 4) for item, ids in enumerate(labelled)]
    assert lod("filter", "labelled.lod.h5", text, "-qo", "out.lod.h5").clean
    assert chosen() == [one for one in whole if holds(*one)]
    assert lod("filter", "labelled.lod.h5", text, "--invert", "-qo", "rest.lod.h5").code == 0
    assert chosen("rest.lod.h5") == [one for one in whole if not holds(*one)]


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet", "t.lod.h5"])
def test_lengths_are_of_the_tensor_that_the_reference_names(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ['{"text":"abc","ids":[1]}', '{"text":"d","ids":[1,2,3]}']
    Path("t.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if name != "t.jsonl":
        assert lod("convert", "t.jsonl", name).code == 0
    for source, expression, kept in (
        (f"{name}::ids", "length() > 1", 1),
        (f"{name}::text", "length() > 1", 0),
        (f"{name}::ids", "length(0) > 1", 1),
        (name, "length(ids) > 1", 1),
        (f"{name}::text", "length(tensor('ids')) > 1", 1),
    ):
        assert lod("filter", source, expression, "-fo", "out.jsonl").code == 0
        assert Path("out.jsonl").read_text().splitlines() == [lines[kept]], (source, expression)
    assert lod("sort", f"{name}::ids", "--by=-length", "-fo", "out.jsonl").code == 0
    assert Path("out.jsonl").read_text().splitlines() == lines[::-1]
    Path("out.jsonl").unlink()
    for words in (("filter", name, "length() > 1"), ("sort", name)):
        refused = lod(*words, "-o", "out.jsonl")
        assert refused.code == 2
        expected = "text, ids have lengths of their own: write length(ids), or FILE::ids"
        assert expected in refused.stderr
        assert not Path("out.jsonl").exists()


def test_the_length_of_a_record_is_that_of_its_first_list(lod: Lod, folder: Path) -> None:
    lines = ['{"r":{"id":1,"v":[1,2]},"w":[[1],[2]]}', '{"r":{"id":2,"v":[3]},"w":[[5],[6]]}']
    Path("r.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert lod("filter", "r.jsonl::r", "length() > 1", "-qo", "out.jsonl").code == 0
    assert Path("out.jsonl").read_text() == f"{lines[0]}\n"


@pytest.mark.parametrize(
    ("reference", "expression", "kept"),
    [
        ("", "length(turns) > 1", [0]),
        ("", "length(tensor('turns')) > 1", [0]),
        ("::turns", "length() > 1", [0]),
        ("", "max(length(turns.words)) == 2", [0]),
        ("::turns.words", "max(length(1)) == 3", [0]),
        ("", "any(turns.words == 9)", [1]),
        ("", "sum(turns.words) == 9 and n == 2", [1]),
        ("", "length(text) == 1", [1]),
    ],
)
def test_fields_of_records_are_called_by_their_paths(
    lod: Lod, folder: Path, reference: str, expression: str, kept: list[int]
) -> None:
    lines = [
        '{"turns":[{"words":[1,2,3]},{"words":[]}],"n":1,"text":"ab"}',
        '{"turns":[{"words":[9]}],"n":2,"text":"c"}',
    ]
    Path("t.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert lod("convert", "t.jsonl", "t.parquet").code == 0
    for name in ("t.jsonl", "t.parquet"):
        assert lod("filter", f"{name}{reference}", expression, "-fo", "out.jsonl").code == 0
        assert Path("out.jsonl").read_text().splitlines() == [lines[item] for item in kept]


TEXTS: dict[str, Callable[[str, list[str]], bool]] = {
    'lang == "en"': lambda lang, tags: lang == "en",
    '"größ" != lang': lambda lang, tags: lang != "größ",
    'lang in ("en", "")': lambda lang, tags: lang in ("en", ""),
    'lang not in ("en", "enx", "eno")': lambda lang, tags: lang not in ("en", "enx"),
    'any(tags == "a")': lambda lang, tags: "a" in tags,
    'sum(tags != "") == length(tags)': lambda lang, tags: "" not in tags,
    'lang > "en"': lambda lang, tags: lang.encode() > b"en",
    'lang <= "größ"': lambda lang, tags: lang.encode() <= "größ".encode(),
    '"enx" > lang': lambda lang, tags: lang < "enx",
    '"en" <= lang < "o"': lambda lang, tags: "en" <= lang < "o",
    'any(tags >= "b")': lambda lang, tags: any(tag.encode() >= b"b" for tag in tags),
    '"b" in tags and "" not in tags': lambda lang, tags: "b" in tags and "" not in tags,
    'lang == "en" or all(tags in ("a", "b"))': lambda lang, tags: (
        lang == "en" or set(tags) <= {"a", "b"}
    ),
}


@pytest.mark.parametrize("expression", TEXTS)
@pytest.mark.parametrize("name", ["t.jsonl", "t.lod.h5"])
def test_texts_are_compared_with_words(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expression: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(8)
    records = [
        {
            "lang": str(rng.choice(["en", "enx", "größ", "", "ne"])),
            "tags": [str(tag) for tag in rng.choice(["a", "b", "", "äb"], rng.integers(0, 4))],
        }
        for _ in range(60)
    ]
    lines = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in records]
    Path("t.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if name != "t.jsonl":
        assert lod("convert", "t.jsonl", name).code == 0
    assert lod("filter", name, expression, "-o", "out.jsonl").code == 0
    kept = [
        line
        for line, one in zip(lines, records, strict=True)
        if TEXTS[expression](str(one["lang"]), list(one["tags"]))
    ]
    assert 0 < len(kept) < 60
    assert Path("out.jsonl").read_text().splitlines() == kept


@pytest.mark.parametrize(
    ("reference", "expression", "expected"),
    [
        ("", "length() > 1", "turns.words, text have lengths of their own"),
        ("", "turns.other == 1", "no tensor 'turns.other'; did you mean turns.words?"),
        ("::text", "max(length(1)) > 1", "no level 1 from the items down; there are: 0"),
        ("", "length(turns.other) > 1", "no level turns.other from the items down"),
        ("", "(1 + 1).real == 2", "column 1: a dot can only be in a name"),
        ("", 'n == "b"', "expected a number, found 'b'; n is not text"),
        ("", 'n == "true"', "expected a number, found 'true'; write True or False"),
        ("", 'text in ("b", 3)', "column 15: expected a text in quotes, found 3"),
        ("", '"a" in text', "column 8: text is one value for each item; compare it with =="),
        ("", "1 in n", "column 6: n is one value for each item; compare it with =="),
        ("", "text == ab", """column 9: no tensor 'ab'; a text is written "ab\""""),
        ("", '"n" > 0', "column 1: a name is written without quotes, or as tensor('n')"),
        ("", 'row["n"] > 0', "column 1: write n, of a record r.n, or tensor('n')"),
        ("", "N > 0", "column 1: no tensor 'N'; did you mean n?"),
        ("", "n.sum() > 0", "column 1: only functions can be called: write sum(x), not x.sum()"),
        ("", "n.isna()", "column 1: no function 'isna'; write x is None"),
        ("", "std(n) > 1", "no function 'std'; write mean((x - mean(x)) ** 2) ** 0.5"),
        (
            "",
            "diff(n) > 1",
            "no function 'diff'; lod apply has diff(x)",
        ),
        ("", "quarter(n) > 1", "no function 'quarter'; write (month(time) + 2) // 3"),
        ("", "text.startswith('a')", "called: write startswith(x), not x.startswith()"),
        ("", "text.starts_with('a')", "no function 'starts_with'; write startswith(x, 'ab')"),
        ("", "where(n > 1, 2, 3)", "no function 'where'; write a if x > 0 else b"),
        ("", "argmax(n) > 1", "no function 'argmax'; lod apply max_index finds it"),
        ("", "mean(text) > 97", "column 6: text is text, and this function computes with numbers"),
        ("", "any(text + 1 > 97)", "make numbers of texts: lod cast text=float64"),
        ("", "n == NULL", "column 6: no tensor 'NULL'; a null is found by x is None"),
        (
            "",
            "n is not NULL",
            "column 10: compare with == and !=, and nulls with is None and is not None",
        ),
        ("", "n IS NOT NULL", "; write x is None, x is not None"),
        ("", "n <> 1", "; write >=, <= and !="),
        ("", "n => 1", "; write >=, <= and !="),
        ("", "n BETWEEN 1 AND 2", "; write 20 <= x <= 30"),
        ("", "text LIKE 'a = b'", "; write contains(x, 'ab') or matches(x, '^a.*b$')"),
        ("", "text == \u201cab\u201d", "; write \" or ' around a text"),
        ("", "n > 2020-01-01", "; write a date in quotes"),
        ("", "n ? 1 : 2", "; write a if x > 0 else b"),
        ("", "if n > 1 then 2 else 3", "; write a if x > 0 else b"),
        ("", "text == 'a=b' n", "not understood (invalid syntax)\n"),
        ("", "text == 97", "has several values for an item, one for each byte or text"),
        ("::none", "n == 1", "no tensor named 'none'; there are: turns.words, n, text"),
    ],
)
def test_wrong_names_of_fields_are_shown(
    lod: Lod,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reference: str,
    expression: str,
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text('{"turns":[{"words":[1,2,3]}],"n":1,"text":"ab"}\n')
    done = lod("filter", f"t.jsonl{reference}", expression, "-o", "out.jsonl")
    assert done.code == 2
    assert expected in done.stderr
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("expression", ["s", "s * s", "tags == 'a'"])
def test_texts_in_the_place_of_numbers_get_a_hint(lod: Lod, folder: Path, expression: str) -> None:
    Path("s.jsonl").write_text('{"s":"ab","tags":["a","b"]}\n')
    done = lod("filter", "s.jsonl", expression, "-qo", "new.jsonl")
    assert done.code == 2
    assert 'compare a text with a word or a text, as in NAME == "word"' in done.stderr


def test_an_expression_in_the_place_of_the_file_shows_the_order(
    lod: Lod, labelled: list[list[int]]
) -> None:
    done = lod("filter", "length() > 5", "labelled.lod.h5", "-o", "out.lod.h5")
    assert done.code == 2
    assert "the file goes first: lod filter labelled.lod.h5 'length() > 5'" in done.stderr


def test_lengths_below_the_items_are_taken_together(lod: Lod, folder: Path) -> None:
    assert lod("filter", "words.lod.h5", "max(length(sentence)) > 2", "-o", "out.lod.h5").code == 0
    assert tensor("out.lod.h5").recursive_sequence_lengths() == [[3, 2], [3, 2, 4, 2, 3]]
    assert lod("filter", "words.lod.h5", "--level", "1", "length() == 2", "-fo", "out.lod.h5").clean
    assert tensor("out.lod.h5").recursive_sequence_lengths() == [[2, 2]]


def test_a_label_alone_filters_items_of_a_named_level(lod: Lod, labelled: list[list[int]]) -> None:
    args = ["filter", "labelled.lod.h5", "label == 3", "--level", "sentence", "-qo", "out.lod.h5"]
    assert lod(*args).code == 0
    assert chosen() == [(labelled[item], 3) for item in range(3, 40, 4)]


def test_item_numbers_that_are_no_text_are_refused(lod: Lod, labelled: list[list[int]]) -> None:
    Path("numbers.txt").write_bytes(b"1\n\xff\n")
    done = lod("filter", "labelled.lod.h5", "-qo", "new.lod.h5", "--indices", "numbers.txt")
    assert (done.code, done.stdout) == (1, "")
    assert "numbers.txt: line 2: expected the number of an item, found" in done.stderr


def test_endless_numbers_of_items_are_refused(lod: Lod, labelled: list[list[int]]) -> None:
    args = ["filter", "labelled.lod.h5", "-qo", "new.lod.h5", "--memory", "1M", "--indices"]
    done = lod(*args, "/dev/zero")
    assert (done.code, done.stdout) == (1, "")
    assert "/dev/zero: line 1: expected the number of an item" in done.stderr
    Path("numbers.txt").write_text("1\n" * 100_000)
    done = lod(*args, "numbers.txt")
    assert (done.code, done.stdout) == (1, "")
    assert "numbers.txt: line 32768: 1310720 bytes" in done.stderr
    assert "--memory 2M is enough" in done.stderr


def test_items_of_several_batches_are_kept_by_number(lod: Lod, folder: Path) -> None:
    io.write("many.npy", LoDTensor(np.arange(100_000), LoD()))
    Path("numbers.txt").write_text("7\n50000\n99998\n")
    args = ["many.npy", "data >= 8", "--indices", "numbers.txt", "--memory", "2M"]
    assert lod("filter", *args, "-o", "out.npy").code == 0
    assert tensor("out.npy").data.tolist() == [50000, 99998]


def test_items_are_kept_by_number(lod: Lod, labelled: list[list[int]]) -> None:
    Path("numbers.txt").write_text("7\n 3 \n7\n39\n")
    args = ["labelled.lod.h5", "--indices", "numbers.txt", "-qfo", "out.lod.h5"]
    assert lod("filter", *args).code == 0
    assert chosen() == [(labelled[item], item % 4) for item in (3, 7, 39)]
    assert lod("filter", *args, "label == 3", "--invert").code == 0
    assert chosen() == [(labelled[item], item % 4) for item in range(40) if item not in (3, 7, 39)]
    for lines, said in (("3\nx\n", "numbers.txt: line 2: expected"), ("40\n", "no item 40")):
        Path("numbers.txt").write_text(lines)
        done = lod("filter", "labelled.lod.h5", "--indices", "numbers.txt", "-qo", "new.lod.h5")
        assert done.code in (1, 2)
        assert said in done.stderr
        assert not Path("new.lod.h5").exists()


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("lenght() > 3", 1, "no function 'lenght'; did you mean length?"),
        ("label > 1 and lable < 3", 15, "no tensor 'lable'"),
        ("ids > 3", 1, "several values for an item"),
        ("mean(weights) > 0 and first(weights) > 0", 29, "name a column, as in data[0]"),
        ("max(weights[2]) > 0", 13, "no column 2; rows have shape (2,)"),
        ("max(weights[{[1]}]) > 0", 13, "expected the number of a column, as in data[2]"),
        ("length(word) > 0", 8, "no level word from the items down; there are: sentence, 0"),
        ("length > 0", 1, "; the function is length(..)"),
        ("label = 1", 0, "equality is =="),
        ("label == 1 && 1", 0, "write and, or, not"),
        ("label == 1 AND 1", 0, "write and, or, not"),
        ("!label", 0, "write and, or, not"),
        ("label != None", 10, "compare with None as in x is None, x is not None"),
        ("__import__('os').system('true')", 1, "no function 'system'; there are: abs, all"),
        ("(label)(1)", 1, "no function 'label'; there are"),
        ("(1)(1)", 1, "only functions can be called"),
        ("[x for x in (1,)]", 1, "this cannot be used here"),
        ("label > 1, label < 3", 1, "expected one expression; write and between conditions, as in"),
        ("label == [1, 3]", 10, "a list cannot be used here; write label in [1, 3]"),
        ("(1, 3) != label", 1, "a list cannot be used here; write label not in (1, 3)"),
        ("ids == [1]", 8, "a list cannot be used here; write any(ids in [1])"),
        ("ids != [1]", 8, "a list cannot be used here; write not any(ids in [1])"),
        ("any(ids == [1])", 12, "a list cannot be used here; write ids in [1]"),
        ("any(ids == [])", 12, "a list cannot be used here; write length(ids) == 0"),
        ("label == []", 10, "a list cannot be used here; only in takes one, as in x in (1, 3)"),
        ("label == [1, label]", 10, "a list cannot be used here; only in takes one"),
        ("label == [None]", 10, "a list cannot be used here; only in takes one"),
        ("label == [-1, 3]", 10, "a list cannot be used here; write label in [-1, 3]"),
        ("label == ['a', 3]", 11, "expected a number, found 'a'; label is not text"),
        ("label == (lambda x: x)", 11, "lambda cannot be used here; write its expression, with"),
        ("(lambda x: x)(label) == 1", 1, "lambda cannot be used here; write its expression"),
        ("(n := label) == 1", 2, ":= cannot be used here; write the value in place of its name;"),
        ("label == f'{label}'", 10, "an f-string cannot be used here; write 'text', or x + 'te"),
        ("label > 1 == [1]", 14, "a list cannot be used here; only in takes one"),
        ("label < (1, 3)", 9, "a list cannot be used here; only in takes one, as in x in (1, 3)"),
        ("label & 9", 1, "only + - * / // % and ** can be used here; write and, or for & and |"),
        (
            "floor(label, 1) > 0",
            7,
            "floor takes times, label is not a time; write label // 10",
        ),
        ("label == 'é' or nothing", 10, "expected a number"),
        ("label in 3", 10, "expected a list of numbers"),
        ("é > 3", 1, "no tensor"),
        ("label + 99999999999999999999 > 0", 9, "does not fit 64 bits; write 1e+20 for the"),
        ("label + 9223372036854775807 * 3 > 0", 9, "does not fit 64 bits; write 2.76701161105643"),
        ("label < 9223372036854775807 * label * 3.5 + 10**999", 45, "does not fit 64 bits"),
        ("mean(3)", 6, "mean takes a tensor, this is one number"),
        ("sum(ids, 1)", 1, "takes one argument, as in sum(data); write x + y"),
        ("tensor(ids)", 1, "write tensor('NAME')"),
        ("", 1, "is empty"),
        ("(" * 5000 + ")" * 5000, 1, ""),
        ("1" + "+(1" * 1500 + ")" * 1500, 1, ""),
        ("label is 3", 10, "compare with =="),
        ("label\udcff > 0", 6, r"column 6: expected UTF-8, found '\udcff'"),
        ("classes == 1", 1, ""),
    ],
)
def test_a_wrong_expression_is_shown_with_its_column(
    lod: Lod, labelled: list[list[int]], text: str, column: int, said: str
) -> None:
    done = lod("filter", "labelled.lod.h5", text, "-qo", "new.lod.h5")
    if text == "classes == 1":  # it is of other items, and these are filtered
        assert done.code == 0
        return
    assert done.code == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    *_, _shown, caret, message = done.stderr.splitlines()
    if said and column:  # Python's own parser says the others, each version a little differently
        assert f"column {column}: " in message
        assert caret == " " * (column + 1) + "^"
    assert not Path("new.lod.h5").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["sample", "labelled.lod.h5", "41"], "there are only 40 items to draw 41 from"),
        (["sample", "labelled.lod.h5", "101%"], "expected a number of items such as 100"),
        (["sample", "labelled.lod.h5", "-1"], "expected a number of items such as 100"),
        (["head", "labelled.lod.h5", "-n", "x"], "x"),
        (["head", "many.lod.h5::tag"], "no tensor named 'tag'; there are"),
        (["tail", "labelled.lod.h5", "--level", "word"], "no level named 'word'"),
        (["sort", "labelled.lod.h5", "--by", "ids"], "several values for an item"),
        (["sort", "labelled.lod.h5", "--by", "length:word"], "no level 'word'"),
        (["sort", "labelled.lod.h5", "--by", "size 1E"], "lod sort: --by, column 6: not under"),
        (["sort", "labelled.lod.h5", "--by", "size"], "h5: --by, column 1: no tensor 'size'"),
        (["filter", "labelled.lod.h5"], "give an expression"),
    ],
)
def test_bad_usage_is_one_line(
    lod: Lod, labelled: list[list[int]], args: list[str], said: str
) -> None:
    done = lod(*args, "-qo", "new.lod.h5")
    assert done.code == 2
    assert said in done.stderr
    assert not Path("new.lod.h5").exists()


def test_choices_travel_through_pipes(shell: Lod, labelled: list[list[int]]) -> None:
    line = (
        "lod filter -q labelled.lod.h5 'length() > 1' | lod sort - --by length | lod tail -n 3 - "
        "| lod convert - out.lod.h5"
    )
    done = shell(line)
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    whole = [(ids, item % 4) for item, ids in enumerate(labelled) if len(ids) > 1]
    assert chosen() == sorted(whole, key=lambda one: len(one[0]))[-3:]
    done = shell("lod head -q labelled.lod.h5 -n 2 --to jsonl")
    assert done.code == 0
    assert len(done.stdout.splitlines()) == 2


def test_labels_of_a_file_that_is_read_in_order_stay_beside_their_items(
    lod: Lod, shell: Lod, folder: Path
) -> None:
    sample = Path(__file__).parents[3] / "samples" / "japanese_vowels.ts"
    for done in (
        lod("head", sample, "-n", "40", "-qo", "head.lod.h5"),
        shell(f"lod convert {sample} - | lod head - -n 40 -qo piped.lod.h5"),
        lod("filter", "-q", sample, 'label == "2"', "-o", "one.npz"),
    ):
        assert (done.code, done.stderr) == (0, "")
    for path in ("head.lod.h5", "piped.lod.h5"):
        assert tensor(path, "label").data.tolist() == [0] * 30 + [1] * 10
    assert len(tensor("one.npz", "data")) == 30
    assert lod("convert", sample, "v.lod.h5").code == 0
    assert lod("diff", sample, "v.lod.h5").code == 0


@pytest.mark.parametrize("source", ["table.csv", "table.lod.h5", "table.parquet", "empty.lod.h5"])
def test_columns_of_a_table_of_numbers_stay_together(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    if source.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("a,b\n3,30\n1,10\n2,20\n")
    rows = [[3, 30], [1, 10], [2, 20]] if source.startswith("table") else []
    if source == "empty.lod.h5":
        assert lod("filter", "-q", "table.csv", "0", "-o", source).code == 0
    elif source != "table.csv":
        assert lod("convert", "-q", "table.csv", source).code == 0
    for args, kept in (
        (["head", source, "-n", "2"], rows[:2]),
        (["head", source, "-n", "-1"], rows[:-1]),
        (["tail", source, "-n", "2"], rows[-2:]),
        (["slice", source, ":2"], rows[:2]),
        (["sample", source, "100%"], rows),
        (["sort", source, "--by", "a"], sorted(rows)),
        (["filter", source, "a > 1"], [row for row in rows if row[0] > 1]),
    ):
        assert lod(*args, "-qfo", "out.lod.h5").clean, args
        found = [tensor("out.lod.h5", name).data.tolist() for name in ("a", "b")]
        assert found == [[row[column] for row in kept] for column in (0, 1)], args
    assert lod("shuffle", source, "-qfo", "out.lod.h5").code == 0
    found = [tensor("out.lod.h5", name).data.tolist() for name in ("a", "b")]
    assert sorted(map(list, zip(*found, strict=True))) == sorted(rows)
    assert lod("split", "-q", source, "--by", "count", "2", "-o", "part-{}.csv").code == 0
    assert Path("part-0.csv").read_text().splitlines()[1:] == [f"{a},{b}" for a, b in rows[:2]]


def test_columns_of_different_lengths_have_no_common_items(lod: Lod, folder: Path) -> None:
    io.write("two.lod.h5", {"a": LoDTensor(np.arange(2)), "b": LoDTensor(np.arange(3))})
    done = lod("tail", "two.lod.h5", "-o", "out.lod.h5")
    assert done.code == 2
    assert "holds 2 tensors; choose one: two.lod.h5::a two.lod.h5::b" in done.stderr


def test_text_is_read_no_further_than_the_head(shell: Lod) -> None:
    done = shell(
        "(printf '[1,2]\\n[3]\\n[4]\\n'; cat /dev/null) | lod head -n 2 --from jsonl --to jsonl -"
    )
    assert (done.code, done.stdout, done.stderr) == (0, "[1,2]\n[3]\n", "")


def test_a_damaged_file_leaves_nothing(lod: Lod, labelled: list[list[int]]) -> None:
    assert lod("convert", "labelled.lod.h5", "all.lods").code == 0
    os.truncate("all.lods", os.path.getsize("all.lods") - 40)
    for command, *rest in (["head", "-n", "30"], ["shuffle"], ["sort"], ["filter", "sum(ids) > 0"]):
        done = lod(command, "all.lods", *rest, "-qo", "new.lod.h5")
        assert (done.code, done.stdout) == (1, ""), command
        assert "all.lods" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert not Path("new.lod.h5").exists()


def test_records_are_named_where_their_inner_items_are_chosen(lod: Lod, tmp_path: Path) -> None:
    lines = [
        {"id": 1, "recs": [{"a": [1, 2], "b": "x"}, {"a": [2], "b": "y"}]},
        {"id": 2, "recs": []},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    x, y = {"recs.a": [1, 2], "recs.b": "x"}, {"recs.a": [2], "recs.b": "y"}
    for args, expected in (
        (["sort", f"{path}::recs"], [y, x]),
        (["filter", f"{path}::recs", "length() == 1"], [y]),
    ):
        assert lod(*args, "--level", "1", "-fo", str(tmp_path / "out.jsonl")).code == 0
        assert read_jsonl(str(tmp_path / "out.jsonl")) == expected
