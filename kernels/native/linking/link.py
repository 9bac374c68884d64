"""Linker: object files to one shared library, without the system's linker.

Supports only what LLVM emits for kernels: functions and constants, but no thread-local variables,
constructors or exceptions. A library depends on no other one: the addresses of C library functions
that kernels call (exp, memcpy) are words in a table, which library.py fills. So it works with every
C library, and uses the same exp as JIT-compiled code.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from lodcli.kernels.native.linking import elf
from lodcli.kernels.native.linking.elf import ObjectFile, Section, Segment
from lodcli.kernels.native.linking.relocations import RULES

# Segments do not share pages. AArch64 has pages of up to 64 KiB.
_PAGE = 1 << 16
_READ, _CODE, _DATA = 4, 5, 6
_SEGMENTS = (_READ, _CODE, _DATA)
# Unwind tables and notes: kernels raise no exceptions, and nothing reads the notes.
_LEFT_OUT = (".eh_frame", ".note", ".comment", ".llvm")


@dataclass(frozen=True)
class Linked:
    """A shared library.

    Attributes:
        image: the file.
        functions: the address of each exported function, relative to the library's base.
        imports: for each external function it calls, the word that has to hold its address.
    """

    image: bytes
    functions: dict[str, int]
    imports: dict[str, int]


class LinkError(ValueError):
    """An object file has content that is not allowed in kernels."""


def link(objects: Sequence[bytes]) -> Linked:
    """Link object files, all for one machine, to one library."""
    return _Linker([elf.parse_object(each) for each in objects]).run()


class _Linker:
    def __init__(self, objects: list[ObjectFile]) -> None:
        self._objects = objects
        (self._machine,) = {each.machine for each in objects}
        self._rules = RULES[self._machine]
        self._exported = {
            symbol.name: (number, place)
            for number, each in enumerate(objects)
            for place, symbol in enumerate(each.symbols)
            if symbol.exported
        }
        # The address of each linked section, by object and section number.
        self._placed: dict[tuple[int, int], int] = {}
        self._slots: dict[str, int] = {}
        self._stubs: dict[str, int] = {}

    def run(self) -> Linked:
        image, segments, tables = self._lay_out()
        self._image = image
        self._segments = segments
        relative = self._relocate()
        functions = {name: self._address(*place) for name, place in self._exported.items()}
        self._fill_tables(tables, functions, relative)
        imports = {name: slot for name, slot in self._slots.items() if name not in self._exported}
        return Linked(bytes(self._image), functions, imports)

    # -- Layout -------------------------------------------------------------------------

    def _lay_out(self) -> tuple[bytearray, list[Segment], dict[str, tuple[int, int]]]:
        """Assign addresses; return the file, its segments, and offset and size of each table."""
        wanted = self._wanted()
        strings = elf.Strings()
        names = list(self._exported)
        for name in names:
            strings.add(name)
        self._strings, self._names = strings, names
        relative = sum(
            self._rules.is_word(each.kind)
            for number, one in enumerate(self._objects)
            for each in one.relocations
            if self._kept(number, each.section)
        )
        sizes = {
            ".hash": len(elf.hash_table(names)),
            ".dynsym": 24 * (len(names) + 1),
            ".dynstr": len(strings.body),
            ".rela.dyn": 24 * (relative + len(wanted)),
        }
        tables: dict[str, tuple[int, int]] = {}
        segments = []
        end, shift = 64 + 56 * (len(_SEGMENTS) + 2), 0
        for number, flags in enumerate(_SEGMENTS):
            begin = 0 if flags == _READ else end
            shift = number * _PAGE
            if flags == _READ:
                for name, size in sizes.items():
                    end = _up(end, 8)
                    tables[name] = (end, size)
                    end += size
            if flags == _CODE:
                end = _up(end, 16)
                for name in wanted:
                    self._stubs[name] = end + shift
                    end += self._rules.STUB_BYTES
            if flags == _DATA:
                end = _up(end, 8)
                for name in wanted:
                    self._slots[name] = end + shift
                    end += 8
                tables[".dynamic"] = (end, 16 * 9)
                end += 16 * 9
            for key, section in self._sections(flags):
                end = _up(end + shift, section.align) - shift
                self._placed[key] = end + shift
                end += len(section.body)
            segments.append(Segment(flags, begin, begin + shift, end - begin))
        image = bytearray(end)
        for (number, place), address in self._placed.items():
            body = self._objects[number].sections[place].body
            at = self._in_file(segments, address)
            image[at : at + len(body)] = body
        return image, segments, tables

    def _wanted(self) -> list[str]:
        """Return the symbols that need a word in the table: external, or accessed through it."""
        found: dict[str, None] = {}
        for number, one in enumerate(self._objects):
            for each in one.relocations:
                if not self._kept(number, each.section):
                    continue
                symbol = one.symbols[each.symbol]
                if symbol.section == elf.COMMON:
                    raise LinkError(f"{symbol.name}: a common symbol")
                if symbol.section == elf.UNDEFINED and symbol.name not in self._exported:
                    found[symbol.name] = None
                elif self._rules.is_table(each.kind):
                    found[self._slot_name(number, each.symbol)] = None
        return list(found)

    def _slot_name(self, number: int, place: int) -> str:
        """Return a name for the word with a symbol's address; numbers for a local symbol."""
        symbol = self._objects[number].symbols[place]
        outside = symbol.section == elf.UNDEFINED or symbol.exported
        return symbol.name if outside else f"\0{number}.{place}"

    def _kept(self, number: int, place: int) -> bool:
        section = self._objects[number].sections[place]
        return bool(section.flags & elf.ALLOC) and not section.name.startswith(_LEFT_OUT)

    def _sections(self, flags: int) -> list[tuple[tuple[int, int], Section]]:
        """Return the sections of a segment."""
        result = []
        for number, one in enumerate(self._objects):
            for place, section in enumerate(one.sections):
                if not self._kept(number, place) or not section.body:
                    continue
                if section.flags & elf.THREADS or section.kind in (
                    elf.INIT_ARRAY,
                    elf.FINI_ARRAY,
                ):
                    raise LinkError(f"{section.name}: variables of threads or constructors")
                if self._segment_of(section) == flags:
                    result.append(((number, place), section))
        return result

    @staticmethod
    def _segment_of(section: Section) -> int:
        if section.flags & elf.EXECUTE:
            return _CODE
        return _DATA if section.flags & elf.WRITE else _READ

    @staticmethod
    def _in_file(segments: list[Segment], address: int) -> int:
        (home,) = (s for s in segments if s.address <= address < s.address + s.size)
        return address - home.address + home.offset

    # -- Relocation ---------------------------------------------------------------------

    def _address(self, number: int, place: int) -> int:
        """Return the address of a symbol or external stub, relative to the library's base."""
        symbol = self._objects[number].symbols[place]
        if symbol.section == elf.UNDEFINED:
            if symbol.name in self._exported:
                return self._address(*self._exported[symbol.name])
            return self._stubs[symbol.name]
        return self._placed[number, symbol.section] + symbol.value

    def _relocate(self) -> list[tuple[int, int]]:
        """Apply relocations; return place and address of each word that depends on the base."""
        relative = []
        for name, stub in self._stubs.items():
            code = self._rules.stub(stub, self._slots[name])
            at = self._in_file(self._segments, stub)
            self._image[at : at + len(code)] = code
            known = self._known(name)
            if known is not None:
                relative.append((self._slots[name], known))
        for number, one in enumerate(self._objects):
            for each in one.relocations:
                if not self._kept(number, each.section):
                    continue
                place = self._placed[number, each.section] + each.offset
                if self._rules.is_word(each.kind):
                    relative.append((place, self._address(number, each.symbol) + each.addend))
                    continue
                if self._rules.is_table(each.kind):
                    to = self._slots[self._slot_name(number, each.symbol)]
                else:
                    to = self._address(number, each.symbol)
                at = self._in_file(self._segments, place)
                try:
                    self._rules.apply(self._image, at, each.kind, place, to + each.addend)
                except (KeyError, struct.error) as error:
                    name = one.symbols[each.symbol].name
                    raise LinkError(f"{name}: relocation {each.kind}: {error}") from None
        return relative

    def _known(self, name: str) -> int | None:
        """Return the address for a symbol's word in the table; None for an external symbol."""
        if name.startswith("\0"):
            number, _, place = name[1:].partition(".")
            return self._address(int(number), int(place))
        return self._address(*self._exported[name]) if name in self._exported else None

    # -- Tables for the dynamic linker and tools ------------------------------------------

    def _fill_tables(
        self,
        tables: dict[str, tuple[int, int]],
        functions: dict[str, int],
        relative: list[tuple[int, int]],
    ) -> None:
        image, segments = self._image, self._segments
        code, data = segments[1], segments[2]
        symbols = bytes(24) + b"".join(
            elf.symbol_entry(self._strings.add(name), functions[name], 5, self._size(name))
            for name in self._names
        )
        changes = b"".join(
            elf.relative_entry(place, self._rules.RELATIVE, to) for place, to in relative
        )
        dynamic = self._dynamic(tables, len(changes))
        for name, body in (
            (".hash", elf.hash_table(self._names)),
            (".dynsym", symbols),
            (".dynstr", bytes(self._strings.body)),
            (".rela.dyn", changes),
            (".dynamic", dynamic),
        ):
            at, size = tables[name]
            assert len(body) <= size, name
            image[at : at + len(body)] = body
        dynamic_at = tables[".dynamic"][0]
        place = dynamic_at - data.offset + data.address
        headers = [elf.program_header(elf.LOAD, each, _PAGE) for each in segments]
        own = Segment(6, dynamic_at, place, len(dynamic))
        headers.append(elf.program_header(elf.DYNAMIC_SEGMENT, own, 8))
        headers.append(elf.program_header(elf.STACK, Segment(6, 0, 0, 0), 16))
        image[64 : 64 + 56 * len(headers)] = b"".join(headers)
        names = elf.Strings()
        kinds = {".hash": elf.HASH, ".dynsym": elf.DYNSYM, ".dynstr": elf.STRTAB}
        shown = [bytes(64)]
        for name in (".hash", ".dynsym", ".dynstr", ".rela.dyn"):
            at, size = tables[name]
            shown.append(
                elf.section_header(
                    names.add(name), kinds.get(name, elf.RELA), elf.ALLOC, at, at, size,
                    link={".hash": 2, ".dynsym": 3, ".rela.dyn": 2}.get(name, 0),
                    info=1 if name == ".dynsym" else 0,
                    entry_size={".hash": 4, ".dynsym": 24, ".rela.dyn": 24}.get(name, 0),
                )
            )  # fmt: skip
        shown.append(
            elf.section_header(
                names.add(".text"), elf.PROGBITS, elf.ALLOC | elf.EXECUTE, code.address,
                code.offset, code.size, align=64,
            )
        )  # fmt: skip
        shown.append(
            elf.section_header(
                names.add(".dynamic"), elf.DYNAMIC, elf.ALLOC | elf.WRITE, place, dynamic_at,
                len(dynamic), link=3, entry_size=16,
            )
        )  # fmt: skip
        last = names.add(".shstrtab")
        at = len(image)
        image += names.body
        shown.append(elf.section_header(last, elf.STRTAB, 0, 0, at, len(names.body), align=1))
        image += bytes(-len(image) % 8)
        image[:64] = elf.header(self._machine, len(shown), len(image), len(headers))
        image += b"".join(shown)

    def _dynamic(self, tables: dict[str, tuple[int, int]], changed_bytes: int) -> bytes:
        where = {name: at for name, (at, _) in tables.items()}
        tags = [
            *((4, where[".hash"]), (5, where[".dynstr"]), (6, where[".dynsym"])),
            *((10, len(self._strings.body)), (11, 24)),
            *((7, where[".rela.dyn"]), (8, changed_bytes), (9, 24), (0, 0)),
        ]
        return struct.pack(f"<{2 * len(tags)}Q", *(word for tag in tags for word in tag))

    def _size(self, name: str) -> int:
        """Return the size of a function, for tools: up to the end of its section."""
        number, place = self._exported[name]
        one = self._objects[number]
        symbol = one.symbols[place]
        return len(one.sections[symbol.section].body) - symbol.value


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
