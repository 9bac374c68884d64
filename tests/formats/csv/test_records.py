"""CSV records that are split all at once: as those that are parsed one by one."""

from __future__ import annotations

import csv
import io
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lodcli.formats.core.io import read_all
from lodcli.formats.csv import splitting_native
from lodcli.formats.csv.records import Records, Table
from lodcli.formats.storage.inputs import Input
from lodcli.formats.text import records_native
from lodcli.formats.text.lines import LineReader
from lodcli.kernels.errors import InvalidDataError, LodError
from tests.growth import calls_of

SIZES = st.integers(1, 60)
# The line and the fields of each record, None for those that are empty and not in quotes, and an
# error, or "".
Found = tuple[list[tuple[int, list[bytes | None]]], str]


def records(path: Path, limit_bytes: int) -> Found:
    found = []
    with Input(path) as file:
        reader = Records(LineReader(file), ",", tells_nulls=True)
        reader.restart()
        try:
            for table in reader.blocks(limit_bytes, 2):
                columns = [table.column(number) for number in range(2)]
                missing = [table.missing(number).tolist() for number in range(2)]
                for row, line in enumerate(table.lines.tolist()):
                    fields = [
                        None if empty[row] else column.bytes_of(row)
                        for column, empty in zip(columns, missing, strict=True)
                    ]
                    found.append((line, fields))
        except LodError as error:
            return found, str(error)
    return found, ""


