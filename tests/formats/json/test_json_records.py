"""jsonl: records and nulls, read by the compiled scanner and by the exact parser."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lodcli.formats.json.jsonl import FEW_BYTES, MOST_PEEK_BYTES, PEEK_BYTES
from lodcli.formats.json.scanner.scan_native import JsonScanner
from lodcli.kernels.errors import LodError
from lodcli.kernels.platform.machine import sparse_zeros
from tests.formats.cases.opening import content

# -- lines -----------------------------------------------------------------------------

NAMES = ("a", "b", "id", "größe", 'x"y', "two words", "€😀", "tab\t")
TEXTS = ("", "a", "word", "größe", "€😀", 'x"y', "\\", "/", "\n\t\x00")
LEAVES = {
    "whole": (0, 7, -13, 2**63 - 1, -(2**63), 10**17),
    "real": (0.0, 1.5, -0.1, 1e300, 3, 5e-324, 0.1 + 0.2),
    "truth": (True, False),
    "text": TEXTS,
    "nothing": (None,),
}

# The kinds of values: a leaf, a list of a kind, or fields with a kind each.
Kind = Any
kinds: st.SearchStrategy[Kind] = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.one_of(
        st.tuples(inner), st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3)
    ),
    max_leaves=5,
)
objects = st.dictionaries(st.sampled_from(NAMES), kinds, min_size=1, max_size=4)


class Maker:
    """Makes values of kinds.

    Args:
        random_: draws them.
        nulls: the probability of a null; lacking: of a field of an inner object that is missing.
    """

    def __init__(self, random_: random.Random, nulls: float, lacking: float) -> None:
        self._random = random_
        self._nulls = nulls
        self._lacking = lacking

    def value(self, kind: Kind, depth: int = 0) -> Any:
        if depth and self._random.random() < self._nulls:
            return None
        if isinstance(kind, str):
            return self._random.choice(LEAVES[kind])
        if isinstance(kind, tuple):
            many = self._random.randrange(4)
            return [self.value(kind[0], depth + 1) for _ in range(many)]
        found = {
            name: self.value(inner, depth + 1)
            for name, inner in kind.items()
            if depth == 0 or self._random.random() >= self._lacking
        }
        if self._random.random() < 0.1:
            found = dict(sorted(found.items(), key=lambda _: self._random.random()))
        return found

    def line(self, kind: Kind) -> bytes:
        blank = self._random.choice(("", "", " ", "\t "))
        written = json.dumps(
            self.value(kind),
            ensure_ascii=self._random.random() < 0.5,
            separators=(f"{blank},{blank}", f"{blank}:{blank}"),
        )
        return f"{blank}{written}{blank}".encode()


DAMAGE = (
    *(b'"a":1,', b'"a":1,"a":2,', b"null", b"[]", b"{}", b"1", b"1.5", b"true", b'""', b"[null]"),
    *(b"[1]", b",", b":", b"{", b"}", b"[", b"]", b'"', b"\\", b"\xff", b"18446744073709551616"),
    *(b'{"a":null}', b'"\\ud800"', b"NaN", b"1e999", b"\x00", b"\xc3\xa4", b'{"b":{"b":1,"b":2}}'),
)


def damaged(random_: random.Random, line: bytes) -> bytes:
    """Return a line in which a part is replaced."""
    start = random_.randrange(len(line) + 1)
    end = min(len(line), start + random_.choice((0, 0, 1, 2, 5)))
    return line[:start] + random_.choice((b"", *DAMAGE)) + line[end:]


# -- both readers ------------------------------------------------------------------------


class Readers:
    """One file, read by the exact parser and by the scanner.

    Attributes:
        scanned, stopped: number of blocks that the scanner read, and left to the exact parser.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = folder / "given.jsonl"
        self._patch = monkeypatch
        self.scanned = self.stopped = 0
        scan = JsonScanner.scan_padded

        def counted(scanner: JsonScanner, data: Any, size: int) -> Any:
            found = scan(scanner, data, size)
            self.scanned += found is not None
            self.stopped += found is None
            return found

        monkeypatch.setattr(JsonScanner, "scan_padded", counted)

    def infer_from_few_lines(self, *, few: bool = True) -> None:
        """Define the columns by few lines, so that later lines may differ; or by many again."""
        sizes = (1 << 6, 1 << 8, 1 << 9) if few else (FEW_BYTES, PEEK_BYTES, MOST_PEEK_BYTES)
        for name, size in zip(("FEW", "PEEK", "MOST_PEEK"), sizes, strict=True):
            self._patch.setattr(f"lodcli.formats.json.jsonl.{name}_BYTES", size)

    def scan_small_blocks(self) -> None:
        self._patch.setattr("lodcli.formats.json.jsonl.BLOCK_BYTES", 1 << 10)

    def read(self, data: bytes, *, fast: bool, **options: Any) -> Any:
        self._path.write_bytes(data)
        least = 0 if fast else 1 << 60
        self._patch.setattr("lodcli.formats.json.jsonl.repaid_bytes", lambda: least)
        try:
            return content(self._path, **options)
        except LodError as error:
            return type(error), str(error)

    def agree(self, data: bytes, *, one_error: bool = True, **options: Any) -> Any:
        """Assert that both read the same, or raise the same error; return it.

        With `one_error=False` the lines may have several errors, of which either may be raised:
        blocks end at different lines.
        """
        slow = self.read(data, fast=False, **options)
        fast = self.read(data, fast=True, **options)
        if isinstance(slow, tuple) or isinstance(fast, tuple):
            assert fast == slow or (not one_error and type(fast) is type(slow)), (data, options)
            return slow
        assert list(fast) == list(slow)
        for name, expected in slow.items():
            assert fast[name].identical(expected), (name, data, options)
            assert fast[name].nulls == expected.nulls, (name, data, options)
            assert fast[name].marks == expected.marks, (name, data, options)
        return slow


