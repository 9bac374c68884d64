"""Lengths as skewed as they come: no thread of a GPU's kernels has much more to do than another."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.checks import lengths_to_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining.concat import sequence_concat
from lodcli.kernels.ops.padding.pad import sequence_pad, sequence_unpad
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.ops.softmax.softmax import segment_log_softmax_grad, segment_softmax_grad
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.lod_tensor import LoDTensor

cupy: Any = pytest.importorskip("cupy")
compiling: Any = importlib.import_module("lodcli.kernels.cuda.compiling")
pytestmark = pytest.mark.gpu

# One long sequence, empty ones on both sides of it, and a short one at the end.
LENGTHS = [0] * 298 + [1435] + [0] * 298 + [3]
# Narrow rows, and such as are read in whole sectors. Each op has kernels of its own for these;
# ops that share them take turns.
WIDTHS = {
    "softmax": (1, 16),
    "log_softmax": (16,),
    "reverse": (1, 16),
    "cumsum": (1, 16),
    "sum": (1, 16),
    "mean": (1,),
    "max": (16,),
    "min": (1,),
    "max_index": (1, 16),
    "min_index": (1,),
    "first": (1, 16),
    "last": (1, 16),
}
# Sums of 1,435 float32 in another order.
TOLERANCE = 2e-5
# Number of offsets read to get from one segment to that of a later row.
LOOKS = """
#include "types.cuh"
struct Counted {
    const int64* offsets;
    int64* looks;
    __device__ int64 operator[](int64 place) const {
        ++*looks;
        return offsets[place];
    }
};
template <class T>
__global__ void __launch_bounds__(1)
after(const T* offsets, int64 segments, int64 count, const T* begin, const T* rows, T* found,
      T* looks) {
    for (int64 n = 0; n < count; n++)
        found[n] = segment_after(Counted{offsets, looks + n}, segments, begin[n], rows[n]);
}
"""


def compared(name: str, tensor: LoDTensor) -> None:
    function = OPS[name].load()
    wanted, found = function(tensor, backend="numpy"), function(tensor.to_device("cuda"))
    parts = zip(_parts(wanted), _parts(found), strict=True)
    for here, there in parts:
        assert here.lod == there.lod
        np.testing.assert_allclose(
            cupy.asnumpy(there.data), here.data, rtol=TOLERANCE, atol=TOLERANCE
        )


def _parts(value: Any) -> tuple[LoDTensor, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize(
    ("name", "width"), [(name, width) for name, widths in WIDTHS.items() for width in widths]
)
def test_a_long_sequence_among_empty_ones(name: str, width: int) -> None:
    rows = np.random.default_rng(1).normal(size=(sum(LENGTHS), width)).astype(np.float32)
    compared(name, LoDTensor(rows, LoD.from_lengths([LENGTHS])))


# Ends of tiles, and the maximum number of rows of one thread.
AT_EDGES = [64, 0, 1, 63, 128, 0, 0, 65, 191, 5, 256, 0, 257, 3, 255, 258, 512]


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "max_index", "reverse", "cumsum"])
def test_sequences_that_end_where_a_tile_does(name: str) -> None:
    lengths = AT_EDGES
    rows = np.random.default_rng(2).normal(size=(sum(lengths), 2)).astype(np.float32)
    compared(name, LoDTensor(rows, LoD.from_lengths([lengths])))


def test_the_way_over_empty_sequences_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = np.array([1, *[0] * 5000, 2, 0, 0, 3, *[0] * 70, 1, 1, *[0] * 9])
    offsets = lengths_to_offsets(lengths, level=0)
    numbers = np.repeat(np.arange(lengths.size), lengths)
    pairs = [(one, row) for one in {0, *numbers} for row in range(numbers.size)]
    begin, rows = np.array([pair for pair in pairs if offsets[pair[0]] <= pair[1]]).T
    found, looks = cupy.zeros(rows.size, np.int64), cupy.zeros(rows.size, np.int64)
    (tmp_path / "looks.cu").write_text(LOOKS)
    monkeypatch.setitem(compiling.SOURCES, "looks", tmp_path / "looks.cu")
    there = [cupy.asarray(np.ascontiguousarray(one)) for one in (offsets, begin, rows)]
    compiling.function("looks", "after<int64>")(
        (1,), (1,), (there[0], lengths.size, rows.size, *there[1:], found, looks)
    )
    np.testing.assert_array_equal(cupy.asnumpy(found), numbers[rows])
    # Twice the number of digits of the way: one by one it would be 5,000 looks.
    assert cupy.asnumpy(looks).max() <= 2 * int(np.ceil(np.log2(lengths.size))) + 2
    near = numbers[rows] == begin
    assert set(cupy.asnumpy(looks)[near].tolist()) <= {0, 1}


@pytest.mark.parametrize("gradient", [segment_softmax_grad, segment_log_softmax_grad])
def test_gradients_of_sequences_that_end_where_a_tile_does(gradient: Any) -> None:
    offsets = lengths_to_offsets(np.array(AT_EDGES), level=0)
    rng = np.random.default_rng(3)
    upstream, result = rng.normal(size=(2, int(offsets[-1]), 2))
    found = on("cupy", gradient)(cupy.asarray(upstream), cupy.asarray(result), offsets)
    wanted = gradient(upstream, result, offsets)
    np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("width", [1, 16])
def test_boxes_and_copies_of_skewed_sequences(width: int) -> None:
    lod = LoD.from_lengths([AT_EDGES])
    rows = np.random.default_rng(4).normal(size=(sum(AT_EDGES), width)).astype(np.float32)
    tensor = LoDTensor(rows, lod)
    there = tensor.to_device("cuda")
    for maxlen in (7, 600):
        box, lengths = sequence_pad(tensor, maxlen=maxlen, truncate=True, pad_value=5)
        found, _ = sequence_pad(there, maxlen=maxlen, truncate=True, pad_value=5)
        np.testing.assert_array_equal(cupy.asnumpy(found), box)
        back = sequence_unpad(found, lengths)
        np.testing.assert_array_equal(
            cupy.asnumpy(back.data), sequence_unpad(box, lengths, backend="numpy").data
        )
    doubled = sequence_concat([there, there])
    wanted = sequence_concat([tensor, tensor], backend="numpy")
    np.testing.assert_array_equal(cupy.asnumpy(doubled.data), wanted.data)
