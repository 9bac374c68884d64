"""`lod cast` of texts to times, against pandas and Arrow."""

from __future__ import annotations

from datetime import datetime, time
from pathlib import Path

import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor

STAMPS = [
    "2024-03-01T12:30:05Z",
    "2024-03-01 12:30:05.25",
    "1969-12-31",
    "2024-05-01T00:30:00+02:00",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
]


@pytest.mark.parametrize("texts", [STAMPS, [t for t in STAMPS if "+" not in t]])
@pytest.mark.parametrize("zone", ["", ", UTC", ", Europe/Oslo"])
def test_timestamps_are_those_of_arrow(lod: Lod, folder: Path, texts: list[str], zone: str) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    Path("a.csv").write_text("n,time\n" + "".join(f"{n},{t}\n" for n, t in enumerate(texts)))
    assert lod("cast", "-q", "a.csv", f"time=timestamp[us{zone}]", "-o", "a.parquet").clean
    found = pq.read_table("a.parquet")["time"].combine_chunks()
    assert found.type == pa.timestamp("us", zone.removeprefix(", ") or None)
    zoned = [t if t[-1] == "Z" or "+" in t else f"{t}Z" for t in texts]
    zoned = [t.replace("31Z", "31T00:00Z") if len(t) == 11 else t for t in zoned]
    expected = pa.array(zoned).cast(pa.timestamp("us", "UTC"))
    assert found.cast("int64").equals(expected.cast("int64"))


def test_zones_may_be_hours_as_in_postgres_and_duckdb(lod: Lod, folder: Path) -> None:
    source = Path(__file__).parents[2] / "formats" / "theirs" / "postgres.csv"
    assert lod("cast", source, "at=timestamp[us, UTC]", "-o", "a.lod.h5").code == 0
    found = tensor("a.lod.h5", "at").to_list()
    assert [one and one.replace(tzinfo=None) for one in found] == [
        datetime(2024, 2, 29, 23, 30, 0, 250_000),
        None,
        datetime(2024, 6, 1, 12),
    ]


def test_dates_times_durations_and_seconds(lod: Lod, folder: Path) -> None:
    Path("a.jsonl").write_text(
        '{"n":1,"d":"2024-02-29","t":"12:30:05.25","w":"PT1M30S","s":"1970-01-02T00:00:01"}\n'
    )
    types = ["d=date", "t=time[ms]", "w=duration[s]", "s=timestamp[s]"]
    assert lod("cast", "-q", "a.jsonl", *types, "-o", "a.lod.h5").code == 0
    assert lod("convert", "-q", "a.lod.h5", "b.jsonl").code == 0
    assert Path("b.jsonl").read_text() == (
        '{"n":1,"d":"2024-02-29","t":"12:30:05.250","w":"PT90S","s":"1970-01-02T00:00:01"}\n'
    )


def test_empty_and_null_texts_are_null_in_lists_and_records_too(lod: Lod, folder: Path) -> None:
    Path("a.jsonl").write_text(
        '{"at":["2024-01-01",null,""],"r":[{"x":1,"t":"2024-01-02"},{"x":2,"t":null}]}\n'
        '{"at":null,"r":[]}\n'
    )
    assert lod("cast", "-q", "a.jsonl", "at=date", "r.t=date", "-o", "a.lod.h5").code == 0
    assert lod("convert", "-q", "a.lod.h5", "b.jsonl").code == 0
    assert Path("b.jsonl").read_text() == (
        '{"at":["2024-01-01",null,null],"r":[{"x":1,"t":"2024-01-02"},{"x":2,"t":null}]}\n'
        '{"at":null,"r":[]}\n'
    )


def test_times_and_dtypes_together_name_the_wrong_text(lod: Lod, folder: Path) -> None:
    Path("a.csv").write_text("n,time\n1,2024-01-01\n2,2024-13-01\n")
    done = lod("cast", "-q", "a.csv", "int8", "time=date", "-o", "a.lod.h5")
    assert done.code == 1
    assert "a.csv: time: row 1: expected a date" in done.stderr
    assert "found '2024-13-01'" in done.stderr
    assert not Path("a.lod.h5").exists()
    Path("a.csv").write_text("n,time\n1,2024-01-01\n")
    assert lod("cast", "-q", "a.csv", "int8", "time=date", "-o", "a.lod.h5").code == 0
    assert "n       int8" in lod("inspect", "a.lod.h5").stdout


