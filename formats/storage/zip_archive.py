"""Checked reading of zip archives (.npz, .pt, .keras).

The members' headers and the directory must agree, and account for every byte of the file: a
directory that was altered never hides a member, or changes one unnoticed. PKWARE's APPNOTE.TXT
has the layout, https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.
"""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import IO

from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, naming
from lodcli.kernels.errors import LodError, UnsupportedError

# Above the maximum compression ratio of deflate, 1032: a member that declares more is damaged.
MOST_DEFLATED = 1100
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Signature, needed version, flags, method, time, date, CRC-32, two sizes, two lengths; the
# directory adds the version that made it before them, and five fields after them.
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
END_MARK, _LOCAL_MARK, _CENTRAL_MARK = b"PK\5\6", b"PK\3\4", b"PK\1\2"
_END_64_MARK, _LOCATOR_MARK, _DESCRIPTOR_MARK = b"PK\6\6", b"PK\6\7", b"PK\7\b"
_MOST_COMMENT = 0xFFFF
_MOST_16, _MOST_32 = 0xFFFF, 0xFFFFFFFF
_ENCRYPTED, _DESCRIPTOR, _UTF_8 = 0x1, 0x8, 0x800
_FOLDER = 0x10


def open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """Return an archive with a consistent directory and plausible member sizes.

    Args:
        file: seekable; the caller closes it.

    Raises:
        DamagedFileError: the directory contradicts itself, the members or the file.
        UnsupportedError: a member is encrypted, or compressed by another method than deflate.
    """
    with naming("the zip directory"):
        # Before zipfile, which reports a failing device or a cut file as "not a zip file".
        directory = _directory(file)
    with damage("the zip directory"):
        archive = zipfile.ZipFile(file)
    with naming("the zip directory"):
        _check_directory(file, directory, archive.infolist())
    names = set[str]()
    for info in archive.infolist():
        _check_entry(info)
        if info.filename in names:
            raise DamagedFileError(f"two members for {shown(info.filename)}")
        names.add(info.filename)
    return archive


def first_name(head: bytes) -> bytes:
    """Return the name of a zip file's first member, without folders; b"" if it is no zip file."""
    position = 0
    while head.startswith(_LOCAL_MARK, position):
        name, extra = (int.from_bytes(head[position + at :][:2], "little") for at in (26, 28))
        end = position + _LOCAL.size + name
        if not head[:end].endswith(b"/"):
            return head[position + _LOCAL.size : end]
        position = end + extra
    return b""


@contextmanager
def damage(what: str) -> Iterator[None]:
    """Convert zipfile's and zlib's errors for damaged files to DamagedFileError."""
    try:
        yield
    except LodError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, IndexError) as error:
        # Others may come from the writer.
        again = "" if isinstance(error, ValueError | IndexError) else FETCH_AGAIN
        raise DamagedFileError(f"{what} ({brief(error)}){again}") from None
    except (NotImplementedError, RuntimeError) as error:
        raise UnsupportedError(f"cannot be read ({brief(error)})") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # EINVAL: a position before the beginning of the file
            raise
        raise DamagedFileError(f"{what} (points outside of the file){FETCH_AGAIN}") from None


def shown(filename: str) -> str:
    """Return the name of a member for a message."""
    # Up to 65,535 characters.
    text = filename if len(filename) <= 100 else filename[:97] + "..."
    return text if text.isascii() and text.isprintable() else ascii(text)


def brief(found: object) -> str:
    """Return an error message, or a shape, as one short line: both may quote the file."""
    words, _, _ = (str(found) or "ends early").partition(": <ast.")  # zipfile's EOFError is mute
    return " ".join(words.split())[:120]


def _check_entry(info: zipfile.ZipInfo) -> None:
    """Raise unless a member can be read and has a plausible size."""
    name = shown(info.filename)
    if info.external_attr & _FOLDER and not info.is_dir():  # some readers give no data then
        raise DamagedFileError(f"{name}: is marked as a folder")
    if info.flag_bits & _ENCRYPTED:
        raise UnsupportedError(f"{name}: is encrypted; pack it without a password")
    if info.compress_type not in _METHODS:
        raise UnsupportedError(
            f"{name}: zip method {info.compress_type}; expected 0 (stored) or 8 (deflate); pack it "
            "again with one of them"
        )
    most = 1 if info.compress_type == zipfile.ZIP_STORED else MOST_DEFLATED
    if info.file_size > info.compress_size * most:
        raise DamagedFileError(
            f"{name}: {info.compress_size} bytes cannot hold the {info.file_size} announced"
            f"{FETCH_AGAIN}"
        )


