"""Content of small files, read while they are open for their schema."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from lodcli.formats.core.batching import bytes_of, only
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import Batch
from lodcli.formats.storage.inputs import Input, file_version
from lodcli.kernels.errors import LodError
from lodcli.kernels.runtime.memory_budget import memory_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Maximum size of a small file, stored and in memory.
_FILE_BYTES = 64 << 10
# Maximum size of all that are kept; with a memory budget, at most one part in so many of it.
_ALL_BYTES = 64 << 20
_SHARE = 8
# Memory of a tensor besides its arrays.
_TENSOR_BYTES = 1500
# `gathered` joins the batches of tensors up to this share of a limit.
_GATHERED = 8


class SmallFiles:
    """Content of small files, each kept until it is read once."""

    def __init__(self) -> None:
        budget = memory_budget()
        self._left = _ALL_BYTES if budget is None else min(_ALL_BYTES, budget // _SHARE)
        self._files: dict[str, _SmallFile] = {}

    def keep(self, path: str, source: Source, opened: Input) -> None:
        """Read an open file and keep its content, unless it is large or cannot be read.

        An error is left to the next reader.
        """
        stored = opened.stored_bytes
        most = min(_FILE_BYTES, self._left)
        least = len(source.schema) * _TENSOR_BYTES
        # Of a file behind a URL there is no version, with others beside it there are several.
        if stored is None or stored + least > most or len(opened.version) != 1:
            return
        batches, nbytes = [], 0
        try:
            for batch in source.batches():
                if not all(isinstance(item, LoDTensor) for item in batch.values()):
                    return
                nbytes += bytes_of(batch) + len(batch) * _TENSOR_BYTES
                if nbytes > most:
                    return
                batches.append(batch)
        except (LodError, OSError):
            return
        self._left -= nbytes
        self._files[path] = _SmallFile(source, batches, nbytes, opened.version[0])

    def take(self, path: str, limit_bytes: int) -> Source | None:
        """Return the content of a file, and keep it no longer.

        None if it is not kept, was changed since, or is too large for one batch.
        """
        found = self._files.pop(path, None)
        if found is None or found.nbytes > limit_bytes // _GATHERED:
            return None
        try:
            return found if file_version(os.stat(path)) == found.version else None
        except OSError:
            return None


class _SmallFile(Source):
    def __init__(
        self, source: Source, batches: list[Batch], nbytes: int, version: tuple[int, ...]
    ) -> None:
        self.schema, self.records, self.notes = source.schema, source.records, [*source.notes]
        self._batches, self.nbytes, self.version = batches, nbytes, version

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        return iter(self._batches)

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        return only(self._batches, [*names])
