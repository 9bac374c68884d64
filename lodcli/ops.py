"""The sequence ops by the names of `lod apply`, and their gradients.

`softmax` and `sequence_softmax` are the same function, and its gradient is `softmax_grad` or
`sequence_softmax_grad`. `from lodcli.ops import *` imports only the long names, because the short
ones would hide Python's `sum`, `max` and `slice`.

Derived from the table of ops, kernels/ops/registry.py.

>>> import lodcli
>>> words = lodcli.LoDTensor([1.0, 2.0, 3.0], [[2, 1]])
>>> lodcli.ops.sum(words).data.tolist()
[3.0, 3.0]
"""

from __future__ import annotations

from lodcli.kernels.lazy_names import Home, by_module, lazy_names
from lodcli.kernels.ops.registry import OPS


def _homes() -> dict[str, Home]:
    homes = by_module(
        {
            "lodcli.kernels.ops.plugins": "Op find_op",
            "lodcli.kernels.ops.registry": "OPS OpEntry",
            "lodcli.kernels.runtime.dispatch": "Backend",
        }
    )
    for op in OPS.values():
        found = {"": f"{op.module}.{op.function}"}
        if op.gradient is not None:
            found["_grad"] = op.gradient
        for ending, path in found.items():
            module, _, function = path.rpartition(".")
            home = f"lodcli.kernels.ops.{module}", function
            homes[f"{op.function}{ending}"] = homes[f"{op.name}{ending}"] = home
    return homes


__all__ = sorted(
    name
    for name, (_, attribute) in _homes().items()
    if name == attribute or name.startswith("sequence_")
)
__getattr__, __dir__ = lazy_names(__name__, _homes)
