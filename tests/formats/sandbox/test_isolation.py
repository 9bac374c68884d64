"""Reading in a child process: results are the same, and its failures are errors."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

import h5py
import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError, TooLargeError
from lodcli.formats.core.format import Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Item, StoredArray
from lodcli.formats.sandbox import process as sandbox
from lodcli.formats.sandbox.source import IsolatedSource
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import InvalidLoDError, LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform import processes
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.isolating import (
    ISOLATED,
    NESTED,
    TENSOR,
    Strange,
    StrangeSource,
    held,
    read_by,
)
from tests.formats.cases.processes import lod, python
from tests.formats.cases.streams import same


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("t.lod.h5", WriteOptions()),
        ("t.lod.h5", WriteOptions(compression="deflate")),
        ("t.lods", WriteOptions()),
        ("t.npz", WriteOptions()),
    ],
)
def test_the_content_is_thesame(name: str, options: WriteOptions, tmp_path: Path) -> None:
    path = tmp_path / name
    items: dict[str, Item] = {"a": TENSOR, "b": NESTED}
    if name != "t.npz":
        items["steps"] = StoredArray(*TensorArray.unpack(NESTED, 0))
    io.write(path, items, options=options)
    with lodcli.open(path, limits=ISOLATED) as source:
        for _ in range(2):  # another child for another pass
            found = source.read()
            assert found.keys() == items.keys()
            assert all(same(found[key], items[key]) for key in items)
        assert source.read_index("b") == NESTED.lod
        np.testing.assert_array_equal(source.slice("a", (1,)).data, [3, 4, 5, 6])


@pytest.mark.parametrize("name", ["t.jsonl", "t.txt"])
def test_text_formats_are_read_too(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    words = LoDTensor(np.frombuffer(b"abc", np.uint8), LoD.from_lengths([[1], [2], [1, 2]]))
    tensor = words if name == "t.txt" else TENSOR
    io.write(path, tensor)
    assert same(lodcli.read_all(path, limits=ISOLATED)["data"], io.read(path))


@pytest.mark.parametrize("name", ["t.arrow", "t.arrows", "t.parquet"])
def test_mapped_files_are_read_in_isolation(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    io.write(path, TENSOR)
    assert same(lodcli.read_all(path, limits=ISOLATED)["data"], TENSOR)


@pytest.mark.slow
def test_torch_is_read_where_nothing_else_was_looked_at(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "t.pt"
    io.write(path, TENSOR)
    # In a new process: which modules are there already decides.
    code = (
        "import sys; import lodcli\n"
        "from lodcli.formats.core.limits import Limits\n"
        "with lodcli.open(sys.argv[1], format_name='torch', limits=Limits(isolate=True)) as s:\n"
        "    print(*s.read())"
    )
    found = python(code, path)
    assert (found.stdout, found.stderr) == ("data\n", "")


@pytest.mark.parametrize("name", ["t.lod.h5", "t.jsonl", "t.parquet"])
def test_modules_that_the_child_needs_are_loaded_in_a_new_process(
    name: str, tmp_path: Path
) -> None:
    """Pools of threads; for a null list of Parquet, pyarrow must not need pandas."""
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    rows = 200_000
    lists = [[number, 1] for number in range(rows // 2)]
    io.write(tmp_path / name, LoDTensor.from_lists([*lists, None]))
    code = (
        "import sys; import lodcli\n"
        "from lodcli.formats.core.limits import Limits\n"
        "print(lodcli.read(sys.argv[1], limits=Limits(isolate=True)).rows)"
    )
    found = python(code, tmp_path / name)
    assert (found.stdout, found.stderr) == (f"{rows}\n", "")


def test_exceptions_of_the_child_propagate(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    io.write(path, TENSOR)
    content = bytearray(path.read_bytes())
    content[content.index(np.arange(12).tobytes()) + 8] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DamagedFileError) as plainly:
        io.read_all(path)
    with (
        pytest.raises(DamagedFileError) as caught,
        lodcli.open(path, limits=ISOLATED) as source,
    ):
        source.read()
    assert str(caught.value) == str(plainly.value)


def test_a_deed_of_nothing_is_harmless(tmp_path: Path) -> None:
    assert same(read_by(lambda path: None, tmp_path / "f"), TENSOR)


def test_a_crash_is_an_error(tmp_path: Path) -> None:
    def crash(path: Path) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(DamagedFileError, match=r"crashed the sandboxed process .*SIGSEGV"):
        read_by(crash, tmp_path / "f")


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_was_killed_does_not_make_the_file_suspect(
    signum: signal.Signals, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match=rf"process was killed \({signum.name}\), as when memory"):
        read_by(lambda path: os.kill(os.getpid(), signum), tmp_path / "f")


@pytest.mark.parametrize("signum", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT])
def test_a_signal_for_the_program_does_not_end_the_process(
    signum: signal.Signals, tmp_path: Path
) -> None:
    assert same(read_by(lambda path: os.kill(os.getpid(), signum), tmp_path / "f"), TENSOR)


def test_an_endless_loop_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "CPU_SECONDS", 1)

    def spin(path: Path) -> NoReturn:
        while True:
            pass

    with pytest.raises(DamagedFileError, match=r"processor time .* one at a time \(FILE::NAME\)"):
        read_by(spin, tmp_path / "f")


class Copied(Strange):
    """A format that reads all of a pipe, and then reports the remaining processor time."""

    def open(self, source: Input, options: ReadOptions) -> Source:
        source.make_seekable()

        def left() -> NoReturn:
            soft, _ = resource.getrlimit(resource.RLIMIT_CPU)
            raise DamagedFileError(f"{soft - time.process_time():.0f} s left")

        return StrangeSource(left)


def test_a_loop_over_what_came_through_a_pipe_ends_as_early() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"strange")
    os.close(writing)
    with Input.of_descriptor(reading, "pipe") as source:
        isolated = IsolatedSource(Copied(str), source, ReadOptions(), 1 << 20, None)
        try:
            for _ in range(2):
                with pytest.raises(DamagedFileError, match=r"\b[0-4] s left"):
                    isolated.read()
        finally:
            isolated.close()


def test_a_full_disk_while_the_child_copies_a_pipe_names_the_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the child as in the parent, whose messages tell where a copy went."""

    def fail(**options: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "pipe, copied to /full")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    reading, writing = os.pipe()
    os.write(writing, b"strange")
    os.close(writing)
    with (
        Input.of_descriptor(reading, "pipe") as source,
        pytest.raises(OSError, match="No space left") as raised,
    ):
        IsolatedSource(Copied(str), source, ReadOptions(), 1 << 20, None)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "pipe, copied to /full")


