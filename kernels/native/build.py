"""Builds kernels: all of them into libraries of the package, or some into the cache.

    python -m lodcli.kernels.native.build --level LEVEL --into FOLDER
    python -m lodcli.kernels.native.build --level LEVEL --cache FOLDER [MODULE:NAME:TYPE..]
    python -m lodcli.kernels.native.build --level here --cache    # all kernels of a checkout

Needs numba. Compiles on all processors that this process may use. If LOD_BUILD_OBJECTS names a
folder, object files of the same sources and compiler versions are reused from it.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import multiprocessing
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lodcli.kernels.native import settings, sources
from lodcli.kernels.native.cache import build_of, file_of, write
from lodcli.kernels.native.linking.library import Entry, compose
from lodcli.kernels.native.linking.link import link
from lodcli.kernels.native.processor import LEVELS, Level, level_named
from lodcli.kernels.platform import environment
from lodcli.kernels.platform.machine import usable_cores

if TYPE_CHECKING:
    from lodcli.kernels.native.declare import Declared

PREFIX = "lodcli."
#: Module written beside the libraries of a package, with their build id and levels.
STAMP = "built.py"
_WORTH_A_PROCESS = 8


@dataclass(frozen=True)
class Task:
    """A kernel to compile for some types."""

    module: str
    name: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """A compiled kernel, as a worker process returns it."""

    task: Task
    symbol: str
    arguments: tuple[str, ...]
    code: bytes
    cpu_seconds: float


_compilers: dict[str, Any] = {}


def _compiler(level: str) -> Any:
    """Return the compiler of this process; must be called before any kernel is imported."""
    if level not in _compilers:
        # Compiling creates millions of objects in a process that soon ends: garbage collection
        # would take as long as some kernels do.
        gc.disable()
        from lodcli.kernels.native.compile_numba import Compiler

        named = level_named(level)
        assert named is not None
        _compilers[level] = Compiler(named)
    return _compilers[level]


def _declared(module: str) -> dict[str, Declared]:
    from lodcli.kernels.native.declare import declared

    importlib.import_module(PREFIX + module)
    return declared(module)


def _compile(level: str, task: Task) -> Done:
    began = time.process_time()
    compiler = _compiler(level)
    from lodcli.kernels.native.compile_numba import symbol_of

    declared = _declared(task.module)[task.name]
    kept = _object_file(level, task)
    if kept is not None and kept.exists():
        code = kept.read_bytes()
    else:
        code = compiler.compile(declared, task.types)
        if kept is not None:
            write(kept.parent, kept, code)
    chosen = dict(zip(declared.variables, task.types, strict=True))
    arguments = tuple(
        word.kind + chosen.get(word.element, word.element) for word in declared.words()
    )
    spent = time.process_time() - began
    return Done(task, symbol_of(task.module, task.name, task.types), arguments, code, spent)


def _object_file(level: str, task: Task) -> Path | None:
    """Return the path of a kernel's object file; None if LOD_BUILD_OBJECTS is not set."""
    folder, named = environment.value("LOD_BUILD_OBJECTS"), level_named(level)
    if not folder or named is None:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return file_of(Path(folder), named, task.module, task.types, task.name).with_suffix(".o")


def tasks(level: str, modules: Iterable[str]) -> list[Task]:
    """Return the tasks for all kernels that modules declare."""
    _compiler(level)
    return [
        Task(module, declared.name, types)
        for module in modules
        for declared in _declared(module).values()
        for types in declared.types
    ]


