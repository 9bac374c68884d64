"""A remote object as a local temporary file, which is filled on demand.

The file is sparse: it has the size of the object, and takes space only for fetched parts. So code
that reads files can read URLs, and no byte is fetched twice.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import numpy as np

from lodcli.formats.remote.objects import CONNECTIONS, RemoteObject, failed
from lodcli.formats.remote.urls import shown
from lodcli.kernels.platform import files
from lodcli.kernels.platform.pools import thread_pool
from lodcli.kernels.platform.processes import OpenFileLock

# Fetched ranges begin and end at multiples of this.
GRAIN_BYTES = 64 << 10
# Limit of read-ahead: each sequential fetch doubles its size, up to this.
MOST_AHEAD_BYTES = 32 << 20
PART_BYTES = 8 << 20
TAIL_GRAINS = 8
# Limit on the size of an object: a larger one is not plausible, and each grain takes a byte here.
MOST_BYTES = 1 << 44


class FetchedFile:
    """A temporary file of the bytes of a remote object.

    Attributes:
        fd: a descriptor of the file, which `close` does not close. `files.pread` and
            `files.read_at` fetch the bytes they read; other readers must call `fetch` before.

    Raises:
        OSError: the object cannot be read, or the disk is full; names the URL.
        UnsupportedError: a package is missing, or the scheme of the URL is not supported.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._object = _opened(url)
        self._lock = OpenFileLock()
        with tempfile.TemporaryFile(prefix="lod-", buffering=0) as file:
            self.fd = os.dup(file.fileno())
        try:
            if self._object.size_bytes is None:
                self._fetch_part(0, None)
                self._there = np.ones(0, np.bool_)
            else:
                if self._object.size_bytes > MOST_BYTES:
                    said = f"the server says that it has {self._object.size_bytes} bytes"
                    raise failed(url, f"{said}; lod fetches at most {MOST_BYTES}")
                os.ftruncate(self.fd, self._object.size_bytes)
                self._there = np.zeros(-(-self._object.size_bytes // GRAIN_BYTES), np.bool_)
                size = files.write_all_at(self.fd, self._object.head, 0)
                whole = size == self._object.size_bytes
                self._there[: size // GRAIN_BYTES + whole] = True
        except BaseException:
            os.close(self.fd)
            self._object.close()
            raise
        self._end = self._ahead = 0  # grains
        files.fetch_before_reads(self.fd, self.fetch)

    def fetch(self, position: int, size_bytes: int) -> None:
        """Fetch bytes that were not fetched yet."""
        with self._lock:
            first = max(0, position) // GRAIN_BYTES
            last = min(-(-(position + size_bytes) // GRAIN_BYTES), self._there.size)
            if first >= last or self._there[first:last].all():
                return
            first += int(np.argmin(self._there[first:last]))
            self._ahead = max(1, min(2 * self._ahead, MOST_AHEAD_BYTES // GRAIN_BYTES))
            if first != self._end:
                self._ahead = 0
            last = min(max(last, first + self._ahead), self._there.size)
            # Many formats have a directory at the end, read in parts: fetch all of it at once.
            # The first to be read may be the last one, in a short grain.
            if self._there.size - first <= TAIL_GRAINS:
                first -= int(first > 0 and not self._there[first - 1])
                last = self._there.size
            self._fetch_grains(first, last)
            self._end = last

    def close(self) -> None:
        """Stop fetching."""
        files.stop_fetching(self.fd)
        self._object.close()

    def _fetch_grains(self, first: int, last: int) -> None:
        parts = list(self._missing(first, last))
        if len(parts) == 1:
            self._fetch_part(*parts[0])
        else:
            with thread_pool(min(CONNECTIONS, len(parts)), "lod-fetch") as pool:
                list(pool.map(lambda part: self._fetch_part(*part), parts))
        self._there[first:last] = True

    def _missing(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of bytes that were not fetched yet, at most PART_BYTES each."""
        assert self._object.size_bytes is not None
        edges = np.diff(self._there[first:last].astype(np.int8), prepend=1, append=1)
        begins, ends = np.flatnonzero(edges == -1) + first, np.flatnonzero(edges == 1) + first
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            stop = min(end * GRAIN_BYTES, self._object.size_bytes)
            for low in range(begin * GRAIN_BYTES, stop, PART_BYTES):
                yield low, min(low + PART_BYTES, stop)

    def _fetch_part(self, start: int, stop: int | None) -> None:
        for block in self._object.read(start, stop):
            try:
                start = files.write_all_at(self.fd, block, start)
            except OSError as error:
                error.filename = f"{shown(self._url)}, fetched to {tempfile.gettempdir()}"
                raise


def _opened(url: str) -> RemoteObject:
    """Return the object of a URL: http and https by urllib3, others by fsspec.

    Raises:
        OSError: there is none, or it cannot be read; names the URL.
        UnsupportedError: a package is missing, or the scheme of the URL is not supported.
    """
    if url.partition("://")[0].lower() in ("http", "https"):
        from lodcli.formats.remote.urllib3_object import Urllib3Object

        return Urllib3Object(url)
    from lodcli.formats.remote.fsspec_object import FsspecObject

    return FsspecObject(url)