@pytest.mark.skipif(processes.address_space_bytes() is None, reason="needs limits on memory")
def test_an_allocation_beyond_reason_is_an_error(tmp_path: Path) -> None:
    def hoard(path: Path) -> object:
        return np.ones(1 << 30, np.uint8)

    with pytest.raises(TooLargeError, match="needs more memory"):
        read_by(hoard, tmp_path / "f")


def test_no_other_file_can_be_opened_and_none_written(tmp_path: Path) -> None:
    def look_elsewhere(path: Path) -> object:
        return Path("/etc/passwd").read_bytes()

    def write(path: Path) -> None:
        with path.open("ab") as file:
            file.write(b"more")

    for deed in (look_elsewhere, write, lambda path: socket.socket()):
        with pytest.raises(OSError, match="Too many open files"):
            read_by(deed, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"strange"


def test_details_of_an_error_survive(tmp_path: Path) -> None:
    def refuse(path: Path) -> NoReturn:
        raise InvalidLoDError("offsets decrease", level=1, position=4, expected=9, found=7)

    with pytest.raises(InvalidLoDError, match="level 1, position 4: offsets decrease") as caught:
        read_by(refuse, tmp_path / "f")
    assert (caught.value.level, caught.value.position) == (1, 4)
    assert (caught.value.expected, caught.value.found) == (9, 7)


def test_a_mistake_of_ours_is_no_silence(tmp_path: Path) -> None:
    def err(path: Path) -> NoReturn:
        raise ZeroDivisionError("one by none")

    with pytest.raises(LodError, match="ZeroDivisionError: one by none"):
        read_by(err, tmp_path / "f")


def test_closing_ends_the_child_and_its_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"strange")
    before = held()
    with Input(path) as source:
        isolated = IsolatedSource(Strange(lambda _: None), source, ReadOptions(), None, None)
        assert held() != before
        isolated.close()  # its child waits for a request
        isolated.close()
    assert held() == before


@pytest.mark.parametrize("piped", [False, True])
def test_damage_between_batches_keeps_its_message(piped: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(100_000), chunks=(1000,), compression="gzip")
        place = file["x"].id.get_chunk_info(50).byte_offset
    content = bytearray(path.read_bytes())
    content[place : place + 20] = b"\xff" * 20
    path.write_bytes(content)
    args = ["convert", "-" if piped else path, "--from", "hdf5", "--data", "/x", "--to", "jsonl"]
    done = lod(*args, input=bytes(content), text=False)
    assert done.returncode == 1
    assert b"/x: HDF5 cannot read it (" in done.stderr
    assert done.stderr.count(b"\n") == 1
