"""A file as a map-style dataset of torch: its items, read by number in any order."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal, Unpack, get_args

import numpy as np
import numpy.typing as npt
import torch

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.format import Source
from lodcli.formats.core.io import OpenFile, open_file
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.names import listing, split_reference
from lodcli.formats.core.options import ReadKeywords, read_options
from lodcli.formats.core.schema import Schema
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.items.indexed_copy import in_place, indexed, options_in_order
from lodcli.formats.items.items import Items
from lodcli.formats.items.sharing import Shared, sharing, with_equal_levels
from lodcli.formats.items.taking import taken
from lodcli.formats.loading.handing_torch import in_worker, padded, ready_to_hand
from lodcli.formats.loading.samplers import item_numbers
from lodcli.formats.remote.urls import shown
from lodcli.formats.several.many_files import ManyFiles
from lodcli.formats.storage.inputs import absolute
from lodcli.kernels.errors import (
    InvalidDataError,
    NullError,
    OptionError,
    UnsupportedError,
    counted,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.suggestions import or_near
from lodcli.kernels.tensor.exchange.torch import jagged, rows_from_torch, rows_to_torch
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import without_nulls

# The default of a DataLoader. Of items that are dicts it stacks values that nothing can intercept.
_STACKING = torch.utils.data._utils.collate.collate.__code__


@dataclass(frozen=True, eq=False)
class Batch(Sequence[Any]):
    """Items of a dataset in contiguous arrays, for `collate`. Also a sequence of the items.

    Attributes:
        tensors: by name, with the items as outermost level.
        single: whether an item is a value of the only tensor, not a dict.
        label: name of the file, or of the function, for messages.
    """

    tensors: Mapping[str, LoDTensor]
    single: bool
    label: str = "collate"

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))

    def __getitem__(self, place: Any) -> Any:
        if sys._getframe(1).f_code is _STACKING:
            self._require_equal()
        found = dict[str, Any]()
        for name, tensor in self.tensors.items():
            with naming(self.label, name):
                found[name] = _value(tensor[place])
        return next(iter(found.values())) if self.single else found

    @classmethod
    def __torch_function__(
        cls, function: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return the result of `torch.stack` for the items: it is the default of a DataLoader."""
        given = [list(one) if isinstance(one, Batch) else one for one in args]
        return function(*given, **kwargs or {})

    def _require_equal(self) -> None:
        """Raise UnsupportedError unless items can be stacked: the default of a DataLoader."""
        for name, tensor in self.tensors.items():
            if tensor.lod.n_levels:
                lengths = np.unique(tensor.lod.lengths(0))
                if tensor.lod.n_levels > 1 or lengths.size > 1:
                    what = "sequences" if tensor.lod.n_levels > 1 else "rows"
                    raise UnsupportedError(
                        f"{self.label}: {name}: items of {lengths[0]} to {lengths[-1]} {what} "
                        "cannot be stacked; give the DataLoader collate_fn=lodcli.torch.collate()"
                    )

    def take(self, places: Offsets) -> Batch:
        """Return some of the items, as another batch."""
        return Batch(taken(self.tensors, places), self.single, self.label)


