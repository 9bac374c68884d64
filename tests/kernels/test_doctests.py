"""Every example in a kernel's docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from lodcli.kernels import errors

KERNELS = Path(errors.__file__).parent
# Needs a GPU to be imported; its examples are those of the reference it stands in for.
SKIPPED = ("cuda", "cupy")


def modules() -> list[str]:
    found = []
    for path in sorted(KERNELS.rglob("*.py")):
        parts = path.relative_to(KERNELS).with_suffix("").parts
        needs_gpu = any(name in part for part in parts for name in SKIPPED)
        if not needs_gpu and ">>>" in path.read_text(encoding="utf-8"):
            found.append(".".join(parts).removesuffix(".__init__"))
    return found


def test_examples_are_found() -> None:
    assert {"index.lod", "tensor.lod_tensor", "rnn.engine.plan"} <= set(modules())


@pytest.mark.parametrize("name", modules())
def test_examples_run(name: str) -> None:
    if name.startswith("torch."):
        pytest.importorskip("torch")
    module = importlib.import_module(f"lodcli.kernels.{name}")
    failed, attempted = doctest.testmod(module)
    assert attempted > 0
    assert failed == 0
