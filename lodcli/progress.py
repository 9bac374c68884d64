"""Progress on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

# What is over sooner needs no progress, and no time to load what draws it.
PATIENCE_SECONDS = 0.5


def shown(values: Iterable[T], sizes: Callable[[T], tuple[int, int]]) -> Iterator[T]:
    """Yield `values` and draw on standard error how many rows and bytes went by, how fast."""
    started = time.monotonic()
    rows = size_bytes = 0
    line = None
    try:
        for value in values:
            yield value
            more_rows, more_bytes = sizes(value)
            rows, size_bytes = rows + more_rows, size_bytes + more_bytes
            seconds = time.monotonic() - started
            if seconds > PATIENCE_SECONDS:
                line = line or Line()
                line.show(_described(rows, size_bytes, seconds))
    finally:
        if line is not None:
            line.remove()


def _described(rows: int, size_bytes: int, seconds: float) -> str:
    return (
        f"{rows:,} rows, {size_bytes / 1e6:,.1f} MB, {rows / seconds:,.0f} rows/s, "
        f"{size_bytes / seconds / 1e6:,.1f} MB/s"
    )


class Line:
    """One line of a terminal that is drawn again and again, by rich."""

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
