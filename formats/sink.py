"""What zipfile and torch.save need of a file that they only ever append to."""

from __future__ import annotations

from typing import Any

from lodcli.formats.outputs import Output


class Sink:
    """An output as a file object without seek and tell: written straight through."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def write(self, data: Any) -> int:
        """Write all of `data`."""
        self._output.write(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is held back here."""