@pytest.mark.parametrize(
    ("dtype", "code", "error"),
    [
        ("time=timestamp", 2, "expected unit s, ms, us, ns, found ''; write for example time="),
        ("timestamp[us]", 2, "names no tensor; write for example TENSOR=timestamp[us]"),
        ("time=date[s]", 2, "date: expected unit D, ms, found 's'"),
        ("time=date[D, UTC]", 2, "a date has no zone, found 'UTC'"),
        ("m=date", 2, "no tensor named 'm'"),
        (
            "time=timestamp[s]",
            1,
            "'2400-01-01T00:00:00.5' is not a whole number of the unit s; --dtype-unsafe makes it",
        ),
        ("time=date[ms]", 1, "row 0: '2400-01-01T00:00:00.5' is not a whole number of the unit D;"),
        ("time=timestamp[ns]", 1, "row 0: 2400-01-01T00:00:00.5 is beyond 64 bits"),
    ],
)
def test_a_time_that_cannot_be_is_an_error(
    lod: Lod, folder: Path, dtype: str, code: int, error: str
) -> None:
    Path("a.csv").write_text("n,time\n1,2400-01-01T00:00:00.5\n")
    done = lod("cast", "-q", "a.csv", dtype, "-o", "a.lod.h5")
    assert done.code == code
    assert error in done.stderr
    assert not Path("a.lod.h5").exists()
    done = lod("cast", "-q", "a.csv", "time=date", "time=date", "-o", "a.lod.h5")
    assert "several dtypes for time" in done.stderr


def test_a_text_between_two_of_the_unit_becomes_the_time_before_it(lod: Lod, folder: Path) -> None:
    Path("a.jsonl").write_text(
        '{"t":"2024-05-01T10:00:00.5","d":"1969-12-31T23:59:59","m":"2024-05-01 12:00",'
        '"o":"12:30:05.25","w":"-PT1.5S"}\n'
    )
    types = ["t=timestamp[s]", "d=date", "m=date[ms]", "o=time[s]", "w=duration[s]"]
    assert lod("cast", "a.jsonl", *types, "--dtype-unsafe", "-qo", "b.jsonl").clean
    assert Path("b.jsonl").read_text() == (
        '{"t":"2024-05-01T10:00:00","d":"1969-12-31","m":"2024-05-01","o":"12:30:05","w":"-PT2S"}\n'
    )
    done = lod("cast", "a.jsonl", "o=time[s]", "-o", "no.lod.h5")
    assert done.code == 1
    assert "o: row 0: '12:30:05.25' is not a whole number of the unit s; --dtype-uns" in done.stderr


@pytest.mark.parametrize(
    ("kind", "values", "error"),
    [
        ("time[s]", [0, 90000, -5], "n: row 1: expected time[s] from 0 to 86399, found 90000"),
        ("time[s]", [None, 86399, -5], "n: row 2: expected time[s] from 0 to 86399, found -5"),
        ("time[ms]", [86_400_000], "n: row 0: expected time[ms] from 0 to 86399999, found 864"),
        ("time[ms]", [86_399_999, None, 0], ""),
        ("duration[s]", [-5, 90000], ""),
    ],
)
def test_a_time_of_day_is_within_a_day(
    lod: Lod, folder: Path, kind: str, values: list[int | None], error: str
) -> None:
    io.write("n.lod.h5", {"n": LoDTensor.from_lists(values)})
    for flags in ([], ["--dtype-unsafe"]):
        done = lod("cast", "n.lod.h5", f"n={kind}", *flags, "-fo", "o.lod.h5")
        assert done.code == bool(error)
        assert error in done.stderr
        assert Path("o.lod.h5").exists() == (not error)


