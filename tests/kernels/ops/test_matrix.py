"""Every op of the table with every dtype, row shape, layout, batch and backend.

An op joins by its line in the table; where it needs more than a tensor, by one in
op_arguments.MAKE. What an op means is tested in its own file; here, that it means the same
whatever its input looks like, and that what it cannot do is refused in words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply.arguments import described
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.kernels.ops.op_arguments import arguments, results
from tests.sampling import every
from tests.slow import compiled_for
from tests.strategies import BFLOAT16, DTYPES, LAYOUTS, ROW_SHAPES, laid_out, random_values

LODS = {
    "one level": LoD.from_lengths([[2, 0, 3, 1]]),
    "two levels": LoD.from_lengths([[2, 0, 1], [2, 1, 3]]),
    "three levels": LoD.from_lengths([[2, 0], [0, 3], [1, 3, 2]]),
    "empty sequences": LoD.from_lengths([[0, 0]]),
    "no sequences": LoD.from_lengths([[]]),
    "no articles": LoD.from_lengths([[], []]),
}
LOD = LODS["two levels"]
FLOAT_ONLY = {"attention", "conv", "layer_norm", "log_softmax", "rms_norm", "row_conv", "softmax",
              "topk_avg_pooling"}  # fmt: skip
WHOLE_ONLY = {"ctc_align", "edit_distance", "enumerate", "erase"}
NUMBERS = {"add", "div", "dot", "mul", "sub"}
ORDERED = {"argsort", "histogram", "max", "max_index", "min", "min_index", "searchsorted", "sort",
           "topk", "unique", "unique_counts"}  # fmt: skip
# Each dtype is compiled for itself, which takes seconds where nothing is cached.
COMPILED = (*(np.dtype(name) for name in ("float32", "int64", "bool")), BFLOAT16)
BACKENDS = {
    name: ("numpy", "numba") if described(OPS[name]).has_backend else (None,) for name in OPS
}
RUNS = [(name, backend) for name in OPS for backend in BACKENDS[name]]
every_run = pytest.mark.parametrize(("name", "backend"), RUNS)


def takes(name: str, dtype: np.dtype[Any]) -> bool:
    """Return whether an op has a meaning for numbers of a dtype."""
    if name in FLOAT_ONLY:
        return dtype.kind == "f" or dtype == BFLOAT16
    if name == "linear_scan":
        return dtype.kind in "fc" or dtype == BFLOAT16
    if name in WHOLE_ONLY:
        return dtype.kind in "iu"
    if name == "mask":  # whole numbers; floats that are some
        return dtype.kind in "iuf" or dtype == BFLOAT16
    if name in NUMBERS:
        return dtype.kind != "b"
    return dtype.kind != "c" or name not in ORDERED


def usual_dtype(name: str) -> np.dtype[Any]:
    """Return float32 if an op computes with it, else int64."""
    floats = takes(name, np.dtype(np.float32)) and name != "mask"
    return np.dtype(np.float32 if floats else np.int64)


def with_dtypes() -> Iterator[Any]:
    """Yield every op, backend and dtypes: compiled for the usual one and, slow, for the others.

    As a rule for one of the others, by turns.
    """
    for turn, (name, backend) in enumerate(RUNS):
        if backend != "numba":
            yield pytest.param(name, backend, DTYPES, id=f"{name}-{backend}")
            continue
        usual = usual_dtype(name)
        others = [dtype for dtype in COMPILED if dtype != usual]
        others = others[turn // 2 % every(len(others)) :: every(len(others))]
        yield pytest.param(name, backend, [usual], id=f"{name}-{backend}")
        yield pytest.param(
            name, backend, others, id=f"{name}-{backend}-others", marks=pytest.mark.slow
        )


WITH_DTYPES = list(with_dtypes())
every_run_and_dtype = pytest.mark.parametrize(("name", "backend", "dtypes"), WITH_DTYPES)


def tensor(
    lod: LoD, shape: tuple[int, ...], dtype: np.dtype[Any], *, any_bits: bool = False
) -> LoDTensor:
    generator = np.random.default_rng(len(shape))
    rows = random_values(generator, (lod.rows or 0, *shape), dtype, any_bits=any_bits)
    return LoDTensor(rows, lod)


def tried(name: str, x: LoDTensor, backend: str | None) -> list[LoDTensor] | LodError:
    """Return the result of an op, or its error, which must be one line that names the op."""
    try:
        return results(name, x, backend)
    except LodError as error:
        return error


def same(found: LoDTensor, expected: LoDTensor, tolerance: float | None = None) -> None:
    """Assert equal dtypes, shapes and indexes, and bits; or values, up to a tolerance."""
    assert found.dtype == expected.dtype
    assert found.data.shape == expected.data.shape
    assert found.lod == expected.lod
    if tolerance is None or expected.dtype.kind in "biu":
        assert found.data.tobytes() == expected.data.tobytes()
        return
    a, b = (
        one.data.astype(complex if one.dtype.kind == "c" else float) for one in (found, expected)
    )
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@every_run_and_dtype
def test_a_dtype_is_computed_with_or_refused(
    name: str, backend: str | None, dtypes: list[np.dtype[Any]]
) -> None:
    for dtype in dtypes:
        shapes = [shape for shape in ROW_SHAPES if 0 not in shape]
        x = [tensor(LOD, shape, dtype) for shape in shapes]
        if name == "mask" and dtype.kind not in "biuc":
            x = [one.with_data(np.abs(one.data).round()) for one in x]
        found = [tried(name, one, backend) for one in x]
        computed = [not isinstance(one, LodError) for one in found]
        assert any(computed) == takes(name, dtype), f"{dtype}: {found}"
        for one in found:
            if not takes(name, dtype):
                assert isinstance(one, LodError)
                assert "\n" not in str(one)


@every_run
@pytest.mark.parametrize("key", LODS)
def test_no_rows_no_sequences_and_no_width_are_no_trouble(
    name: str, backend: str | None, key: str
) -> None:
    dtype = usual_dtype(name)
    fitting = [shape for shape in ROW_SHAPES if 0 not in shape]
    some = [tried(name, tensor(LODS["one level"], shape, dtype), backend) for shape in fitting]
    usual = [not isinstance(one, LodError) for one in some]
    assert any(usual)
    for shape, works in zip(fitting, usual, strict=True):
        found = tried(name, tensor(LODS[key], shape, dtype), backend)
        # What works on some sequences works on none, and on any number of levels.
        assert isinstance(found, LodError) != works, f"{shape}: {found}"
    tried(name, tensor(LODS[key], (0,), dtype), backend)


@every_run
def test_the_layout_of_the_rows_does_not_matter(name: str, backend: str | None) -> None:
    dtype = usual_dtype(name)
    for shape in ((), (1,), (3,), (2, 2)):
        plain = tensor(LOD, shape, dtype)
        expected = tried(name, plain, backend)
        if isinstance(expected, LodError):
            continue
        swapped = plain.data.astype(dtype.newbyteorder(">"))
        layouts = [laid_out(plain.data, layout) for layout in LAYOUTS]
        for rows in (*layouts, swapped):
            before = rows.tobytes()
            for one, other in zip(
                results(name, LoDTensor(rows, LOD), backend), expected, strict=True
            ):
                same(one, other)
            assert rows.tobytes() == before, "the op changed its input"


@pytest.mark.parametrize(
    ("name", "backend", "dtypes"), [each for each in WITH_DTYPES if each.values[1] == "numba"]
)
def test_a_backend_gives_what_the_reference_gives(
    name: str, backend: str, dtypes: list[np.dtype[Any]]
) -> None:
    for dtype in dtypes:
        # Sums are made in another order; halves are rounded at the end.
        tolerance = 2e-2 if is_half(dtype) else 1e-5
        for shape in ROW_SHAPES:
            x = tensor(LOD, shape, dtype)
            expected, found = tried(name, x, "numpy"), tried(name, x, backend)
            assert isinstance(found, LodError) == isinstance(expected, LodError)
            if not isinstance(expected, LodError) and not isinstance(found, LodError):
                for one, other in zip(found, expected, strict=True):
                    same(one, other, tolerance)


@every_run_and_dtype
def test_any_bits_are_numbers_and_stay_in_their_sequences(
    name: str, backend: str | None, dtypes: list[np.dtype[Any]]
) -> None:
    """NaNs, infinities and the largest numbers raise nothing, warn of nothing."""
    for dtype in dtypes:
        for shape in ROW_SHAPES:
            tried(name, tensor(LOD, shape, dtype, any_bits=True), backend)
    if OPS[name].itemwise and takes(name, np.dtype(np.float32)) and np.float32 in dtypes:
        for shape in ROW_SHAPES:
            x = tensor(LOD, shape, np.dtype(np.float32))
            spoilt = x.data.copy()
            spoilt[3:] = np.nan  # the last article
            clean, dirty = tried(name, x, backend), tried(name, x.with_data(spoilt), backend)
            if isinstance(clean, LodError) or isinstance(dirty, LodError):
                continue
            for one, other in zip(dirty, clean, strict=True):
                if one.lod.n_levels:
                    assert one[0:1].data.tobytes() == other[0:1].data.tobytes()


SUMS = ("cumsum", "dot", "sum")


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize(
    ("dtype", "backend"),
    compiled_for([np.int8], [np.int8, np.uint8, np.int32, np.uint32, np.bool_], ["numpy", "numba"]),
)
def test_whole_numbers_are_summed_in_64_bits(name: str, backend: str, dtype: Any) -> None:
    most = 1 if dtype is np.bool_ else int(np.iinfo(dtype).max)
    if name == "dot":
        most = math.isqrt(most) + 1  # squared, it is just too much for the dtype
    x = LoDTensor(np.full(6, most, dtype), LOD)
    if not takes(name, x.dtype):
        return
    (found,) = results(name, x, backend)
    assert found.dtype == (np.uint64 if np.dtype(dtype).kind == "u" else np.int64)
    value = most**2 if name == "dot" else most
    expected = {"sum": [2, 1, 3], "dot": [2, 1, 3], "cumsum": [1, 2, 1, 1, 2, 3]}[name]
    assert found.data.tolist() == [n * value for n in expected]


@pytest.mark.parametrize("name", ["sum", "mean", "dot", "cumsum"])
@pytest.mark.parametrize(
    ("dtype", "backend"),
    compiled_for([], [np.dtype(np.float16), BFLOAT16], ["numpy", "numba"]),
)
def test_halves_are_summed_wider(name: str, backend: str, dtype: np.dtype[Any]) -> None:
    # 1 and then 4096 times 2**-12, each too small to be seen beside 1 in two bytes.
    rows = np.full(4097, 2.0**-12).astype(dtype)
    rows[0] = 1
    x = LoDTensor(rows, [[4097]])
    made = arguments(name, x, backend)
    if name == "dot":
        made["b"] = x.with_data(np.ones(4097, dtype))
    found = described(OPS[name]).function(**made)
    assert found.dtype == dtype
    wanted = 2 / 4097 if name == "mean" else 2
    assert float(found.data[-1]) == pytest.approx(wanted, rel=2**-7)
