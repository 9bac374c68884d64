"""Where kernels come from: the package's library, the cache, nowhere; and what is said then."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import pytest

import lodcli
from lodcli.kernels.native import cache, settings, sources
from lodcli.kernels.native.processor import LEVELS, levels_here
from tests.kernels.native.building import built, python
from tests.slow import slow

# Calls a kernel for a dtype, or an op of NumPy's if there is none; tells how many kernels were
# compiled, whether numba was loaded, and which of the two it was.
PROGRAM = """
import sys
import numpy as np
from lodcli.kernels.runtime import compile_events
from lodcli.kernels.native import load
from lodcli.kernels.ops.softmax.softmax import segment_softmax
from lodcli.kernels.runtime.dispatch import on
told = []
compile_events.when_compiling(told.append)
rows, out = np.zeros((4, 1), sys.argv[1]), np.zeros(5)
try:
    kernel = load.kernel("kernels.native.probe_numba", "arguments")[rows.dtype.char]
    assert kernel.call(0, 1, rows, None, 0.5, 3, True, out) == 3
    which = "compiled"
except load.NativeUnavailableError as error:
    which = "numpy"
    if len(sys.argv) > 2:
        raise
    found = on("auto", segment_softmax, size_bytes=1 << 30)(rows, np.array([0, 4]))
    assert (found == 0.25).all()
print(len(told), any("numba" in name.split(".")[0] for name in sys.modules), which)
"""
NOT_COMPILED, COMPILED, NUMPY = "0 False compiled\n", "1 False compiled\n", "0 False numpy\n"


def run(dtype: str = "float32", *words: str, **more: str) -> tuple[str, str]:
    done = python(PROGRAM, dtype, *words, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def sources_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the sources as they are installed, without a library of kernels."""
    root = tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("__pycache__", "lib")
    shutil.copytree(Path(lodcli.__file__).parent, root / "lodcli", ignore=ignored)
    return root


