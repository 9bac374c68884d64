"""Reads untrusted files through a sandboxed child process.

The child parses the file and answers requests: the schema, an index, a slice, all batches. It
replies with lod streams, and the parent parses only these. The child cannot open or write other
files, and is killed if it takes more memory or CPU time than its input can need. If a file makes a
library read elsewhere, hang in C or crash, that happens only in the child.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lodcli.formats.core.batching import only
from lodcli.formats.core.format import BATCH_BYTES, Format, SelectiveSource, Source, named_batches
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, find, find_all, schema_of
from lodcli.formats.sandbox import process as sandbox
from lodcli.formats.sandbox.process import Child, Room
from lodcli.formats.sandbox.replies import (
    MOST_FACTS_BYTES,
    ReplyWriter,
    decode_notes,
    errors_of,
    facts,
    line_of,
    names_of,
)
from lodcli.formats.storage.inputs import Input
from lodcli.formats.stream.header import JSON_LIMIT_BYTES, decode, encode, plan
from lodcli.formats.stream.reader import StreamSource
from lodcli.formats.stream.writer import write_stream
from lodcli.formats.values.file_attributes import parsed
from lodcli.formats.values.partitions import NO_KEYS, Keys, with_keys
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.native import load
from lodcli.kernels.platform.processes import OpenFileLock
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import attributes_text

# Attributes of the open file, which the child tells.
_FACTS = ("partial", "records", "has_keys", "untyped")


class IsolatedSource(SelectiveSource):
    """A file read in a child process.

    Requests go one after another to the same child. If one is made while the batches of another
    are still being read, a new child answers it, unless the input can be read only once.

    Args:
        kind: the format to read it as.
        max_bytes: maximum decompressed size; None: no limit.
        stored: bytes of the input; None if unknown.
        keys: columns to add to it, if it takes them.

    Raises:
        LodError: an error raised in the child.
        DamagedFileError: the child crashed, or was killed at a limit.
    """

    def __init__(
        self,
        kind: Format,
        source: Input,
        options: ReadOptions,
        max_bytes: int | None,
        stored: int | None,
        keys: Keys | None = None,
    ) -> None:
        self._source = source
        again = source.is_folder or source.seekable
        room = Room(
            max_bytes,
            stored,
            # A pipe may have to be copied to an anonymous file first.
            writes=not again,
            opens=kind.descriptors if again and kind.layout == "file" else None,
        )
        self._work = partial(_serve, kind, source, options, keys or NO_KEYS, room)
        self._seconds = sandbox.clock_seconds(room)
        self._modules = ("concurrent.futures.thread", "ml_dtypes", *kind.modules)
        self._indexes: dict[str, LoD] = {}
        self.notes: list[str] = []
        self._idle: list[Child] = []
        self._busy: list[Child] = []
        self._choosing = OpenFileLock()  # else two children may share the file's position
        self._again = True
        try:
            with self._reply(do="open") as reply:
                told = facts(reply.file.readline(MOST_FACTS_BYTES), *_FACTS)
                # The batches of a stream need not hold all tensors.
                self._partial, self.equal_items = told["partial"], told["records"]
                self.has_keys, self.untyped = told["has_keys"], told["untyped"]
                self.valueless = names_of(reply.file.readline(JSON_LIMIT_BYTES))
                self.left_out = errors_of(reply.file.readline(JSON_LIMIT_BYTES))
                self.notes[:], self.checksums = decode_notes(reply.file.readline(JSON_LIMIT_BYTES))
                header = decode(reply.file.read(JSON_LIMIT_BYTES + 1))
                self.schema, self.attributes = header.schema, parsed(header.attributes)
        except BaseException:
            self.close()
            raise
        self._again = again

    @contextlib.contextmanager
    def _reply(self, **request: Any) -> Iterator[Input]:
        """Yield the reply of a child; if it is not read to its end, the child is killed."""
        with self._choosing:
            while self._idle and self._idle[-1].parent != os.getpid():
                self._idle.pop().end()  # after a fork: the other process reads its replies
            child = self._idle.pop() if self._idle else self._started()
            self._busy.append(child)
        reply = child.ask(json.dumps(request).encode())
        try:
            yield Input.of_raw(reply, self._source.label)
        finally:
            self._busy.remove(child)
            if reply.whole:
                self._idle.append(child)
            else:
                child.end()

    def _started(self) -> Child:
        if not self._again:
            raise UnsupportedError("is a pipe, and can be read only once")
        for module in self._modules:
            # Imported now, because the child cannot open files.
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
        load.open_shipped()
        self._source.fetch()
        # Children that read at the same time need separate positions in the file.
        work = partial(self._work, bool(self._busy))
        return Child(work, self._source.descriptors, self._seconds)

    @property
    def partial(self) -> bool:
        return self._partial

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = list(names)
        return named_batches(
            self._source.label,
            lambda: self._stream(limit_bytes, do="batches", names=wanted, limit=limit_bytes),
        )

    def read_index(self, name: str) -> LoD:
        name = find(self.schema, name).name
        if name not in self._indexes:
            self._indexes[name] = self._tensor(do="index", name=name).lod
        return self._indexes[name]

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        name = find(self.schema, name).name
        keys = [
            [key.start, key.stop, key.step] if isinstance(key, slice) else key for key in branch
        ]
        return self._tensor(do="slice", name=name, branch=keys, level=level)

    def close(self) -> None:
        for child in (*self._idle, *self._busy):
            child.end()
        self._idle.clear()

    def _stream(self, limit_bytes: int, **request: Any) -> Iterator[Batch]:
        with self._reply(**request) as reply:
            yield from StreamSource(reply).batches(limit_bytes)
        with self._reply(do="tell") as reply:
            self.notes[:], self.checksums = decode_notes(reply.file.read(JSON_LIMIT_BYTES))

    def _tensor(self, **request: Any) -> LoDTensor:
        with self._reply(**request) as reply:
            single = facts(reply.file.readline(MOST_FACTS_BYTES), "single")["single"]
            found = StreamSource(reply).read()[DEFAULT_NAME]
        assert isinstance(found, LoDTensor)
        return found.select(0) if single else found


# -- in the child ------------------------------------------------------------------


def _serve(
    kind: Format,
    source: Input,
    options: ReadOptions,
    keys: Keys,
    room: Room,
    apart: bool,
    requests: int,
    replies: ReplyWriter,
) -> None:
    """Answer requests until the pipe is closed; runs in the child."""
    if not source.is_folder and source.seekable:
        if apart:
            sandbox.detach(source)
        source.file.seek(0)
    sandbox.confine(room)

    def copied(size: int) -> None:
        """Set the CPU time after a pipe was copied, when the size of the input is known."""
        nonlocal room
        room = replace(room, stored=size)
        sandbox.allow_time(room)

    source.when_copied = copied
    opened: Source | None = None
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            sandbox.allow_time(room)
            try:
                opened = opened or with_keys(kind.open(source, options), kind, keys)
                sandbox.allow_time(room, _declared(opened))
                _answer(opened, json.loads(line), replies)
                replies.end()
            except LodError as error:  # other exceptions end the process
                replies.fail(error)


def _declared(opened: Source) -> int:
    """Return the bytes of rows that a file declares, which may be far larger than the file."""
    return sum((spec.rows or 0) * spec.row_bytes for spec in opened.schema)


def _answer(opened: Source, request: dict[str, Any], replies: ReplyWriter) -> None:
    if request["do"] == "open":
        told = {name: getattr(opened, name) for name in _FACTS}
        replies.write(json.dumps(told).encode() + b"\n")
        replies.write(json.dumps([*opened.valueless]).encode() + b"\n")
        replies.write(line_of(opened.left_out))
        replies.write(_notes_of(opened) + b"\n")
        replies.write(encode(plan(opened.schema, attributes_text(opened.attributes))))
    elif request["do"] == "tell":
        replies.write(_notes_of(opened))
    elif request["do"] == "batches":
        names = request["names"]
        schema = find_all(opened.schema, names)
        batches = opened.batches_of(names, request["limit"])
        # Errors propagate, and are sent after what was written so far.
        write_stream(replies, schema, only(batches, names), tells_failure=False)
    elif request["do"] == "index":
        lod = opened.read_index(request["name"])
        rows = int(lod.levels[-1][-1]) if lod.n_levels else 0
        _send(LoDTensor(np.empty((rows, 0), np.uint8), lod), replies)
    else:
        branch = tuple(slice(*key) if isinstance(key, list) else key for key in request["branch"])
        found = opened.slice(request["name"], branch, request["level"])
        # An integer key drops the row axis, which a stream needs.
        single = found.values.ndim == len(find(opened.schema, request["name"]).row_shape)
        _send(LoDTensor(found.values[np.newaxis]) if single else found, replies, single=single)


def _notes_of(opened: Source) -> bytes:
    """Encode what is known of a file so far, for `decode_notes`."""
    return json.dumps([opened.notes, opened.checksums]).encode()


def _send(tensor: LoDTensor, replies: ReplyWriter, *, single: bool = False) -> None:
    replies.write(json.dumps({"single": single}).encode() + b"\n")
    write_stream(replies, schema_of({DEFAULT_NAME: tensor}), [{DEFAULT_NAME: tensor}])
