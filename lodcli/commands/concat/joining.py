"""Several sources as one: their common schema and their batches in sequence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.items.concatenated import as_item, as_joined, below, joined_schema
from lodcli.shell.opened import Opened, opened
from lodcli.shell.references import Reference


@contextmanager
def joined(
    sources: Sequence[Reference], new_level: str | None = None
) -> Iterator[tuple[Schema, Iterator[Batch]]]:
    """Yield the common schema of all sources, and their batches one after another.

    Args:
        sources: the files, in this order.
        new_level: the name of a new outermost level, of which each source is one item.
    """
    with ExitStack() as stack:
        parts = [_Part(source, stack) for source in sources]
        schema = joined_schema([part.schema for part in parts], [one.label for one in sources])
        contents = (as_joined(part.batches(), part.schema, schema) for part in parts)
        if new_level is None:
            yield schema, (batch for content in contents for batch in content)
        else:
            items = (as_item(content, schema, new_level) for content in contents)
            yield below(schema, new_level, len(parts)), items


class _Part:
    """One source. A pipe stays open, since it can be read only once; a file is opened again."""

    def __init__(self, source: Reference, stack: ExitStack) -> None:
        self.source = source
        self.opened: Opened | None = None
        if os.path.isfile(source.path) or os.path.isdir(source.path):
            with opened(source) as file:
                self.schema = file.schema
        else:
            self.opened = stack.enter_context(opened(source))
            self.schema = self.opened.schema

    def batches(self) -> Iterator[Batch]:
        if self.opened is not None:
            yield from self.opened.batches()
            return
        with opened(self.source) as file:
            yield from file.batches()
