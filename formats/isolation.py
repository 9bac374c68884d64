"""Reading in a child process that can do nothing but read: for files of strangers.

The child parses the file and sends what it finds as a lod stream; the parent parses only
that. The child opens no other file, writes none, and is ended when it takes more memory
or processor time than its input can need. Whatever a file makes a library do - read
elsewhere, hang in C, crash - it does there.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from lodcli.formats import errors as format_errors
from lodcli.formats.base import BATCH_BYTES, Format, ReadOptions, Source, named_batches
from lodcli.formats.errors import DamagedFileError, TooLargeError
from lodcli.formats.inputs import Input
from lodcli.formats.interrupts import SIGNALS
from lodcli.formats.outputs import Output
from lodcli.formats.schema import Batch
from lodcli.formats.stream_reader import StreamSource
from lodcli.formats.stream_writer import write_stream
from lodcli.kernels import errors as kernel_errors
from lodcli.kernels.errors import LodError

# Beside what the file unpacks to: libraries' buffers, batches on their way.
WORKING_BYTES = 256 << 20
# The slowest reader does more than a megabyte a second.
CPU_SECONDS, CPU_RATE = 2, 1 << 20
# Of a pipe nobody knows how much will come.
UNKNOWN_CPU_SECONDS = 3600
_REPORT_BYTES = 1 << 16


class IsolatedSource(Source):
    """A file read in a child process; every pass over it starts another child.

    Args:
        kind: the format to read it as.
        source: the open file.
        options: how to read it.
        max_bytes: what it may unpack to; None: no limit.
        stored: bytes of the input; None where that is not known.

    Raises:
        LodError: what the child raised.
        DamagedFileError: the child crashed, hung, or was ended.
    """

    def __init__(
        self,
        kind: Format,
        source: Input,
        options: ReadOptions,
        max_bytes: int | None,
        stored: int | None,
    ) -> None:
        self._start = partial(_Child, kind, source, options, max_bytes, stored)
        self._source = source
        self._again = source.is_folder or source.seekable
        self._child = self._start()
        try:
            with self._child.explaining():
                self._stream = StreamSource(self._child.stream)
        except BaseException:
            self.close()
            raise
        self.schema = self._stream.schema
        self._fresh = True

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        """See Source."""
        return named_batches(self._source.label, lambda: self._batches(limit_bytes))

    def _batches(self, limit_bytes: int) -> Iterator[Batch]:
        if not self._fresh and self._again:
            self._child.end()
            self._child = self._start()
            with self._child.explaining():
                self._stream = StreamSource(self._child.stream)
        self._fresh = False
        with self._child.explaining():
            yield from self._stream.batches(limit_bytes)

    def close(self) -> None:
        """See Source."""
        self._child.end()


class _Child:
    """The process that reads, its stream and its report."""

    def __init__(
        self,
        kind: Format,
        source: Input,
        options: ReadOptions,
        max_bytes: int | None,
        stored: int | None,
    ) -> None:
        if not source.is_folder and source.seekable:
            source.file.seek(0)
        for module in ("ml_dtypes", *kind.modules):
            # Found later, they could not be opened any more.
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
        stream, stream_end = os.pipe()
        self._report, report_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python warns of the threads of libraries; the child uses none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            os.close(stream)
            os.close(self._report)
            _run(kind, source, options, _Room(max_bytes, stored), stream_end, report_end)
        os.close(stream_end)
        os.close(report_end)
        self.stream = Input.of_descriptor(stream, source.label)

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise what ended the child in the place of the cut stream it left behind."""
        try:
            yield
        except DamagedFileError:
            self._raise_reported()
            raise

    def _raise_reported(self) -> None:
        self.stream.close()  # so that a child that is still at work ends
        report = b""
        while piece := os.read(self._report, _REPORT_BYTES):
            report += piece
        status = self._wait()
        if report:
            raise _rebuilt(json.loads(report)) from None
        if os.WIFSIGNALED(status):
            raise _killed(os.WTERMSIG(status)) from None

    def _wait(self) -> int:
        if self._pid:
            pid, self._pid = self._pid, 0
            self._status = os.waitpid(pid, 0)[1]
        return self._status

    def end(self) -> None:
        """End the process, if it has not ended, and release what it held."""
        self.stream.close()
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._wait()
        if self._report >= 0:
            os.close(self._report)
            self._report = -1


