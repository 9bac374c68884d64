"""Syntax trees of expressions: slices such as x[:3], and changes before the evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable, MutableMapping
from fractions import Fraction
from typing import TypeVar

import numpy as np

from lodcli.expressions.function_table import REPLACE_MATCHES, SPLIT, properties_of
from lodcli.expressions.functions import BINARY
from lodcli.expressions.texts import packed

_MOST = 2**62  # places in lists, which have fewer elements, and numbers in quotients
MOST_BITS = 4096  # of whole numbers
_Place = int | None
T = TypeVar("T")


def replaced(tree: ast.expr, function: Callable[[ast.expr], ast.expr]) -> ast.expr:
    """Return a tree, changed in place, with each part replaced by the result of a function.

    >>> def as_one(node: ast.expr) -> ast.expr:
    ...     return ast.Constant(1) if isinstance(node, ast.Name) else node
    >>> ast.unparse(replaced(ast.parse("x + y", mode="eval").body, as_one))
    '1 + 1'
    """
    for node in reversed(list(ast.walk(tree))):  # inner ones first; not recursive: sums may be long
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                value[:] = [function(one) if isinstance(one, ast.expr) else one for one in value]
            elif isinstance(value, ast.expr):
                setattr(node, field, function(value))
    return function(tree)


def folded(
    node: ast.AST, known: MutableMapping[ast.AST, T], function: Callable[[ast.AST, list[T]], T]
) -> T:
    """Return a function of a part and of the results of its own parts, each computed once.

    Args:
        known: the results so far, which are kept here.
        function: of a part, and the results of its own parts.

    >>> tree = ast.parse("x + y * 2", mode="eval").body
    >>> folded(tree, {}, lambda node, parts: isinstance(node, ast.Name) + sum(parts))
    2
    """
    waiting = [node]
    while waiting:
        parts = list(ast.iter_child_nodes(waiting[-1]))
        unknown = [one for one in parts if one not in known]
        if not unknown:
            one = waiting.pop()
            known[one] = function(one, [known[part] for part in parts])
        waiting += unknown
    return known[node]


def with_words(tree: ast.expr) -> ast.expr:
    """Return a tree, changed in place, with a word for each text of words only: lower("AB")."""
    return replaced(tree, _as_word)


def _as_word(node: ast.expr) -> ast.expr:
    """Return the word that a sum of two words, or a function of words, is; another part as it is.

    Wrong arguments are left to the evaluation, whose error names them.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        name, parts = "", [node.left, node.right]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        name, parts = node.func.id, node.args
        function = properties_of(name)
        if function.returns != "text" or name in (SPLIT, REPLACE_MATCHES):  # the latter may fail
            return node
        if len(parts) - 1 != function.words:
            return node
    else:
        return node
    words = [one.value for one in parts if isinstance(one, ast.Constant)]
    texts = [one for one in words if isinstance(one, str)]
    if len(texts) < len(parts) or (name == "replace" and not texts[1]):
        return node
    return ast.copy_location(
        ast.Constant(_made_word(name, texts) if name else "".join(texts)), node
    )


def with_numbers(tree: ast.expr) -> ast.expr:
    """Return a tree, changed in place, with a number for each part of whole numbers only.

    Python computes it exactly: 2**53 + 1 is no float.

    >>> ast.unparse(with_numbers(ast.parse("u == 2**64 - 1", mode="eval").body))
    'u == 18446744073709551615'
    """
    return replaced(tree, _as_number)


def _as_number(node: ast.expr) -> ast.expr:
    """Return the whole number that an operator makes of some; another part as it is."""
    found: int | None = None
    if isinstance(node, ast.UnaryOp) and (number := _whole_number(node.operand)) is not None:
        if isinstance(node.op, ast.USub | ast.UAdd):
            found = -number if isinstance(node.op, ast.USub) else number
    elif isinstance(node, ast.BinOp):
        left, right = _whole_number(node.left), _whole_number(node.right)
        if left is not None and right is not None:
            found = _operated(node.op, left, right)
    if found is None or found.bit_length() > MOST_BITS:
        return node  # see too_large
    return ast.copy_location(ast.Constant(found), node)


def _whole_number(node: ast.expr) -> int | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) is int else None


