"""Every compiled twin has the file, name and parameters of its reference."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from lodcli.kernels.ops import registry
from lodcli.kernels.ops.registry import OPS

OPS_FOLDER = Path(registry.__file__).parent
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


# Ops whose gradient is that of another op.
SHARED_GRADIENTS = {"lod_append": "lod_reset", "max_index": "max", "min_index": "min"}


def test_the_table_is_sorted_and_every_entry_is_there() -> None:
    assert list(OPS) == sorted(OPS)
    for name, entry in OPS.items():
        assert entry.load().__name__ == f"sequence_{name}"
        assert entry.summary
        assert entry.equation


def test_every_gradient_has_the_name_of_its_op() -> None:
    for name, entry in OPS.items():
        found = entry.load_gradient()
        if found is not None:
            assert found.__name__ == f"sequence_{SHARED_GRADIENTS.get(name, name)}_grad"


def test_every_public_function_of_the_ops_is_in_the_table() -> None:
    known = {entry.function for entry in OPS.values()}
    known |= {entry.gradient.rpartition(".")[2] for entry in OPS.values() if entry.gradient}
    for path in sorted(OPS_FOLDER.glob("*/*.py")):
        tree = ast.parse(path.read_text())
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name for name in names if name.startswith("sequence_")} <= known, path


# By docs/decisions/0017-ops-and-levels.md; every other op takes the finest level.
ONLY_LEVEL = {"conv", "expand_as", "pad", "reshape", "slice"}
OUTERMOST = {
    *("deinterleave", "interleave", "rank_table", "sort_by_length", "split_by_mask", "to_steps"),
    "ctc_align",
}


def test_every_op_follows_the_rule_for_default_levels() -> None:
    for name, entry in OPS.items():
        given = inspect.signature(entry.load()).parameters
        level = given.get("level", given.get("ref_level"))
        wanted = None if name in ONLY_LEVEL else 0 if name in OUTERMOST else -1
        assert level is None or level.default == wanted, name
