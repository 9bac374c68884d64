"""while_loop: the example of PaddlePaddle's design, and the errors of wrong frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.rnn.loops.while_loop import Var, while_loop
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.device_arrays import DeviceArray


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("library", [np.asarray, DeviceArray])
def test_the_example_of_the_design_runs(library: Any) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = {"data": (12, 3, 5), "W": (5, 4), "U": (4, 4), "default": (3, 4)}
    host = {name: rng.normal(size=shape) for name, shape in arrays.items()}
    data, W, U, default_state = (library(host[name]) for name in arrays)

    num_steps = Var(12)
    states = TensorArray(size=num_steps)
    step_inputs = TensorArray.unstack(data)
    step_outputs = TensorArray(size=num_steps)
    step = Var(0)
    loop = while_loop(loop_vars=[step])
    while loop:
        with loop.frame():
            loop.break_if(np.equal(step, num_steps))
            pre_state = states.read(step - 1, default_state)
            step_input = step_inputs.read(step)
            state = sigmoid(np.matmul(pre_state, U) + np.matmul(step_input, W))
            states.write(step, state)
            step_outputs.write(step, state)
            step.update(step + 1)
    output: Any = step_outputs.stack().data

    # A linear torch step and its own sigmoid; 1e-12: float64, sums of 5 products.
    state = torch.from_numpy(host["default"])
    wanted = []
    for row in torch.from_numpy(host["data"]):
        state = torch.sigmoid(
            state @ torch.from_numpy(host["U"]) + row @ torch.from_numpy(host["W"])
        )
        wanted.append(state)
    found = output.host if isinstance(output, DeviceArray) else output
    assert isinstance(output, DeviceArray) == (library is DeviceArray)
    np.testing.assert_allclose(found, torch.stack(wanted).numpy(), rtol=0, atol=1e-12)
    assert (loop.iterations, int(step), bool(loop)) == (12, 12, False)


def test_the_rest_of_a_frame_that_breaks_does_not_run() -> None:
    seen, step = [], Var(0)
    loop = while_loop([step])
    while loop:
        with loop.frame():
            seen.append("above")
            loop.break_if(step >= 1)
            seen.append("below")
            step.update(step + 1)
    assert seen == ["above", "below", "above"]


def test_an_inner_loop_may_break_the_outer_one() -> None:
    outer, turns = Var(0), []
    loop = while_loop([outer])
    while loop:
        with loop.frame():
            inner = Var(0)
            within = while_loop([inner])
            while within:
                with within.frame():
                    turns.append((int(outer), int(inner)))
                    loop.break_if(outer == 1)
                    within.break_if(inner == 1)
                    inner.update(inner + 1)
            outer.update(outer + 1)
    assert turns == [(0, 0), (0, 1), (1, 0)]


def test_an_except_in_the_frame_does_not_swallow_the_break() -> None:
    loop = while_loop()
    while loop:
        with loop.frame():
            try:
                loop.break_if(True)
            except Exception:
                pytest.fail("the break was seen")
    assert loop.iterations == 0


@pytest.mark.parametrize("library", [np.asarray, DeviceArray])
def test_a_condition_of_several_values_is_refused(library: Any) -> None:
    loop = while_loop()
    with loop.frame():
        with pytest.raises(InvalidDataError) as found:
            loop.break_if(library(np.array([True, False])))
        with pytest.raises(InvalidDataError, match=r"found none in an array of shape \(0,\)"):
            loop.break_if(Var(library(np.zeros(0))))
    assert str(found.value) == (
        "break_if: expected a single value, found 2 in an array of shape (2,); combine them, as in "
        "break_if((x > 1).all()), or any()"
    )
    with loop.frame():
        loop.break_if(library(np.array([[True]])))
    assert not loop


def test_a_frame_that_changes_nothing_is_refused_instead_of_hanging() -> None:
    step = Var(0)
    loop = while_loop([step])

    def run() -> None:
        while loop:
            with loop.frame():
                step.update(min(int(step) + 1, 1))

    with pytest.raises(InvalidDataError, match="iteration 1 of the loop changed none"):
        run()


def test_pythons_break_ends_a_loop_whose_frame_changed_nothing() -> None:
    step = Var(0)
    loop = while_loop([step])
    while loop:
        with loop.frame():
            if step == 2:
                break
            step.update(step + 1)
    assert int(step) == 2


def test_an_error_of_the_frame_comes_through() -> None:
    loop = while_loop([Var(0)])
    with pytest.raises(ZeroDivisionError), loop.frame():
        _ = 1 // 0


def test_break_if_outside_of_a_frame_is_reported() -> None:
    with pytest.raises(InvalidDataError, match=r"inside of `with loop.frame\(\):`"):
        while_loop().break_if(True)


def test_loop_vars_are_vars() -> None:
    plain: Any = [1]
    with pytest.raises(InvalidDataError, match="loop_vars, an item: expected a Var, found int"):
        while_loop(plain)


def test_a_var_counts_like_its_number() -> None:
    step = Var(Var(3))
    assert (step + 1, 10 - step, step * 2.0, float(step)) == (4, 7, 6.0, 3.0)
    assert ["a", "b", "c", "d"][step] == "d"
    assert np.asarray(step).tolist() == 3
    assert bool(step) is not bool(Var(0))


def test_an_operator_in_place_updates_a_var() -> None:
    begin = np.zeros(2)
    step, sums = Var(0), Var(begin)
    held = step
    loop = while_loop([step])
    while loop:
        with loop.frame():
            loop.break_if(step == 3)
            sums += np.array([1.0, 2.0])
            step += 1
    assert step is held
    assert (int(step), sums.value.tolist(), begin.tolist()) == (3, [3, 6], [0, 0])


def test_a_ufunc_writes_to_vars_and_arrays() -> None:
    whole, rest = Var(0.0), np.zeros(1)
    out: Any = rest, whole
    found: Any = np.modf(Var(np.array([2.25])), out=out)
    assert found == out
    assert (rest.tolist(), whole.value.tolist()) == ([0.25], [2])
