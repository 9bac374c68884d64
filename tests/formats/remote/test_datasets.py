"""Datasets behind URLs: the manifest, and the shards that something is read of."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.dataset.manifest import shard_name
from lodcli.formats.dataset.source import MOST_OPEN
from lodcli.formats.remote import urllib3_object
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.range_server import Server, serving
from tests.reliability.outcome import LOD

SHARDS = 2 * MOST_OPEN
LENGTHS = np.random.default_rng(3).integers(0, 9, 400)
DATA = LoDTensor(
    np.arange(LENGTHS.sum() * 8, dtype=np.float32).reshape(-1, 8), LoD.from_lengths([LENGTHS])
)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("urllib3")
    monkeypatch.setattr(urllib3_object, "FIRST_PAUSE_SECONDS", 0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Serve a dataset below /ds/."""
    io.write(tmp_path / "ds", {"data": DATA}, format_name="lod.dataset", shards=SHARDS)
    objects = {f"ds/{path.name}": path.read_bytes() for path in (tmp_path / "ds").iterdir()}
    with serving(**objects) as found:
        yield found


def _asked(server: Server) -> list[str]:
    """Return the names that were asked for, each once."""
    return sorted(set(server.paths))


def _nameless_files() -> set[str]:
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    targets = {os.readlink(link) for link in links if os.path.lexists(link)}
    return {target for target in targets if target.endswith(" (deleted)")}


def test_a_slice_opens_the_manifest_and_one_shard(server: Server) -> None:
    with lodcli.open(f"{server.url}/ds/") as source:
        assert _asked(server) == ["/ds/manifest.lod.h5"]
        assert source.slice("data", (7,)).identical(DATA.select(7))
        assert _asked(server) == [f"/ds/{shard_name(0, SHARDS)}", "/ds/manifest.lod.h5"]


def test_shards_of_dask_are_read_from_the_url(server: Server) -> None:
    pytest.importorskip("dask")
    shards = lodcli.dask.from_dataset(f"{server.url}/ds/?key=1", "data")
    assert shards[0].compute(scheduler="synchronous").identical(DATA[: len(shards[0].compute())])
    assert all(name.endswith("?key=1") for name in server.paths)


def test_items_for_torch_are_read_from_the_url(server: Server) -> None:
    pytest.importorskip("torch")
    items = lodcli.torch.Dataset(f"{server.url}/ds/")
    assert np.array_equal(items[7], DATA.select(7).data)
    with pytest.raises(SelectionError, match=f"^{server.url}/ds/: no item 400, there are 400"):
        lodcli.torch.Dataset(f"{server.url}/ds/?key=1")[400]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_everything_is_read_and_nothing_stays_open(server: Server) -> None:
    before = _nameless_files()
    for _ in range(2):
        with lodcli.open(f"{server.url}/ds/") as source:
            whole: dict[str, Any] = source.read()
            assert whole["data"].identical(DATA)
            for item in np.random.default_rng(0).integers(0, len(DATA), 50).tolist():
                assert source.slice("data", (item,)).identical(DATA.select(item))
            assert 0 < len(_nameless_files() - before) <= MOST_OPEN + 1
        assert _nameless_files() == before


def test_other_schemes_are_read_by_fsspec(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    io.write(tmp_path / "ds", {"data": DATA}, format_name="lod.dataset", shards=SHARDS)
    system = fsspec.filesystem("memory")
    for path in (tmp_path / "ds").iterdir():
        system.pipe_file(f"/bucket/ds/{path.name}", path.read_bytes())
    with lodcli.open("memory://bucket/ds/") as source:
        assert source.slice("data", (200,)).identical(DATA.select(200))


def test_commands_read_it(server: Server, tmp_path: Path) -> None:
    def lod(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([LOD, *args], capture_output=True, text=True, cwd=tmp_path)

    url = f"{server.url}/ds/"
    assert lod("convert", "-q", url, "out.lod.h5").returncode == 0
    found = io.read_all(tmp_path / "out.lod.h5")
    assert found["data"].identical(DATA)
    assert "\ndata: float32, " in lod("inspect", url).stdout
    assert lod("verify", "-q", url).returncode == 0
    done = lod("convert", url, "out", "--jobs", "2")
    assert done.returncode == 2
    assert "is neither" in done.stderr
    done = lod("convert", "out.lod.h5", url)
    assert (done.returncode, "lod writes no URLs" in done.stderr) == (4, True)


def test_a_missing_or_other_shard_is_named(server: Server) -> None:
    name = shard_name(0, SHARDS)
    whole = server.objects.pop(f"/ds/{name}")
    url = f"{server.url}/ds/"
    with lodcli.open(url) as source:
        with pytest.raises(DamagedFileError, match=f"{name}: is missing; the manifest names"):
            source.slice("data", (0,))
        assert source.slice("data", (-1,)).identical(DATA.select(-1))
        with pytest.raises(DamagedFileError, match=f"{name}: is missing; the manifest names"):
            list(source.batches())
    server.objects[f"/ds/{name}"] = whole + b"more"
    with (
        lodcli.open(url) as source,
        pytest.raises(DamagedFileError, match=f"{name}: expected {len(whole)} bytes"),
    ):
        source.slice("data", (0,))


def test_a_folder_without_a_manifest_or_of_another_format_is_refused(server: Server) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        lodcli.read(f"{server.url}/other/")
    assert caught.value.filename == f"{server.url}/other/manifest.lod.h5"
    with pytest.raises(UnsupportedError, match="behind a URL cannot be listed"):
        lodcli.read(f"{server.url}/ds/", format_name="zarr")
