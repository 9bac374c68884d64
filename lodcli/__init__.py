"""Ragged tensors: nested sequences without padding.

    import lodcli

    words = lodcli.read("words.lod.h5")
    lodcli.write("first.lod.h5", words[0:1])

What is listed in `__all__` is public; it loads when it is first used, so that a plain
`import lodcli` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
    from lodcli.formats.core.io import open_source as open
    from lodcli.formats.core.io import read, read_all, write
    from lodcli.formats.core.schema import StoredArray
    from lodcli.formats.storage.outputs import TargetExistsError
    from lodcli.kernels.errors import (
        EmptySequenceError,
        InvalidDataError,
        InvalidLoDError,
        LodError,
        SelectionError,
        ShapeMismatchError,
        UnsupportedError,
    )
    from lodcli.kernels.index.lod import LoD
    from lodcli.kernels.rnn.loops.dynamic_rnn import DynamicRNN
    from lodcli.kernels.rnn.loops.while_loop import Var, while_loop
    from lodcli.kernels.runtime.precision import float32_products
    from lodcli.kernels.tensor.lod_tensor import LoDTensor
    from lodcli.kernels.tensor.tensor_array import TensorArray
    from lodcli.kernels.tensor.time_steps import IndexMap

    __version__: str

__all__ = [
    "DamagedFileError",
    "DynamicRNN",
    "EmptySequenceError",
    "IndexMap",
    "InvalidDataError",
    "InvalidLoDError",
    "LoD",
    "LoDTensor",
    "LodError",
    "NotThisFormatError",
    "SelectionError",
    "ShapeMismatchError",
    "StoredArray",
    "TargetExistsError",
    "TensorArray",
    "UnsupportedError",
    "Var",
    "__version__",
    "float32_products",
    "open",
    "read",
    "read_all",
    "while_loop",
    "write",
]

# Where each public name lives, and what it is called there.
_HOMES = {
    "DamagedFileError": ("lodcli.formats.core.errors", "DamagedFileError"),
    "DynamicRNN": ("lodcli.kernels.rnn.loops.dynamic_rnn", "DynamicRNN"),
    "EmptySequenceError": ("lodcli.kernels.errors", "EmptySequenceError"),
    "IndexMap": ("lodcli.kernels.tensor.time_steps", "IndexMap"),
    "InvalidDataError": ("lodcli.kernels.errors", "InvalidDataError"),
    "InvalidLoDError": ("lodcli.kernels.errors", "InvalidLoDError"),
    "LoD": ("lodcli.kernels.index.lod", "LoD"),
    "LoDTensor": ("lodcli.kernels.tensor.lod_tensor", "LoDTensor"),
    "LodError": ("lodcli.kernels.errors", "LodError"),
    "NotThisFormatError": ("lodcli.formats.core.errors", "NotThisFormatError"),
    "SelectionError": ("lodcli.kernels.errors", "SelectionError"),
    "ShapeMismatchError": ("lodcli.kernels.errors", "ShapeMismatchError"),
    "StoredArray": ("lodcli.formats.core.schema", "StoredArray"),
    "TargetExistsError": ("lodcli.formats.storage.outputs", "TargetExistsError"),
    "TensorArray": ("lodcli.kernels.tensor.tensor_array", "TensorArray"),
    "UnsupportedError": ("lodcli.kernels.errors", "UnsupportedError"),
    "Var": ("lodcli.kernels.rnn.loops.while_loop", "Var"),
    "float32_products": ("lodcli.kernels.runtime.precision", "float32_products"),
    "open": ("lodcli.formats.core.io", "open_source"),
    "read": ("lodcli.formats.core.io", "read"),
    "read_all": ("lodcli.formats.core.io", "read_all"),
    "while_loop": ("lodcli.kernels.rnn.loops.while_loop", "while_loop"),
    "write": ("lodcli.formats.core.io", "write"),
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("lodcli")
    elif name in _HOMES:
        module, attribute = _HOMES[name]
        value = getattr(importlib.import_module(module), attribute)
    else:
        raise AttributeError(f"module 'lodcli' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
