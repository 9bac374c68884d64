"""Files of which others may have their columns in another order, or no values.

A file without values, such as a log of a day without events, does not tell the dtypes, nor, in JSON
lines, the names of its tensors: it fits any other file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lodcli.formats.core.errors import changed_while_read
from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.schema import Batch, Schema, find_all
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.structs.names import names_without_told
from lodcli.formats.values.relabelled import Relabelled


def fitted_schema(first: Schema, own: Schema, kind: Format, *, untyped: bool) -> Schema:
    """Return the schema of a file that is to be joined with others.

    Args:
        first: the schema of the first file with values.
        own: that of this file.
        kind: its format.
        untyped: whether it has no values; see Source.

    Returns:
        The schema with its tensors in the order of `first`, or that of `first` without values;
        `own` if it has other tensors.
    """
    has_names = not (untyped and kind.empty_file)
    if has_names and {*names_without_told(own)} != {*names_without_told(first)}:
        return own
    if untyped:
        return tuple(
            replace(spec, rows=0, levels=tuple(replace(level, items=0) for level in spec.levels))
            for spec in first
        )
    places = {spec.name: place for place, spec in enumerate(first)}
    # Those that `first` lacks store null records; `with_equal_records` finds their places.
    found = tuple(sorted(own, key=lambda spec: places.get(spec.name, len(places))))
    return own if found == own else found


def fitted(source: Source, schema: Schema) -> Source:
    """Return a file with a schema from `fitted_schema`, given when it was opened before.

    Raises:
        DamagedFileError: it was changed since.
    """
    if source.schema == schema:
        return source
    if source.untyped and all(spec.rows == 0 for spec in schema):
        return _Empty(source, schema)
    specs = {spec.name: spec for spec in source.schema}
    if tuple(specs.get(spec.name) for spec in schema) != schema or len(specs) != len(schema):
        raise changed_while_read()
    return Relabelled(source, {spec.name: spec for spec in schema})


class _Empty(Wrapped):
    """A file without values, with the tensors of another one.

    Args:
        inner: the open file.
        schema: its tensors.
    """

    def __init__(self, inner: Source, schema: Schema) -> None:
        super().__init__(inner)
        self.schema = schema

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        for batch in self._inner.batches(limit_bytes):
            if any(len(item) for item in batch.values()):
                raise changed_while_read()
        yield {spec.name: spec.empty() for spec in find_all(self.schema, names)}
