"""jsonl: the compiled scanner against Python's json module and the exact parser."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.json import compiled_reader as json_fast
from lodcli.formats.json.scanner.scan_native import (
    REAL,
    TEXT,
    TRUTH,
    WHOLE,
    JsonScanner,
    Node,
    Scanned,
)
from lodcli.formats.text.numbers_numba import HARD, rounded
from lodcli.kernels.errors import InvalidDataError, LodError
from tests.formats.cases.opening import content, pipe, tensors_of
from tests.growth import calls_of

BLANKS = ("", "", "", " ", "\t", "  ", "\r")


def values_in(kind: int, depth: int, lines: bytes) -> Scanned:
    """Return the values of lines without fields."""
    found = JsonScanner(Node(kind, depth)).scan(lines)
    assert found is not None, "the scan stopped"
    return found[()]


# -- numbers -------------------------------------------------------------------------


def decimals(random_: random.Random) -> Iterator[tuple[int, int]]:
    """Yield digits and powers of ten: of any float, of few digits, halfway between two."""
    while True:
        bits = random_.getrandbits(64)
        (value,) = struct.unpack("d", struct.pack("Q", bits & ~(1 << 63)))
        if np.isfinite(value) and value:
            head, _, tail = f"{value:.16e}".partition("e")
            yield int(head.replace(".", "")), int(tail) - 16
            head, _, tail = repr(value).partition("e")
            whole, _, part = head.partition(".")
            yield int(whole + part) or 1, int(tail or 0) - len(part)
        yield random_.getrandbits(random_.randrange(1, 65)) or 1, random_.randrange(-345, 312)
        odd = (random_.getrandbits(52) | 1 << 52) * 2 + 1
        yield odd, 0
        power = random_.randrange(1, 5)
        yield odd * 5**power, -power  # odd / 2**power: also halfway, and not exact in binary
        yield random_.getrandbits(30) * 2 + 1 << random_.randrange(25), random_.randrange(-30, 30)


def test_digits_are_rounded_as_python_rounds_them() -> None:
    hard = done = 0
    for digits, power in decimals(random.Random(3)):
        if digits >= 1 << 64:
            continue
        found = int(rounded(np.uint64(digits), power))
        if found == int(HARD):
            hard += 1
        else:
            (value,) = struct.unpack("d", struct.pack("Q", found))
            assert value == float(f"{digits}e{power}"), (digits, power)
        done += 1
        if done == 60_000:
            break
    assert hard < done // 10


@pytest.mark.parametrize(
    "text",
    [
        *(
            "0.0",
            "-0.0",
            "-0",
            "0",
            "-0e5",
            "1e23",
            "8.5e22",
            "9007199254740993.0",
            "1e-400",
            "5e-324",
        ),
        *("2.2250738585072011e-308", "1.7976931348623157e308", "0.000000000000000000000001e24"),
        *("123456789012345678901234567890.5", "1.00000000000000011102230246251565", "4.9e-324"),
        *("179769313486231580793728971405301e276", "0e999999999999999999", "1E+2", "1e-0", "0.1e1"),
        "0." + "0" * 400 + "1e400",
    ],
)
def test_a_number_has_the_bits_that_python_gives_it(text: str) -> None:
    for sign in ("", "-"):
        line = f"[{sign}{text}]\n".replace("--", "-").encode()
        found = values_in(REAL, 1, line)
        expected = np.array([float(value) for value in json.loads(line)])
        assert found.values.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        *((WHOLE, line) for line in ("[01]", "[1.0]", "[1e2]", "[+1]", "[-]", "", "[1]x")),
        *((WHOLE, line) for line in ("[1,]", "[,1]", "[1 2]", "[1", "1]", "[1]]", "[[1]]")),
        *((WHOLE, line) for line in ("[null]", "[true]", '["1"]', "{}", "[1]\n\n[2]")),
        *((WHOLE, line) for line in ("[9223372036854775808]", "[-9223372036854775809]")),
        *((REAL, line) for line in ("[.5]", "[5.]", "[1e]", "[1e+]", "[1.e5]", "[1e400]")),
        *((REAL, line) for line in ("[NaN]", "[Infinity]", "[-Infinity]", "[00.5]", "[0x1]")),
        *((REAL, line) for line in ("[9007199254740993]", "[1_0]", "[\u0661]", "[1\x00]")),
        *((REAL, line) for line in ("[1\x0b]", "[1\xa0]")),
        *((TRUTH, line) for line in ("[True]", "[tru]", "[truee]", "[null]", "[1]", "[falsy]")),
        *((TEXT, line) for line in ('"a', '"\x01"', '"\\x"', '"\\u12"', '"\\ud800"', '"\\udc00"')),
        *((TEXT, line) for line in ('"\\ud800\\u0041"', '"a""b"', "'a'", '["a"]', "1", "null")),
    ],
)  # fmt: skip
def test_anything_unusual_stops_the_scan(kind: int, line: str) -> None:
    scanner = JsonScanner(Node(kind, 1))
    assert scanner.scan(line.encode() + b"\n") is None
    assert scanner.scan(b'"a"\n' if kind == TEXT else b"[]\n") is not None


def test_text_that_is_no_utf8_stops_the_scan() -> None:
    scanner = JsonScanner(Node(TEXT, 1))
    assert scanner.scan(b'"\xff"\n') is None
    assert scanner.scan(b'"\xc3"\n"\xa4"\n') is None
    assert values_in(TEXT, 1, '"größe"\n'.encode()).values.tobytes().decode() == "größe"


# -- lines, made and mutated ---------------------------------------------------------


def number(random_: random.Random, kind: int) -> str:
    if kind == WHOLE:
        return str(random_.choice((0, 7, -13, random_.getrandbits(63), -random_.getrandbits(63))))
    pick = random_.randrange(6)
    if pick == 0:
        return str(random_.randrange(-(10**6), 10**6))
    if pick == 1:
        return (
            repr(struct.unpack("d", random_.randbytes(8))[0])
            .replace("nan", "1.5")
            .replace("inf", "2e9")
        )
    if pick == 2:
        return f"{random_.randrange(1000)}.{random_.randrange(10**6)}"
    if pick == 3:
        return f"-{random_.random():.{random_.randrange(1, 30)}f}"
    return f"{random_.random():.{random_.randrange(9)}e}".replace("e+", random_.choice(("e", "E+")))


def text(random_: random.Random) -> str:
    letters = ("a", "word", " ", "ä", "€", "😀", '"', "\\", "/", "\n", "\t", "\x00", "\x7f")
    value = "".join(random_.choice(letters) for _ in range(random_.randrange(6)))
    return json.dumps(value, ensure_ascii=random_.random() < 0.5).replace(
        "/", random_.choice(("/", "\\/"))
    )


def value(random_: random.Random, kind: int, depth: int) -> str:
    blank = random_.choice(BLANKS)
    if kind == TEXT and depth == 1:
        return blank + text(random_)
    if depth:
        parts = [value(random_, kind, depth - 1) for _ in range(random_.randrange(4))]
        return f"{blank}[{','.join(parts)}{random_.choice(BLANKS)}]"
    made = random_.choice(("true", "false")) if kind == TRUTH else number(random_, kind)
    return blank + made + random_.choice(BLANKS)


def mutated(random_: random.Random, line: bytes) -> bytes:
    data = bytearray(line)
    for _ in range(random_.choice((1, 1, 2))):
        place = random_.randrange(len(data)) if data else 0
        pick = random_.randrange(4)
        if pick == 0 and data:
            del data[place]
        elif pick == 1:
            data.insert(place, random_.choice(b'[]{},:"\\0159.eE+-truefalsn \t\r\n\x00\xc3\xa4'))
        elif pick == 2 and data:
            data[place] = random_.randrange(256)
        elif data:
            data[place:place] = data[place : place + random_.randrange(6)]
    return bytes(data)


class Files:
    """One file, read by the exact parser and by the scanner."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = folder / "given.jsonl"
        self._patch = monkeypatch

    def read(self, data: bytes, *, fast: bool, **options: Any) -> Any:
        self._path.write_bytes(data)
        self._patch.setattr(
            "lodcli.formats.json.jsonl.repaid_bytes", lambda: 0 if fast else 1 << 60
        )
        try:
            return content(self._path, **options)
        except LodError as error:
            return type(error), str(error)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(tmp_path, monkeypatch)


