"""`lod verify` of datasets: every shard, in several processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.core.schema import Batch
from lodcli.formats.dataset.manifest import shard_name
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks
from tests.lodcli.conftest import Lod


@pytest.fixture
def dataset(folder: Path) -> Path:
    """A dataset of 6 shards, in the current folder."""
    tensor = LoDTensor(np.arange(600), [[10] * 60])
    io.write("ds", tensor, format_name="lod.dataset", shards=6)
    return Path("ds")


def flip_a_row(shard: Path) -> None:
    """Change one byte of the rows, which changes neither the size nor the header."""
    data = bytearray(shard.read_bytes())
    row = int(shard.name[5:10]) * 100 + 50
    place = data.index(np.int64(row).tobytes())
    data[place] ^= 1
    shard.write_bytes(data)


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_shard_is_read_and_each_fault_is_named_once(
    lod: Lod, dataset: Path, jobs: int
) -> None:
    done = lod("verify", dataset, "--jobs", jobs, "--json")
    (told,) = json.loads(done.stdout)["files"]
    assert (done.code, told["ok"], told["rows"], told["bytes"]) == (0, True, 600, 4800)
    flip_a_row(dataset / shard_name(1, 6))
    flip_a_row(dataset / shard_name(4, 6))
    (dataset / shard_name(3, 6)).unlink()
    done = lod("verify", dataset, "--jobs", jobs)
    assert (done.code, done.stdout) == (1, "ds: FAILED\n")
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    for line, (number, said) in zip(
        lines, [(3, "is missing"), (1, "/data: rows 0 to 99"), (4, "/data: rows 0")], strict=True
    ):
        assert f"ds: {shard_name(number, 6)}: {said}" in line


def test_quick_compares_sizes_and_headers_and_reads_no_row(lod: Lod, dataset: Path) -> None:
    flip_a_row(dataset / shard_name(1, 6))
    done = lod("verify", "--quick", dataset)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == (
        "ds: ok (1 tensor, 600 rows, 1 level); checked sizes and headers of 6 shards\n"
    )
    with (dataset / shard_name(2, 6)).open("ab") as file:
        file.write(b"x")
    done = lod("verify", "--quick", dataset)
    assert (done.code, done.stderr.count("\n")) == (1, 1)
    assert f"ds: {shard_name(2, 6)}: expected" in done.stderr


def test_quick_is_for_datasets(lod: Lod, dataset: Path) -> None:
    for args in ([dataset / shard_name(0, 6)], ["--isolate", dataset]):
        done = lod("verify", "--quick", *args)
        assert done.code == 4
        assert "--quick is for folders of datasets, without --isolate" in done.stderr
    for more in (["--sums"], ["--write-sums"]):
        done = lod("verify", "--quick", *more, dataset)
        assert (done.code, "exclude each other" in done.stderr) == (2, True)


def test_the_numbers_of_shards_are_checked_in_place_and_the_rest_in_batches(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LoDTensor(np.frombuffer(b"oneeleven", np.uint8), [[3, 6]], Marks("text"))
    io.write(
        "ds",
        {"data": LoDTensor(np.arange(4.0), [[1, 3]]), "text": text},
        format_name="lod.dataset",
        shards=2,
    )
    asked: list[list[str]] = []
    batches_of = ContainerSource.batches_of

    def noting(source: ContainerSource, names: list[str]) -> Iterator[Batch]:
        asked.append(names)
        return batches_of(source, names)

    monkeypatch.setattr(ContainerSource, "batches_of", noting)
    done = lod("verify", "ds", "--json")
    (told,) = json.loads(done.stdout)["files"]
    assert (done.code, told["bytes"], asked) == (0, 41, [["text"], ["text"]])