# -- the directory -------------------------------------------------------------------


@dataclass(frozen=True)
class _Directory:
    """Position of the central directory, and number of members."""

    start: int
    size: int
    members: int


def _check_directory(
    file: IO[bytes], directory: _Directory, members: list[zipfile.ZipInfo]
) -> None:
    """Raise DamagedFileError unless the members fill the file up to their directory."""
    names = _member_names(_read(file, directory.start, directory.size), directory.members)
    if len(members) != len(names):
        raise DamagedFileError(f"expected {len(names)} members, found {len(members)}")
    for info, name in zip(members, names, strict=True):
        # zipfile cuts a name at a NUL, and may take another one from an extra field.
        if info.filename != name.decode("utf-8" if info.flag_bits & _UTF_8 else "cp437"):
            raise DamagedFileError(
                f"{shown(info.filename)}: has a second name, {ascii(name[:100])[1:]}"
            )
    ends = sorted((info.header_offset, place) for place, info in enumerate(members))
    ends.append((directory.start, -1))
    if ends[0][0]:
        raise DamagedFileError(f"{ends[0][0]} bytes before the first member belong to no member")
    for (start, place), (stop, _) in pairwise(ends):
        with naming(shown(members[place].filename)):
            _check_member(file, members[place], names[place], start, stop)


def _directory(file: IO[bytes]) -> _Directory:
    """Return the central directory's position from the end record."""
    size = file.seek(0, 2)
    tail_start = max(0, size - _END.size - _MOST_COMMENT)
    tail = _read(file, tail_start, size - tail_start)
    # As zipfile: without a comment if that is possible, else the last mark there is.
    bare = len(tail) - _END.size
    found = bare if tail[bare : bare + 4] == END_MARK and tail[-2:] == b"\0\0" else -1
    if found < 0:
        found = tail.rfind(END_MARK)
    if found < 0 or len(tail) - found < _END.size:
        raise DamagedFileError(f"its end record is missing; the file may be truncated{FETCH_AGAIN}")
    _, *fields, comment = _END.unpack_from(tail, found)
    behind = len(tail) - found - _END.size
    if behind != comment:
        raise DamagedFileError(
            f"expected a comment of {comment} bytes behind it, found {behind}{FETCH_AGAIN}"
        )
    end = tail_start + found
    at = max(0, end - _LOCATOR_64.size)
    locator = _read(file, at, end - at)
    if len(locator) == _LOCATOR_64.size and locator.startswith(_LOCATOR_MARK):
        end, fields = _zip64_end(file, at, locator, fields)
    disk, first_disk, here, count, length, start = fields
    if disk or first_disk or here != count:
        raise DamagedFileError(
            f"expected all members on one disk, found {here} of {count} on disk {disk}"
        )
    if start + length != end:
        raise DamagedFileError(
            f"expected it to end at byte {end}, found {length} bytes from byte {start} on"
            f"{FETCH_AGAIN}"
        )
    return _Directory(start, length, count)


def _zip64_end(file: IO[bytes], at: int, locator: bytes, short: list[int]) -> tuple[int, list[int]]:
    """Return where the directory ends, and the fields of the short end record in full."""
    _, disk, place, disks = _LOCATOR_64.unpack(locator)
    raw = _read(file, place, _END_64.size) if place + _END_64.size == at else b""
    if not raw.startswith(_END_64_MARK) or disk or disks > 1:
        raise DamagedFileError(f"expected its zip64 record right before byte {at}")
    _, size, _, _, *full = _END_64.unpack(raw)
    if size != _END_64.size - 12:
        raise DamagedFileError(
            f"expected a zip64 record of {_END_64.size - 12} bytes, found {size}"
        )
    for one, other, most in zip(short, full, [_MOST_16] * 4 + [_MOST_32] * 2, strict=True):
        if one not in (other, most):
            raise DamagedFileError(f"its two end records differ: {one}, and {other} in zip64")
    return place, full