def agree(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) or isinstance(other, tuple):
        return bool(one == other)
    return list(one) == list(other) and all(one[name].identical(other[name]) for name in one)


@pytest.mark.parametrize("seed", range(4))
def test_made_and_mutated_lines_read_alike(files: Files, seed: int) -> None:
    """Of each block of lines some are broken: result or error must be the same to the letter."""
    random_ = random.Random(seed)
    read = refused = 0
    for _ in range(140):
        kind, depth = random_.choice((WHOLE, REAL, TRUTH, TEXT)), random_.randrange(1, 4)
        lines = [value(random_, kind, depth).encode() for _ in range(random_.choice((1, 40, 90)))]
        for _ in range(random_.choice((0, 1, 1, 3))):
            place = random_.randrange(len(lines))
            lines[place] = mutated(random_, lines[place])
        data = b"\n".join(lines) + random_.choice((b"", b"\n", b"\r\n"))
        options: dict[str, Any] = {}
        if kind == REAL and random_.random() < 0.5:
            options["dtype"] = np.dtype(random_.choice(("float16", "float32", "float64")))
        if kind == WHOLE and random_.random() < 0.5:
            options["dtype"] = np.dtype(random_.choice(("int8", "uint64", "int64", "float32")))
        slow = files.read(data, fast=False, **options)
        assert agree(files.read(data, fast=True, **options), slow), (data, options)
        read += not isinstance(slow, tuple)
        refused += isinstance(slow, tuple)
    assert read > 20
    assert refused > 20


