"""Datasets that are written shard by shard."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lodcli.formats.dataset import job


def test_shards_have_the_path_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors about them show it."""
    monkeypatch.chdir(tmp_path)
    with job.writing("out", {"command": "x"}, 2, overwrite=False) as shards:
        assert os.fspath(shards.path(0)) == "out/data-00000-of-00002.lod.h5"
    assert not Path("out").exists()


@pytest.mark.parametrize("link", ["link", "link/", "link/."])
def test_shards_behind_a_link_are_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    """That can be removed like any folder."""
    monkeypatch.chdir(tmp_path)
    Path("real").mkdir()
    Path("link").symlink_to("real")
    with job.writing(link, {"command": "x"}, 2, overwrite=False) as shards:
        assert shards.path(0) == tmp_path / "real/data-00000-of-00002.lod.h5"
    assert not Path("real").exists()
