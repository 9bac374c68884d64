"""`dataclass` of the standard library, but with methods that are made when they are first used.

The standard library compiles up to six methods of each class, in 0.4 ms. A command imports some
fifty classes, and uses the constructors of half of them and few other methods.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    kw_only: bool = False,
    slots: bool = False,
) -> Any:
    """Return the class as a dataclass; one derived from a dataclass has its methods at once.

    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1)
    Point(x=1, y=0)
    """
    if cls is None:
        return partial(_dataclass, frozen=frozen, eq=eq, kw_only=kw_only, slots=slots)
    if any(map(dataclasses.is_dataclass, cls.__mro__)):
        return dataclasses.dataclass(cls, frozen=frozen, eq=eq, kw_only=kw_only, slots=slots)
    own = dict(vars(cls))
    cls.__doc__ = cls.__doc__ or cls.__name__  # not the signature, which takes long
    cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only, slots=slots)
    params: Any = cls.__dataclass_params__  # type: ignore[attr-defined]
    params.init = params.repr = True
    params.eq, params.frozen = eq, frozen
    for name in ("__init__", "__repr__", *["__eq__"] * eq, *["__hash__"] * (eq and frozen)):
        if own.get(name) is None:  # a class with an __eq__ has None for __hash__
            setattr(cls, name, LazyMethod(cls, name, partial(_method, cls, name)))
    if eq and not frozen and "__hash__" not in own:
        cls.__hash__ = None  # type: ignore[assignment]
    if frozen:
        _freeze(cls)
    if frozen and slots:  # whose attributes cannot be set one by one
        setattr(cls, "__getstate__", _state)  # noqa: B010 - mypy allows no other
        setattr(cls, "__setstate__", _set_state)  # noqa: B010
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass


class LazyMethod:
    """A method that is made when it is first looked up in its class, and then replaces this.

    Args:
        cls: the class, of which it is an attribute.
        name: its name there.
        make: returns the method.
    """

    def __init__(self, cls: type, name: str, make: Callable[[], Any]) -> None:
        self.cls, self.name, self.make = cls, name, make

    def __get__(self, instance: object, owner: type) -> Any:
        made = self.make()
        setattr(self.cls, self.name, made)  # in threads perhaps twice, but always in place
        return made.__get__(instance, owner)


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _method(cls: Any, name: str) -> Any:
    """Return a method of a dataclass."""
    make = {"__init__": _constructor, "__eq__": _equality, "__hash__": _hash, "__repr__": _repr}
    made = make[name](cls)
    made.__name__, made.__qualname__ = name, f"{cls.__qualname__}.{name}"
    made.__module__ = cls.__module__
    return made


def _constructor(cls: Any) -> Any:
    """Return the `__init__` of a dataclass."""
    known: dict[str, Any] = {"__set": object.__setattr__, "__factory": _FACTORY}
    fields = dataclasses.fields(cls)
    parameters, lines = {False: ["self"], True: ["*"]}, []
    for field in fields:
        default, value = _default(field, known)
        if field.init:
            parameters[bool(field.kw_only)].append(f"{field.name}{default}")
        elif field.default_factory is MISSING:
            continue
        if cls.__dataclass_params__.frozen:
            lines.append(f"__set(self, {field.name!r}, {value})")
        else:
            lines.append(f"self.{field.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    shown = ", ".join(parameters[False] + parameters[True] * (len(parameters[True]) > 1))
    made = _compiled(cls, f"__init__({shown})", lines, known)
    made.__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
    return made


def _default(field: Field[Any], known: dict[str, Any]) -> tuple[str, str]:
    """Return the default of a parameter and the value of its attribute, which use `known`."""
    name, default = field.name, f"__default_{field.name}"
    if field.default_factory is not MISSING:
        known[default] = field.default_factory
        made = f"{default}()"
        return "=__factory", f"{made} if {name} is __factory else {name}" if field.init else made
    if field.default is not MISSING:
        known[default] = field.default
        return f"={default}", name
    return "", name


def _equality(cls: Any) -> Any:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    mine, others = (_tuple(f"{one}.{name}" for name in names) for one in ("self", "other"))
    lines = [f"if other.__class__ is self.__class__: return {mine} == {others}"]
    return _compiled(cls, "__eq__(self, other)", [*lines, "return NotImplemented"], {})


def _hash(cls: Any) -> Any:
    fields = dataclasses.fields(cls)
    hashed = [one for one in fields if (one.compare if one.hash is None else one.hash)]
    values = _tuple(f"self.{field.name}" for field in hashed)
    return _compiled(cls, "__hash__(self)", [f"return hash({values})"], {})


def _tuple(values: Iterable[str]) -> str:
    return f"({''.join(f'{value}, ' for value in values)})"


def _compiled(cls: Any, head: str, lines: list[str], known: dict[str, Any]) -> Any:
    """Return a function with the globals of the class; `known` are further names it uses."""
    inner = "".join(f"\n  {line}" for line in lines or ["pass"])
    made = f"def outer({', '.join(known)}):\n def {head}:{inner}\n return {head.partition('(')[0]}"
    found: dict[str, Any] = {}
    exec(made, vars(sys.modules[cls.__module__]), found)
    return found["outer"](**known)


def _repr(cls: Any) -> Any:
    names = [field.name for field in dataclasses.fields(cls) if field.repr]

    @recursive_repr()
    def text(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return text


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _freeze(cls: Any) -> None:
    """Make the attributes of a class read-only."""

    def refuse(self: Any, name: str, what: str) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot {what} field {name!r}")

    def __setattr__(self: Any, name: str, value: Any) -> None:
        refuse(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        refuse(self, name, "delete")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
