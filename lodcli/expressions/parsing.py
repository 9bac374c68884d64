"""The parser of expressions, and the units of their parts.

Python's own parser reads the text, and nothing of it is executed.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from shlex import quote
from typing import ClassVar, NoReturn

import numpy as np

from lodcli.expressions.digits import (
    CONDITION,
    EXACT_OPERATORS,
    MOST_DIGITS,
    WHOLE,
    decimals_of_function,
    decimals_of_number,
    decimals_of_operator,
    joint_decimals,
)
from lodcli.expressions.function_table import COALESCE, INDEX, ROUND, SPLIT, properties_of
from lodcli.expressions.functions import TWO
from lodcli.expressions.hints import as_written, function_hint, misplaced, name_hint, syntax_hint
from lodcli.expressions.syntax import (
    MOST_BITS,
    as_slice,
    folded,
    is_slice,
    place_of,
    replaced,
    too_large,
    with_numbers,
    with_words,
)
from lodcli.expressions.units import MOMENTS, is_duration, joint_unit, unit_beside, unit_of_times
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Schema
from lodcli.kernels.errors import LodError, OptionError
from lodcli.kernels.suggestions import or_near
from lodcli.kernels.tensor.marks import (
    NO_MARKS,
    Categories,
    Decimals,
    Marks,
    Times,
    Unit,
)

LONGEST = 10_000
LISTS = (ast.Tuple, ast.List, ast.Set)


class ExpressionError(OptionError):
    """An expression that means nothing, or not with these tensors.

    Attributes:
        column: where, in characters from 0.
    """

    def __init__(self, what: str, text: str, column: int) -> None:
        super().__init__(f"expression, column {column + 1}: {what}")
        self.text = text
        self.column = column


class Parsed:
    """An expression that was parsed.

    Args:
        text: as it was written; "" of a tree.
        tree: its syntax tree, if it was not written.

    Attributes:
        tensors: the names of tensors in it, in order, each once.
        counts: whether it has index(), the number of the item.
        marks: of the tensors that it may name; set by `know`.

    Raises:
        ExpressionError: it is none.
    """

    # Whether length(x) may be of a level, and reads no values.
    of_levels: ClassVar[bool] = False
    marks: Mapping[str, Marks] = {}
    # By name, the number of levels above the values.
    _depths: Mapping[str, int] = {}
    # The names of tensors whose rows are arrays, of which x[2] is a column.
    _columned: Collection[str] = ()
    # By name, decimals that hold the whole numbers or booleans of a tensor.
    _whole: Mapping[str, Decimals] = {}

    def __init__(self, text: str, tree: ast.expr | None = None) -> None:
        self.text = " ".join(text.split("\n")).strip()
        tree = self._parsed() if tree is None else ast.fix_missing_locations(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._require_utf8(node, node.value)
        self.tree = with_numbers(with_words(tree))
        if (large := too_large(self.tree)) is not None:
            self.fail(large, f"the number has more than {MOST_BITS} bits")
        self._level_names = {
            id(call.args[0])
            for call in ast.walk(self.tree)
            if self.of_levels and isinstance(call, ast.Call) and is_length(call)
        }
        nodes = list(ast.walk(self.tree))
        self._level_names |= {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self._level_names |= {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        names = [
            (node.col_offset, name)
            for node in nodes
            if isinstance(node, ast.expr) and (name := self.named(node)) is not None
        ]
        self.tensors = tuple(dict.fromkeys(name for _, name in sorted(names)))
        self.counts = any(function_name(one) == INDEX for one in nodes)
        # By part, so that nested and long ones take linear time. Keys keep parts alive.
        self._times: dict[ast.BinOp, Times | None] = {}
        self._known_marks: dict[ast.expr, tuple[str, Marks]] = {}
        self._known_texts: dict[ast.expr, list[ast.expr]] = {}
        self._known_exact: dict[ast.expr, Decimals | None] = {}
        self._known_numbers: dict[ast.BinOp, Fraction | None] = {}
        self._known_lists: dict[ast.AST, int] = {}
        self._known_columns: dict[ast.AST, bool] = {}
        # The units of both sides; of a text such as "PT1H", in which it is added.
        self.sides: dict[ast.BinOp, tuple[Unit | None, Unit | None]] = {}

    def named(self, node: ast.AST) -> str | None:
        """Return the name of the tensor that a part refers to, also tensor('NAME'); else None."""
        return None if id(node) in self._level_names else self.written(node)

    def written(self, node: ast.AST) -> str | None:
        """Return the name that a part is, also tensor('NAME'), of a tensor or level; else None."""
        if isinstance(node, ast.Call) and function_name(node) == "tensor":
            return self._string(node)
        return dotted(node)

    def know(self, schema: Schema) -> None:
        """Set the marks of the tensors that it may name."""
        self.marks = {spec.name: spec.marks for spec in schema}
        self._depths = {spec.name: spec.depth for spec in schema}
        self._known_lists.clear()
        self._known_columns.clear()
        self._columned = {spec.name for spec in schema if spec.row_shape}
        self.tree = replaced(self.tree, self._as_element)
        self._whole = {
            spec.name: CONDITION
            if spec.dtype.kind == "b"
            else replace(WHOLE, precision=len(str(np.iinfo(spec.dtype).max)))
            for spec in schema
            if spec.marks.kind is None and spec.dtype.kind in "biu"
        }
        for known in (self._times, self._known_marks, self._known_texts, self._known_exact):
            known.clear()
        for node in reversed(list(ast.walk(self.tree))):  # inner ones first: a sum may be long
            if isinstance(node, ast.BinOp | ast.IfExp | ast.Subscript):
                self.exact_of(node)
                self.marks_of(node)
                self.texts_of(node)

    def marks_of(self, node: ast.expr) -> tuple[str, Marks]:
        """Return the name and the marks of the values of a part; "this" and none of a computation.

        It may be a tensor, a column of one, a function that picks values, or arithmetic with times
        or decimals.
        """
        if isinstance(node, ast.Subscript):
            if node not in self._known_marks:
                cuts = self.cuts_texts(node)
                self._known_marks[node] = ("this", NO_MARKS) if cuts else self.marks_of(node.value)
            return self._known_marks[node]
        if isinstance(node, ast.BinOp):
            if node not in self._known_marks:
                decimals = self.exact_of(node) if self._has_decimals(node) else None
                self._known_marks[node] = "this", Marks(unit=decimals or self.time_of(node))
            return self._known_marks[node]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            unit = self.unit_of(node.operand)
            kept = is_duration(unit) or isinstance(unit, Decimals)
            return "this", Marks(unit=unit if kept else None)
        if parts := self._of_one_unit(node):
            if node not in self._known_marks:
                self._known_marks[node] = self._marks_of_parts(node, parts)
            return self._known_marks[node]
        name = self.named(node)
        return name or "this", self.marks.get(name or "", NO_MARKS)

    def unit_of(self, node: ast.expr) -> Unit | None:
        """Return the unit of the values of a part; None of texts and plain numbers."""
        return self.marks_of(node)[1].unit

    def _of_one_unit(self, node: ast.expr) -> list[ast.expr]:
        """Return the parts on whose units that of a part depends; [] if it depends on none."""
        choices = choices_of(node)
        if choices or not isinstance(node, ast.Call) or not node.args:
            return choices
        function = function_name(node)
        if self.picks(function) or properties_of(function).times:
            return node.args if function in TWO else node.args[:1]
        return []

    def _marks_of_parts(self, node: ast.expr, parts: list[ast.expr]) -> tuple[str, Marks]:
        function = function_name(node)
        picks = not function or self.picks(function)
        known = [self.marks_of(one) for one in parts]
        units = [marks.unit for _, marks in known]
        if len(units) > 1 and any(isinstance(one, Decimals) for one in units):
            for one in parts:
                self._require_held(one)
            if joint := self._joint_decimals(parts):
                return "this", Marks(unit=joint)
            units = [None if isinstance(one, Decimals) else one for one in units]
        given = next((one for one, marks in known if marks.unit is not None), known[0][0])
        try:
            unit = functools.reduce(joint_unit, units)
        except LodError as error:
            self.fail(node, str(error))
        if isinstance(unit, Categories) and choices_of(node):
            unit = self._with_words(node, unit)
        elif isinstance(unit, Times):
            steps = isinstance(node, ast.Call) and len(node.args) > 1
            unit = unit_of_times(function, unit, picks=picks, steps=steps)
        elif not picks:
            unit = self._decimals_of_call(node, unit) if isinstance(unit, Decimals) else None
        # A byte of a text is no text.
        return given, Marks(unit=unit)

    def _decimals_of_call(self, node: ast.expr, unit: Decimals) -> Decimals | None:
        """Return decimals that hold the result of a function of decimals; None of floats."""
        assert isinstance(node, ast.Call)
        function = function_name(node)
        digits = self.rounding(node) if function == ROUND else 0
        return decimals_of_function(function, unit, digits)

    def rounding(self, node: ast.Call) -> int:
        """Return how many digits after the point round(x, DIGITS) leaves, or fail."""
        if len(node.args) == 1 and not node.keywords:
            return 0
        given = node.args[1] if len(node.args) == 2 and not node.keywords else node
        digits = given.value if isinstance(given, ast.Constant) else None
        if type(digits) is not int or not 0 <= digits <= MOST_DIGITS:
            how = "; round(x / 100) * 100 rounds to hundreds"
            what = f"expected a number of digits from 0 to {MOST_DIGITS}, as in round(x, 2)"
            self.fail(given, what + how * (type(digits) is int and digits < 0))
        return digits

    def _joint_decimals(self, parts: list[ast.expr]) -> Decimals | None:
        """Return decimals that hold every value of some parts; None if some may be floats."""
        known = [self.exact_of(one) for one in parts]
        found = [one for one in known if one is not None]
        return joint_decimals(found) if len(found) == len(known) else None

    def exact_of(self, node: ast.expr) -> Decimals | None:
        """Return decimals that hold the values of a part; None of floats, texts and times.

        It has decimals, whole numbers, conditions, and numbers in digits: one with an exponent,
        such as 1e0, is a float. Only of decimals it is the unit of the values.
        """
        if node not in self._known_exact:
            self._known_exact[node] = self._exact_of(node)
        return self._known_exact[node]

    def _exact_of(self, node: ast.expr) -> Decimals | None:
        if isinstance(node, ast.BinOp):
            return self._exact_of_operator(node)
        unit, number, name = self.unit_of(node), self.number_of(node), self.named(node)
        if unit is not None:
            return unit if isinstance(unit, Decimals) else None
        if number is not None:
            return None if self._has_exponent(node) else decimals_of_number(number)
        if name is not None:
            return self._whole.get(name)
        if choices := choices_of(node):
            return self._joint_decimals(choices)
        if isinstance(node, ast.Call) and function_name(node) in TWO:
            return self._joint_decimals(node.args) if len(node.args) > 1 else None
        truth = isinstance(node, ast.Constant) and isinstance(node.value, bool)
        if truth or isinstance(node, ast.Compare | ast.BoolOp):
            return CONDITION
        return self._whole_of(node)

    def _has_exponent(self, node: ast.expr) -> bool:
        """Return whether a number, or one that it is computed from, is written as 1e0."""
        return any(
            isinstance(one, ast.Constant)
            and isinstance(one.value, float)
            and "e" in self.source_of(one).lower()
            for one in ast.walk(node)
        )

    def _require_held(self, node: ast.expr) -> None:
        """Fail if a part is a number in digits that no decimal of 64 bits holds."""
        number = self.number_of(node)
        if number is None or decimals_of_number(number) is not None or self._has_exponent(node):
            return
        what = "the number does not fit a decimal, whose digits have 64 bits"
        self.fail(node, f"{self.source_of(node)}: {what}; {self.cast()}")

    def _whole_of(self, node: ast.expr) -> Decimals | None:
        """Return decimals that hold the whole numbers of a function or column; None of others."""
        parts: list[ast.expr] = []
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.Not):
                return CONDITION
            parts = [node.operand]
        elif isinstance(node, ast.Subscript):
            parts = [node.value]
        elif isinstance(node, ast.Call):
            function = function_name(node)
            known = properties_of(function)
            if known.returns == "count":
                return WHOLE
            if known.returns == "condition":
                return CONDITION
            if self.picks(function) or known.digits:
                parts = node.args[:1]
        exact = [self.exact_of(one) for one in parts]
        return WHOLE if exact and all(one and not one.scale for one in exact) else None

    def _exact_of_operator(self, node: ast.BinOp) -> Decimals | None:
        one, two = self.exact_of(node.left), self.exact_of(node.right)
        divides = isinstance(node.op, ast.FloorDiv | ast.Mod)
        if isinstance(node.op, EXACT_OPERATORS) and self._has_decimals(node):
            self._require_held(node.left)
            self._require_held(node.right)
        if one is None or two is None or not isinstance(node.op, EXACT_OPERATORS):
            return None
        if (number := self.number_of(node)) is not None:
            return decimals_of_number(number)
        if divides and not self.number_of(node.right):  # by 0 it may be nan
            return None
        if not self._has_decimals(node):
            return None if one.scale or two.scale else WHOLE
        found = decimals_of_operator(node.op, one, two)
        if found is None:
            self.fail(node, f"the result has too many digits after the point; {self.cast()}")
        return found

    def _has_decimals(self, node: ast.BinOp) -> bool:
        return any(isinstance(self.unit_of(one), Decimals) for one in (node.left, node.right))

    def cast(self) -> str:
        """Return how a user computes with floats in place of decimals."""
        decimals = (
            one for one in self.tensors if isinstance(self.marks.get(one, NO_MARKS).unit, Decimals)
        )
        return f"lod cast {quote(next(decimals, 'TENSOR'))}=float64 makes floats"

    def number_of(self, node: ast.expr) -> Fraction | None:
        """Return the number that a part is, as it was written; None of another part."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            number = self.number_of(node.operand)
            return -number if number is not None and isinstance(node.op, ast.USub) else number
        if isinstance(node, ast.BinOp):
            if node not in self._known_numbers:
                self._known_numbers[node] = self._computed(node)
            return self._known_numbers[node]
        value = node.value if isinstance(node, ast.Constant) else None
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        if isinstance(value, float) and not isfinite(value):
            return None
        # 1e-999999999 is 0.
        return (
            Fraction(self.source_of(node))
            if isinstance(value, float) and value
            else Fraction(value)
        )

    def wide_number(self, node: ast.expr) -> int | None:
        """Return the whole number beyond 64 bits that a part is written as; None of others."""
        number = node.value if isinstance(node, ast.Constant) else None
        if not isinstance(number, int) or -(2**63) <= number < 2**64:
            return None
        return number

    def _computed(self, node: ast.BinOp) -> Fraction | None:
        """Return the sum, the difference or the product of two numbers."""
        one, two = self.number_of(node.left), self.number_of(node.right)
        if one is None or two is None:
            return None
        if isinstance(node.op, ast.Mult):
            return one * two
        if isinstance(node.op, ast.Add | ast.Sub):
            return one + two if isinstance(node.op, ast.Add) else one - two
        return None

    def _with_words(self, node: ast.expr, unit: Categories) -> Categories:
        """Return categories with the words in quotes that a choice may be."""
        for one in leaves_of(node):
            word = one.value if isinstance(one, ast.Constant) else None
            if isinstance(word, str) and word not in unit.words:
                if unit.ordered:
                    self.fail(
                        one,
                        f"ordered categories have no word {word!r}, and no place for it; "
                        "lod cast TENSOR=text makes texts of them",
                    )
                unit = unit.with_words(Categories((word,)))
        return unit

    def text_of(self, node: ast.expr) -> str:
        """Return a part as it was written, in parentheses if it needs them."""
        text = self.source_of(node)
        plain = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        return text if plain else f"({text})"

    def source_of(self, node: ast.expr) -> str:
        """Return a part as it was written."""
        if self.text:
            return ast.get_source_segment(self.text, node) or ast.unparse(node)
        name = self.named(node)
        return ast.unparse(node) if name is None else as_written(name)

    def is_text(self, node: ast.expr) -> bool:
        """Return whether a part is the texts of a tensor, or one of several texts."""
        if isinstance(node, ast.Subscript):
            return bool(self.texts_of(node))
        return bool(self.texts_of(node)) or self.marks_of(node)[1].is_text

    def texts_of(self, node: ast.expr) -> list[ast.expr]:
        """Return the texts of which a part is one, or is made; [] of others.

        It may be coalesce, if, a function that picks one of a list, one that makes texts such as
        lower, a sum such as first + " " + last, or a slice such as title[:3].
        """
        function = properties_of(function_name(node))
        makes, picks = function.returns == "text", function.picks
        joins = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        if not (picks or makes or joins or is_slice(node) or choices_of(node)):
            return []
        if node not in self._known_texts:
            if isinstance(node, ast.Subscript):
                parts = [node.value]
                of_texts = self.is_text(node.value) or self.cuts_texts(node)
            elif isinstance(node, ast.BinOp):
                parts = [node.left, node.right]
                of_words = list(map(self.is_of_words, parts))
                of_texts = any(of_words) and all(
                    known or is_words(one) for known, one in zip(of_words, parts, strict=True)
                )
            elif isinstance(node, ast.Call) and makes:
                parts = [one for one in node.args[:1] if self.is_of_words(one) or is_words(one)]
                of_texts = bool(parts)
            elif isinstance(node, ast.Call) and picks:
                parts = [one for one in node.args[:1] if self.is_text(one)]
                of_texts = any(map(self.in_lists, parts))
            else:
                parts = leaves_of(node)
                of_texts = is_words(node) or any(map(self.is_text, parts))
            found = [one for part in parts for one in self.texts_of(part) or [part]]
            self._known_texts[node] = found if of_texts else []
        return self._known_texts[node]

    def in_lists(self, node: ast.expr) -> bool:
        """Return whether a part may be lists of values or texts, and not one for each item."""
        return self.lists_of(node) > 0

    def lists_of(self, node: ast.AST) -> int:
        """Return in how many lists the values of a part may be, at most."""
        return folded(node, self._known_lists, self._lists_of)

    def _lists_of(self, node: ast.AST, inner: list[int]) -> int:
        found = max([self._depths.get(self.named(node) or "", 0), *inner])
        function = function_name(node)
        if properties_of(function).picks:
            return found - (LONGEST if self.of_levels else 1)
        return found + (function == SPLIT)

    def cuts_texts(self, node: ast.expr) -> bool:
        """Return whether a part is a slice of texts or words, and not of lists of them."""
        return (
            isinstance(node, ast.Subscript)
            and is_slice(node)
            and self.is_of_words(node.value)
            and not self.in_lists(node.value)
        )

    def _as_element(self, node: ast.expr) -> ast.expr:
        """Return first(x[2:3]) for x[2] of a list, x[2:3] for a text; another part as it is."""
        place = place_of(node.slice) if isinstance(node, ast.Subscript) else None
        if place is None or not isinstance(node, ast.Subscript) or self._has_columns(node):
            return node
        found = as_slice(node, place)
        if not self.in_lists(node.value):
            return found if self.is_of_words(node.value) else node
        first = ast.copy_location(ast.Name("first", ast.Load()), node)
        self._level_names.add(id(first))
        return ast.copy_location(ast.Call(first, [found], []), node)

    def _has_columns(self, node: ast.expr) -> bool:
        """Return whether rows of a part may be arrays, of which x[2] is a column."""
        return folded(node, self._known_columns, self._widens)

    def _widens(self, node: ast.AST, inner: list[bool]) -> bool:
        widens = properties_of(function_name(node)).returns == "row"
        return widens or self.named(node) in self._columned or any(inner)

    def is_of_words(self, node: ast.expr) -> bool:
        """Return whether a part is texts or categories."""
        return self.is_text(node) or self.marks_of(node)[1].categories is not None

    def time_of(self, node: ast.BinOp) -> Times | None:
        """Return the unit of a sum or difference of two times, or of a multiple of a duration."""
        if node not in self._times:
            units = (self.unit_of(side) for side in (node.left, node.right))
            left, right = (None if isinstance(one, Decimals) else one for one in units)  # numbers
            left = left or unit_beside(right, node.op, node.left)
            right = right or unit_beside(left, node.op, node.right)
            self.sides[node] = left, right
            found = None
            if isinstance(left, Times) and isinstance(right, Times):
                kinds, joint = {left.kind, right.kind}, joint_unit(left, right)
                assert isinstance(joint, Times)
                if isinstance(node.op, ast.Sub) and (len(kinds) == 1 or kinds == MOMENTS):
                    found = Times("duration", joint.unit)
                elif (
                    (isinstance(node.op, ast.Add | ast.Sub) and right.kind == "duration")
                    or (isinstance(node.op, ast.Add) and left.kind == "duration")
                    or (isinstance(node.op, ast.Mod) and kinds == {"duration"})
                ):
                    found = joint
            elif is_duration(left) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv):
                found = left if right is None else None
            elif is_duration(right) and isinstance(node.op, ast.Mult):
                found = right if left is None else None
            self._times[node] = found  # known, so that a long sum takes linear time
        return self._times[node]

    def no_tensor(self, node: ast.expr, name: str, hint: str = "") -> NoReturn:
        """Raise an error about a name that is no tensor."""
        owner, _, rest = name.partition(".")
        last, records = rest.split(".")[-1], {one.split(".")[0] for one in self.marks}
        if owner in self.marks and last in self.functions():
            hint = f"write {last}({owner})"
        elif owner == "df" and rest in self.marks and owner not in records:
            hint = f"did you mean {rest}?"
        if not hint and name in self.functions():
            hint = f"there are: {listing(self.marks)}; the function is {name}(..)"
        hint = hint or name_hint(name, self.marks)
        if not hint:
            # Fewer letters may differ than in another tensor: `data` is not meant as date(..).
            near = or_near(name, self.functions(), cutoff=0.8).replace("?", "(..)?")
            hint = f"there are: {listing(self.marks)}{near}"
        self.fail(node, f"no tensor {name!r}; {hint}")

    def fail(self, node: ast.expr, what: str) -> NoReturn:
        """Raise an error at the column of a part of the expression."""
        column = len(self.text.encode()[: node.col_offset].decode(errors="replace"))
        raise ExpressionError(what, self.text, column)

    def _parsed(self) -> ast.expr:
        if len(self.text) > LONGEST:
            raise ExpressionError(f"is longer than {LONGEST} characters", self.text[:60], 0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a backslash in a text
                return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            # 0 where the text ends too early.
            column = min(error.offset - 1 if error.offset else len(self.text), len(self.text))
            message = f"not understood ({error.msg}){syntax_hint(self.text)}"
            what = message if self.text else "is empty"
            if "integer string" in error.msg:
                what = "a number has too many digits"
            raise ExpressionError(what, self.text, column) from None
        except UnicodeEncodeError as error:
            what = f"expected UTF-8, found {self.text[error.start]!a}"
            raise ExpressionError(what, self.text, error.start) from None
        except (ValueError, RecursionError, MemoryError):
            raise ExpressionError("is nested too deeply", self.text[:60], 0) from None

    def _require_utf8(self, node: ast.expr, text: str) -> None:
        r"""Fail if a text holds half of a character, as "\ud83d" does."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            self.fail(node, f"expected UTF-8, found {text[error.start]!a}")

    def refuse_call(self, call: ast.Call) -> NoReturn:
        """Raise an error about a call of something other than a function, such as x.sum()."""
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        name, known = function_name(call), self.functions()
        if method in known:
            self.fail(call, f"only functions can be called: write {method}(x), not x.{method}()")
        if not name and not method:
            of_lambda = isinstance(call.func, ast.Lambda)
            self.fail(call, misplaced(call.func) if of_lambda else "only functions can be called")
        self.fail(call, f"no function {name or method!r}; {function_hint(name or method, known)}")

    def functions(self) -> Collection[str]:
        """Return the names of functions that may be called."""
        return ()

    def picks(self, function: str) -> bool:
        """Return whether a function only moves or picks values, so that they keep their unit."""
        return properties_of(function).returns == "value"

    def _string(self, call: ast.Call) -> str:
        if len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Constant):
            name = call.args[0].value
            if isinstance(name, str):
                return name
        self.fail(call, "write tensor('NAME')")


def dotted(node: ast.AST) -> str | None:
    """Return a name, or one of a field of records such as s.t.x; None of others."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *names[::-1]]) if isinstance(node, ast.Name) else None


def function_name(node: ast.AST) -> str:
    """Return the name of the function that a part calls; "" if it calls none by a name."""
    called = node.func if isinstance(node, ast.Call) else None
    return called.id if isinstance(called, ast.Name) else ""


def is_length(call: ast.Call) -> bool:
    """Return whether a call is length(..) of something."""
    return function_name(call) == "length" and bool(call.args)


def words_of(node: ast.expr) -> list[str] | None:
    """Return the word, or the list of words, that a part is; None if it is anything else."""
    parts = node.elts if isinstance(node, LISTS) else [node]
    words = [one.value for one in parts if isinstance(one, ast.Constant)]
    strings = [word for word in words if isinstance(word, str)]
    return strings if strings and len(strings) == len(parts) else None


def choices_of(node: ast.expr) -> list[ast.expr]:
    """Return the parts of which one is picked, by coalesce or if; [] of another part."""
    if isinstance(node, ast.IfExp):
        return [one for one in (node.body, node.orelse) if not is_none(one)]
    if isinstance(node, ast.Call) and function_name(node) == COALESCE and len(node.args) > 1:
        return node.args
    return []


def leaves_of(node: ast.expr) -> list[ast.expr]:
    """Return the parts of which one is picked, also by choices in choices, in order."""
    found, waiting = [], [node]  # not recursive: an else may have an if, and so on
    while waiting:
        one = waiting.pop()
        choices = choices_of(one)
        waiting += reversed(choices)
        if not choices:
            found.append(one)
    return found


def is_words(node: ast.expr) -> bool:
    """Return whether a part is a word in quotes, or one of several."""
    return all(isinstance(one, ast.Constant) and type(one.value) is str for one in leaves_of(node))


def is_none(node: ast.expr) -> bool:
    """Return whether a part is None."""
    return isinstance(node, ast.Constant) and node.value is None
