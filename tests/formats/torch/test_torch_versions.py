""".pt files of several versions of torch are read, without torch, and ours by all of them."""

from __future__ import annotations

import pickletools
import sys
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.schema import StoredArray
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.opening import content

THEIRS = Path(__file__).parents[1] / "theirs" / "torch"
VERSIONS = sorted(folder.name for folder in THEIRS.iterdir())
ROWS = [[0, 1], [2, 3], [4, 5], [1, 1], [1, 1]]
LENGTHS = [[3, 0, 2]]
# What pickles of tensors referred to in torch 2.5 and before, without a nested one.
OLDEST = {"torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3"}
OLDEST |= {"collections OrderedDict", "torch.storage UntypedStorage"}


@pytest.fixture(autouse=True)
def without_torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "version" in request.fixturenames:
        monkeypatch.setitem(sys.modules, "torch", None)


def test_the_oldest_and_the_newest_are_there() -> None:
    assert VERSIONS == ["2.13.0", "2.15.0", "2.5.0"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["jagged", "jagged_of_list", "strided", "list"])
def test_sequences_in_any_form_are_read(version: str, name: str) -> None:
    found = content(THEIRS / version / f"{name}.pt")["data"]
    assert found.dtype == np.float32
    assert found.data.tolist() == ROWS
    assert found.recursive_sequence_lengths() == LENGTHS


@pytest.mark.parametrize("version", VERSIONS)
def test_other_forms_are_read(version: str) -> None:
    half = content(THEIRS / version / "jagged_bfloat16.pt")["data"]
    assert half.dtype == ml_dtypes.bfloat16
    assert half.data.astype(np.float32).tolist() == ROWS
    holes = content(THEIRS / version / "jagged_with_holes.pt")["data"]
    assert holes.recursive_sequence_lengths() == [[2, 3]]
    assert holes.data[:, 0].tolist() == [0, 3, 15, 18, 21]
    flat = content(THEIRS / version / "dict.pt")["data"]
    assert flat.recursive_sequence_lengths() == LENGTHS
    packed = io.read(THEIRS / version / "packed.pt")
    assert isinstance(packed, StoredArray)
    whole = packed.array.pack(0, packed.index_map)
    assert whole.recursive_sequence_lengths() == [[2, 3]]
    assert whole.data.tolist() == ROWS[3:] + ROWS[:3]


@pytest.mark.parametrize("version", VERSIONS)
def test_several_tensors_are_read(version: str) -> None:
    found = content(THEIRS / version / "several.pt")
    assert found["nested"].recursive_sequence_lengths() == LENGTHS
    assert found["turned"].data.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["conjugate"].data.tolist() == [1 - 2j, 3 + 1j]
    assert found["weight"].data.tolist() == [[1, 1], [1, 1]]
    assert found["model.weight"].data.shape == (1, 2)


@pytest.mark.parametrize("form", [None, "flat", "packed", "padded", "list"])
@pytest.mark.parametrize("dtype", ["float32", "bool", "uint16", "bfloat16", "complex64"])
def test_ours_refer_to_nothing_that_an_older_torch_does_not_know(
    tmp_path: Path, form: str | None, dtype: str
) -> None:
    torch = pytest.importorskip("torch")
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    tensor = LoDTensor(np.ones((5, 2), kind), LoD.from_lengths([[3, 2]]))
    items = {"a": tensor, "b": LoDTensor(np.ones(2, kind))}
    if form in ("packed", "padded", "list"):
        items = {"a": tensor}
    array = StoredArray(*TensorArray.unpack(tensor))
    path = tmp_path / "x.pt"
    io.write(path, items | ({} if form else {"c": array}), form=form)
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        codes = list(pickletools.genops(archive.read(name)))
    named = {str(argument) for code, argument, _ in codes if code.name == "GLOBAL"}
    kinds = {one for one in named if one.startswith("torch ")}
    assert named - kinds <= OLDEST
    assert all(one.endswith("Storage") or one == "torch uint16" for one in kinds)
    assert torch.load(path, weights_only=True)
