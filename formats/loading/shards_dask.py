"""The shards of a dataset as delayed values of Dask."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Unpack

from lodcli.formats.catalogue.packages import Package
from lodcli.formats.core import io
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.losses import MOST_SHOWN
from lodcli.formats.core.names import listing
from lodcli.formats.core.options import ReadKeywords, read_options
from lodcli.formats.core.schema import Item, Schema, find
from lodcli.formats.dataset.source import DatasetSource
from lodcli.formats.loading.file import open_source
from lodcli.formats.remote.folder import RemoteFolder
from lodcli.formats.remote.urls import is_url, shown
from lodcli.formats.storage.inputs import absolute
from lodcli.kernels.errors import OptionError, SelectionError, UnsupportedError, counted
from lodcli.kernels.platform.files import PathLike

_PACKAGE = Package("dask", "lodcli[dask]")
_PACKAGE.require("lodcli.dask")

Read = Item | Mapping[str, Item]


def from_dataset(
    path: PathLike,
    name: str | None = None,
    *,
    limits: Limits | None = None,
    **keywords: Unpack[ReadKeywords],
) -> DelayedShards:
    """Return the shards of a dataset as delayed values, without reading them.

    A worker reads the shards of its tasks from the same path: only computed results that are
    fetched pass through the scheduler.

    Args:
        path: a dataset: a folder of `lod shard`, or its URL, which ends in a slash. The size and
            the header of each shard are compared with the manifest.
        name: the only tensor to read. None: all, as a dict by name.
        limits: for reading a shard.
        keywords: how to read it; see `lodcli.open`.

    Raises:
        UnsupportedError: this is not a dataset, or Dask is not installed.
        DamagedFileError: a shard is missing, or does not match the manifest.
        SelectionError, OSError, LodError: see `lodcli.open`.

    >>> import lodcli, tempfile
    >>> numbers = lodcli.LoDTensor([1, 2, 3, 4], [[2, 1, 1]])
    >>> folder = tempfile.mkdtemp() + "/numbers"
    >>> lodcli.write(folder, numbers, format_name="lod.dataset", shards=3)
    >>> shards = from_dataset(folder, "data")
    >>> shards[1].compute().data.tolist()
    [3]
    >>> [part.compute() for part in shards.map_batches(lambda batch: int(batch.data.sum()))]
    [[3], [3], [4]]
    """
    with io.open_file(path) as file:
        if not isinstance(file.source, DatasetSource):
            raise UnsupportedError(
                f"{file.input.label}: expected a dataset, found {file.kind.name}; `lod shard` "
                "makes one"
            )
        file.source.check()
        names = file.source.shard_names
    how, place = _Reading(name, limits, keywords), absolute(path)
    with how.opened(_within(place, names[0])) as shard:
        schema = shard.schema if name is None else (find(shard.schema, name),)
    return DelayedShards(place, tuple(names), schema, how)


@dataclass(frozen=True)
class _Reading:
    """Settings for reading shards."""

    name: str | None
    limits: Limits | None
    keywords: ReadKeywords

    def opened(self, path: str) -> Any:
        """Return a context manager that opens a shard."""
        return open_source(path, self.name, limits=self.limits, **self.keywords)

    def whole(self, path: str) -> Read:
        """Return the content of a shard."""
        options = read_options(None, self.keywords)
        if self.name is not None:
            return io.read(path, self.name, options=options, limits=self.limits)
        return io.read_all(path, options=options, limits=self.limits)

    def mapped(self, path: str, function: Callable[..., Any], batch_bytes: int) -> list[Any]:
        """Return the results of a function for each batch of a shard."""
        with self.opened(path) as shard:
            if self.name is None:
                return [function(batch) for batch in shard.batches(batch_bytes)]
            found = shard.batches_of([self.name], batch_bytes)
            return [function(batch[self.name]) for batch in found if self.name in batch]


@dataclass(frozen=True)
class DelayedShards(Sequence[Any]):
    """The result of `from_dataset`: a sequence with a `dask.delayed.Delayed` for each shard.

    Each is computed to a LoDTensor; or without a chosen name, to a dict of them.

    Attributes:
        path: the absolute path of the dataset; or its URL.
        names: the names of the files of its shards.
        schema: the tensors of a shard, as they are read; with the item counts of the first shard.
    """

    path: str
    names: tuple[str, ...]
    schema: Schema
    _how: _Reading

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        tensors = listing((spec.name for spec in self.schema), MOST_SHOWN)
        path = shown(self.path)
        path = path if path.isprintable() else ascii(path)
        return f"<DelayedShards {path}: {counted(len(self), 'shard')} of {tensors}>"

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[number] for number in range(len(self))[place]]
        return self._delayed(self._how.whole, place)

    def map_batches(
        self, function: Callable[[Any], Any], *, batch_bytes: int = BATCH_BYTES
    ) -> list[Any]:
        """Return a delayed value for each shard: the list of a function's results for its batches.

        A worker holds one batch at a time, and the results of a shard.

        Args:
            function: called with a LoDTensor of whole outermost items; without a name, a dict of
                them.
            batch_bytes: approximate size of a batch.

        Raises:
            OptionError: `function` is not callable, or the size is not a whole number from 1.
        """
        if not callable(function):
            raise OptionError(f"function: expected a function, found {type(function).__name__}")
        if not isinstance(batch_bytes, Integral) or batch_bytes < 1:
            raise OptionError(f"batch_bytes: expected a whole number from 1, found {batch_bytes!r}")
        return [
            self._delayed(self._how.mapped, number, function, batch_bytes)
            for number in range(len(self))
        ]

    def _delayed(self, read: Callable[..., Any], number: int, *args: Any) -> Any:
        from dask.delayed import delayed

        if not -len(self) <= number < len(self):
            raise SelectionError(f"no shard {number}: there are {len(self)}")
        name = self.names[number]
        return delayed(read, name=None, traverse=False)(
            _within(self.path, name), *args, dask_key_name=_key(read.__name__, name)
        )


def _within(folder: str, name: str) -> str:
    """Return the path or the URL of a file of a folder."""
    return RemoteFolder(folder).url_of(name) if is_url(folder) else os.path.join(folder, name)


def _key(what: str, name: str) -> str:
    """Return a unique key, which is readable in Dask's dashboard."""
    from uuid import uuid4

    return f"lod-{what}-{name}-{uuid4().hex}"
