"""h5ad: sparse rows, as anndata and scipy have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import LodError, SelectionError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT
from lodcli.shell.group import group
from tests.formats.cases.damage import flipped, read_each
from tests.formats.cases.opening import batches_of, content, nested

THEIRS = Path(__file__).parents[1] / "theirs" / "anndata.h5ad"
NAMES = ["obs_names", "var_names"]


def text(*names: str) -> LoDTensor:
    letters = "".join(names).encode()
    return LoDTensor(
        np.frombuffer(letters, np.uint8), LoD.from_lengths([[len(n.encode()) for n in names]]), TEXT
    )


def test_names_are_text_when_they_are_written_elsewhere(tmp_path: Path) -> None:
    lines = tmp_path / "names.jsonl"
    CliRunner().invoke(group, ["convert", f"{THEIRS}::var_names", str(lines)])
    assert lines.read_text("utf-8") == '"Actb"\n"g2"\n"größe"\n'
    copy = tmp_path / "copy.h5ad"
    assert CliRunner().invoke(group, ["convert", str(THEIRS), str(copy)]).stderr == ""
    assert content(copy)["obs_names"].identical(text("a", "b", "c", "d"))


def crafted(folder: Path, change: Callable[[Any], None]) -> Path:
    """Return a file like anndata's with something changed."""
    path = folder / "x.h5ad"
    path.write_bytes(THEIRS.read_bytes())
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def test_a_file_of_anndata_is_read() -> None:
    found = content(THEIRS)
    assert list(found) == ["data", "indices", "obs_names", "var_names"]
    assert nested(found["data"]) == [[1.5], [2.0, -3.0], [], [4.0]]
    assert nested(found["indices"]) == [[1], [0, 2], [], [2]]
    assert found["data"].dtype == np.float32
    assert found["data"].lod is found["indices"].lod
    assert found["data"].lod.names == ("obs",)
    assert found["obs_names"].identical(text("a", "b", "c", "d"))
    assert found["var_names"].identical(text("Actb", "g2", "größe"))
    with lodcli.open(THEIRS) as source:
        assert source.slice("data", (1,)).data.tolist() == [2.0, -3.0]
    assert len(batches_of(THEIRS, 1)) >= 1


def older(file: Any) -> None:
    """Turn a file of anndata into what versions before 0.7 wrote: records for frames."""
    for attribute, older in (("encoding-type", "h5sparse_format"), ("shape", "h5sparse_shape")):
        file["X"].attrs[older] = "csr" if "type" in attribute else file["X"].attrs[attribute]
        del file["X"].attrs[attribute]
    file.move("X", "raw.X")
    for frame, names in (("obs", [b"a", b"b", b"c", b"d"]), ("var", [b"Actb", b"g2", b"g3"])):
        del file[frame]
        records = np.array([(name, 1.5) for name in names], [("index", "S5"), ("n", "<f4")])
        file[frame if frame == "obs" else "raw.var"] = records
    file["var"] = np.zeros(2, [("index", "S5")])
    file["X"] = np.zeros((4, 2), np.float32)


def test_a_file_of_older_anndata_is_read(tmp_path: Path) -> None:
    path = crafted(tmp_path, older)
    found = content(path, data="/raw.X")
    assert nested(found["data"]) == [[1.5], [2.0, -3.0], [], [4.0]]
    assert found["obs_names"].identical(text("a", "b", "c", "d"))
    assert found["var_names"].identical(text("Actb", "g2", "g3"))
    with pytest.raises(UnsupportedError, match=r"dense matrix; choose .* data=: /raw\.X; or"):
        content(path)


