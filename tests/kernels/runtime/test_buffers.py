"""The memory of large results is used again, and never while somebody can still see it."""

from __future__ import annotations

import gc
import mmap
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.ops.slicing.reverse import sequence_reverse
from lodcli.kernels.runtime import buffers as memory
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.strategies import BFLOAT16

pytestmark = pytest.mark.skipif(
    not hasattr(mmap, "MADV_FREE"), reason="the system cannot mark memory as free to be taken"
)
ROWS = memory.LEAST_BYTES // 8


@pytest.fixture(autouse=True)
def none_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_free", [])
    monkeypatch.setattr(memory, "_marked", [])


def test_the_memory_of_a_deleted_array_is_reused() -> None:
    first = memory.empty((ROWS,), np.dtype(np.float64))
    address = first.ctypes.data
    del first
    assert memory.empty((ROWS // 2, 2), np.dtype(np.float64)).ctypes.data == address


def test_a_view_keeps_the_memory_of_its_array() -> None:
    whole = memory.empty((ROWS, 2), np.dtype(np.float32))
    whole[...] = 7
    view = whole[5:9, 1]
    del whole
    other = memory.empty((ROWS, 2), np.dtype(np.float32))
    other[...] = 1
    assert view.tolist() == [7, 7, 7, 7]


def test_results_of_ops_use_it() -> None:
    tensor = LoDTensor(np.arange(float(ROWS)), [[ROWS - 3, 3]])
    address = sequence_reverse(tensor, backend="numpy").data.ctypes.data
    gc.collect()
    again = sequence_reverse(tensor, backend="numpy").data
    assert again.ctypes.data == address
    assert again[-3:].tolist() == [ROWS - 1, ROWS - 2, ROWS - 3]


def test_an_array_is_not_far_smaller_than_its_memory() -> None:
    del_me = memory.empty((4 * ROWS,), np.dtype(np.float64))
    address = del_me.ctypes.data
    del del_me
    assert memory.empty((ROWS,), np.dtype(np.float64)).ctypes.data != address


def test_no_more_than_a_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_BYTES", 3 * memory.LEAST_BYTES)
    held = [memory.empty((ROWS,), np.dtype(np.float64)) for _ in range(5)]
    held.clear()
    assert sum(map(len, memory._free)) == 3 * memory.LEAST_BYTES


def test_no_more_blocks_than_a_limit_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_BLOCKS", 3)
    held = [memory.empty((ROWS,), np.dtype(np.float64)) for _ in range(5)]
    held.clear()
    assert len(memory._free) == 3


@pytest.mark.parametrize(
    ("sizes", "unmarked"),
    [([1] * 5, [3, 4]), ([3, 1], [1]), ([1, 3], [0]), ([2, 1], [1])],
    ids=["the oldest", "a large one", "a large one after a small one", "enough of them"],
)
def test_free_blocks_are_marked_beyond_a_limit(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], unmarked: list[int]
) -> None:
    marked: list[int] = []
    monkeypatch.setattr(memory, "UNMARKED_BYTES", 2 * memory.LEAST_BYTES)
    held = [memory.empty((size * ROWS,), np.dtype(np.float64)) for size in sizes]
    addresses = [each.ctypes.data for each in held]
    monkeypatch.setattr(memory, "advise", lambda block, how: marked.append(block.address))
    while held:
        del held[0]
    assert [n for n, each in enumerate(addresses) if each not in marked] == unmarked


def test_the_block_returned_last_is_reused_first() -> None:
    first, last = (memory.empty((ROWS,), np.dtype(np.float64)) for _ in range(2))
    address = last.ctypes.data
    del first, last
    assert memory.empty((ROWS,), np.dtype(np.float64)).ctypes.data == address


class _Raced(list[Any]):
    """A list from which another thread takes an element just before it is taken here."""

    def remove(self, value: Any) -> None:
        super().remove(value)
        super().remove(value)

    def pop(self, place: Any = -1) -> Any:
        self.clear()
        return super().pop(place)


def test_a_block_that_another_thread_takes_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    held = memory.empty((ROWS,), np.dtype(np.float64))
    address = held.ctypes.data
    del held
    taken = list(memory._free)
    monkeypatch.setattr(memory, "_free", _Raced(taken))
    assert memory.empty((ROWS,), np.dtype(np.float64)).ctypes.data != address


def test_another_thread_may_empty_the_pool_while_a_block_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "UNMARKED_BYTES", memory.LEAST_BYTES)
    one, two = (memory._taken(memory.LEAST_BYTES) for _ in range(2))
    monkeypatch.setattr(memory, "_free", _Raced([one]))
    assert two is not None
    memory._give_back(two)  # as __del__ does, which would hide an error
    assert memory._free == []


def test_small_arrays_and_every_dtype() -> None:
    assert memory.empty((3,), np.dtype(np.float64)).flags.owndata
    for dtype in (np.dtype(np.bool_), BFLOAT16, np.dtype(np.complex128)):
        found = memory.empty((memory.LEAST_BYTES, 1), dtype)
        assert (found.dtype, found.shape) == (dtype, (memory.LEAST_BYTES, 1))
        assert found.flags.c_contiguous
        assert found.flags.writeable


def test_more_than_there_is_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        memory.empty((1 << 50,), np.dtype(np.float64))


def test_an_array_may_end_after_the_module_at_the_end_of_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = memory.empty((ROWS,), np.dtype(np.float64))
    monkeypatch.setattr(memory, "_give_back", None)
    del found  # what is raised here is a warning, and warnings are errors
    gc.collect()
    assert not memory._free


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library manages its heap")
def test_results_too_small_for_a_block_use_touched_memory_again() -> None:
    code = (
        "import resource\n"
        "import numpy as np\n"
        "from lodcli.kernels.runtime import buffers as memory\n"
        "def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "def results(): return [memory.empty((50_000,), np.dtype('u1')) for _ in range(20)]\n"
        "for result in results(): result[:] = 1\n"
        "del result\n"
        "before = faults()\n"
        "for _ in range(10):\n"
        "    for result in results(): result[:] = 1\n"
        "    del result\n"
        "print(faults() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    # Else 10 times 244 pages; some faults are the system's, which moves pages under load.
    assert int(done.stdout) < 1000
