"""A pattern, or a folder, of files of one format is one source."""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.core.limits import Limits
from lodcli.kernels.errors import (
    InvalidDataError,
    NullError,
    SelectionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.platform import processes
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import KINDS, require
from tests.formats.cases.opening import tensor_in
from tests.growth import peak_bytes_of
from tests.launchers import limited
from tests.slow import one_in

PARTS = [[[1, 2], [3]], [[7]], [[4], [], [5, 6]]]
WHOLE = [one for part in PARTS for one in part]


def rows(lists: list[list[int]]) -> LoDTensor:
    return LoDTensor(
        np.array([row for one in lists for row in one], np.int64), [[len(one) for one in lists]]
    )


def lists(found: Any) -> list[list[int]]:
    assert isinstance(found, LoDTensor)
    return [one.data.tolist() for one in found]


def put(folder: Path, name: str = "jsonl") -> None:
    """Write the parts, whose names are not in order of their characters."""
    folder.mkdir()
    ending = "".join(Path(KINDS[name].path).suffixes)
    for number, part in zip((1, 2, 10), PARTS, strict=True):
        io.write(folder / f"part-{number}{ending}", {"data": rows(part)}, format_name=name)


@pytest.mark.parametrize(
    "name",
    one_in(
        3,
        [
            "lod.h5",
            "lod.stream",
            "npz",
            "safetensors",
            "arrow",
            "arrow-stream",
            "parquet",
            "zarr-zip",
        ],
    ),
)
def test_files_are_joined_in_natural_order_of_their_names(name: str, tmp_path: Path) -> None:
    require(name)
    put(tmp_path / "all", name)
    for path in (tmp_path / "all", tmp_path / "all" / "part-*"):
        assert lists(io.read(path)) == WHOLE
        with lodcli.open(path) as file:
            assert file.slice("data", (3,)).data.tolist() == [4]
            assert len(list(file.batches(1))) >= 3
            assert any("3 files without a manifest" in one for one in file.notes)
    if processes.CAN_ISOLATE:
        assert lists(io.read(tmp_path / "all", limits=Limits(isolate=True))) == WHOLE


def test_a_pattern_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "year=2024")
    for folder, pattern in ((tmp_path / "year=2024", "part-*"), (tmp_path, "*/part-*")):
        monkeypatch.chdir(folder)
        with lodcli.open(pattern) as file:
            assert lists(file.read()["data"]) == WHOLE
            assert [spec.name for spec in file.schema] == ["data", "year"][
                : 1 + (folder == tmp_path)
            ]


def test_columns_of_pandas_and_polars_in_partitions(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame({"k": ["b", "a", "b"], "v": [1, 2, 3]})
    frame.to_parquet(tmp_path / "pandas", partition_cols=["k"])
    found = io.read_all(tmp_path / "pandas" / "*" / "*.parquet")
    assert {name: one.to_list() for name, one in found.items()} == {
        "v": [2, 1, 3],
        "k": ["a", "b", "b"],
    }
    (tmp_path / "polars").mkdir()
    for number in (2, 11):
        polars.DataFrame({"v": [[number], []]}).write_parquet(tmp_path / "polars" / f"{number}.pq")
    assert lists(io.read(tmp_path / "polars", "v")) == [[2], [], [11], []]


def test_an_array_without_levels_is_an_item_a_file(tmp_path: Path) -> None:
    for number in (10, 9):
        np.save(tmp_path / f"{number}.npy", np.full((number, 2), number))
    found = tensor_in(tmp_path)
    assert found.lod.names == ("file",)
    assert found.recursive_sequence_lengths() == [[9, 10]]
    assert found[0].data.tolist() == [[9, 9]] * 9


def test_attributes_are_those_that_all_files_have_alike(tmp_path: Path) -> None:
    for day in (1, 2):
        said = {"license": "MIT", "day": day}
        io.write(tmp_path / f"{day}.lod.h5", rows([[day]]), attributes=said)
    with lodcli.open(tmp_path / "*.lod.h5") as file:
        assert file.attributes == {"license": "MIT"}


def test_a_file_whose_name_looks_like_a_pattern_goes_first(tmp_path: Path) -> None:
    io.write(tmp_path / "a[1].jsonl", rows([[7]]))
    io.write(tmp_path / "a1.jsonl", rows([[8]]))
    io.write(tmp_path / "a\n2.jsonl", rows([[9]]))
    io.write(tmp_path / "1².jsonl", rows([[5]]))
    assert lists(io.read(tmp_path / "a[1].jsonl")) == [[7]]
    assert lists(io.read(tmp_path / "a?2.jsonl")) == [[9]]
    assert lists(io.read(tmp_path / "1?.jsonl")) == [[5]]
    (tmp_path / "a[1].jsonl").unlink()
    assert lists(io.read(tmp_path / "a[1].jsonl")) == [[8]]


def test_a_pattern_of_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file matches: .*/\*.jsonl"):
        io.read(tmp_path / "*.jsonl")
    with pytest.raises(IsADirectoryError):
        io.read(tmp_path)


def test_links_folders_pipes_and_hidden_files_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "all")
    os.symlink("loop", tmp_path / "all" / "loop")
    os.mkfifo(tmp_path / "all" / "pipe")
    (tmp_path / "all" / "inner").mkdir()
    for name in (".hidden", "_SUCCESS", "_common_metadata"):
        (tmp_path / "all" / name).write_text("x")
    assert lists(io.read(tmp_path / "all")) == WHOLE
    with lodcli.open(tmp_path / "all") as file:
        assert any("folders in it are not read, such as 'inner'; '" in one for one in file.notes)
    (tmp_path / "all" / "_a.jsonl").write_text("[8]\n")
    assert lists(io.read(tmp_path / "all")) == [[8], *WHOLE]


