"""Writing the parts of a file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from lodcli.commands.choose.choosing import items_of, named
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
    with items_of(source, level) as items:
        order = None if seed is None else shuffled(items.count, seed)
        ends = items.bytes
        if order is not None:
            ends = lengths_to_offsets(ends[order + 1] - ends[order], level=0)
        borders = list(pairwise(how.borders(ends)))
        paths = pattern.names(len(borders))
        batches = items.range(0, items.count) if order is None else reordered(items, order)
        divider = Divider(named(source, batches))
        written = []

        def parts() -> Iterator[tuple[Schema, Iterator[Batch]]]:
            for path, (start, stop) in zip(paths, borders, strict=True):
                chosen = slice(start, stop) if order is None else order[start:stop]
                schema = items.counted(chosen)
                rows = max(spec.rows or 0 for spec in schema)
                written.append({"file": path, "items": stop - start, "rows": rows})
                yield schema, iter(divider.part(stop - start))

        target.write_set(paths, parts())
        for file, one in zip(target.written, written, strict=False):
            file.update(one)  # type: ignore[typeddict-item]
        return written
