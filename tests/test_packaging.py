"""The installed package: its content, and that it runs without other packages."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from lodcli.manual.pages import pages

ROOT = Path(__file__).parent.parent
COMPILED = "lodcli/kernels/native/lib/"
FOLDERS = {"lodcli": "lodcli", "formats": "lodcli.formats", "kernels": "lodcli.kernels"}


def package_folders() -> dict[str, Path]:
    """Return all source folders by package name."""
    found = {}
    for top, package in FOLDERS.items():
        # os.walk does not follow the links lodcli/kernels and lodcli/formats.
        for parent, _, files in os.walk(ROOT / top):
            if any(name.endswith(".py") for name in files):
                inner = Path(parent).relative_to(ROOT / top).parts
                found[".".join([package, *inner])] = Path(parent)
    return found


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command outside the repository and without its paths."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def run_well(*command: str | Path, cwd: Path) -> str:
    """Run a command that must succeed, and return its stdout."""
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{done.args}\n{done.stdout}{done.stderr}"
    return done.stdout


def pip(*words: str | Path, cwd: Path, python: str | Path = sys.executable) -> None:
    run_well(python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words, cwd=cwd)


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files known to git, without build results and temporary files."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so what belongs to the package is not known")
    listed = run_well(
        "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT
    )
    copy = tmp_path_factory.mktemp("tree")
    for name in listed.split("\0"):
        source, target = ROOT / name, copy / name
        # Files that were just deleted are still listed.
        if name and os.path.lexists(source):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", folder, tree, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    run_well(sys.executable, "-m", "build", "--sdist", "--outdir", folder, tree, cwd=folder)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with only the wheel and its requirements."""
    folder = tmp_path_factory.mktemp("installed")
    run_well(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    binaries = folder / "venv" / "bin"
    pip("install", wheel, cwd=folder, python=binaries / "python")
    return binaries


def modules_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if name.startswith("lodcli/")}


def expected_modules() -> set[str]:
    return {
        f"{package.replace('.', '/')}/{path.name}"
        for package, folder in package_folders().items()
        for path in folder.glob("*.py")
    }


def test_every_folder_of_modules_is_a_package() -> None:
    bare = [
        str(folder)
        for folder in package_folders().values()
        if not (folder / "__init__.py").exists()
    ]
    assert not bare, f"no __init__.py in {bare}"


@pytest.mark.parametrize("floor", ["kernels", "formats"])
def test_the_links_for_static_tools_are_there(floor: str) -> None:
    assert (ROOT / "lodcli" / floor).readlink() == Path("..", floor)


@pytest.mark.slow
def test_a_wheel_holds_all_our_modules_inside_lodcli_and_nothing_else(wheel: Path) -> None:
    names = {name for name in modules_in(wheel) if not name.startswith(COMPILED)}
    assert {name for name in names if name.endswith(".py")} == expected_modules()
    assert "lodcli/py.typed" in names
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0].partition("-")[0] for name in archive.namelist()}
    assert tops == {"lodcli"}


@pytest.mark.slow
def test_a_wheel_installs_man_pages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = [Path(name) for name in archive.namelist() if ".data/" in name]
    assert {str(path.parent).partition(".data/")[2] for path in held} == {"data/share/man/man1"}
    assert {path.name for path in held} == set(pages(""))


@pytest.mark.slow
def test_a_wheel_holds_the_kernels_of_one_level_and_fits_any_python(wheel: Path) -> None:
    held = {name.removeprefix(COMPILED) for name in modules_in(wheel) if COMPILED in name}
    libraries = {name for name in held if name.endswith(".so")}
    assert held == {"built.py", *libraries}
    assert len(libraries) == 1
    assert wheel.name.split("-")[2:4] == ["py3", "none"]


@pytest.mark.slow
def test_an_installed_wheel_runs_its_kernels_without_numba(installed: Path, tmp_path: Path) -> None:
    said = run_well(installed / "python", ROOT / ".ci" / "smoke.py", cwd=tmp_path)
    assert "all kernels are there" in said


@pytest.mark.slow
def test_no_command_compiles_or_writes_anything_at_its_first_call(
    installed: Path, tmp_path: Path
) -> None:
    # Compiling takes far longer than the limit, which must also hold on a busy machine.
    words = (installed / "python", ROOT / ".ci" / "first_calls.py", "--rounds", "1", "--limit", "3")
    said = run_well(*words, cwd=tmp_path)
    assert "convert a.jsonl" in said


@pytest.mark.slow
def test_an_installed_wheel_reads_in_a_sandbox(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[1,2]\n[3]\n")
    words = ("convert", "-q", "--isolate", "a.jsonl", "--to", "jsonl")
    assert run_well(installed / "lod", *words, cwd=tmp_path) == "[1,2]\n[3]\n"


@pytest.mark.slow
def test_a_wheel_carries_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/LICENSE")]
        assert archive.read(name) == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
def test_a_source_distribution_installs_the_same_as_the_wheel(
    sdist: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"lodcli", "formats", "kernels", "LICENSE", "README.md"} <= tops
    assert "tests" not in tops  # setuptools adds only those at the top of the folder
    # Do not compile the same sources again.
    monkeypatch.setenv("LOD_BUILD_LEVELS", "none")
    pip(
        "install", "--no-deps", "--no-compile", "--target", tmp_path / "target", sdist, cwd=tmp_path
    )
    target = tmp_path / "target"
    got = {str(path.relative_to(target)) for path in (target / "lodcli").rglob("*.*")}
    assert got == {name for name in modules_in(wheel) if not name.startswith(COMPILED)}


@pytest.mark.slow
@pytest.mark.parametrize("command", [["lod"], ["python", "-m", "lodcli"]])
def test_the_installed_command_tells_its_version(
    installed: Path, command: list[str], project: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    said = run_well(installed / command[0], *command[1:], "--version", cwd=tmp_path)
    assert project["project"]["version"] in said


@pytest.mark.slow
@pytest.mark.parametrize("floor", ["kernels", "formats"])
def test_a_floor_is_installed_under_lodcli_only(
    installed: Path, floor: str, tmp_path: Path
) -> None:
    run_well(installed / "python", "-c", f"import lodcli.{floor}", cwd=tmp_path)
    bare = run(installed / "python", "-c", f"import {floor}", cwd=tmp_path)
    assert bare.returncode == 1
    assert f"No module named '{floor}'" in bare.stderr