def test_the_odd_one_is_named_before_a_row_is_read(tmp_path: Path) -> None:
    put(tmp_path / "all")
    odd = tmp_path / "all" / "part-3.jsonl"
    odd.write_text("[[1]]\n")
    with pytest.raises(
        ShapeMismatchError, match=f"{odd}: data: does not fit .*part-1.jsonl: it has"
    ):
        io.read(tmp_path / "all")
    odd.unlink()
    (tmp_path / "all" / "part-3.csv").write_text("a\n1\n")
    with pytest.raises(SelectionError, match=r"part-3.csv: is csv, and .*part-1.jsonl is jsonl"):
        io.read(tmp_path / "all")


def test_a_pattern_of_the_files_of_a_dataset_names_the_remedy(tmp_path: Path) -> None:
    tensor = LoDTensor(np.arange(3), [[1, 2]])
    io.write(tmp_path / "ds", {"x": tensor}, format_name="lod.dataset", shards=2)
    said = r"manifest.lod.h5: does not fit .*: it is the manifest of a dataset; name its folder"
    with pytest.raises(ShapeMismatchError, match=said):
        io.read(tmp_path / "ds" / "*.lod.h5")


def test_a_file_that_vanishes_or_changes_is_named(tmp_path: Path) -> None:
    put(tmp_path / "all")
    last = tmp_path / "all" / "part-10.jsonl"
    with lodcli.open(tmp_path / "all") as file:
        last.write_text("[1.5]\n")
        with pytest.raises(
            DamagedFileError, match=r"part-10.jsonl: was changed while it was read; read "
        ):
            list(file.batches())
        last.unlink()
        with pytest.raises(FileNotFoundError) as error:
            list(file.batches())
        assert str(error.value.filename) == str(last)


def test_a_listed_file_named_like_standard_input_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "-").write_text("[1]\n")
    (tmp_path / "a").write_text("[2]\n")
    monkeypatch.chdir(tmp_path)
    assert io.read("*", format_name="jsonl").data.tolist() == [1, 2]


def test_a_file_replaced_by_one_of_another_format_was_changed(tmp_path: Path) -> None:
    put(tmp_path / "all")
    last = tmp_path / "all" / "part-10.jsonl"
    with lodcli.open(tmp_path / "all") as file:
        np.save(tmp_path / "other.npy", np.arange(3))
        (tmp_path / "other.npy").replace(last)
        with pytest.raises(DamagedFileError) as error:
            list(file.batches())
    assert str(error.value) == f"{last}: was changed while it was read; read it again"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    put(tmp_path / "all")
    (tmp_path / "all" / "part-2.jsonl").write_text("[1,\n")
    with pytest.raises((DamagedFileError, InvalidDataError), match=r"part-2.jsonl: "):
        io.read(tmp_path / "all")


