"""text: written files are read back exactly, or writing fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content

NAMES = {3: None, 2: ("sentence", "word"), 1: ("line",)}
# Read again as something else, so that writing refuses it, or harmless.
BYTES = st.binary(max_size=4) | st.text("ab \n\r\t\0", max_size=3).map(str.encode)
LETTERS = st.sampled_from([b"a", b"bc", b"\xef\xbb\xbf", "é".encode(), b"\xff"])


def tensor_of(tree: Any, levels: int) -> LoDTensor:
    """Return the tensor of nested lists of bytes."""
    items, lengths = tree, []
    for _ in range(levels - 1):
        lengths.append([len(item) for item in items])
        items = [part for item in items for part in item]
    lengths.append([len(item) for item in items])
    return LoDTensor(np.frombuffer(b"".join(items), np.uint8), LoD.from_lengths(lengths))


def trees(leaves: st.SearchStrategy[bytes], levels: int) -> st.SearchStrategy[Any]:
    found: st.SearchStrategy[Any] = leaves
    for _ in range(levels):
        found = st.lists(found, max_size=3)
    return found


@pytest.mark.parametrize(
    ("tree", "levels", "text"),
    [
        ([[[b"a", b"bc"], [b"d"]], [[b"e"]]], 3, b"a bc\nd\n\ne\n"),
        ([[b"a", b"bc"], [], [b"d"], []], 2, b"a bc\n\nd\n\n"),
        ([b" a b", b"", b"\rc"], 1, b" a b\n\n\rc\n"),
        ([], 3, b""),
        ([[], []], 2, b"\n\n"),
    ],
)
def test_text_is_written_as_a_person_would(
    tmp_path: Path, tree: Any, levels: int, text: bytes
) -> None:
    io.write(tmp_path / "x.txt", tensor_of(tree, levels))
    assert (tmp_path / "x.txt").read_bytes() == text


@pytest.mark.parametrize("levels", [1, 2, 3])
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_text_is_read_back_exactly_or_refused(
    tmp_path: Path, levels: int, data: st.DataObject
) -> None:
    leaves = data.draw(st.sampled_from([LETTERS, LETTERS, BYTES]))
    tensor = tensor_of(data.draw(trees(leaves, levels)), levels)
    path = tmp_path / "x.txt"
    path.unlink(missing_ok=True)
    try:
        io.write(path, tensor)
    except UnsupportedError:
        assert not path.exists()
        return
    if not path.stat().st_size:
        assert not len(tensor)
        return
    found = content(path, levels=NAMES[levels])["data"]
    assert found.lod.same_levels(tensor.lod)
    assert found.data.tobytes() == tensor.data.tobytes()


def test_batches_are_joined_as_one_text(tmp_path: Path) -> None:
    tree = [[[b"a", b"b"], [b"c"]], [[b"d"]], [[b"e"], [b"f"]]]
    whole = tensor_of(tree, 3)
    parts = ({"data": whole[start : start + 1]} for start in range(3))
    io.write_batches(tmp_path / "x.txt", schema_of({"data": whole}), parts)
    assert (tmp_path / "x.txt").read_bytes() == b"a b\nc\n\nd\n\ne\nf\n"


@pytest.mark.parametrize(
    ("tree", "levels", "message"),
    [
        ([[[b"a", b""]]], 3, "holds no empty word; 1 is empty"),
        ([[[b"a"], []]], 3, "holds no empty sentence; 1 is empty"),
        ([[[b"a"]], []], 3, "holds no empty article; 1 is empty"),
        ([[b""]], 2, "holds no empty word; 0 is empty"),
        ([[[b"a", b"b c"]]], 3, "holds no word with b' ' in it; 1 has that"),
        ([[b"a", b"b\r"]], 2, r"holds no word with b'\\r' in it; 1 has that"),
        ([b"a", b"b\nc"], 1, r"holds no line with b'\\n' in it; 1 has that"),
        ([b"a", b"b\r", b""], 1, r"holds no line with b'\\r' at its end; 1 has that"),
        ([b"", b"a\0"], 1, r"holds no line with b'\\x00' in it; 1 has that"),
        ([[[b"\xef\xbb\xbfa"]]], 3, "cannot begin with a byte order mark"),
    ],
)
def test_text_that_would_not_be_read_back_is_refused(
    tmp_path: Path, tree: Any, levels: int, message: str
) -> None:
    path = tmp_path / "x.txt"
    with pytest.raises(UnsupportedError, match=message):
        io.write(path, tensor_of(tree, levels))
    assert not path.exists()


def test_a_refusal_counts_the_items_of_earlier_batches(tmp_path: Path) -> None:
    whole = tensor_of([[[b"a", b"b"]], [[b"c", b""]]], 3)
    parts = ({"data": whole[start : start + 1]} for start in range(2))
    with pytest.raises(UnsupportedError, match="no empty word; 3 is empty"):
        io.write_batches(tmp_path / "x.txt", schema_of({"data": whole}), parts)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            LoDTensor(np.array([1]), [[1]]),
            r"bytes \(uint8\), data is int64; give vocabulary=",
        ),
        (LoDTensor(np.array([1.5]), [[1]]), "text holds no float64"),
        (LoDTensor(np.zeros(1, np.uint8)), "text needs 1 level, data has 0"),
        (LoDTensor(np.zeros(1, np.uint8), [[1]] * 4), "text holds 3 levels, data has 4"),
        (LoDTensor(np.zeros((1, 2), np.uint8), [[1]]), "rows of at most 0 dimensions"),
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, tensor: LoDTensor, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        io.write(tmp_path / "x.txt", tensor)