class Dataset(torch.utils.data.Dataset[Any]):
    """The items of one level of a file, for torch.utils.data.DataLoader.

    An item is a tensor of torch, (n, ..), or a LoDTensor if it has levels. If several tensors of
    the file have the same items, such as tokens and labels, an item is a dict by name. A batch of
    items is read at once; give a DataLoader `collate_fn=collate(..)`. Categories are their class
    numbers as int64, which embeddings and cross_entropy of torch take, also if the file and
    `schema` have narrower ones.

    It is pickled without its content, and every worker process opens the file again; it is an error
    if the file was replaced in between. Containers and datasets of lod are compared by a checksum,
    other files by size, time and inode, and files behind URLs by the metadata of the server.

    Args:
        path: a file that can be read in any order, such as lod.h5 or safetensors; or FILE::NAME.
        name: the only tensor to read. None: all that share the level, or have an equal one.
        level: the level whose sequences are the items, a number or a name.
        in_memory: whether to read everything at once. Then the file may have any format, and forked
            workers share the memory.
        limits: for reading the file.
        keywords: how to read it; see `lodcli.open`. With `mmap=True` rows are mapped, and all
            processes share the page cache; see `lodcli.read`.

    Raises:
        UnsupportedError: the format does not support random access, or not with an option that
            changes rows, such as `dtype`.
        DamagedFileError: a worker process finds another file than this process opened.
        SelectionError, OSError, LodError: see `lodcli.read`.

    >>> hours = Dataset("samples/events.jsonl", level=1, in_memory=True)
    >>> hours.lengths[4:7].tolist(), hours[5].tolist()
    ([0, 6, 51], [2, 4, 2, -1, -4, 0])
    """

    def __init__(
        self,
        path: PathLike,
        name: str | None = None,
        *,
        level: int | str = 0,
        in_memory: bool = False,
        limits: Limits | None = None,
        **keywords: Unpack[ReadKeywords],
    ) -> None:
        if name is None and isinstance(path, str):
            path, name = split_reference(path)
        self._path = absolute(path)  # a worker may run in another folder
        self._name, self._level, self._in_memory = name, level, in_memory
        self._limits, self._keywords = limits, keywords
        self._opened: _Opened | None = None
        self._content = self._open().content

    def _open(self) -> _Opened:
        opened = self._opened
        if opened is not None and (opened.tensors is not None or opened.process == os.getpid()):
            return opened
        if opened is not None:
            opened.files.pop_all()  # a forked process must not close its parent's files
        opened = _Opened(self)
        if "_content" in vars(self) and opened.content != self._content:
            opened.files.close()
            raise DamagedFileError(
                f"{shown(self._path)}: was replaced since the dataset was made; make it again"
            )
        self._opened = opened
        return opened

    def _shared(self, schema: Schema) -> Shared:
        found = sharing(schema, self._name, self._level)
        return found if self._name is None else found.only(self._name)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}

    def __repr__(self) -> str:
        said = shown(self._path)
        if self._opened is not None:  # a worker opens the file only to read
            items = self._opened.items
            names = listing(spec.name for spec in items.schema)
            said += f": {counted(items.count, 'item')} of {names}"
        return f"<Dataset {said}>"

    @property
    def schema(self) -> Schema:
        """The tensors, with the items as outermost level."""
        return self._open().items.schema

    @property
    def label(self) -> str:
        """The name of the file in messages."""
        return shown(self._path)

    @property
    def lengths(self) -> Offsets:
        """The number of rows of each item in the first tensor with levels, for samplers."""
        items = self._open().items
        lods = [lod for lod in items.lods.values() if lod.n_levels]
        return np.diff(lods[0].absolute(0)) if lods else np.ones(items.count, np.int64)

    def __len__(self) -> int:
        return self._open().items.count

    def __getitem__(self, place: int) -> Any:
        return self.__getitems__([place])[0]

    def __getitems__(self, places: Sequence[int] | Offsets) -> Batch:
        """Return several items as one batch; a DataLoader calls this."""
        opened = self._open()
        label = self.label
        wanted = item_numbers(places, opened.items.count, label)
        if opened.tensors is not None:
            found = taken(opened.tensors, wanted)
        else:
            with naming(label):
                found = opened.items.gather(wanted)
        for name in opened.classes:
            codes = found[name]
            found[name] = LoDTensor(codes.values.astype(np.int64), codes.lod, nulls=codes.nulls)
        return Batch(found, opened.single, label)

    def bytes_of(self, places: Offsets) -> int | None:
        """Return the bytes of these items in the file; None if it is in memory or mapped."""
        opened = self._open()
        if opened.tensors is not None:
            return None
        ends = opened.items.bytes
        return int((ends[places + 1] - ends[places]).sum())


