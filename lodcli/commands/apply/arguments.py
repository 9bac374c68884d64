"""Shell inputs and options of an op, derived from its signature."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

import click

from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.ops.kinds import FILES, Kind, kind_of
from lodcli.kernels.ops.registry import OpEntry
from lodcli.kernels.platform.docstrings import docstring
from lodcli.kernels.runtime.arrays import array_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.shell import options
from lodcli.shell.references import parse_reference

_NUMBERS = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?|[+-]?inf|nan", re.IGNORECASE)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Parameter:
    """One parameter of an op.

    Attributes:
        name: in Python.
        required: whether it has no default.
        choices: for "choice".
        text: its description in the op's docstring; that of an option with names of the shell.
        positional: whether Python takes it by its position.
    """

    name: str
    kind: Kind
    required: bool
    default: Any = None
    choices: tuple[str, ...] = ()
    text: str = ""
    positional: bool = False

    @property
    def option(self) -> str:
        """Its name in the shell."""
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class Described:
    """Description of an op for the shell.

    Attributes:
        inputs: the parameters that are files, in the order of the command line.
        options: the others; without `backend`, and `out`, which is for arrays in memory.
        several: whether it returns several tensors.
    """

    function: Callable[..., Any]
    inputs: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    has_backend: bool
    several: bool


def described(entry: OpEntry) -> Described:
    """Return the parameters and results of an op of the registry."""
    function = entry.load()
    hints = get_type_hints(function)
    texts = _argument_texts(function)
    found = [
        _parameter(own, hints.get(own.name), texts.get(own.name, ""))
        for own in inspect.signature(function).parameters.values()
        if own.name != "out"
    ]
    wanted = [own for own in found if own.name != "backend"]
    inputs = tuple(
        own
        for place, own in enumerate(wanted)
        # An array is a file argument only if it is the only input of the op.
        if own.required and own.kind in FILES and (place == 0 or own.kind != "array")
    )
    return Described(
        function=function,
        inputs=inputs,
        options=tuple(
            replace(own, text=_shell_text(own.text, inputs, wanted))
            for own in wanted
            if own not in inputs
        ),
        has_backend=len(wanted) < len(found),
        several=get_origin(hints.get("return")) in (tuple, list),
    )


def click_option(own: Parameter) -> click.Option:
    """Return the option for a parameter; if it is not given, no value is passed to the op."""
    text = own.text
    told = "by default" in text
    if not (own.required or told) and own.default is not None and own.default != ():
        text += f" [default: {_shown(own.default)}]"
    if own.kind == "bool":
        flags = f"{own.option}/--no-{own.option[2:]}"
        return click.Option([own.name, flags], default=None, help=text.strip())
    return click.Option(
        [own.name, own.option], type=_click_type(own), required=own.required, help=text.strip()
    )


def example(entry: OpEntry, own: Described) -> str:
    """Return a command line that applies an op."""
    files = []
    for one in own.inputs:
        some = ("one", "two") if one.kind == "tensors" else (one.name,)
        files += [f"{file}.lod.h5" for file in some]
    given = entry.options
    told = (
        [given]
        if given
        else [
            f"{one.option} {_example_value(one)}" if one.kind != "bool" else one.option
            for one in own.options
            if one.required
        ]
    )
    return " ".join(["lod apply", entry.name, *files, *told, "-o out.lod.h5"])


def as_kind(kind: Kind, tensor: LoDTensor) -> Any:
    """Return a tensor converted to a value for a parameter of this kind."""
    if kind == "index":
        return tensor.lod
    if kind == "steps":
        return TensorArray.from_steps(tensor)
    return tensor.data if kind == "array" else tensor


def as_value(text: str, tensor: LoDTensor) -> float | str:
    """Return the number in a text; a word of categories, or other text, is returned unchanged."""
    for number in (INT, NUMBER) if tensor.marks.categories is None else ():
        try:
            return number.convert(text, None, None)
        except click.BadParameter:
            continue
    return text


def _parameter(own: inspect.Parameter, hint: Any, text: str) -> Parameter:
    required = own.default is inspect.Parameter.empty
    kind = kind_of(hint)
    choices: tuple[str, ...] = ()
    if kind == "choice":
        choices = tuple(str(one) for one in get_args(hint) if one is not None)
    default, positional = None if required else own.default, own.kind is not own.KEYWORD_ONLY
    return Parameter(own.name, kind, required, default, choices, text, positional)


def _argument_texts(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of the parameters in the Args of a docstring."""
    block = re.search(r"^Args:\n((?:    .*\n|\n)+)", f"{docstring(function)}\n", re.M)
    if block is None:
        return {}
    parts = re.split(r"^(\w+): ", textwrap.dedent(block[1]), flags=re.M)[1:]
    return {
        name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def _shell_text(text: str, inputs: Sequence[Parameter], found: Sequence[Parameter]) -> str:
    """Return a description as a sentence that names files, options and ops as the shell does."""
    names = {own.name: own.option for own in found}
    names |= {own.name: own.name.upper() for own in inputs}
    text = re.sub(
        r"`(?:sequence_)?(\w+)`", lambda name: names.get(name[1], f"`lod apply {name[1]}`"), text
    )
    return text[:1].upper() + text[1:]


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, tuple | list):
        return ",".join(str(part) for part in default)
    return default.__name__ if isinstance(default, type) else str(default)


