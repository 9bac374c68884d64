"""An object on a server, read by byte ranges."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Protocol

from lodcli.formats.remote.urls import shown

BLOCK_BYTES = 1 << 20
# Bytes read when an object is opened.
HEAD_BYTES = 64 << 10
# Maximum number of simultaneous connections per object.
CONNECTIONS = 4


class RemoteObject(Protocol):
    """An object of which ranges can be read.

    Attributes:
        size_bytes: of the object; None if only all of it can be read, and its size is unknown.
        head: its first bytes, as far as they were read when it was opened.
    """

    size_bytes: int | None
    head: bytes

    def read(self, start: int, stop: int | None) -> Iterator[bytes]:
        """Yield the bytes from `start` to `stop`, or to the end, in blocks.

        Raises:
            OSError: they cannot all be read, or the object was replaced; names the URL.
        """
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


def failed(url: str, why: str, code: int = errno.EREMOTEIO) -> OSError:
    """Return the error about a URL that cannot be read."""
    return OSError(code, why, shown(url))


def replaced(url: str) -> OSError:
    """Return the error for an object that was replaced since it was opened."""
    why = "was replaced by another object while it was read; run the command again"
    return failed(url, why, errno.ESTALE)
