"""Files of which others may have their columns in another order, or no values.

A file without values, such as a log of a day without events, does not tell the dtypes, nor, in JSON
lines, the names of its tensors: it fits any other file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lodcli.formats.core.errors import changed_while_read
from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.schema import Batch, Schema, find_all
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.structs.names import names_without_told
from lodcli.formats.values.relabelled import Relabelled


def fitted_schemas(
    schemas: Sequence[Schema], untyped: Sequence[bool], kinds: Sequence[Format]
) -> list[Schema]:
    """Return the schemas of files, in the order of the first one that tells its dtypes.

    Args:
        schemas: of the files.
        untyped: whether each has no values; see Source.
        kinds: their formats.
    """
    typed = (schema for schema, without in zip(schemas, untyped, strict=True) if not without)
    first = next(typed, schemas[0])
    each = zip(schemas, untyped, kinds, strict=True)
    return [_fitted(first, schema, kind, untyped=without) for schema, without, kind in each]


def fitted(source: Source, schema: Schema) -> Source:
    """Return a file with a schema from `fitted_schemas`."""
    if source.schema == schema:
        return source
    if source.untyped:
        return _Empty(source, schema)
    specs = {spec.name: spec for spec in source.schema}
    if specs.keys() != {spec.name for spec in schema}:
        return source
    return Relabelled(source, {spec.name: specs[spec.name] for spec in schema})


def _fitted(first: Schema, own: Schema, kind: Format, *, untyped: bool) -> Schema:
    has_names = not (untyped and kind.empty_file)
    if has_names and {*names_without_told(own)} != {*names_without_told(first)}:
        return own
    if not untyped:
        places = {spec.name: place for place, spec in enumerate(first)}
        # Those that `first` lacks store null records; `with_equal_records` finds their places.
        found = sorted(own, key=lambda spec: places.get(spec.name, len(places)))
        return own if tuple(found) == own else tuple(found)
    return tuple(
        replace(spec, rows=0, levels=tuple(replace(level, items=0) for level in spec.levels))
        for spec in first
    )


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