@dataclass(frozen=True)
class _Room:
    """What the child's limits are made of; see IsolatedSource."""

    max_bytes: int | None
    stored: int | None


def _run(
    kind: Format,
    source: Input,
    options: ReadOptions,
    room: _Room,
    stream: int,
    report: int,
) -> NoReturn:
    """Read and send everything, in the child; never returns."""
    try:
        faulthandler.disable()  # a crash is reported by the parent
        for signum in (*SIGNALS, signal.SIGPIPE):
            signal.signal(signum, signal.SIG_DFL)
        os.dup2(stream, 1)
        os.close(stream)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        with Output("-") as output:
            _limit(kind, source, room)  # after the last descriptor was made
            opened = kind.open(source, options)
            write_stream(output, opened.schema, opened.batches())
        code = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(report, json.dumps(_described(error)).encode()[:_REPORT_BYTES])
        code = 1
    os._exit(code)


def _limit(kind: Format, source: Input, room: _Room) -> None:
    """Take from this process what reading one file does not need."""
    stored = room.stored
    if room.max_bytes is not None:
        size = _address_space() + WORKING_BYTES + room.max_bytes + (stored or 0)
        _lower(resource.RLIMIT_AS, size)
    seconds = UNKNOWN_CPU_SECONDS if stored is None else CPU_SECONDS + stored // CPU_RATE
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_CORE, 0)
    if source.is_folder or source.seekable:
        # A pipe may have to be copied to a nameless file first.
        _lower(resource.RLIMIT_FSIZE, 0)
        if kind.layout == "file":
            _lower(resource.RLIMIT_NOFILE, _descriptors(kind.descriptors))


def _lower(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # Of processor time: the soft limit tells what was exceeded, the hard one would not.
    resource.setrlimit(limit, (value, hard if limit == resource.RLIMIT_CPU else value))


def _descriptors(count: int) -> int:
    """Return the limit that leaves room for so many more, 0 for none."""
    made = [os.dup(1) for _ in range(count)]  # the lowest that are free
    for descriptor in made:
        os.close(descriptor)
    return max(made, default=-1) + 1


def _address_space() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _described(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON can carry it."""
    if isinstance(error, OSError) and not isinstance(error, LodError):
        return {"kind": "OSError", "errno": error.errno, "message": error.strerror or str(error)}
    details = {key: value for key, value in vars(error).items() if _is_plain(value)}
    return {"kind": type(error).__name__, "message": str(error)[:4000], "details": details}


def _is_plain(value: object) -> bool:
    return value is None or (isinstance(value, int | str) and len(str(value)) < 1000)


def _rebuilt(described: dict[str, Any]) -> Exception:
    """Return the error that the child described."""
    kind, message = described["kind"], described["message"]
    if kind == "MemoryError":
        return TooLargeError("needs more memory than reading it in isolation allows")
    if kind == "OSError":
        return OSError(described["errno"], message)
    for module in (format_errors, kernel_errors):
        found = getattr(module, kind, None)
        if isinstance(found, type) and issubclass(found, LodError):
            error: LodError = found.__new__(found)
            error.args = (message,)
            vars(error).update(described["details"])
            return error
    return LodError(f"{kind}: {message}")


def _killed(signum: int) -> LodError:
    if signum == signal.SIGXCPU:
        return DamagedFileError("takes more processor time than a file of its size can need")
    name = signal.Signals(signum).name
    return DamagedFileError(
        f"ended the process that read it in isolation ({name}); do not trust it"
    )