def test_concat_of_times_and_text_or_another_zone_names_the_remedy(lod: Lod, folder: Path) -> None:
    Path("a.csv").write_text("n,time\n1,2024-01-01\n")
    assert lod("cast", "a.csv", "time=timestamp[s]", "-o", "a.lod.h5").code == 0
    assert lod("cast", "a.csv", "time=timestamp[s, UTC]", "-o", "b.lod.h5").code == 0
    fits = "time: does not fit a.lod.h5: it has the marks"
    marks = f"{fits} text, not timestamp[s]; lod cast makes times of text\n"
    assert lod("concat", "a.lod.h5", "a.csv", "-o", "c.lod.h5").stderr.endswith(marks)
    zones = f"{fits} timestamp[s, UTC], not timestamp[s]\n"
    assert lod("concat", "a.lod.h5", "b.lod.h5", "-o", "c.lod.h5").stderr.endswith(zones)


@pytest.mark.usefixtures("folder")
def test_a_time_of_day_is_made_of_a_timestamp(lod: Lod) -> None:
    moments = [datetime(2024, 5, 1, 12, 30, 5, 250_000), datetime(1969, 12, 31, 23, 59), None]
    io.write("t.lod.h5", {"t": LoDTensor.from_lists(moments)})
    done = lod("cast", "t.lod.h5", "t=time[us]", "-o", "o.lod.h5")
    assert done.code == 1
    assert "t: row 0: 2024-05-01T12:30:05.250000 has a date; --dtype-unsafe keeps only the" in (
        done.stderr
    )
    for unit, clock in {"us": time(12, 30, 5, 250_000), "s": time(12, 30, 5)}.items():
        assert lod("cast", "t.lod.h5", f"t=time[{unit}]", "--dtype-unsafe", "-fo", "o.lod.h5").clean
        assert tensor("o.lod.h5", "t").to_list() == [clock, time(23, 59), None]
    io.write("t.lod.h5", {"t": LoDTensor.from_lists([datetime(1970, 1, 1, 5)])}, overwrite=True)
    assert lod("cast", "t.lod.h5", "t=time[s]", "-fo", "o.lod.h5").code == 0


@pytest.mark.parametrize("text", ["2024-05-01T12", "2024-05-01Z", "2024-05-01T12Z", "2024-5-1"])
def test_texts_that_only_arrow_takes_for_times_are_errors(
    lod: Lod, folder: Path, text: str
) -> None:
    for others in ("2024-05-01T12:00:00", "2024-05-01T12:00:00Z", ""):
        io.write("t.lod.h5", {"t": LoDTensor.from_lists([others, text])}, overwrite=True)
        done = lod("cast", "t.lod.h5", "t=timestamp[s]", "-fo", "o.lod.h5")
        assert done.code == 1
        assert "t: row 1: expected a timestamp such as '2024-05-01' or" in done.stderr


@pytest.mark.parametrize("zone", ["+02:60", "+24", "-24:00", "+2", "+02:00\n"])
def test_an_invalid_zone_is_an_error(lod: Lod, folder: Path, zone: str) -> None:
    for others in ("2024-05-01T12:00", "2024-05-01T12:00Z"):
        io.write(
            "t.lod.h5",
            {"t": LoDTensor.from_lists([others, f"{others[:16]}{zone}"])},
            overwrite=True,
        )
        done = lod("cast", "t.lod.h5", "t=timestamp[s]", "-fo", "o.lod.h5")
        assert done.code == 1
        assert "t: row 1: expected a timestamp such as '2024-05-01' or" in done.stderr


def test_texts_with_and_without_a_zone(lod: Lod, folder: Path) -> None:
    texts = ["2024-05-01T12:00:00Z", "", "2024-05-01 14:00+02", "2024-05-01T12:00", None]
    io.write("t.lod.h5", {"t": LoDTensor.from_lists(texts)})
    for some in (texts, texts[:2], texts[3:]):
        io.write("t.lod.h5", {"t": LoDTensor.from_lists(some)}, overwrite=True)
        assert lod("cast", "t.lod.h5", "t=timestamp[s]", "-fo", "o.lod.h5").code == 0
        noon = datetime(2024, 5, 1, 12)
        assert tensor("o.lod.h5", "t").to_list() == [noon if one else None for one in some]
