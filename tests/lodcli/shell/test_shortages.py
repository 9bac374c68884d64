"""Errors about limits of the system and packages that cannot be imported say what to do."""

from __future__ import annotations

import errno
import re
import tempfile
from pathlib import Path

import pytest

from lodcli.shell.failures import explained
from tests.lodcli.conftest import Lod

SAMPLES = Path(__file__).parents[3] / "samples"


def test_a_limit_on_open_files_is_an_error_with_a_remedy(shell: Lod, folder: Path) -> None:
    inputs = " ".join(["words.lod.h5"] * 40)
    done = shell(f"ulimit -n 20; lod merge {inputs} -o x.lod.h5")
    assert (done.code, done.stdout) == (3, "")
    assert done.stderr == (
        "lod merge: words.lod.h5: too many files are open; allow more with ulimit -n\n"
    )
    outputs = shell("ulimit -n 22; lod split words.lod.h5 --level -1 --by count 1 -o 'x-{}.npz'")
    assert re.fullmatch(
        r"lod split: x-0.npz: 6 files written at once need 2[3-9] open files, but 22 are allowed; "
        r"write fewer, or allow more with ulimit -n\n",
        outputs.stderr,
    )
    assert outputs.code == 3
    assert not list(folder.glob("*x-*"))
    assert explained(OSError(errno.EMFILE, "Too many")) == (
        "too many files are open; allow more with ulimit -n",
        3,
    )


@pytest.mark.parametrize("most", range(7, 12))
def test_a_folder_that_needs_more_open_files_is_removed(
    most: int, shell: Lod, folder: Path
) -> None:
    """Also where even a temporary folder cannot be tried."""
    pytest.importorskip("zarr")
    before = sorted(folder.iterdir())
    done = shell(f"ulimit -n {most}; lod convert words.lod.h5 x.zarr")
    assert (done.code, done.stdout) == (3, "")
    assert done.stderr.endswith(": too many files are open; allow more with ulimit -n\n")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", ["", "lod-abc/copy.lod.h5"])
def test_a_full_temporary_folder_is_an_error_with_a_remedy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    error = OSError(errno.ENOSPC, "No space left", str(tmp_path / name))
    said = "no space left on the device"
    remedy = "; it holds temporary data: set TMPDIR to a folder with more room"
    assert explained(error) == (f"{tmp_path / name}: {said}{remedy}", 3)
    elsewhere = OSError(errno.ENOSPC, "No space left", str(tmp_path / "out.lod.h5"))
    assert explained(elsewhere) == (f"{tmp_path / 'out.lod.h5'}: {said}", 3)
    elsewhere.strerror = "No space left; rows and offsets take 9 bytes"
    found = f"{tmp_path / 'out.lod.h5'}: {said}; rows and offsets take 9 bytes"
    assert explained(elsewhere) == (found, 3)


@pytest.mark.parametrize("name", ["npz", "lod.h5", "ts"])
def test_the_folder_in_which_an_output_is_collected_is_named(
    name: str, shell: Lod, folder: Path
) -> None:
    """Files may hold 100 KiB; the pipe more."""
    convert = f"lod convert -q {SAMPLES / 'japanese_vowels.ts'} --to {name} -o -"
    done = shell(f"ulimit -f 100; {convert} | wc -c")
    where = f"standard output, collected in {tempfile.gettempdir()}"
    assert (
        done.stderr
        == f"lod convert: {where}: exceeds the file size limit; allow more with ulimit -f\n"
    )
    full = shell(f"{convert} > /dev/full")
    assert full.stderr == "lod convert: standard output: no space left on the device\n"


def test_a_missing_temporary_folder_is_an_error_with_a_remedy(shell: Lod, folder: Path) -> None:
    done = shell("ulimit -f 0; lod convert -q words.lod.h5 --to npz -o - | wc -c")
    assert done.stderr == (
        "lod convert: standard output: needs a folder for temporary files, and none can be written "
        "to; set TMPDIR to one\n"
    )


def test_a_file_that_is_too_large_gets_the_remedy(shell: Lod, folder: Path) -> None:
    source = SAMPLES / "japanese_vowels.ts"
    done = shell(f"ulimit -f 100; lod convert -q {source} out --to lod.dataset")
    part = Path("out/data-00000.lod.h5")
    said = f"lod convert: {part}: cannot be written: exceeds the file size limit"
    assert done.stderr == f"{said}; allow more with ulimit -f\n"
    assert not (folder / "out").exists()
    elsewhere = OSError(errno.EFBIG, "File too large", "x.npz")
    assert explained(elsewhere)[0].endswith(
        "; its file system holds no larger files: write to another one"
    )


def test_a_target_that_is_a_mount_point_is_explained() -> None:
    error = OSError(errno.EBUSY, "Device or resource busy", "x.partial", None, "x.npz")
    assert explained(error) == (
        "x.npz: cannot be written: is a mount point, or used by the system in another way; name "
        "another path",
        3,
    )


def test_memory_that_is_too_little_for_a_package_is_named(shell: Lod, folder: Path) -> None:
    pytest.importorskip("torch")
    done = shell("ulimit -v 400000; lod convert words.lod.h5 x.pt", LOD_THREADS="1")
    assert done.code == 3
    assert done.stderr.startswith("lod convert: not enough memory")
    assert "install" not in done.stderr


@pytest.mark.parametrize(("package", "out"), [("torch", "x.pt"), ("pyarrow", "x.arrow")])
def test_a_package_that_cannot_be_imported_is_not_called_missing(
    package: str, out: str, shell: Lod, folder: Path
) -> None:
    (folder / "broken" / package).mkdir(parents=True)
    why = "libx.so: cannot open shared object file"
    (folder / "broken" / package / "__init__.py").write_text(f"raise ImportError({why!r})\n")
    done = shell(f"lod convert words.lod.h5 {out}", PYTHONPATH=str(folder / "broken"))
    assert done.stderr == (
        f"lod convert: a package is installed but cannot be imported: {why}; install it again\n"
    )
    assert done.code == 4
    assert not (folder / out).exists()