@pytest.fixture
def readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Readers:
    return Readers(tmp_path, monkeypatch)


def options_of(random_: random.Random, kind: Kind) -> dict[str, Any]:
    """Return options to read lines of a kind."""
    found: dict[str, Any] = {}
    nulls = random_.choice((None, None, None, "keep", "keep", "error", "zero", "drop"))
    if nulls is not None:
        found["nulls"] = nulls
    pick = random_.randrange(6)
    if pick == 0 and isinstance(kind, dict):
        found["field"] = tuple(random_.sample(sorted(kind), random_.randrange(len(kind)) + 1))
    elif pick == 1:
        found["skip_unsupported"] = True
    elif pick == 2:
        found["dtype"] = np.dtype(random_.choice(("float64", "float32", "int64", "uint8")))
        found["dtype_unsafe"] = random_.random() < 0.5
    elif pick == 3:
        found["levels"] = tuple("xyz"[: random_.randrange(4)])
    return found


given_lines = given(
    kind=st.one_of(objects, objects, kinds.filter(lambda kind: not isinstance(kind, dict))),
    random_=st.randoms(use_true_random=False),
)
per_example = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def lines_of(random_: random.Random, kind: Kind) -> list[bytes]:
    """Return lines of a kind; the later ones may have more nulls, and lack more fields."""
    found: list[bytes] = []
    for many in random_.choice(((1,), (5,), (30,), (3, 40), (20, 20))):
        nulls = random_.choice((0, 0, 0.05, 0.4)) if random_.random() < 0.7 else 0
        maker = Maker(random_, nulls, random_.choice((0, 0, 0, 0.1)))
        found += [maker.line(kind) for _ in range(many)]
    return found


@per_example
@given_lines
def test_records_and_nulls_read_alike(readers: Readers, kind: Kind, random_: random.Random) -> None:
    data = b"\n".join(lines_of(random_, kind)) + b"\n"
    few = random_.random() < 0.7
    readers.infer_from_few_lines(few=few)
    readers.agree(data, one_error=not few, **options_of(random_, kind))


@per_example
@given_lines
def test_damaged_records_read_alike(readers: Readers, kind: Kind, random_: random.Random) -> None:
    lines = lines_of(random_, kind)
    for _ in range(random_.choice((1, 1, 3))):
        place = random_.randrange(len(lines))
        lines[place] = damaged(random_, lines[place])
    if random_.random() < 0.3:
        lines.insert(random_.randrange(len(lines)), random_.choice((b"", b" ", b"\r")))
    data = random_.choice((b"\n", b"\n", b"\r\n")).join(lines)
    few = random_.random() < 0.7
    readers.infer_from_few_lines(few=few)
    readers.agree(data, one_error=not few, **options_of(random_, kind))


# -- what the scanner reads ----------------------------------------------------------------

