"""Parameters of an op, for dispatchers of other libraries: the kind and default of each."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from lodcli.kernels.ops.registry import OpEntry

_KINDS = {
    "LoDTensor": "tensor",
    "Sequence[LoDTensor]": "tensors",
    "npt.ArrayLike": "array",
    "npt.ArrayLike | None": "array?",
    "int": "int",
    "int | str": "int",
    "int | str | None": "int?",
    "float": "float",
    "float | None": "float?",
    "float | str | None": "float?",
    "bool": "bool",
    "Align": "str",
    "Side": "str",
    "Tail": "str",
    "Pair": "int[]",
    "Quad": "int[]",
}
# Left out: the output array, the backend, and level names and indexes of a LoDTensor.
_LEFT_OUT = ("out", "backend", "name", "above")
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """A parameter of an op.

    Attributes:
        name: its name in the signature of the op.
        kind: "tensor" is a LoDTensor; "array" an array of any library; else a plain value.
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
    return tuple(
        Parameter(each.name, _KINDS[each.annotation], each.default, each.kind is each.KEYWORD_ONLY)
        for each in inspect.signature(entry.load()).parameters.values()
        if each.name not in _LEFT_OUT
    )
