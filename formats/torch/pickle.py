"""Interprets the pickle of a .pt file without executing it.

A pickle is a program for a stack machine. This interpreter executes the instructions that make
numbers, text and containers. Of the functions that a pickle may call, it supports only those that
describe torch's tensors, in lod's implementation (see `calls`). So files of all versions of torch
are read in the same way, without torch.
"""

from __future__ import annotations

import pickletools
from typing import Any

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.torch.calls import CALLED, CLASSES, Calls, Global, Ignored, Refused, is_kind
from lodcli.kernels.errors import LodError, UnsupportedError

_MARK = object()


class Interpreter:
    """Interprets one pickle.

    Args:
        calls: implements the functions that it calls.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._refused: dict[str, Refused] = {}

    def value(self, raw: bytes) -> Any:
        """Return the content of a pickle: arrays, Jagged, Packed, numbers, text, containers.

        A Refused is the placeholder for every other object.

        Raises:
            UnsupportedError: it has instructions that are not supported.
            DamagedFileError: it is not a complete pickle.
        """
        try:
            for code, argument, _ in pickletools.genops(raw):
                if code.name == "STOP":
                    (result,) = self._stack
                    return result
                step = getattr(self, f"_op_{code.name.lower()}", None)
                if step is None:
                    raise UnsupportedError(
                        f"has the instruction {code.name}, which torch.save never writes"
                    )
                step(argument)
        except LodError:
            raise
        except Exception as error:  # any error of pickletools, or an empty stack
            what = " ".join(str(error).split())[:160] or type(error).__name__
            raise DamagedFileError(f"is not a complete pickle ({what})") from None
        raise DamagedFileError("is not a complete pickle")

    # -- instructions, with the names of pickletools -------------------------------------

    def _op_proto(self, version: int) -> None:
        if version != 2:
            raise UnsupportedError(
                f"is a pickle of protocol {version}; write it with protocol 2, as torch.save does "
                "without pickle_protocol"
            )

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    _op_binint = _op_binint1 = _op_binint2 = _op_long1 = _op_binfloat = _op_binunicode = _push

    def _op_none(self, _: None) -> None:
        self._push(None)

    def _op_newtrue(self, _: None) -> None:
        self._push(True)

    def _op_newfalse(self, _: None) -> None:
        self._push(False)

    def _op_mark(self, _: None) -> None:
        self._push(_MARK)

    def _op_empty_list(self, _: None) -> None:
        self._push([])

    def _op_empty_dict(self, _: None) -> None:
        self._push({})

    def _op_empty_tuple(self, _: None) -> None:
        self._push(())

    def _since_mark(self) -> list[Any]:
        stack = self._stack
        place = len(stack) - 1
        while stack[place] is not _MARK:
            place -= 1
        taken = stack[place + 1 :]
        del stack[place:]
        return taken

    def _last(self, count: int) -> list[Any]:
        taken = self._stack[-count:]
        if len(taken) < count or any(value is _MARK for value in taken):
            raise DamagedFileError("is not a complete pickle (a tuple of too few)")
        del self._stack[-count:]
        return taken

    def _op_tuple(self, _: None) -> None:
        self._push(tuple(self._since_mark()))

    def _op_tuple1(self, _: None) -> None:
        self._push(tuple(self._last(1)))

    def _op_tuple2(self, _: None) -> None:
        self._push(tuple(self._last(2)))

    def _op_tuple3(self, _: None) -> None:
        self._push(tuple(self._last(3)))

    def _op_append(self, _: None) -> None:
        (value,) = self._last(1)
        self._extend([value])

    def _op_appends(self, _: None) -> None:
        self._extend(self._since_mark())

    def _extend(self, values: list[Any]) -> None:
        if isinstance(self._stack[-1], Refused):  # of a class derived from list
            return
        if not isinstance(self._stack[-1], list):
            raise DamagedFileError("appends to what is not a list")
        self._stack[-1].extend(values)

    def _op_setitem(self, _: None) -> None:
        self._set(self._last(2))

    def _op_setitems(self, _: None) -> None:
        self._set(self._since_mark())

    def _set(self, pairs: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, Refused):  # of a class derived from dict
            return
        if not isinstance(target, dict) or len(pairs) % 2:
            raise DamagedFileError("sets items of what is not a dict")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            # No tuples: hashing deeply nested ones could overflow the stack.
            if isinstance(key, str | int | float | None | Refused):
                target[key] = value
            else:
                reason = f"a dict with a key that is a {type(key).__name__}; expected names"
                target[Refused(reason)] = value

    def _op_binput(self, place: int) -> None:
        self._memo[place] = self._stack[-1]

    _op_long_binput = _op_binput

    def _op_binget(self, place: int) -> None:
        self._push(self._memo[place])

    _op_long_binget = _op_binget

    def _op_global(self, name: str) -> None:
        if name in CALLED or name in CLASSES or is_kind(name):
            self._push(Global(name))
            return
        reason = (
            f"refers to {ascii(name)[1:-1][:100].replace(' ', '.')}; only tensors, "
            f"lists, tuples and dicts are read{_remedy(name)}"
        )
        # One Refused per name: a pickle may name the class again for every object.
        self._push(self._refused.setdefault(name, Refused(reason)))

    def _op_binpersid(self, _: None) -> None:
        (reference,) = self._last(1)
        self._push(self._calls.storage(reference))

    def _op_reduce(self, _: None) -> None:
        function, arguments = self._last(2)
        self._push(self._calls.call(function, arguments))

    _op_newobj = _op_reduce

    def _op_build(self, _: None) -> None:
        self._last(1)  # attributes, such as _metadata of a state dict
        if not isinstance(self._stack[-1], dict | Ignored | Refused):
            raise DamagedFileError("sets attributes of a value that has none")


SAVE_MODULE = "save module.state_dict()"
# What to save in place of some objects, by the beginning of their names.
_INSTEAD = {
    "numpy": "save arrays with torch.from_numpy(array)",
    "torch._utils _rebuild_sparse_tensor": "save tensor.to_dense(), or the parts of a CSR tensor: "
    "values(), crow_indices() as offsets and col_indices()",
    "torch._utils _rebuild_qtensor": "save tensor.dequantize()",
    "torch._utils _rebuild_meta_tensor_no_storage": "a tensor on the device meta has no values",
    "torch.nn.modules": SAVE_MODULE,
    "torch_geometric": "save data.to_dict()",
    "tensordict": "save td.to_dict()",
}


def _remedy(name: str) -> str:
    found = next((said for start, said in _INSTEAD.items() if name.startswith(start)), None)
    return "" if found is None else f"; {found}"
