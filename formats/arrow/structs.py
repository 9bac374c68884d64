"""Builds Arrow structs, and lists of them, from the columns of their tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.structs.tree import Node
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.exchange.arrow import arrow_field


def column_of(spec: TensorSpec) -> pa.Field:
    """Return the column of a tensor, with all its levels."""
    return arrow_field(
        *(spec.name, spec.dtype, spec.row_shape, spec.level_names, spec.marks),
        nullable=spec.nullable,
    )


def field_of(node: Node, columns: pa.Schema) -> pa.Field:
    """Return the field of a node."""
    if node.spec is not None:
        field = columns.field(node.spec.name)
        kind = field.type
        for _ in range(node.level):
            kind = kind.value_type
        return pa.field(node.name, kind, nullable=field.nullable, metadata=field.metadata)
    kind = pa.struct([field_of(one, columns) for one in node.fields])
    nullable = any(spec.nullable for spec in node.specs)
    own = (nullable and not node.required) or node.present is not None
    for level in range(node.inner - node.level):
        kind = pa.large_list(pa.field("item", kind, nullable=nullable if level else own))
    return pa.field(node.name, kind, nullable=nullable if node.inner > node.level else own)


def array_of(node: Node, field: pa.Field, arrays: Mapping[str, pa.Array]) -> pa.Array:
    """Return the records of a node, or the values of its tensor.

    Args:
        node: a column, or a field of records.
        field: from `field_of`.
        arrays: of its tensors, from the node's level inwards.

    Raises:
        InvalidDataError: the lists above the records of a node differ.
    """
    if node.spec is not None:
        return arrays[node.spec.name]
    parts = {spec.name: arrays[spec.name] for spec in node.specs}
    opened = []
    kind = field.type
    for _ in range(node.inner - node.level):
        offsets, valid, parts = _opened(node, parts)
        opened.append((kind, offsets, valid))
        kind = kind.value_type
    inner = [array_of(one, kind.field(n), parts) for n, one in enumerate(node.fields)]
    missing = _missing(node, parts)
    found: Any = pa.StructArray.from_arrays(inner, fields=list(kind), mask=missing)
    for kind, offsets, valid in reversed(opened):
        buffers = [valid, pa.py_buffer(offsets)]
        found = pa.Array.from_buffers(kind, len(offsets) - 1, buffers, children=[found])
    return found


def _missing(node: Node, parts: Mapping[str, Any]) -> Any:
    """Return which records are null; None if none is."""
    fields = [spec.name for spec in node.specs if not spec.marks.tells_records]
    if node.present is None:
        # The tensor that marks null records is an ordinary field if there are no others.
        if node.required or not fields or not all(parts[name].null_count for name in fields):
            return None
        import pyarrow.compute as pc  # slow to import

        return reduce(pc.and_, [parts[name].is_null() for name in fields])
    import pyarrow.compute as pc

    told = next(node.present.specs).name
    missing = pc.invert(parts[told].fill_null(False))
    for name in fields:
        if pc.any(pc.and_(missing, parts[name].is_valid())).as_py():
            raise InvalidDataError(f"{told} marks a record as null, but its {name} is not")
    return missing


def _opened(node: Node, parts: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the offsets, from 0, and validity bits of equal lists, and the items of each."""
    first: Any = None
    found = {}
    for name, array in parts.items():
        offsets = array.offsets.to_numpy()
        low, high = int(offsets[0]), int(offsets[-1])
        found[name] = array.values.slice(low, high - low)
        mine = offsets - low if low else offsets, array.is_valid() if array.null_count else None
        first = first or mine
        if not (np.array_equal(first[0], mine[0]) and _same(first[1], mine[1])):
            raise InvalidDataError(
                f"{next(iter(parts))} and {name} are fields of {node.name}, and the lists above "
                "differ in length, or in their nulls"
            )
    return first[0], None if first[1] is None else first[1].buffers()[1], found


def _same(one: Any, other: Any) -> bool:
    return (one is None) == (other is None) and (one is None or one.equals(other))
