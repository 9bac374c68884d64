"""Every compiled twin has the file, name and parameters of its reference."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from lodcli.kernels.ops.table import OPS

KERNELS = Path(__file__).parents[2] / "kernels"
REFERENCES = {path.stem for path in (KERNELS / "ops").glob("*.py")} - {"__init__", "common"}
FOLDERS = ("on_numba", "on_native")
FILES = [
    (folder, file)
    for folder in FOLDERS
    for file in sorted({path.stem for path in (KERNELS / folder).glob("*.py")} & REFERENCES)
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
        file for _, file in FILES
    }


def test_no_function_has_two_compiled_twins() -> None:
    names = [
        (file, name)
        for folder, file in FILES
        for name in public(importlib.import_module(f"lodcli.kernels.{folder}.{file}"))
    ]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("folder", "file"), FILES)
def test_a_twin_has_the_parameters_of_its_reference(folder: str, file: str) -> None:
    twins = public(importlib.import_module(f"lodcli.kernels.{folder}.{file}"))
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
