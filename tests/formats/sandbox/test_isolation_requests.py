"""Requests to the sandboxed child process, sequential and concurrent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.format import Source
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import Batch, schema_of
from lodcli.formats.sandbox import process as sandbox
from lodcli.formats.sandbox import replies
from lodcli.formats.sandbox.replies import Reply
from lodcli.formats.sandbox.source import IsolatedSource
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import LodError, SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.isolating import ISOLATED, NESTED, TENSOR, Strange, held, read_by
from tests.formats.cases.streams import same


class _Counting(Source):
    """Records the requests that it receives in a file."""

    def __init__(self, notes: int) -> None:
        self._notes = notes
        self.schema = schema_of({"data": NESTED, "more": TENSOR})

    def _note(self, what: str) -> None:
        os.write(self._notes, f"{what}\n".encode())

    @property
    def partial(self) -> bool:
        return True

    def batches(self, limit_bytes: int = 0) -> Iterator[Batch]:
        return self.batches_of(["data", "more"])

    def batches_of(self, names: Iterable[str], limit_bytes: int = 0) -> Iterator[Batch]:
        names = list(names)
        self._note(f"batches {names}")
        for name, tensor in (("data", NESTED), ("more", TENSOR)):
            if name in names:
                for item in range(len(tensor)):
                    yield {name: tensor[item : item + 1]}

    def read_index(self, name: str) -> LoD:
        self._note(f"index {name}")
        return (NESTED if name == "data" else TENSOR).lod

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        self._note(f"slice {name} {branch} {level}")
        return (NESTED if name == "data" else TENSOR).select(*branch, level=level)


class _Noted(Strange):
    """Reads by `_Counting`, whose notes go through a pipe that the child keeps."""

    descriptors = 1

    def __init__(self, notes: Callable[[], int]) -> None:
        self._open = notes

    def open(self, source: Input, options: ReadOptions) -> Source:
        return _Counting(self._open())


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[IsolatedSource, int]]:
    """A source, and the file in which its child records requests."""
    notes, end = os.pipe()
    os.set_blocking(notes, False)
    path = tmp_path / "f"
    path.write_bytes(b"strange")
    with Input(path) as source:
        own = source.descriptors
        monkeypatch.setattr(Input, "descriptors", property(lambda self: (*own, end)))
        isolated = IsolatedSource(_Noted(lambda: end), source, ReadOptions(), 1 << 20, 7)
        yield isolated, notes
        isolated.close()
    os.close(notes)
    os.close(end)


def _asked(notes: int) -> list[str]:
    try:
        return os.read(notes, 1 << 16).decode().splitlines()
    except BlockingIOError:
        return []


def test_only_the_requested_parts_are_read(noted: tuple[IsolatedSource, int]) -> None:
    source, notes = noted
    assert source.partial
    assert source.schema == schema_of({"data": NESTED, "more": TENSOR})
    assert _asked(notes) == []
    assert source.read_index("data") == NESTED.lod
    assert source.read_index("data") is source.read_index("data")
    assert _asked(notes) == ["index data"]
    assert source.slice("data", (slice(None, 2),)).identical(NESTED[:2])
    assert source.slice("data", (1,), 1).identical(NESTED.select(1, level=1))
    assert _asked(notes) == ["slice data (slice(None, 2, None),) 0", "slice data (1,) 1"]
    found = source.read(["more"])["more"]
    assert same(found, TENSOR)
    assert _asked(notes) == ["batches ['more']"]


def test_a_single_row_has_its_shape(noted: tuple[IsolatedSource, int]) -> None:
    source, _ = noted
    row = source.slice("data", (2, 0, 1))
    assert row.identical(NESTED.select(2, 0, 1))
    assert row.data.shape == (2,)


def test_an_error_does_not_end_the_child(noted: tuple[IsolatedSource, int]) -> None:
    source, notes = noted
    children = held()[1]
    with pytest.raises(SelectionError, match="no item 9, there are 3 here"):
        source.slice("data", (9,))
    with pytest.raises(SelectionError, match="no tensor named 'none'"):
        source.read_index("none")
    assert source.slice("data", (0,)).identical(NESTED[0])
    assert held()[1] == children
    assert len(_asked(notes)) == 2


def test_errors_keep_their_attributes() -> None:
    for error, kept in (
        (SelectionError("x", ("a", "b")), ["a", "b"]),
        (SelectionError("x"), []),
        (SelectionError("x", ["name"] * 1000), []),  # an error is short
    ):
        sent = json.loads(json.dumps(replies._described(error)))
        found = replies._rebuilt(sent)
        assert isinstance(found, SelectionError)
        assert (type(found), str(found), list(found.choices)) == (type(error), "x", kept)


def test_requests_while_batches_areread_by(noted: tuple[IsolatedSource, int]) -> None:
    source, _ = noted
    for number, batch in enumerate(source.batches(1)):
        if "data" in batch:
            assert source.slice("data", (number,)).identical(NESTED[number])
            assert same(source.read(["more"])["more"], TENSOR)
    children = len(held()[1].split())
    left = source.batches(1)
    next(left)
    del left  # read no further: its child ends
    assert len(held()[1].split()) == children - 1
    assert same(source.read()["data"], NESTED)


@pytest.mark.slow
def test_many_requests_may_take_more_time_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Five requests need 5 s, and 2 s a request are left for what else the child does.
    monkeypatch.setattr(sandbox, "CPU_SECONDS", 3)

    def work(path: Path) -> None:
        begun = time.process_time()
        while time.process_time() < begun + 1:
            pass

    path = tmp_path / "f"
    path.write_bytes(b"strange")
    with Input(path) as source:
        isolated = IsolatedSource(Strange(work), source, ReadOptions(), 1 << 20, 7)
        for _ in range(5):
            assert same(isolated.read()["data"], TENSOR)
        isolated.close()


def test_two_children_do_not_share_a_position(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = LoDTensor(np.arange(100_000), LoD.from_lengths([[10] * 10_000]))
    io.write(path, rows)
    with lodcli.open(path, limits=ISOLATED) as source:
        pairs = zip(source.batches(1 << 16), source.batches(1 << 16), strict=True)
        parts = [(one["data"], other["data"]) for one, other in pairs]
    assert len(parts) > 2
    for side in range(2):
        joined = LoDTensor.concatenate([each[side] for each in parts])
        assert joined.identical(rows)


def test_a_pipe_is_read_by_one_child(tmp_path: Path) -> None:
    io.write(tmp_path / "t.lod.h5", {"a": TENSOR, "b": NESTED})
    code = (
        "import sys; import lodcli\n"
        "from lodcli.formats.core.limits import Limits\n"
        "from lodcli.kernels.errors import LodError\n"
        "with lodcli.open('-', limits=Limits(isolate=True)) as source:\n"
        "    print(source.read_index('b').recursive_sequence_lengths(), *source.read())\n"
        "    print(source.slice('a', (1,)).data)\n"
        "    next(source.batches(1))\n"
        "    try: source.read()\n"
        "    except LodError as error: print(error)\n"
    )
    with (tmp_path / "t.lod.h5").open("rb") as file:
        content = file.read()
    found = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True)
    assert found.stderr == b""
    assert found.stdout.decode().splitlines() == [
        "[[2, 0, 1], [1, 2, 3]] a b",
        "[3 4 5 6]",
        "standard input: is a pipe, and can be read only once",
    ]


def test_the_child_keeps_no_descriptor_of_others(tmp_path: Path) -> None:
    def look(path: Path) -> NoReturn:
        found = sorted(os.readlink(f"/proc/self/fd/{n}") for n in range(64) if _is_open(n))
        raise LodError(" ".join(found))

    with (tmp_path / "secret").open("w"), pytest.raises(LodError) as caught:
        read_by(look, tmp_path / "f")
    words = str(caught.value).removeprefix(f"{tmp_path / 'f'}: ").split()
    open_files = [each for each in words if not each.startswith("pipe:")]
    assert open_files == ["/dev/null"] * 3 + [str(tmp_path / "f")]


def _is_open(descriptor: int) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


ERRORS = (
    b"{",
    b"7",
    b"[" * 10_000,
    b"{}",
    b'{"kind": "LodError", "message": 7, "details": {}}',
    b'{"kind": "LodError", "message": "m", "details": [1]}',
    b'{"kind": "LodError", "message": "m", "details": {"args": [[]]}}',
    b'{"kind": "OSError", "errno": "x", "message": "m"}',
    b'{"kind": [], "message": "m", "details": {}}',
)


def test_lies_about_a_reply_are_errors(tmp_path: Path) -> None:
    """What a child that was taken over could send."""
    good = b"\0" + (5).to_bytes(8, "little") + b"hello"
    for lie in (
        b"\7" + bytes(8),
        good,
        good + b"\0" + b"\xff" * 8,
        *(b"\2" + len(text).to_bytes(8, "little") + text for text in ERRORS),
    ):
        reading, writing = os.pipe()
        os.write(writing, lie)
        os.close(writing)

        def ended() -> NoReturn:
            raise DamagedFileError("ended")

        with pytest.raises(DamagedFileError):
            Reply(reading, ended).read()
        os.close(reading)
