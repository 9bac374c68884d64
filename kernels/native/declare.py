"""Decorator that declares a compiled kernel, without compiling it.

    @kernel(types=("float32", "float64"))
    def scale(x: Pointer[T], out: Pointer[T], factor: float, first: int, last: int) -> int:
        for k in range(first, last):
            out[k] = x[k] * factor
        return 0

Modules called `*_numba.py` declare kernels. They are imported when kernels are built, never when
kernels run. How to write one: docs/internals/compiled-kernels.md.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NewType, TypeVar

import numpy as np

T = TypeVar("T", bound=Any)
U = TypeVar("U", bound=Any)

FLOATS = ("float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATS, *SIGNED, *UNSIGNED)

_PREFIX = "lodcli."


#: Parameter type for the address of all arguments, which the kernel unpacks itself.
Arguments = NewType("Arguments", int)


class Pointer(Generic[T]):
    """An array argument of a kernel: the address of its first element.

    Indices must not be negative; they are checked only in builds with NUMBA_BOUNDSCHECK=1.
    `pointer + n` is the address of element n.
    """

    def __getitem__(self, place: int) -> Any:
        raise NotImplementedError("for compiled code only")

    def __setitem__(self, place: int, value: Any) -> None:
        raise NotImplementedError("for compiled code only")

    def __add__(self, count: int) -> Pointer[T]:
        raise NotImplementedError("for compiled code only")


@dataclass(frozen=True)
class Parameter:
    """One word of a kernel's arguments.

    Attributes:
        name: name of the parameter; PARAMETER.FIELD for a field of a structure.
        kind: "p" a pointer, "q" an int64, "b" a bool, "d" a float64; "t" a type, which is known
            when the kernel is built and not passed; "a" Arguments.
        element: for a pointer or type, the name of a dtype or of a type variable.
    """

    name: str
    kind: str
    element: str = ""


@dataclass(frozen=True)
class Group:
    """A NamedTuple as a parameter of a kernel, with its fields."""

    name: str
    structure: type
    fields: tuple[Parameter | Group, ...]


@dataclass(frozen=True)
class Declared:
    """A kernel and the types that it is built for.

    Attributes:
        module: the module that declares it, without "lodcli.".
        name: unique in its module.
        function: plain Python that numba compiles.
        types: for each build, the dtypes of its type variables, in the order they appear.
        ranged: whether its last two parameters are `first` and `last`, the range of pieces.
        fastmath: see numba.njit; applies to the function itself, not to functions it calls.
    """

    module: str
    name: str
    function: Callable[..., int]
    parameters: tuple[Parameter | Group, ...]
    variables: tuple[str, ...]
    types: tuple[tuple[str, ...], ...]
    ranged: bool
    fastmath: frozenset[str]

    def words(self) -> Iterator[Parameter]:
        """Yield the parameters that are passed, one word each, without `first` and `last`."""
        return (word for word in flat(self.parameters) if word.kind not in "at")


_declared: dict[str, dict[str, Declared]] = {}


def kernel(
    *,
    types: Sequence[str | tuple[str, ...]] = ((),),
    name: str = "",
    fastmath: Sequence[str] | frozenset[str] | set[str] = (),
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that declares a kernel.

    Args:
        types: the dtypes to build it for; tuples for several type variables.
        name: by default the function's own. Needed if a factory makes several kernels.
        fastmath: see Declared.
    """

    def declare(function: Callable[..., int]) -> Callable[..., int]:
        module = function.__module__
        known = _declared.setdefault(module.removeprefix(_PREFIX), {})
        called = name or function.__name__
        if called in known and known[called].function.__code__ is not function.__code__:
            raise TypeError(f"{module}: a kernel called {called} is declared already")
        known[called] = _declaration(function, called, types, frozenset(fastmath))
        return function

    return declare


def declared(module: str) -> dict[str, Declared]:
    """Return the kernels that an imported module has declared, by name."""
    return _declared.get(module.removeprefix(_PREFIX), {})


def flat(parameters: Sequence[Parameter | Group]) -> Iterator[Parameter]:
    """Yield parameters, structures field by field."""
    for each in parameters:
        if isinstance(each, Group):
            yield from flat(each.fields)
        else:
            yield each


def _declaration(
    function: Callable[..., int],
    name: str,
    types: Sequence[str | tuple[str, ...]],
    fastmath: frozenset[str],
) -> Declared:
    annotations = _annotations(function)
    names = list(inspect.signature(function).parameters)
    ranged = names[-2:] == ["first", "last"]
    parameters = tuple(
        _parameter(each, annotations.get(each)) for each in (names[:-2] if ranged else names)
    )
    variables: list[str] = []
    for word in flat(parameters):
        if word.element and not hasattr(np, word.element) and word.element not in variables:
            variables.append(word.element)
    builds = tuple((each,) if isinstance(each, str) else tuple(each) for each in types)
    for build in builds:
        if len(build) != len(variables):
            raise TypeError(
                f"{name}: expected one dtype for each of the type variables "
                f"{', '.join(variables) or '(none)'}, found {build}"
            )
    return Declared(
        module=function.__module__.removeprefix(_PREFIX),
        name=name,
        function=function,
        parameters=parameters,
        variables=tuple(variables),
        types=builds,
        ranged=ranged,
        fastmath=fastmath,
    )


def _annotations(owner: Any) -> dict[str, Any]:
    """Return the annotations of a function or class, as objects."""
    return typing.get_type_hints(owner, vars(sys.modules[owner.__module__]))


def _parameter(name: str, kind: Any) -> Parameter | Group:
    if kind is Arguments:
        return Parameter(name, "a")
    if kind is bool:
        return Parameter(name, "b")
    if kind is int:
        return Parameter(name, "q")
    if kind is float:
        return Parameter(name, "d")
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Pointer, type):
        (element,) = arguments
        text = element.__name__ if isinstance(element, TypeVar) else np.dtype(element).name
        return Parameter(name, "p" if origin is Pointer else "t", text)
    structure = origin or kind
    if isinstance(structure, type) and issubclass(structure, tuple):
        inner = _annotations(structure)
        named: tuple[str, ...] = getattr(structure, "_fields", ())
        fields = tuple(_parameter(f"{name}.{each}", inner[each]) for each in named)
        return Group(name, structure, fields)
    raise TypeError(
        f"parameter {name}: expected int, float, bool, Pointer[..], type[..] or a NamedTuple of "
        f"such, found {kind!r}"
    )
