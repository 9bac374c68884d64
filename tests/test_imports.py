"""Rules of STYLE and layout that can be checked from the source: which imports are allowed."""

import ast
import os
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = {"lodcli.kernels": 0, "lodcli.formats": 1, "lodcli": 2}
FOLDERS = {"kernels": "lodcli.kernels", "formats": "lodcli.formats", "lodcli": "lodcli"}
NOT_IN_KERNELS = {"h5py", "click", "rich"}
# Optional packages, and the names one of which the importing module or folder must contain.
OPTIONAL: dict[str, str | tuple[str, ...]] = {
    "numba": "numba",
    "llvmlite": "numba",
    "cupy": ("cupy", "cuda", "gpu"),
    "cupyx": "cupy",
    "pyarrow": "arrow",
    "torch": "torch",
    "hdf5plugin": "hdf5plugin",
    "zstandard": "zstandard",
    "fsspec": "fsspec",
    "urllib3": "urllib3",
    "awkward": "awkward",
    "dask": "dask",
    "datasets": "datasets",
    "distributed": "dask",
    "fbgemm_gpu": "fbgemm",
    "flash_attn": "flash_attn",
    "kvikio": "kvikio",
    "matplotlib": "matplotlib",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "orjson": "orjson",
    "paddle": "paddle",
    "polars": "polars",
    "streaming": "streaming",
    "torch_scatter": "torch_scatter",
    "webdataset": "webdataset",
}
LONGEST_FILE = 700
LARGEST_FOLDER = 16


@dataclass(frozen=True)
class Import:
    """One imported name; `level` counts the dots of a relative import."""

    name: str
    line: int
    level: int = 0

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]


def sources(folder: str) -> Iterator[Path]:
    # os.walk does not follow links, so that the files of kernels/ are not found in lodcli/ again.
    for parent, _, names in os.walk(ROOT / folder):
        yield from (Path(parent, name) for name in sorted(names) if name.endswith(".py"))


def module_name(path: Path) -> str:
    """Return the name that a source file is installed under."""
    top, *rest = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([FOLDERS[top], *rest]).removesuffix(".__init__")


MODULES = {module_name(path): path for folder in FOLDERS for path in sources(folder)}
TESTS = {str(path.relative_to(ROOT)): path for path in sources("tests")}


def imports(node: ast.AST, *, on_import_only: bool = False) -> Iterator[Import]:
    """Yield all imports below `node`, or only those executed when the module is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            for alias in child.names:
                name = f"{base}.{alias.name}" if base else alias.name
                yield Import(name, child.lineno, child.level)
        elif not (on_import_only and is_put_off(child)):
            yield from imports(child, on_import_only=on_import_only)


def is_put_off(node: ast.AST) -> bool:
    """Return whether code below the node does not run when the module is imported."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imported(path: Path, *, on_import_only: bool = False) -> list[Import]:
    """Return all imports of a file; cached for all tests."""
    return list(imports(parsed(path), on_import_only=on_import_only))


def floor(module: str) -> int:
    """Return 0 for kernels, 1 for formats, 2 for the command line."""
    return next(
        height
        for prefix, height in FLOORS.items()
        if module == prefix or module.startswith(prefix + ".")
    )


def told(path: Path, found: Import, what: str) -> str:
    return f"{path.relative_to(ROOT)}:{found.line}: {found.name}: {what}"


def our_target(found: Import) -> str | None:
    """Return the imported module of lodcli, or None: for `from M import name` it may be M."""
    if found.top != "lodcli":
        return None
    return found.name if found.name in MODULES else found.name.rpartition(".")[0] or found.name


def test_modules_of_all_three_floors_are_found() -> None:
    assert {floor(module) for module in MODULES} == {0, 1, 2}
    assert not [path for path in MODULES.values() if path.resolve() != path]


def test_imports_point_down() -> None:
    wrong = [
        told(path, found, f"{module} may not import from a floor above")
        for module, path in MODULES.items()
        for found in imported(path)
        if found.top == "lodcli" and floor(our_target(found) or "lodcli") > floor(module)
    ]
    assert not wrong, "\n".join(wrong)


