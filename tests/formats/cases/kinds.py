"""How every format is written and read back in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Item, StoredArray, schema_of
from lodcli.formats.core.table import TABLE
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import BYTES, TEXT
from lodcli.kernels.tensor.nulls import Nulls
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.strategies import DTYPES, ROW_SHAPES, tensors

Content = dict[str, Item]
NAMES = ("data", "b", "article", "c.d")
READ_ONLY = tuple(name for name in TABLE if table.get(name).read_only)


@dataclass(frozen=True)
class Kind:
    """How a format is written and read back here.

    Attributes:
        path: where to.
        options: for reading, by the content; one at a time if `apart`.
        write: for writing, by the content.
        refused: what it may say of content within what it declares to hold, for it depends on
            the values.
        apart: whether each tensor is read by itself.
        nans: whether one NaN may come back as another: text has but one.
        shape: what becomes of an item on the way, beside names.
        made: changes what is drawn, so that more of it is held.
        zero_rows: whether a tensor without rows comes back.
    """

    path: str
    options: Callable[[str, LoDTensor], dict[str, Any]] = lambda name, tensor: {}
    write: Callable[[Content], dict[str, Any]] = lambda content: {}
    refused: tuple[str, ...] = ()
    apart: bool = False
    nans: bool = False
    shape: Callable[[str, LoDTensor], LoDTensor] = lambda name, tensor: tensor
    made: Callable[[Content], Content] = lambda content: content
    zero_rows: bool = True
    needs: tuple[str, ...] = field(default=())


def _level_names(tensor: LoDTensor) -> tuple[str, ...]:
    return tuple(name or f"level{n}" for n, name in enumerate(tensor.lod.names))


def _lines(name: str, tensor: LoDTensor) -> dict[str, Any]:
    levels = tuple(f"l{n}" for n in range(tensor.lod.n_levels))
    plain = tensor.marks.kind in (None, "bytes")  # others are strings, or decimals
    return {"levels": levels, "dtype": tensor.dtype} if plain else {"levels": levels}


def _series(name: str, tensor: LoDTensor) -> dict[str, Any]:
    return {**_lines(name, tensor), "dtype": _real(name, tensor).dtype}


def _real(name: str, tensor: LoDTensor) -> LoDTensor:
    """Return whole numbers as a format of real numbers returns them."""
    return tensor if tensor.dtype.kind in "fV" else LoDTensor(tensor.data.astype(float), tensor.lod)


def _fields(name: str, tensor: LoDTensor) -> dict[str, Any]:
    return {**_lines(name, tensor), "field": (name,)}


def _columns(name: str, tensor: LoDTensor) -> dict[str, Any]:
    found: dict[str, Any] = {"levels": _level_names(tensor), "field": (name,)}
    if tensor.marks.is_text:
        found["levels"] = _level_names(tensor)[:-1]
    elif tensor.marks.unit is None:  # others are strings, or decimals
        found["dtype"] = tensor.dtype
    return {**found, "nulls": "keep"} if tensor.nulls else found


def _named(name: str, tensor: LoDTensor) -> LoDTensor:
    names: tuple[str | None, ...] = _level_names(tensor)
    if tensor.marks.is_text:
        names = (*names[:-1], tensor.lod.names[-1])
    return LoDTensor(tensor.values, tensor.lod.with_names(names), tensor.marks, tensor.nulls)


def _told(name: str, tensor: LoDTensor) -> LoDTensor:
    """Return the expected type of lists without strings: an empty list may be one of numbers."""
    strings = tensor.lod.levels and len(tensor.lod.levels[-1]) > 1
    if strings or not tensor.marks.is_text:
        return tensor
    return LoDTensor(np.zeros(0), tensor.lod, nulls=tensor.nulls)


def _numbers(content: Content) -> Content:
    """Return the content without marks, since the first value decides whether a column is text."""
    return {
        name: item.as_numbers() if isinstance(item, LoDTensor) else item
        for name, item in content.items()
    }


def _letters(content: Content) -> Content:
    """Return the content with bytes that are no white space."""
    return {
        name: LoDTensor((item.data.astype(np.int64) % 26 + 97).astype(np.uint8), item.lod)
        if isinstance(item, LoDTensor)
        else item
        for name, item in content.items()
    }


def _ended(content: Content) -> Content:
    """Return the content with a 0 at the end of each item, and nowhere else."""
    made: Content = {}
    for name, item in content.items():
        assert isinstance(item, LoDTensor)
        data = (item.data.astype(np.int64) % 1000 + 1).astype(item.dtype)
        if item.lod.n_levels:
            ends = item.lod.levels[0][1:] - 1
            data[ends[ends >= 0]] = 0
        made[name] = LoDTensor(data, item.lod)
    return made


def _end(content: Content) -> dict[str, Any]:
    (item, *_) = content.values()
    levels = isinstance(item, LoDTensor) and item.lod.n_levels
    return {"end_token": 0} if levels else {}


def _tokens(name: str, tensor: LoDTensor) -> dict[str, Any]:
    end = _end({name: tensor})
    return {**end, "dtype": tensor.dtype}


def sparse(content: Content) -> Content:
    """Return one of the tensors and the columns of its values."""
    (item, *_) = content.values()
    assert isinstance(item, LoDTensor)
    return {"data": item, "indices": LoDTensor(np.arange(item.rows, dtype=np.int64), item.lod)}


def _documents(name: str, tensor: LoDTensor) -> LoDTensor:
    if tensor.lod.n_levels != 1:
        return tensor
    lengths = tensor.recursive_sequence_lengths()[0]
    return LoDTensor(tensor.data, LoD.from_lengths([[1] * len(lengths), lengths]))


APART = ("same number of outermost items", "same number of items")
# The type of a column without rows is unknown.
EMPTY = ("no items", "no samples", "no empty", "without rows", "is empty")
KINDS = {
    "lod.h5": Kind("t.lod.h5"),
    "lod.stream": Kind("t.lods"),
    "lod.dataset": Kind("t", write=lambda content: {"shards": 3}),
    "npz": Kind("t.npz"),
    "npy": Kind("t.npy"),
    "awkward": Kind("t.npz", refused=APART),
    "torch": Kind("t.pt", write=lambda content: {"form": "flat"}, needs=("torch",)),
    "safetensors": Kind("t.safetensors"),
    "paddle": Kind("t.lodt", refused=("no level without items",)),
    "megatron": Kind("t.idx", shape=_documents, refused=("a mode for each",)),
    "arrow": Kind("t.arrow", refused=APART),
    "arrow-stream": Kind("t.arrows", refused=APART),
    "parquet": Kind("t.parquet", refused=APART),
    "datasets": Kind("t", refused=APART),
    "tfrecord": Kind(
        "t.tfrecord",
        refused=(*APART, *EMPTY, "no nulls but", "levels of numbers"),
        zero_rows=False,
    ),
    "zarr": Kind("t.zarr", needs=("zarr",)),
    "zarr-zip": Kind("t.zarr.zip", needs=("zarr",)),
    "h5ad": Kind("t.h5ad", made=sparse),
    "llmc": Kind(
        "t.bin",
        options=lambda name, tensor: _end({name: tensor}),
        write=_end,
        made=_ended,
        refused=("empty", "does not end with it"),
    ),
    "tokens": Kind(
        "t.bin", options=_tokens, write=_end, made=_ended, refused=("empty", "does not end with it")
    ),
    "mds": Kind("t", refused=(*APART, *EMPTY, "no rows of shape"), zero_rows=False),
    "webdataset": Kind(
        "t.tar",
        refused=(*APART, *EMPTY, "as single numbers", "no rows of shape", "at least one sample"),
        zero_rows=False,
    ),
    "ts": Kind(
        "t.ts",
        options=_series,
        shape=_real,
        nans=True,
        refused=("ts holds", "ts: ", *EMPTY),
        zero_rows=False,
    ),
    **{
        name: Kind(
            f"t.{name}",
            options=_fields,
            shape=_told,
            apart=True,
            nans=True,
            refused=(*APART, "JSON has no "),
            zero_rows=False,
        )
        for name in ("jsonl", "json")
    },
    **{
        name: Kind(
            f"t.{name}",
            options=_columns,
            shape=_named,
            made=_numbers,
            apart=True,
            nans=True,
            refused=("the same levels and lengths", "column", *EMPTY),
            zero_rows=False,
        )
        for name in ("csv", "tsv")
    },
    "text": Kind(
        "t.txt",
        options=lambda name, tensor: {"levels": tuple(f"l{n}" for n in range(tensor.lod.n_levels))},
        made=_letters,
        refused=("text holds no empty", "vocabulary="),
        zero_rows=False,
    ),
}


def with_nulls(item: LoDTensor, seed: int) -> LoDTensor:
    """Return a tensor of which some rows and some of the empty items are null."""
    generator = np.random.default_rng(seed)
    masks = [(np.diff(one) > 0) | (generator.random(one.size - 1) < 0.5) for one in item.lod.levels]
    rows = generator.random(item.rows) < 0.7
    if item.marks:
        rows[:] = True
    # JSON does not store the depth and the type of a column of nulls only.
    some = [mask if mask.any() else None for mask in (*masks, rows)]
    return LoDTensor(item.data, item.lod, item.marks, Nulls.of(some))


@st.composite
def contents(draw: st.DrawFn, name: str, *, held: bool) -> Content:
    """Draw tensors, some of which share levels; if `held`, of what the format declares."""
    kind = table.get(name)
    dtypes = [one for one in DTYPES if not held or one.name in kind.dtypes]
    most = 4 if not held or kind.max_levels is None else kind.max_levels
    ranks = 9 if not held or kind.row_ranks is None else kind.row_ranks
    shapes = [shape for shape in ROW_SHAPES if len(shape) <= ranks]
    least = kind.min_levels if held else 0
    first = draw(tensors(dtypes, shapes, most, least, any_bits=True))
    letters = [one for one in dtypes if one == np.uint8]
    if letters and most and draw(st.integers(0, 3)) == 0:
        first = draw(tensors(letters, [()], most, max(1, least), any_bits=True))
    content: Content = {}
    count = draw(st.integers(1, 3)) if kind.many or not held else 1
    for number in range(count):
        if number == 0:
            item = first
        elif draw(st.booleans()):
            item = draw(tensors(dtypes, shapes, most, least, any_bits=True))
        else:
            data = np.zeros((first.rows, *draw(st.sampled_from(shapes))), first.dtype)
            item = LoDTensor(data, first.lod)
        marked = item.lod.n_levels and item.dtype == np.uint8 and not item.row_shape
        if marked and draw(st.booleans()):
            item = LoDTensor(item.data & 0x7F, item.lod, draw(st.sampled_from([TEXT, BYTES])))
        if kind.nulls and kind.null_lists and draw(st.booleans()):
            item = with_nulls(item, draw(st.integers(0, 2**32 - 1)))
        content[NAMES[number]] = item
    if not held and first.lod.n_levels and draw(st.booleans()):
        content["steps"] = StoredArray(*TensorArray.unpack(first, 0))
    # Marked text that only some values tell is drawn as numbers, whatever else does not fit.
    return KINDS[name].made(content) if held or KINDS[name].made is _numbers else content


def written(folder: str, name: str, content: Content) -> Path:
    path = Path(folder, KINDS[name].path)
    options = WriteOptions(**KINDS[name].write(content))
    io.write(path, content, format_name=name, options=options)
    return path


def read_back(path: Path | str, name: str, content: Content) -> Mapping[str, Item]:
    kind, found = KINDS[name], dict[str, Item]()
    for wanted, item in content.items():
        options = kind.options(wanted, item) if isinstance(item, LoDTensor) else {}
        if kind.apart and len(content) == 1:
            options.pop("field", None)
        with lodcli.open(path, format_name=name, options=ReadOptions(**options)) as source:
            if not kind.apart:
                return source.read()
            there = source.read()
            found[wanted] = there[wanted] if wanted in there else there["data"]
    return found


def _bits(data: Any, *, nans: bool) -> tuple[str, bytes]:
    data = np.ascontiguousarray(data)
    if nans and data.dtype.kind in "fV":
        data = np.where(np.isnan(data), np.array(np.nan, data.dtype), data)
    return data.dtype.name, data.tobytes()


def check_same(name: str, content: Content, found: Mapping[str, Item]) -> None:
    kind, declared = KINDS[name], table.get(name)
    names = list(content)
    if name == "paddle":  # which names nothing
        found = dict(zip(names, found.values(), strict=True))
    if name == "h5ad":  # which names rows and columns as well
        found = {one: found[one] for one in names}
    if len(names) == 1 and not set(names) & set(found):
        found = dict(zip(names, found.values(), strict=True))
    assert sorted(found) == sorted(names)
    for one, item in content.items():
        other = found[one]
        if isinstance(item, StoredArray):
            assert isinstance(other, StoredArray)
            assert item.array.identical(other.array)
            assert item.index_map == other.index_map
            continue
        assert isinstance(other, LoDTensor)
        spec = schema_of({one: item})[0]
        if item.marks.unit is not None and not declared.keeps_marks(spec):
            continue  # written in words, and said to be lost
        item = kind.shape(one, item)
        assert other.lod.levels == () or all(level.dtype == np.int64 for level in other.lod.levels)
        assert other.recursive_sequence_lengths() == item.recursive_sequence_lengths()
        if item.rows or kind.zero_rows:
            assert other.values.shape == item.values.shape
        assert _bits(other.values, nans=kind.nans) == _bits(item.values, nans=kind.nans)
        assert other.nulls == item.nulls
        if declared.level_names:
            kept = [
                level_name if declared.keeps_level_name(spec, level) else None
                for level, level_name in enumerate(item.lod.names)
            ]
            assert [*other.lod.names] == kept
        if declared.keeps_marks(spec):
            # Of class labels, datasets gives the feature as an attribute, which others lose.
            plain = [replace(one.marks, attributes="") for one in (other, item)]
            assert plain[0] == plain[1]


def require(name: str) -> None:
    for module in KINDS[name].needs:
        pytest.importorskip(module)


def items(item: Item) -> int:
    """Return the number of outermost items."""
    return len(item) if isinstance(item, LoDTensor) else 1
