"""A tensor without items survives every format, or is an error with a reason."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import registry as table
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import KINDS, Content, require, written

LEVELS = ("day", "hour", "minute")


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("name", KINDS)
def test_a_tensor_without_items_comes_back_or_is_refused(
    name: str, depth: int, tmp_path: Path
) -> None:
    require(name)
    kind = table.get(name)
    held = [dtype for dtype in ("int32", "uint16", "uint8") if dtype in kind.dtypes]
    lod = LoD.from_lengths([[]] * depth, LEVELS[:depth])
    content: Content = {"data": LoDTensor(np.empty(0, held[0]), lod)}
    if name == "h5ad":
        content = KINDS[name].made(content)
    refused = None
    try:
        path = written(os.fspath(tmp_path), name, content)
    except LodError as error:
        refused = str(error)
    if refused is not None:
        assert f"{name} holds" in refused or f"{name} needs" in refused
        assert not os.listdir(tmp_path)
        return
    item = content["data"]
    assert isinstance(item, LoDTensor)
    options = KINDS[name].options("data", item)
    options.pop("field", None)
    # The format is detected from the name and the content.
    found = lodcli.read(path, **options)
    expected = KINDS[name].shape("data", item)
    assert isinstance(found, LoDTensor)
    assert found.recursive_sequence_lengths() == expected.recursive_sequence_lengths()
    assert (found.dtype, found.data.shape) == (expected.dtype, expected.data.shape)
