"""The record batches of several streams in one folder, in sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from lodcli.formats.arrow.files import Found, Records, Wanted, damage
from lodcli.formats.arrow.sizes.ipc import IpcFile
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, naming
from lodcli.formats.storage.inputs import Input


class Shards(Records):
    """Arrow IPC streams of equal columns. One is open at a time: there may be thousands.

    Raises:
        DamagedFileError: one is damaged, or its columns differ from those of the first.
    """

    def __init__(self, folder: Input, names: Sequence[str]) -> None:
        self._folder = folder
        self.bounds = folder.bounds
        self._counts: list[tuple[str, int]] = []
        self.plain = True
        for name in names:
            with self._opened(name) as file:
                if not self._counts:
                    self.schema = file.schema
                elif not file.schema.equals(self.schema):
                    raise DamagedFileError(
                        f"its columns are not those of {names[0]}: expected "
                        f"{_columns(self)}, found {_columns(file)}"
                    )
                self.plain &= file.plain
                if file.notes:  # save_to_disk always writes one
                    raise DamagedFileError(f"is truncated: it has no end marker{FETCH_AGAIN}")
                self._counts.append((name, file.count))
        self.count = sum(count for _, count in self._counts)

    @contextmanager
    def _opened(self, name: str) -> Iterator[IpcFile]:
        with naming(name), self._folder.beside(name) as source:
            yield IpcFile(source, stream=True)

    def batches(self, wanted: Wanted) -> Iterator[Found]:
        first = 0
        for name, count in self._counts:
            end = count if wanted.stop is None else min(count, wanted.stop - first)
            begin = max(0, wanted.start - first)
            if begin < end:
                with self._opened(name) as file:
                    for place, batch in file.batches(replace(wanted, start=begin, stop=end)):
                        yield first + place, batch
            first += count


def _columns(records: Records) -> str:
    with damage():  # a name may not be UTF-8
        return ", ".join(f"{field.name}: {field.type}" for field in records.schema)[:200]
