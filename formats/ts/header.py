"""The header of a .ts file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.core.names import shown
from lodcli.formats.text.lines import LineReader
from lodcli.kernels.errors import InvalidDataError, UnsupportedError

# Directives in lower case, for comparison. aeon writes @dimension, others @dimensions.
_FLAGS = (b"timestamps", b"missing", b"univariate", b"equallength", b"targetlabel")
_COUNTS = (b"dimensions", b"dimension", b"serieslength")
COMMENTS = (b"#", b"%")  # first characters of comment lines
DIRECTIVES = frozenset({*_FLAGS, *_COUNTS, b"problemname", b"classlabel", b"data"})


@dataclass(frozen=True)
class Header:
    """Content of the header.

    Attributes:
        missing: whether values may be missing; also if not stated, as in files of sktime.
        channels: number of channels; None if not stated.
        equal: whether all series have equally many steps.
        steps: number of steps, if equal; None if not stated.
        target: whether each line ends with a number.
        classes: the classes with which lines end; None if lines end without a class.
    """

    missing: bool = True
    channels: int | None = None
    equal: bool = False
    steps: int | None = None
    target: bool = False
    classes: tuple[bytes, ...] | None = None

    @property
    def labelled(self) -> bool:
        """Whether each line ends with a class or a number."""
        return self.target or self.classes is not None


def read_header(reader: LineReader) -> Header:
    """Return the header; the last line read from `reader` is then `@data`.

    Raises:
        InvalidDataError: names the line.
        UnsupportedError: the steps have timestamps.
    """
    said: dict[bytes, list[bytes]] = {}
    while b"data" not in said:
        lines = reader.lines(1)
        if not lines:
            raise InvalidDataError("ends before the line @data")
        words = lines[0].split()
        if not words or words[0].startswith(COMMENTS):
            continue
        where, key = f"line {reader.line}", words[0][1:].lower()
        if not words[0].startswith(b"@"):
            raise NotThisFormatError(
                f"{where}: expected a directive such as @problemName, found {shown(words[0])}"
            )
        if key not in DIRECTIVES:
            raise UnsupportedError(f"{where}: unknown directive {shown(words[0])}")
        key = b"dimensions" if key == b"dimension" else key
        if key in said and key != b"problemname":  # not kept
            raise InvalidDataError(f"{where}: {shown(words[0])} appears twice")
        said[key] = words[1:]
        _check(key, words[1:], where)
    return _header(said)


def _check(key: bytes, values: list[bytes], where: str) -> None:
    """Raise an error unless the values are valid for the directive."""
    first = values[0].lower() if values else b""
    if (key in _FLAGS or key == b"classlabel") and first not in (b"true", b"false"):
        raise InvalidDataError(f"{where}: @{key.decode()} needs true or false")
    if key in _COUNTS and (not first.isdigit() or not 0 < len(first) < 10 or not int(first)):
        raise InvalidDataError(f"{where}: @{key.decode()} needs a whole number from 1")
    if key == b"timestamps" and first == b"true":
        raise UnsupportedError(
            f"{where}: steps with timestamps cannot be read; aeon's load_from_ts_file takes the "
            "values alone, and save_to_ts_file writes them"
        )
    if key == b"data" and values:
        raise InvalidDataError(f"{where}: @data stands alone; the data begins on the next line")
    if key == b"classlabel" and first == b"true":
        if len(values) == 1:
            raise InvalidDataError(f"{where}: @classLabel true needs the list of classes")
        repeated = {name for name, count in Counter(values[1:]).items() if count > 1}
        if repeated:
            raise InvalidDataError(f"{where}: class {shown(min(repeated))} appears twice")


def _header(said: dict[bytes, list[bytes]]) -> Header:
    def flag(key: bytes) -> bool:
        return said.get(key, [b"false"])[0].lower() == b"true"

    def count(key: bytes) -> int | None:
        return int(said[key][0]) if key in said else None

    channels = count(b"dimensions")
    if flag(b"univariate"):
        if channels not in (None, 1):
            raise InvalidDataError(f"@univariate true, but @dimensions {channels}")
        channels = 1
    classes = tuple(said[b"classlabel"][1:]) if flag(b"classlabel") else None
    if flag(b"targetlabel") and classes is not None:
        raise InvalidDataError("@classLabel true and @targetLabel true exclude each other")
    return Header(
        missing=b"missing" not in said or flag(b"missing"),
        channels=channels,
        equal=flag(b"equallength"),
        steps=count(b"serieslength"),
        target=flag(b"targetlabel"),
        classes=classes,
    )
