"""ts: series of channels with a class or a target each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.ts import ts
from lodcli.formats.ts.ts import SktimeTs
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import batches_of, content, content_of, nested, pipe
from tests.strategies import DTYPES

SAMPLES = Path(__file__).parents[3] / "samples"
VOWELS = SAMPLES / "japanese_vowels.ts"
HEAD = b"@problemName x\n@classLabel true b a\n@data\n"
TWO = b"1,2:3,4:a\n5:6:b\n"
FLOATS = tuple(dtype for dtype in DTYPES if np.issubdtype(dtype, np.floating))


def given_ts(folder: Path, data: bytes, **options: Any) -> dict[str, LoDTensor]:
    return content_of(folder, ".ts", data, **options)


# -- reading by hand -----------------------------------------------------------------


def test_a_line_is_a_series_of_channels_and_a_class(tmp_path: Path) -> None:
    found = given_ts(tmp_path, b"# notes\n\n" + HEAD + TWO)
    assert list(found) == ["data", "label", "label_names"]
    assert nested(found["data"]) == [[[1, 3], [2, 4]], [[5, 6]]]
    assert found["data"].dtype == np.float64
    assert found["data"].lod.names == ("series",)
    assert found["label"].data.tolist() == [1, 0]
    assert found["label"].dtype == np.int64
    assert found["label_names"].data.tobytes() == b"ba"
    assert found["label_names"].lod == LoD.from_lengths([[1, 1]], ["class"])


@pytest.mark.parametrize("name", ["UnitTest_TRAIN.ts", "UnitTest_TEST.ts"])
def test_files_of_aeon_begin_with_other_comments(name: str) -> None:
    found = content(SAMPLES.parent / "tests" / "formats" / "theirs" / name)
    assert found["data"].recursive_sequence_lengths() == [[24] * len(found["label"].data)]
    assert found["label_names"].data.tobytes() == b"12"
    assert found["data"].data[0, 0] == {"TRAIN": 573.0, "TEST": 501.0}[name[9:-3]]


@pytest.mark.parametrize("mark", [b"#", b"%"])
def test_a_file_that_begins_with_comments_is_known_by_its_content(
    tmp_path: Path, mark: bytes
) -> None:
    data = mark + b" notes\n" + mark + b"\n" + HEAD + TWO
    assert SktimeTs().sniff(data)
    assert nested(given_ts(tmp_path, data)["data"]) == [[[1, 3], [2, 4]], [[5, 6]]]


@pytest.mark.parametrize(
    "head",
    [
        b"@PROBLEMNAME x y\r\n@ClassLabel  TRUE\tb a \r\n@Data\r\n",
        b"\xef\xbb\xbf@timestamps false\n@missing False\n@dimension 2\n"
        b"@classlabel true b a\n@data\n",
        b"@univariate false\n@equalLength false\n@seriesLength 7\n@targetlabel false\n"
        b"@classLabel true b a\n@data\n",
    ],
)
def test_directives_come_in_any_case_and_order(tmp_path: Path, head: bytes) -> None:
    found = given_ts(tmp_path, head + TWO.replace(b"\n", b"\r\n") + b"\n\n")
    assert nested(found["data"]) == [[[1, 3], [2, 4]], [[5, 6]]]
    assert found["label"].data.tolist() == [1, 0]


def test_a_target_is_a_number(tmp_path: Path) -> None:
    found = given_ts(tmp_path, b"@targetLabel true\n@data\n1,2:0.5\n3: -1e3\n")
    assert list(found) == ["data", "label"]
    assert found["label"].data.tolist() == [0.5, -1000.0]
    assert nested(found["data"]) == [[[1], [2]], [[3]]]


def test_many_classes_are_compared_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "many.ts"
    classes = " ".join(map(str, range(200_000)))
    path.write_text(f"@classLabel true {classes} 199999\n@data\n1:0\n")
    with pytest.raises(InvalidDataError, match="class '199999' appears twice"):
        io.read_all(path)


@pytest.mark.parametrize("directive", [b"", b"@classLabel false\n", b"@targetlabel false\n"])
@pytest.mark.parametrize("last", [b"", b":"])
def test_without_labels_there_is_only_data(tmp_path: Path, directive: bytes, last: bytes) -> None:
    lines = b"1,2:3,4" + last + b"\n5:6" + last
    found = given_ts(tmp_path, directive + b"@data\n" + lines)
    assert list(found) == ["data"]
    assert nested(found["data"]) == [[[1, 3], [2, 4]], [[5, 6]]]


@pytest.mark.parametrize("directive", [b"@missing true\n", b""])  # b"": as sktime writes
def test_missing_values_become_nan(tmp_path: Path, directive: bytes) -> None:
    data = directive + b"@univariate true\n@data\n?,1, NaN ,inf\n"
    found = given_ts(tmp_path, data)["data"].data
    np.testing.assert_array_equal(found, [[np.nan], [1], [np.nan], [np.inf]])


@pytest.mark.parametrize("value", [b"?", b"nan"])
def test_missing_values_despite_the_header_are_named(tmp_path: Path, value: bytes) -> None:
    data = b"@missing false\n@univariate true\n@data\n1\n2," + value + b"\n"
    with pytest.raises(InvalidDataError, match="line 5, channel 0, step 1: is missing, but the he"):
        given_ts(tmp_path, data)


def test_a_dtype_and_a_level_name_can_be_given(tmp_path: Path) -> None:
    found = given_ts(tmp_path, HEAD + TWO, dtype=np.dtype(np.float32), levels=("u",))
    assert found["data"].dtype == np.float32
    assert found["data"].lod.names == ("u",)
    assert found["label"].dtype == np.int64


def test_a_file_without_series_has_no_items(tmp_path: Path) -> None:
    found = given_ts(tmp_path, b"@dimensions 3\n" + HEAD)
    assert found["data"].data.shape == (0, 3)
    assert found["data"].recursive_sequence_lengths() == [[]]
    assert found["label"].data.tolist() == []
    assert found["label_names"].rows == 2


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"@missing false\n", InvalidDataError, "ends before the line @data"),
        (b"#\n1,2,3\n@data\n", NotThisFormatError, "line 2: expected a directive .* '1,2,3'"),
        (b"@shape 3\n@data\n", UnsupportedError, "line 1: unknown directive '@shape'"),
        (b"@missing true\n@Missing true\n", InvalidDataError, "line 2: '@Missing' appears twice"),
        (b"@dimension 2\n@dimensions 2\n", InvalidDataError, "'@dimensions' appears twice"),
        (b"@missing maybe\n", InvalidDataError, "line 1: @missing needs true or false"),
        (b"@equalLength\n", InvalidDataError, "line 1: @equallength needs true or false"),
        (b"@dimensions 0\n", InvalidDataError, "@dimensions needs a whole number from 1"),
        (b"@dimensions -1\n", InvalidDataError, "@dimensions needs a whole number from 1"),
        (b"@timeStamps true\n", UnsupportedError, "line 1: steps with timestamps cannot be read"),
        (b"@data 1,2\n", InvalidDataError, "line 1: @data stands alone"),
        (b"@classLabel true\n", InvalidDataError, "needs the list of classes"),
        (b"@classLabel true a b a\n", InvalidDataError, "line 1: class 'a' appears twice"),
        (b"@univariate true\n@dimensions 2\n@data\n", InvalidDataError, "but @dimensions 2"),
        (
            b"@classLabel true a\n@targetLabel true\n@data\n",
            InvalidDataError,
            "exclude each other",
        ),
    ],
)
def test_a_faulty_header_is_named(
    tmp_path: Path, data: bytes, error: type[LodError], message: str
) -> None:
    with pytest.raises(error, match=message):
        given_ts(tmp_path, data)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"1:2:a\n1,2:3:a\n", "line 5, channel 1: expected 2 steps as in channel 0, found 1"),
        (b"1:2:a\n1:b\n", "line 5: expected 2 channels and a label, found 1"),
        (b"1:2:a\n1:2:3:b\n", "line 5: expected 2 channels and a label, found 3"),
        (b"1:2:c\n", r"line 4: class 'c' is not in the header's list \('b a'\)"),
        (b"1:2:\n", "line 4: class '' is not in the header's list"),
        (b"1,x:2,3:a\n", "line 4, channel 0, step 1: expected a number, found 'x'"),
        (b"1:2,:a\n", "line 4, channel 1: expected 1 step as in channel 0, found 2"),
        (b"1,2:2,:a\n", "line 4, channel 1, step 1: expected a number, found ''"),
        (b":2:a\n", "line 4, channel 0, step 0: expected a number, found ''"),
        (b"1:1_0:a\n", "line 4, channel 1, step 0: expected a number, found '1_0'"),
        (b"1:2:a\n\n3:4:a\n", "line 5: is blank; expected a series; take it out"),
        (b"inf:-1e999:a\n", "line 4, channel 1, step 0: '-1e999' exceeds float64, and so every"),
        (b"(0,1):(1,2):a\n", r"line 4, channel 0, step 0: expected a number, found '\(0'"),
    ],
)
@pytest.mark.parametrize("limit_bytes", [1, 1 << 20])
def test_a_faulty_series_is_named(
    tmp_path: Path, lines: bytes, message: str, limit_bytes: int
) -> None:
    path = tmp_path / "x.ts"
    path.write_bytes(HEAD + lines)
    with pytest.raises(InvalidDataError, match=message):
        batches_of(path, limit_bytes)


def test_a_faulty_series_is_read_up_to_its_first_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bytes] = []

    def number(text: bytes) -> float:
        tried.append(text)
        return float(text or "nan")

    monkeypatch.setattr(ts, "_number", number)
    with pytest.raises(InvalidDataError, match="step 1: expected a number, found ''"):
        given_ts(tmp_path, b"@data\n1" + b"," * 1000 + b"\n")
    assert tried == [b"1", b""]


def test_series_must_be_as_equal_as_the_header_says(tmp_path: Path) -> None:
    head = b"@equalLength true\n@seriesLength 2\n@data\n"
    assert given_ts(tmp_path, head + b"1,2\n3,4\n")["data"].rows == 4
    with pytest.raises(InvalidDataError, match=r"line 5: expected 2 steps, found 3; .*@equalL"):
        given_ts(tmp_path, head + b"1,2\n1,2,3\n")
    with pytest.raises(InvalidDataError, match="line 4: expected 1 step, found 2"):
        given_ts(tmp_path, b"@equalLength true\n@data\n1\n1,2\n")


def test_a_univariate_series_has_one_channel(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match="line 3: expected 1 channel, found 2"):
        given_ts(tmp_path, b"@univariate true\n@data\n1:2\n")


def test_a_target_that_is_no_number_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match="line 3: expected a number as target, found 'x'"):
        given_ts(tmp_path, b"@targetLabel true\n@data\n1,2:x\n")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dtype": np.dtype(np.int64)}, UnsupportedError, "real numbers, found dtype int64"),
        ({"dtype": np.dtype(np.float16)}, InvalidDataError, "line 3: holds a value beyond float16"),
        ({"levels": ("a", "b")}, UnsupportedError, "ts has 1 level, found 2 names"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, options: dict[str, Any], error: type[LodError], message: str
) -> None:
    with pytest.raises(error, match=message):
        given_ts(tmp_path, b"@data\n1,2\n3,70000\n", **options)


def test_a_bad_level_name_is_refused_when_opened() -> None:
    with pytest.raises(InvalidDataError, match="'1' is not a valid level name"):
        lodcli.open(VOWELS, levels=("1",))


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"# c\n\n@ProblemName x\n", True),
        (b"@data\n", True),
        (b"@someone said\n", False),
        (b"# c\n" * 1000, False),
        (b"1,2\n@data\n", False),
        (b"", False),
    ],
)
def test_the_first_directive_tells_the_format(head: bytes, expected: bool) -> None:
    assert SktimeTs().sniff(head) is expected


# -- files and pipes -----------------------------------------------------------------


def test_the_sample_has_the_counts_of_its_description() -> None:
    found = content(VOWELS)
    assert found["data"].data.shape == (4274, 12)
    assert found["data"].lod.count(0) == 270
    assert (found["data"].lod.lengths(0).min(), found["data"].lod.lengths(0).max()) == (7, 26)
    np.testing.assert_array_equal(found["label"].data, np.repeat(np.arange(9), 30))
    assert found["label_names"].data.tobytes() == b"123456789"
    first = VOWELS.read_text().partition("@data\n")[2].partition(":")[0]
    assert found["data"].data[:20, 0].tolist() == [float(value) for value in first.split(",")]


@pytest.mark.parametrize("limit_bytes", [1, 20_000, 8 << 20])
def test_batches_of_any_size_give_the_same_content(limit_bytes: int) -> None:
    batches = batches_of(VOWELS, limit_bytes)
    assert [batch.keys() for batch in batches[1:]] == [{"data", "label"}] * (len(batches) - 1)
    assert (len(batches) > 1) == (limit_bytes < 1 << 20)
    for name, whole in content(VOWELS).items():
        parts = [batch[name] for batch in batches if name in batch]
        assert LoDTensor.concatenate(parts).identical(whole)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n\n\n"])
def test_a_pipe_is_read_like_a_file(tmp_path: Path, start: bytes) -> None:
    data = start + VOWELS.read_bytes().replace(b"@dimensions 12\n", b"")
    with pipe(tmp_path, ".ts", data) as name:
        found = content(name)
    expected = content(VOWELS)
    assert all(found[name].identical(expected[name]) for name in expected)


def test_a_file_can_be_read_again(tmp_path: Path) -> None:
    (tmp_path / "x.ts").write_bytes(HEAD + TWO)
    with lodcli.open(tmp_path / "x.ts") as source:
        first, again = source.read(), source.read()
    for name, item in first.items():
        assert item.identical(again[name])
