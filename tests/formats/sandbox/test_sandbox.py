"""The sandbox on systems that lack a part of it."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
from pathlib import Path

import h5py
import pytest

import lodcli
from lodcli.formats.core.limits import Limits
from lodcli.formats.sandbox import process as sandbox
from lodcli.formats.sandbox.replies import ReplyWriter
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.native import load
from lodcli.kernels.platform import files, processes
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A file that is always read in a child process."""
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["x"] = [1.0, 2.0]
    return tmp_path / "t.h5"


def test_without_fork_a_foreign_file_is_read_in_this_process(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "CAN_FORK", False)
    monkeypatch.delattr(os, "fork")
    (tensor,) = lodcli.read_all(foreign, data="x").values()
    assert tensor.data.tolist() == [1.0, 2.0]


def test_the_library_of_kernels_is_open_before_a_child_is_started(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_by = []
    monkeypatch.setattr(load, "open_shipped", lambda: opened_by.append(os.getpid()))
    with lodcli.open(foreign, data="x"):
        pass
    assert opened_by == [os.getpid()]


def test_isolation_that_was_asked_for_is_refused_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lodcli.write(tmp_path / "t.npz", LoDTensor([1.0]))
    monkeypatch.setattr(processes, "CAN_ISOLATE", False)
    limits = Limits(isolate=True)
    with pytest.raises(UnsupportedError, match=r"t\.npz: this system cannot limit"):
        lodcli.open(tmp_path / "t.npz", limits=limits)


def test_a_second_child_for_a_file_that_cannot_be_opened_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").write_bytes(b"old")
    monkeypatch.setattr(files, "descriptor_path", lambda fd: "/nowhere/to/be/seen")
    with Input(tmp_path / "t") as source:
        os.replace(tmp_path / "t", tmp_path / "gone")
        with pytest.raises(UnsupportedError, match="cannot open the old file again"):
            sandbox.detach(source)


def test_a_forked_process_reads_with_a_child_of_its_own(foreign: Path) -> None:
    def read() -> list[float]:
        (tensor,) = source.read().values()
        found: list[float] = tensor.data.tolist()
        return found

    with lodcli.open(foreign, data="x") as source:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = read() != [1.0, 2.0]
                source.close()
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert read() == [1.0, 2.0]


def test_a_program_that_ignores_the_end_of_its_children_reads_a_foreign_file(foreign: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system then keeps no exit status
    try:
        (tensor,) = lodcli.read_all(foreign, data="x").values()
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert tensor.data.tolist() == [1.0, 2.0]


def test_a_program_without_standard_output_reads_a_foreign_file(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert len(lodcli.read_all(foreign, data="x")) == 1


def test_garbage_of_the_program_closes_no_file_of_the_child() -> None:
    def work(requests: int, writer: ReplyWriter) -> None:
        while os.dup(requests) < number:
            pass
        gc.collect()
        os.fstat(number)
        writer.end()

    gc.disable()  # so that the garbage still exists in the child
    try:
        garbage: list[object] = [select.epoll()]
        number = garbage[0].fileno()  # type: ignore[attr-defined]
        garbage.append(garbage)
        del garbage
        child = sandbox.Child(work, ())
    finally:
        gc.enable()
    try:
        assert child.ask(b"").read() == b""
    finally:
        child.end()


def test_an_interrupt_while_a_child_is_started_is_raised_and_leaves_no_child(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = os.fork
    started = []

    def interrupted_fork() -> int:
        if pid := fork():
            started.append(pid)
            signal.raise_signal(signal.SIGINT)
        return pid

    monkeypatch.setattr(os, "fork", interrupted_fork)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            lodcli.open(foreign, data="x") as source,
        ):
            source.read()
    finally:
        signal.signal(signal.SIGINT, before)
    gc.collect()
    with pytest.raises(ChildProcessError):
        os.waitpid(started[0], os.WNOHANG)
