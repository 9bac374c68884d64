"""The columns of a Hugging Face dataset without rows, from the description of its features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lodcli.formats.arrow.files import Found, Records, Wanted
from lodcli.formats.arrow.huggingface import feature_field, with_features
from lodcli.formats.core.names import shown
from lodcli.kernels.errors import UnsupportedError


class NoRecords(Records):
    """Columns without a record.

    Args:
        features: of dataset_info.json, by column.

    Raises:
        UnsupportedError: no tensor can hold a column of such a type, or there are no columns.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        if not features:
            raise UnsupportedError("has no features and no data files")
        fields = [_field(name, said) for name, said in features.items()]
        self.schema = with_features(pa.schema(fields), features)
        self.count = 0

    def batches(self, wanted: Wanted) -> Iterator[Found]:
        return iter(())


def _field(column: str, said: Any) -> pa.Field:
    found = feature_field(column, said)
    if found is None:
        raise UnsupportedError(
            f"column {shown(column)}: cannot infer the dtype of an empty column from "
            f"{shown(str(said))}"
        )
    return found