READ: dict[str, tuple[bytes, dict[str, Any]]] = {
    "nulls among numbers": (b'{"a":1,"b":[1.5,null]}\n{"a":null,"b":null}\n', {}),
    "nulls among texts and truths": (b'{"a":["x",null],"b":true}\n{"a":[],"b":null}\n', {}),
    "nulls without objects": (b"[[1,null],null,[]]\nnull\n", {}),
    "nulls that no line has": (b"[1]\n[2]\n", {"nulls": "keep"}),
    "records": (b'{"a":{"b":1,"c":{"d":[true]}}}\n{"a":{"c":{"d":[]},"b":2}}\n', {}),
    "lists of records": (b'{"a":[[{"b":1,"c":"x"}],[]]}\n{"a":[]}\n', {}),
    "lists of records in records": (b'{"a":[{"b":[{"c":1},{"c":2}]},{"b":[]}]}\n', {}),
    "null records": (b'{"a":{"b":1,"c":{"d":2}}}\n{"a":null}\n{"a":{"b":3,"c":null}}\n', {}),
    "null records in lists": (b'{"a":[{"b":1,"c":["x"]},null]}\n{"a":null}\n', {}),
    "objects of nulls": (b'{"a":{"b":1}}\n{"a":{"b":null}}\n', {}),
    "objects of nulls and null records": (b'{"a":{"b":1}}\n{"a":{"b":null}}\n{"a":null}\n', {}),
    "objects without fields": (b'{"a":[{"b":1}, {}]}\n', {"nulls": "keep"}),
    "objects that lack fields": (b'{"a":{"b":1,"c":null}}\n{"a":{"b":2}}\n', {}),
    "lines that lack fields": (b'{"a":1}\n{"b":{"c":2}}\n{}\n', {"nulls": "keep"}),
    "nulls to be replaced": (b'{"a":{"b":1}}\n{"a":{"b":null}}\n{"a":null}\n', {"nulls": "zero"}),
    "names with escapes": (b'{"\\u00e4":1,"q\\"":2}\n{"\xc3\xa4":3,"q\\"":4}\n', {}),
    "chosen fields": (b'{"a":1,"b":{"c":[1,{"d":{}}]}}\n{"b":"x","a":2}\n', {"field": ("a",)}),
    "chosen fields of records": (b'{"a":{"b":1,"c":[{"d":1}]}}\n', {"field": ("a.b",)}),
    "fields that no tensor holds": (
        b'{"a":1,"b":[1,"x"]}\n{"b":{"c":{}},"a":2}\n{"a":3}\n',
        {"skip_unsupported": True},
    ),
    "booleans without values": (b'{"a":[true],"b":null}\n', {"dtype": np.dtype(np.bool_)}),
    "columns without values": (b'{"a":1,"b":null,"c":[]}\n{"a":2,"b":null,"c":[]}\n', {}),
}


@pytest.mark.parametrize("case", READ)
def test_the_scanner_reads(readers: Readers, case: str) -> None:
    data, options = READ[case]
    readers.agree(data * 3, **options)
    assert readers.scanned
    # Columns are not guessed from few lines if records have fields that are not chosen.
    assert readers.stopped == (case == "chosen fields of records")


