"""Rows through shared memory: what both ends agree on, and what a reader refuses."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.schema import Batch, schema_of
from lodcli.formats.storage.inputs import Input
from lodcli.formats.stream import shared_rows
from lodcli.formats.stream.reader import StreamSource
from lodcli.formats.stream.shared_rows import (
    OFFER,
    REFERENCE,
    SLOT_BYTES,
    SLOTS,
    SharedReader,
    SharedWriter,
)
from lodcli.formats.stream.writer import write_stream
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform import shared_memory
from lodcli.kernels.runtime.memory_budget import within_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases import stream_spec as spec
from tests.formats.cases.streams import read, same

pytestmark = pytest.mark.skipif(
    not (sys.platform.startswith("linux") and hasattr(os, "memfd_create")),
    reason="only Linux has memory files and abstract sockets",
)
SHARED = 8
HANG_SECONDS = 120
# More than all slots hold.
MANY_ROWS = 3 * SLOTS * SLOT_BYTES // 512


def rows(count: int) -> LoDTensor:
    """Return a tensor of rows of 256 bytes, all different."""
    data = np.arange(count * 64, dtype=np.float32).reshape(-1, 64)
    return LoDTensor(data, LoD.from_lengths([[10] * (count // 10) + [count % 10]]))


class Pipe:
    """The writing end of a pipe, which counts the bytes written."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.written = 0

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while len(view):
            done = os.write(self.fd, view)
            self.written, view = self.written + done, view[done:]


class Ends:
    """A pipe, and a thread that writes a tensor to it once `go` is set."""

    def __init__(self, tensor: LoDTensor) -> None:
        self.reading, self.writing = os.pipe()
        self.pipe = Pipe(self.writing)
        self.tensor = tensor
        self.go = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        items: Batch = {"data": self.tensor}

        def batches() -> Iterator[Batch]:
            assert self.go.wait(HANG_SECONDS)
            yield items

        try:
            write_stream(self.pipe, schema_of(items), batches(), shares_memory=True)
        except BaseException as error:
            self.error = error
        finally:
            os.close(self.writing)

    def join(self) -> None:
        self._thread.join(HANG_SECONDS)
        assert not self._thread.is_alive()


@pytest.fixture
def ends() -> Iterator[Callable[[LoDTensor], Ends]]:
    made: list[Ends] = []

    def make(tensor: LoDTensor) -> Ends:
        made.append(Ends(tensor))
        return made[-1]

    yield make
    for one in made:
        one.go.set()
        with contextlib.suppress(OSError):
            os.close(one.reading)
        one.join()


def test_rows_go_through_shared_memory_and_nothing_else_does(
    ends: Callable[[LoDTensor], Ends],
) -> None:
    tensor = rows(MANY_ROWS)
    made = ends(tensor)
    with Input.of_descriptor(os.dup(made.reading), "pipe") as source:
        opened = StreamSource(source)
        made.go.set()
        found = opened.read()["data"]
        assert opened.checksums == "CRC32C of every frame that came through the pipe"
        opened.close()
    made.join()
    assert made.error is None
    assert same(tensor, found)
    index = 8 * (tensor.lod.levels[0].size - 1)
    assert made.pipe.written < index + tensor.data.nbytes // 100


def test_a_program_that_is_not_lod_gets_a_whole_stream(ends: Callable[[LoDTensor], Ends]) -> None:
    tensor = rows(20_000)
    made = ends(tensor)
    made.go.set()
    with os.fdopen(os.dup(made.reading), "rb") as pipe:
        os.close(made.reading)
        copied = subprocess.run(["cat"], stdin=pipe, capture_output=True, check=True)
    assert same(tensor, read(copied.stdout)["data"])


