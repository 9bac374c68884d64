"""Relocations: filling addresses into code and data, for each architecture."""

from __future__ import annotations

import struct
from typing import ClassVar, Protocol


class Rules(Protocol):
    """Relocations of one architecture."""

    RELATIVE: int  # the kind that sets a word to base + address
    STUB_BYTES: int

    def is_word(self, kind: int) -> bool:
        """Return whether a relocation sets a word to an absolute address."""

    def is_table(self, kind: int) -> bool:
        """Return whether a relocation goes through a table of such words (GOT)."""

    def stub(self, place: int, slot: int) -> bytes:
        """Return code for address `place` that jumps to the address stored at `slot`."""

    def apply(self, image: bytearray, at: int, kind: int, place: int, to: int) -> None:
        """Write address `to` into code or data at `place`, which is at `at` in the file."""


class X86:
    """Relocations of x86-64."""

    RELATIVE, STUB_BYTES = 8, 8
    _WORD, _PC32, _PLT32, _TABLE = 1, 2, 4, (9, 41, 42)

    def is_word(self, kind: int) -> bool:
        return kind == self._WORD

    def is_table(self, kind: int) -> bool:
        return kind in self._TABLE

    def stub(self, place: int, slot: int) -> bytes:
        return b"\xff\x25" + struct.pack("<i", slot - place - 6)  # jmp [rip + ..]

    def apply(self, image: bytearray, at: int, kind: int, place: int, to: int) -> None:
        if kind not in (self._PC32, self._PLT32, *self._TABLE):
            raise KeyError("unknown")
        struct.pack_into("<i", image, at, to - place)


class Arm:
    """Relocations of AArch64."""

    RELATIVE, STUB_BYTES = 1027, 16
    _WORD, _PREL64, _PREL32, _PAGE, _ADD = 257, 260, 261, 275, 277
    _JUMPS, _TABLE_PAGE, _TABLE_LOAD = (282, 283), 311, 312
    # Loads and stores by the low bits of an address: the shift of these bits, by access size.
    _LOADS: ClassVar[dict[int, int]] = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}

    def is_word(self, kind: int) -> bool:
        return kind == self._WORD

    def is_table(self, kind: int) -> bool:
        return kind in (self._TABLE_PAGE, self._TABLE_LOAD)

    def stub(self, place: int, slot: int) -> bytes:
        code = bytearray(struct.pack("<III", 0x90000010, 0xF9400210, 0xD61F0200))
        self.apply(code, 0, self._PAGE, place, slot)  # adrp x16, slot
        self.apply(code, 4, 286, place + 4, slot)  # ldr x16, [x16, slot]; br x16
        return bytes(code)

    def apply(self, image: bytearray, at: int, kind: int, place: int, to: int) -> None:
        if kind in (self._PREL32, self._PREL64):
            struct.pack_into("<i" if kind == self._PREL32 else "<q", image, at, to - place)
            return
        (code,) = struct.unpack_from("<I", image, at)
        if kind in (self._PAGE, self._TABLE_PAGE):
            pages = (to >> 12) - (place >> 12)
            self._require(-(1 << 20) <= pages < 1 << 20)
            code |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
        elif kind in self._JUMPS:
            words = (to - place) >> 2
            self._require(-(1 << 25) <= words < 1 << 25)
            code |= words & 0x3FFFFFF
        elif kind == self._ADD:
            code |= (to & 0xFFF) << 10
        else:
            scale = 3 if kind == self._TABLE_LOAD else self._LOADS[kind]
            code |= (to & 0xFFF) >> scale << 10
        struct.pack_into("<I", image, at, code)

    @staticmethod
    def _require(fits: bool) -> None:
        if not fits:
            raise struct.error("too far away")


RULES: dict[str, Rules] = {"x86_64": X86(), "aarch64": Arm()}
