"""Every compiled twin has the file, name and parameters of its reference."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from lodcli.kernels.ops.registry import OPS

OPS_FOLDER = Path(__file__).parents[2] / "kernels" / "ops"
KINDS = ("native", "numba")
# Such as "pooling.pool" and "native", for each compiled module that has a reference beside it.
FILES = [
    (f"{path.parent.name}.{stem}", kind)
    for kind in KINDS
    for path in sorted(OPS_FOLDER.glob(f"*/*_{kind}.py"))
    if (stem := path.stem.removesuffix(f"_{kind}"))
    and path.with_name(f"{stem}.py").exists()
    # Where there is a wrapper, the kernels that it calls are no twins.
    and (kind == "native" or not path.with_name(f"{stem}_native.py").exists())
]


def public(module: ModuleType) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(function)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if name.startswith(("segment_", "rows_", "im2sequence_"))
        and function.__module__ == module.__name__
    }


def test_there_are_twins() -> None:
    assert {"pool", "softmax", "expand", "concat", "reverse", "pad", "slice"} <= {
        file.partition(".")[2] for file, _ in FILES
    }


@pytest.mark.parametrize(("file", "kind"), FILES)
def test_a_twin_has_the_parameters_of_its_reference(file: str, kind: str) -> None:
    twins = public(importlib.import_module(f"lodcli.kernels.ops.{file}_{kind}"))
    references = public(importlib.import_module(f"lodcli.kernels.ops.{file}"))
    assert twins
    for name, signature in twins.items():
        assert str(signature) == str(references[name]), name


def test_the_table_is_sorted_and_every_entry_is_there() -> None:
    assert list(OPS) == sorted(OPS)
    for entry in OPS.values():
        assert entry.load().__name__ == entry.function
        assert entry.summary
        assert entry.equation