def test_a_writer_sends_no_memory_to_a_process_of_another_user(
    ends: Callable[[LoDTensor], Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "_same_user", lambda _: False)
    tensor = rows(20_000)
    made = ends(tensor)
    with Input.of_descriptor(os.dup(made.reading), "pipe") as source:
        opened = StreamSource(source)
        made.go.set()
        assert same(tensor, opened.read()["data"])
        assert opened.checksums is None
        opened.close()


def test_a_reader_takes_no_memory_from_a_process_of_another_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_memory, "_same_user", lambda _: False)
    with pytest.raises(DamagedFileError, match="shared memory that was not received"):
        received(REFERENCE.pack(TOKEN, 1, ROW_BYTES), OFFER.pack(TOKEN, 2, 512), memory_file(1024))


def test_a_small_memory_budget_leaves_rows_to_the_pipe() -> None:
    reading, writing = os.pipe()
    listening = SharedReader(reading)
    block = np.zeros(1000, np.uint8)
    with within_budget(32 << 20):
        assert SharedWriter(writing).send(block) is None
    with within_budget(64 << 20):
        shared = SharedWriter(writing)
        sent = [shared.send(block) for _ in range(2)]
    assert all(sent)
    shared.close()
    listening.close()
    os.close(reading)
    os.close(writing)


def test_a_writer_uses_the_slot_again_that_came_back_last() -> None:
    reading, writing = os.pipe()
    listening, shared = SharedReader(reading), SharedWriter(writing)
    block, out = np.zeros(1000, np.uint8), np.ones(1000, np.uint8)
    slots = set()
    for _ in range(3):
        payload = shared.send(block)
        assert payload is not None
        assert listening.size_bytes(payload) == block.size
        listening.receive(payload, out)
        slots.add(REFERENCE.unpack(payload)[1])
    assert len(slots) == 1
    assert not out.any()
    shared.close()
    listening.close()
    os.close(reading)
    os.close(writing)


def test_only_one_reader_of_a_pipe_listens() -> None:
    reading, writing = os.pipe()
    first = SharedReader(reading)
    second = SharedReader(reading)
    assert (first.listens, second.listens) == (True, False)
    first.close()
    third = SharedReader(reading)
    assert third.listens
    for one in (second, third):
        one.close()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("closed", ["socket", "pipe"])
def test_a_writer_without_a_free_slot_does_not_wait_for_a_reader_that_is_gone(closed: str) -> None:
    reading, writing = os.pipe()
    listening, shared = SharedReader(reading), SharedWriter(writing)
    block = np.zeros(1000, np.uint8)
    assert all(shared.send(block) for _ in range(SLOTS))
    if closed == "socket":
        listening.close()
    else:
        os.close(reading)
    assert shared.send(block) is None
    assert shared.send(block) is None
    listening.close()
    os.close(writing)
    if closed == "socket":
        os.close(reading)


@pytest.mark.parametrize("slot", [SLOTS, 2**32 - 1, 0])
def test_a_writer_uses_no_slot_that_a_reader_cannot_return(slot: int) -> None:
    reading, writing = os.pipe()
    listening, shared = SharedReader(reading), SharedWriter(writing)
    block = np.zeros(1000, np.uint8)
    payload = shared.send(block)
    assert payload is not None
    assert REFERENCE.unpack(payload)[1] != 0  # so slot 0 is free
    assert listening.size_bytes(payload) == block.size
    assert listening._socket is not None
    listening._socket.send(slot.to_bytes(4, "little"))
    assert shared.send(block) is None
    listening.close()
    os.close(reading)
    os.close(writing)


def test_a_file_or_a_socket_is_no_pipe(tmp_path: Any) -> None:
    with open(tmp_path / "a", "wb") as file:
        assert SharedWriter(file.fileno()).send(np.zeros(9, np.uint8)) is None
        assert not SharedReader(file.fileno()).listens


# -- what a reader refuses ---------------------------------------------------------

ROW_BYTES = 300
# Not to be shrunk, not to grow, and not to be written through maps and descriptors of others.
ALL_SEALS = 2 | 4 | 16


