"""The compiled engine among threads, forks, interrupts, other processors and page ends."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import platform
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.native import pool
from lodcli.kernels.native.processor import levels_here
from lodcli.kernels.rnn.engine import layer_native
from lodcli.kernels.rnn.engine.engine import rnn_backward, rnn_forward
from lodcli.kernels.rnn.engine.native import schedule
from lodcli.kernels.rnn.engine.native.structures import ForwardRun
from tests.hanging import HANG_SECONDS
from tests.kernels.rnn.engine.test_compiled import LENGTHS, Problem, check, problem
from tests.oracles_rnn import Array
from tests.sampling import THOROUGH
from tests.slow import slow_except

pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("few_operations_are_shared")


@pytest.mark.parametrize("lengths", [[9, 3, 0, 7, 7, 1, 12], [40]], ids=str)
def test_callers_at_the_same_time_get_what_they_would_get_alone(lengths: list[int]) -> None:
    problems = [problem("lstm", lengths, hidden=70, inputs=9, seed=seed) for seed in range(4)]
    wanted = [given.solve("numba") for given in problems]
    found: dict[int, list[dict[str, Any]]] = {seed: [] for seed in range(4)}

    def call(seed: int) -> None:
        for _ in range(5):
            found[seed].append(problems[seed].solve("numba", threads=2))

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for seed in range(4):
        assert len(found[seed]) == 5
        for one in found[seed]:
            for name, array in one.items():
                np.testing.assert_array_equal(array, wanted[seed][name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [[20_000], [10_000, 10_000]], ids=["together", "each its own"])
def test_an_interrupt_is_handled_in_the_middle_and_the_next_run_is_whole(
    lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = problem("lstm", lengths, hidden=256, inputs=256, dtype="float32")
    rest: dict[str, Any] = {"backend": "numba", "threads": 2}
    alone = rnn_forward(given.data[:9], np.array([0, 9]), given.weights, **rest).outputs
    run, call_each = layer_native._run, pool._call_each
    outputs: list[Array] = []

    def run_over_nan(*arguments: Any) -> None:
        outputs.extend(each.outputs for each in arguments if isinstance(each, ForwardRun))
        outputs[-1][...] = np.nan
        run(*arguments)

    def interrupted(kernels: Any, calls: Any, stopped: Any) -> None:
        call_each(kernels, calls[:1], stopped)
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
        call_each(kernels, calls[1:], stopped)

    with monkeypatch.context() as patch:
        patch.setattr(schedule, "_SLICE_WORK", 2e8)  # of about 1e10 that each thread does
        patch.setattr(layer_native, "_run", run_over_nan)
        patch.setattr(pool, "_call_each", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rnn_forward(given.data, given.offsets, given.weights, **rest)
    ends = np.cumsum(lengths) - 1
    assert np.isnan(outputs[-1].reshape(-1, 256)[ends]).all(), "a thread ran to its end"
    again = rnn_forward(given.data[:9], np.array([0, 9]), given.weights, **rest).outputs
    np.testing.assert_array_equal(again, alone)


def test_a_forked_child_runs_on_its_own_threads() -> None:
    script = """
import os, warnings
warnings.simplefilter("ignore")
from lodcli.kernels.rnn.engine.native import schedule
from lodcli.kernels.rnn.engine.native.structures import ForwardRun
from tests.kernels.rnn.engine.test_compiled import problem
schedule._LEAST_WORK = 1
given = problem("lstm", [9, 3, 0, 7], hidden=33, inputs=9)
wanted = given.solve("numba", threads=2)["input"]
child = os.fork()
if child == 0:
    os._exit(0 if (given.solve("numba", threads=2)["input"] == wanted).all() else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=HANG_SECONDS).returncode == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names features of x86-64")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "machine"), [("v3", (32, 16)), *([("v2", (16, 16))] if THOROUGH else [])]
)
def test_narrower_processors_compute_the_same(level: str, machine: tuple[int, int]) -> None:
    """The narrowest in a thorough run: .ci/wheels runs every layer at each level."""
    if f"x86-64-{level}" not in {each.name for each in levels_here()}:
        pytest.skip(f"this processor has not what {level} has")
    script = f"""
from lodcli.kernels.rnn.engine.native import tuning
from lodcli.kernels.rnn.engine.native.packing import layout
from tests.kernels.rnn.engine.test_compiled import LENGTHS, check, problem
assert (layout().vector_bytes, layout().registers) == {machine}
for hidden in (1, 13, 37):
    check(problem("gru", LENGTHS, hidden=hidden, inputs=21, dtype="float32"))
tuning.most_unblocked_bytes = lambda: -1
check(problem("gru", LENGTHS * 20, hidden=151, inputs=135, dtype="float32"))
"""
    environment = os.environ | {"LOD_NATIVE": f"x86-64-{level}"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, timeout=HANG_SECONDS)
    assert done.returncode == 0


