"""Errors name arguments of Python; those of commands name options."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import lodcli
from lodcli.errors import OptionError
from lodcli.formats.core import io
from lodcli.formats.core.limits import Limits
from lodcli.kernels.options import for_shell, option, together
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.group import group

# For each file: its content, arguments in Python and in the shell, and the text of the errors.
READS: dict[str, tuple[bytes, dict[str, Any], str, str, str]] = {
    "missing.jsonl": (
        b'{"a":1}\n{"b":2}\n',
        {},
        "",
        "field 'a' is missing; nulls='keep' reads it as a null; or choose others with columns=, or "
        "the rest with skip_unsupported=True",
        "field 'a' is missing; --nulls keep reads it as a null; or choose others with --columns, "
        "or the rest with --skip-unsupported",
    ),
    "exact.csv": (
        b"a\n0.5\n16777217\n",
        {"dtype": "float32"},
        "--dtype float32",
        "dtype='int64' may hold it, dtype='float32', dtype_unsafe=True rounds it",
        "--dtype int64 may hold it, --dtype float32 --dtype-unsafe rounds it",
    ),
    "quoted.csv": (
        b"a\n1\n--nulls\n",
        {},
        "",
        "found '--nulls'; text_columns= reads the column as text, or choose other columns with",
        "found '--nulls'; --text-columns reads the column as text, or choose other columns with",
    ),
    "named --nulls keep.jsonl": (
        b'{"a":1}\n{"--wide":2}\n',
        {},
        "",
        "named --nulls keep.jsonl: line 2: field 'a' is missing; nulls='keep' reads",
        "named --nulls keep.jsonl: line 2: field 'a' is missing; --nulls keep reads",
    ),
    "large.jsonl": (
        b"[1]\n" * 100,
        {"limits": Limits(max_bytes=10)},
        "--max-bytes 10",
        "if you trust the file, allow more with limits=",
        "if you trust the file, allow more with --max-bytes",
    ),
    "isolated.jsonl": (
        b"[1]\n[null]\n",
        {"limits": Limits(isolate=True), "nulls": "error"},
        "--isolate --nulls error",
        "data: row <1,0> is null; nulls='error' has no nulls: nulls='zero', 'fill=X' or 'drop', or "
        "fill_nulls or drop_nulls of a tensor",
        "data: row <1,0> is null; --nulls error has no nulls: --nulls zero, fill=X or drop\n",
    ),
    "in a sandbox.jsonl": (
        b"[1]\n[2.5]\n",
        {"limits": Limits(isolate=True), "dtype": "int8"},
        "--isolate --dtype int8",
        "found 2.5; dtype_unsafe=True rounds it",
        "found 2.5; --dtype-unsafe rounds it",
    ),
    "unread.conllu": (
        b"1\tThe\tthe\n",
        {},
        "",
        "as a column, and give levels='sentence'",
        "as a column, and give --levels sentence",
    ),
    "binary.xyz": (
        bytes(range(32)) * 4,
        {},
        "",
        "format_name= says which it is, such as format_name='tokens' for",
        "--from FORMAT says which it is, such as --from tokens for",
    ),
    "digits.jsonl": (
        b"[1]\n",
        {"names": ["x"]},
        "--names x",
        "jsonl has no option 'names'; rename= gives other names in every format",
        "jsonl has no option --names; --rename gives other names in every format",
    ),
}
# The same for a tensor and the file that it is written to.
WRITES: dict[str, tuple[LoDTensor, dict[str, Any], str, str, str]] = {
    "t.npz": (
        LoDTensor([1]),
        {"compression": "deflate"},
        "--compress",
        "npz has no option 'compression'; it is for lod.h5, lod.dataset and parquet",
        "npz has no option --compress; it is for lod.h5, lod.dataset and parquet",
    ),
    "t.safetensors": (
        LoDTensor([1], [[1]]),
        {"cu_seqlens": ["a", "b"]},
        "--cu-seqlens a,b",
        "cu_seqlens: expected 1 different names, one per level, found a, b",
        "--cu-seqlens: expected 1 different names, one per level, found a, b",
    ),
    "t.txt": (
        LoDTensor([1, 2], [[1, 1]]),
        {},
        "",
        "give vocabulary= to write token numbers as words",
        "give --vocab to write token numbers as words",
    ),
    "there.npy": (
        LoDTensor([1]),
        {},
        "",
        "exists already; use overwrite=True to replace it",
        "exists already; use --force to replace it",
    ),
}


def _refused(call: Callable[[], object]) -> str:
    with pytest.raises(lodcli.LodError) as caught:
        call()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


def _command(*args: object) -> str:
    done = CliRunner().invoke(group, list(map(str, args)))
    assert done.exit_code in (1, 2, 3, 4)
    return done.stderr


@pytest.mark.parametrize("name", READS)
def test_errors_of_files_to_read(name: str, tmp_path: Path) -> None:
    content, keywords, options, python, shell = READS[name]
    path = tmp_path / name
    path.write_bytes(content)

    def opened() -> object:
        return lodcli.open(path, **keywords).read()

    assert shell in _command("convert", path, tmp_path / "out.lod.h5", *options.split())
    assert python in _refused(lambda: lodcli.read_all(path, **keywords))
    assert python in _refused(lambda: lodcli.read(path, **keywords))
    assert python in _refused(opened)


@pytest.mark.parametrize("name", WRITES)
def test_errors_of_files_to_write(name: str, tmp_path: Path) -> None:
    tensor, keywords, options, python, shell = WRITES[name]
    io.write(tmp_path / "source.lod.h5", tensor)
    if name.startswith("there"):
        (tmp_path / name).touch()
    target = tmp_path / name
    assert shell in _command("convert", tmp_path / "source.lod.h5", target, *options.split())
    assert python in _refused(lambda: lodcli.write(target, tensor, **keywords))


def test_names_of_hdf5_are_quoted_for_their_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["a b"] = np.zeros(2, [("it's", np.int32), ("y", np.int32)])
    said = _refused(lambda: lodcli.read_all(path, format_name="hdf5", data="/a b"))
    assert """data="/a b/it's", data='/a b/y'""" in said
    said = _command("convert", path, "-", "--from", "hdf5", "--data", "/a b", "--to", "jsonl")
    assert """--data '/a b/it'"'"'s', --data '/a b/y'""" in said


def test_several_names_are_given_as_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.lod.h5"
    lodcli.write(path, {"a": LoDTensor([1]), "b": LoDTensor([2])})
    names: list[Any] = [["a", "b"], 3]
    for name in names:
        said = f"name: expected a str, .* found {type(name).__name__}; columns= takes the names"
        for call in (lodcli.read, lodcli.open):
            with pytest.raises(OptionError, match=said):
                call(path, name)
    assert list(lodcli.read_all(path, columns=["a", "b"])) == ["a", "b"]


def test_notes_name_arguments(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    np.arange(3, dtype="<u2").tofile(path)
    with lodcli.open(path) as file:
        assert [note.rpartition("; ")[2] for note in file.notes] == ["dtype= changes it"]
    done = CliRunner().invoke(group, ["convert", str(path), str(tmp_path / "x.npy")])
    assert "reading as uint16; --dtype changes it\n" in done.stderr


def test_processes_of_a_command_name_options(tmp_path: Path) -> None:
    whole, path = LoDTensor([1.0, 2.5], [[1, 1]]), tmp_path / "x"
    io.write(path, whole, format_name="lod.dataset", shards=2)
    said = _command("convert", path, tmp_path / "out", "--jobs", "2", "--dtype", "int8")
    assert "--dtype-unsafe rounds it" in said


def test_options_are_named_only_within_a_command() -> None:
    rounding = together(option("dtype", "int8"), option("dtype-unsafe", True))
    with for_shell():
        assert together(option("dtype", "int8"), option("dtype-unsafe", True)) == (
            "--dtype int8 --dtype-unsafe"
        )
        with pytest.raises(RuntimeError), for_shell():
            raise RuntimeError
        assert option("to") == "--to"
    assert rounding == "dtype='int8', dtype_unsafe=True"
    assert option("to") == "format_name="


def test_options_are_named_until_the_last_command_ends() -> None:
    first, second = for_shell(), for_shell()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert option("to") == "--to"
    second.__exit__(None, None, None)
    assert option("to") == "format_name="
