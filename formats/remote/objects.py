"""An object that a server stores, read by ranges."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Protocol

from lodcli.formats.remote.urls import shown

BLOCK_BYTES = 1 << 20
# What opening one may read of it.
HEAD_BYTES = 64 << 10
# Of one object at a time.
CONNECTIONS = 4


class RemoteObject(Protocol):
    """An object of which ranges can be read.

    Attributes:
        size_bytes: of the object; None if only all of it can be read, and its size is unknown.
        head: its first bytes, as far as they came while it was opened.
    """

    size_bytes: int | None
    head: bytes

    def read(self, start: int, stop: int | None) -> Iterator[bytes]:
        """Yield the bytes from `start` to `stop`, or to the end, a few at a time.

        Raises:
            OSError: they cannot be had, all of them, or the object was replaced; names the URL.
        """
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


def failed(url: str, why: str, code: int = errno.EREMOTEIO) -> OSError:
    """Return the error that says why a URL cannot be read."""
    return OSError(code, why, shown(url))


def replaced(url: str) -> OSError:
    """Return the error for an object that is another than when it was opened."""
    why = "was replaced by another object while it was read; run the command again"
    return failed(url, why, errno.ESTALE)
