"""Syntax trees of expressions: slices such as x[:3], and changes before the evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from lodcli.expressions.functions import REPLACE_MATCHES, SPLIT, TEXT_FUNCTIONS, TEXT_MAKERS
from lodcli.expressions.texts import packed

_MOST = 2**62  # places in lists, which have fewer elements
_MOST_BITS = 4096  # of whole numbers that are computed before the evaluation
_Place = int | None


def replaced(tree: ast.expr, function: Callable[[ast.expr], ast.expr]) -> ast.expr:
    """Return a tree, changed in place, with what a function returns for each part.

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
        if name not in TEXT_MAKERS or name in (SPLIT, REPLACE_MATCHES):  # the latter may fail
            return node
        if len(parts) != 1 + TEXT_FUNCTIONS[name]:
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
    """Return a tree, changed in place, with a number for each sum or power of whole numbers only.

    Python computes it exactly: 2**53 + 1 is no float. A number beyond 64 bits replaces it only in
    comparisons, which are exact for any number; elsewhere the evaluation computes it with floats.

    >>> ast.unparse(with_numbers(ast.parse("u == 2**64 - 1", mode="eval").body))
    'u == 18446744073709551615'
    """
    numbers: dict[ast.AST, int] = {}
    inner, compared = set[ast.AST](), set[ast.AST]()
    for node in reversed(list(ast.walk(tree))):  # inner ones first
        children = list(ast.iter_child_nodes(node))
        if (number := _whole_number(node, numbers)) is not None:
            numbers[node] = number
            inner.update(children)
        elif isinstance(node, ast.Compare | ast.Tuple | ast.List | ast.Set):
            compared.update(children)

    def as_number(node: ast.expr) -> ast.expr:
        number = numbers.get(node)
        if number is None or node in inner or not _computes(node):
            return node
        if not -(2**63) <= number < 2**64 and node not in compared:
            return node
        return ast.copy_location(ast.Constant(number), node)

    return replaced(tree, as_number)


def _computes(node: ast.expr) -> bool:
    """Return whether a part is more than a number with a sign."""
    part = node.operand if isinstance(node, ast.UnaryOp) else node
    return not isinstance(part, ast.Constant)


def _whole_number(node: ast.AST, numbers: Mapping[ast.AST, int]) -> int | None:
    """Return the whole number that a part is; None of others, and of very large ones.

    Args:
        node: the part.
        numbers: those that its own parts are.
    """
    found: int | None = None
    if isinstance(node, ast.Constant):
        found = node.value if type(node.value) is int else None
    elif isinstance(node, ast.UnaryOp) and node.operand in numbers:
        number = numbers[node.operand]
        if isinstance(node.op, ast.USub | ast.UAdd):
            found = -number if isinstance(node.op, ast.USub) else number
    elif isinstance(node, ast.BinOp) and node.left in numbers and node.right in numbers:
        found = _operated(node.op, numbers[node.left], numbers[node.right])
    return found if found is not None and found.bit_length() <= _MOST_BITS else None


def _operated(op: ast.operator, left: int, right: int) -> int | None:
    """Return the result of an operator; None if it may be no whole number, or a very large one."""
    if isinstance(op, ast.Add):
        return left + right
    if isinstance(op, ast.Sub):
        return left - right
    if isinstance(op, ast.Mult):
        return left * right
    if isinstance(op, ast.Pow) and right >= 0 and left.bit_length() * right <= _MOST_BITS:
        found: int = left**right
        return found
    return None


def _made_word(name: str, texts: list[str]) -> str:
    from lodcli.expressions.text_functions_arrow import made_texts

    data, _ = made_texts(name, texts[1:])(*packed(texts[:1]))
    return data.tobytes().decode()


def is_slice(node: ast.AST) -> bool:
    """Return whether a part is a slice, such as x[:3]."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)


def place_of(node: ast.Subscript) -> int | None:
    """Return the number in brackets; None if there is none."""
    return _number(node.slice)


def as_slice(node: ast.Subscript, place: int) -> ast.Subscript:
    """Return x[2:3] for x[2], and x[-1:] for x[-1]."""
    stop = ast.Constant(place + 1) if place != -1 else None
    found = ast.Subscript(node.value, ast.Slice(ast.Constant(place), stop), ast.Load())
    for one in (found, found.slice, *ast.iter_child_nodes(found.slice)):
        ast.copy_location(one, node)
    return found


def bounds_of(node: ast.Subscript) -> tuple[_Place, _Place] | None:
    """Return the start and the stop of a slice; None if they are no whole numbers, or with a step.

    >>> part = ast.parse("x[-3:]", mode="eval").body
    >>> assert isinstance(part, ast.Subscript)
    >>> bounds_of(part)
    (-3, None)
    """
    assert isinstance(node.slice, ast.Slice)
    given = (node.slice.lower, node.slice.upper)
    found = [None if one is None else _number(one) for one in given]
    unknown = any(
        one is not None and number is None for one, number in zip(given, found, strict=True)
    )
    return None if unknown or node.slice.step is not None else (found[0], found[1])


def _number(node: ast.expr) -> int | None:
    signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd)
    part = node.operand if isinstance(node, ast.UnaryOp) and signed else node
    value = part.value if isinstance(part, ast.Constant) else None
    if type(value) is not int:
        return None
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return max(-_MOST, min(_MOST, -value if negative else value))


def no_lists(row_shape: tuple[int, ...]) -> str:
    """Return the error about a slice of values that are no lists.

    Args:
        row_shape: of the values.
    """
    if not row_shape:
        return "expected lists, this is one value for each item"
    column = ", ".join("0" for _ in row_shape)
    how = f"take its columns one by one, as in x[{column}]"
    return f"expected lists, this is one row of shape {row_shape} for each item; {how}"