class _Opened:
    """The file as opened by one process.

    Attributes:
        process: its number.
        content: the version of the file, and the names, dtypes and counts of its tensors.
        items: the items of the level.
        tensors: their content, if in memory or mapped.
        single: whether there is one tensor.
        classes: the names of tensors of categories.
        files: closes the file.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.process = os.getpid()
        self.tensors: dict[str, LoDTensor] | None = None
        options = read_options(None, dataset._keywords)
        with ExitStack() as files:
            file = files.enter_context(
                open_file(dataset._path, dataset._name, options=options, limits=dataset._limits)
            )
            schema, version = file.source.schema, _version(file)
            # Which tensors share items is known when all are counted.
            uncounted = dataset._name is None and any(spec.items is None for spec in schema)
            # Inner levels of several tensors may be equal without being stored as one.
            inner = dataset._name is None and dataset._level != 0
            every = [spec.name for spec in schema if uncounted or not spec.array]
            names = every if uncounted or inner else dataset._shared(schema).names
            source = in_place(file.source, names)
            if source is None:
                if not dataset._in_memory:
                    raise _in_order(file)
                source = files.enter_context(indexed(file.source, names))
            schema = source.schema
            counts = [(spec.name, str(spec.dtype), spec.items, spec.rows) for spec in schema]
            self.content = version, counts
            shared = dataset._shared(with_equal_levels(schema, source.lods) if inner else schema)
            self.items, names = Items(source, shared), shared.names
            self.single = len(names) == 1
            marks = {spec.name: spec.marks for spec in self.items.schema}
            self.classes = [name for name in names if marks[name].categories is not None]
            if dataset._in_memory:
                self.tensors = self.items.read(0, self.items.count)
            elif options.mmap:
                whole = file.source.read(names)
                lods = self.items.lods
                self.tensors = {
                    name: LoDTensor(item.values, lods[name], nulls=item.nulls)
                    for name, item in whole.items()
                    if isinstance(item, LoDTensor)
                }
            # If in memory or mapped, the file is closed here.
            self.files = ExitStack() if self.tensors is not None else files.pop_all()
            # Closed at the latest before the interpreter clears its modules.
            weakref.finalize(self, self.files.close)


def _version(file: OpenFile) -> object:
    """Return the checksum of a container's header; else a value that changes with the file."""
    source = _innermost(file.source)
    found = getattr(source, "header_crc32c", None)
    if found is not None:
        return found
    return source.version if isinstance(source, ManyFiles) else file.input.version


def _in_order(file: OpenFile) -> UnsupportedError:
    """Return the error for a file without random access, with advice."""
    what, remedies = file.kind.name, ["give in_memory=True"]
    if given := options_in_order(file.source):
        listed = " and ".join(f"{option}=" for option in given)
        what = f"{what} with {listed}"
        remedies.insert(0, f"leave out {listed}")
    elif isinstance(_innermost(file.source), ManyFiles):
        what = f"several files of {what}"
        remedies.insert(0, "make a dataset of them with `lod shard`")
    elif file.kind.name != "lod.h5":
        remedies.insert(0, "convert it to lod.h5")
    return UnsupportedError(
        f"{file.input.label}: {what} cannot be read in any order; {', or '.join(remedies)}"
    )


def _innermost(source: Source) -> Source:
    while isinstance(source, Wrapped):
        source = source.inner
    return source


def _value(item: Any) -> Any:
    if item is None:
        raise NullError(f"an item is null; a tensor of torch has no nulls: {without_nulls()}")
    if isinstance(item, LoDTensor):
        return item if item.lod.n_levels else rows_to_torch(item.data)
    return rows_to_torch(np.asarray(item))


Layout = Literal["jagged", "packed", "padded", "varlen", "lod"]


def collate(
    layout: Layout = "jagged", *, pad_value: npt.ArrayLike | Mapping[str, npt.ArrayLike] = 0
) -> Collate:
    """Return a function that makes batches of a Dataset's items, for `collate_fn` of a DataLoader.

    Args:
        layout: of items with one level of rows, as in LoDTensor.to_torch: "jagged", a nested tensor
            of torch.jagged; "padded", the padded tensor and the lengths; "packed", a
            PackedSequence; "varlen", values, cu_seqlens and max_seqlen. Or "lod": LoDTensors, whose
            items may have levels of their own.
        pad_value: of the layout "padded": the value, or the row, after the end of a sequence; or
            a dict of them by the names of tensors, such as {"ids": 3, "tags": -100}. Tensors that
            it does not name are padded with 0. The values of tuples are named "value 0", "value 1"
            and so on, those of a namedtuple by their fields.

    A tensor with one row per item, such as labels, becomes a dense tensor, without padding. Items
    may also come from another dataset: tensors of torch, or dicts or tuples of them; a namedtuple
    stays one.

    >>> batch = collate("padded")([torch.ones(1), torch.ones(3)])
    >>> batch[0].shape, batch[1].tolist()
    (torch.Size([2, 3]), [1, 3])
    """
    return Collate(layout, pad_value)


