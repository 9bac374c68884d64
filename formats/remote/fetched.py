"""A remote object as a file of this machine, which is filled as it is read.

The file is temporary and sparse: of the size of the object, with room only for what was fetched.
So all that reads files reads URLs, and nothing is fetched twice.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator

import numpy as np

from lodcli.formats.remote.objects import CONNECTIONS, RemoteObject, failed
from lodcli.formats.remote.urls import shown
from lodcli.kernels.platform import files
from lodcli.kernels.platform.pools import thread_pool

# What is fetched begins and ends at multiples of it.
GRAIN_BYTES = 64 << 10
# Reading on from where the last fetch ended doubles what is fetched, up to this.
MOST_AHEAD_BYTES = 32 << 20
PART_BYTES = 8 << 20
TAIL_GRAINS = 8
# More is what no server has, and a byte for each grain would be too much.
MOST_BYTES = 1 << 44


class FetchedFile:
    """A temporary file of the bytes of a remote object.

    Args:
        url: of the object.

    Attributes:
        fd: a descriptor of the file, which `close` does not close. `files.pread` and
            `files.read_at` fetch what they read of it; others call `fetch` before.

    Raises:
        OSError: the object cannot be read, or there is no room; names the URL.
        UnsupportedError: a package is missing, or nothing reads this kind of URL.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._object = _opened(url)
        self._lock = threading.Lock()
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
        """Fetch some bytes, unless they are there."""
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
            # Directories of files are at their end, and are read part by part.
            if self._there.size - first <= TAIL_GRAINS:
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
        """Yield where the bytes that are not there begin and end, at most PART_BYTES each."""
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
        UnsupportedError: a package is missing, or nothing reads this kind of URL.
    """
    if url.partition("://")[0].lower() in ("http", "https"):
        from lodcli.formats.remote.urllib3_object import Urllib3Object

        return Urllib3Object(url)
    from lodcli.formats.remote.fsspec_object import FsspecObject

    return FsspecObject(url)
