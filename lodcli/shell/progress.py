"""Progress on a terminal: amount, speed, and the share that is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from lodcli.formats.core.schema import Batch, Schema, outline, total
from lodcli.formats.storage.interrupts import checked
from lodcli.shell.output import is_quiet, is_terminal

T = TypeVar("T")
ReadShare = Callable[[], float | None]

# Shorter work shows no progress, and does not load rich.
PATIENCE_SECONDS = 0.5


class Passed(NamedTuple):
    """Counts of data that was processed: rows, their bytes, and outermost items."""

    rows: int
    size_bytes: int
    items: int = 0


def progressing(
    values: Iterable[T], counted: Callable[[T], Passed], share: Callable[[Passed], float | None]
) -> Iterator[T]:
    """Yield `values`, raise pending interrupts between them, and show progress on a terminal.

    Args:
        values: batches, for instance.
        counted: returns the counts of a value.
        share: called with the counts of each value in turn; returns the share processed so far,
            from 0 to 1, or None if it is unknown.
    """
    if is_quiet() or not is_terminal(sys.stderr):
        yield from checked(values)
        return
    started = time.monotonic()
    rows = size_bytes = 0
    line = None
    try:
        for value in checked(values):
            yield value
            passed = counted(value)
            rows, size_bytes = rows + passed.rows, size_bytes + passed.size_bytes
            done = share(passed)
            seconds = time.monotonic() - started
            if seconds > PATIENCE_SECONDS:
                line = line or _Line()
                line.show(_described(rows, size_bytes, seconds, done))
    finally:
        if line is not None:
            line.remove()


def progressing_batches(
    batches: Iterable[Batch], schema: Schema, read_share: ReadShare | None = None
) -> Iterator[Batch]:
    """Yield batches as `progressing` does; for schema and read_share see `share_of`."""
    return progressing(batches, passed_by, share_of(schema, read_share))


def progressing_counts(
    counts: Iterable[Passed], schema: Schema, read_share: ReadShare | None
) -> Iterator[Passed]:
    """Yield the counts of batches as `progressing_batches` does with batches."""
    return progressing(counts, lambda one: one, share_of(schema, read_share))


def share_of(
    schema: Schema, read_share: ReadShare | None = None
) -> Callable[[Passed], float | None]:
    """Return a function that takes the counts of each batch and returns the share done so far.

    Args:
        schema: of all batches together: the share is that of rows or else of outermost items.
        read_share: used if the schema has neither number.
    """
    rows = total([spec.rows for spec in schema])
    items = total([spec.items for spec in schema])
    done = 0

    def share(passed: Passed) -> float | None:
        nonlocal done
        if rows is not None:
            done += passed.rows
            return done / max(1, rows)
        if items is not None:
            done += passed.items
            return done / max(1, items)
        return None if read_share is None else read_share()

    return share


def passed_by(batch: Batch) -> Passed:
    """Return the counts of a batch."""
    tensors = [outline(item) for item in batch.values()]
    return Passed(
        sum(tensor.rows for tensor in tensors),
        sum(tensor.nbytes for tensor in tensors),
        sum(map(len, tensors)),
    )


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """Yield a function that replaces the progress line on the terminal by a text."""
    if is_quiet() or not is_terminal(sys.stderr):
        yield lambda text: None
        return
    line = _Line()
    try:
        yield line.show
    finally:
        line.remove()


def _described(rows: int, size_bytes: int, seconds: float, share: float | None) -> str:
    text = (
        f"{rows:,} rows, {size_bytes / 1e6:,.1f} MB, {rows / seconds:,.0f} rows/s, "
        f"{size_bytes / seconds / 1e6:,.1f} MB/s"
    )
    if not share:
        return text
    share = min(share, 1.0)
    return f"{text}, {share:.0%}, {_duration(seconds * (1 - share) / share)} left"


def _duration(seconds: float) -> str:
    """Return a time as people read it, such as "9 s", "2:05 min" or "1:00 h"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02} h"


class _Line:
    """One line of a terminal that is redrawn, by rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
        self._live.start()

    def show(self, text: str) -> None:
        from rich.text import Text

        self._live.update(Text(text, no_wrap=True), refresh=True)

    def remove(self) -> None:
        self._live.stop()
