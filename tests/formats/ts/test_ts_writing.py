"""ts: writing series, and reading them back, also by aeon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.errors import InvalidDataError, LodError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content
from tests.strategies import BFLOAT16, DTYPES, tensors

SAMPLES = Path(__file__).parents[3] / "samples"
VOWELS = SAMPLES / "japanese_vowels.ts"
FLOATS = tuple(dtype for dtype in DTYPES if dtype.kind == "f" or dtype == BFLOAT16)


def test_a_sample_is_written_as_it_was_but_for_comments(tmp_path: Path) -> None:
    path = tmp_path / "x.ts"
    io.write(path, content(VOWELS))
    found, expected = path.read_bytes(), VOWELS.read_bytes()
    lines = [line for line in expected.splitlines() if not line.startswith(b"#")]
    assert [line.lower() for line in found.splitlines()[1:6]] == [
        line.lower() for line in lines[1:6]
    ]
    # Digits such as 0.930000 are written as 0.93.
    again = content(path)
    assert all(again[name].identical(tensor) for name, tensor in content(VOWELS).items())


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (
            {"x": LoDTensor(np.array([[1.5], [np.nan], [-0.0]]), [[1, 2]])},
            "@missing true\n@univariate true\n@equalLength false\n"
            "@classLabel false\n@data\n1.5\n?,-0.0\n",
        ),
        (
            {
                "data": LoDTensor(np.arange(4, dtype=np.int8).reshape(2, 2), [[1, 1]]),
                "label": LoDTensor(np.array([2, 0], np.uint8)),
            },
            "@missing false\n@univariate false\n@dimensions 2\n@equalLength true\n"
            "@seriesLength 1\n@classLabel true 0 1 2\n@data\n0:1:2\n2:3:0\n",
        ),
        (
            {
                "data": LoDTensor(np.array([[0.1]], np.float32), [[1]]),
                "label": LoDTensor(np.array([-2.5])),
            },
            "@missing false\n@univariate true\n@equalLength true\n@seriesLength 1\n"
            "@targetLabel true\n@data\n0.1:-2.5\n",
        ),
    ],
)
def test_series_are_written_by_hand(tmp_path: Path, items: dict[str, LoDTensor], text: str) -> None:
    io.write(tmp_path / "x.ts", items)
    head = "@problemName lod\n@timeStamps false\n"
    assert (tmp_path / "x.ts").read_text() == head + text


@given(
    tensor=tensors(FLOATS, ((1,), (3,)), min_levels=1, max_levels=1, any_bits=True),
    labels=st.sampled_from(["none", "class", "names", "target"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_written_tensors_are_read_back(tmp_path: Path, tensor: LoDTensor, labels: str) -> None:
    path = tmp_path / "x.ts"
    tensor = LoDTensor(tensor.data, tensor.lod.with_names(["series"]))
    numbers = np.arange(len(tensor))
    items = {"data": tensor}
    if labels == "target":
        items["label"] = LoDTensor(numbers / 7)
    elif labels != "none":
        items["label"] = LoDTensor(numbers % 2)
    if labels == "names":
        letters = np.frombuffer("größe".encode() + b"B", np.uint8)
        items["label_names"] = LoDTensor(letters, LoD.from_lengths([[7, 1]], ["class"]))
    if 0 in tensor.lod.lengths(0):
        with pytest.raises(UnsupportedError, match="no empty series"):
            io.write(path, items, overwrite=True)
        return
    io.write(path, items, overwrite=True)
    found = content(path, dtype=tensor.dtype)
    with np.errstate(invalid="ignore"):
        # A NaN comes back as one, not with its bits.
        same = np.where(np.isnan(tensor.data), np.array(np.nan, tensor.dtype), tensor.data)
    assert found["data"].identical(LoDTensor(same, tensor.lod))
    if labels in ("class", "names"):
        classes = ("größe", "B") if labels == "names" else found["label"].categories
        assert classes is not None
        items["label"] = items["label"].as_categories(classes)
    assert all(found[name].identical(items[name]) for name in items.keys() - {"data"})


@pytest.mark.parametrize("order", [("data", "label", "names"), ("names", "label", "data")])
def test_tensors_may_come_one_after_another(tmp_path: Path, order: tuple[str, ...]) -> None:
    whole = content(VOWELS)
    series = whole["data"]
    parts = {
        "data": [{"data": series[start : start + 90]} for start in (0, 90, 180)],
        "label": [{"label": whole["label"]}],
        "names": [{"label_names": whole["label_names"]}],
    }
    batches = [batch for name in order for batch in parts[name]]
    io.write_batches(tmp_path / "x.ts", schema_of(whole), batches)
    found = content(tmp_path / "x.ts")
    assert all(found[name].identical(whole[name]) for name in whole)


SERIES = LoDTensor(np.zeros((2, 1)), [[1, 1]])
LABELS = LoDTensor(np.array([0, 1]))


def names(*given_names: bytes) -> LoDTensor:
    letters = np.frombuffer(b"".join(given_names), np.uint8)
    return LoDTensor(letters, LoD.from_lengths([[len(name) for name in given_names]]))


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ({"x": LoDTensor(np.zeros((1, 2)))}, UnsupportedError, "x has 0 and rows of shape"),
        ({"x": LoDTensor(np.zeros(1), [[1]])}, UnsupportedError, r"x has 1 and rows of shape \(\)"),
        ({"x": LoDTensor(np.zeros((1, 0)), [[1]])}, UnsupportedError, r"of shape \(0,\)"),
        ({"x": LoDTensor(np.zeros((1, 1)), [[1], [1]])}, UnsupportedError, "1 level, x has 2"),
        ({"x": LoDTensor(np.zeros((1, 1), "c8"), [[1]])}, UnsupportedError, "no complex64"),
        ({"x": LoDTensor(np.zeros((1, 1)), [[1, 0]])}, UnsupportedError, "series; 1 is empty"),
        (
            {"x": LoDTensor(np.array([[2**53 + 1]]), [[1]])},
            UnsupportedError,
            r"up to 2\*\*53; found 9007199254740993",
        ),
        ({"x": SERIES, "label": LABELS}, UnsupportedError, "tensor named data; found x, label"),
        ({"data": SERIES, "x": LABELS}, UnsupportedError, "data, label and label_names, no x"),
        ({"data": SERIES, "label": SERIES}, UnsupportedError, "no levels, single values"),
        ({"data": SERIES, "label_names": names(b"a")}, UnsupportedError, "only beside a label"),
        (
            {"data": SERIES, "label": LABELS, "label_names": LABELS},
            UnsupportedError,
            "label_names as text",
        ),
        (
            {"data": SERIES, "label": LoDTensor(np.array([0]))},
            ShapeMismatchError,
            "2 series, 1 labels",
        ),
        (
            {"data": SERIES, "label": LoDTensor(np.array([0, -1]))},
            InvalidDataError,
            "label of series 1: expected a class from 0 to 0, found -1",
        ),
        (
            {"data": SERIES, "label": LABELS, "label_names": names(b"a")},
            InvalidDataError,
            "label of series 1: expected a class from 0 to 0, found 1",
        ),
        (
            {"data": SERIES, "label": LoDTensor(np.array([0, 10**6]))},
            UnsupportedError,
            "class 1000000 is too large without label_names",
        ),
        (
            {"data": SERIES, "label": LoDTensor(np.array([0, np.nan]))},
            UnsupportedError,
            "that of series 1 is nan",
        ),
        (
            {"data": SERIES, "label": LABELS, "label_names": names(b"a", b"b c")},
            UnsupportedError,
            "white space or ':' in it; found 'b c'",
        ),
        (
            {"data": SERIES, "label": LABELS, "label_names": names(b"a", b"b:c")},
            UnsupportedError,
            "white space or ':' in it; found 'b:c'",
        ),
        (
            {"data": SERIES, "label": LABELS, "label_names": names(b"a", b"")},
            UnsupportedError,
            "no class that is empty",
        ),
        (
            {"data": SERIES, "label": LABELS, "label_names": names(b"a", b"a")},
            UnsupportedError,
            "classes that differ",
        ),
        (
            {"data": SERIES, "label": LABELS, "label_names": names()},
            UnsupportedError,
            "at least one class",
        ),
    ],
)
def test_content_that_ts_cannot_hold_is_an_error(
    tmp_path: Path, items: dict[str, LoDTensor], error: type[LodError], message: str
) -> None:
    with pytest.raises(error, match=message):
        io.write(tmp_path / "x.ts", items)
    assert not list(tmp_path.iterdir())


# -- aeon ----------------------------------------------------------------------------


@pytest.fixture
def aeon() -> Any:
    return pytest.importorskip("aeon.datasets")


def test_aeon_reads_what_we_write(tmp_path: Path, aeon: Any) -> None:
    path = str(tmp_path / "x.ts")
    io.write(path, content(VOWELS))
    series, labels = aeon.load_from_ts_file(path)
    expected, expected_labels = aeon.load_from_ts_file(str(VOWELS))
    assert len(series) == 270
    assert all(map(np.array_equal, series, expected))
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_array_equal(np.concatenate(series, axis=1).T, content(VOWELS)["data"].data)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("labels", ["none", "class", "target"])
def test_aeon_reads_every_kind_of_header(
    tmp_path: Path, aeon: Any, channels: int, labels: str
) -> None:
    path = tmp_path / "x.ts"
    rows = np.arange(6.0 * channels).reshape(6, channels) / 7
    rows[4, 0] = np.nan
    items = {"data": LoDTensor(rows, [[2, 4]])}
    if labels == "class":
        items["label"] = LoDTensor(np.array([1, 0]))
    if labels == "target":
        items["label"] = LoDTensor(np.array([0.1, -3e300]))
    io.write(path, items)
    series, found = aeon.load_from_ts_file(str(path))
    np.testing.assert_array_equal(np.concatenate(series, axis=1).T, rows)
    if labels == "class":
        assert found.tolist() == ["1", "0"]
    if labels == "target":
        assert found.tolist() == [0.1, -3e300]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("labels", [None, "classification", "regression"])
def test_we_read_what_aeon_writes(
    tmp_path: Path, aeon: Any, channels: int, labels: str | None
) -> None:
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(channels, steps)) for steps in (3, 5, 4)]
    series[1][0, 2] = np.nan
    values = np.array(["up", "down", "up"]) if labels == "classification" else rng.normal(size=3)
    aeon.save_to_ts_file(
        series, values if labels else None, label_type=labels, path=tmp_path, problem_name="x"
    )
    found = content(tmp_path / "x.ts")
    np.testing.assert_array_equal(found["data"].data, np.concatenate(series, axis=1).T)
    assert found["data"].recursive_sequence_lengths() == [[3, 5, 4]]
    if labels is None:
        assert list(found) == ["data"]
    elif labels == "regression":
        np.testing.assert_array_equal(found["label"].data, values)
    else:
        assert found["label"].data.tolist() == [1, 0, 1]
        assert found["label_names"].data.tobytes() == b"downup"
