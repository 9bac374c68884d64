"""How kernels are launched; with tests/cuda/host on the path, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

cupy: Any = pytest.importorskip("cupy")
from lodcli.kernels.cuda import launch  # noqa: E402

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
    header = tmp_path / "types.cuh"
    monkeypatch.setattr(launch, "_HEADERS", [header])
    header.write_text("// as it was\n")
    for _ in range(2):
        launch._headers.cache_clear()
        launch._function.__wrapped__("pool", "pool_empty<float>", 0)
        header.write_text("// changed\n")
    monkeypatch.undo()
    launch._headers.cache_clear()
    # cupy keeps compiled kernels by their source and options.
    assert seen[0] != seen[1]