def compiled(level: str, wanted: list[Task]) -> list[Done]:
    """Return compiled kernels in order; uses a process for each processor if there are many."""
    # Each process has to load numba, which takes as long as compiling some kernels.
    processes = min(usable_cores(), len(wanted) // _WORTH_A_PROCESS)
    if processes < 2:
        return [_compile(level, each) for each in wanted]
    context = multiprocessing.get_context("spawn")
    # Not a Pool of multiprocessing, which waits forever for a process that was killed.
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        return list(pool.map(_compile, repeat(level), wanted))


def library(level: Level, done: list[Done], build: str) -> bytes:
    """Return the bytes of a library of compiled kernels."""
    linked = link([each.code for each in done])
    return compose(
        linked.image,
        level=level.name,
        build=build,
        checked=settings.checked(),
        imports=linked.imports,
        kernels=(
            (
                each.task.module,
                each.task.name,
                each.task.types,
                Entry(linked.functions[each.symbol], each.arguments),
            )
            for each in done
        ),
    )


def build_parts(level: Level, folder: Path, wanted: list[Task]) -> None:
    """Build into the cache: for each task all kernels of its module for the same types.

    Args:
        wanted: if empty, all kernels that the folder lacks.
    """
    if not wanted:
        wanted = [
            task
            for task in tasks(level.name, sources.units())
            if not file_of(folder, level, task.module, task.types, "").exists()
        ]
    groups: dict[tuple[str, tuple[str, ...], str], list[Task]] = {}
    for task in wanted:
        beside = [each for each in tasks(level.name, [task.module]) if each.types == task.types]
        alone = task.name if task.name and task not in beside else ""
        groups[task.module, task.types, alone] = [task] if alone else beside
    flat = [task for group in groups.values() for task in group]
    results = dict(zip(flat, compiled(level.name, flat), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    for (module, types, alone), group in groups.items():
        if group:
            made = [results[task] for task in group]
            content = library(level, made, build_of(level, module))
            write(folder, file_of(folder, level, module, types, alone), content)


def build_package(levels: list[Level], folder: Path) -> None:
    """Build a library of all kernels for each level, and the module that describes them."""
    folder.mkdir(parents=True, exist_ok=True)
    build = sources.digest_of_all()
    for level in levels:
        start = time.perf_counter()
        wanted = tasks(level.name, sources.units())
        done = compiled(level.name, wanted)
        content = library(level, done, build)
        write(folder, folder / f"{level.name}.so", content)
        _report(level, done, len(content), time.perf_counter() - start)
    names = tuple(level.name for level in levels)
    text = f'"""Written when the package was built."""\n\nBUILD = "{build}"\nLEVELS = {names!r}\n'
    write(folder, folder / STAMP, text.encode())


def _report(level: Level, done: list[Done], size: int, seconds: float) -> None:
    spent = sum(each.cpu_seconds for each in done)
    print(
        f"{level.name}: {len(done)} kernels, {size / 1024:.0f} KiB, "
        f"{spent:.1f} s CPU, {seconds:.1f} s",
        file=sys.stderr,
    )
    for each in sorted(done, key=lambda one: -one.cpu_seconds)[:12]:
        task = each.task
        what = " ".join((task.module.rpartition(".")[2], task.name, *task.types))
        print(f"  {each.cpu_seconds:6.2f} s  {len(each.code):7,} bytes  {what}", file=sys.stderr)


def _parsed(text: str) -> Task:
    module, name, *types = text.split(":")
    return Task(module, name, tuple(types))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build compiled kernels.")
    names = ", ".join(("here", *(level.name for level in LEVELS)))
    parser.add_argument("--level", action="append", default=[], metavar="LEVEL", help=names)
    parser.add_argument("--into", type=Path, help="a folder for libraries of all kernels")
    parser.add_argument(
        "--cache",
        type=Path,
        nargs="?",
        const=settings.cache_folder(),
        help="a folder for kernels compiled when needed; by default the one where they are found",
    )
    parser.add_argument("parts", nargs="*", metavar="MODULE:NAME:TYPE..", help="all by default")
    given = parser.parse_args()
    levels = [settings.level() if name == "here" else level_named(name) for name in given.level]
    if None in levels or not levels:
        parser.error(f"--level: expected one of {names}")
    chosen = [level for level in levels if level is not None]
    if given.into:
        build_package(chosen, given.into)
    if given.cache:
        for level in chosen:
            build_parts(level, given.cache, [_parsed(each) for each in given.parts])


if __name__ == "__main__":
    main()