# First lines, a line far after them, options, and a part of the error; "" for no error.
LEFT: dict[str, tuple[bytes, bytes, dict[str, Any], str]] = {
    "a null": (b'{"a":1}', b'{"a":null}', {}, "expected a number, found null"),
    "a null list of records": (b'{"a":[{"b":1},null]}', b'{"a":[null]}', {}, ""),
    "a null list": (b'{"a":[[{"b":1}],[{"b":2}]]}', b'{"a":[null]}', {}, "found null"),
    "an object of nulls": (b'{"a":[{"b":1},null]}', b'{"a":[{"b":null}]}', {}, "of nothing but"),
    "an empty object": (b'{"a":[{"b":1},null]}', b'{"a":[{}]}', {}, "of nothing but"),
    "an object of objects of nulls": (
        b'{"a":[{"b":{"c":1}},null]}',
        b'{"a":[{"b":{"c":null}}]}',
        {},
        "of nothing but",
    ),
    "a null record": (b'{"a":[{"b":1},{"b":null}]}', b'{"a":[null]}', {}, "'a': null, which the"),
    "a record that lacks a field": (b'{"a":{"b":1}}', b'{"a":{}}', {}, "has no field 'b'"),
    "a line that lacks a field": (b'{"a":1,"b":2}', b'{"a":1}', {}, "field 'b' is missing"),
    "a record with another field": (b'{"a":{"b":1}}', b'{"a":{"b":1,"c":1}}', {}, "a field 'c'"),
    "a line with another field": (b'{"a":1}', b'{"a":1,"b":1}', {}, "field 'b' is not in"),
    "a field twice": (b'{"a":{"b":1}}', b'{"a":{"b":1,"b":1}}', {}, "'b' appears twice"),
    "a field twice, with escapes": (
        b'{"a":{"b":1}}',
        b'{"a":{"b":1,"\\u0062":1}}',
        {},
        "'b' appears twice",
    ),
    "a skipped field twice": (
        b'{"a":1,"b":0}',
        b'{"b":[],"a":1,"b":[]}',
        {"field": ("a",)},
        "'b' appears twice",
    ),
    "a field of a skipped object twice": (
        b'{"a":1,"b":0}',
        b'{"a":1,"b":[{"c":{"d":1,"d":1}}]}',
        {"field": ("a",)},
        "'d' appears twice",
    ),
    "a field of a skipped object twice, around an object": (
        b'{"a":1,"b":0}',
        b'{"a":1,"b":{"c":{"d":1},"c":1}}',
        {"field": ("a",)},
        "'c' appears twice",
    ),
    "a field of a skipped object twice, with escapes": (
        b'{"a":1,"b":0}',
        b'{"a":1,"b":{"c":1,"\\u0063":1}}',
        {"field": ("a",)},
        "'c' appears twice",
    ),
    "a comma before a brace": (b'{"a":{"b":1}}', b'{"a":{"b":1,}}', {}, "is not JSON"),
    "a comma in a skipped object": (
        b'{"a":1,"b":0}',
        b'{"a":1,"b":{"c":1,}}',
        {"field": ("a",)},
        "is not JSON",
    ),
    "a list that a brace ends": (b'{"a":[{"b":1}]}', b'{"a":[{"b":1}}}', {}, "is not JSON"),
    "a skipped list that a brace ends": (
        b'{"a":1,"b":0}',
        b'{"a":1,"b":[1}}',
        {"field": ("a",)},
        "is not JSON",
    ),
    "a value in place of a record": (b'{"a":{"b":1}}', b'{"a":1}', {}, "expected an object"),
    "a value in place of a record that may be null": (
        b'{"a":[{"b":1},null]}',
        b'{"a":[1]}',
        {},
        "expected an object, found 1",
    ),
    "a record in place of a list of records": (
        b'{"a":[{"b":1},null]}',
        b'{"a":{"b":1}}',
        {},
        "expected a list, found an object",
    ),
    "a null within a row": (
        b'{"a":[[1,2]]}',
        b'{"a":[[1,null]]}',
        {"levels": ("x",), "nulls": "keep"},
        "<0,1>: found null, and a row of shape (2,) has no nulls; name all 2 levels in levels=",
    ),
    "a null line": (b'{"a":1}', b"null", {"nulls": "keep"}, "expected an object, found null"),
    "a word that begins like null": (b"[null]", b"[nul]", {}, "is not JSON"),
    "a first value": (b'{"a":null}', b'{"a":[1]}', {}, "expected a number, found a list"),
    "a name in other escapes": (b'{"\\u00e4":1}', b'{"\\u00E4":1}', {}, ""),
}


@pytest.mark.parametrize("case", LEFT)
def test_lines_left_by_the_scanner_are_read_by_the_exact_parser(
    readers: Readers, case: str
) -> None:
    readers.infer_from_few_lines()
    readers.scan_small_blocks()
    first, last, options, message = LEFT[case]
    many = 4096
    found = readers.agree((first + b"\n") * many + last + b"\n", **options)
    assert readers.scanned
    if message:
        assert isinstance(found, tuple)
        assert message in found[1]
        assert f"line {many + 1}: " in found[1]
    else:
        assert not isinstance(found, tuple)
    if case != "a null list of records":
        assert readers.stopped


@pytest.mark.parametrize("value", [b"2", b"2.5", b"true", b'"x"', b"[]", b"null"])
def test_the_first_value_of_a_column_may_be_far_from_the_first_line(
    readers: Readers, value: bytes
) -> None:
    """The first lines define it, up to the last of these."""
    readers.infer_from_few_lines()
    for many in range(1, 60, 4):
        lines = [b'{"a":1,"b":null}'] * many + [b'{"a":2,"b":%s}' % value] * 3
        readers.agree(b"\n".join(lines))
    assert readers.scanned


