"""Dataclasses whose methods are made when they are first used: as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
import typing
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from lodcli.kernels.lazy_dataclass import dataclass


def made(decorate: Callable[..., Any]) -> list[type]:
    """Return classes of all kinds, decorated."""

    @decorate(frozen=True)
    class Frozen:
        x: int
        _x: float = 2.5
        names: list[str] = field(default_factory=list)
        hidden: int = field(default=7, repr=False, compare=False)

        @cached_property
        def double(self) -> int:
            return 2 * self.x

    @decorate
    class Plain:
        x: int
        y: tuple[int, ...] = ()
        made: list[int] = field(default_factory=list, init=False)
        fixed: int = field(default=3, init=False)
        later: int = field(init=False)

        def __post_init__(self) -> None:
            self.later = self.x + 1

    @decorate(frozen=True, eq=False)
    class Identity:
        x: int = 0

    @decorate(frozen=True, eq=False, kw_only=True)
    class Named:
        x: int
        y: int = 1

    @decorate(frozen=True)
    class Mixed:
        x: int
        y: int = field(default=1, kw_only=True)
        z: int = 2

    @decorate(frozen=True)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and str(other.x)[:1] == str(self.x)[:1]

        def __repr__(self) -> str:
            return f"<{self.x}>"

    @decorate(frozen=True)
    class Hashed:
        x: int

        def __hash__(self) -> int:
            return 5

    @decorate(frozen=True)
    class Derived(Frozen):
        more: int = 1

    class Below(Plain):
        def __init__(self) -> None:
            super().__init__(4)  # type: ignore[call-arg]

    class Open(Frozen):
        pass

    @decorate(frozen=True)
    class Empty:
        pass

    @decorate(frozen=True, slots=True)
    class Slots:
        x: int = 1

    return [
        *(Frozen, Plain, Identity, Named, Mixed, Own, Hashed, Derived, Below, Open, Empty, Slots)
    ]


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((-1,), {}),
    ((1, 2), {}),
    ((1, 2, ["a"], 4), {}),
    ((1, 2, 3, 4, 5, 6), {}),
    ((), {"x": 1}),
    ((), {"x": 1, "y": 2}),
    ((1,), {"y": 2}),
    ((1,), {"unknown": 2}),
    (([],), {}),
    ((float("nan"),), {}),
]


def outcome(call: Callable[[], Any]) -> Any:
    """Return a result, or the class and the text of an error, without the names of functions."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


def described(cls: type) -> list[Any]:
    """Return what a class and its objects do."""
    params = cls.__dataclass_params__  # type: ignore[attr-defined]
    found: list[Any] = [
        [(f.name, f.type, f.init, f.kw_only) for f in dataclasses.fields(cls)],
        cls.__match_args__,  # type: ignore[attr-defined]
        [getattr(params, name) for name in ("init", "repr", "eq", "order", "frozen")],
    ]
    for positional, named in CALLS:
        one = outcome(lambda a=positional, n=named: cls(*a, **n))  # type: ignore[misc]
        found.append(one if isinstance(one, tuple) else repr(one).split(" at 0x")[0])
        if isinstance(one, tuple):
            continue
        other = cls(*positional, **named)
        found += [one == other, one != other, one == one, one == 3]
        found.append(outcome(lambda one=one, other=other: hash(one) == hash(other)))  # type: ignore[misc]
        found += [hash(one) if cls.__name__ == "Hashed" else None, str(dataclasses.asdict(one))]
        found.append(repr(copy.copy(one)).split(" at 0x")[0])
        if cls.__name__ != "Below":
            changed = outcome(lambda one=one: dataclasses.replace(one, x=9))  # type: ignore[misc]
            found.append(repr(changed).split(" at 0x")[0])
        found.append(outcome(lambda one=one: setattr(one, "x", 3)))  # type: ignore[misc]
        if cls.__name__ != "Slots":
            found.append(outcome(lambda one=one: setattr(one, "new", 3)))  # type: ignore[misc]
        found.append(outcome(lambda one=one: delattr(one, "x")))  # type: ignore[misc]
        found.append(str(outcome(lambda one=one: one.double)))  # type: ignore[misc]
        found.append(sorted(map(str, getattr(one, "__dict__", {}).items())))
    found.append(str(inspect.signature(cls)))
    return found


def test_classes_are_as_those_of_the_standard_library() -> None:
    ours, theirs = made(dataclass), made(dataclasses.dataclass)
    for mine, expected in zip(ours, theirs, strict=True):
        assert described(mine) == described(expected), mine.__name__


@pytest.mark.parametrize("first", ["signature", "repr", "hash", "eq"])
def test_any_method_may_be_used_first(first: str) -> None:
    @dataclass(frozen=True)
    class Point:
        x: int
        y: int = 0

    if first == "signature":
        assert str(inspect.signature(Point)) == "(x: 'int', y: 'int' = 0) -> None"
        assert Point.__init__.__qualname__.endswith("Point.__init__")
        return
    blank = object.__new__(Point)
    vars(blank).update(x=1, y=2)
    uses: dict[str, Callable[[Any], Any]] = {"repr": repr, "hash": hash}
    uses["eq"] = lambda one: one == Point(1, 2)
    shown = f"{Point.__qualname__}(x=1, y=2)"
    assert uses[first](blank) == {"repr": shown, "hash": hash((1, 2)), "eq": True}[first]


@dataclass(frozen=True)
class Pickled:
    """A class of a module."""

    x: int
    y: str = ""
    path: Path | None = None


def test_hints_of_methods_are_names_of_the_module() -> None:
    hints = typing.get_type_hints(Pickled.__init__)
    assert hints == {"x": int, "y": str, "path": Path | None, "return": type(None)}


def test_objects_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Pickled(1, "a"))) == Pickled(1, "a")


def test_threads_use_a_class_first_at_the_same_time() -> None:
    for _ in range(50):

        @dataclass(frozen=True)
        class Point:
            x: int

        start = threading.Barrier(4)
        found: list[Any] = []

        def use(
            start: threading.Barrier = start, make: Any = Point, found: list[Any] = found
        ) -> None:
            start.wait()
            found.append((repr(make(1)), make(1) == make(1), hash(make(1))))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert len(set(found)) == 1
