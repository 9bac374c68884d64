"""The parts of an expression that are texts: picked, changed by functions, and compared."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable
from typing import NoReturn

import numpy as np

from lodcli.expressions.exact_decimals import ExactDecimals
from lodcli.expressions.function_table import COALESCE, REPLACE_MATCHES, SPLIT, properties_of
from lodcli.expressions.functions import COMPARISONS, SWAPPED, picked
from lodcli.expressions.hints import TEXT_OF_BYTES, Listed, call_of, compared_list, has_literals
from lodcli.expressions.operations import V
from lodcli.expressions.parsing import LISTS, function_name, is_none, is_words, words_of
from lodcli.expressions.syntax import bounds_of
from lodcli.expressions.texts import (
    Packed,
    joined_pairs,
    packed,
    pair_order,
    texts_among,
)
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.order.ranks import text_ranks
from lodcli.kernels.order.texts import Texts, text_order

# Characters that no pattern has: \b in quotes, instead of r"\b".
_ESCAPED = re.compile("[\x01-\x08]")


class ComparedTexts(ExactDecimals[V]):
    """The texts of an expression, as their numbers in a pool of texts."""

    def text_comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> V | None:
        """Return a comparison of texts with words, texts or categories; None if it has no texts."""
        for node, other, mirrored in ((left, right, False), (right, left, True)):
            words = words_of(other)
            of_list = isinstance(op, ast.In | ast.NotIn)
            fits = isinstance(other, LISTS) == of_list and not (of_list and mirrored)
            if of_list and fits and self.expression.is_text(node):
                self._refuse_numbers(other)
            if not self.expression.is_text(node) or words is None or not fits:
                continue
            if isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                found = self._of_each_text(node, functools.partial(texts_among, words))
                inverted = isinstance(op, ast.NotEq | ast.NotIn)
                return self.mapped(np.logical_not, found) if inverted else found
            function = COMPARISONS[SWAPPED[type(op)] if mirrored else type(op)]
            return self._of_each_text(node, functools.partial(_ordered, function, words[0]))
        sides = left, right
        count = sum(map(self.expression.is_text, sides))
        if not count or not all(map(self.expression.is_of_words, sides)):
            return None
        if type(op) not in COMPARISONS:  # in
            return None
        if count == 1 and type(op) in SWAPPED:
            self.fail(right, "a text and a category are compared with == or !=")
        one, two, texts = self._pooled(left, right)
        order = functools.partial(pair_order, texts, equality=type(op) not in SWAPPED)
        try:
            found = self.paired(order, one, two)
        except LodError as error:
            self.fail(right, str(error))
        return self.mapped(lambda data: COMPARISONS[type(op)](data, 0), found)

    def _refuse_numbers(self, listed: ast.expr) -> None:
        """Raise an error about the first literal of a list that is no text, if there is one."""
        for one in getattr(listed, "elts", ()):
            if not is_words(one) and has_literals(ast.List([one])):
                found = self.expression.source_of(one)
                self.fail(one, f"expected a text in quotes, found {found}")

    def is_of_several(self, values: V) -> bool:
        """Return whether the values are several for one item, and no function takes them all."""
        return False

    def refuse_list(
        self, listed: Listed, beside: ast.expr, op: ast.cmpop, found: V | None
    ) -> NoReturn:
        """Raise an error about a list that is compared with == or !=.

        Args:
            beside: the other side.
            found: whether the values of the other side are in the list; None if not all elements
                are literals.
        """
        name, text = self.expression.named(beside), self.expression.source_of(listed)
        of_text = self.expression.marks_of(beside)[1].is_text
        lists = self.expression.lists_of(beside)
        several = found is not None and self.is_of_several(found)
        said = compared_list(name, listed, text, op, lists, of_text=of_text, several=several)
        self.fail(listed, said)

    def numbered(self, node: ast.expr, pool: list[Packed]) -> V:
        """Return the numbers of the texts, or words of categories, of a part, in a pool of texts.

        Args:
            pool: texts are appended to it; a null has the number of any.
        """
        try:
            return self._numbered(node, pool)
        except RecursionError:
            self.fail(node, "is nested too deeply")

    def _numbered(self, node: ast.expr, pool: list[Packed]) -> V:
        first = _count(pool)
        name, marks = self.expression.marks_of(node)
        if isinstance(node, ast.IfExp):
            sides = (node.body, node.orelse)
            left, right = (None if is_none(one) else self.numbered(one, pool) for one in sides)
            return self.one_of(node, [left, right])
        if isinstance(node, ast.BinOp) and self.expression.texts_of(node):
            return self._joined_texts(node, pool)
        if isinstance(node, ast.Subscript) and self.expression.texts_of(node):
            if self.expression.cuts_texts(node):
                return self._cut_texts(node, pool)
            return self.slice_of(node, self.numbered(node.value, pool))
        if isinstance(node, ast.Call) and self.expression.texts_of(node):
            name = function_name(node)
            if properties_of(name).needs_order:
                return self._greatest_text(node, pool)
            if name == SPLIT:
                return self._split_texts(node, pool)
            if properties_of(name).returns == "text":
                return self._made_texts(node, pool)
            if name != COALESCE:
                return self.picked_of(node, self.numbered(node.args[0], pool))
            return self.one_of(node, [self.numbered(one, pool) for one in node.args])
        if marks.categories is not None:
            pool.append(packed([*marks.categories.words] or [""]))
            return self.mapped(lambda codes: codes.astype(np.int64) + first, self.of(node))
        if words := words_of(node):
            pool.append(packed(words))
            return self.constant(first)
        if not self.expression.is_text(node):
            self.fail(node, "expected a text in quotes, or a tensor of texts")

        def numbers(data: Array, offsets: Offsets) -> Array:
            # One text at least: a null has the number of any.
            pool.append((data, offsets) if offsets.size > 1 else packed([""]))
            return np.arange(first, first + offsets.size - 1)

        return self.of_texts(name, numbers)

    def _greatest_text(self, node: ast.Call, pool: list[Packed]) -> V:
        """Return `numbered` of the greatest or the least text of each list, by their bytes."""
        first = _count(pool)
        given: list[Packed] = []
        numbers = self.numbered(node.args[0], given)
        ranks = text_ranks(Texts.joined([Texts.of(*one) for one in given]))
        places = np.zeros(max(1, ranks.size), np.int64)  # by rank; a null has rank 0
        places[ranks] = np.arange(first, first + ranks.size)
        pool += given if ranks.size else [packed([""])]
        chosen = self.picked_of(node, self.mapped(functools.partial(picked, ranks), numbers))
        return self.mapped(functools.partial(picked, places), chosen)

    def _joined_texts(self, node: ast.BinOp, pool: list[Packed]) -> V:
        """Return `numbered` of pairs of texts, each joined to one text."""
        first = _count(pool)
        one, two, texts = self._pooled(node.left, node.right)

        def joined(left: Array, right: Array) -> Array:
            left, right = np.broadcast_arrays(left, right)
            pool.append(joined_pairs(texts, left, right) if left.size else packed([""]))
            return np.arange(first, first + left.size).reshape(left.shape)

        try:
            return self.paired(joined, one, two)
        except LodError as error:
            self.fail(node.right, str(error))

    def _pooled(self, left: ast.expr, right: ast.expr) -> tuple[V, V, list[Texts]]:
        """Return the numbers of the texts of two parts, and the texts of each."""
        pools: tuple[list[Packed], list[Packed]] = [], []
        one, two = map(self.numbered, (left, right), pools)
        return one, two, [Texts.joined([Texts.of(*each) for each in pool]) for pool in pools]

    def _made_texts(self, node: ast.Call, pool: list[Packed]) -> V:
        """Return `numbered` of the results of a function that makes a text of each text."""
        from lodcli.expressions.text_functions_arrow import made_texts

        words = self.words_after(node)
        try:
            function = made_texts(function_name(node), words)
        except LodError as error:
            fits = function_name(node) == REPLACE_MATCHES and _is_pattern(words[0])
            self.fail(node.args[2 if fits else 1], str(error))
        return self._changed_texts(function, node.args[0], pool)

    def _cut_texts(self, node: ast.Subscript, pool: list[Packed]) -> V:
        """Return `numbered` of some characters of each text."""
        from lodcli.expressions.text_functions_arrow import cut_texts

        return self._changed_texts(cut_texts(*self._bounds(node)), node.value, pool)

    def _changed_texts(
        self, function: Callable[[Array, Offsets], Packed], node: ast.expr, pool: list[Packed]
    ) -> V:
        first, given = _count(pool), list[Packed]()
        numbers = self.numbered(node, given)
        pool += [function(*each) for each in given]
        return self.mapped(lambda data: data + first, numbers)

    def slice_of(self, node: ast.Subscript, values: V) -> V:
        """Return a slice of each list of values, or fail."""
        bounds = self._bounds(node)
        try:
            return self.sliced(values, *bounds)
        except LodError as error:
            self.fail(node.value, str(error))

    def _bounds(self, node: ast.Subscript) -> tuple[int | None, int | None]:
        found = bounds_of(node)
        if found is None:
            self.fail(node.slice, "expected whole numbers and no step, as in x[:128] or x[-3:]")
        return found

    def _split_texts(self, node: ast.Call, pool: list[Packed]) -> V:
        """Return `numbered` of the parts of texts between separators, a list for each text."""
        from lodcli.expressions.text_functions_arrow import split_texts

        first = _count(pool)
        (separator,), given = self.words_after(node), list[Packed]()
        numbers = self.numbered(node.args[0], given)
        if not self.data(numbers).ndim:
            self.fail(node.args[0], f"{SPLIT} takes a tensor of texts, this is one text")
        parts = [split_texts(separator, *each) for each in given]
        pool += [texts for texts, _ in parts]
        counts = np.concatenate([count for _, count in parts])
        try:
            return self.lists_of(numbers, lengths_to_offsets(counts, level=0) + first)
        except LodError as error:
            self.fail(node.args[0], str(error))

    def of_text_function(self, node: ast.Call) -> V:
        """Return a condition on each text of a part, or its number of characters."""
        from lodcli.expressions.text_functions_arrow import values_of_texts

        words = self.words_after(node)
        try:
            function = values_of_texts(function_name(node), words)
        except LodError as error:
            self.fail(node.args[-1], str(error))
        return self._of_each_text(node.args[0], function)

    def words_after(self, node: ast.Call) -> list[str]:
        """Return the arguments of a function of texts after the texts, or fail."""
        name, (part, *others) = function_name(node), node.args or [node]
        expected = properties_of(name).words
        if len(others) != expected or node.keywords:
            self.fail(node, f"write {call_of(name, 'text')}")
        takes_words = name != SPLIT and is_words(part)
        if not self.expression.is_of_words(part) and not takes_words:
            self.require_known(part)
            text = self.expression.source_of(part)
            are_bytes = self.expression.marks_of(part)[1].values == "bytes"
            what = f"bytes; {TEXT_OF_BYTES}" if are_bytes else "none"
            self.fail(part, f"{name} takes texts, and {text} is {what}")
        for one in others:
            if not isinstance(one, ast.Constant) or type(one.value) is not str:
                self.fail(one, f"{name}: expected a text in quotes")
        words = [str(ast.literal_eval(one)) for one in others]
        if name in ("replace", REPLACE_MATCHES, SPLIT) and not words[0]:
            self.fail(others[0], f"{name}: expected a text of one character at least")
        for one, word in zip(others, words, strict=True):
            if name in ("matches", REPLACE_MATCHES) and (found := _ESCAPED.search(word)):
                written = repr(found[0]).strip("'")
                self.fail(one, f"{name}: found the character {written}; write r before the quotes")
        return words

    def require_known(self, node: ast.expr) -> None:
        """Fail if a part names something other than a tensor."""
        for one in ast.walk(node):
            name = self.expression.named(one)
            if name is not None and name not in self.expression.marks:
                assert isinstance(one, ast.expr)
                self.expression.no_tensor(one, name)

    def _of_each_text(self, node: ast.expr, function: Callable[[Array, Offsets], Array]) -> V:
        """Return a function of each text of a part."""
        if self.expression.is_text(node) and not self.expression.texts_of(node):
            return self.of_texts(self.expression.marks_of(node)[0], function)
        pool: list[Packed] = []
        numbers = self.numbered(node, pool)
        results = np.concatenate([function(*each) for each in pool])
        return self.mapped(functools.partial(picked, results), numbers)

    def text_lengths(self, node: ast.expr) -> V:
        """Return the number of bytes of each text that a choice picks, 0 of a null."""
        lengths = self._of_each_text(node, lambda data, offsets: np.diff(offsets))
        return self.coalesced(lengths, self.constant(0))


def _is_pattern(word: str) -> bool:
    """Return whether a word is a pattern."""
    from lodcli.expressions.text_functions_arrow import values_of_texts

    try:
        values_of_texts("matches", [word])
    except LodError:
        return False
    return True


def _count(pool: list[Packed]) -> int:
    """Return how many texts a pool has: the number of the next one."""
    return sum(offsets.size - 1 for _, offsets in pool)


def _ordered(function: np.ufunc, word: str, data: Array, offsets: Offsets) -> Array:
    found: Array = function(text_order(Texts.of(data, offsets), Texts.of_words([word])), 0)
    return found