def test_names_are_those_of_the_matrix_that_is_read(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("scipy")
    from scipy.sparse import csr_matrix

    whole = anndata.AnnData(
        csr_matrix(np.arange(6.0).reshape(2, 3)), {"n": [1, 2]}, {"m": [1, 2, 3]}
    )
    whole.obs_names, whole.var_names = ["x", "y"], ["p", "q", "r"]
    part = whole[:, :2].copy()
    part.raw = whole
    part.layers["twice"] = part.X * 2
    part.obsp["near"] = csr_matrix(np.eye(2))
    part.uns["other"] = csr_matrix(np.eye(5))
    part.write_h5ad(tmp_path / "x.h5ad")
    expected = {
        "/X": (text("x", "y"), text("p", "q")),
        "/layers/twice": (text("x", "y"), text("p", "q")),
        "/raw/X": (text("x", "y"), text("p", "q", "r")),
        "/obsp/near": (text("x", "y"), text("x", "y")),
        "/uns/other": (),
    }
    for path, names in expected.items():
        found = content(tmp_path / "x.h5ad", data=path)
        assert [name for name in found if name.endswith("names")] == NAMES[: len(names)]
        for name, one in zip(NAMES, names, strict=False):
            assert found[name].identical(one)


def test_names_may_be_categories_or_missing(tmp_path: Path) -> None:
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    sparse, path = pytest.importorskip("scipy.sparse"), tmp_path / "x.h5ad"
    frame = pandas.DataFrame(index=pandas.CategoricalIndex(["y", "ä", "x"]))
    anndata.AnnData(sparse.csr_matrix(np.eye(3)), frame).write_h5ad(path)
    assert content(path)["obs_names"].to_list() == list(anndata.read_h5ad(path).obs_names)
    with h5py.File(path, "r+") as file:
        file["obs/_index/codes"][1] = -1
    found = content(path)
    assert found["obs_names"].to_list() == ["y", None, "x"]
    with pytest.raises(LodError, match=r"obs_names: item .* is null; h5ad has no nulls: nulls="):
        io.write(tmp_path / "y.h5ad", found)
    with h5py.File(path, "r+") as file:
        file["obs/_index/codes"][1] = 3
    with pytest.raises(
        DamagedFileError, match=r"/obs/_index/codes: position 1: expected -1 to 2, "
    ):
        content(path)
    with (
        h5py.File(path, "r+") as file,
        anndata.settings.override(allow_write_nullable_strings=True),
    ):
        del file["obs/_index"]
        texts = pandas.array(["a", None, ""], dtype="string")
        anndata.io.write_elem(file["obs"], "_index", texts)
    assert content(path)["obs_names"].to_list() == ["a", None, ""]


def test_complex_values_are_read_and_long_ones_are_refused(tmp_path: Path) -> None:
    anndata, path = pytest.importorskip("anndata"), tmp_path / "x.h5ad"
    matrix = pytest.importorskip("scipy.sparse").csr_matrix([[0, 1.5], [2, 0]])
    anndata.AnnData(matrix * 1j).write_h5ad(path)
    assert nested(content(path)["data"]) == [[1.5j], [2j]]
    anndata.AnnData(matrix.astype(np.longdouble)).write_h5ad(path)
    with pytest.raises(UnsupportedError, match=r"/X/data: holds float128, .*; store it as float64"):
        content(path)


def test_anndata_reads_what_we_write(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    found = content(THEIRS)
    io.write(tmp_path / "x.h5ad", found)
    theirs, ours = anndata.read_h5ad(THEIRS), anndata.read_h5ad(tmp_path / "x.h5ad")
    assert (ours.X != theirs.X).nnz == 0
    assert ours.X.dtype == theirs.X.dtype
    assert list(ours.obs_names) == list(theirs.obs_names)
    assert list(ours.var_names) == list(theirs.var_names)
    del found["obs_names"], found["var_names"]
    io.write(tmp_path / "y.h5ad", found)
    assert list(anndata.read_h5ad(tmp_path / "y.h5ad").var_names) == ["0", "1", "2"]


def test_matrices_of_scipy_are_read_from_npz(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(np.array([[0, 1.5], [0, 0], [2, 3]]))
    np.savez(tmp_path / "x.npz", data=matrix.data, indices=matrix.indices, indptr=matrix.indptr)
    found = content(tmp_path / "x.npz", data="data,indices", offsets=("indptr",))
    assert nested(found["data"]) == [[1.5], [], [2.0, 3.0]]
    assert nested(found["indices"]) == [[1], [], [0, 1]]


LOD = LoD.from_lengths([[2, 1]])
DATA, INDICES = LoDTensor(np.arange(3.0), LOD), LoDTensor(np.arange(3), LOD)


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ({"data": DATA}, UnsupportedError, "holds data and indices of one index"),
        ({"data": DATA, "indices": INDICES, "x": DATA}, UnsupportedError, "found data, indices, x"),
        (
            {"data": DATA, "indices": INDICES[0:]},
            UnsupportedError,
            "them with lod merge FILE::data",
        ),
        ({"data": DATA, "indices": DATA}, UnsupportedError, "must be whole numbers, found float64"),
        (
            {"data": DATA, "indices": INDICES, "obs_names": INDICES},
            UnsupportedError,
            "obs_names are text, uint8; found int64",
        ),
        (
            {"data": DATA, "indices": INDICES, "obs_names": text("a")},
            ShapeMismatchError,
            "obs_names: expected 2 names, found 1",
        ),
        (
            {"data": DATA, "indices": INDICES, "var_names": text("a", "b")},
            ShapeMismatchError,
            "var_names: expected 3 names, found 2",
        ),
        ({"data": DATA, "indices": INDICES.with_data([0, -1, 2])}, LodError, "-1 is not a column"),
        (
            {"data": DATA, "indices": INDICES, "obs_names": text("a\0", "b")},
            LodError,
            "has a zero in it",
        ),
    ],
)
def test_content_that_h5ad_does_not_hold_is_refused(
    items: dict[str, LoDTensor], error: type[LodError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        io.write(tmp_path / "x.h5ad", items)
    assert not list(tmp_path.iterdir())


def _replace(path: str, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[path]
        if value is not None:
            file[path] = value

    return change


def _attribute(path: str, name: str, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[path].attrs[name]
        if value is not None:
            file[path].attrs[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_replace("X", None), "/X: is missing"),
        (_replace("X", np.zeros((2, 2))), "/X: is a dense matrix"),
        (_replace("X/data", None), "/X/data: is missing"),
        (_replace("X/data", np.zeros(3)), "/X/data: "),
        (_replace("X/data", np.zeros((4, 1))), "expected numbers in one dimension"),
        (_replace("X/data", h5py.Empty("f4")), "/X/data: "),
        (_replace("X/data", np.array([b"a"] * 4)), "expected numbers in one dimension"),
        (_replace("X/indices", np.zeros(5, np.int32)), "/X/indices: "),
        (_replace("X/indices", np.zeros(4)), "expected whole numbers"),
        (_replace("X/indices", np.array([0, 1, 3, 0])), "position 2: column 3 of 3"),
        (_replace("X/indices", np.array([0, -1, 2, 0])), "position 1: column -1 of 3"),
        (_replace("X/indptr", np.array([0, 1, 4])), r"/X/indptr: expected 5, found \(3,\)"),
        (
            _replace("X/indptr", np.array([0, 3, 1, 3, 4])),
            "/X/indptr: level 0, position 2: offsets decrease",
        ),
        (_replace("X/indptr", np.array([1, 1, 3, 3, 4])), "/X/indptr: "),
        (_replace("X/indptr", np.array([b"0"] * 5)), r"holds \|S1, which .* hold; store numbers"),
        (_replace("X/data", np.zeros(4, "clongdouble")), "holds complex256, .* it as complex128"),
        (_replace("X/indptr", np.zeros((5, 1), int)), r"found \(5, 1\)"),
        (_attribute("X", "encoding-type", None), "is stored as None, expected csr_matrix"),
        (_attribute("X", "encoding-type", "csc_matrix"), "is stored as csc_matrix"),
        (_attribute("X", "encoding-type", 7), "is stored as 7"),
        (_attribute("X", "shape", None), "its shape is not two numbers"),
        (_attribute("X", "shape", [4, 3, 1]), "its shape is not two numbers"),
        (_attribute("X", "shape", [4.0, 3.0]), "its shape is not two numbers"),
        (_attribute("X", "shape", [-4, 3]), "has the shape -4 x 3"),
        (_attribute("X", "shape", [2**62, 3]), "expected 4611686018427387905"),
        (_attribute("X", "shape", [4, 2]), "column 2 of 2|expected 2 names"),
        (_replace("obs/_index", np.arange(4)), "/obs/_index: holds int64, expected text"),
        (_replace("var/_index", np.array([b"a"])), "/var/_index: expected 3 names"),
        (_replace("var", np.zeros(3)), "/var: expected a group, or records with a field"),
    ],
)
def test_damage_is_named(change: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    path = crafted(tmp_path, change)
    with pytest.raises(LodError, match=message) as caught:
        content(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            ("codes", "c8", "categories"),
            "/obs/_index/codes: expected whole numbers, found complex64",
        ),
        (("codes", "S1", "categories"), r"/obs/_index/codes: expected whole numbers, found \|S1"),
        (("codes", "f4", "categories"), "/obs/_index/codes: expected whole numbers, found float32"),
        (("mask", "S1", "values"), r"/obs/_index/mask: expected booleans, found \|S1"),
    ],
)
def test_codes_and_masks_of_names_have_their_dtypes(
    parts: tuple[str, str, str], message: str, tmp_path: Path
) -> None:
    numbers, dtype, texts = parts

    def change(file: Any) -> None:
        del file["obs/_index"]
        file[f"obs/_index/{numbers}"] = np.zeros(4, dtype)
        file[f"obs/_index/{texts}"] = np.array(["a", "b", "c", "d"], h5py.string_dtype())

    with pytest.raises(DamagedFileError, match=message):
        content(crafted(tmp_path, change))


def test_a_file_without_x_names_the_matrices_it_has(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"/X: is missing.*, data='/obs/NAME'"):
        content(crafted(tmp_path, _replace("X", None)))
    path = crafted(tmp_path, lambda file: file.move("X", "layers/counts"))
    with pytest.raises(UnsupportedError, match=r"/X: is missing.* data=: /layers/counts; or"):
        content(path)
    assert content(path, data="/layers/counts")["data"].identical(content(THEIRS)["data"])


def test_more_columns_than_rows_are_reported_before_a_line_is_printed() -> None:
    result = CliRunner().invoke(group, ["convert", str(THEIRS), "-", "--to", "jsonl"])
    assert result.exit_code == 4
    assert result.stdout == ""
    assert "obs_names has 4, var_names has 3; choose one" in result.stderr


@pytest.mark.parametrize("part", ["X/data", "X/indptr"])
def test_a_missing_part_is_damage_unless_an_option_names_it(part: str, tmp_path: Path) -> None:
    path = crafted(tmp_path, _replace(part, None))
    with pytest.raises(DamagedFileError, match=f"/{part}: is missing"):
        content(path)
    with pytest.raises(SelectionError, match="/layers/nothing: is missing"):
        content(path, data="/layers/nothing")


def test_another_matrix_and_its_columns_are_distinguished() -> None:
    with pytest.raises(UnsupportedError, match=r"stored as csc_matrix.*convert it with .tocsr"):
        content(THEIRS, data="/layers/columns")
    with pytest.raises(UnsupportedError, match="/obsm/dense: is a dense matrix"):
        content(THEIRS, data="/obsm/dense")


@pytest.mark.slow
def test_a_file_truncated_at_any_length_is_an_error(tmp_path: Path) -> None:
    whole = THEIRS.read_bytes()
    kind = table.get("h5ad")  # in this process: thousands of children would take minutes
    for size in range(0, len(whole) - 1, 29):
        (tmp_path / "x.h5ad").write_bytes(whole[:size])
        with Input(tmp_path / "x.h5ad") as source, pytest.raises(LodError):
            kind.open(source, ReadOptions())


@pytest.mark.slow
def test_a_flipped_byte_never_reaches_this_process(tmp_path: Path) -> None:
    whole = THEIRS.read_bytes()
    assert None in list(read_each(flipped(whole, 60, 3), tmp_path / "x.h5ad", content))
