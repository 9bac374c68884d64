"""Append-only file object for zipfile, torch.save and pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lodcli.formats.storage.outputs import Output


class Sink:
    """An output as a file object without seek and tell, unbuffered."""

    closed = False

    def __init__(self, output: Output) -> None:
        self._output = output
        self._error: BaseException | None = None

    def write(self, data: Any) -> int:
        """Write all of `data`."""
        view = memoryview(data)
        try:
            self._output.write(view)
        except BaseException as error:
            self._error = error
            raise
        return view.nbytes

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        """The output stays open."""

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise the original error of `write`, not the one a library derived from it."""
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise
