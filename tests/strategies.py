"""Random trees, indexes and tensors, for every property test.

They are small, and often empty, where bugs are likely: no rows, no sequences, empty
sequences on any level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Array = npt.NDArray[Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = tuple(np.dtype(name) for name in ("float32", "float64"))
DTYPES = (
    *(
        np.dtype(name)
        for name in (
            *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
            *("float16", "float32", "float64", "complex64", "complex128"),
        )
    ),
    BFLOAT16,
)
ROW_SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (2, 2), (0,))
LAYOUTS = ("plain", "rows strided", "columns strided", "read-only", "Fortran", "reversed")
_WORDS = ("article", "sentence", "word", "byte", "utterance", "größe", "level-x")


@st.composite
def lengths_trees(
    draw: st.DrawFn, min_levels: int = 0, max_levels: int = 3, max_length: int = 3
) -> list[list[int]]:
    """Draw consistent item counts per level, outermost first."""
    levels = draw(st.integers(min_levels, max_levels))
    count = draw(st.integers(0, max_length))
    tree = []
    for _ in range(levels):
        lengths = draw(st.lists(st.integers(0, max_length), min_size=count, max_size=count))
        tree.append(lengths)
        count = sum(lengths)
    return tree


def level_names(levels: int) -> st.SearchStrategy[list[str | None] | None]:
    """Draw names for this many levels: no list at all, or a name or None for each level."""
    unnamed: st.SearchStrategy[list[str | None] | None] = st.none()
    some: st.SearchStrategy[list[str | None] | None] = st.permutations(_WORDS).flatmap(
        lambda words: st.tuples(*(st.sampled_from((word, None)) for word in words[:levels])).map(
            list
        )
    )
    return unnamed | some


@st.composite
def lods(draw: st.DrawFn, max_levels: int = 3, min_levels: int = 0) -> LoD:
    """Draw an index, with or without level names."""
    lengths = draw(lengths_trees(min_levels, max_levels))
    return LoD.from_lengths(lengths, draw(level_names(len(lengths))))


@st.composite
def tensors(
    draw: st.DrawFn,
    dtypes: Sequence[np.dtype[Any]] = DTYPES,
    row_shapes: Sequence[tuple[int, ...]] = ROW_SHAPES,
    max_levels: int = 3,
    min_levels: int = 0,
    any_bits: bool = False,
) -> LoDTensor:
    """Draw a tensor whose memory is contiguous, strided, reversed or read-only.

    Args:
        dtypes: dtypes to draw from.
        row_shapes: row shapes to draw from.
        max_levels: the most levels.
        min_levels: the fewest levels.
        any_bits: fill it with random bits, including NaN and infinity; else with
            moderate numbers, whose sums and products stay finite.
    """
    lod = draw(lods(max_levels, min_levels))
    rows = draw(st.integers(0, 6)) if lod.rows is None else lod.rows
    shape = (rows, *draw(st.sampled_from(row_shapes)))
    dtype = draw(st.sampled_from(dtypes))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = random_values(generator, shape, dtype, any_bits=any_bits)
    return LoDTensor(laid_out(values, draw(st.sampled_from(LAYOUTS))), lod)


def random_values(
    generator: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    any_bits: bool = False,
) -> Array:
    """Return random numbers of any dtype, or with `any_bits` random bits."""
    if any_bits and dtype != np.bool_:
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(generator.bytes(size), dtype).reshape(shape).copy()
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return generator.integers(0 if dtype.kind == "u" else -100, 100, shape).astype(dtype)
    values = generator.normal(size=shape)
    if dtype.kind == "c":
        return (values + 1j * generator.normal(size=shape)).astype(dtype)
    return values.astype(dtype)


def laid_out(values: Array, layout: str) -> Array:
    """Return equal values in one of the memory layouts LAYOUTS."""
    if layout == "rows strided":
        wide = np.zeros((2 * values.shape[0], *values.shape[1:]), values.dtype)
        wide[::2] = values
        return wide[::2]
    if layout == "columns strided" and values.ndim > 1:
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    if layout == "Fortran":
        return np.asfortranarray(values)
    if layout == "reversed":
        return np.ascontiguousarray(values[::-1])[::-1]
    result = values.copy()
    result.flags.writeable = layout != "read-only"
    return result