def _member_names(raw: bytes, count: int) -> list[bytes]:
    """Return the names of the members; they fill the directory exactly."""
    names: list[bytes] = []
    position = 0
    while position < len(raw):
        entry = raw[position : position + _CENTRAL.size]
        if len(entry) < _CENTRAL.size or not entry.startswith(_CENTRAL_MARK):
            raise DamagedFileError(
                f"expected member {len(names)} at its byte {position}{FETCH_AGAIN}"
            )
        name, extra, comment = _CENTRAL.unpack(entry)[10:13]
        begin = position + _CENTRAL.size
        names.append(raw[begin : begin + name])
        position = begin + name + extra + comment
    if position != len(raw) or len(names) != count:
        raise DamagedFileError(
            f"expected {count} members in {len(raw)} bytes, found {len(names)} in {position}"
            f"{FETCH_AGAIN}"
        )
    return names


def _check_member(
    file: IO[bytes], info: zipfile.ZipInfo, name: bytes, start: int, stop: int
) -> None:
    """Raise unless the header before a member agrees, and the member ends where it must."""
    raw = _read(file, start, _LOCAL.size)
    if len(raw) < _LOCAL.size or not raw.startswith(_LOCAL_MARK):
        raise DamagedFileError(f"expected its header at byte {start}{FETCH_AGAIN}")
    _, _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes = _LOCAL.unpack(raw)
    rest = _read(file, start + _LOCAL.size, name_bytes + extra_bytes)
    matter = _ENCRYPTED | _DESCRIPTOR | _UTF_8
    if method != info.compress_type or (flags ^ info.flag_bits) & matter:
        raise DamagedFileError(
            f"its header and the zip directory differ in method or flags{FETCH_AGAIN}"
        )
    if rest[:name_bytes] != name:
        raise DamagedFileError(f"is called {ascii(rest[:name_bytes][:100])[1:]} in its own header")
    size, packed = _full_sizes(rest[name_bytes:], size, packed)
    said = {"checksum": (crc, info.CRC), "size": (size, info.file_size)}
    said["compressed size"] = (packed, info.compress_size)
    end = start + _LOCAL.size + name_bytes + extra_bytes + info.compress_size
    streamed = flags & _DESCRIPTOR and end < stop
    for what, (one, other) in said.items():
        if one != other and not (streamed and one in (0, _MOST_32)):
            raise DamagedFileError(
                f"{what}: {one} in its header, {other} in the zip directory{FETCH_AGAIN}"
            )
    if streamed:
        _check_descriptor(_read(file, end, min(stop - end, 25)), info)
    elif end != stop:
        what = "leaves a gap before" if end < stop else "overlaps"
        raise DamagedFileError(f"{what} the next: it ends at byte {end}, not {stop}")


def _full_sizes(extra: bytes, size: int, packed: int) -> tuple[int, int]:
    """Return the two sizes; a size that needs 64 bits is taken from the extra field."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        content = extra[position + 4 : position + 4 + length]
        position += 4 + length
        if kind != 1:
            continue
        numbers = iter(struct.unpack_from(f"<{len(content) // 8}Q", content))
        size = next(numbers, size) if size == _MOST_32 else size
        packed = next(numbers, packed) if packed == _MOST_32 else packed
    return size, packed


def _check_descriptor(raw: bytes, info: zipfile.ZipInfo) -> None:
    """Raise unless these bytes after a member repeat its checksum and its sizes.

    Writers that cannot seek put them there, with or without a signature in front, the sizes in 4
    or 8 bytes each.
    """
    found = raw.removeprefix(_DESCRIPTOR_MARK) if len(raw) in (16, 24) else raw
    form = {12: "<3L", 20: "<L2Q"}.get(len(found))
    said = (info.CRC, info.compress_size, info.file_size)
    if form is None or struct.unpack(form, found) != said:
        raise DamagedFileError(
            f"the sizes behind it are not those in the zip directory{FETCH_AGAIN}"
        )


def _read(file: IO[bytes], position: int, size: int) -> bytes:
    file.seek(position)
    return file.read(size)