def test_kernels_know_no_files_and_no_terminal() -> None:
    wrong = [
        told(path, found, "not in kernels")
        for module, path in MODULES.items()
        if floor(module) == 0
        for found in imported(path)
        if found.top in NOT_IN_KERNELS
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_are_absolute() -> None:
    wrong = [
        told(path, found, "write the whole name, lodcli. and so on")
        for path in [*MODULES.values(), *TESTS.values()]
        for found in imported(path)
        if found.level > 0
    ]
    assert not wrong, "\n".join(wrong)


def test_kernels_and_formats_are_imported_through_lodcli() -> None:
    wrong = [
        told(path, found, f"import lodcli.{found.top}")
        for path in [*MODULES.values(), *TESTS.values()]
        for found in imported(path)
        if found.level == 0 and found.top in {"kernels", "formats"}
    ]
    assert not wrong, "\n".join(wrong)


def test_an_optional_package_is_imported_only_in_modules_named_after_it() -> None:
    wrong = [
        told(path, found, f"only in a module or folder named after it: {OPTIONAL[found.top]}")
        for module, path in MODULES.items()
        for found in imported(path)
        if found.top in OPTIONAL and not bears(module, OPTIONAL[found.top])
    ]
    assert not wrong, "\n".join(wrong)


def bears(module: str, names: str | tuple[str, ...]) -> bool:
    return any(name in module for name in ([names] if isinstance(names, str) else names))


def test_numba_is_imported_from_one_module() -> None:
    """Numba must be configured before any of its code runs."""
    wrong = [
        told(path, found, "import it from lodcli.kernels.runtime.jit_numba")
        for module, path in MODULES.items()
        # Peers of benchmarks use numba as other programs do.
        if not module.startswith(
            ("lodcli.kernels.runtime.", "lodcli.kernels.native.", "lodcli.bench.peers.")
        )
        for found in imported(path)
        if found.top in {"numba", "llvmlite"}
    ]
    assert not wrong, "\n".join(wrong)


def test_a_test_imports_an_optional_package_only_once_it_runs() -> None:
    """An import at the top fails if it is missing; pytest.importorskip skips with a reason."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = project["dependencies"] + project["optional-dependencies"]["test"]
    brought = {re.split(r"[^a-z0-9_-]", each, maxsplit=1)[0].replace("-", "_") for each in listed}
    known = brought | {"docs", "lodcli", "samples", "tests"} | sys.stdlib_module_names
    wrong = [
        told(path, found, "import it in the test, behind pytest.importorskip")
        for name, path in TESTS.items()
        # Except tests that need a GPU, and scripts that make files once.
        if not name.startswith("tests/cuda/") and not path.name.startswith("make_")
        for found in imported(path, on_import_only=True)
        if found.top not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions and those for types count as well."""
    graph = {
        module: {
            target
            for found in imported(path)
            if (target := our_target(found)) in MODULES and not module.startswith(f"{target}.")
        }
        for module, path in MODULES.items()
    }
    assert not (cycle := find_cycle(graph)), " -> ".join(cycle)


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return a cycle in `graph`, or an empty list if there is none."""
    done: set[str] = set()

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for following in sorted(graph[node]):
            if cycle := walk(following, [*path, node]):
                return cycle
        done.add(node)
        return []

    return next((cycle for node in sorted(graph) if (cycle := walk(node, []))), [])


def test_a_cycle_is_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_cycle({"a": {"a"}}) == ["a", "a"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import a.b, c", ["a.b", "c"]),
        ("from a import b, c", ["a.b", "a.c"]),
        ("from . import b", ["b"]),
        ("def f():\n    import a", ["a"]),
        ("try:\n    import a\nexcept ImportError:\n    import b", ["a", "b"]),
    ],
)
def test_every_kind_of_import_is_read(source: str, found: list[str]) -> None:
    assert [one.name for one in imports(ast.parse(source))] == found


@pytest.mark.parametrize(
    "source",
    ["def f():\n    import a", "if TYPE_CHECKING:\n    import a", "import b\nf = lambda: a"],
)
def test_an_import_put_off_is_distinguished_from_one_that_runs_at_once(source: str) -> None:
    found = imports(ast.parse(source), on_import_only=True)
    assert "a" not in [one.name for one in found]


def test_folders_are_small() -> None:
    """In small folders, files are easy to find, and so is the place for a new one."""
    counts = Counter(path.parent for path in MODULES.values() if path.name != "__init__.py")
    # This folder has exactly one file per library.
    counts.pop(ROOT / "lodcli" / "bench" / "peers")
    assert not {str(folder): n for folder, n in counts.items() if n > LARGEST_FOLDER}


def test_files_are_short() -> None:
    lengths = {
        path.relative_to(ROOT): len(path.read_text("utf-8").splitlines())
        for path in (MODULES | TESTS).values()
    }
    assert not {str(path): n for path, n in lengths.items() if n > LONGEST_FILE}
