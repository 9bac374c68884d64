"""The schema, `inspect`, `slice`, `convert` and reading agree about what is in a file: every
format, its compressed forms included. A count that is not known is None, never another number.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import Item, TensorSpec
from lodcli.formats.core.writing import output_format
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.group import group
from tests.formats.cases.kinds import KINDS, Content, require
from tests.formats.cases.tables import read_by_pyarrow, written_by_pyarrow

ROOT = Path(__file__).parents[3]
THEIRS = Path(__file__).parents[1] / "theirs"
MANY = 3000
# Of items above and of rows. Not every format holds empty ones.
EMPTY, FULL = ([3, 0, 2], [0, 2, 1, 0, 3]), ([3, 1, 2], [1, 2, 1, 4, 3])
LEVELS = {"flat": 0, "one level": 1, "two levels": 2}


def _made(name: str, shape: str, lengths: tuple[list[int], list[int]]) -> Content:
    kind, depth = table.get(name), LEVELS[shape]
    dtype = next(one for one in ("int64", "float64", "uint16", "uint8") if one in kind.dtypes)
    outer = [lengths[0] * (MANY // 3)] if depth > 1 else []
    items = sum(outer[0]) if outer else MANY
    lod = LoD.from_lengths([*outer, (lengths[1] * MANY)[:items]]) if depth else LoD()
    rows = np.arange(lod.rows or MANY).astype(dtype)
    several = kind.many and not depth and name not in ("ts", "h5ad")
    content: Content = {"data": LoDTensor(rows, lod)}
    return KINDS[name].made({**content, "b": LoDTensor(rows[::-1])} if several else content)


def _codecs(name: str) -> list[str | None]:
    known = "compression" in table.get(name).write_options
    return [None, "deflate", "zstd"] if known else [None]


def _compressed(path: Path, codec: str) -> None:
    plain = path.rename(path.with_stem("plain"))
    written_by_pyarrow(path, read_by_pyarrow(plain), 700, compression=codec)


def _packed(path: Path, codec: str) -> None:
    content = path.read_bytes()
    if codec == "gz":
        packed = gzip.compress(content)
    else:
        packed = pytest.importorskip("zstandard").compress(content)
    path.with_name(f"{path.name}.{codec}").write_bytes(packed)


# What other programs make of files that are written here.
RECODED: dict[str, tuple[Callable[[Path, str], None], tuple[str, ...]]] = {
    "arrow": (_compressed, ("lz4", "zstd")),
    "arrow-stream": (_compressed, ("lz4", "zstd")),
    **{name: (_packed, ("gz", "zst")) for name in ("jsonl", "json", "csv", "tsv", "text", "ts")},
}


def cases() -> list[Any]:
    found = []
    for name, shape in product(KINDS, LEVELS):
        forms: list[tuple[str | None, str | None]] = [(codec, None) for codec in _codecs(name)]
        forms += [(None, codec) for codec in RECODED.get(name, (None, ()))[1]]
        for codec, recoded in forms:
            called = f"{name}-{shape}-{codec or recoded or 'plain'}"
            marks = () if shape == "flat" and recoded else pytest.mark.slow
            found.append(pytest.param(name, shape, codec, recoded, id=called, marks=marks))
    return found


@pytest.mark.parametrize(("name", "shape", "codec", "recoded"), cases())
def test_everything_agrees(
    name: str, shape: str, codec: str | None, recoded: str | None, tmp_path: Path
) -> None:
    require(name)
    options: dict[str, Any] = {} if codec is None else {"compression": codec}
    for lengths in (EMPTY, FULL):
        content = _made(name, shape, lengths)
        options |= KINDS[name].write(content)
        path = tmp_path / KINDS[name].path
        try:
            io.write(path, content, format_name=name, **options)
            break
        except UnsupportedError:
            continue
    else:
        pytest.skip("the format holds no such tensors")
    if recoded is not None:
        RECODED[name][0](path, recoded)
        if RECODED[name][0] is _packed:
            path = path.with_name(f"{path.name}.{recoded}")
    check(path, name, tmp_path)


SAMPLES = sorted(
    path for path in (ROOT / "samples").iterdir() if path.suffix in (".txt", ".jsonl", ".ts")
)


@pytest.mark.parametrize(
    "packed", [None, *(pytest.param(one, marks=pytest.mark.slow) for one in ("gz", "zst"))]
)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.name))
def test_everything_agrees_about_the_samples(
    path: Path, packed: str | None, tmp_path: Path
) -> None:
    name = output_format(path, None)
    if packed is not None:
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes())
        _packed(copy, packed)
        path = copy.with_name(f"{path.name}.{packed}")
    check(path, name, tmp_path)


# Without formats that need options to read, and PackedSequences, which are TensorArrays.
OF_OTHERS = [
    *(THEIRS / name for name in ("mds", "mds_zstd", "datasets/train", "awkward.h5")),
    *(
        path
        for ending in ("ts", "h5ad", "npz", "vtkhdf", "bin", "tar")
        for path in sorted(THEIRS.glob(f"*.{ending}"))
    ),
    *sorted(THEIRS.glob("zips/*.npz")),
    *(
        path
        for path in sorted(THEIRS.glob("torch/*/*.pt"))
        if path.stem not in ("packed", "several")
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("path", OF_OTHERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_everything_agrees_about_files_of_others(path: Path, tmp_path: Path) -> None:
    with Input(path) as source:
        found = table.of_input(source, ReadOptions())
    check(path, "awkward-hdf5" if path.name == "awkward.h5" else found, tmp_path)


def check(path: Path, name: str, folder: Path) -> None:
    with lodcli.open(path, format_name=name) as source:
        schema, content, partial = source.schema, source.read(), source.partial
    for spec in schema:
        _check_spec(spec, content[spec.name])
        assert spec.rows is not None or spec.levels or not partial
    shown = _lod("inspect", path, "--from", name, "--json")
    assert [(one["name"], one["rows"]) for one in json.loads(shown)["tensors"]] == [
        (one, _tensor(item).rows) for one, item in content.items()
    ]
    for one, item in content.items():
        assert isinstance(item, LoDTensor)
        _check_slices(path, name, one, item)
        _lod("slice", f"{path}::{one}", "1:3", "--from", name, "-fo", folder / "slice.lod.h5")
        assert _tensor(io.read(folder / "slice.lod.h5")).identical(item.select(slice(1, 3)))
    _lod("convert", path, folder / "all.lod.h5", "--from", name)
    for one, item in io.read_all(folder / "all.lod.h5").items():
        assert _tensor(item).identical(_tensor(content[one]))


def _check_spec(spec: TensorSpec, item: Item) -> None:
    tensor = _tensor(item)
    assert spec.rows in (None, tensor.rows)
    for level, found in enumerate(spec.levels):
        assert found.items in (None, tensor.lod.count(level))


def _check_slices(path: Path, name: str, one: str, item: LoDTensor) -> None:
    with lodcli.open(path, format_name=name) as source:
        assert source.read_index(one) == item.lod
    for level in range(max(1, item.lod.n_levels)):
        count = item.lod.count(level) if item.lod.n_levels else item.rows
        for low, high in ((0, 1), (count // 2, count // 2 + 2), (count - 1, count), (0, count)):
            with lodcli.open(path, format_name=name) as source:
                found = source.slice(one, (slice(low, high),), level)
            assert found.identical(item.select(slice(low, high), level=level))
            assert len(found) == min(high, count) - low


def _tensor(item: Item) -> LoDTensor:
    assert isinstance(item, LoDTensor)
    return item


def _lod(*args: str | Path) -> str:
    done = CliRunner().invoke(group, [str(arg) for arg in args])
    assert done.exit_code == 0, done.stderr
    return str(done.stdout)
