"""Handles errors in zarr's event loop and threads, after which zarr would wait forever."""

from __future__ import annotations

import functools
import logging
import warnings

from lodcli.formats.storage import interrupts


@functools.cache
def interrupt_for_lost_errors() -> None:
    """On the command line, let a lack of memory in zarr's threads end the command silently."""
    if interrupts.are_installed():
        warnings.filterwarnings("ignore", "coroutine .* was never awaited")
        for name in ("asyncio", "concurrent.futures"):
            logging.getLogger(name).addHandler(_Handler(logging.ERROR))


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Handle an error that the standard library only logs."""
        error = record.exc_info[1] if record.exc_info else None
        if error and not interrupts.thread_failed(error) and logging.lastResort:
            logging.lastResort.handle(record)
