"""Calls an op of `lod apply`; times and categories are computed by an expression."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np

from lodcli.commands.apply.arguments import Parameter, as_kind, as_value
from lodcli.commands.apply.elementwise import arithmetic
from lodcli.commands.apply.expression import TensorExpression
from lodcli.commands.apply.skipping_nulls import refusal
from lodcli.commands.apply.steps import ARITHMETIC, Step
from lodcli.expressions.digits import without_decimals
from lodcli.expressions.function_table import properties_of
from lodcli.expressions.functions import written
from lodcli.expressions.hints import as_written
from lodcli.expressions.parsing import ExpressionError
from lodcli.expressions.units import undefined
from lodcli.formats.core.errors import name_file
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import (
    InvalidDataError,
    LodError,
    NotDefinedError,
    NotFloatingError,
    NullError,
    OptionError,
    UnsupportedError,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.elementwise.elementwise import joined
from lodcli.kernels.ops.registry import OpEntry
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Decimals, Times
from lodcli.kernels.tensor.nulls import Nulls

# What errors call the second tensor, if the first has the same name.
_SECOND = "the second"
_OPERATORS: Mapping[str, type[ast.operator]] = {
    "add": ast.Add,
    "sub": ast.Sub,
    "mul": ast.Mult,
    "div": ast.Div,
}


def call(step: Step, tensors: Sequence[LoDTensor], device: str, name: str, padder: str = "") -> Any:
    """Return the result of an op.

    Args:
        padder: the op before it that made the nulls of the first tensor, for messages.
    """
    found = _of_units(step, tensors, device, name)
    if found is not None:
        return found
    if not step.entry.marks:
        tensors = [without_decimals(tensor) for tensor in tensors]
    if step.number is not None:
        with np.errstate(all="ignore"):
            return arithmetic(ARITHMETIC[step.name], tensors[0].to_device(device), step.number)
    wanted = step.described.inputs
    kinds = [wanted[min(place, len(wanted) - 1)] for place in range(len(tensors))]
    given = [_placed(step.entry, *pair, device) for pair in zip(kinds, tensors, strict=True)]
    if wanted[0].kind == "tensors":
        keywords: dict[str, Any] = {wanted[0].name: list(given)}
    else:
        pairs = zip(wanted, given, strict=True)
        keywords = {one.name: as_kind(one.kind, tensor) for one, tensor in pairs}
    keywords |= step.values
    for one in step.described.options:
        if one.kind == "value" and one.name in keywords:
            keywords[one.name] = as_value(keywords[one.name], tensors[0])
        elif one.kind == "values" and one.name in keywords:
            keywords[one.name] = [as_value(text, tensors[0]) for text in keywords[one.name]]
    try:
        return step.described.function(**keywords)
    except NotFloatingError as error:
        how = "--dtype float32 converts them first"
        if all(is_float(one.dtype) for one in tensors):  # it is an array of an option
            how = "lod cast converts them"
        if tensors[0].marks.values is not None:
            how = f"lod convert --text-levels numbers makes numbers of {tensors[0].marks.values}"
        raise OptionError(f"{error}; {how}") from None
    except NotDefinedError as error:
        number = next((n for n, one in enumerate(tensors) if one.dtype.kind == "b"), 0)
        if tensors[number].dtype.kind == "b" and number >= step.chained:
            name_file(error, step.files[number - step.chained].label)
        raise
    except NullError:
        place = next((n for n, tensor in enumerate(tensors) if tensor.nulls), None)
        if place is None:
            raise
        raise UnsupportedError(_of_nulls(step, tensors, place, name, padder)) from None
    except LodError as error:
        # The file that the message will name holds the tensor of the first step.
        if step.chained and f"{step.name}:" not in str(error):
            error.args = (f"{step.name}: {error}", *error.args[1:])
        raise
    except (ValueError, OverflowError) as error:
        # Errors of NumPy, such as for an array that is too large.
        raise InvalidDataError(f"{step.name}: {error}") from error


def _of_nulls(step: Step, tensors: Sequence[LoDTensor], place: int, name: str, padder: str) -> str:
    """Return the message for nulls of one of the tensors; `name` and `padder`: see `call`."""
    if padder and not place:
        where = tensors[0].nulls.first(tensors[0].lod)
        said = f"{where} after {padder}, and {step.name} takes no nulls; give {padder} --pad-value"
    else:
        knows = f"lod apply {quote(f'{step.name}({as_written(name)})')} computes with them"
        remedy = knows if properties_of(step.name).reduces and not step.chained else ""
        said = refusal(step.name, tensors[place], remedy)
    if len(tensors) > 1 and place >= step.chained:  # else there is one file, which is named
        file = step.files[place - step.chained]
        said = ": ".join([file.label, *([file.name] if file.name else []), said])
    return said


def _of_units(step: Step, tensors: Sequence[LoDTensor], device: str, name: str) -> LoDTensor | None:
    """Return the result of an expression of times, categories and decimals.

    Args:
        name: of the first tensor, for messages.

    Returns:
        None: the op takes the values as they are.

    Raises:
        OptionError: the op is not defined for them.
    """
    units = [tensor.marks.unit for tensor in tensors]
    marked = any(isinstance(unit, Times | Categories) for unit in units)
    if not marked and any(isinstance(unit, Decimals) for unit in units):
        refused = any(one.nulls for one in tensors) and step.number is None
        marked = step.entry.nulls or not refused
    if not marked or step.entry.package is not None:
        return None
    known = properties_of(step.name)
    of_decimals = isinstance(units[0], Decimals) and known.digits
    first, *others = tensors
    second = (step.files[-1].name or "") if others else ""
    if step.name in ARITHMETIC:
        named, tree = _as_operator(step, first, others, name, second)
    elif of_decimals or (known.times and isinstance(units[0], Times)):
        if first.nulls and not step.entry.nulls:
            return None  # which the op refuses
        named, tree = {name: first}, _as_function(step, first, name)
    else:
        wanted = step.described.inputs
        for place, unit in enumerate(units):
            own = wanted[min(place, len(wanted) - 1)]
            why = undefined(step.name, as_written(name), unit, picks=step.entry.marks)
            if why and not step.entry.is_index(own.name):
                raise OptionError(why)
        return None
    try:
        expression = TensorExpression("", tree)
        expression.check(schema_of(named))
        return expression.of({name: item.to_device(device) for name, item in named.items()})
    except ExpressionError as error:
        said = str(error).partition(": ")[2]
        sign, _, rest = said.partition(" ")
        if step.name in ARITHMETIC and sign == written(ARITHMETIC[step.name]):
            said = f"{step.name} {rest}"
        begins = "" if said.startswith(f"{step.name} ") else f"{step.name}: "
        if second:
            said = said.replace(as_written(_SECOND), as_written(second))
        failed = OptionError(f"{begins}{said}")
        if others:  # else there is one file, which will be named
            name_file(failed, ", ".join(dict.fromkeys(one.label for one in step.files)))
        raise failed from None


def _as_operator(
    step: Step, first: LoDTensor, others: Sequence[LoDTensor], name: str, second: str
) -> tuple[dict[str, LoDTensor], ast.expr]:
    """Return the tensors of `+`, `-`, `*` or `/` by the names in errors, and the expression."""
    names = (name, _SECOND if second in ("", name) else second)
    named = {names[0]: first}
    for tensor in others:
        level = step.values.get("level", -1)
        if joined(first, tensor, level, f"sequence_{step.name}") is not None:
            tensor = _under(first.lod.above(level), tensor)
        named[names[1]] = tensor
    one, other = (_reference(name) for name in names)
    if step.number is not None:
        other = ast.Constant(step.number)
    return named, ast.BinOp(one, _OPERATORS[step.name](), other)


def _as_function(step: Step, tensor: LoDTensor, name: str) -> ast.expr:
    """Return the call of a function with the options of an op."""
    values = {key: value for key, value in step.values.items() if key != "backend"}
    if isinstance(values.get("pad_value"), str):
        values["pad_value"] = as_value(values["pad_value"], tensor)
    for key, value in values.items():  # no time is nan
        if isinstance(value, float) and not math.isfinite(value):
            values[key] = str(value)
    options = [ast.keyword(key, ast.Constant(value)) for key, value in values.items()]
    return ast.Call(ast.Name(step.name, ast.Load()), [_reference(name)], options)


def _reference(name: str) -> ast.expr:
    """Return the part of an expression that names a tensor."""
    return ast.Call(ast.Name("tensor", ast.Load()), [ast.Constant(name)], [])


def _under(lod: LoD, tensor: LoDTensor) -> LoDTensor:
    """Return the rows of a tensor under an index, of which it has all levels or none."""
    masks = tensor.nulls.masks
    missing = [None] * (lod.n_levels + 1 - len(masks))
    nulls = Nulls.of([*missing, *masks]) if masks else tensor.nulls
    return LoDTensor(tensor.values, lod, tensor.marks, nulls)


def _placed(entry: OpEntry, own: Parameter, tensor: LoDTensor, device: str) -> LoDTensor:
    """Return a tensor on the device, unless it is an array that describes an index."""
    stays = own.kind == "array" and entry.is_index(own.name)
    return tensor if stays else tensor.to_device(device)
