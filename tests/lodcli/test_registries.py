"""A new op or cell is one module and one line: toys of both are used without anything else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli.kernels.ops
from lodcli.commands.apply.op_page import page
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS, OpEntry
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, environment, tensor

TOY_OP = '''
from lodcli.kernels.ops.arguments import segments
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def sequence_toy(
    tensor: LoDTensor, *, factor: int, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return every sequence times a factor and its length.

    Args:
        factor: what every length is multiplied by.
    """
    run = on(backend, segment_toy)
    return tensor.with_data(run(tensor.data, segments(tensor, level, "toy"), factor))


def segment_toy(data, offsets, factor):
    lengths = offsets[1:] - offsets[:-1]
    return data * (factor * lengths).repeat(lengths)
'''
TOY_CELL = """
from dataclasses import dataclass
from typing import ClassVar

from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.elman.elman import ElmanCell


@dataclass(frozen=True, eq=False, kw_only=True)
class ToyWeights(CellWeights):
    KIND: ClassVar[str] = "toy"
    GATES: ClassVar[int] = 1

    nonlinearity: str = "tanh"


class ToyCell(ElmanCell):
    pass
"""
# What a developer does by hand, and then the command line as it is.
WITH_TOY_CELL = """
import sys
import lodcli.kernels.rnn.cells as cells
from lodcli.kernels.rnn.cells.registry import CELLS, CellEntry

cells.__path__.append(sys.argv.pop(1))
CELLS["toy"] = CellEntry("toy", "Toy")
from lodcli.main import main
sys.exit(main())
"""


def rows_of(path: Path) -> np.ndarray[Any, Any]:
    return tensor(path).data


def test_a_new_op_is_one_module_and_one_line(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "toy.py").write_text(TOY_OP)
    monkeypatch.setattr(
        lodcli.kernels.ops, "__path__", [*lodcli.kernels.ops.__path__, str(tmp_path)]
    )
    for name in ("toys", "toys.toy"):  # forgotten again afterwards
        monkeypatch.setitem(sys.modules, f"lodcli.kernels.ops.{name}", None)
        monkeypatch.delitem(sys.modules, f"lodcli.kernels.ops.{name}")
    monkeypatch.setitem(OPS, "toy", OpEntry("toy", "toys.toy", "a toy", "y = n x", itemwise=True))

    source, out = tmp_path / "x.lod.h5", tmp_path / "out.lod.h5"
    io.write(source, LoDTensor(np.array([1.0, 2.0, 3.0]), LoD.from_lengths([[2, 1]])))
    assert "--factor INTEGER" in lod("apply", "toy", "--help").stdout
    assert "toy" in lod("apply", "--list").stdout
    assert "[toy](#toy)" in page()
    assert lod("apply", "toy", source, "--factor", "10", "--then", "cumsum", "-o", out).clean
    assert rows_of(out).tolist() == [20, 60, 30]  # by hand: 10 n x, then the running sum


def test_a_new_cell_is_one_module_and_one_line(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(TOY_CELL)
    source = tmp_path / "x.lod.h5"
    rows = np.arange(6, dtype=np.float32).reshape(3, 2) / 6
    io.write(source, LoDTensor(rows, LoD.from_lengths([[2, 1]])))

    def run(cell: str) -> str:
        out = tmp_path / f"{cell}.lod.h5"
        args = f"run-rnn {source} --cell {cell} --hidden 4 --seed 1 -o {out}".split()
        done = subprocess.run(
            [sys.executable, "-c", WITH_TOY_CELL, str(tmp_path), *args],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        return done.stderr

    # The toy is an Elman cell of another name, so its outputs are those of the Elman cell.
    assert run("toy") == run("elman") == ""
    found, wanted = (rows_of(tmp_path / f"{cell}.lod.h5") for cell in ("toy", "elman"))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)  # NumPy and compiled sums
    assert "toy" in run("none").partition("is not one of")[2]


@pytest.mark.parametrize("module", ["ops", "rnn.cells"])
def test_a_registry_costs_no_import_of_numpy(module: str) -> None:
    code = f"import sys, lodcli.kernels.{module}.registry; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_cell_bears_the_name_of_its_line() -> None:
    for name, entry in CELLS.items():
        assert name == entry.weights().KIND
        assert entry.cell().__name__ == f"{entry.stem}Cell"
