"""Check an installed wheel: every compiled op, for all supported dtypes, without numba.

python smoke.py; exits with 0 if all is well. Nothing may be compiled, and no file written.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any


class Blocked:
    """Makes imports of compilers fail."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"blocked: {name}", name=name)


sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type]
home = tempfile.mkdtemp()
os.environ.update(HOME=home, XDG_CACHE_HOME=f"{home}/cache")

import numpy as np  # noqa: E402
from every_op import run_all  # noqa: E402

from lodcli.formats.json.scanner import scan_native as json_scan  # noqa: E402
from lodcli.kernels.native import load, pool, settings  # noqa: E402
from lodcli.kernels.ops.pooling import pool_native as pooling  # noqa: E402
from lodcli.kernels.ops.softmax import softmax_native as softmax  # noqa: E402

OFFSETS = np.array([0, 0, 3, 40, 41], np.int64)


def check_kernels() -> None:
    """Call the kernels with the most compiled variants, and compare their results with NumPy."""
    assert load.is_shipped(), "the library of the wheel is not usable"
    for dtype in ("float32", "float64", "int32", "int64", "uint8"):
        for width in (1, 5, 64):
            rows: Any = (np.arange(41 * width) % 97).reshape(41, width).astype(dtype)
            for name in ("sum", "mean", "sqrt", "max", "min", "first", "last"):
                getattr(pooling, f"segment_{name}")(rows, OFFSETS)
            assert (pooling.segment_max(rows, OFFSETS)[1] == rows[:3].max(axis=0)).all()
            values, places = pooling.segment_max_index(rows, OFFSETS)
            assert (rows[places[2], np.arange(width)] == values[2]).all()
            if dtype.startswith("float"):
                result = softmax.segment_softmax(rows, OFFSETS)
                assert np.allclose(np.add.reduceat(result, [0, 3, 40], axis=0), 1)
                softmax.segment_log_softmax_grad(rows, result, OFFSETS)
    assert json_scan.is_available()
    big = np.ones((1 << 20, 4), np.float32)
    assert softmax.segment_softmax(big, np.array([0, len(big)]))[0, 0] == np.float32(2.0**-20)
    with pool.team(2) as team:
        assert team.size == 2


check_kernels()
calls = run_all()
assert not [name for name in sys.modules if name.partition(".")[0] in ("numba", "llvmlite")]
assert not list(Path(home).iterdir()), "something was written to a cache"
where = f"Python {sys.version.split()[0]}, {settings.level().name}"
print(f"lodcli on {where}: {calls} calls, all kernels are there")
