"""Part k of n of a file: parts one behind the other are the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.container import reader
from lodcli.formats.core import io
from lodcli.kernels.errors import OptionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.broken.crafted import good
from tests.strategies import tensors


def tensors_of(path: Path, part: tuple[int, int]) -> dict[str, Any]:
    with lodcli.open(path, part=part) as source:
        return source.read()


SAME_FOLDER = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SAME_FOLDER
@given(tensor=tensors(max_levels=3), count=st.integers(1, 5))
def test_the_parts_of_a_tensor_come_to_the_whole(
    tmp_path: Path, tensor: LoDTensor, count: int
) -> None:
    path = tmp_path / "t.lod.h5"
    io.write(path, tensor, overwrite=True)
    parts = []
    for number in range(count):
        with lodcli.open(path, part=(number, count)) as source:
            (item,) = source.read().values()
            batches = [batch["data"] for batch in source.batches(64)]
            index = source.read_index("data")
        assert index == item.lod
        assert LoDTensor.concatenate(batches).identical(item)
        parts.append(item)
    assert LoDTensor.concatenate(parts).identical(tensor)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("whole_bytes", [4 << 20, -1], ids=["in memory", "in the file"])
@pytest.mark.parametrize("base", ["shared", "nulls", "text", "categories", "compressed"])
def test_tensors_of_every_kind_have_parts(
    base: str, whole_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "WHOLE_INDEX_BYTES", whole_bytes)
    path = tmp_path / "t.lod.h5"
    path.write_bytes(good(base))
    whole = io.read_all(path)
    parts = [tensors_of(path, (k, 2)) for k in range(2)]
    for name, item in whole.items():
        found = LoDTensor.concatenate([part[name] for part in parts])
        assert found.identical(item)
        assert found.to_list() == item.to_list()


def test_tensors_with_as_many_items_are_divided_alike(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    words = LoDTensor(np.arange(10), LoD.from_lengths([[3, 0, 1, 2, 4]]))
    io.write(path, {"words": words, "label": LoDTensor(np.arange(5))})
    with lodcli.open(path, part=(1, 2)) as source:
        found: dict[str, Any] = source.read()
        assert found["words"].to_list() == [[3], [4, 5], [6, 7, 8, 9]]
        assert found["label"].to_list() == [2, 3, 4]
        assert source.slice("words", (1,)).to_list() == [4, 5]


@pytest.mark.parametrize("part", [(2, 2), (-1, 2), (0, 0), (0,), "01", 3, (0.0, 2)])
def test_an_invalid_part_is_refused(part: Any, tmp_path: Path) -> None:
    io.write(tmp_path / "t.lod.h5", LoDTensor(np.arange(3)))
    with pytest.raises(OptionError, match=r"part: expected \(k, n\)"):
        lodcli.read(tmp_path / "t.lod.h5", part=part)


def test_reading_a_part_of_another_format_is_an_error(tmp_path: Path) -> None:
    io.write(tmp_path / "t.npz", LoDTensor(np.arange(3)))
    with pytest.raises(UnsupportedError, match=r"npz has no option 'part'; it is for lod\.h5"):
        lodcli.read(tmp_path / "t.npz", part=(0, 2))
    (tmp_path / "a.lod.h5").write_bytes(good("array"))
    with pytest.raises(UnsupportedError, match="data is a TensorArray, which cannot be divided"):
        lodcli.read(tmp_path / "a.lod.h5", part=(0, 2))
