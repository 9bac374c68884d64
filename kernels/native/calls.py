"""Calls of compiled kernels from Python.

A kernel takes the address of its arguments and a range of pieces. It is called through a builtin
function made of compiled code (python_numba.py), if this Python has the object layout that the code
relies on; else through ctypes, with the arguments packed by struct.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.index.immutable import Array
from lodcli.kernels.native.linking.library import RAISED, Entry

_Call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
_DATA_AT = 16
_MOST_WORDS = 64 - 4
_KINDS = {"q": 0, "b": 0, "d": 1, "p": 0}


class Bridge(NamedTuple):
    """Addresses of the compiled functions of python_numba.py.

    Attributes:
        call: address of `from_python`.
        keep: address of `keep`.
    """

    call: int
    keep: int


class Kernel:
    """A compiled kernel.

    Attributes:
        call: call(first, last, *arguments) runs those pieces and returns the status. Arrays must
            be C-contiguous; None is a null pointer. The GIL is released.
        pack: pack(*arguments) returns an array of the argument words; the caller must keep arrays
            among the arguments alive.
        address: address of its code.
    """

    __slots__ = ("_code", "_packed", "_words", "address", "call", "name", "pack")

    def __init__(self, name: str, entry: Entry, *, checked: bool, bridge: Bridge | None) -> None:
        self.name = name
        self.address = entry.address
        self._words = entry.arguments
        self._packed = struct.Struct(
            "".join({"d": "d", "p": "qq" if checked else "q"}.get(w[0], "q") for w in self._words)
        ).pack
        self._code = _Call(entry.address)
        self.pack: Callable[..., Array] = self._pack_checked if checked else self._pack
        self.call: Callable[..., int] = self._checked_call if checked else self._plain_call
        if bridge is not None and not checked and len(self._words) <= _MOST_WORDS:
            self.call = _builtin(entry, bridge.call)
            keep = _builtin(Entry(bridge.keep, self._words), bridge.call)
            self.pack = partial(_kept, keep, len(self._words))

    def _pack(self, *arguments: Any) -> Array:
        return np.frombuffer(self._packed(*map(_word, arguments)), np.int64)

    def _pack_checked(self, *arguments: Any) -> Array:
        """Return the argument words with the size of each array; checks dtype and contiguity."""
        words: list[Any] = []
        for number, (kind, value) in enumerate(zip(self._words, arguments, strict=True)):
            words.append(_word(value))
            if kind[0] == "p":
                words.append(_elements(value, kind[1:], f"{self.name}: argument {number}"))
        return np.frombuffer(self._packed(*words), np.int64)

    def _plain_call(self, first: int, last: int, *arguments: Any) -> int:
        status: int = self._code(self._packed(*map(_word, arguments)), first, last)
        return status

    def _checked_call(self, first: int, last: int, *arguments: Any) -> int:
        return self.settled(self._code(self._pack_checked(*arguments).tobytes(), first, last))

    def settled(self, status: int) -> int:
        """Return a status. Raises IndexError if the kernel found an index out of bounds."""
        if status == RAISED:
            raise IndexError(f"kernel {self.name}: an index is out of bounds of an array argument")
        return status


def address(array: Array) -> int:
    """Return the address of an array's data, in a tenth of the time of `ctypes.data`."""
    if _knows_arrays():
        return _word_at(id(array) + _DATA_AT).value
    return int(array.__array_interface__["data"][0])


_word_at = ctypes.c_int64.from_address


def _word(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return address(value)
    return 0 if value is None else value


def _kept(keep: Callable[..., int], count: int, *arguments: Any) -> Array:
    """Return `count` arguments packed by compiled code; for an RNN it takes a tenth of the time."""
    block = np.empty(count, np.int64)
    keep(address(block), count, *arguments)
    return block


def _elements(value: Any, dtype: str, what: str) -> int:
    """Return the number of elements of an array argument; 0 for None.

    The size behind a bare address is unknown, so all indices are allowed.
    """
    if value is None:
        return 0
    if not isinstance(value, np.ndarray):
        return 1 << 62
    if value.dtype != dtype or not value.flags.c_contiguous:
        raise TypeError(f"{what}: expected a C-contiguous array of {dtype}, found {value.dtype}")
    return value.size


@cache
def _knows_arrays() -> bool:
    """Return whether an array's data pointer is at the offset that compiled extensions use."""
    if not _is_plain_cpython():
        return False
    probe = np.arange(3)
    return bool(_word_at(id(probe) + _DATA_AT).value == probe.__array_interface__["data"][0])


def _is_plain_cpython() -> bool:
    """Return whether objects have the header of a CPython with a GIL."""
    return (
        sys.implementation.name == "cpython"
        and object.__basicsize__ == 16
        and bytes.__basicsize__ == 33
    )


# -- Builtin functions made of compiled code -------------------------------------------


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x80
_MESSAGE = ctypes.create_string_buffer(b"a kernel got another number of arguments than it takes")
# Never freed: builtin functions refer to them.
_methods: dict[int, _Method] = {}


@cache
def _table() -> Any:
    """Return the table of functions and types for `from_python`, in the order it defines."""
    api = ctypes.pythonapi

    def at(name: str) -> int:
        return ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0

    return (ctypes.c_int64 * 64)(
        at("PyLong_AsLongLong"),
        at("PyFloat_AsDouble"),
        at("PyErr_Occurred"),
        at("PyEval_SaveThread"),
        at("PyEval_RestoreThread"),
        at("PyLong_FromLongLong"),
        at("PyErr_SetString"),
        id(TypeError),
        ctypes.addressof(_MESSAGE),
        id(np.ndarray),
        at("PyType_IsSubtype"),
        id(None),
        id(int),
    )


def can_bridge() -> bool:
    """Return whether this Python can call kernels as builtin functions."""
    return _knows_arrays()


def _builtin(entry: Entry, bridge: int) -> Callable[..., int]:
    """Return a builtin function that calls a kernel; `bridge` is from_python's address."""
    words = [_KINDS[each[0]] for each in entry.arguments]
    described = struct.pack(
        f"{3 + len(words)}q", entry.address, len(words), ctypes.addressof(_table()), *words
    )
    if bridge not in _methods:
        _methods[bridge] = _Method(b"kernel", bridge, _FASTCALL, None)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made = make(("PyCFunction_NewEx", ctypes.pythonapi))
    return made(ctypes.addressof(_methods[bridge]), described, None)  # type: ignore[no-any-return]
