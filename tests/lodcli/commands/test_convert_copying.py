"""`lod convert` from container to container: the bytes of writing, and all that reading checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google_crc32c import value as crc32c

import lodcli
from lodcli.formats.container import rows
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.core.schema import StoredArray
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.broken.failing import failing
from tests.formats.cases.opening import source_of
from tests.formats.cases.writing import partials_in
from tests.lodcli.conftest import Lod, articles

BLOCK = (256 << 10) // 8  # rows of 8 bytes in a block
LENGTHS = [[2, 0, 1], [3 * BLOCK, 5, 6 * BLOCK + 2]]
DATA = np.arange(9 * BLOCK + 7, dtype=np.int64)


def _content() -> dict[str, LoDTensor]:
    """Return tensors that share levels, and some without rows or bytes."""
    index = LoD.from_lengths(LENGTHS, ["day", "hour"])
    return {
        "data": LoDTensor(DATA, index),
        "twin": LoDTensor(DATA % 3 == 0, index),
        "alone": LoDTensor(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "empty": LoDTensor(np.zeros((0, 2)), [[0, 0]]),
        "thin": LoDTensor(np.zeros((5, 0)), [[2, 3]]),
        "none": LoDTensor(np.zeros(0)),
    }


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PIECE_BYTES", 512 << 10)
    monkeypatch.setattr(rows, "CHECKED_BYTES", 1 << 20)


@pytest.fixture
def only_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("was not copied")

    monkeypatch.setattr(ContainerSource, "batches_of", refuse)


def _container(path: Path, content: Any) -> Path:
    io.write(path, content, attributes={"license": "MIT"})
    return path


@pytest.mark.usefixtures("folder", "small_pieces", "only_copies")
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_copy_has_the_bytes_of_what_is_written(
    lod: Lod, jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "thread_count", lambda: int(jobs))
    path = _container(Path("in.lod.h5"), _content())
    assert lod("convert", path, "out.lod.h5").code == 0
    assert Path("out.lod.h5").read_bytes() == path.read_bytes()


@pytest.mark.usefixtures("folder", "only_copies")
def test_attributes_are_set_in_a_copy(lod: Lod) -> None:
    path = _container(Path("in.lod.h5"), _content())
    assert lod("convert", path, "out.lod.h5", "--attribute", "license=BSD").code == 0
    with lodcli.open("out.lod.h5") as source:
        assert source.attributes == {"license": "BSD"}
    found: dict[str, Any] = io.read_all("out.lod.h5")
    assert all(found[name].identical(tensor) for name, tensor in _content().items())


@pytest.mark.usefixtures("folder", "only_copies")
def test_a_file_is_copied_onto_itself(lod: Lod) -> None:
    path = _container(Path("in.lod.h5"), _content())
    before = path.read_bytes()
    assert lod("convert", path, path, "--force").code == 0
    assert path.read_bytes() == before


def _words() -> LoDTensor:
    text = np.frombuffer(b"sevenwords", np.uint8)
    return LoDTensor(text, LoD.from_lengths([[5, 5]]), Marks("text"))


def _steps() -> StoredArray:
    return StoredArray(*TensorArray.unpack(articles(), 1))


def _nulls() -> LoDTensor:
    return LoDTensor.from_lists([[1, None], None])


def _categories() -> LoDTensor:
    return LoDTensor([1, 0, 1]).as_categories(["no", "yes"])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("make", [_words, _steps, _nulls, _categories])
def test_tensors_whose_values_are_checked_are_written_in_batches(
    lod: Lod, make: Callable[[], Any]
) -> None:
    path = _container(Path("in.lod.h5"), {"some": make()})
    with source_of(path) as source:
        found: Any = source
        assert not getattr(found, "_inner", found).copyable
    assert lod("convert", path, "out.lod.h5").code == 0
    assert Path("out.lod.h5").read_bytes() == path.read_bytes()


@pytest.mark.usefixtures("folder", "only_copies", "small_pieces")
@pytest.mark.parametrize("row", [0, 4 * BLOCK + 1, 9 * BLOCK + 6])
def test_a_copy_stops_at_damaged_rows_and_leaves_nothing(lod: Lod, row: int) -> None:
    path = _container(Path("in.lod.h5"), LoDTensor(DATA + 77, LENGTHS))
    content = bytearray(path.read_bytes())
    content[content.index((DATA + 77).tobytes()) + 8 * row] ^= 1
    path.write_bytes(content)
    done = lod("convert", path, "out.lod.h5")
    first = row // BLOCK * BLOCK
    last = min(first + BLOCK, len(DATA)) - 1
    said = f"lod convert: in.lod.h5: /data: rows {first} to {last} were altered"
    assert (done.code, done.stderr.startswith(said)) == (1, True), done.stderr
    assert not Path("out.lod.h5").exists()
    assert not partials_in(Path())


@pytest.mark.usefixtures("folder", "only_copies", "small_pieces")
def test_a_file_that_is_cut_while_it_is_copied_is_named(
    lod: Lod, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _container(Path("in.lod.h5"), LoDTensor(DATA, LENGTHS))
    check = ContainerSource.index_parts

    def cut(source: ContainerSource, name: str) -> Any:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)
        return check(source, name)

    monkeypatch.setattr(ContainerSource, "index_parts", cut)
    done = lod("convert", path, "out.lod.h5")
    assert done.code == 1
    assert "in.lod.h5: /data: the file ended" in done.stderr
    assert not Path("out.lod.h5").exists()


@pytest.mark.usefixtures("folder", "only_copies", "small_pieces")
def test_a_write_that_fails_in_a_thread_names_the_target(lod: Lod) -> None:
    path = _container(Path("in.lod.h5"), LoDTensor(DATA, LENGTHS))
    with failing(20, 28, ("pwrite",)) as calls:
        done = lod("convert", path, "out.lod.h5")
    assert (done.code, calls.failed) == (3, "pwrite")
    assert done.stderr == (
        "lod convert: out.lod.h5: cannot be written: no space left on the device; "
        "rows and offsets take 2,359,416 bytes\n"
    )
    assert not Path("out.lod.h5").exists()
    assert not partials_in(Path())


@pytest.mark.usefixtures("folder", "only_copies")
def test_the_rules_of_a_large_index_are_checked_in_a_copy(
    lod: Lod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.formats.container.reader.WHOLE_INDEX_BYTES", 0)
    path = _container(Path("in.lod.h5"), LoDTensor(DATA, LENGTHS))
    right, wrong = (
        np.array([0, 3 * BLOCK, offset, len(DATA)], np.int64).tobytes()
        for offset in (3 * BLOCK + 5, 5)
    )
    content = path.read_bytes().replace(right, wrong)
    # With the checksums of what is wrong.
    start = content.index(b'{"format"')
    sums = [f'"{crc32c(offsets):08x}"'.encode() for offsets in (right, wrong)]
    header = content[start : content.index(b"}", content.rindex(b',"crc32c"')) + 1]
    text = header.replace(sums[0], sums[1]).rpartition(b',"crc32c"')[0]
    changed = text + f',"crc32c":"{crc32c(text):08x}"}}'.encode()
    assert len(changed) == len(header)
    path.write_bytes(content.replace(header, changed))
    done = lod("convert", path, "out.lod.h5")
    assert done.code == 1
    assert "in.lod.h5: /index/1: level 1, position 2: offsets decrease" in done.stderr
    assert not Path("out.lod.h5").exists()


@pytest.mark.usefixtures("folder")
def test_a_dataset_of_shards_is_not_copied(lod: Lod) -> None:
    path = _container(Path("in.lod.h5"), {"data": LoDTensor(DATA[:7], [[3, 4]])})
    assert lod("convert", path, "--to", "lod.dataset", "-o", "out").code == 0
    assert lod("diff", path, "out").code == 0
