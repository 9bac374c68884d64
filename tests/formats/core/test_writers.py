"""Several writers at once, killed ones, and disks that are full."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.format import Stored
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, Schema, schema_of
from lodcli.formats.core.table import TABLE
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.broken.failing import error_of, failing
from tests.formats.cases.kinds import KINDS
from tests.formats.cases.writing import OLD, WRITERS, partials_in, write

ROOT = Path(__file__).parents[3]


def test_partial_files_of_killed_writers_are_removed_and_others_stay(tmp_path: Path) -> None:
    stale = tmp_path / ".t.h5.abcd1234.lod-partial"
    others = [
        tmp_path / ".t.h5.x.abcd1234.lod-partial",  # of the target t.h5.x
        tmp_path / ".t.h5.abcd1234.lod-partial.bak",
        tmp_path / ".t.h5.ABCD1234.lod-partial",
        tmp_path / "t.h5.abcd1234.lod-partial",
    ]
    for path in (stale, *others):
        path.write_bytes(b"half")
    with Output(tmp_path / "t.h5") as output:
        output.write(b"new")
    assert not stale.exists()
    assert all(path.exists() for path in others)


def test_concurrent_writers_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with Output(path, overwrite=True) as first:
        first.write(b"first")
        with Output(path, overwrite=True) as second:
            assert len(partials_in(tmp_path)) == 2
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b", whole")
    assert path.read_bytes() == b"first, whole"


def test_many_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path, wrong = tmp_path / "t", []

    def write(letter: bytes) -> None:
        try:
            for _ in range(30):
                with Output(path, overwrite=True) as output:
                    output.write(letter * 1000)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert path.read_bytes() in (b"a" * 1000, b"b" * 1000, b"c" * 1000)


SLOW = """
import sys, time
import numpy as np
from lodcli.formats.core import io
from lodcli.formats.core.schema import LevelSpec, TensorSpec
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
def batches():
    while True:
        yield {"data": LoDTensor(np.zeros(1 << 16), LoD.from_lengths([[1 << 16]]))}
        print("wrote", flush=True)
        time.sleep(0.01)
spec = TensorSpec("data", np.dtype(float), (), (LevelSpec("0"),))
io.write_batches(sys.argv[1], (spec,), batches(), overwrite=True)
"""


def test_a_killed_writer_leaves_the_old_file_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    path.write_bytes(OLD)
    command = [sys.executable, "-c", SLOW, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        assert len(partials_in(tmp_path)) == 1
        with Output(path, overwrite=True):  # another writer leaves the living one's alone
            assert len(partials_in(tmp_path)) == 2
        path.write_bytes(OLD)
        process.send_signal(signal.SIGKILL)
    assert path.read_bytes() == OLD
    assert len(partials_in(tmp_path)) == 1
    write(path)
    assert not partials_in(tmp_path)
    assert os.listdir(tmp_path) == ["t.lod.h5"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of 64 KiB, where one may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True)
    except OSError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip("may not mount a small file system here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@WRITERS
def test_a_full_disk_leaves_the_old_file(writer: Callable[..., None], small_disk: Path) -> None:
    path = small_disk / "t.lod.h5"
    path.write_bytes(OLD)
    with pytest.raises(OSError, match="No space left") as caught:
        writer(path)
    assert caught.value.errno == errno.ENOSPC
    assert str(path) in (caught.value.filename, caught.value.filename2)
    assert os.listdir(small_disk) == ["t.lod.h5"]
    assert path.read_bytes() == OLD


@pytest.mark.parametrize("name", ["t.lod.h5", "t.npz", "t.jsonl", "copy.lod.h5"])
def test_a_full_disk_is_told_with_the_size_of_what_was_written(
    name: str, tmp_path: Path, small_disk: Path
) -> None:
    tensor = LoDTensor(np.arange(20_000) + 10_000, [[5_000] * 4])
    lodcli.write(tmp_path / "t.lod.h5", tensor)
    with io.open_file(tmp_path / "t.lod.h5") as file:
        schema, batches = file.source.schema, file.source.batches()
        stored = Stored(file.source, iter) if name.startswith("copy") else None
        with pytest.raises(OSError, match="rows and offsets take 160,040 bytes") as caught:
            io.write_batches(small_disk / name, schema, batches, stored=stored)
    assert caught.value.errno == errno.ENOSPC
    assert os.listdir(small_disk) == []


def test_a_full_disk_is_told_with_the_size_before_compression(small_disk: Path) -> None:
    numbers = np.random.default_rng(3).integers(0, 1 << 40, 20_000)
    with pytest.raises(OSError, match="rows and offsets take 160,000 bytes before compression"):
        lodcli.write(small_disk / "t.lod.h5", LoDTensor(numbers), compression="zstd")
    with pytest.raises(OSError, match="rows and offsets take 160,000 bytes before compression"):
        lodcli.write(small_disk / "t.jsonl.gz", LoDTensor(numbers))
    assert os.listdir(small_disk) == []


ENDINGS = {"megatron": ".idx"}


ONLY_READ = ("hdf5", "nwb", "vtkhdf", "hdf5-vlen", "awkward-hdf5", "orc")


def held(name: str) -> tuple[Schema, list[Batch]]:
    """Return tensors that a format can hold, in two batches."""
    lod = LoD.from_lengths([[2, 1]])
    rows = np.array([1, 2, 3], np.uint16 if name in ("tokens", "llmc") else np.uint8)
    items: dict[str, LoDTensor] = {"data": LoDTensor(rows, lod)}
    if name in ("tokens", "llmc", "npy"):
        items = {"data": LoDTensor(rows)}
    if name == "ts":
        items = {"data": LoDTensor(rows.reshape(3, 1).astype(np.float64), lod)}
    if name == "h5ad":
        items = {"data": LoDTensor(rows.astype(np.float32), lod)}
        items["indices"] = LoDTensor(rows.astype(np.int64), lod)
    return schema_of(items), [items]


@pytest.mark.parametrize("name", [name for name in TABLE if name not in ONLY_READ])
def test_a_full_disk_is_reported_by_every_format_and_nothing_stays(
    name: str, tmp_path: Path
) -> None:
    for module in KINDS[name].needs:
        pytest.importorskip(module)
    path = tmp_path / f"t{ENDINGS.get(name, '.x')}"
    schema, batches = held(name)
    full = os.strerror(errno.ENOSPC)
    options = WriteOptions(form="flat" if name == "torch" else None)  # others load much of torch
    fail_at = 1
    while True:  # each write fails in turn, until none does
        with failing(fail_at, errno.ENOSPC, ("write", "pwrite")) as calls:
            error = error_of(
                lambda: io.write_batches(
                    path, schema, iter(batches), format_name=name, options=options
                )
            )
        if not calls.failed:
            break
        assert error is not None
        assert str(error.strerror).partition("; ")[0] == full, error
        assert os.listdir(tmp_path) == [], f"call {fail_at}"
        fail_at += 1
    assert fail_at > 1
    assert os.listdir(tmp_path)


def test_a_full_standard_output_is_an_error(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    code = (
        "import numpy as np\nfrom lodcli.formats.core import io\n"
        "from lodcli.kernels.tensor.lod_tensor import "
        "LoDTensor\nio.write('-', LoDTensor(np.zeros(9)), format_name='lod.h5')"
    )
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "No space left on device: 'standard output'" in done.stderr
