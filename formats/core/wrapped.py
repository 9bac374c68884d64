"""Base class of sources that change what another source gives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import Batch


class Wrapped(Source):
    """A source over another one, which it closes.

    A subclass defines `batches_of`. What it does not define besides follows from the batches, as
    for any Source: the inner source answers no request that the subclass does not know.

    Args:
        inner: the open file.
    """

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self.schema = inner.schema
        self.left_out = inner.left_out
        self.records = inner.records
        self.attributes = inner.attributes

    @property
    def checksums(self) -> str | None:  # type: ignore[override]
        """See Source."""
        return self._inner.checksums

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        """See Source."""
        return self._inner.notes

    @property
    def partial(self) -> bool:
        """See Source."""
        return super().partial and self._inner.partial

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        """See Source."""
        return self.batches_of([spec.name for spec in self.schema], limit_bytes)

    @abstractmethod
    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        """See Source."""

    def close(self) -> None:
        """See Source."""
        self._inner.close()

    def refuse_requests(self, label: str) -> None:
        """See Source."""
        super().refuse_requests(label)
        self._inner.refuse_requests(label)  # of batches that were asked for before
