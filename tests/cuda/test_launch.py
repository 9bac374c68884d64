"""How kernels are launched; with tests/cuda/host on the path, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

cupy: Any = pytest.importorskip("cupy")
from lodcli.kernels.cuda import compiling  # noqa: E402
from lodcli.kernels.errors import UnsupportedError  # noqa: E402
from lodcli.kernels.index.lod import LoD  # noqa: E402
from lodcli.kernels.tensor.lod_tensor import LoDTensor  # noqa: E402
from lodcli.ops import sequence_max  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that machine code is kept in; it is not there yet."""
    monkeypatch.setenv("LOD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def code_in(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("cuda.*.code")}


def test_a_changed_header_makes_other_kernels(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling.function("pool", "pool_empty<float>")
    (first,) = code_in(kept)
    headers = {path.name: path.read_text("utf-8") for path in compiling.HEADERS}
    headers["types.cuh"] += "// changed\n"
    for name, text in headers.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(compiling, "HEADERS", [tmp_path / name for name in headers])
    compiling._texts.cache_clear()
    try:
        compiling.function("pool", "pool_empty<float>")
    finally:
        compiling._texts.cache_clear()
    assert len(code_in(kept) - {first}) == 1


def test_a_kernel_is_compiled_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling.function("pool", "pool_empty<float>")
    (code,) = code_in(kept)

    def refuse(*_: object) -> object:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        patch.setattr(cupy.cuda.nvrtc, "compileProgram", refuse)
        compiling.function("pool", "pool_empty<float>", together=True)
        # Without its name the code is not whole: another process may be writing it.
        (kept / code).with_suffix(".name").unlink()
        with pytest.raises(AssertionError, match="compiled again"):
            compiling.function("pool", "pool_empty<float>")
    compiling.function("pool", "pool_empty<float>")


def test_a_folder_that_cannot_be_made_costs_only_time(kept: Path) -> None:
    kept.parent.write_text("in the way")
    compiling.function("pool", "pool_empty<float>")
    assert kept.parent.read_text() == "in the way"


def test_the_compilers_reason_is_shown(kept: Path) -> None:
    with pytest.raises(
        UnsupportedError, match=r"cannot compile no_such<float> of pool\.cu"
    ) as found:
        compiling.function("pool", "no_such<float>")
    assert "no_such" in str(found.value).split("sm_", 1)[1]
    assert not code_in(kept)


def test_numbers_too_small_to_be_normal_are_not_zero() -> None:
    """CuPy compiles what it is given with -ftz=true."""
    small = np.array([1e-40, 0, 3e-45], np.float32)
    tensor = LoDTensor(small[:, None], LoD.from_lengths([[2, 1]]))
    found = sequence_max(tensor.to_device("cuda")).data
    np.testing.assert_array_equal(cupy.asnumpy(found), sequence_max(tensor).data)
    assert (cupy.asnumpy(found) > 0).all()
