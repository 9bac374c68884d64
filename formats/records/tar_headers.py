"""Headers of the members of a tar archive, as `tarfile` writes them."""

from __future__ import annotations

from lodcli.formats.records.tar_stream import BLOCK

_KEY_BYTES, _SIZE_BYTES = 9, 11


class Headers:
    """The headers of members whose names differ only in a leading number.

    Args:
        rest: the names after the number.
    """

    def __init__(self, rest: str) -> None:
        self._rest = rest
        head = _header("0" * _KEY_BYTES + rest, 0)
        # For a longer name, tarfile writes a separate header before this one.
        self._alike = len(head) == BLOCK
        self._name, self._times, self._end = head[_KEY_BYTES:124], head[135:148], head[156:]
        # In the sum, the checksum field itself counts as spaces.
        self._sum = sum(self._name + self._times + self._end + b" " * 8)

    def of(self, key: bytes, size: int) -> bytes:
        """Return the header of a member.

        Args:
            key: the number, in nine digits or more.
            size: of its content.
        """
        digits = b"%011o" % size
        if not self._alike or len(key) != _KEY_BYTES or len(digits) != _SIZE_BYTES:
            return _header(key.decode() + self._rest, size)
        total = self._sum + sum(key) + sum(digits)
        return b"%b%b%b%b%06o\0 %b" % (key, self._name, digits, self._times, total, self._end)


def _header(name: str, size: int) -> bytes:
    import tarfile

    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)