@pytest.mark.parametrize(
    ("first", "last", "options"),
    [
        (b'{"a":1}', b'{"b":2}', {"nulls": "keep", "field": ("b",)}),
        (b"", b'{"a":1}', {"field": ("a",)}),
        (b"[]", b"[[[1]]]", {"levels": ("x", "y", "z")}),
        (b'{"a":[]}', b'{"a":[[[1]]]}', {"levels": ("x", "y", "z")}),
    ],
)
def test_options_may_fit_only_later_ones_of_the_first_lines(
    readers: Readers, first: bytes, last: bytes, options: dict[str, Any]
) -> None:
    found = readers.agree((first + b"\n") * (70_000 // (len(first) + 1)) + last, **options)
    assert not isinstance(found, tuple)


# -- other software ------------------------------------------------------------------------


def read_by_json(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def read_by_pyarrow(data: bytes) -> list[Any]:
    reader = pytest.importorskip("pyarrow.json")
    rows: list[Any] = reader.read_json(io.BytesIO(data)).to_pylist()
    return rows


def read_by_polars(data: bytes) -> list[Any]:
    rows: list[Any] = pytest.importorskip("polars").read_ndjson(io.BytesIO(data)).to_dicts()
    return rows


def picked(value: Any, keys: list[str]) -> Any:
    """Return a field of the objects in a value."""
    if value is None or not keys:
        return value
    if isinstance(value, list):
        return [picked(one, keys) for one in value]
    return picked(value.get(keys[0]), keys[1:])


@pytest.mark.parametrize("read", [read_by_json, read_by_pyarrow, read_by_polars])
def test_other_software_reads_the_same(
    readers: Readers, read: Callable[[bytes], list[Any]]
) -> None:
    random_ = random.Random(5)
    order = {
        "id": "whole",
        "user": {"name": "text", "tags": ("text",)},
        "lines": ({"sku": "text", "qty": "whole", "price": ("real",)},),
        "paid": "truth",
    }
    data = b"".join(Maker(random_, 0.1, 0.1).line(order) + b"\n" for _ in range(3000))
    found = readers.agree(data)
    assert readers.scanned
    assert not readers.stopped
    rows = read(data)
    paths = ["id", "user.name", "user.tags", "lines.sku", "lines.qty", "lines.price", "paid"]
    assert {*paths} <= found.keys() <= {*paths, "user.present", "lines.present"}
    for path in paths:
        assert found[path].to_list() == [picked(row, path.split(".")) for row in rows], path


@pytest.mark.parametrize("depth", [59, 63])
def test_nulls_in_deep_lists_read_alike(readers: Readers, depth: int) -> None:
    inner = [b"[" * depth + value + b"]" * depth for value in (b"[1]", b"null", b"[null]")]
    readers.agree(b"\n".join([*inner, b"[null]", b"null"]))
    assert bool(readers.scanned) == (depth < 60)


# -- memory --------------------------------------------------------------------------------


def test_masks_do_not_pass_from_block_to_block(readers: Readers) -> None:
    lines = [
        b'{"a":[1,null],"b":{"c":null,"d":2}}'
        if number % 97 == 0
        else b'{"a":[1,2],"b":{"c":3,"d":4}}'
        for number in range(5000)
    ]
    readers.scan_small_blocks()
    found = readers.agree(b"\n".join(lines))
    assert readers.scanned > 100
    assert not readers.stopped
    assert found["a"].nulls.count == found["b.c"].nulls.count == 52


def test_many_columns_are_scanned_in_smaller_blocks(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each column reserves memory for a block: in place of a block of 1 MiB, there are several."""
    monkeypatch.setattr("lodcli.formats.json.compiled_reader.MOST_RESERVED_BYTES", 1 << 28)
    line = json.dumps({f"x{number}": [number] for number in range(50)}).encode() + b"\n"
    readers.agree(line * ((1 << 20) // len(line)))
    assert readers.scanned > 6
    assert not readers.stopped


def test_a_line_for_which_the_system_reserves_no_memory_is_read_exactly(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hundreds of columns, a line of 30 MB asks for hundreds of gigabytes.

    Later blocks are small again, and scanned.
    """

    def limited(size_bytes: int) -> memoryview:
        if size_bytes > 1 << 18:
            raise MemoryError
        return sparse_zeros(size_bytes)

    monkeypatch.setattr("lodcli.formats.json.scanner.scan_native.sparse_zeros", limited)
    lines = [json.dumps({"a": [number], "b": number}).encode() for number in range(3000)]
    lines[200] = json.dumps({"a": list(range(10_000)), "b": 0}).encode()
    readers.infer_from_few_lines()
    readers.scan_small_blocks()
    readers.agree(b"\n".join(lines))
    assert readers.scanned > 50
    assert 0 < readers.stopped < 10
