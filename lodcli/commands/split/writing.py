"""Writing the parts of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from lodcli.commands.choose.choosing import Batches, increasing_items_of, items_of, named
from lodcli.commands.split.cutting import How
from lodcli.commands.split.naming import Pattern
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.items.dividing import Divider
from lodcli.formats.items.random_order import shuffled
from lodcli.formats.items.reordering import reordered
from lodcli.kernels.index.checks import lengths_to_offsets
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


def split(
    source: Reference,
    how: How,
    level: int | str | None,
    seed: int | None,
    pattern: Pattern,
    target: Target,
) -> list[dict[str, Any]]:
    """Write the items of a level to several files, read in one pass.

    Returns:
        The name of each file, and how many items and rows it has.
    """
    with _divided(source, how, level, seed) as (ends, counted, batches):
        borders = list(pairwise(ends))
        paths = pattern.names(len(borders))
        divider = Divider(named(source, batches))
        written = []

        def parts() -> Iterator[tuple[Schema, Iterator[Batch]]]:
            for path, (start, stop) in zip(paths, borders, strict=True):
                result: dict[str, Any] = {"file": path, "items": stop - start, "rows": 0}
                written.append(result)
                yield counted(start, stop), _counting_rows(divider.part(stop - start), result)

        target.write_set(paths, parts())
        for file, one in zip(target.written, written, strict=False):
            file.update(one)  # type: ignore[typeddict-item]
        return written


@contextmanager
def _divided(
    source: Reference, how: How, level: int | str | None, seed: int | None
) -> Iterator[tuple[list[int], Callable[[int, int], Schema], Batches]]:
    """Yield the boundaries of the parts in items, the schema of a part, and all batches."""
    if seed is None and how.size_bytes is None:
        with increasing_items_of(source, level) as found:
            ends = how.borders(found.count, None)
            yield ends, lambda a, b: found.counted(slice(a, b)), found.range(0, found.count)
        return
    with items_of(source, level) as items:
        order = None if seed is None else shuffled(items.count, seed)
        sizes = None
        if how.size_bytes is not None:
            sizes = items.bytes
            if order is not None:
                sizes = lengths_to_offsets(sizes[order + 1] - sizes[order], level=0)
        ends = how.borders(items.count, sizes)
        if order is None:
            yield ends, lambda a, b: items.counted(slice(a, b)), items.range(0, items.count)
        else:
            yield ends, lambda a, b: items.counted(order[a:b]), reordered(items, order)


def _counting_rows(batches: Batches, result: dict[str, Any]) -> Iterator[Batch]:
    """Yield batches, and set "rows" to the rows of the tensor with most."""
    rows: dict[str, int] = {}
    for batch in batches:
        for name, tensor in batch.items():
            rows[name] = rows.get(name, 0) + tensor.rows
        result["rows"] = max(rows.values())
        yield batch
