"""Write the type stubs of the public modules: python -m tests.make_stubs

Each name is imported from the module that defines it, since type checkers do not follow
`__getattr__`. tests/lodcli/test_public.py checks that the files are up to date.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path

from lodcli.kernels.ops.parameters import REQUIRED, parameters_of
from lodcli.kernels.ops.registry import OPS

ROOT = Path(__file__).parent.parent
STUBS = {
    "lodcli": "lodcli/__init__.pyi",
    "lodcli.dask": "lodcli/dask.pyi",
    "lodcli.errors": "lodcli/errors.pyi",
    "lodcli.formats": "formats/__init__.pyi",
    "lodcli.ops": "lodcli/ops.pyi",
    "lodcli.rnn": "lodcli/rnn.pyi",
    "lodcli.testing": "lodcli/testing.pyi",
    "lodcli.torch": "lodcli/torch.pyi",
}
_FIRST = "# Made by `python -m tests.make_stubs` of the module beside it: change that one.\n"
_WIDTH = 100


def homes_of(module: str) -> Mapping[str, tuple[str, str]]:
    """Return the module and the name that define each public name of a module."""
    loaded = vars(importlib.import_module(module))
    found: Mapping[str, tuple[str, str]] = (
        loaded["_HOMES"] if "_HOMES" in loaded else loaded["_homes"]()
    )
    return found


def stub(module: str) -> str:
    """Return the text of a module's stub, formatted and sorted as ruff does."""
    homes = homes_of(module)
    imports, aliases, functions = set(), [], []
    for name, (home, attribute) in homes.items():
        if home == "lodcli.kernels.torch.ops":
            functions.append(_function(name))
            continue
        if not attribute:
            package, _, attribute = home.rpartition(".")
            imports.add((package, attribute, attribute))
        elif attribute == name:
            imports.add((home, name, name))
        else:
            known = attribute if attribute in homes else f"_{attribute}"
            imports.add((home, attribute, known))
            aliases.append(f"{name} = {known}")
    if functions:
        imports.add(("lodcli.kernels.tensor.lod_tensor", "LoDTensor", "LoDTensor"))
    lines = [
        _import(*each)
        for each in sorted(imports, key=lambda each: (each[0], _order(each[1])[0], each[1].lower()))
    ]
    if aliases:
        lines += ["", *sorted(aliases)]
    if functions:
        lines = [_IMPORTS, *lines, "", _FORMS, *functions]
    listed = importlib.import_module(module).__all__
    if "__version__" in listed:
        lines += ["", "__version__: str"]
    quoted = "".join(f'    "{name}",\n' for name in sorted(listed, key=_order))
    return _FIRST + "\n".join(lines) + f"\n\n__all__ = [\n{quoted}]\n"


_IMPORTS = """from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy.typing as npt
import torch
from torch.nn.utils.rnn import PackedSequence
"""
# The types of sequences that the ops for torch accept. A type variable accepts a union only if it
# is listed; with a bound instead, an op of a Parameter would return a Parameter.
_FORMS = """_Padded = tuple[torch.Tensor, npt.ArrayLike]
_Torch = torch.Tensor | PackedSequence | Varlen | _Padded
_Ragged = _Torch | LoDTensor
_Either = torch.Tensor | LoDTensor
_Given = TypeVar(
    "_Given", torch.Tensor, LoDTensor, PackedSequence, Varlen, _Padded, _Either, _Ragged
)
"""
_TYPES = {
    "tensor": "_Ragged",
    "tensors": "Sequence[_Ragged]",
    "array": "torch.Tensor | npt.ArrayLike",
    "array?": "torch.Tensor | npt.ArrayLike | None",
    "int": "int",
    "int?": "int | None",
    "float?": "float | None",
    "int[]": "Sequence[int]",
}


# The results of an op for torch that are sequences, by those of the op: in the form given.
_RESULTS = {
    "LoDTensor": "_Given",
    "list[LoDTensor]": "Sequence[_Given]",
    "tuple[LoDTensor, LoDTensor]": "tuple[_Given, _Given]",
}


def _function(name: str) -> str:
    """Return the stub of an op for torch: sequences are returned in the form they are given in.

    That is the form of the argument whose index the result has, or else of the first. An op with
    one row per sequence returns tensors of torch, or, of LoDTensors, what the op returns.
    """
    entry = OPS[name]
    result = inspect.signature(entry.load()).return_annotation
    tensors = [p.name for p in parameters_of(entry) if p.kind in ("tensor", "tensors")]
    if not tensors:
        return _signature(name, "", "", "torch.Tensor")
    if not entry.pools:
        return _signature(name, entry.keeps or tensors[0], "_Given", _RESULTS[result])
    arrays = re.sub(r"\b(Array|Offsets)\b", "npt.NDArray[Any]", result)
    rows = re.sub(r"\b(LoDTensor|Array|Offsets)\b", "torch.Tensor", result)
    forms = [("LoDTensor", arrays), ("_Torch", rows)]
    found = [_signature(name, "", form, made) for form, made in forms]
    return "\n".join(f"@overload\n{each}" for each in found)


def _signature(name: str, argument: str, form: str, result: str) -> str:
    """Return the stub of an op whose tensors are of any form but one, or, without, all of one."""
    parts, starred = [], False
    for each in parameters_of(OPS[name]):
        if each.keyword and not starred:
            starred = True
            parts.append("*")
        kind = _TYPES.get(each.kind, each.kind)
        if each.name == argument or not argument:
            kind = kind.replace("_Ragged", form)
        quoted = repr(each.default).replace("'", '"')
        default = "" if each.default is REQUIRED else f" = {quoted}"
        parts.append(f"{each.name}: {kind}{default}")
    line = f"def {name}({', '.join(parts)}) -> {result}: ..."
    if len(line) <= _WIDTH:
        return line
    whole = "".join(f"    {part},\n" for part in parts)
    return f"def {name}(\n{whole}) -> {result}: ..."


def _import(home: str, attribute: str, name: str) -> str:
    line = f"from {home} import {attribute} as {name}"
    if len(line) <= _WIDTH:
        return line
    return f"from {home} import (\n    {attribute} as {name},\n)"


def _order(name: str) -> tuple[int, str]:
    return 0 if name.isupper() else 1 if name[0].isupper() else 2, name


def main() -> None:
    for module, path in STUBS.items():
        (ROOT / path).write_text(stub(module), encoding="utf-8")
        print(os.fspath(path))


if __name__ == "__main__":
    main()
