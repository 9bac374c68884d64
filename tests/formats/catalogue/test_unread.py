"""Files that stand in place of others, such as pointers of Git LFS, beside and in folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.core.errors import NotThisFormatError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"
SAID = ": begins like a pointer of Git LFS; git lfs pull fetches the file itself$"
SEQUENCES = LoDTensor(np.arange(6), LoD.from_lengths([[1, 2, 3]]))


def replaced(path: Path) -> Path:
    path.write_bytes(POINTER)
    return path


@pytest.mark.parametrize("name", ["manifest.lod.h5", "data-00001-of-00002.lod.h5"])
def test_a_pointer_in_a_dataset_is_named(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "words.lod.ds"
    lodcli.write(folder, SEQUENCES, format_name="lod.dataset", shards=2)
    replaced(folder / name)
    with pytest.raises(NotThisFormatError, match=name + SAID):
        lodcli.read(folder)


@pytest.mark.parametrize("name", ["index.json", "state.json", "zarr.json", ".zarray"])
def test_a_pointer_that_should_describe_a_folder_is_named(name: str, tmp_path: Path) -> None:
    if "zarr" in name:
        pytest.importorskip("zarr")
    replaced(tmp_path / name)
    with pytest.raises(NotThisFormatError, match=name + SAID):
        lodcli.read(tmp_path)


def test_a_pointer_in_place_of_a_shard_is_named(tmp_path: Path) -> None:
    shard = {"filename": "0.arrow"}
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [shard]}))
    (tmp_path / "dataset_info.json").write_text("{}")
    replaced(tmp_path / "0.arrow")
    with pytest.raises(NotThisFormatError, match=r"0\.arrow" + SAID):
        lodcli.read(tmp_path)


def test_a_pointer_in_place_of_the_second_file_of_a_pair_is_named(tmp_path: Path) -> None:
    lodcli.write(tmp_path / "t.idx", SEQUENCES.with_data(np.arange(6, dtype=np.int32)))
    replaced(tmp_path / "t.bin")
    with pytest.raises(NotThisFormatError, match=r"t\.bin" + SAID):
        lodcli.read(tmp_path / "t.idx")
