"""Calls of kernels from Python: arguments and errors, with and without the bridge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.native import calls, load
from lodcli.kernels.native.calls import Kernel

MODULE = "kernels.native.probe_numba"


def probe() -> Kernel:
    return load.kernel(MODULE, "arguments")["f"]


def ways() -> list[Callable[..., int]]:
    """Return the ways to call a kernel: a builtin function, and ctypes."""
    kernel = probe()
    return [kernel.call, kernel._plain_call]


def test_this_python_calls_kernels_as_builtin_functions() -> None:
    assert calls.can_bridge()
    assert type(probe().call).__name__ == "builtin_function_or_method"


@pytest.mark.parametrize("way", [0, 1])
def test_arguments_arrive_as_they_were_passed(way: int) -> None:
    out = np.zeros(5)
    x = np.array([2.5], np.float32)
    for whole in (0, -1, 1 << 62, -(1 << 63)):
        status = ways()[way](0, 1, x, None, -0.25, whole, True, out)
        assert status == whole
        assert out.tolist() == [2.5, 0.0, -0.25, float(whole), 1.0]


@pytest.mark.parametrize("way", [0, 1])
def test_numpy_s_own_numbers_and_views_are_arguments_too(way: int) -> None:
    out = np.zeros((2, 5))
    x = np.arange(8, dtype=np.float32)[5:]
    x.flags.writeable = False
    status = ways()[way](0, 1, x, x, np.float64(0.5), np.int32(7), False, out[1])
    assert status == 7
    assert out[0].tolist() == [0.0] * 5
    assert out[1].tolist()[0] == 5.0
    assert out[1].tolist()[2:] == [0.5, 7.0, 0.0]
    assert int(out[1][1]) == x.__array_interface__["data"][0]


def test_an_array_of_a_subclass_is_an_array(tmp_path: Any) -> None:
    out = np.zeros(5)
    mapped = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(3,))
    mapped[:] = 4
    probe().call(0, 1, mapped, None, 0.0, 0, False, out)
    assert out[0] == 4.0


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (None,),
        (None, None, 1.0, 2, True),
        (None, None, 1.0, 2, True, None, None),
        ("text", None, 1.0, 2, True, None),
        (None, None, "text", 2, True, None),
        (None, None, 1.0, 2.5, True, None),
        (None, None, 1.0, [], True, None),
    ],
)
def test_other_arguments_are_type_errors_and_the_kernel_is_not_called(arguments: Any) -> None:
    with pytest.raises(TypeError):
        probe().call(0, 1, *arguments)


def test_a_number_that_does_not_fit_is_an_overflow() -> None:
    with pytest.raises(OverflowError):
        probe().call(0, 1, None, None, 1.0, 1 << 70, True, None)


def test_the_address_of_an_array_is_numpy_s() -> None:
    for array in (np.zeros(3), np.zeros((2, 2))[1:], np.zeros(0), np.zeros((), np.int8)):
        assert calls.address(array) == array.__array_interface__["data"][0]


def test_references_are_neither_lost_nor_kept() -> None:
    import sys

    out, x = np.zeros(5), np.ones(1, np.float32)
    for way in ways():
        before = sys.getrefcount(out), sys.getrefcount(x)
        for number in range(1000):
            way(0, 1, x, None, 1.5, number, True, out)
        assert (sys.getrefcount(out), sys.getrefcount(x)) == before


def test_compiled_code_packs_arguments_as_python_does() -> None:
    out, x = np.zeros(5), np.ones(3, np.float32)[1:]
    for whole in (0, -1, 1 << 62, True, np.int32(7)):
        given = (x, None, -0.25, whole, False, out)
        packed = probe().pack(*given)
        assert packed.tobytes() == probe()._pack(*given).tobytes()
        assert packed[0] == calls.address(x)


def test_other_arguments_are_not_packed() -> None:
    for given in ((), (None, None, 1.0, 2, True), (None, None, "text", 2, True, None)):
        with pytest.raises(TypeError):
            probe().pack(*given)
