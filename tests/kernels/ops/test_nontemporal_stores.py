"""Non-temporal stores: the same bytes, at any alignment of the ranges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining.concat import sequence_concat
from lodcli.kernels.ops.joining.expand import sequence_expand_as
from lodcli.kernels.ops.padding.pad import sequence_pad, sequence_unpad
from lodcli.kernels.ops.slicing.reverse import sequence_reverse
from lodcli.kernels.ops.slicing.slice import sequence_slice
from lodcli.kernels.simd import row_copies
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.kernels.ops.walled import walled

LENGTHS = [0, 3, 1, 0, 40, 7, 2, 0, 130, 5, 1, 1, 11, 0]
OTHERS = [2, 0, 1, 0, 9, 70, 0, 0, 3, 5, 0, 1, 1, 4]
LINE = 64


@pytest.fixture(autouse=True)
def streaming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have even the smallest results streamed, by pieces of a few rows."""
    monkeypatch.setattr(row_copies, "STREAMED_BYTES", 0)
    monkeypatch.setattr(row_copies, "RANGE_BYTES", 0)
    monkeypatch.setattr(row_copies, "ROW_BYTES", 0)
    monkeypatch.setattr(row_copies, "PIECE_BYTES", 1000)


def tensor(width: int, lengths: list[int], seed: int = 0) -> LoDTensor:
    """Return bytes in which nearby positions have different values."""
    values = np.random.default_rng(seed).integers(0, 255, (sum(lengths), width), np.uint8)
    return LoDTensor(values, [lengths])


def sliced(x: LoDTensor, out: Array | None) -> Array:
    lengths = np.array(LENGTHS)
    return sequence_slice(x, lengths // 3, lengths // 2, out=out, backend="numba").data


def unpadded(x: LoDTensor, out: Array | None) -> Array:
    box = sequence_pad(x, backend="numpy")[0]
    return sequence_unpad(box, LENGTHS, out=out, backend="numba").data


def expanded(x: LoDTensor, out: Array | None) -> Array:
    values = LoDTensor(tensor(x.row_shape[0], [len(LENGTHS)], 2).data)
    return sequence_expand_as(values, x, out=out, backend="numba").data


def joined(x: LoDTensor, out: Array | None) -> Array:
    other = tensor(x.row_shape[0], OTHERS, 1)
    return sequence_concat([x, other, x], out=out, backend="numba").data


def by_hand(name: str, x: LoDTensor) -> Array:
    """Return what the op gives, by plain slices."""
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    others = np.concatenate([[0], np.cumsum(OTHERS)])
    width, parts = x.row_shape[0], []
    second = tensor(width, OTHERS, 1).data
    values = tensor(width, [len(LENGTHS)], 2).data
    for s, n in enumerate(LENGTHS):
        rows = x.data[offsets[s] : offsets[s + 1]]
        if name == "reverse":
            parts.append(rows[::-1])
        elif name == "slice":
            parts.append(rows[n // 3 : n // 3 + n // 2])
        elif name == "concat":
            parts += [rows, second[others[s] : others[s + 1]], rows]
        elif name == "expand":
            parts.append(np.stack([values[s]] * n) if n else rows)
        elif name == "pad":
            parts += [rows, np.full((max(LENGTHS) - n, width), 7, np.uint8)]
        else:
            parts.append(rows)
    return np.concatenate(parts)


OPS: dict[str, Callable[[LoDTensor, Array | None], Array]] = {
    "reverse": lambda x, out: sequence_reverse(x, out=out, backend="numba").data,
    "slice": sliced,
    "unpad": unpadded,
    "expand": expanded,
    "concat": joined,
    "pad": lambda x, out: sequence_pad(x, pad_value=7, out=out, backend="numba")[0],
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("width", [1, 4, 63, 64, 65, 128, 300, 1100])
def test_a_streamed_result_is_that_of_plain_slices(name: str, width: int) -> None:
    x = tensor(width, LENGTHS)
    wanted = by_hand(name, x)
    found = OPS[name](x, None)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
    # Wherever in a line it begins, and with nothing written beside it.
    for shift in (0, 16, 33, 63):
        room = np.full(wanted.size + 4 * LINE, 205, np.uint8)
        first = -room.ctypes.data % LINE + shift
        out = room[first : first + wanted.size].reshape(found.shape)
        OPS[name](x, out)
        np.testing.assert_array_equal(out.reshape(wanted.shape), wanted)
        assert (room[:first] == 205).all()
        assert (room[first + wanted.size :] == 205).all()


def test_nothing_beside_an_array_is_read() -> None:
    values = walled()
    size = values.size
    room = np.zeros(size + 2 * LINE, np.uint8)
    for width in (64, 96):
        count = size // width * width
        # From the first byte on, and up to the last.
        for part in (values[:count], values[size - count :]):
            rows = part.reshape(-1, width)
            x = LoDTensor(rows, LoD.from_lengths([[len(rows)]]))
            for shift in (0, 1, 17, 63):
                first = -room.ctypes.data % LINE + shift
                out = room[first : first + count].reshape(rows.shape)
                sequence_reverse(x, out=out, backend="numba")
                np.testing.assert_array_equal(out, rows[::-1])