@pytest.mark.parametrize("fast", [False, True])
def test_blank_lines_have_no_value_but_a_number(files: Files, fast: bool) -> None:
    random_ = random.Random(3)
    refused = 0
    for _ in range(80):
        kind, depth = random_.choice((WHOLE, REAL, TRUTH, TEXT)), random_.randrange(1, 4)
        lines = [value(random_, kind, depth).encode() for _ in range(20)]
        if random_.random() < 0.5:
            lines = [b'{"a":%s}' % line for line in lines]
        if random_.random() < 0.5:
            lines[random_.randrange(20)] += b"]"
        spread, places = list[bytes](), list[int]()
        for line in lines:
            spread += random_.choices([b"", b" \t", b"\r"], k=random_.choice((0, 0, 0, 1, 3)))
            spread.append(line)
            places.append(len(spread))
        spread += random_.choices([b"", b" "], k=random_.randrange(3))
        expected = files.read(b"\n".join(lines), fast=False)
        if isinstance(expected, tuple):
            refused += 1
            error, words = expected
            number = int(re.findall(r"line (\d+)", words)[0])
            expected = error, words.replace(f"line {number}:", f"line {places[number - 1]}:")
        assert agree(files.read(b"\n".join(spread), fast=fast), expected), spread
    assert 20 < refused < 60


@pytest.mark.parametrize("seed", range(2))
def test_objects_read_alike(files: Files, seed: int) -> None:
    random_ = random.Random(seed)
    read = 0
    for _ in range(120):
        kinds = {
            name: (random_.choice((WHOLE, REAL, TRUTH, TEXT)), random_.randrange(1, 3))
            for name in "abc"
        }
        lines = []
        for _ in range(40):
            fields = [
                f'"{name}"{random_.choice(BLANKS)}:{value(random_, *kinds[name])}' for name in kinds
            ]
            if random_.random() < 0.1:
                random_.shuffle(fields)
            lines.append(("{" + ",".join(fields) + "}").encode())
        for _ in range(random_.choice((0, 0, 1, 2))):
            place = random_.randrange(len(lines))
            lines[place] = mutated(random_, lines[place])
        data = b"\n".join(lines)
        options = {} if random_.random() < 0.5 else {"field": ("c", "a")}
        slow = files.read(data, fast=False, **options)
        assert agree(files.read(data, fast=True, **options), slow), (data, options)
        read += not isinstance(slow, tuple)
    assert read > 20


