"""Damage to JSON that stays JSON: one value changed, moved, doubled, lost, or nested too deep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from tests.reliability.mutators.generic import Mutator, extreme

# Values that a reader might trust.
NUMBERS = (0, 1, -1, 2, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    [],
    {},
    0.5,
    -0.0,
    1e308,
    "0",
    "data",
    [[]],
    "é\0",
)
DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "complex64")

Path = tuple[Any, ...]


def _places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the way to each value inside of one."""
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = enumerate(value)  # type: ignore[assignment]
    for key, one in inner:
        yield from _places(one, (*path, key))


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(value: Any, rng: np.random.Generator) -> Any:
    """Return a JSON value with one place of it changed. The argument may be changed."""
    places = list(_places(value))
    path = places[int(rng.integers(len(places)))]
    old = _at(value, path)
    if not path:
        return _other(old, rng)
    owner, key = _at(value, path[:-1]), path[-1]
    kind = int(rng.integers(8))
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(owner, list):
        owner.insert(int(rng.integers(len(owner) + 1)), deepcopy(old))
    elif kind == 1:
        owner[f"{key}x" if rng.random() < 0.5 else "data"] = deepcopy(old)
    elif kind == 2:  # one value in the place of another
        owner[key] = deepcopy(_at(value, places[int(rng.integers(len(places)))]))
    elif kind == 3 and isinstance(owner, dict):
        renamed = {(f"{key}0" if name == key else name): one for name, one in owner.items()}
        owner.clear()
        owner.update(renamed)
    elif kind == 4 and isinstance(owner, list):
        owner.reverse()
    else:
        owner[key] = _other(old, rng)
    return value


def _other(old: Any, rng: np.random.Generator) -> Any:
    """Return another value, often of the same type."""
    kind = rng.random()
    if kind < 0.15:
        return OTHERS[int(rng.integers(len(OTHERS)))]
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        if kind < 0.5:
            return NUMBERS[int(rng.integers(len(NUMBERS)))]
        near = extreme(old & 2**64 - 1, 8, rng)
        return near - 2**64 if near >= 2**63 else near
    if isinstance(old, str):
        if kind < 0.4:
            return DTYPES[int(rng.integers(len(DTYPES)))]
        at = int(rng.integers(len(old) + 1))
        put = ("0", "/", "..", "\0", "ß", "a" * 300, "\n", "\x1b[2J")[int(rng.integers(8))]
        return old[:at] + put + old[at + int(rng.integers(2)) :]
    if isinstance(old, list):
        if kind < 0.6:
            return [*old, old[-1]] if old else [0]
        return old[:-1]
    if kind < 0.25:
        for _ in range(300):
            old = [old]
    return old if kind < 0.25 else NUMBERS[int(rng.integers(len(NUMBERS)))]


def edited(text: bytes, rng: np.random.Generator, **style: Any) -> bytes:
    """Return JSON with one value changed; other bytes are left as they are."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    made = json.dumps(changed(value, rng), ensure_ascii=False, **style)
    return made.encode("utf-8", "surrogatepass")


def double_a_member(text: bytes, rng: np.random.Generator) -> bytes:
    """Let a member of the outermost object come twice, with two values."""
    try:
        value = json.loads(text)
        key = list(value)[int(rng.integers(len(value)))]
        put = f"{{{json.dumps(key)}: {json.dumps(_other(value[key], rng))}, "
        return put.encode("utf-8", "surrogatepass") + text.lstrip()[1:]
    except (ValueError, TypeError, IndexError, KeyError):
        return text


def change_a_value(text: bytes, rng: np.random.Generator) -> bytes:
    """Change one value of a JSON file."""
    return edited(text, rng)


def change_a_line(text: bytes, rng: np.random.Generator) -> bytes:
    """Change one value of one line of JSON lines."""
    lines = text.split(b"\n")
    at = int(rng.integers(len(lines)))
    lines[at] = edited(lines[at], rng)
    return b"\n".join(lines)


JSON: tuple[Mutator, ...] = (change_a_value, change_a_value, double_a_member)
