"""Maximum decompressed size of an input."""

from __future__ import annotations

from dataclasses import dataclass

from lodcli.formats.core.errors import TooLargeError
from lodcli.kernels.options import option

# A small file may legitimately expand to this size.
DEFAULT_BYTES = 1 << 30
# The maximum compression ratio of deflate is 1032.
DEFAULT_RATIO = 1100
# As Python objects, a line of JSON takes up to 25 times its size.
DEFAULT_LINE_BYTES = 1 << 27
# Blocks up to this size may always be decompressed, regardless of the total.
BLOCK_BYTES = 16 << 20


def default_bytes(stored: int) -> int:
    """Return the default decompressed-size limit for a file of this size."""
    return max(DEFAULT_BYTES, DEFAULT_RATIO * stored)


@dataclass(frozen=True)
class Bounds:
    """Limit on the decompressed size of an input.

    Attributes:
        max_bytes: decompressed bytes, or bytes of rows and offsets; None: no limit.
        line_bytes: of one line of text.
    """

    max_bytes: int | None = None
    line_bytes: int = DEFAULT_LINE_BYTES

    def check(self, size_bytes: int, what: str) -> None:
        """Raise TooLargeError if the size is over the limit.

        Args:
            size_bytes: the size.
            what: the beginning of the message, such as "declares".
        """
        if self.max_bytes is not None and size_bytes > self.max_bytes:
            raise TooLargeError(
                f"{what} {size_bytes} bytes, at most {self.max_bytes} are allowed; if you trust "
                f"the file, allow more with {option('max-bytes')}"
            )

    def growth(self, stored: int) -> int:
        """Return the size limit for content that may be referred to many times."""
        most = default_bytes(stored)
        return most if self.max_bytes is None else min(most, max(self.max_bytes, BLOCK_BYTES))

    def allows_block(self, size_bytes: int) -> bool:
        """Return whether a block of this size may be decompressed at once."""
        return self.max_bytes is None or size_bytes <= max(self.max_bytes, BLOCK_BYTES)

    def check_block(self, size_bytes: int, what: str) -> None:
        """Raise TooLargeError unless `allows_block`; see `check`."""
        if not self.allows_block(size_bytes):
            self.check(size_bytes, what)

    def check_line(self, size_bytes: int, number: int) -> None:
        """Raise TooLargeError if a line is longer than the limit; `number` counts from 1."""
        if size_bytes > self.line_bytes:
            raise TooLargeError(
                f"line {number}: is longer than {self.line_bytes} bytes; if you trust the file, "
                f"allow more with {option('max-bytes')}"
            )