class Page:
    """Arrays that end where memory that may not be touched begins."""

    def __init__(self) -> None:
        self.maps: list[mmap.mmap] = []
        libc = ctypes.CDLL(None, use_errno=True)
        self.mprotect = libc.mprotect
        self.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def copy(self, array: Array) -> Array:
        """Return a copy of `array` at the end of its pages."""
        pages = -(-array.nbytes // mmap.PAGESIZE) + 1
        memory = mmap.mmap(-1, pages * mmap.PAGESIZE)
        self.maps.append(memory)
        whole = np.frombuffer(memory, np.uint8)
        end = (pages - 1) * mmap.PAGESIZE
        assert self.mprotect(whole.ctypes.data + end, mmap.PAGESIZE, 0) == 0
        placed = whole[end - array.nbytes : end].view(array.dtype).reshape(array.shape)
        placed[...] = array
        return placed


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for pages")
@pytest.mark.parametrize("cell", slow_except(["lstm"], ["lstm", "gru", "tanh"]))
def test_nothing_is_read_past_the_end_of_an_array(cell: str) -> None:
    # A read too far would end this process.
    page = Page()
    for hidden, inputs in ((3, 5), (17, 33), (70, 65)):
        for projected in (False, True):
            given = problem(
                cell, LENGTHS, hidden=hidden, inputs=inputs, projected=projected, dtype="float32"
            )
            given.data = page.copy(given.data)
            placed: dict[str, Any] = {
                name: page.copy(array) for name, array in given.weights.arrays().items()
            }
            given.weights = dataclasses.replace(given.weights, **placed)
            states = {n: page.copy(a) for n, a in vars(given.states).items() if a is not None}
            given.states = type(given.states)(**states)
            given.grads = {n: page.copy(a) for n, a in given.grads.items() if a is not None}
            check(given)


@pytest.mark.parametrize("cell", slow_except(["lstm"], ["lstm", "gru", "tanh"]))
def test_nothing_is_written_past_the_end_of_a_result(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every array that the engine makes is followed by bytes that must not change.
    margin = 4096
    made: list[Array] = []
    empty, zeros = np.empty, np.zeros

    def guarded(shape: Any, dtype: Any = float, *_: Any, **__: Any) -> Array:
        plain = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        whole = empty(count * plain.itemsize + margin, np.uint8)
        whole[:] = 0
        whole[count * plain.itemsize :] = 171
        made.append(whole)
        result: Array = whole[: count * plain.itemsize].view(plain).reshape(shape)
        return result

    for hidden in (3, 17, 70):
        given: Problem = problem(cell, LENGTHS, hidden=hidden, inputs=33, dtype="float32")
        wanted = given.solve("numba")["input"]
        made.clear()
        monkeypatch.setattr(np, "empty", guarded)
        monkeypatch.setattr(np, "zeros", guarded)
        run = rnn_forward(
            given.data, given.offsets, given.weights, initial=given.states, keep=True,
            backend="numba", threads=1,
        )  # fmt: skip
        assert run.tape is not None
        found = rnn_backward(run.tape, threads=1, **given.grads).input
        monkeypatch.setattr(np, "empty", empty)
        monkeypatch.setattr(np, "zeros", zeros)
        np.testing.assert_array_equal(found, wanted)
        assert len(made) > 10
        assert all((whole[-margin:] == 171).all() for whole in made)


def test_frozen_weights_are_packed_once_and_others_every_time() -> None:
    given = problem("gru", LENGTHS, hidden=7, inputs=5)
    from lodcli.kernels.rnn.engine.native import packing

    frozen = given.weights.frozen()

    def forward(weights: Any) -> Any:
        return packing.packed(weights, packing.recurrent_panels)

    def backward(weights: Any) -> Any:
        return packing.packed_backward(weights, packing.matrix_panels)

    for packed in (forward, backward):
        assert packed(given.weights) is not packed(given.weights)
        assert packed(frozen) is packed(frozen)
    wanted = given.solve("numba")["outputs"]
    given.weights.weight_hh[...] *= 2  # would be missed by a memory of the old panels
    changed = given.solve("numba")["outputs"]
    assert changed is not None
    assert wanted is not None
    assert not np.array_equal(changed, wanted)
    given.weights = frozen
    np.testing.assert_array_equal(given.solve("numba")["outputs"], wanted)
    # A view that is read-only, of weights that are not.
    view = given.weights.weight_hh.copy()
    shown = view[:]
    shown.flags.writeable = False
    given.weights = type(frozen)(weight_ih=frozen.weight_ih, weight_hh=shown)
    before = given.solve("numba")["outputs"]
    view *= 2
    after = given.solve("numba")["outputs"]
    assert before is not None
    assert after is not None
    assert not np.array_equal(before, after)
