"""Parameters of an op, for dispatchers of other libraries: the kind and default of each."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

from lodcli.kernels.ops.kinds import kind_of
from lodcli.kernels.ops.registry import OpEntry

# The kinds of kinds.py that torch has under other names.
_IN_TORCH = {"level": "int", "value": "float", "choice": "str", "ints": "int[]"}
# Left out: the output array, the backend, and level names and indexes of a LoDTensor.
_LEFT_OUT = ("out", "backend", "name", "above")
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """A parameter of an op.

    Attributes:
        name: its name in the signature of the op.
        kind: "tensor" is a LoDTensor; "array" an array of any library; else a plain value. With
            "?" at its end it may be None.
        default: REQUIRED if there is none.
        keyword: whether it is keyword-only.
    """

    name: str
    kind: str
    default: Any
    keyword: bool


def parameters_of(entry: OpEntry) -> tuple[Parameter, ...]:
    """Return the parameters of an op, without `out`, `backend`, `name` and `above`.

    >>> from lodcli.kernels.ops.registry import OPS
    >>> [(each.name, each.kind) for each in parameters_of(OPS["softmax"])]
    [('tensor', 'tensor'), ('level', 'int')]
    """
    function = entry.load()
    hints = get_type_hints(function)
    return tuple(
        Parameter(each.name, _kind(hints[each.name]), each.default, each.kind is each.KEYWORD_ONLY)
        for each in inspect.signature(function).parameters.values()
        if each.name not in _LEFT_OUT
    )


def _kind(hint: Any) -> str:
    kind = kind_of(hint)
    return _IN_TORCH.get(kind, kind) + "?" * (NoneType in get_args(hint))
