"""Files of many tensors: the work grows with their number, and messages stay short."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli import Categories, LoDTensor, Marks, SelectionError
from lodcli.formats.core.format import joined
from lodcli.formats.core.io import write_batches
from lodcli.formats.core.schema import schema_of
from lodcli.formats.items.concatenated import joined_schema
from lodcli.kernels.platform import machine
from tests.growth import lines_of
from tests.lodcli.conftest import Lod

COMMANDS = {
    "inspect": "inspect {}",
    "slice": "slice {} 0 -o {}.o.lod.h5 -f",
    "head": "head -n 1 {} -o {}.o.lod.h5 -f",
    "lod.h5": "convert {} {}.o.lod.h5 -f",
    "stream": "convert {} {}.o.lods -f",
    "npz": "convert {} {}.o.npz -f",
    "safetensors": "convert {} {}.o.safetensors -f",
    "jsonl": "convert {} {}.o.jsonl -f",
    "npz, read": "convert {}.npz {}.o.lod.h5 -f",
    "safetensors, read": "convert {}.safetensors {}.o.lod.h5 -f",
    "jsonl, read": "convert {}.jsonl {}.o.lod.h5 -f",
    "stream, read": "convert {}.lods {}.o.lod.h5 -f",
    "parquet, read": "convert {}.parquet {}.o.lod.h5 -f",
    "concat": "concat {} {} -o {}.o.lod.h5 -f",
    "diff": "diff {} {}",
    "filter": "filter {} 'length(x0) > 1' -o {}.o.lod.h5 -f",
    "sort": "sort {} --by length:x0 -o {}.o.lod.h5 -f",
    "select": "select {} x0 x1 -o {}.o.lod.h5 -f",
    "rename": "rename {} x0=y -o {}.o.lod.h5 -f",
    "cast": "cast {} float32 -o {}.o.lod.h5 -f",
    "parquet": "convert {} {}.o.parquet -f",
    "verify": "verify {}",
}

QUICK = {"slice", "safetensors, read"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("many")
    found = {}
    for count in (20, 150, 300, 600):
        found[count] = folder / f"{count}.lod.h5"
        tensors = {f"x{n}": LoDTensor(np.arange(6.0), [[2, 4]]) for n in range(count)}
        for ending in ("", ".npz", ".safetensors", ".jsonl", ".lods", ".parquet"):
            lodcli.write(f"{found[count]}{ending}", tensors)
    return found


@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in COMMANDS],
)
def test_work_grows_no_faster_than_the_number_of_tensors(
    command: str, files: dict[int, Path], lod: Lod
) -> None:
    def run(count: int) -> None:
        done = lod(*shlex.split(COMMANDS[command].replace("{}", str(files[count]))))
        assert done.code == 0, done.stderr

    run(20)  # imports what it needs
    few, more, most = (lines_of(partial(run, count)) for count in (150, 300, 600))
    # Less than twice the difference if each tensor costs as much as the first, up to four times
    # if each passes through all the others.
    assert most - more < 2.05 * (more - few)


def test_whether_names_are_in_an_open_file_is_found_in_linear_work(files: dict[int, Path]) -> None:
    def ask(count: int) -> int:
        with lodcli.open(files[count]) as file:
            return lines_of(lambda: [name in file for name in file])

    few, more, most = map(ask, (150, 300, 600))
    assert most - more < 2.05 * (more - few)


def test_chosen_columns_are_found_in_linear_work(files: dict[int, Path]) -> None:
    def ask(count: int) -> int:
        names = [f"x{n}" for n in range(count)]

        def open_them() -> None:
            with lodcli.open(f"{files[count]}.parquet", columns=names) as file:
                assert list(file) == names

        return lines_of(open_them)

    ask(20)  # imports what it needs
    few, more, most = map(ask, (150, 300, 600))
    assert most - more < 2.05 * (more - few)


def test_a_dry_run_names_some_of_many_tensors(tmp_path: Path, lod: Lod) -> None:
    tensors = {f"x{n}": LoDTensor(np.zeros(2, np.int8)) for n in range(150)}
    lodcli.write(tmp_path / "t.lod.h5", tensors)
    done = lod("convert", str(tmp_path / "t.lod.h5"), str(tmp_path / "t.csv"), "--dry-run")
    assert "lost: dtypes: int8 of x0, int8 of x1" in done.stdout
    assert done.stdout.endswith("int8 of x19 and 130 more\n")


def test_batches_of_one_tensor_each_are_joined_in_linear_work() -> None:
    def join(count: int) -> None:
        tensors = {f"x{n}": LoDTensor(np.zeros(0)) for n in range(count)}
        batches = ({name: tensor} for name, tensor in tensors.items())
        assert len(joined(schema_of(tensors), batches)) == count

    few, more, most = (lines_of(partial(join, count)) for count in (50, 100, 200))
    assert most - more < 2.05 * (more - few)


def test_a_stream_of_one_tensor_in_each_batch_is_read_in_linear_work(tmp_path: Path) -> None:
    def read(count: int) -> int:
        tensors = {f"x{n}": LoDTensor(np.zeros(3), [[3]]) for n in range(count)}
        path = tmp_path / f"{count}.lods"
        write_batches(path, schema_of(tensors), ({name: one} for name, one in tensors.items()))
        return lines_of(partial(lodcli.read, path, "x0"))

    read(10)  # imports what it needs
    few, more, most = (read(count) for count in (20, 40, 80))
    assert most - more < 2.05 * (more - few)


def test_an_error_names_some_of_many_tensors(files: dict[int, Path]) -> None:
    with pytest.raises(SelectionError) as error:
        lodcli.read(files[150], "y")
    assert str(error.value).endswith("x18, x19 and 130 more")


def test_an_open_file_shows_some_of_many_tensors(files: dict[int, Path]) -> None:
    with lodcli.open(files[150]) as file:
        assert repr(file).endswith("x18, x19 and 130 more>")


def test_a_note_on_a_written_file_names_some_of_many_tensors(
    files: dict[int, Path], tmp_path: Path, lod: Lod
) -> None:
    done = lod("convert", str(files[150]), str(tmp_path / "t.npz"), "-v")
    reads, wrote = done.stderr.splitlines()[:2]
    assert reads.endswith("x18, x19 and 130 more")
    assert wrote.endswith("x18 6 rows, x19 6 rows and 130 more")


def test_columns_are_chosen_by_name_in_linear_work(tmp_path: Path) -> None:
    def read(count: int) -> int:
        names = [f"x{number}" for number in range(count)]
        path = tmp_path / f"{count}.csv"
        path.write_text(f"{','.join(names)}\n{','.join('1' * count)}\n")
        compared = 0

        class Name(str):
            """Counts comparisons with the names of columns."""

            def __eq__(self, other: object) -> bool:
                nonlocal compared
                compared += 1
                return str(self) == other

            __hash__ = str.__hash__

        with lodcli.open(path, field=[Name(name) for name in names]) as file:
            assert list(file) == names
        return compared

    assert read(100) < 1000


def test_words_of_many_files_are_joined_in_linear_work() -> None:
    def join(count: int) -> int:
        marks = [Marks(unit=Categories((f"v{n}", f"w{n}"))) for n in range(count)]
        tensors = [LoDTensor(np.array([0, 1], np.int32), marks=one) for one in marks]
        schemas = [schema_of({"data": tensor}) for tensor in tensors]
        names = [str(n) for n in range(count)]
        found = joined_schema(schemas, names)[0].marks.categories
        assert found is not None
        assert found.words == tuple(f"{letter}{n}" for n in range(count) for letter in "vw")
        return lines_of(lambda: joined_schema(schemas, names))

    few, more, most = map(join, (50, 100, 200))
    assert most - more < 2.05 * (more - few)


def test_the_memory_budget_of_many_files_is_found_once(
    lod: Lod, files: dict[int, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[None] = []
    monkeypatch.setattr(machine, "group_limit_bytes", lambda: asked.append(None))
    assert lod("concat", *[str(files[20])] * 12, "-o", str(tmp_path / "o.lod.h5")).code == 0
    assert len(asked) == 1
