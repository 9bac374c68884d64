"""The operations on values that an expression is made of, for any kind of values."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.tensor.marks import Decimals

V = TypeVar("V")


class OverflowsError(InvalidDataError):
    """A time, or the digits of a decimal, do not fit 64 bits."""


class UnfitError(InvalidDataError):
    """A number does not fit the dtype of the values beside it.

    Attributes:
        what: without the remedy, which is one for values without a unit.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what


class Operations(ABC, Generic[V]):
    """Operations on values: whole tensors in `lod apply`, items in `lod filter` and `lod sort`."""

    @abstractmethod
    def constant(self, value: bool | int | float) -> V:
        """Return a number."""

    @abstractmethod
    def tensor(self, node: ast.expr, name: str) -> V:
        """Return the tensor of that name, or fail."""

    @abstractmethod
    def data(self, values: V) -> Array:
        """Return the array of values; () for one number."""

    @abstractmethod
    def mapped(self, function: Callable[[Array], Array], values: V) -> V:
        """Return an elementwise function of values."""

    @abstractmethod
    def combined(self, function: np.ufunc, left: V, right: V) -> V:
        """Return an elementwise function of two values. Raises LodError if they do not fit."""

    @abstractmethod
    def paired(self, function: Callable[[Array, Array], Array], left: V, right: V) -> V:
        """Return a function of the numbers of two values, in pairs. Raises LodError as `combined`.

        Args:
            function: returns a number for each pair, of two flat arrays.
        """

    @abstractmethod
    def coalesced(self, left: V, right: V) -> V:
        """Return values with others where they are null. Raises LodError as `combined`."""

    @abstractmethod
    def chosen(self, condition: V, left: V | None, right: V | None) -> V:
        """Return values of the left where a condition is true, and else of the right.

        Args:
            condition: neither true nor false where it is null or nan.
            left, right: None for nulls; not both.

        Raises:
            LodError: as `combined`.
        """

    def condition(self, values: V) -> V:
        """Return the operands of `and`, `or` and `not` as truth values."""
        return values

    def timed(self, function: np.ufunc, left: V, right: V) -> V:
        """Return `combined`, for times and digits.

        Raises:
            OverflowsError: a result does not fit 64 bits; or it is no int64.
            LodError: as `combined`.
        """
        return self.combined(function, left, right)

    def whole_times(self, values: V) -> V:
        """Return times of which parts are whole numbers: those that floats are in."""
        return values

    @abstractmethod
    def elementwise(self, function: np.ufunc, values: V) -> V:
        """Return a function of one value. Raises LodError if it is not defined for the dtype."""

    @abstractmethod
    def of_texts(self, name: str, function: Callable[[Array, Offsets], Array]) -> V:
        """Return a value for each text of a tensor: a function of its bytes and offsets."""

    @abstractmethod
    def lists_of(self, values: V, offsets: Offsets) -> V:
        """Return a list for each number n: those from offsets[n] to offsets[n + 1].

        Args:
            values: whole numbers; the list of a null is null.
            offsets: one more than there are numbers.

        Raises:
            LodError: rows of several numbers.
        """

    @abstractmethod
    def sliced(self, values: V, start: int | None, stop: int | None) -> V:
        """Return a part of each list, as a slice in Python. Raises LodError: there are no lists."""

    @abstractmethod
    def index(self) -> V:
        """Return the number of each item, from 0 in the first batch."""

    @abstractmethod
    def call(self, node: ast.Call, name: str) -> V:
        """Return the result of a function, or fail."""

    @abstractmethod
    def picked_of(self, node: ast.Call, values: V) -> V:
        """Return the first or last of lists of values, by the function called, or fail."""

    @abstractmethod
    def floats(self, name: str, digits: Array, decimals: Decimals) -> Array:
        """Return digits of decimals as floating numbers. Raises LodError if they lose some."""

    @abstractmethod
    def missing(self, values: V) -> V:
        """Return where values are null."""
