"""The limits of the machine: the calls do the declared work, without numba."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from lodcli.bench.measure.limits import best_rates
from lodcli.kernels.native import settings
from lodcli.kernels.simd import limits, limits_native
from tests.hanging import HANG_SECONDS


@pytest.mark.parametrize("calls", [limits, limits_native], ids=["numpy", "compiled"])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("size", [1, 3, 1000, 1 << 16])
def test_all_is_read_written_and_copied(size: int, threads: int, calls: ModuleType) -> None:
    source, target = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    calls.reading(source, threads)()
    calls.copying(source, target, threads)()
    np.testing.assert_array_equal(target, source)
    calls.writing(target, threads)()
    assert (target == 1).all()


def test_without_compiled_kernels_there_are_limits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> str:
        raise settings.LevelError("none fits")

    monkeypatch.setattr(settings, "level", fails)
    monkeypatch.setattr("lodcli.bench.measure.limits.MOST_BYTES", 1 << 20)
    for name in ("_read", "_write", "_copy", "_multiply_adds"):
        kernel = getattr(limits_native, name)
        monkeypatch.setattr(limits_native, name, type(kernel)(kernel.module, kernel.name))
    assert not limits_native.available()
    assert all(rate > 0 for rate in best_rates(["read", "write", "copy", "fma"], 1).values())


def test_operations_are_counted_for_all_threads() -> None:
    one, three = (limits_native.multiplying(threads)[1] for threads in (1, 3))
    assert three == 3 * one > 0
    assert best_rates(["fma"], 2)["fma"] > 0


def test_each_product_takes_a_factor_from_memory() -> None:
    kernel = limits_native._multiply_adds[""]
    values = np.arange(128, dtype=np.float32) / 128
    factors = values[:80].copy()
    lanes = kernel.call(0, 1, 8, values, 128)
    # Ten sums, each begun with the first vector: 8 products with each of them follow.
    expected = factors[:lanes] * (10 + factors.sum())
    np.testing.assert_allclose(values[80 : 80 + lanes], expected, rtol=1e-5)
    np.testing.assert_array_equal(values[:80], factors)


def test_bench_needs_no_numba() -> None:
    script = """
import sys
from lodcli.bench.session import limits_of
assert set(limits_of("kernels", 1, "cpu")) == {"read", "write", "copy"}
assert "numba" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=HANG_SECONDS, check=False)
    assert done.returncode == 0
