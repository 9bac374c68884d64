"""Verifying the shards of a dataset one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from lodcli.formats.container.format import Container
from lodcli.formats.core.errors import naming_source
from lodcli.formats.dataset.source import DatasetSource
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.interrupts import shielded
from lodcli.kernels.errors import InvalidDataError, LodError
from lodcli.kernels.options import for_shell

# Most shards in one task: enough that opening the manifest takes a small part of its time.
_MOST_SHARDS = 64


_Found = tuple[int, list[Exception]]


class _Task(NamedTuple):
    """Shards to read."""

    path: str
    numbers: tuple[int, ...]


def verified_dataset(
    path: str, *, quick: bool, jobs: int, faults: list[Exception]
) -> dict[str, Any]:
    """Return a summary of a dataset, and append its errors to `faults`.

    Args:
        quick: whether only sizes and headers are checked, and no rows.
        jobs: the number of processes that read shards.
        faults: receives at most one error for each shard.
    """
    with _opened(path) as source:
        wrong = {name: error for name, error in source.faults()}
        for error in wrong.values():
            faults.append(_named(path, error))
        numbers = [n for n, name in enumerate(source.shard_names) if name not in wrong]
        schema, count = source.schema, len(source.shard_names)
    size_bytes, checked = 0, f"sizes and headers of {count} shards"
    if not quick:
        checked = Container.checksums
        step = max(1, min(_MOST_SHARDS, len(numbers) // (4 * jobs)))
        tasks = [_Task(path, tuple(numbers[n : n + step])) for n in range(0, len(numbers), step)]
        for size, found in _all_read(tasks, jobs):
            size_bytes += size
            faults += found
    return {
        "format": "lod.dataset",
        "tensors": len(schema),
        "rows": sum(spec.rows or 0 for spec in schema),
        "levels": max(len(spec.levels) for spec in schema),
        "bytes": size_bytes,
        "checksums": checked,
        "checked": checked,
    }


def _all_read(tasks: list[_Task], jobs: int) -> list[_Found]:
    if jobs == 1:
        return [_read(task) for task in tasks]
    from lodcli.kernels.runtime.worker_processes import in_processes

    def lost(_: _Task, error: OSError) -> _Found:
        return 0, [error]

    with closing(in_processes(_read, tasks, jobs, lost=lost, shield=shielded)) as found:
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]


@for_shell()
def _read(task: _Task) -> _Found:
    """Read shards; return the bytes of their rows, and the errors."""
    size_bytes = 0
    faults: list[Exception] = []
    with _opened(task.path) as source:
        for number in task.numbers:
            try:
                size_bytes += sum(source.check_shard(number))
            except LodError as error:
                faults.append(_named(task.path, error))
            except OSError as error:
                faults.append(error)
    return size_bytes, faults


@contextmanager
def _opened(path: str) -> Iterator[DatasetSource]:
    with naming_source(path), Input(path) as folder:
        source = DatasetSource(folder)
        try:
            yield source
        finally:
            source.close()


def _named(path: str, error: LodError) -> InvalidDataError:
    """Return an error of a class that can be pickled, with the path."""
    return InvalidDataError(f"{path}: {error}")