@dataclass(frozen=True, eq=False)
class Collate:
    """The function that `collate` returns; it can be pickled.

    Attributes:
        layout: of the batches.
        pad_value: of padded batches.
        caller: the function, or the class, whose arguments these are, for errors.
    """

    layout: Layout
    pad_value: npt.ArrayLike | Mapping[str, npt.ArrayLike] = 0
    caller: str = "collate"

    def __post_init__(self) -> None:
        layouts = get_args(Layout)
        if not isinstance(self.layout, str):
            collates = self.caller == "collate"
            how = "; call it for a DataLoader: collate_fn=collate()" if collates else ""
            raise OptionError(
                f"{self.caller}: layout: expected one of {', '.join(layouts)}, found "
                f"{type(self.layout).__name__}{how}"
            )
        if self.layout not in layouts:
            raise OptionError(
                f"{self.caller}: layout: expected one of {', '.join(layouts)}, found "
                f"{self.layout!r}{or_near(self.layout, layouts)}"
            )
        named = isinstance(self.pad_value, Mapping)
        values = self.pad_value if isinstance(self.pad_value, Mapping) else {"": self.pad_value}
        made = {name: _plain(value) for name, value in values.items()}
        object.__setattr__(self, "pad_value", made if named else made[""])
        if self.layout != "padded" and (
            isinstance(self.pad_value, Mapping) or np.any(np.asarray(self.pad_value) != 0)
        ):
            raise OptionError(
                f"{self.caller}: pad_value is for the layout 'padded'; {self.layout!r} has no "
                "padding"
            )

    def _key(self) -> object:
        """Return a key that is equal for equal functions; arrays are not compared or hashed."""
        value = self.pad_value
        named = isinstance(value, Mapping)
        arrays = {
            name: np.asarray(one)
            for name, one in (value if isinstance(value, Mapping) else {"": value}).items()
        }
        values = ((name, one.shape, *one.ravel().tolist()) for name, one in arrays.items())
        return self.layout, named, frozenset(values)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Collate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, items: Any) -> Any:
        """Return a batch of a Dataset's items, or of tensors of torch, dicts or tuples of them."""
        if isinstance(items, Sequence) and not isinstance(items, Batch) and _are_tuples(items):
            kind, fields = type(items[0]), getattr(items[0], "_fields", None)
            names = fields or [f"value {number}" for number in range(len(items[0]))]
            by_name = self([dict(zip(names, item, strict=True)) for item in items])
            return kind(*by_name.values()) if fields else tuple(by_name.values())
        batch = items if isinstance(items, Batch) else _joined(items)
        if isinstance(self.pad_value, Mapping):
            _require_padded(batch, self.pad_value, self.caller)
        offsets: dict[int, torch.Tensor] = {}
        several = len(batch.tensors) > 1
        found = {
            name: self._formed(batch.label, name, one, offsets, several=several)
            for name, one in batch.tensors.items()
        }
        return next(iter(found.values())) if batch.single else found

    def _formed(
        self,
        label: str,
        name: str,
        tensor: LoDTensor,
        offsets: dict[int, torch.Tensor],
        *,
        several: bool,
    ) -> Any:
        """Return one tensor of a batch.

        Args:
            label: of the batch.
            name: of the tensor.
            tensor: the items.
            offsets: of the nested tensors so far, by their index; those of equal sequences share
                them, so that torch combines them.
            several: whether the batch has other tensors.
        """
        if self.layout == "lod":
            return tensor
        if not tensor.lod.n_levels:
            with naming(label, name):
                return rows_to_torch(tensor.data)
        if (inner := tensor.lod.n_levels - 1) > 0:
            remedy = f", or with columns= that leave out {name}" if several else ""
            takes = 'collate("lod")' if self.caller == "collate" else 'layout="lod"'
            raise UnsupportedError(
                f"{self.caller}: {name}: an item has {inner} level{'s' if inner > 1 else ''} of "
                f"its own, and the layout {self.layout!r} of torch holds rows only; take {takes}, "
                "or a Dataset with level=-1, whose items are the finest sequences"
                f"{remedy}"
            )
        with naming(label, name):
            if self.layout == "jagged":
                found = jagged(tensor.data, tensor.lod, offsets.get(id(tensor.lod)))
                offsets[id(tensor.lod)] = found.offsets()
            elif self.layout == "padded":
                value = self.pad_value
                return padded(tensor, value.get(name, 0) if isinstance(value, Mapping) else value)
            else:
                found = tensor.to_torch(self.layout)
        return ready_to_hand(found) if in_worker() else found