def every_way(content: bytes, limit_bytes: int) -> list[Found]:
    """Return what is found with compiled code, with NumPy, and record by record."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, "x.csv")
        path.write_bytes(content)
        patch.setattr(records_native, "REPAID_VALUES", 0)
        found = [records(path, limit_bytes)]
        patch.setattr(records_native, "REPAID_VALUES", 1 << 60)
        found.append(records(path, limit_bytes))
        patch.setattr(Records, "_simple", lambda *_: None)
        return [*found, records(path, limit_bytes)]


@given(
    rows=st.lists(st.lists(st.text('a1é," \n\r', max_size=3), min_size=2, max_size=2), max_size=9),
    end=st.sampled_from(["\n", "\r\n"]),
    quoted=st.booleans(),
    limit_bytes=SIZES,
)
def test_records_are_those_that_were_written(
    rows: list[list[str]], end: str, quoted: bool, limit_bytes: int
) -> None:
    text = io.StringIO()
    writer = partial(csv.writer, text, lineterminator=end)
    made = writer(quoting=csv.QUOTE_ALL) if quoted else writer()
    made.writerows([["k", "v"], *rows])
    found, by_numpy, wanted = every_way(text.getvalue().encode(), limit_bytes)
    assert found == by_numpy == wanted
    assert not quoted or all(None not in fields for _, fields in found[0])
    if quoted or "\r" not in "".join(map("".join, rows)):  # which csv does not quote
        assert [[(one or b"").decode() for one in fields] for _, fields in found[0]] == rows


@given(content=st.text('a1é," \n\r', max_size=40), limit_bytes=SIZES)
@example(content='1,"\n,"\n"x""y",1\n', limit_bytes=60)  # a quote alone between separators
@example(content='"a","b"\n"a,b",""\n"a","b"\n', limit_bytes=1)  # quotes around separators later
@example(content='"a"b,1\n', limit_bytes=60)  # a quote on one side of a field
def test_odd_text_is_read_or_refused_alike(content: str, limit_bytes: int) -> None:
    found, by_numpy, wanted = every_way(b"k,v\n" + content.encode(), limit_bytes)
    assert found == by_numpy == wanted


@given(content=st.text('a1,"\n', max_size=40), limit_bytes=SIZES)
@example(content="1,1\n\n1,1\n", limit_bytes=1)  # a blank line between blocks
@example(content='1",1\n1,"a\na"\n1,"\na"\n', limit_bytes=1)  # quotes that are no pairs
def test_records_do_not_depend_on_the_size_of_blocks(content: str, limit_bytes: int) -> None:
    raw = b"k,v\n" + content.encode()
    (found, error), (wanted, refused) = (every_way(raw, size)[0] for size in (limit_bytes, 1 << 20))
    assert bool(error) == bool(refused)
    assert found == wanted or error
    if not refused:
        rows = csv.reader(io.StringIO(raw.decode(), newline=""), strict=True)
        exact = [row for row in rows if any(row) or len(row) > 1][1:]  # no blank lines at the end
        assert [[(one or b"").decode() for one in fields] for _, fields in found] == exact


# Fields with these are split by NumPy.
HARD = ['"a""b"', '"a\nb"', 'a"b']
FIELDS = ["", "a", "é", "x" * 70, '""', '"a"', '"a,b"', '"' + "y" * 63 + '"']


@given(data=st.data(), width=st.integers(1, 4), hard=st.booleans())
def test_compiled_code_splits_as_numpy_does(data: st.DataObject, width: int, hard: bool) -> None:
    field = st.sampled_from([*FIELDS, *HARD] if hard else FIELDS)
    row = st.lists(field, min_size=width, max_size=width)
    rows = data.draw(st.lists(row, min_size=1, max_size=40))
    lines = [",".join(row) for row in rows]
    if hard:
        line = data.draw(st.integers(0, len(rows) - 1))
        lines[line] += data.draw(st.sampled_from(["", ",", '"']))
    block = "".join(line + "\n" for line in lines).encode()
    found = splitting_native.split(block, ",", width, block.count(b"\n"))
    reader = Records(None, ",", tells_nulls=True)  # type: ignore[arg-type]
    wanted = reader._split(block, 5, width, in_lines=False)
    assert found is not None or hard
    if found is not None:
        assert wanted is not None
        table = Table(np.arange(5, 5 + len(rows)), *found)
        assert table.lines.tolist() == wanted.lines.tolist()
        for column in range(width):
            ours, theirs = table.column(column), wanted.column(column)
            assert ours.starts.tolist() == theirs.starts.tolist()
            assert ours.lengths.tolist() == theirs.lengths.tolist()
            assert table.missing(column).tolist() == wanted.missing(column).tolist()


def test_memory_for_fields_is_bounded_by_the_bytes_of_a_block() -> None:
    assert splitting_native.split(b"\n" * 100, ",", 1 << 40, 100) is None


def test_after_doubled_quotes_all_blocks_are_split_by_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.csv").write_text('k,v\n1,2\n1,"a ""b"""\n' + "1,1\n" * 9)
    monkeypatch.setattr(records_native, "REPAID_VALUES", 0)
    split = calls_of(monkeypatch, splitting_native, "split")
    found, error = records(tmp_path / "x.csv", 4)
    assert (len(found), error) == (11, "")
    assert len(split) == 3  # up to the doubled quotes


def test_a_blank_line_between_blocks_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("k,v\n1,1\n\n1,1\n")
    assert records(tmp_path / "x.csv", 1)[1].startswith("line 3: expected 2 fields, as line 1 has")


def test_a_wrong_quote_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('k,v\n"a"b,1\n' + "1,1\n" * 1000)
    with Input(tmp_path / "x.csv") as file:
        lines = LineReader(file)
        reader = Records(lines, ",", tells_nulls=True)
        reader.restart()
        with pytest.raises(InvalidDataError, match="line 2: is not a record"):
            list(reader.blocks(64, 2))
        assert lines.line < 100  # the rest might be long


@pytest.mark.parametrize("place", [3, 40_000])
def test_quotes_of_inches_before_texts_of_several_lines_are_read(
    tmp_path: Path, place: int
) -> None:
    rows = [[str(n), "5 mm", f"first line\nsecond line of {n}"] for n in range(60_000)]
    lines = [f'{n},{size},"{note}"' for n, size, note in rows]
    rows[place][1:] = ['5" pipe', "none"]
    lines[place] = f'{place},5" pipe,none'
    (tmp_path / "x.csv").write_text("\n".join(["n,size,note", *lines, ""]))
    found = read_all(tmp_path / "x.csv")
    assert found["size"].to_list() == [size for _, size, _ in rows]
    assert found["note"].to_list() == [note for _, _, note in rows]