def _operated(op: ast.operator, left: int, right: int) -> int | None:
    """Return the result of an operator; None if it may be no whole number, or is too large."""
    if isinstance(op, ast.Add):
        return left + right
    if isinstance(op, ast.Sub):
        return left - right
    if isinstance(op, ast.Mult):
        return left * right
    # A power has more bits than this product.
    if isinstance(op, ast.Pow) and right >= 0 and (left.bit_length() - 1) * right < MOST_BITS:
        found: int = left**right
        return found
    return None


def too_large(tree: ast.expr) -> ast.expr | None:
    """Return a part that is a whole number of more than MOST_BITS; None if there is none.

    Args:
        tree: with numbers for its parts of whole numbers, see `with_numbers`.

    >>> part = too_large(with_numbers(ast.parse("2**4095 < x < 2**4096", mode="eval").body))
    >>> assert part is not None
    >>> ast.unparse(part)
    '2 ** 4096'
    """
    parts = (node for node in ast.walk(tree) if isinstance(node, ast.expr))
    return next((node for node in parts if _is_too_large(node)), None)


def _is_too_large(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        left, right = _whole_number(node.left), _whole_number(node.right)
        if left is None or right is None:
            return False
        power = isinstance(node.op, ast.Pow) and right >= 0
        return power or isinstance(node.op, ast.Add | ast.Sub | ast.Mult)
    number = _whole_number(node)
    return number is not None and number.bit_length() > MOST_BITS


def quotient_of(
    node: ast.expr, number_of: Callable[[ast.expr], Fraction | None]
) -> Fraction | float | None:
    """Return the number that a part is, also a quotient or a power; None of another part.

    Args:
        number_of: returns the number that a part is if it has neither.
    """
    number = number_of(node)
    if number is not None or not isinstance(node, ast.BinOp):
        return number
    sides = [quotient_of(one, number_of) for one in (node.left, node.right)]
    known = [float(one) for one in sides if one is not None and -_MOST < one < _MOST]
    function = BINARY.get(type(node.op))
    if len(known) < len(sides) or function is None:
        return None
    with np.errstate(all="ignore"):
        return float(function(*map(np.float64, known)))


def _made_word(name: str, texts: list[str]) -> str:
    from lodcli.expressions.text_functions_arrow import made_texts

    data, _ = made_texts(name, texts[1:])(*packed(texts[:1]))
    return data.tobytes().decode()


def is_slice(node: ast.AST) -> bool:
    """Return whether a part is a slice, such as x[:3]."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)


def as_slice(node: ast.Subscript, place: int) -> ast.Subscript:
    """Return x[2:3] for x[2], and x[-1:] for x[-1]."""
    stop = ast.Constant(place + 1) if place != -1 else None
    found = ast.Subscript(node.value, ast.Slice(ast.Constant(place), stop), ast.Load())
    for one in (found, found.slice, *ast.iter_child_nodes(found.slice)):
        ast.copy_location(one, node)
    return found


def bounds_of(node: ast.Subscript) -> tuple[_Place, _Place] | None:
    """Return the start and the stop of a slice; None if they are no whole numbers, or with a step.

    >>> part = with_numbers(ast.parse("x[-3:]", mode="eval").body)
    >>> assert isinstance(part, ast.Subscript)
    >>> bounds_of(part)
    (-3, None)
    """
    assert isinstance(node.slice, ast.Slice)
    given = (node.slice.lower, node.slice.upper)
    found = [None if one is None else place_of(one) for one in given]
    unknown = any(
        one is not None and number is None for one, number in zip(given, found, strict=True)
    )
    return None if unknown or node.slice.step is not None else (found[0], found[1])


def place_of(node: ast.expr) -> int | None:
    """Return the whole number that a part is; the nearest that is one of a place in a list."""
    number = _whole_number(node)
    return None if number is None else max(-_MOST, min(_MOST, number))


def no_lists(row_shape: tuple[int, ...]) -> str:
    """Return the error about a slice of values that are no lists."""
    if not row_shape:
        return "expected lists, this is one value for each item"
    column = ", ".join("0" for _ in row_shape)
    how = f"take its columns one by one, as in x[{column}]"
    return f"expected lists, this is one row of shape {row_shape} for each item; {how}"
