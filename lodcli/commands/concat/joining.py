"""Several sources as one: their common schema and their batches in sequence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from lodcli.formats.core import registry
from lodcli.formats.core.errors import append_text, naming_file
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, Schema
from lodcli.formats.items.concatenated import (
    as_item,
    as_joined,
    below,
    joined_schema,
    require_equal_names,
)
from lodcli.formats.several.fitting import Fitting, Part
from lodcli.formats.structs.presence import as_described, with_equal_records
from lodcli.kernels.errors import SelectionError
from lodcli.shell.limits import reading
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
        parts = [_Source(source, stack, few=few) for source in sources]
        # Chosen tensors may have another name in each file, so none is lacking.
        are_whole = all(part.name is None for part in parts)
        nulls = reading(ReadOptions()).nulls if are_whole else "error"
        fitting = Fitting([part.held for part in parts], nulls)
        first, name = fitting.first, parts[fitting.first].name
        chosen = parts[first].selected(fitting.model)
        for part in parts:
            part.fit(fitting, name, chosen)
        labels = [one.label for one in sources]
        own = [part.selected(part.schema) for part in parts]
        require_equal_names(own, labels, first, fitting.remedy)
        # Of the whole files: of records with one field, another tensor marks the null ones.
        described = with_equal_records([part.schema for part in parts])
        schemas = [part.selected(whole) for part, whole in zip(parts, described, strict=True)]
        schema = joined_schema(schemas, labels, first, fitting.origins)
        contents = (
            as_joined(part.batches(whole), own, schema)
            for part, whole, own in zip(parts, described, schemas, strict=True)
        )
        if new_level is None:
            yield schema, (batch for content in contents for batch in content)
        else:
            items = (as_item(content, schema, new_level) for content in contents)
            yield below(schema, new_level, len(parts)), items


class _Source:
    """One source. A pipe, and each of few containers, stays open; a file is opened again.

    Args:
        stack: closes it, if it stays open.
        few: whether there are few sources.

    Attributes:
        held: what the whole file holds.
        name: that of the tensor or records that are selected; None for all.
    """

    def __init__(self, source: Reference, stack: ExitStack, *, few: bool) -> None:
        self.source, self.name = source, source.name
        self.opened: Opened | None = None
        with ExitStack() as opening:
            file = opening.enter_context(opened(source))
            self.held = Part.of(file.source, registry.get(file.format_name))
            if not self.held.nameless:
                try:
                    self.selected(self.held.schema)
                except SelectionError as error:
                    if reading(ReadOptions()).nulls not in (None, "error"):
                        said = f"without ::{self.name}, tensors that some files lack are null"
                        append_text(error, said)
                    raise
            pipe = not (os.path.isfile(source.path) or os.path.isdir(source.path))
            if pipe or (few and file.format_name == "lod.h5"):
                self.opened = file
                stack.enter_context(opening.pop_all())

    def fit(self, fitting: Fitting, name: str | None, chosen: Schema) -> None:
        """Make the file fit the others.

        Args:
            fitting: of all files.
            name: what is selected of the first file with values.
            chosen: the selected tensors.
        """
        held, model = self.held, None
        if held.nameless:
            self.name = name if self.name in (None, DEFAULT_NAME) else self.name
        elif held.untyped:  # a header names other columns as well
            model, held = chosen, replace(held, schema=self.selected(held.schema))
            self.name = None
        with naming_file(self.source.label):
            self._fitted = fitting.fitted(held, model)

    @property
    def schema(self) -> Schema:
        """The tensors of the whole file that fits; of a header only the selected ones."""
        return self._fitted.schema

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
            source = self._fitted.applied(file.source)
        return replace(file, reference=self._reference, source=as_described(source, schema))