def _example_value(own: Parameter) -> str:
    if own.kind in FILES:
        return f"{own.name}.lod.h5"
    values = {
        "float": "0.5",
        "ints": "1,2",
        "values": "1,2",
        "floats": "0.5,1",
        "nested": "2,1",
        "str": "name",
    }
    return own.choices[0] if own.choices else values.get(own.kind, "2")


class _Int(click.ParamType[int]):
    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        found = re.fullmatch(r"[+-]?0*([0-9]+)", text)
        if not found:
            self.fail(f"{text!r} is not a whole number", param, ctx)
        # Python converts no text of thousands of digits.
        if len(found[1]) > 20 or not -(1 << 63) <= int(text) < 1 << 64:
            self.fail(f"{text!r} has more than 64 bits", param, ctx)
        return int(text)


class _Number(click.ParamType[float]):
    """A float, or a whole number that no float is."""

    name = "float"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = click.FLOAT.convert(value, param, ctx)
        whole = re.fullmatch(r"[+-]?[0-9]{16,20}", str(value).strip())
        return int(whole[0]) if whole and int(whole[0]) != found else found


class _Value(click.ParamType[str]):
    """A number or text; which of them depends on the tensor: see `as_value`."""

    name = "number|text"


class _Many(click.ParamType[tuple[Any, ...]]):
    """1,2,3."""

    def __init__(self, each: click.ParamType[Any], metavar: str) -> None:
        self.each = each
        self.name = metavar

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        text = str(value).strip()
        parts = text.split(",") if text else []
        return tuple(self.each.convert(part.strip(), param, ctx) for part in parts)


class _Nested(click.ParamType[list[tuple[int, ...]]]):
    """2,1/3,1,2: one level after another."""

    name = "2,1/3,1,2"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[tuple[int, ...]]:
        return [INTS.convert(part, param, ctx) for part in str(value).split("/")]


class _Array(click.ParamType[Any]):
    """FILE::NAME, or a few numbers or booleans: 1,2,3. Text that can be both is numbers."""

    name = "FILE|1,2,3"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value).strip()
        # 7, is an array of one number, as in Python.
        parts = [part.strip() for part in text.removesuffix(",").split(",")]
        if all(part.lower() in _BOOLEANS for part in parts):
            numbers: list[Any] = [_BOOLEANS[part.lower()] for part in parts]
        elif all(_NUMBERS.fullmatch(part) for part in parts):
            whole = re.fullmatch(r"[0-9,+\s-]+", text)
            each: click.ParamType[Any] = INT if whole else click.FLOAT
            numbers = [each.convert(part, param, ctx) for part in parts]
        else:
            return parse_reference(text)
        try:
            return array_of(numbers if "," in text else numbers[0])
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _File(click.ParamType[Any]):
    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return parse_reference(str(options.SOURCE.convert(value, param, ctx)))


INT = _Int()
NUMBER = _Number()
ARRAY = _Array()
INTS = _Many(INT, "1,2,3")


def _click_type(own: Parameter) -> Any:
    if own.kind in ("choice", "dtype"):
        return click.Choice(own.choices or sorted(ALL_DTYPES))
    if own.kind == "array":
        return ARRAY
    if own.kind in FILES:
        return _File()
    types: dict[str, Any] = {
        "level": options.LEVEL,
        "int": INT,
        "float": NUMBER,
        "value": _Value(),
        "values": _Many(_Value(), "1,2,3|a,b"),
        "ints": INTS,
        "floats": _Many(click.FLOAT, "0.5,1"),
        "nested": _Nested(),
    }
    return types.get(own.kind, click.STRING)
