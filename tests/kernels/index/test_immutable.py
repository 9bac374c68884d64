"""Nobody can change the arrays of an index: not who holds them, nor who held their source."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.immutable import immutable, is_immutable, unwritten
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining.concat import sequence_concat
from lodcli.kernels.ops.joining.expand import sequence_expand
from lodcli.kernels.ops.slicing.slice import sequence_slice
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray

# Small ones are copied into bytes, large ones keep their memory.
SMALL, LARGE = 5, 5000


def index(sequences: int) -> LoD:
    return LoD.from_lengths([[1] * sequences, [2] * sequences])


def tensor(sequences: int) -> LoDTensor:
    return LoDTensor(np.zeros(2 * sequences), index(sequences))


def by_file(suffix: str) -> Callable[[int, Path], LoD]:
    def made(sequences: int, folder: Path) -> LoD:
        io.write(folder / f"x{suffix}", tensor(sequences))
        item = io.read(folder / f"x{suffix}")
        assert isinstance(item, LoDTensor)
        return item.lod

    return made


# Every way to an index, of which some take their arrays over without a copy.
INDEXES: dict[str, Callable[[int, Path], LoD]] = {
    "lengths": lambda n, _: index(n),
    "offsets": lambda n, _: LoD([np.arange(n + 1), 2 * np.arange(n + 1)]),
    "parts": lambda n, _: index(n).items(0, 1, n)[0],
    "concatenated": lambda n, _: LoD.concatenate([index(n), index(n)]),
    "finer": lambda n, _: index(n).with_finer(np.arange(2 * n + 1)),
    "pickled": lambda n, _: pickle.loads(pickle.dumps(index(n))),
    "copied": lambda n, _: copy.deepcopy(index(n)),
    "unpacked": lambda n, _: TensorArray.unpack(tensor(n), 1)[0].steps.lod,
    "sliced": lambda n, _: sequence_slice(tensor(n), offset=[0] * n, length=[1] * n, level=1).lod,
    "joined": lambda n, _: sequence_concat([tensor(n), tensor(n)]).lod,
    "expanded": lambda n, _: sequence_expand(LoDTensor(np.zeros(n), [[1] * n]), tensor(n)).lod,
    "lod.h5": by_file(".lod.h5"),
    "lod.stream": by_file(".lods"),
    "npz": by_file(".npz"),
    "jsonl": by_file(".jsonl"),
    "paddle": by_file(".lodt"),
}


def tricks(array: Array) -> Iterator[Callable[[], Any]]:
    """Yield attempts to get writable memory, without ctypes and private names."""
    held: Any = array
    while held is not None:  # the array, and the owners of its memory
        owner = held
        yield lambda owner=owner: owner.__setitem__(0, 7)  # type: ignore[misc]
        yield lambda owner=owner: owner.setflags(write=True)  # type: ignore[misc]
        yield lambda owner=owner: setattr(owner.flags, "writeable", True)  # type: ignore[misc]
        yield lambda owner=owner: setattr(owner.view().flags, "writeable", True)  # type: ignore[misc]
        yield lambda owner=owner: memoryview(owner).__setitem__(0, 7)  # type: ignore[misc]
        yield lambda owner=owner: np.asarray(memoryview(owner).obj).__setitem__(0, 7)  # type: ignore[misc]
        yield lambda owner=owner: np.asarray(owner).setflags(write=True)  # type: ignore[misc]
        yield lambda owner=owner: np.frombuffer(owner, np.int64).__setitem__(0, 7)  # type: ignore[misc]
        yield lambda owner=owner: np.from_dlpack(owner).__setitem__(0, 7)  # type: ignore[misc]
        held = getattr(held, "base", None)
    yield lambda: array.sort()
    yield lambda: array.fill(7)
    yield lambda: np.copyto(array, 7)
    yield lambda: np.add(array, 1, out=array)
    yield lambda: array.resize(99)
    yield lambda: array.byteswap(inplace=True)
    yield lambda: np.lib.stride_tricks.as_strided(array, writeable=True).__setitem__(0, 7)


def require_unchangeable(array: Array) -> None:
    before = array.tolist()
    for number, trick in enumerate(tricks(array)):
        with suppress(Exception):
            trick()
        assert array.tolist() == before, f"trick {number} changed the array"
        assert not array.flags.writeable, f"trick {number} made the array writable"
    assert is_immutable(array)


@pytest.mark.parametrize("sequences", [SMALL, LARGE])
@pytest.mark.parametrize("way", INDEXES)
def test_the_levels_of_an_index_are_immutable(way: str, sequences: int, tmp_path: Path) -> None:
    lod = INDEXES[way](sequences, tmp_path)
    assert lod.n_levels
    for level, offsets in enumerate(lod.levels):
        require_unchangeable(offsets)
        require_unchangeable(lod.absolute(level))


def test_the_order_of_an_index_map_is_immutable() -> None:
    order = np.arange(LARGE)[::-1].copy()
    index_map = TensorArray.unpack(tensor(LARGE), 1)[1]
    require_unchangeable(index_map.order)
    given = type(index_map)(order, index_map.outer)
    order[:] = 0
    assert given.order[0] == LARGE - 1
    require_unchangeable(given.order)


@pytest.mark.parametrize("sequences", [SMALL, LARGE])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("lead", [0, 1])
def test_changes_of_the_array_of_the_caller_do_not_reach_the_index(
    sequences: int, frozen: bool, lead: int
) -> None:
    whole = np.arange(-lead, sequences + 1)
    given = whole[lead:]
    lengths = np.ones(sequences, np.int64)
    for array in (whole, given, lengths):
        array.flags.writeable = not frozen
    made = [
        LoD([given]),
        LoD.from_lengths([lengths]),
        LoD([[0, sequences], given]),
        LoD.from_lengths([[sequences]]).with_finer(given),
    ]
    whole.flags.writeable = True
    whole[:] = 99
    lengths.flags.writeable = True
    lengths[:] = 99
    for lod in made:
        assert lod.levels[-1].tolist() == list(range(sequences + 1))


def test_an_index_is_not_copied_when_it_is_passed_on() -> None:
    for sequences in (SMALL, LARGE):
        lod = index(sequences)
        for other in (LoD(lod.levels), lod.above(1), lod.with_names(["a", "b"])):
            assert all(a is b for a, b in zip(other.levels, lod.levels, strict=False))
        for part, whole in zip(lod.items(0, 0, 3)[0].levels, lod.levels, strict=True):
            assert np.shares_memory(part, whole)


@pytest.mark.parametrize(
    "dtype", [np.int64, np.float32, np.bool_, ml_dtypes.bfloat16, np.complex64]
)
@pytest.mark.parametrize("shape", [(0,), (), (3,), (3, 4), (0, 2), (300, 70), (20_000,)])
def test_immutable_arrays_hold_the_same_values(dtype: Any, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    for given in (array.copy(), np.array(array, order="F")):
        found = immutable(given)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)
        assert is_immutable(found)
        assert found.flags.aligned
        with pytest.raises(ValueError, match="WRITEABLE"):
            found.flags.writeable = True
        assert immutable(found) is found


def test_large_arrays_are_not_copied() -> None:
    array = np.arange(LARGE)
    assert np.shares_memory(immutable(array), array)


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_offsets_that_a_kernel_is_to_write_cannot_be_made_writable(count: int) -> None:
    offsets = unwritten(count)
    assert is_immutable(offsets)
    assert offsets.shape == (count,)
    with pytest.raises(ValueError, match="WRITEABLE"):
        offsets.flags.writeable = True
