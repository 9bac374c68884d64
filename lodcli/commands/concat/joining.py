"""Several sources as one: their common schema and their batches in sequence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from lodcli.formats.core import registry
from lodcli.formats.core.errors import changed_while_read, naming_file
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.items.concatenated import (
    as_item,
    as_joined,
    below,
    joined_schema,
    require_equal_names,
)
from lodcli.formats.structs.presence import as_described, with_equal_records
from lodcli.formats.values.fitting import fitted, fitted_schema
from lodcli.shell.opened import Opened, opened, selected
from lodcli.shell.references import Reference

# Containers that stay open: reading the structure of one takes time, and its index memory.
MOST_KEPT = 8


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
        few = len(sources) <= MOST_KEPT
        parts = [_Part(source, stack, few=few) for source in sources]
        first = next((place for place, part in enumerate(parts) if not part.untyped), None)
        if first is not None:
            model = parts[first].schema, parts[first].selected(parts[first].schema)
            for part in parts:
                part.fit(*model)
        first = first or 0
        labels = [one.label for one in sources]
        require_equal_names([part.selected(part.schema) for part in parts], labels, first)
        # Of the whole files: of records with one field, another tensor marks the null ones.
        described = with_equal_records([part.schema for part in parts])
        schemas = [part.selected(whole) for part, whole in zip(parts, described, strict=True)]
        schema = joined_schema(schemas, labels, first)
        contents = (
            as_joined(part.batches(whole), own, schema)
            for part, whole, own in zip(parts, described, schemas, strict=True)
        )
        if new_level is None:
            yield schema, (batch for content in contents for batch in content)
        else:
            items = (as_item(content, schema, new_level) for content in contents)
            yield below(schema, new_level, len(parts)), items


class _Part:
    """One source. A pipe, and each of few containers, stays open; a file is opened again.

    Args:
        source: the file.
        stack: closes it, if it stays open.
        few: whether there are few sources.

    Attributes:
        schema: of the whole file; after `fit`, of one without values only the selected tensors.
        untyped: whether it has no values; see Source.
    """

    def __init__(self, source: Reference, stack: ExitStack, *, few: bool) -> None:
        self.source = source
        self.opened: Opened | None = None
        self._is_selected = False  # whether the schema holds only the selected tensors
        with ExitStack() as opening:
            file = opening.enter_context(opened(source))
            self.schema, self.untyped = file.source.schema, file.source.untyped
            self._kind = registry.get(file.format_name)
            if not self.untyped:
                self.selected(self.schema)  # raises the error for its name
            pipe = not (os.path.isfile(source.path) or os.path.isdir(source.path))
            if pipe or (few and file.format_name == "lod.h5"):
                self.opened = file
                stack.enter_context(opening.pop_all())

    def fit(self, first: Schema, chosen: Schema) -> None:
        """Give the file the schema that fits the first one with values.

        Args:
            first: the schema of that file.
            chosen: the selected tensors of it.
        """
        own = self.schema
        if self.untyped:
            first = chosen
            if not self._kind.empty_file:  # its header names its tensors
                own = selected(self.source, own)
        self.schema = fitted_schema(first, own, self._kind, untyped=self.untyped)
        self._is_selected = self.untyped

    def selected(self, schema: Schema) -> Schema:
        """Return the selected tensors of a schema of the file."""
        return schema if self._is_selected else selected(self.source, schema)

    def batches(self, described: Schema) -> Iterator[Batch]:
        """Yield the batches of the selected tensors of a schema from `with_equal_records`."""
        if self.opened is not None:
            yield from self._described(self.opened, described).batches()
            return
        with opened(self.source) as file:
            yield from self._described(file, described).batches()

    def _described(self, file: Opened, schema: Schema) -> Opened:
        """Return the file with the tensors of a schema from `with_equal_records`."""
        source = fitted(file.source, self.schema)
        if source.schema != self.schema:
            with naming_file(self.source.label):
                raise changed_while_read()
        reference = replace(self.source, name=None) if self._is_selected else self.source
        return replace(file, reference=reference, source=as_described(source, schema))