def _plain(value: npt.ArrayLike) -> npt.ArrayLike:
    """Return a pad_value; a tensor of torch as an array, also of dtypes that NumPy lacks."""
    return rows_from_torch(value.detach().cpu()) if isinstance(value, torch.Tensor) else value


def _require_padded(batch: Batch, names: Iterable[str], caller: str) -> None:
    """Raise OptionError unless the batch has these tensors, and their sequences are padded."""
    for name in names:
        tensor = batch.tensors.get(name)
        if "" in batch.tensors:
            raise OptionError(
                f"{caller}: pad_value: expected one value, found a dict with {name!r}: the items "
                "have no names"
            )
        if tensor is None:
            raise OptionError(
                f"{caller}: pad_value: no tensor {name!r} in the batch; there are: "
                f"{listing(list(batch.tensors))}"
            )
        if not tensor.lod.n_levels:
            raise OptionError(
                f"{caller}: pad_value: {name!r} has one row per item and is not padded; leave it "
                "out"
            )


def _are_tuples(items: Sequence[Any]) -> bool:
    """Return whether items are tuples of one length.

    Raises:
        InvalidDataError: only some of them are.
    """
    sizes = [len(item) if isinstance(item, tuple) else None for item in items]
    if not sizes or sizes[0] is None:
        return False
    for place, size in enumerate(sizes):
        if size != sizes[0]:
            found = type(items[place]).__name__ if size is None else f"one of {size}"
            raise InvalidDataError(
                f"collate: item {place}: expected a tuple of {sizes[0]} values, found {found}"
            )
    return True


def _joined(items: Sequence[Any]) -> Batch:
    """Return single items as a batch: items of ConcatDataset, or of a dataset of the user."""
    if not isinstance(items, Sequence) or not len(items):
        found = "none" if isinstance(items, Sequence) else type(items).__name__
        raise InvalidDataError(f"collate: expected a list of items, found {found}")
    if isinstance(items[0], Mapping):
        names = list(items[0])
        for place, item in enumerate(items):
            if not isinstance(item, Mapping) or item.keys() != items[0].keys():
                what = ", ".join(item) if isinstance(item, Mapping) else type(item).__name__
                raise InvalidDataError(
                    f"collate: item {place}: expected a dict of {', '.join(names)}, found {what}"
                )
        tensors = {name: _of_values([item[name] for item in items], name) for name in names}
        return Batch(_equal(tensors), False)
    return Batch({"": _of_values(items)}, True)


def _equal(tensors: Mapping[str, LoDTensor]) -> dict[str, LoDTensor]:
    """Return the tensors; those of equal sequences share their index, as in a Dataset's batch."""
    lods, found = list[LoD](), dict[str, LoDTensor]()
    for name, tensor in tensors.items():
        lod = next((one for one in lods if one == tensor.lod), tensor.lod)
        lods.append(lod)
        found[name] = LoDTensor(tensor.values, lod, tensor.marks, tensor.nulls)
    return found


def _of_values(values: Sequence[Any], name: str | None = None) -> LoDTensor:
    """Return the values of all items, or those of one name."""
    field = "" if name is None else f", {name}"
    arrays = [_array(value, f"item {place}{field}") for place, value in enumerate(values)]
    single = not arrays[0].ndim
    for place, array in enumerate(arrays):
        if single != (not array.ndim):
            wanted = "a single value" if single else "rows"
            raise InvalidDataError(
                f"collate: item {place}{field}: expected {wanted}, as item 0 has, found the shape "
                f"{array.shape}"
            )
    with naming("collate", name or "items"):
        return LoDTensor(np.stack(arrays)) if single else LoDTensor.from_arrays(arrays)


def _array(value: Any, where: str) -> Array:
    """Return a value of an item as an array.

    Raises:
        UnsupportedError: it has levels.
        InvalidDataError: it does not consist of numbers.
    """
    if isinstance(value, LoDTensor):
        raise UnsupportedError("collate: items with levels come from a Dataset alone")
    if isinstance(value, torch.Tensor):
        with naming("collate", where):
            return rows_from_torch(value.detach().cpu())
    try:
        found = np.asarray(value)
    except ValueError:  # lists in it are of different lengths
        found = None
    if found is None or found.dtype.kind in "OSU":
        kind = type(value).__name__
        what = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else kind
        remedy = "; items of several values are tuples or dicts" if kind == "list" else ""
        raise InvalidDataError(
            f"collate: {where}: expected a tensor, an array or a number, found {what}{remedy}"
        )
    return found
