"""Every rule of docs/formats/lod.dataset.md has a folder that breaks it, and the error for it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.core.schema import Item, StoredArray
from lodcli.formats.dataset import manifest as manifests
from lodcli.formats.dataset.manifest import Manifest, shard_name
from lodcli.formats.dataset.writer import write_manifest
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "lod.dataset.md"
WORDS = LoDTensor(np.arange(15), LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]]))
CASES: list[tuple[str, str, Callable[[Path], None]]] = []


def case(rule: str, said: str) -> Callable[[Callable[[Path], None]], None]:
    """Add a case: a change of a dataset with two shards, and the expected message."""
    return lambda change: CASES.append((rule, said, change))


def manifest_of(path: Path) -> Manifest:
    with Input(path / manifests.NAME) as file:
        return Manifest.read(ContainerSource(file.make_seekable().fileno(), "manifest"))


def put(path: Path, manifest: Manifest) -> None:
    with Output(path / manifests.NAME, overwrite=True, seekable=True) as output:
        write_manifest(output, manifest)


def edited(path: Path, change: Callable[[dict[str, Item]], dict[str, Item]]) -> None:
    """Change the tensors of the manifest."""
    items = change(io.read_all(path / manifests.NAME))
    io.write(path / manifests.NAME, items, overwrite=True)


def column(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """Return what changes one tensor of the manifest."""

    def changed(items: dict[str, Item]) -> dict[str, Item]:
        item = items[name]
        assert isinstance(item, LoDTensor)
        return {**items, name: LoDTensor(change(item.data.copy()))}

    return lambda path: edited(path, changed)


@case("D1", "is not a manifest: its first tensors must be shard-totals, shard-bytes")
def _(path: Path) -> None:
    io.write(path / manifests.NAME, WORDS, overwrite=True)


@case("D1", "is not a manifest: its first tensors must be")
def _(path: Path) -> None:
    edited(path, lambda items: dict(reversed(items.items())))


@case("D1", "manifest.lod.h5: is not an HDF5 file")
def _(path: Path) -> None:
    (path / manifests.NAME).write_bytes(b"")


for _name, _dtype in (("shard-totals", "int32"), ("shard-bytes", "f8"), ("shard-crc32c", "int64")):
    case("D1", f"manifest.lod.h5: {_name}: expected u?int")(
        column(_name, lambda data, dtype=_dtype: data.astype(dtype))  # type: ignore[misc]
    )
for _name in ("shard-totals", "shard-crc32c", "tensor-nullable"):
    case("D1", f"manifest.lod.h5: {_name}: expected .* of shape")(
        column(_name, lambda data: data[:-1])
    )


@case("D2", "manifest.lod.h5: names no shard")
def _(path: Path) -> None:
    found = manifest_of(path)
    put(path, replace(found, totals=found.totals[:1], sizes=found.sizes[:0], sums=found.sums[:0]))


@case("D3", "is not a manifest")
def _(path: Path) -> None:
    edited(path, lambda items: {name: items[name] for name in manifests.COLUMNS})


@case("D3", "manifest.lod.h5: data: must be an empty tensor")
def _(path: Path) -> None:
    edited(path, lambda items: {**items, "data": WORDS})


@case("D3", "manifest.lod.h5: data: must be an empty tensor")
def _(path: Path) -> None:
    array, index_map = TensorArray.unpack(WORDS, 0)
    edited(path, lambda items: {**items, "data": StoredArray(array, index_map)})


def _other(tensor: LoDTensor) -> Callable[[Path], None]:
    return lambda path: edited(path, lambda items: {**items, "data": tensor[:0]})


for _tensor in (
    LoDTensor(WORDS.data.astype(np.int32), WORDS.lod),
    LoDTensor(WORDS.data, WORDS.lod.with_names(["article", None])),
    LoDTensor(WORDS.data[:, None], WORDS.lod),
):
    case("D3", "data-00000-of-00002.lod.h5: its tensors are not those")(_other(_tensor))


case("D4", "manifest.lod.h5: shard-totals: expected int64 of shape")(_other(WORDS[0]))


@case("D5", "manifest.lod.h5: shard-totals: must begin with 0 and never decrease")
def _(path: Path) -> None:
    column("shard-totals", lambda data: data[::-1].copy())(path)


@case("D5", "manifest.lod.h5: shard-totals: must begin with 0 and never decrease")
def _(path: Path) -> None:
    column("shard-totals", lambda data: data + 1)(path)


@case("D6", "data-00000-of-00002.lod.h5: is missing")
def _(path: Path) -> None:
    (path / shard_name(0, 2)).rename(path / "data-0-of-2.lod.h5")


@case("D6", "data-00001-of-00002.lod.h5: .*expected CRC32C")
def _(path: Path) -> None:
    column("shard-crc32c", lambda data: data ^ np.array([0, 1], np.uint32))(path)


@case("D6", "data-00001-of-00002.lod.h5: expected .* bytes as in the manifest")
def _(path: Path) -> None:
    column("shard-bytes", lambda data: data + np.array([0, 1]))(path)


@case("D6", "data-00000-of-00002.lod.h5: ")
def _(path: Path) -> None:
    shard = path / shard_name(0, 2)
    shard.write_bytes(bytes(shard.stat().st_size))


@case("D7", "data-0000[01]-of-00002.lod.h5: its tensors are not those in the manifest")
def _(path: Path) -> None:
    column("shard-totals", lambda data: data * [[1], [0], [1]])(path)


@case("D8", "data-00007-of-00009.lod.h5: the manifest, of 2 shards, does not name it")
def _(path: Path) -> None:
    shutil.copy(path / shard_name(0, 2), path / shard_name(7, 9))


@pytest.mark.parametrize(
    ("rule", "said", "change"), CASES, ids=[f"{n} {rule}" for n, (rule, *_) in enumerate(CASES)]
)
def test_a_folder_that_breaks_a_rule_is_refused(
    tmp_path: Path, rule: str, said: str, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "ds"
    io.write(path, WORDS, format_name="lod.dataset", shards=2)
    change(path)
    with pytest.raises(InvalidDataError, match=said) as error:
        io.read_all(path, format_name="lod.dataset")
    assert str(error.value).startswith(f"{path}: ")


def test_every_rule_is_broken() -> None:
    rules = re.findall(r"\*\*(D[0-9]+)\*\*", PAGE.read_text())
    assert rules == [f"D{number}" for number in range(1, len(rules) + 1)]
    assert {rule for rule, *_ in CASES} == set(rules)
