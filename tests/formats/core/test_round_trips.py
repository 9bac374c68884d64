"""Round trips of every format, bit for bit; unsupported content is an error that says so."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.core.table import TABLE
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import (
    KINDS,
    READ_ONLY,
    Content,
    check_same,
    contents,
    items,
    read_back,
    require,
    sparse,
    written,
)
from tests.sampling import many


def test_every_format_is_here() -> None:
    assert sorted((*KINDS, *READ_ONLY)) == sorted(TABLE)


def _tried(name: str, content: Content) -> LodError | None:
    """Write and read back; or return the error, after checking that no files are left."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = written(folder, name, content)
        except LodError as error:
            refused = error
        else:
            # What has no items has no lines, and no samples.
            if KINDS[name].zero_rows or any(map(items, content.values())):
                check_same(name, content, read_back(path, name, content))
            return None
        assert not os.listdir(folder)
        assert len(str(refused).splitlines()) == 1
        return refused


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=many(20, share=2), deadline=None)
@given(data=st.data())
def test_content_that_a_format_declares_to_hold_comes_back(name: str, data: st.DataObject) -> None:
    require(name)
    error = _tried(name, data.draw(contents(name, held=True)))
    if error is not None:
        assert any(part in str(error) for part in (*KINDS[name].refused, "rows without values")), (
            error
        )


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=many(20, share=2), deadline=None)
@given(data=st.data())
def test_anything_else_is_refused_by_name(name: str, data: st.DataObject) -> None:
    require(name)
    content = data.draw(contents(name, held=False))
    error = _tried(name, content)
    if error is not None:
        assert any(part in str(error) for part in (name.split("-")[0], *content)), error


ONE = LoDTensor(np.array([[7.5], [2.0], [3.0]], np.float32), LoD.from_lengths([[1, 2]]))
INTEGERS = LoDTensor(np.array([7, 0, 3, 0], np.uint16), LoD.from_lengths([[2, 2]]))
BYTES = LoDTensor(np.frombuffer(b"to be", np.uint8)[[0, 1, 3, 4]], LoD.from_lengths([[2, 2]]))
PLAIN = {
    **dict.fromkeys(KINDS, ONE),
    **dict.fromkeys(("megatron", "llmc", "tokens", "csv", "tsv"), INTEGERS),
    "npy": LoDTensor(ONE.data),
    "text": BYTES,
    "h5ad": LoDTensor(ONE.data[:, 0], ONE.lod),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_plain_tensor_is_not_refused(name: str) -> None:
    require(name)
    content: Content = {"data": PLAIN[name]}
    assert _tried(name, sparse(content) if name == "h5ad" else content) is None


@pytest.mark.parametrize("name", READ_ONLY)
def test_a_read_only_format_is_not_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="read-only"):
        io.write(tmp_path / "t.h5", ONE, format_name=name)
    assert not os.listdir(tmp_path)
