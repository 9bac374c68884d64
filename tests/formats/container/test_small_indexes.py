"""Indexes of many small tensors: read together, and checked as they are one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli import DamagedFileError, InvalidLoDError, LoDTensor
from lodcli.formats.container import reader
from lodcli.formats.container.stored import MANY
from lodcli.kernels.platform import files
from tests.formats.cases.processes import python
from tests.growth import calls_of

COUNT = 2 * MANY


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "t.lod.h5"
    tensors = {f"x{n}": LoDTensor(np.arange(n, n + 7), [[3, 1, 3]]) for n in range(COUNT)}
    lodcli.write(found, tensors)
    return found


def place_of(path: Path, offsets: list[int]) -> int:
    """Return the position of the offsets of the tensor in the middle."""
    data = path.read_bytes()
    rows_at = data.index(np.arange(COUNT // 2, COUNT // 2 + 7).tobytes())
    return data.index(np.array(offsets, np.int64).tobytes(), rows_at)


def test_they_are_read_with_few_reads_of_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = [calls_of(monkeypatch, files, name) for name in ("pread", "read_at")]
    with lodcli.open(path) as file:
        assert 0 < sum(map(len, reads)) < COUNT // 4
        assert [file.read_index(name).count(0) for name in ("x0", "x7")] == [3, 3]
        assert sum(map(len, reads)) < COUNT // 4


@pytest.mark.parametrize(
    ("place", "value", "error", "message"),
    [
        (1, 2, DamagedFileError, "the checksum does not match"),
        (1, 9, InvalidLoDError, "position 2: offsets decrease"),
        (0, 1, InvalidLoDError, "first offset"),
    ],
)
def test_a_damaged_one_is_named(
    place: int, value: int, error: type[Exception], message: str, path: Path
) -> None:
    with path.open("r+b") as file:
        file.seek(place_of(path, [0, 3, 4, 7]) + 8 * place)
        file.write(np.int64(value).tobytes())
    with pytest.raises(error, match=message) as found:
        lodcli.open(path)
    assert f"/x{COUNT // 2}/index/0" in str(found.value)


def test_they_equal_those_that_are_read_one_by_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = lodcli.read_all(path)
    monkeypatch.setattr(reader, "MANY", COUNT * 4)
    for name, tensor in lodcli.read_all(path).items():
        np.testing.assert_array_equal(tensor.lod.levels[0], together[name].lod.levels[0])
        assert not together[name].lod.levels[0].flags.writeable


def test_they_are_read_in_a_sandbox_that_imports_nothing(path: Path) -> None:
    script = (
        "import sys, lodcli\n"
        "from lodcli.formats.core.limits import Limits\n"
        "print(len(lodcli.read_all(sys.argv[1], limits=Limits(isolate=True))))"
    )
    # In a separate process, which has not imported the modules yet.
    done = python(script, path)
    assert (done.stdout, done.stderr) == (f"{COUNT}\n", "")