@pytest.fixture
def compiling(sources_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs compile their kernels, also where the package that is tested ships some."""
    pytest.importorskip("numba", reason="kernels are compiled by numba")
    monkeypatch.setenv("PYTHONPATH", str(sources_only))


@pytest.mark.usefixtures("compiling")
def test_a_kernel_is_compiled_once_and_numba_is_loaded_elsewhere(tmp_path: Path) -> None:
    assert run(LOD_CACHE=str(tmp_path)) == (COMPILED, "")
    assert run(LOD_CACHE=str(tmp_path)) == (NOT_COMPILED, "")
    # The other dtype is another file.
    assert run("int64", LOD_CACHE=str(tmp_path)) == (COMPILED, "")


@pytest.mark.slow
@pytest.mark.usefixtures("compiling")
def test_damaged_files_are_made_anew(tmp_path: Path) -> None:
    assert run(LOD_CACHE=str(tmp_path)) == (COMPILED, "")
    held = list(tmp_path.rglob("*probe*.so"))
    assert held
    for path in held:
        path.write_bytes(path.read_bytes()[:-100])
    assert run(LOD_CACHE=str(tmp_path)) == (COMPILED, "")
    assert run(LOD_CACHE=str(tmp_path)) == (NOT_COMPILED, "")


@pytest.mark.slow
@pytest.mark.usefixtures("compiling")
# Neither can be made, not even by root; for the second, even a look into it is an error.
@pytest.mark.parametrize("name", ["file/below", 300 * "x"])
def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, name: str) -> None:
    file, temporary = tmp_path / "file", tmp_path / "temporary"
    file.write_text("no folder")
    temporary.mkdir()
    assert run(LOD_CACHE=str(tmp_path / name), TMPDIR=str(temporary)) == (COMPILED, "")
    assert not list(temporary.iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("compiling")
def test_a_lock_of_another_user_keeps_no_kernel_from_being_compiled(tmp_path: Path) -> None:
    # A folder cannot be opened as a lock, not even by root.
    (tmp_path / "kernels" / "kernels.native.probe_numba.float32.lock").mkdir(parents=True)
    assert run(LOD_CACHE=str(tmp_path)) == (COMPILED, "")
    assert run(LOD_CACHE=str(tmp_path)) == (NOT_COMPILED, "")


def test_an_error_of_compiling_without_a_lock_has_no_context(tmp_path: Path) -> None:
    with (
        pytest.raises(cache.NotBuiltError) as caught,
        cache._locked(tmp_path / "missing", "kernel"),
    ):
        raise cache.NotBuiltError
    assert caught.value.__context__ is None


def test_without_numba_or_a_library_numpy_computes_and_it_is_said_once(
    tmp_path: Path, sources_only: Path
) -> None:
    blocked = tmp_path / "blocked" / "numba"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('blocked')")
    paths = os.pathsep.join([str(tmp_path / "blocked"), str(sources_only)])
    more = {"LOD_CACHE": str(tmp_path / "cache"), "PYTHONPATH": paths}
    out, error = run(**more)
    assert out == NUMPY
    assert error.startswith(
        "lod: some of the kernels for this are not installed; with pip install "
    )
    assert error.endswith("; NumPy is used, which is slower\n")
    assert error.count("\n") == 1  # for two kernels
    done = python(PROGRAM, "float32", "raise", **more)
    assert done.returncode == 1
    assert "NativeUnavailableError" in done.stderr


def test_native_kernels_can_be_turned_off() -> None:
    assert run(LOD_NATIVE="off") == (NUMPY, "")


def test_a_level_that_this_processor_does_not_have_is_refused_by_name() -> None:
    done = python(PROGRAM, "float32", LOD_NATIVE="v9")
    assert "OptionError: LOD_NATIVE: expected off or one of " in done.stderr


def test_levels_rise_and_each_has_a_short_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = levels_here()
    for level in here:
        monkeypatch.setenv("LOD_NATIVE", level.name[-2:])
        assert settings.level() == level
    x86 = [level for level in LEVELS if level.machine == "x86_64"]
    for less, more in itertools.pairwise(x86):
        assert set(less.needed) < set(more.needed)


# -- A package -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, sources_only: Path) -> Path:
    """A folder with a copy of the sources as they are installed, and a library of few kernels."""
    root = tmp_path_factory.mktemp("package")
    shutil.copytree(sources_only, root, dirs_exist_ok=True)
    library = root / "lodcli" / "kernels" / "native" / "lib"
    library.mkdir()
    level = settings.level().name
    content = built(
        "kernels.native.probe_numba", "kernels.native.python_numba", build="ours",
    )  # fmt: skip
    (library / f"{level}.so").write_bytes(content)
    (library / "built.py").write_text(f"BUILD = 'ours'\nLEVELS = ({level!r},)\n")
    return root


def run_in(package: Path, tmp_path: Path, dtype: str = "float32") -> tuple[str, str]:
    return run(dtype, LOD_CACHE=str(tmp_path / "cache"), PYTHONPATH=str(package))


def test_a_package_s_library_is_used_and_no_cache_written(package: Path, tmp_path: Path) -> None:
    for dtype in ("float32", "int64"):
        assert run_in(package, tmp_path, dtype) == (NOT_COMPILED, "")
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_kernels_that_check_indices_are_compiled_beside_a_package_s_library(
    package: Path, tmp_path: Path
) -> None:
    checked = {"LOD_CACHE": str(tmp_path), "PYTHONPATH": str(package), "NUMBA_BOUNDSCHECK": "1"}
    assert run(**checked) == (COMPILED, "")
    assert [".checked." in path.name for path in tmp_path.rglob("*probe*.so")] == [True]


@pytest.mark.parametrize("damage", ["missing", "cut", "older", slow("foreign")])
def test_an_unusable_library_is_one_clear_line_and_numpy(
    package: Path, tmp_path: Path, damage: str
) -> None:
    copy = tmp_path / "package"
    shutil.copytree(package, copy)
    (path,) = copy.rglob("lib/*.so")
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-1000])
    elif damage == "older":
        (path.parent / "built.py").write_text(
            (path.parent / "built.py").read_text().replace("ours", "newer")
        )
    else:
        other = next(level.name for level in LEVELS if level.name != path.stem)
        path.write_bytes(built("kernels.native.pool_numba", build="ours", level=other))
    out, error = run_in(copy, tmp_path)
    assert out == NUMPY
    wanted = {
        "missing": "no such file",
        "cut": "not a library of kernels, or cut short",
        "older": "build: expected 'newer', found 'ours'",
        "foreign": "level: expected ",
    }
    assert error.startswith(f"lod: {path}: {wanted[damage]}")
    assert error.endswith("; NumPy is used, which is slower\n")
    assert error.count("\n") == 1


# -- What compiled code is known by -----------------------------------------------------


def test_all_units_are_found_and_named_as_they_are_imported() -> None:
    units = sources.units()
    assert "kernels.ops.softmax.softmax_numba" in units
    assert "formats.json.scanner.scan_numba" in units
    assert units == sorted(set(units))


def test_a_digest_follows_everything_that_a_module_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = "kernels.ops.softmax.softmax_numba"
    held = sources._closure([unit])
    assert {unit, "kernels.ops.softmax.softmax_vectors_numba", "kernels.simd.vectors"} <= held
    assert "kernels.ops.pooling.reduce_numba" not in held
    before = sources.digest_of(unit)
    read = sources._bytes_of

    def changed(name: str) -> bytes | None:
        return b"# changed" if name == "kernels.simd.vectors" else read(name)

    monkeypatch.setattr(sources, "_bytes_of", changed)
    assert sources.digest_of(unit) != before
    assert sources.digest_of("kernels.native.pool_numba") == sources.digest_of(
        "kernels.native.pool_numba"
    )


@pytest.mark.slow
def test_every_unit_s_imports_are_all_in_its_digest() -> None:
    """The pattern that finds imports misses none that Python's own parser finds."""
    import ast

    for unit in sources.units():
        for name in sources._closure([unit]):
            text = sources._bytes_of(name)
            assert text is not None
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lodcli."):
                    module = (node.module or "").removeprefix("lodcli.")
                    assert module in sources._closure([unit]), (unit, name, module)
                    for alias in node.names:
                        full = f"{module}.{alias.name}"
                        if sources._bytes_of(full) is not None:
                            assert full in sources._closure([unit]), (unit, name, full)


@pytest.mark.slow
@pytest.mark.usefixtures("compiling")
def test_modules_are_distinguished_by_environment(tmp_path: Path) -> None:
    """Code that checks indices is other code."""
    assert run(LOD_CACHE=str(tmp_path)) == (COMPILED, "")
    assert run(LOD_CACHE=str(tmp_path), NUMBA_BOUNDSCHECK="1") == (COMPILED, "")
    names = {path.name for path in tmp_path.rglob("*probe*.so")}
    assert len(names) == 2
    assert sum(".checked." in name for name in names) == 1
    assert os.environ.get("NUMBA_BOUNDSCHECK") in (None, "", "0", "1")
