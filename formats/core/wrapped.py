"""Base class of sources that wrap another source and change its output."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from lodcli.formats.core.format import BATCH_BYTES, SelectiveSource, Source
from lodcli.formats.core.schema import Batch, Item
from lodcli.kernels.index.lod import LoD


class Wrapped(SelectiveSource):
    """A source over another one, which it closes.

    A subclass defines `batches_of`. Requests that it does not define are computed from the
    batches, as in any Source; they are not passed on to the inner source.

    Attributes:
        option: the option for reading that changes rows, which are then read in order; None if
            rows are as in the file.
    """

    option: str | None = None

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self.schema = inner.schema
        self.left_out = inner.left_out
        self.records, self.has_keys = inner.records, inner.has_keys
        self.equal_items = inner.equal_items
        self.untyped, self.valueless = inner.untyped, inner.valueless
        self.attributes = inner.attributes

    @property
    def inner(self) -> Source:
        """The open file."""
        return self._inner

    @property
    def checksums(self) -> str | None:  # type: ignore[override]
        return self._inner.checksums

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        return self._inner.notes

    @property
    def partial(self) -> bool:
        return super().partial and self._inner.partial

    def close(self) -> None:
        self._inner.close()


class Overlapping(Wrapped):
    """A file read front to back by several readers at the same time, interleaved or in threads.

    A reader uses the inner source, unless another reader does: two would move each other's
    position. Then the file is opened again.

    Args:
        again: opens the same file again.
        repeats: whether `inner` can be read more than once.
    """

    def __init__(
        self, inner: Source, again: Callable[[], AbstractContextManager[Source]], *, repeats: bool
    ) -> None:
        super().__init__(inner)
        self._again = again
        self._repeats = repeats
        self._taken = threading.Lock()

    @contextmanager
    def _reading(self) -> Iterator[Source]:
        """Yield a source that no other reader uses."""
        if not self._taken.acquire(blocking=False):
            with self._again() as further:
                yield further
            return
        try:
            yield self._inner
        finally:
            if self._repeats:
                self._taken.release()

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        with self._reading() as source:
            yield from source.batches_of(names, limit_bytes)

    def read(self, names: Iterable[str] | None = None) -> dict[str, Item]:
        with self._reading() as source:
            return source.read(names)

    def read_index(self, name: str) -> LoD:
        with self._reading() as source:
            return source.read_index(name)
