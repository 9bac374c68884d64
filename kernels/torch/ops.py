"""The sequence ops on nested tensors of torch, tracked by autograd: one function for each op.

They are made from the registry of ops on first access: `softmax`, `sum`, `concat`, ..
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence

from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from lodcli.kernels.ops.parameters import REQUIRED
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.platform.processes import held_during_forks
from lodcli.kernels.runtime.arrays import in_native_order
from lodcli.kernels.runtime.threads import limited_threads
from lodcli.kernels.tensor.exchange.torch import Varlen, rows_from_torch, rows_to_torch
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.torch.autograd import refuse_transforms
from lodcli.kernels.torch.custom_ops import CustomOp, custom_op
from lodcli.kernels.torch.ragged import Ragged, jagged, ragged

# Held while an op is registered: registering it twice would invalidate the first registration.
_registering = held_during_forks(threading.RLock())

_EXPECTED = {"int": "a whole number", "float": "a number", "bool": "True or False", "str": "a text"}


def __getattr__(name: str) -> Any:
    entry = OPS.get(name)
    if entry is None or not entry.tracked:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _registering:
        if name not in globals():
            globals()[name] = _function(custom_op(name))
    return globals()[name]


def _function(op: CustomOp) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        return _applied(op, args, named)

    entry = op.entry
    call.__name__ = call.__qualname__ = entry.name
    call.__module__ = "lodcli.torch"
    said = entry.load().__doc__ or ""
    if not any(each.kind.startswith("tensor") for each in op.parameters):
        said = said.replace(".data.tolist()", ".values().tolist()")  # a nested tensor returns
    call.__doc__ = re.sub(rf"\bsequence_{entry.name}\b", entry.name, said)
    return call


def _applied(op: CustomOp, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    if _has_lod_tensor(args) or _has_lod_tensor(named.values()):
        return _of_lod_tensors(op, args, named)
    refuse_transforms(op.entry.name, args, tuple(named.values()))
    given = _bound(op, args, named)
    flat: list[Any] = []
    forms: dict[str, Ragged] = {}
    leading: Ragged | None = None
    for each in op.parameters:
        value = given[each.name]
        if each.kind == "tensor":
            form = forms[each.name] = ragged(value, each.name)
            flat += [form.rows, form.offsets]
            if leading is None and form.offsets is not None:
                leading = form
        elif each.kind == "tensors":
            if type(value) not in (list, tuple):  # a PackedSequence is a named tuple
                raise InvalidDataError(
                    f"{op.entry.name}: {each.name}: expected a list of tensors, found "
                    f"{type(value).__name__}"
                )
            many = [ragged(one, f"{each.name}[{place}]") for place, one in enumerate(value)]
            dense = [place for place, one in enumerate(many) if one.offsets is None]
            if 0 < len(dense) < len(many):
                raise InvalidDataError(
                    f"{op.entry.name}: {each.name}[{dense[0]}]: expected sequences as in the "
                    "others, found a dense tensor"
                )
            flat += [
                [one.rows for one in many],
                [one.offsets for one in many if one.offsets is not None],
            ]
            if not many:
                raise InvalidDataError(f"{op.entry.name}: {each.name}: expected at least one")
            leading = leading or many[0]
        elif each.kind in ("array", "array?"):
            flat.append(_as_tensor(value, f"{op.entry.name}: {each.name}"))
        elif isinstance(value, str) and each.name.endswith("level"):
            raise SelectionError(
                f"{op.entry.name}: {each.name}: torch's forms have no names of levels, found "
                f"{value!r}; give its number, or a LoDTensor"
            )
        elif expected := _misfit(each.kind, value):
            raise InvalidDataError(
                f"{op.entry.name}: {each.name}: expected {expected}, found {value!r}"
            )
        else:
            flat.append(value)
    rows, offsets = op.forward(*flat)
    kept = op.entry.kept(given)
    if kept:
        return forms[kept].back(rows[0])
    make = jagged if leading is None else leading.make
    return _formed(op, rows, offsets, make)


def _formed(op: CustomOp, rows: Any, offsets: Any, make: Any) -> Any:
    """Return results with a new index in the form of the argument of the op."""
    if not offsets:
        return tuple(rows) if op.several else rows[0]
    if len(offsets) != len(rows):
        raise UnsupportedError(
            f"{op.entry.name}: the result has {len(offsets) // len(rows)} levels, torch's "
            "forms hold 1; give a LoDTensor"
        )
    found = [make(*pair) for pair in zip(rows, offsets)]  # noqa: B905  torch.compile
    return tuple(found) if op.several else found[0]


def _has_lod_tensor(values: Any) -> bool:
    for each in values:
        if isinstance(each, LoDTensor):
            return True
        if type(each) in (list, tuple) and _has_lod_tensor(each):
            return True
    return False


def _bound(op: CustomOp, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name. Not by inspect.signature, which torch.compile cannot trace."""
    places = [each.name for each in op.parameters if not each.keyword]
    if len(args) > len(places):
        raise TypeError(
            f"{op.entry.name}() takes {len(places)} positional arguments, {len(args)} were given"
        )
    given = dict(zip(places, args))  # noqa: B905
    known = [each.name for each in op.parameters]
    for name, value in named.items():
        if name not in known or name in given:
            why = "an unexpected argument" if name not in known else "several values for argument"
            raise TypeError(f"{op.entry.name}() got {why} {name!r}")
        given[name] = value
    for each in op.parameters:
        if each.name not in given:
            if each.default is REQUIRED:
                raise TypeError(f"{op.entry.name}() needs the argument {each.name!r}")
            given[each.name] = each.default
    return given


def _misfit(kind: str, value: Any) -> str:
    """Return the expected type if the schema of torch does not accept a value, else ""."""
    if value is None:
        wrong = not kind.endswith("?")
    elif kind.startswith("int"):
        wrong = isinstance(value, str | float | list | tuple)
    else:
        wrong = isinstance(value, str | list | tuple) and kind.rstrip("?") in ("float", "bool")
    return _EXPECTED.get(kind.rstrip("?"), "") if wrong else ""


def _as_tensor(value: Any, what: str) -> torch.Tensor | None:
    if value is None or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, np.ndarray) and not _is_torchs(value):
        value = rows_to_torch(in_native_order(value))
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidDataError(f"{what}: no tensor can be made of it: {error}") from None


def _is_torchs(array: Any) -> bool:
    """Return whether torch can use an array without conversion."""
    dtype, strides = array.dtype, array.strides
    return bool(dtype.isnative and dtype.kind != "V" and all(step >= 0 for step in strides))


def _of_lod_tensors(op: CustomOp, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call the op of lodcli.ops itself; autograd does not track a LoDTensor."""

    def plain(value: Any) -> Any:
        if type(value) in (list, tuple):
            return [plain(each) for each in value]
        if not isinstance(value, torch.Tensor | PackedSequence | Varlen):
            return value
        if not isinstance(value, torch.Tensor) or value.is_nested:
            found = "nested tensor" if isinstance(value, torch.Tensor) else type(value).__name__
            raise InvalidDataError(
                f"{op.entry.name}: expected LoDTensors only, found a {found} as well; "
                "LoDTensor.from_torch makes a LoDTensor of one that is not tracked"
            )
        return rows_from_torch(value.detach().cpu())

    with limited_threads(torch.get_num_threads()):
        return op.entry.load()(
            *map(plain, args), **{name: plain(value) for name, value in named.items()}
        )
