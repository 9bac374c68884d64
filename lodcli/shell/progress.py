"""Progress on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

# Shorter work shows no progress, and does not load rich.
PATIENCE_SECONDS = 0.5


def shown(
    values: Iterable[T],
    sizes: Callable[[T], tuple[int, int]],
    share: Callable[[T], float | None],
) -> Iterator[T]:
    """Yield `values` and show progress on standard error: amount, speed and time left.

    Args:
        values: batches, for instance.
        sizes: returns the rows and bytes of a value.
        share: called with each value in turn; returns the share processed so far, from 0 to 1, or
            None if it is unknown.
    """
    started = time.monotonic()
    rows = size_bytes = 0
    line = None
    try:
        for value in values:
            yield value
            more_rows, more_bytes = sizes(value)
            rows, size_bytes = rows + more_rows, size_bytes + more_bytes
            done = share(value)
            seconds = time.monotonic() - started
            if seconds > PATIENCE_SECONDS:
                line = line or Line()
                line.show(_described(rows, size_bytes, seconds, done))
    finally:
        if line is not None:
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


class Line:
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