def stream_with(payload: bytes) -> bytes:
    """Return a stream of one tensor, whose rows are a SHARED frame with this payload."""
    head = spec.header([spec.level(items=1)], [spec.tensor(rows=ROW_BYTES)])
    return spec.Stream(
        frames=[
            (spec.HEADER, 0, head),
            (spec.BATCH, 0, spec.int64s([0, ROW_BYTES, 1])),
            (spec.OFFSETS, 0, spec.int64s([ROW_BYTES])),
            (SHARED, 0, payload),
        ],
        levels=[1],
        tensors=[ROW_BYTES],
    ).encode()


def memory_file(size: int, *, seals: int = ALL_SEALS, written: bool = True) -> int:
    import fcntl

    found = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    if written:
        os.write(found, b"r" * size)
    os.truncate(found, size)
    fcntl.fcntl(found, fcntl.F_ADD_SEALS, seals)
    return found


TOKEN = b"01234567"


def received(payload: bytes, offer: bytes | None, memory: int | None) -> Any:
    """Return the tensor of `stream_with(payload)`, read after a writer made this offer."""
    reading, writing = os.pipe()
    address = shared_memory.pipe_address(reading, shared_rows._PURPOSE)
    assert address is not None
    with (
        Input.of_descriptor(reading, "pipe") as source,
        os.fdopen(writing, "wb") as pipe,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as writer,
    ):
        raw = stream_with(payload)
        start = 8 + 24 + int.from_bytes(raw[16:24], "little")
        pipe.write(raw[:start])
        pipe.flush()
        opened = StreamSource(source)
        try:
            if offer is not None:
                writer.connect(address)
                socket.send_fds(writer, [offer], [] if memory is None else [memory])
            pipe.write(raw[start:])
            pipe.close()
            return opened.read()["data"]
        finally:
            opened.close()
            if memory is not None:
                os.close(memory)


def test_a_reference_as_the_page_says_is_read() -> None:
    offer = OFFER.pack(TOKEN, 2, 512)
    found = received(REFERENCE.pack(TOKEN, 1, ROW_BYTES), offer, memory_file(1024))
    assert found.data.tobytes() == b"r" * ROW_BYTES


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (REFERENCE.pack(b"another ", 1, ROW_BYTES), "its writer did not send"),
        (REFERENCE.pack(TOKEN, 2, ROW_BYTES), "its writer did not send"),
        (REFERENCE.pack(TOKEN, 2**32 - 1, ROW_BYTES), "its writer did not send"),
        (REFERENCE.pack(TOKEN, 1, 513), "its writer did not send"),
        (REFERENCE.pack(TOKEN, 1, 0), "its writer did not send"),
        (REFERENCE.pack(TOKEN, 1, ROW_BYTES + 1), "has 301 bytes; expected 1 to 300"),
        (REFERENCE.pack(TOKEN, 1, ROW_BYTES)[:-1], "expected 16 bytes, found 15"),
        (REFERENCE.pack(TOKEN, 1, ROW_BYTES) + b"\0", "at most 16 are allowed"),
    ],
)
def test_a_wrong_reference_is_refused(payload: bytes, message: str) -> None:
    with pytest.raises(DamagedFileError, match=message):
        received(payload, OFFER.pack(TOKEN, 2, 512), memory_file(1024))


@pytest.mark.parametrize(
    ("offer", "size", "seals"),
    [
        (OFFER.pack(TOKEN, 2, 512)[:-1], 1024, ALL_SEALS),
        (OFFER.pack(TOKEN, 0, 512), 1024, ALL_SEALS),
        (OFFER.pack(TOKEN, 2**20, 2**20), 1024, ALL_SEALS),  # too much
        (OFFER.pack(TOKEN, 2, 512), 1023, ALL_SEALS),  # shorter than said
        (OFFER.pack(TOKEN, 2, 512), 1024, 0),
        (OFFER.pack(TOKEN, 2, 512), 1024, 4 | 16),  # could be shortened
        (OFFER.pack(TOKEN, 2, 512), 1024, 2 | 4),  # pages could be taken out
        (OFFER.pack(TOKEN, 2, 512), None, ALL_SEALS),  # no memory
        (None, None, ALL_SEALS),  # no offer
    ],
)
def test_a_wrong_offer_is_refused(offer: bytes | None, size: int | None, seals: int) -> None:
    memory = None if size is None else memory_file(size, seals=seals)
    with pytest.raises(
        DamagedFileError, match=r"frame 3 .*: refers to .* shared memory|frame 3 .*was not received"
    ):
        received(REFERENCE.pack(TOKEN, 1, ROW_BYTES), offer, memory)


