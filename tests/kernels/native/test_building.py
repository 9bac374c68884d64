"""Building kernels: forbidden operations, declared kernels, and libraries for other levels."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from lodcli.kernels.native import sources
from lodcli.kernels.native.linking import elf
from lodcli.kernels.native.linking.relocations import RULES
from tests.kernels.native.building import built, python
from tests.sampling import every

WRONG = """
import importlib, sys
import numpy as np
from lodcli.kernels.native.processor import levels_here
from lodcli.kernels.native.compile_numba import CompileError, Compiler
compiler = Compiler(levels_here()[-1])
from lodcli.kernels.native.declare import Pointer, declared, kernel

@kernel()
def makes_an_array(out: Pointer[np.int64], many: int) -> int:
    room = np.empty(many, np.int64)
    for k in range(many):
        room[k] = out[k]
    return room[many - 1]

@kernel()
def raises(many: int) -> int:
    if many < 0:
        raise ValueError("negative")
    return 0

@kernel()
def divides(many: int, by: int) -> int:
    return many // by

for name, found in declared(__name__).items():
    try:
        compiler.compile(found, ())
        print(name, "is fine")
    except Exception as error:
        print(name, type(error).__name__, str(error).splitlines()[0])
"""


def test_a_kernel_that_makes_arrays_or_raises_is_not_built() -> None:
    pytest.importorskip("numba", reason="kernels are compiled by numba")
    done = python(WRONG)
    assert done.returncode == 0, done.stderr
    array, error, fine = done.stdout.splitlines()
    assert array.startswith("makes_an_array ")
    assert "fine" not in array
    assert error.startswith("raises CompileError kernel lod.__main__.raises: may raise")
    assert fine == "divides is fine"


DIES = """
import sys
if "spawn_main" in " ".join(sys.orig_argv):
    import os
    os._exit(9)
"""


def test_a_build_ends_when_a_process_that_compiles_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="kernels are compiled by numba")
    (tmp_path / "sitecustomize.py").write_text(DIES)
    script = """
from lodcli.kernels.native import build
build.usable_cores = lambda: 2
many = build.tasks("x86-64-v2", ["kernels.ops.norms.norms_numba", "kernels.ops.scan.scan_numba"])
build.compiled("x86-64-v2", many * 16)
"""
    done = python(script, PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    assert done.returncode == 1
    assert "BrokenProcessPool" in done.stderr.splitlines()[-1]


LISTED = """
import importlib, json
from lodcli.kernels.native import load, pool, sources
for root, path in sources._modules():
    if b"load.kernel(" in path.read_bytes():
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        importlib.import_module("lodcli." + name)
load._bridge()
for name in ("serve", "run", "begin", "call_each", "take", "finish", "stop", "end", "ring"):
    pool._kernels(name)
asked = sorted(load.asked)
from lodcli.kernels.native.target import compile_for
from lodcli.kernels.native.processor import level_named
compile_for(level_named("x86-64-v4"))  # which has all kernels; nothing is compiled here
from lodcli.kernels.native.declare import declared
for unit in sources.units():
    importlib.import_module("lodcli." + unit)
print(json.dumps([asked, [[unit, name] for unit in sources.units() for name in declared(unit)]]))
"""


def test_requested_and_declared_kernels_are_the_same() -> None:
    pytest.importorskip("numba", reason="kernels are declared beside code for numba")
    done = python(LISTED)
    assert done.returncode == 0, done.stderr
    asked, declared = ({tuple(each) for each in part} for part in json.loads(done.stdout))
    probes = {each for each in declared if each[0] == "kernels.native.probe_numba"}
    assert asked - declared == set()
    # The bridge is asked for by the loader itself.
    bridge = {("kernels.native.python_numba", name) for name in ("from_python", "keep")}
    assert declared - asked - probes == bridge


@pytest.mark.slow
def test_a_build_takes_object_files_that_were_kept(tmp_path: Path) -> None:
    kept = {"LOD_BUILD_OBJECTS": str(tmp_path / "kept")}
    words = ("kernels.native.probe_numba",)
    first = built(*words, build="ours", **kept)
    files = sorted((tmp_path / "kept").iterdir())
    assert {path.suffix for path in files} == {".o"}
    assert built(*words, build="ours", **kept) == first == built(*words, build="ours")
    # Others are not looked at; these are, and nothing is compiled in their place.
    built(*words, build="ours", NUMBA_BOUNDSCHECK="1", **kept)
    assert len(list((tmp_path / "kept").iterdir())) == 2 * len(files)
    files[0].write_bytes(b"")
    with pytest.raises(AssertionError, match="parse_object"):
        built(*words, build="ours", **kept)


@pytest.mark.slow
def test_a_build_into_the_cache_compiles_what_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="kernels are compiled by numba")
    script = """
import sys
from lodcli.kernels.native import build, settings, sources
from lodcli.kernels.native.cache import file_of
units = sources.units = lambda: ["kernels.native.probe_numba"]
sys.argv[1:] = ["--level", "here", "--cache"]
build.main()
level = settings.level()
for task in build.tasks(level.name, units()):
    print(file_of(settings.cache_folder(), level, task.module, task.types, ""))
"""

    def build() -> dict[Path, int]:
        done = python(script, LOD_CACHE=str(tmp_path / "cache"))
        assert done.returncode == 0, done.stderr
        return {Path(line): Path(line).stat().st_ino for line in done.stdout.splitlines()}

    first = build()
    assert len(first) > 1
    assert build() == first
    gone = next(iter(first))
    gone.unlink()
    again = build()
    assert {path for path in first if again[path] != first[path]} <= {gone}


# -- Other machines ---------------------------------------------------------------------


def test_a_library_for_another_machine_is_built_here() -> None:
    content = built("kernels.native.probe_numba", build="ours", level="aarch64")
    assert content[:4] == b"\x7fELF"
    assert int.from_bytes(content[18:20], "little") == elf.MACHINES["aarch64"]


@pytest.mark.slow
def test_kernels_can_be_compiled_for_another_machine() -> None:
    """A part of them: .ci/wheels compiles all."""
    assert built(*sources.units()[:: 4 * every(18)], build="ours", level="aarch64")


@pytest.mark.parametrize(
    ("kind", "place", "to", "code", "expected"),
    [
        # adrp x0, 5 pages on; add x0, x0, #0x123; bl 16 words on; ldr x0, [x0, #0x128]
        (275, 0x1FF0, 0x6123, 0x90000000, 0xB0000020),
        (277, 0x1000, 0x6123, 0x91000000, 0x91048C00),
        (283, 0x1000, 0x1040, 0x94000000, 0x94000010),
        (286, 0x1000, 0x6128, 0xF9400000, 0xF9409400),
        (283, 0x1040, 0x1000, 0x94000000, 0x97FFFFF0),
    ],
)
def test_relocations_of_aarch64_are_those_of_its_manual(
    kind: int, place: int, to: int, code: int, expected: int
) -> None:
    image = bytearray(code.to_bytes(4, "little"))
    RULES["aarch64"].apply(image, 0, kind, place, to)
    assert int.from_bytes(image, "little") == expected


def test_a_jump_that_is_too_far_is_refused() -> None:
    import struct

    with pytest.raises(struct.error):
        RULES["aarch64"].apply(bytearray(4), 0, 283, 0, 1 << 30)
