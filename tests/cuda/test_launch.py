"""How kernels are launched; with tests/cuda/host on the path, on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

cupy: Any = pytest.importorskip("cupy")
from lodcli.kernels.cuda import compiling, launch  # noqa: E402
from lodcli.kernels.errors import LaunchRefusedError, UnsupportedError  # noqa: E402
from lodcli.kernels.index.lod import LoD  # noqa: E402
from lodcli.kernels.tensor.lod_tensor import LoDTensor  # noqa: E402
from lodcli.ops import sequence_max  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of cached machine code, which does not exist yet."""
    monkeypatch.setenv("LOD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def code_in(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("cuda.*.code")}


def test_a_tensor_that_lives_to_the_end_of_the_program_ends_silently() -> None:
    code = (
        "import collections, cupy, lodcli.ops; from lodcli import LoDTensor;"
        # Python clears modules imported before cupy after it.
        "collections.words = LoDTensor(cupy.asarray([1.0, 2.0, 3.0]), [[2, 1]]);"
        "lodcli.ops.sequence_sum(collections.words)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_changed_header_makes_other_kernels(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling.function("pool", "pool_pick<unsigned int>")
    (first,) = code_in(kept)
    headers = {path.name: path.read_text("utf-8") for path in compiling.HEADERS}
    headers["types.cuh"] += "// changed\n"
    for name, text in headers.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(compiling, "HEADERS", [tmp_path / name for name in headers])
    compiling._texts.cache_clear()
    try:
        compiling.function("pool", "pool_pick<unsigned int>")
    finally:
        compiling._texts.cache_clear()
    assert len(code_in(kept) - {first}) == 1


def test_a_kernel_is_compiled_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling.function("pool", "pool_pick<unsigned int>")
    (code,) = code_in(kept)

    def refuse(*_: object) -> object:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        patch.setattr(cupy.cuda.nvrtc, "compileProgram", refuse)
        compiling.function("pool", "pool_pick<unsigned int>", together=True)
        # Without its name the file is incomplete: another process may be writing it.
        (kept / code).with_suffix(".name").unlink()
        with pytest.raises(AssertionError, match="compiled again"):
            compiling.function("pool", "pool_pick<unsigned int>")
    compiling.function("pool", "pool_pick<unsigned int>")


def test_a_folder_that_cannot_be_made_costs_only_time(kept: Path) -> None:
    kept.parent.write_text("in the way")
    compiling.function("pool", "pool_pick<unsigned int>")
    assert kept.parent.read_text() == "in the way"


def test_the_compilers_reason_is_shown(kept: Path) -> None:
    with pytest.raises(
        UnsupportedError, match=r"cannot compile no_such<float> of pool\.cu"
    ) as found:
        compiling.function("pool", "no_such<float>")
    assert "no_such" in str(found.value).split("sm_", 1)[1]
    assert not code_in(kept)


def test_numbers_too_small_to_be_normal_are_not_zero() -> None:
    """CuPy compiles sources with -ftz=true."""
    small = np.array([1e-40, 0, 3e-45], np.float32)
    tensor = LoDTensor(small[:, None], LoD.from_lengths([[2, 1]]))
    found = sequence_max(tensor.to_device("cuda")).data
    np.testing.assert_array_equal(cupy.asnumpy(found), sequence_max(tensor).data)
    assert (cupy.asnumpy(found) > 0).all()


def test_blocks_that_are_not_there_at_once_are_not_launched_at_all() -> None:
    # CuPy would launch fewer, as the grid has one axis.
    most = launch.limits().multiprocessors
    with pytest.raises(LaunchRefusedError, match=r"sort_places: \d+ blocks at once, of \d+"):
        launch.run_together(
            *("sort", "sort_places", (most * 64 + 1, 1), (256,), 0),
            *(cupy.empty(0, np.int64), 0, 1, cupy.empty(0, np.int64)),
        )


@pytest.mark.parametrize(("status", "refused"), [(720, True), (801, True), (700, False)])
def test_only_a_refusal_of_the_driver_is_one(
    status: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = cupy.cuda.driver.CUDADriverError(status)

    class Refusing:
        max_dynamic_shared_size_bytes = 0
        kernel = launch._function("sort", "sort_places", 0, True).kernel

        def __call__(self, *_: object, **more: object) -> None:
            raise error

    monkeypatch.setattr(launch, "_function", lambda *_: Refusing())
    with pytest.raises(LaunchRefusedError if refused else type(error)):
        launch.run_together("sort", "sort_places", (1,), (256,), 0)
