"""`dataclass` of the standard library, but with methods that are made when they are first used.

The standard library compiles up to six methods of each class, in 0.4 ms. A command imports some
fifty classes, and uses the constructors of half of them and few other methods.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
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
    """Return the class as a dataclass; one with slots or of dataclasses has its methods at once.

    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1)
    Point(x=1, y=0)
    """
    if cls is None:
        return partial(_dataclass, frozen=frozen, eq=eq, kw_only=kw_only, slots=slots)
    if slots or any(map(dataclasses.is_dataclass, cls.__mro__)):
        return dataclasses.dataclass(cls, frozen=frozen, eq=eq, kw_only=kw_only, slots=slots)
    own = dict(vars(cls))
    cls.__doc__ = cls.__doc__ or cls.__name__  # not the signature, which takes long
    dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only)
    params: Any = cls.__dataclass_params__  # type: ignore[attr-defined]
    params.init = params.repr = True
    params.eq, params.frozen = eq, frozen
    for name in ("__init__", "__repr__", *["__eq__"] * eq, *["__hash__"] * (eq and frozen)):
        if own.get(name) is None:  # a class with an __eq__ has None for __hash__
            setattr(cls, name, _Method(cls, name))
    if eq and not frozen and "__hash__" not in own:
        cls.__hash__ = None  # type: ignore[assignment]
    if frozen:
        _freeze(cls)
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass


class _Method:
    """A method of a dataclass, replaced by the real one when it is first looked up."""

    def __init__(self, cls: type, name: str) -> None:
        self.cls, self.name = cls, name

    def __get__(self, instance: object, owner: type) -> Any:
        made = _constructor(self.cls) if self.name == "__init__" else _other(self.cls, self.name)
        made.__qualname__ = f"{self.cls.__qualname__}.{self.name}"
        setattr(self.cls, self.name, made)  # in threads perhaps twice, but always in place
        return made.__get__(instance, owner)


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


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
    exec(f"def __init__({shown}):\n " + "\n ".join(lines or ["pass"]), known)
    made = known["__init__"]
    made.__module__ = cls.__module__
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


def _other(cls: Any, name: str) -> Any:
    """Return another method of a dataclass: that of a class with the same fields."""
    fields = [(field.name, field.type, field) for field in dataclasses.fields(cls)]
    is_repr = name == "__repr__"
    same = dataclasses.make_dataclass(
        cls.__name__,
        fields,
        namespace={"__doc__": name},
        init=False,
        repr=is_repr,
        eq=not is_repr,
        unsafe_hash=not is_repr,
    )
    return vars(same)[name]


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