@pytest.mark.slow
def test_a_hundred_thousand_lines_stop_the_scan_or_are_what_json_says(files: Files) -> None:
    """Each line on its own: what the scanner takes, json must take and understand alike."""
    random_ = random.Random(11)
    scanners = {
        (kind, depth): JsonScanner(Node(kind, depth))
        for kind in (WHOLE, REAL, TRUTH, TEXT)
        for depth in (1, 2)
    }
    taken = stopped = 0
    for _ in range(100_000):
        (kind, depth), scanner = random_.choice(list(scanners.items()))
        line = value(random_, kind, depth).encode()
        if random_.random() < 0.6:
            line = mutated(random_, line)
        found = scanner.scan(line)
        if found is None:
            stopped += 1
            continue
        taken += 1
        if not line:
            continue
        expected = flat(json.loads(line), depth - (kind == TEXT))
        if kind == TEXT:
            assert found[()].values.tobytes() == "".join(expected).encode(), line
        else:
            dtype = {WHOLE: np.int64, REAL: np.float64, TRUTH: np.bool_}[kind]
            assert found[()].values.tobytes() == np.array(expected, dtype).tobytes(), line
    assert min(taken, stopped) > 20_000


def flat(tree: Any, depth: int) -> list[Any]:
    """Return the items below this many lists."""
    for _ in range(depth - 1):
        tree = [part for one in tree for part in one]
    return list(tree) if depth else [tree]


# -- files ---------------------------------------------------------------------------


@pytest.fixture
def repaid(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Give what sets from how many bytes on the scanner is used."""

    def set_to(size: int) -> None:
        monkeypatch.setattr("lodcli.formats.json.jsonl.repaid_bytes", lambda: size)

    return set_to


@pytest.mark.parametrize("shipped", [True, False])
@pytest.mark.parametrize("size", [40_000, 400_000])
def test_small_files_are_scanned_by_kernels_that_came_with_the_package(
    shipped: bool, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"[1, 2, 3]\n" * (size // 10))
    scanned: list[object] = []

    def tensors(self: object, *_: object) -> Any:
        scanned.append(self)
        return iter([])

    monkeypatch.setattr("lodcli.kernels.native.load.is_shipped", lambda: shipped)
    monkeypatch.setattr(json_fast.FastColumns, "tensors", tensors)
    monkeypatch.setattr(json_fast.FastColumns, "fits", True)
    monkeypatch.setattr(json_fast.FastColumns, "fit", lambda *_: True)
    content(path)
    assert bool(scanned) == (shipped and size > 1 << 16)


def test_a_pipe_is_scanned_once_enough_came(
    tmp_path: Path, repaid: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle = [list(range(n)) for n in range(50)]
    data = "".join(f"{json.dumps(line)}\n" for line in cycle).encode() * 2_400
    repaid(2 << 20)
    assert len(data) > 10 << 20
    blocks = calls_of(monkeypatch, JsonScanner, "scan_padded")
    with pipe(tmp_path, ".jsonl", data) as path:
        found = content(path)["data"]
    assert found.recursive_sequence_lengths() == [list(range(50)) * 2_400]
    np.testing.assert_array_equal(found.data, np.tile(np.concatenate(cycle), 2_400))
    assert 4 << 20 < sum(size for _, _, size in blocks) < len(data) - (2 << 20)


@pytest.mark.slow
def test_an_error_far_into_a_file_names_its_line(
    tmp_path: Path, repaid: Callable[[int], None]
) -> None:
    repaid(0)
    many = 250_000
    (tmp_path / "t.jsonl").write_bytes(b"[1,2,3]\n" * many + b"[1,2.5]\n" + b"[4]\n" * many)
    with pytest.raises(InvalidDataError, match=f"line {many + 1}: item <1>: expected a whole"):
        content(tmp_path / "t.jsonl")


def test_too_many_columns_are_left_to_the_exact_parser(
    tmp_path: Path, repaid: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    repaid(0)
    monkeypatch.setattr(json_fast, "MOST_RESERVED_BYTES", 1)
    monkeypatch.setattr(JsonScanner, "scan_padded", lambda *_: pytest.fail("was scanned"))
    (tmp_path / "t.jsonl").write_bytes(b"[1]\n")
    assert content(tmp_path / "t.jsonl")["data"].data.tolist() == [1]


def test_blocks_come_in_order_and_may_be_left_early(
    tmp_path: Path, repaid: Callable[[int], None]
) -> None:
    repaid(0)
    (tmp_path / "t.jsonl").write_bytes(b"".join(b"[%d]\n" % n for n in range(50_000)))
    with lodcli.open(tmp_path / "t.jsonl") as source:
        parts = [tensors_of(dict(batch))["data"].data for batch in source.batches(4096)]
        assert len(parts) > 100
        assert np.concatenate(parts).tolist() == list(range(50_000))
        assert next(iter(source.batches(4096)))["data"] is not None
