"""Weights of one layer in one direction: the arrays that a kind of cell declares.

A kind is a frozen dataclass whose fields are arrays and options. It declares the shape of each
array once, by sizes (`weight_shapes`); what is checked, drawn at random, and read from and
written to a state dict follows from that.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike

from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import (
    InvalidDataError,
    OptionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.platform.machine import available_bytes
from lodcli.kernels.rnn.cells.activations import activation_named
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import is_on_device

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Sizes:
    """The sizes that decide the shapes of a layer's arrays.

    Attributes:
        input: D, the width of a row of data.
        hidden: H.
        projection: the width of an output that is a projection of the state; 0 for none.
        extras: what else is there, of what the kind allows: "bias", "peepholes".
        heads: the number of blocks that matrices between values of the state have.
    """

    input: int
    hidden: int
    projection: int = 0
    extras: frozenset[str] = frozenset()
    heads: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerWeights(ABC):
    """The weights of one layer in one direction, of any kind of cell.

    Attributes:
        KIND: what the command line and files call the cell.
        OPTIONAL: the sizes and extras of `Sizes` that the kind can do with.
        NAMES: the names in a state dict of fields whose own names are others.
        SUFFIXED: whether the names in a state dict always end in layer and direction ("_l0"), as
            torch's do; those of one layer in one direction need not otherwise.
        HAS_BIAS: whether random weights have biases, if nothing is said.
        ACTIVATION_FIELDS: the fields that hold the name of an activation.
        ELEMENTWISE: the fields of several dimensions that are no matrices.
        INPUT_WEIGHT, STATE_WEIGHT: the fields whose shapes tell D and H, for messages.
    """

    KIND: ClassVar[str]
    OPTIONAL: ClassVar[frozenset[str]] = frozenset()
    NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    SUFFIXED: ClassVar[bool] = False
    HAS_BIAS: ClassVar[bool] = True
    ACTIVATION_FIELDS: ClassVar[tuple[str, ...]] = ()
    ELEMENTWISE: ClassVar[frozenset[str]] = frozenset()
    INPUT_WEIGHT: ClassVar[str]
    STATE_WEIGHT: ClassVar[str]

    @classmethod
    @abstractmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        """Return the shape of every array that weights of these sizes have, by field."""

    @abstractmethod
    def sizes(self) -> Sizes:
        """Return the sizes of these weights, as their arrays tell; `check` then compares."""

    @classmethod
    @types_explained
    def drawn(
        cls, field: str, shape: tuple[int, ...], sizes: Sizes, rng: np.random.Generator
    ) -> Array:
        """Return random values of one array, float64: uniform up to 1/sqrt(H), as in torch."""
        bound = 1 / math.sqrt(sizes.hidden)
        return rng.uniform(-bound, bound, shape)

    @classmethod
    @types_explained
    def seeded(cls, sizes: Sizes, rng: np.random.Generator, dtype: DTypeLike) -> Self:
        """Return random weights of the given sizes.

        Raises:
            UnsupportedError: the kind has no projection, or not one of the extras.
            OptionError: they take more memory than there is; no such dtype.
        """
        wanted_dtype = dtype_of_rows(dtype)
        wanted = set(sizes.extras)
        wanted |= {"projection"} if sizes.projection else set()
        wanted |= {"heads"} if sizes.heads != 1 else set()
        for name in sorted(wanted - cls.OPTIONAL):
            raise UnsupportedError(f"cell {cls.KIND}: has no {name}")
        cls.check_heads(sizes.heads, sizes.hidden)
        shapes = cls.weight_shapes(sizes)
        needed, there = 8 * sum(map(math.prod, shapes.values())), available_bytes()
        if there is not None and needed > there:
            raise OptionError(
                f"cell {cls.KIND}: random weights of {sizes.hidden} hidden values take "
                f"{needed:,} bytes, of {there:,} available"
            )
        arrays: dict[str, Any] = {
            field: cls.drawn(field, shape, sizes, rng).astype(wanted_dtype)
            for field, shape in shapes.items()
        }
        return cls(**arrays)

    @staticmethod
    @types_explained
    def check_heads(heads: int, hidden: int) -> None:
        """Raise ShapeMismatchError unless all heads have the same number of values."""
        if heads < 1 or hidden % heads:
            raise ShapeMismatchError(f"heads: expected a divisor of {hidden} values, found {heads}")

    @classmethod
    @cache
    def names(cls) -> Mapping[str, str]:
        """Return the field of each array by its name in a state dict, less layer and direction."""
        return {
            cls.NAMES.get(field.name, field.name): field.name
            for field in dataclasses.fields(cls)
            if not isinstance(field.default, str | bool)
        }

    @classmethod
    def name_of(cls, field: str) -> str:
        """Return the name in a state dict of a field."""
        return next(name for name, one in cls.names().items() if one == field)

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """Return the names in a state dict of the arrays that must be there."""
        missing = dataclasses.MISSING
        needed = {field.name for field in dataclasses.fields(cls) if field.default is missing}
        return tuple(name for name, field in cls.names().items() if field in needed)

    @cached_property
    def hidden_size(self) -> int:
        """H."""
        return self.sizes().hidden

    @cached_property
    def input_size(self) -> int:
        """D, the width of a row of data."""
        return self.sizes().input

    @cached_property
    def output_size(self) -> int:
        """The width of a hidden state, and of an output: H, or P with a projection."""
        sizes = self.sizes()
        return sizes.projection or sizes.hidden

    @cached_property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of each part of a state; the first is that of an output."""
        return (self.output_size,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the arrays."""
        dtype: np.dtype[Any] = next(iter(self.arrays().values())).dtype
        return dtype

    @property
    def is_plain(self) -> bool:
        """Whether this is a plain form of a cell, which compiled backends have."""
        return False

    @property
    def takes_projected(self) -> bool:
        """Whether the data are the projected inputs already."""
        return False

    @cached_property
    def operations(self) -> int:
        """The operations of a step of one sequence: those of its matrix products.

        A product of an (m, k) matrix and a vector is m*k multiplications and as many additions;
        the elementwise rest is left out, as is usual.
        """
        return 2 * sum(
            array.size
            for name, array in self._arrays.items()
            if array.ndim > 1 and name not in self.ELEMENTWISE
        )

    def arrays(self) -> dict[str, Array]:
        """Return the arrays there are, by field, in the order of the fields."""
        return self._arrays.copy()

    @cached_property
    def _arrays(self) -> dict[str, Array]:
        return {name: value for name, value in vars(self).items() if _is_array(value)}

    @cached_property
    def _expected(self) -> tuple[tuple[str, Array, tuple[int, ...]], ...]:
        """The name in a state dict, and the shape that the sizes ask for, of every array."""
        shapes = self.weight_shapes(self.sizes())
        return tuple(
            (name, getattr(self, field), shapes[field])
            for name, field in self.names().items()
            if getattr(self, field) is not None
        )

    def named(self) -> dict[str, Array]:
        """Return the arrays there are, by their names in a state dict."""
        arrays = self.arrays()
        return {name: arrays[field] for name, field in self.names().items() if field in arrays}

    def check(self, suffix: str = "") -> None:
        """Refuse weights that do not fit each other.

        Args:
            suffix: what follows a weight's name in messages: "_l0", "_l1_reverse".

        Raises:
            ShapeMismatchError: a shape; InvalidDataError: a dtype or an activation.
        """
        if "_expected" not in vars(self):  # its sizes have been read before
            self.check_ranks(suffix)
        # Every time: the shape of an array can be set in place.
        for name, array, shape in self._expected:
            if array.shape != shape:
                raise ShapeMismatchError(
                    f"{name}{suffix}: expected shape {shape}, found {array.shape}"
                )
            require_real(name, array, suffix)
        for field in self.ACTIVATION_FIELDS:
            activation_named(getattr(self, field))

    @abstractmethod
    def check_ranks(self, suffix: str) -> None:
        """Refuse arrays from which no sizes can be read.

        Raises:
            ShapeMismatchError: says which.
        """

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the weights in `dtype`; arrays of that dtype are shared, not copied.

        Raises:
            OptionError: no such dtype.
        """
        wanted = dtype_of_rows(dtype)
        for array in self._arrays.values():
            if array.dtype != wanted:
                break
        else:
            return self
        return self.moved(lambda array: array.astype(wanted, copy=False))

    @types_explained
    def moved(self, move: Callable[[Array], Array]) -> Self:
        """Return the weights with each array put through `move`: cupy.asarray, for a GPU.

        Raises:
            InvalidDataError: `move` returns what is no array.
        """
        there: dict[str, Any] = {name: move(array) for name, array in self.arrays().items()}
        for name, value in there.items():
            if not _is_array(value):
                raise InvalidDataError(
                    f"moved: move({name}): expected an array, found {type(value).__name__}"
                )
        return dataclasses.replace(self, **there)

    @types_explained
    def plus(self, other: Self) -> Self:
        """Return the sums of two weights' arrays, as of gradients of two parts of a batch.

        Raises:
            ShapeMismatchError: their arrays are not of the same shapes.
        """
        ours, theirs = self.arrays(), other.arrays()
        for name in ours | theirs:
            mine, added = (
                arrays[name].shape if name in arrays else None for arrays in (ours, theirs)
            )
            if mine != added:
                raise ShapeMismatchError(f"plus: {name}: expected shape {mine}, found {added}")
        sums: dict[str, Any] = {name: array + theirs[name] for name, array in ours.items()}
        return dataclasses.replace(self, **sums)

    def frozen(self) -> Self:
        """Return read-only copies of the weights.

        Compiled backends put weights in an order of their own. With frozen ones they do so
        once, and not in every run.
        """

        def frozen(array: Array) -> Array:
            copy = array.copy()
            # Nothing in a GPU's memory can be made read-only.
            return immutable(copy) if isinstance(copy, np.ndarray) else copy

        return self.moved(frozen)

    def zeros_like(self) -> Self:
        """Return weights of the same shapes, all zero: the gradient when nothing ran."""
        return self.moved(np.zeros_like)


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or is_on_device(value)


def require_rank(name: str, array: Array | None, rank: int) -> None:
    """Refuse an array of another number of dimensions, if there is one.

    Raises:
        ShapeMismatchError: names the array and its shape.
    """
    if array is not None and array.ndim != rank:
        s = "s" if rank > 1 else ""
        raise ShapeMismatchError(f"{name}: expected {rank} dimension{s}, found shape {array.shape}")


def require_real(name: str, array: Array, suffix: str = "") -> None:
    """Refuse an array that is not numbers, or complex.

    Raises:
        InvalidDataError: names the array, with the suffix, and its dtype.
    """
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise InvalidDataError(f"{name}{suffix}: expected real numbers, found {array.dtype}")
