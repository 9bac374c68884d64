"""How kernels are launched; with tests/cuda/host on the path, on the CPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

cupy: Any = pytest.importorskip("cupy")
from lodcli.kernels.on_cupy import launch  # noqa: E402

pytestmark = pytest.mark.gpu


def test_a_changed_header_makes_other_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...]] = []

    class Module:
        def __init__(self, *, options: tuple[str, ...], **_: Any) -> None:
            seen.append(options)

        def get_function(self, name: str) -> str:
            return name

    monkeypatch.setattr(cupy, "RawModule", Module)
    shutil.copytree(launch.FOLDER, tmp_path / "here")
    monkeypatch.setattr(launch, "FOLDER", tmp_path / "here")
    for _ in range(2):
        launch._headers.cache_clear()
        launch._function.__wrapped__("pool", "pool_empty<float>", 0)
        with (tmp_path / "here" / "types.cuh").open("a") as header:
            header.write("// changed\n")
    monkeypatch.undo()
    launch._headers.cache_clear()
    # cupy keeps compiled kernels by their source and options.
    assert seen[0] != seen[1]
