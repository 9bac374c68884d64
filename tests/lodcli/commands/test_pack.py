"""`lod pack`: the exact inverse of `lod unpack`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lodcli.conftest import Lod, tensor


@pytest.mark.parametrize("level", ["article", "sentence"])
@pytest.mark.parametrize("sorting", ["--sort-by-length", "--no-sort"])
def test_pack_undoes_unpack_bit_for_bit(lod: Lod, folder: Path, level: str, sorting: str) -> None:
    assert lod("unpack", "words.lod.h5", "--level", level, sorting, "-o", "s.lod.h5").code == 0
    done = lod("pack", "s.lod.h5", "-o", "back.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert tensor("back.lod.h5").identical(tensor("words.lod.h5"))


def test_both_work_through_pipes(shell: Lod, folder: Path) -> None:
    done = shell("lod unpack many.lod.h5::tags | lod pack - -o back.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert tensor("back.lod.h5").identical(tensor("many.lod.h5", "tags"))


def test_a_tensor_cannot_be_packed(lod: Lod, folder: Path) -> None:
    done = lod("pack", "words.lod.h5", "-o", "out.lod.h5")
    assert done.code == 2
    assert "not a TensorArray" in done.stderr
