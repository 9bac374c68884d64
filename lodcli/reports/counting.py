"""Counts of the tensors of a file while it is written, for --json and -v."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lodcli.formats.core import marks
from lodcli.formats.core.schema import Batch, Schema, TensorSpec, outline

if TYPE_CHECKING:
    from lodcli.reports.common import TensorOfFile


class Counts:
    """Totals of the batches of a schema.

    Attributes:
        tensors: complete at the end of `counting`.
    """

    def __init__(self, schema: Schema) -> None:
        self.tensors = [described(spec) for spec in schema]

    def counting(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches, and count them."""
        by_name = {tensor["name"]: tensor for tensor in self.tensors}
        for tensor in self.tensors:
            tensor["rows"] = 0
            for level in tensor["levels"]:
                level["items"] = 0
        for batch in batches:
            for name, item in batch.items():
                found = outline(item)
                by_name[name]["rows"] += found.rows
                for number, level in enumerate(by_name[name]["levels"]):
                    level["items"] = (level["items"] or 0) + found.lod.count(number)
            yield batch


def described(spec: TensorSpec) -> TensorOfFile:
    """Return the description of a tensor in a schema; an unknown number of rows is 0."""
    return {
        "name": spec.name,
        "dtype": spec.dtype.name,
        "marks": marks.to_json(spec.marks),
        "nullable": spec.nullable,
        "rows": spec.rows or 0,
        "row_shape": list(spec.row_shape),
        "levels": [{"name": level.name, "items": level.items} for level in spec.levels],
        "tensor_array": spec.array,
    }
