"""Damage to a pickle: one of its integers, texts or opcodes changed, in its own encoding."""

from __future__ import annotations

import pickletools

import numpy as np

from tests.reliability.mutators.generic import Mutator, extreme

_WIDTHS = {"BININT": 4, "BININT1": 1, "BININT2": 2, "BINPUT": 1, "BINGET": 1, "LONG_BINPUT": 4}
_WIDTHS |= {"LONG_BINGET": 4, "PROTO": 1}
_LONGS, _TEXTS = ("LONG1",), ("BINUNICODE",)
# Which have no argument: any can stand where another stood.
_BARE = b"(.}])tuseabRQN\x81\x85\x86\x87\x88\x8902l"
_NAMES: tuple[bytes, ...] = (
    b"FloatStorage",
    b"ByteStorage",
    b"ComplexDoubleStorage",
    b"HalfStorage",
    b"cuda:0",
)
_NAMES += (b"cpu", b"0", b"1", b"data", b"lod.0", b"_rebuild_tensor_v2", b"\xff")


def _pieces(raw: bytes) -> list[tuple[str, int, int]]:
    """Return name, start and end of each opcode."""
    found = [(code.name, at) for code, _, at in pickletools.genops(raw) if at is not None]
    ends = [at for _, at in found[1:]] + [len(raw)]
    return [(name, at, end) for (name, at), end in zip(found, ends, strict=True)]


def change_an_argument(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change an integer: an extent, a stride, a place in a storage, a number of the memo."""
    pieces = [one for one in _pieces(raw) if one[0] in (*_WIDTHS, *_LONGS)]
    name, start, end = pieces[int(rng.integers(len(pieces)))]
    if name in _LONGS or (name == "BININT1" and rng.random() < 0.3):
        value = int.from_bytes(raw[start + 1 : end], "little")
        put = extreme(value, 8, rng, len(raw))
        return raw[:start] + b"\x8a\x09" + put.to_bytes(9, "little") + raw[end:]
    width = _WIDTHS[name]
    value = int.from_bytes(raw[start + 1 : start + 1 + width], "little")
    put = extreme(value, width, rng, len(raw))
    return raw[: start + 1] + put.to_bytes(width, "little") + raw[end:]


def change_a_text(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change a text: the name of a key, of a storage, of a device."""
    pieces = [one for one in _pieces(raw) if one[0] in _TEXTS]
    if not pieces:
        return change_an_argument(raw, rng)
    _, start, end = pieces[int(rng.integers(len(pieces)))]
    put = _NAMES[int(rng.integers(len(_NAMES)))]
    if rng.random() < 0.5:
        _, other, stop = pieces[int(rng.integers(len(pieces)))]
        put = raw[other + 5 : stop]
    return raw[: start + 1] + len(put).to_bytes(4, "little") + put + raw[end:]


def change_a_global(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change a name that the pickle refers to."""
    pieces = [one for one in _pieces(raw) if one[0] == "GLOBAL"]
    if not pieces:
        return change_an_argument(raw, rng)
    _, start, end = pieces[int(rng.integers(len(pieces)))]
    names = (
        *(b"torch FloatStorage", b"torch DoubleStorage", b"torch BoolStorage", b"torch Size"),
        *(b"collections OrderedDict", b"torch._utils _rebuild_tensor_v2", b"os system"),
        *(b"torch._utils _rebuild_parameter", b"torch bfloat16", b"builtins set"),
    )
    put = names[int(rng.integers(len(names)))].replace(b" ", b"\n")
    return raw[: start + 1] + put + b"\n" + raw[end:]


def rearrange_opcodes(raw: bytes, rng: np.random.Generator) -> bytes:
    """Lose, double, swap or replace an opcode."""
    pieces = _pieces(raw)
    at, other = sorted(int(rng.integers(len(pieces))) for _ in range(2))
    _, start, end = pieces[at]
    _, begin, stop = pieces[other]
    kind = int(rng.integers(4))
    if kind == 0:
        return raw[:start] + raw[end:]
    if kind == 1:
        return raw[:begin] + raw[start:end] + raw[begin:]
    if kind == 2 and end <= begin:
        return raw[:start] + raw[begin:stop] + raw[end:begin] + raw[start:end] + raw[stop:]
    put = bytes([_BARE[int(rng.integers(len(_BARE)))]])
    return raw[:start] + put + raw[end:]


PICKLE: tuple[Mutator, ...] = (
    *(change_an_argument, change_an_argument, change_a_text, change_a_global, rearrange_opcodes),
)
