"""ELF structures of LLVM's object files and shared objects: headers, symbols, sections.

Follows the System V ABI and its supplements for x86-64 and AArch64; little-endian, 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)

MACHINES = {"x86_64": 62, "aarch64": 183}
_OBJECT, _SHARED = 1, 3
PROGBITS, SYMTAB, STRTAB, RELA, HASH, DYNAMIC, NOBITS, DYNSYM = 1, 2, 3, 4, 5, 6, 8, 11
INIT_ARRAY, FINI_ARRAY = 14, 15
WRITE, ALLOC, EXECUTE, MERGE, THREADS = 1, 2, 4, 16, 1024
UNDEFINED, COMMON = 0, 0xFFF2
LOAD, DYNAMIC_SEGMENT, STACK = 1, 2, 0x6474E551


@dataclass(frozen=True)
class Section:
    """One section of an object file; `body` is its content."""

    name: str
    kind: int
    flags: int
    link: int
    info: int
    align: int
    body: bytes


@dataclass(frozen=True)
class Symbol:
    """One symbol of an object file; `section` is the number of its section."""

    name: str
    section: int
    value: int
    exported: bool


@dataclass(frozen=True)
class Relocation:
    """A place in a section that depends on the final address of a symbol."""

    section: int
    offset: int
    symbol: int
    kind: int
    addend: int


@dataclass(frozen=True)
class ObjectFile:
    """A parsed object file."""

    machine: str
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


def parse_object(data: bytes) -> ObjectFile:
    """Parse an object file that LLVM emitted."""
    ident, kind, machine, _, _, _, table, _, _, _, _, _, count, names = _HEADER.unpack_from(data)
    if ident[:6] != _IDENT[:6] or kind != _OBJECT:
        raise ValueError("not a 64-bit object file")
    headers = [_SECTION.unpack_from(data, table + 64 * n) for n in range(count)]
    bodies = [
        bytes(size) if kind == NOBITS else data[at : at + size]
        for _, kind, _, _, at, size, *_ in headers
    ]
    sections = tuple(
        Section(_text(bodies[names], name), kind, flags, link, info, max(1, align), body)
        for (name, kind, flags, _, _, _, link, info, align, _), body in zip(
            headers, bodies, strict=True
        )
    )
    (number,) = (n for n, each in enumerate(sections) if each.kind == SYMTAB)
    strings = sections[sections[number].link].body
    symbols = tuple(
        Symbol(_text(strings, name), section, value, info >> 4 != 0 and section != UNDEFINED)
        for name, info, _, section, value, _ in _SYMBOL.iter_unpack(sections[number].body)
    )
    return ObjectFile(
        next(name for name, code in MACHINES.items() if code == machine),
        sections,
        symbols,
        tuple(_relocations(sections)),
    )


def _relocations(sections: tuple[Section, ...]) -> Iterator[Relocation]:
    for each in sections:
        if each.kind == RELA:
            for offset, info, addend in _RELOCATION.iter_unpack(each.body):
                yield Relocation(each.info, offset, info >> 32, info & 0xFFFFFFFF, addend)


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()


@dataclass(frozen=True)
class Segment:
    """A part of a shared object that is mapped from file position `offset` to `address`."""

    flags: int  # 4 read, 2 write, 1 execute
    offset: int
    address: int
    size: int


class Strings:
    """A string table without duplicates."""

    def __init__(self) -> None:
        self.body = bytearray(b"\0")
        self._at = {"": 0}

    def add(self, text: str) -> int:
        if text not in self._at:
            self._at[text] = len(self.body)
            self.body += text.encode() + b"\0"
        return self._at[text]


def symbol_entry(name: int, address: int, section: int, size: int) -> bytes:
    """Return the entry of an exported function in the dynamic symbol table."""
    return _SYMBOL.pack(name, 0x12, 0, section, address, size)


def relative_entry(place: int, kind: int, address: int) -> bytes:
    """Return a relocation entry: the dynamic linker stores base + address at a place."""
    return _RELOCATION.pack(place, kind, address)


def hash_table(names: list[str]) -> bytes:
    """Return the symbol hash table of the dynamic linker, for names numbered 1, 2, .."""
    count = max(1, len(names))
    buckets, chains = [0] * count, [0] * (len(names) + 1)
    for number, name in enumerate(names, 1):
        bucket = _elf_hash(name) % count
        chains[number], buckets[bucket] = buckets[bucket], number
    words = [count, len(chains), *buckets, *chains]
    return struct.pack(f"<{len(words)}I", *words)


def _elf_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def header(machine: str, sections: int, sections_at: int, segments: int) -> bytes:
    """Return the ELF header of a shared object whose last section holds the section names."""
    return _HEADER.pack(
        _IDENT, _SHARED, MACHINES[machine], 1, 0, 64, sections_at, 0, 64, 56, segments,
        64, sections, sections - 1,
    )  # fmt: skip


def program_header(kind: int, segment: Segment, align: int) -> bytes:
    """Return the program header of a segment."""
    return _PROGRAM.pack(
        kind, segment.flags, segment.offset, segment.address, segment.address, segment.size,
        segment.size, align,
    )  # fmt: skip


def section_header(
    name: int, kind: int, flags: int, address: int, offset: int, size: int,
    link: int = 0, info: int = 0, align: int = 8, entry_size: int = 0,
) -> bytes:  # fmt: skip
    """Return a section header, which tools read but the dynamic linker does not."""
    return _SECTION.pack(name, kind, flags, address, offset, size, link, info, align, entry_size)
