"""Several sources as one: their common schema and their batches in sequence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from lodcli.formats.core import registry
from lodcli.formats.core.errors import naming_file
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, Schema
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
        first = min(range(len(parts)), key=lambda place: parts[place].unknown)
        model = parts[first].schema, parts[first].name
        chosen = parts[first].selected(model[0])
        for part in parts:
            part.fit(*model, chosen)
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
        schema: of the whole file; after `fit`, of a header only the selected tensors.
        name: that of the tensor or records that are selected; None for all.
        unknown: 2 if the file does not tell its tensors, 1 if it does not tell their dtypes; else
            0.
    """

    def __init__(self, source: Reference, stack: ExitStack, *, few: bool) -> None:
        self.source, self.name = source, source.name
        self.opened: Opened | None = None
        with ExitStack() as opening:
            file = opening.enter_context(opened(source))
            self.schema, self._kind = file.source.schema, registry.get(file.format_name)
            self.unknown = (1 + self._kind.empty_file) if file.source.untyped else 0
            if self.unknown < 2:
                self.selected(self.schema)  # raises the error for its name
            pipe = not (os.path.isfile(source.path) or os.path.isdir(source.path))
            if pipe or (few and file.format_name == "lod.h5"):
                self.opened = file
                stack.enter_context(opening.pop_all())

    def fit(self, first: Schema, name: str | None, chosen: Schema) -> None:
        """Give the file a schema that fits another one.

        Args:
            first: the schema of the first file that tells most.
            name: what is selected of it.
            chosen: the selected tensors.
        """
        own = self.schema
        if self.unknown == 2 and self.name in (None, DEFAULT_NAME):
            self.name = name
        elif self.unknown == 1:  # a header names other columns as well
            first, own, self.name = chosen, self.selected(own), None
        self.schema = fitted_schema(first, own, self._kind, untyped=self.unknown > 0)

    def selected(self, schema: Schema) -> Schema:
        """Return the selected tensors of a schema of the file."""
        return selected(self._reference, schema)

    @property
    def _reference(self) -> Reference:
        return replace(self.source, name=self.name)

    def batches(self, described: Schema) -> Iterator[Batch]:
        """Yield the batches of the selected tensors of a schema from `with_equal_records`."""
        if self.opened is not None:
            yield from self._described(self.opened, described).batches()
            return
        with opened(self.source) as file:
            yield from self._described(file, described).batches()

    def _described(self, file: Opened, schema: Schema) -> Opened:
        """Return the file with the tensors of a schema from `with_equal_records`."""
        with naming_file(self.source.label):
            source = fitted(file.source, self.schema)
        return replace(file, reference=self._reference, source=as_described(source, schema))