def test_an_error_in_the_rows_of_a_file_names_it_alone(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("n\n1\n")
    bad = tmp_path / "2.csv"
    bad.write_text("n\n1\n2x\n")
    (tmp_path / "1.jsonl").write_text('{"n":1}\n')
    null = tmp_path / "2.jsonl"
    null.write_text('{"n":1}\n{"n":null}\n')
    with pytest.raises(InvalidDataError) as caught:
        lodcli.read_all(tmp_path / "*.csv")
    assert str(caught.value).startswith(f"{bad}: line 3, column 'n': ")
    with pytest.raises(NullError) as missing:  # its row is counted in its file
        lodcli.read_all(tmp_path / "*.jsonl", nulls="error")
    assert str(missing.value).startswith(f"{null}: n: row <1> is null")


def test_folders_of_a_format_are_no_lists_of_files(tmp_path: Path) -> None:
    io.write(tmp_path / "set", rows([[1]]), format_name="lod.dataset")
    with lodcli.open(tmp_path / "set") as file:
        assert not file.notes
    (tmp_path / "set" / "manifest.lod.h5").unlink()
    with lodcli.open(tmp_path / "set" / "*.h5") as file:
        assert table.get("lod.h5").name == "lod.h5"
        assert lists(file.read()["data"]) == [[1]]


@pytest.mark.parametrize("log", ["_delta_log", ".hoodie", "_versions"])
def test_a_table_with_a_log_is_refused(log: str, tmp_path: Path) -> None:
    (tmp_path / "table" / log).mkdir(parents=True)
    for name in ("old.jsonl", "new.jsonl"):
        (tmp_path / "table" / name).write_text("[1]\n")
    with pytest.raises(UnsupportedError, match="which of its files are current; with a program"):
        lodcli.read_all(tmp_path / "table")
    assert len(lodcli.read(tmp_path / "table" / "*.jsonl")) == 2


@pytest.mark.parametrize(
    "inner",
    [
        *("data", "data/year=2024", "year=2024/month=1"),
        "data/0101/0110/1001/10110010/year=2024",  # as Iceberg's layout for object stores
    ],
)
def test_files_of_a_table_are_refused_in_its_folders(inner: str, tmp_path: Path) -> None:
    table = tmp_path / "table"
    (table / inner).mkdir(parents=True)
    (table / inner / "old.jsonl").write_text("[1]\n")
    assert len(lodcli.read(table / inner)) == 1
    log = table / "metadata"
    log.mkdir()
    (log / "other.json").write_text("{}")
    assert len(lodcli.read(table / inner)) == 1
    (log / "00000-5c16.metadata.json").write_text("{}")  # as PyIceberg names it
    for folder, what in ((table, "is a table"), (table / inner, "has files of a table")):
        with pytest.raises(UnsupportedError, match=f"{what} of Iceberg, whose log says which"):
            lodcli.read(folder)


def test_files_of_a_table_are_refused_through_links(tmp_path: Path) -> None:
    for folder in ("table/_delta_log", "table/year=2024", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("table/year=2024", "elsewhere"):
        (tmp_path / folder / "old.jsonl").write_text("[1]\n")
    (tmp_path / "link").symlink_to("table/year=2024")
    (tmp_path / "table" / "year=2025").symlink_to(tmp_path / "elsewhere")
    for name in ("link", "table/year=2025"):
        with pytest.raises(UnsupportedError, match=f"{name}: has files of a table of Delta Lake"):
            lodcli.read(tmp_path / name)
    assert len(lodcli.read(tmp_path / "elsewhere")) == 1


@pytest.mark.parametrize(
    ("name", "is_log"),
    [
        ("v3.metadata.json", True),
        ("v3.gz.metadata.json", True),
        ("v3.metadata.json.gz", True),
        ("00012-5c16-ab.gz.metadata.json", True),
        ("images.metadata.json", False),
        ("v3.metadata.json.bak", False),
        ("2024-images.metadata.json", False),
    ],
)
def test_a_folder_of_metadata_is_a_log_of_iceberg_by_its_files(
    name: str, is_log: bool, tmp_path: Path
) -> None:
    for folder in ("data", "metadata"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data" / "a.jsonl").write_text("[1]\n")
    (tmp_path / "metadata" / name).write_text("{}")
    if not is_log:
        assert len(lodcli.read(tmp_path / "data")) == 1
        return
    with pytest.raises(UnsupportedError, match="has files of a table of Iceberg"):
        lodcli.read(tmp_path / "data")


def test_an_error_for_a_file_of_no_format_says_how_to_name_the_others(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for folder in (tmp_path, tmp_path / "data"):  # as of a dataset of the Hugging Face Hub
        (folder / "README.md").write_text("# Words")
    (tmp_path / "data" / "train.jsonl").write_text("[1]\n")
    (tmp_path / "z_info.json").write_text("{}")
    (tmp_path / "license.txt").write_text("free")
    for folder, pattern in ((tmp_path, "**/*.jsonl"), (tmp_path / "data", "*.jsonl")):
        named = folder / pattern
        for given in (folder, folder / "**"):
            said = _of_no_format(given)
            assert said.endswith(f"; name files of one format, as with '{named}'")
            assert "README.md: format not recognised; it looks like text: " in said
        assert len(lodcli.read(named)) == 1
    for name in ("train.jsonl", "b.jsonl.gz", "a.jsonl.gz"):
        (tmp_path / "data" / name).write_bytes(gzip.compress(b"[1]\n"))
    assert _of_no_format(tmp_path / "data").endswith(f"as with '{tmp_path}/data/*.jsonl.gz'")


def _of_no_format(path: Path) -> str:
    with pytest.raises(NotThisFormatError) as caught:
        lodcli.read(path)
    return str(caught.value)


def test_files_in_folders_are_named_with_their_folders(tmp_path: Path) -> None:
    for year in ("year=2023", "year=2024"):
        (tmp_path / year).mkdir()
        (tmp_path / year / "a.jsonl").write_text("[1]\n")
    (tmp_path / "year=2024" / "README.md").write_text("")
    named = f"{tmp_path}/**/*.jsonl"
    said = "README.md: is empty; expected data in some format; name files of one format, as with '"
    assert _of_no_format(tmp_path).endswith(f"{said}{named}'")
    assert len(lodcli.read(named)) == 2


def test_an_error_for_a_file_of_a_known_format_says_nothing_of_others(tmp_path: Path) -> None:
    io.write(tmp_path / "a.npz", LoDTensor(np.ones(2)))
    (tmp_path / "b.npz").write_text("damaged")
    for path in (tmp_path, tmp_path / "*.npz"):
        assert _of_no_format(path).endswith("choose it with format_name=")
    (tmp_path / "b.npz").unlink()
    (tmp_path / "a.npz").rename(tmp_path / "a")
    (tmp_path / "b").write_text("# Words")
    assert _of_no_format(tmp_path).endswith("it looks like text: format_name='text'")


def test_a_container_of_n5_is_refused(tmp_path: Path) -> None:
    (tmp_path / "n5" / "0").mkdir(parents=True)
    (tmp_path / "n5" / "attributes.json").write_text('{"dimensions":[2],"blockSize":[2]}')
    with pytest.raises(UnsupportedError, match="n5: is an N5 container; TensorStore reads it"):
        lodcli.read_all(tmp_path / "n5")


def test_single_tensors_of_different_names_are_not_joined(tmp_path: Path) -> None:
    # As the files of a model that Hugging Face divides.
    for number, name in enumerate("ab"):
        io.write(tmp_path / f"{number}.safetensors", {name: LoDTensor(np.ones(2, np.float32))})
    with pytest.raises(
        ShapeMismatchError, match=r"1\.safetensors: .*: it holds the tensors b, not a"
    ):
        lodcli.read(tmp_path)
    io.write(tmp_path / "1.safetensors", LoDTensor(np.ones(3, np.float32)), overwrite=True)
    assert len(lodcli.read(tmp_path)) == 5  # a format without names calls its tensor data


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([".metadata", "__0_0.distcp"], "is a checkpoint of torch.distributed; .* dcp_to_torch"),
        (["_CHECKPOINT_METADATA", "commit_success.txt"], "is a checkpoint of Orbax; restore it"),
        (["fingerprint.pb", "saved_model.pb"], "is a SavedModel of TensorFlow; save the arrays"),
        (["x.data-00000-of-00001", "x.index"], "is a checkpoint of TensorFlow; tf.train.load_c"),
        (["dataset_spec.pb", "snapshot.metadata"], "is a dataset of tf.data; write its elem"),
        (["00000000.chunk", "chunks.b2frame"], r"is an array of Blosc2; blosc2\.open"),
        (["manifest.ocdbt"], "is a database of TensorStore .OCDBT.; TensorStore reads its"),
        (["data.mdb", "lock.mdb"], "is an LMDB database; write its values as Parquet"),
    ],
)
def test_a_folder_of_other_programs_is_refused(
    names: list[str], message: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).write_text("words\n")
    with pytest.raises(UnsupportedError, match=message):
        lodcli.read_all(tmp_path)


@pytest.mark.slow
def test_more_files_than_may_be_open_are_opened_one_at_a_time(tmp_path: Path) -> None:
    for number in range(1_000):
        (tmp_path / f"{number}.jsonl").write_text(f"[{number}]\n")
    script = "import sys, lodcli; print(lodcli.read(sys.argv[1]).data.tolist() == [*range(1_000)])"
    command = [*limited(resource.RLIMIT_NOFILE, 100), sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_file_with_the_tensors_of_another_takes_little_memory(tmp_path: Path) -> None:
    header, values = (",".join(one.format(n) for n in range(40)) for one in ("x{}", "{}.5"))
    for number in range(40):
        row = values.removesuffix("39.5") if number % 2 else values  # an empty field
        (tmp_path / f"{number:02}.csv").write_text(f"{header}\n{row}\n")

    def opened_bytes(count: int) -> int:
        def open_them() -> None:
            with lodcli.open(tmp_path / f"[0-{count // 10 - 1}]*.csv") as file:
                assert len(file) == 40

        return peak_bytes_of(open_them)

    # A description of each column takes more than 200 bytes.
    assert (opened_bytes(40) - opened_bytes(10)) / 30 < 40 * 100
