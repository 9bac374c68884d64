"""Weights of one layer in one direction: the arrays declared by a kind of cell.

A kind is a frozen dataclass whose fields are arrays and options. It declares the shape of each
array once, as a function of sizes (`weight_shapes`). Checks, random weights and state dicts are
derived from that.
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
    NotDefinedError,
    OptionError,
    ShapeMismatchError,
    UnsupportedError,
    counted,
)
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.platform.machine import available_bytes
from lodcli.kernels.rnn.cells.activations import ACTIVATIONS, activation_named
from lodcli.kernels.runtime.argument_types import CheckedFields, types_explained
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.summaries import Summarized

Shapes = dict[str, tuple[int, ...]]
# Cached properties that depend only on shapes and options.
_OF_SHAPES = (
    "hidden_size", "input_size", "output_size", "state_sizes", "operations", "_expected",
)  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """The sizes that decide the shapes of a layer's arrays.

    Attributes:
        input: D, the width of a row of data.
        hidden: H.
        projection: the width of an output that is a projection of the state; 0 for none.
        extras: optional parts that the kind allows and that exist: "bias", "peepholes".
        heads: the number of blocks of block-diagonal recurrent matrices.
    """

    input: int
    hidden: int
    projection: int = 0
    extras: frozenset[str] = frozenset()
    heads: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerWeights(CheckedFields, Summarized, ABC):
    """The weights of one layer in one direction, of any kind of cell.

    Attributes:
        KIND: the name of the cell on the command line and in files.
        OPTIONAL: the sizes and extras of `Sizes` that the kind supports.
        NAMES: the names in a state dict of fields whose names differ from it.
        ALIASES: names in a state dict, by the other names that files use for them.
        SUFFIXED: whether the names in a state dict always end in layer and direction ("_l0"), as in
            torch. Otherwise the suffix may be missing for a single layer in one direction.
        HAS_BIAS: whether random weights have biases by default.
        ACTIVATION_FIELDS: the fields that hold the name of an activation.
        ELEMENTWISE: the fields with several dimensions that are not matrices.
        INPUT_WEIGHT, STATE_WEIGHT: the fields whose shapes determine D and H, for messages.
    """

    KIND: ClassVar[str]
    OPTIONAL: ClassVar[frozenset[str]] = frozenset()
    NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    ALIASES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    SUFFIXED: ClassVar[bool] = False
    HAS_BIAS: ClassVar[bool] = True
    ACTIVATION_FIELDS: ClassVar[tuple[str, ...]] = ()
    ELEMENTWISE: ClassVar[frozenset[str]] = frozenset()
    INPUT_WEIGHT: ClassVar[str]
    STATE_WEIGHT: ClassVar[str]

    # A property, so that a class without its own cannot be instantiated.
    @property
    @abstractmethod
    def RANKS(self) -> Mapping[str, int]:
        """The number of dimensions of the arrays whose shapes `sizes` reads, by field.

        A kind declares it as a class variable, as the others.
        """

    @classmethod
    @abstractmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        """Return the shape of every array that weights of these sizes have, by field."""

    @abstractmethod
    def sizes(self) -> Sizes:
        """Return the sizes of these weights, read from some arrays; `check` checks the others."""

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
            UnsupportedError: the kind does not support a projection, or one of the extras.
            OptionError: the heads do not divide the state, the weights exceed the memory, or the
                dtype is invalid.
        """
        wanted_dtype = dtype_of_rows(dtype)
        wanted = set(sizes.extras)
        wanted |= {"projection"} if sizes.projection else set()
        wanted |= {"heads"} if sizes.heads != 1 else set()
        for name in sorted(wanted - cls.OPTIONAL):
            raise UnsupportedError(f"cell {cls.KIND}: has no {name}")
        if sizes.heads < 1 or sizes.hidden % sizes.heads:
            raise OptionError(
                f"heads: expected a divisor of {sizes.hidden} values, found {sizes.heads}"
            )
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

    @classmethod
    @cache
    def names(cls) -> Mapping[str, str]:
        """Return the field of each array by its name in a state dict, without the suffix."""
        return {
            cls.name_of(field.name): field.name
            for field in dataclasses.fields(cls)
            if field.name not in cls.option_defaults()
        }

    @classmethod
    @cache
    def option_defaults(cls) -> Mapping[str, str | bool]:
        """Return the defaults of the options, the fields that are not arrays, by field."""
        return {
            field.name: field.default
            for field in dataclasses.fields(cls)
            if isinstance(field.default, str | bool)
        }

    @classmethod
    def name_of(cls, field: str) -> str:
        """Return the name in a state dict of a field."""
        return cls.NAMES.get(field, field)

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """Return the names in a state dict of the required arrays."""
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
        return next(iter(self.arrays().values())).dtype

    @property
    def is_plain(self) -> bool:
        """Whether this is the plain form of a cell, which compiled backends support."""
        return False

    @property
    def takes_projected(self) -> bool:
        """Whether the data are the projected inputs."""
        return False

    @cached_property
    def operations(self) -> int:
        """The number of operations of a step of one sequence in matrix products.

        A product of an (m, k) matrix and a vector is m*k multiplications and as many additions;
        elementwise operations are not counted, as is usual.
        """
        return 2 * sum(
            array.size
            for name, array in self._arrays.items()
            if array.ndim > 1 and name not in self.ELEMENTWISE
        )

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that are not None, by field, in the order of the fields."""
        return self._arrays.copy()

    @cached_property
    def _arrays(self) -> dict[str, Array]:
        return {name: value for name, value in vars(self).items() if _is_array(value)}

    @cached_property
    def _expected(self) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        """For every array its name in a state dict, its field, and the shape that sizes require."""
        shapes = self.weight_shapes(self.sizes())
        return tuple(
            (name, field, shapes[field])
            for name, field in self.names().items()
            if getattr(self, field) is not None
        )

    def named(self) -> dict[str, Array]:
        """Return the arrays that are not None, by their names in a state dict."""
        arrays = self.arrays()
        return {name: arrays[field] for name, field in self.names().items() if field in arrays}

    def check(self, suffix: str = "") -> None:
        """Raise an error if shapes, dtypes or activations are invalid.

        Args:
            suffix: appended to the names of weights in messages: "_l0", "_l1_reverse".

        Raises:
            ShapeMismatchError: a shape does not match the others.
            NotDefinedError: a dtype is unsupported.
            InvalidDataError: an activation is unsupported.
        """
        if "_expected" not in vars(self):  # else the sizes have been read before
            self.check_ranks(suffix)
        # Checked in every call: the shape of an array can be set in place.
        for name, field, shape in self._expected:
            array = getattr(self, field)
            if array.shape != shape:
                raise ShapeMismatchError(
                    f"{name}{suffix}: expected shape {shape}, found {array.shape}"
                )
            if array.dtype.kind != "f":
                require_real(name, array, suffix)
        for field in self.ACTIVATION_FIELDS:
            if (activation := getattr(self, field)) not in ACTIVATIONS:
                activation_named(activation)

    def check_ranks(self, suffix: str) -> None:
        """Raise an error if the rank of an array from which sizes are read is wrong.

        Raises:
            ShapeMismatchError: names the array.
        """
        for field, rank in self.RANKS.items():
            array = getattr(self, field)
            if array is not None and array.ndim != rank:
                raise ShapeMismatchError(
                    f"{self.name_of(field)}{suffix}: expected {counted(rank, 'dimension')}, found "
                    f"shape {array.shape}"
                )

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the weights in `dtype`; values out of its range become inf.

        Arrays of that dtype are shared, not copied.

        Raises:
            OptionError: there is no such dtype.
        """
        wanted = dtype_of_rows(dtype)
        for array in self._arrays.values():
            if array.dtype != wanted:
                break
        else:
            return self
        return self.moved(lambda array: as_dtype(array, wanted))

    @types_explained
    def with_arrays(self, arrays: Mapping[str, Array]) -> Self:
        """Return the weights with other arrays, by field, and the same options; see `check`.

        Sizes that were read before are not read again if all shapes are the same.

        Raises:
            InvalidDataError: a value is not an array, or these weights have no field of the name.
        """
        made, mine = object.__new__(type(self)), vars(self)
        theirs = vars(made)
        for field in self._fields():
            theirs[field] = mine[field]
        same, known = True, self.names().values()
        for field, array in arrays.items():
            if field not in known:
                raise InvalidDataError(
                    f"{type(self).__name__}: expected arrays of {', '.join(known)}, found {field}"
                )
            if not _is_array(array):
                raise InvalidDataError(
                    f"{type(self).__name__}: {field}: expected an array, found "
                    f"{type(array).__name__}"
                )
            same = same and mine[field] is not None and mine[field].shape == array.shape
            theirs[field] = array
        if same:
            theirs["_arrays"] = {**self._arrays, **arrays}  # in the order of the fields
            for name in _OF_SHAPES:
                if name in mine:
                    theirs[name] = mine[name]
        return made

    @classmethod
    @cache
    def _fields(cls) -> tuple[str, ...]:
        return tuple(field.name for field in dataclasses.fields(cls))

    @types_explained
    def moved(self, move: Callable[[Array], Array]) -> Self:
        """Return the weights with `move` applied to each array, such as cupy.asarray.

        Raises:
            InvalidDataError: `move` does not return an array.
        """
        return self.with_arrays({name: move(array) for name, array in self.arrays().items()})

    @types_explained
    def plus(self, other: Self) -> Self:
        """Return the sum of two weights, array by array, as for gradients of two parts of a batch.

        Raises:
            ShapeMismatchError: their arrays differ in shape.
        """
        ours, theirs = self.arrays(), other.arrays()
        for name in ours | theirs:
            mine, added = (
                arrays[name].shape if name in arrays else None for arrays in (ours, theirs)
            )
            if mine != added:
                raise ShapeMismatchError(f"plus: {name}: expected shape {mine}, found {added}")
        with np.errstate(all="ignore"):  # gradients may be infinite
            return self.with_arrays({name: array + theirs[name] for name, array in ours.items()})

    def frozen(self) -> Self:
        """Return read-only copies of the weights.

        Compiled backends pack weights in a different layout: frozen ones only once, others in
        every run.
        """

        def frozen(array: Array) -> Array:
            copy = array.copy()
            # Arrays on a GPU cannot be made read-only.
            return immutable(copy) if isinstance(copy, np.ndarray) else copy

        return self.moved(frozen)

    def zeros_like(self) -> Self:
        """Return weights of the same shapes, all zero, such as the gradient of an empty batch."""
        return self.moved(np.zeros_like)


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or is_on_device(value)


def require_gates(name: str, array: Array, gates: int, kind: str) -> None:
    """Raise an error unless a matrix has an equal number of rows, not 0, for each gate.

    Raises:
        ShapeMismatchError: names the matrix and its number of rows.
    """
    rows = array.shape[0]
    if rows == 0 or rows % gates:
        raise ShapeMismatchError(
            f"{name}: expected {gates} blocks of rows ({kind}), found {rows} rows"
        )


def require_real(name: str, array: Array, suffix: str = "") -> None:
    """Raise an error for an array that does not hold real numbers.

    Raises:
        NotDefinedError: names the array, with the suffix, and its dtype.
    """
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise NotDefinedError(f"{name}{suffix}: expected real numbers, found {array.dtype}")