def test_rows_that_were_never_written_are_refused() -> None:
    offer = OFFER.pack(TOKEN, 2, 512)
    with pytest.raises(DamagedFileError, match=r"frame 3 .*shared memory that was not written"):
        received(REFERENCE.pack(TOKEN, 1, ROW_BYTES), offer, memory_file(1024, written=False))


def test_memory_of_large_pages_set_aside_is_refused() -> None:
    import fcntl

    size = 2 << 20
    try:
        found = os.memfd_create("test", os.MFD_ALLOW_SEALING | os.MFD_HUGETLB)
        os.truncate(found, size)
    except OSError:
        pytest.skip("the system has no such pages")
    fcntl.fcntl(found, fcntl.F_ADD_SEALS, ALL_SEALS)
    with pytest.raises(DamagedFileError, match="its size or its pages could change"):
        received(REFERENCE.pack(TOKEN, 1, ROW_BYTES), OFFER.pack(TOKEN, 2, size // 2), found)


def test_pages_of_the_memory_cannot_be_removed_or_written_by_its_descriptor() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        sent = shared_memory.send_memory(ours, b"message", 1 << 16)
        sent[:4] = b"rows"
        message, fd, size = shared_memory.received_memory(theirs, 7)
    try:
        with pytest.raises(OSError, match="not permitted"):
            sent.madvise(mmap.MADV_REMOVE)
        with pytest.raises(OSError, match="not permitted"):
            os.pwrite(fd, b"x", 0)
        assert (message, shared_memory.mapped(fd, size)[:5]) == (b"message", b"rows\0")
        assert shared_memory.written(fd, 0) == mmap.PAGESIZE
    finally:
        os.close(fd)


def test_a_file_that_is_no_memory_is_refused(tmp_path: Any) -> None:
    (tmp_path / "a").write_bytes(bytes(1024))
    plain = os.open(tmp_path / "a", os.O_RDONLY)
    with pytest.raises(DamagedFileError, match="shared memory that was not received"):
        received(REFERENCE.pack(TOKEN, 1, ROW_BYTES), OFFER.pack(TOKEN, 2, 512), plain)


def test_rows_that_a_dead_writer_left_in_memory_are_read_up_to_where_it_died(
    ends: Callable[[LoDTensor], Ends],
) -> None:
    reading, writing = os.pipe()
    with Input.of_descriptor(reading, "pipe") as source:
        code = (
            "import os, sys\n"
            "from tests.formats.stream.test_shared_rows import Pipe, rows\n"
            "from lodcli.formats.core.schema import schema_of\n"
            "from lodcli.formats.stream.writer import write_stream\n"
            "tensor = rows(20_000)\n"
            "items = {'data': tensor}\n"
            "def batches():\n"
            "    sys.stdin.read()\n"  # until the reader listens
            "    yield items\n"
            "    os.kill(os.getpid(), 9)\n"
            "write_stream(Pipe(1), schema_of(items), batches(), shares_memory=True)\n"
        )
        writer = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=writing
        )
        os.close(writing)
        opened = StreamSource(source)
        assert writer.stdin is not None
        writer.stdin.close()
        assert writer.wait(HANG_SECONDS) == -9
        with pytest.raises(DamagedFileError, match="cut off in the header of frame"):
            list(opened.batches())
        assert opened._shared is not None
        assert opened._shared.used
        opened.close()
