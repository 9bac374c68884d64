"""The schema of a TFRecord file: from its first record, or inferred from all records."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.options import choose_others
from lodcli.formats.core.schema import LevelSpec, Schema, TensorSpec
from lodcli.formats.stream.header import decode, encode, plan
from lodcli.formats.tfrecord.features import (
    BYTES_LIST,
    FLOAT_LIST,
    INT64_LIST,
    Parsed,
    Values,
    of_two_kinds,
    values_of,
)
from lodcli.formats.tfrecord.messages import Spans, fields
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.marks import BYTES, NO_MARKS, TEXT, check_text

# Dtypes that int64 and float32 can represent.
DTYPES = ALL_DTYPES - {"bfloat16", "complex64", "complex128", "float64", "uint64"}
MOST_LISTS = 2


def kind_of(spec: TensorSpec) -> int:
    """Return the kind of list that holds the values of a tensor."""
    if spec.marks.values:
        return BYTES_LIST
    return FLOAT_LIST if spec.dtype.kind in "fV" else INT64_LIST


def written(schema: Schema) -> bytes:
    """Return the description for the first record: the header of a lod stream."""
    return encode(plan(tuple(_uncounted(spec) for spec in schema)))


def described(description: bytes) -> Schema:
    """Return the schema from a description by `written`.

    Raises:
        DamagedFileError: it is invalid, or describes tensors that TFRecord cannot hold.
    """
    schema = decode(description).schema
    for spec in schema:
        held = spec.dtype.name in DTYPES and spec.depth <= MOST_LISTS and 0 not in spec.row_shape
        if spec.array or not held:
            raise DamagedFileError(f"its description: {spec.name} is not a tensor of TFRecord")
    return tuple(_uncounted(spec) for spec in schema)


def _uncounted(spec: TensorSpec) -> TensorSpec:
    return replace(spec, marks=spec.marks.of_values).uncounted()


@dataclass
class _Seen:
    """Facts about one feature in the records so far."""

    lists: bool
    kind: int = 0
    records: int = 0
    single: bool = True
    text: bool = True


class Inference:
    """Infers the tensors of records without a description.

    A feature with exactly one value in every record has no level. A feature list with one value in
    each inner list has one level less. Bytes are text if all of them are UTF-8.

    Attributes:
        refused: the error about each feature that no tensor can hold.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._records = 0
        self.refused: dict[str, LodError] = {}

    def add(self, parsed: Parsed, where: str) -> None:
        """Add records; `where` names them in errors."""
        for lists, features in ((False, parsed.context), (True, parsed.lists)):
            for name in features:
                if name in self.refused:
                    continue
                try:
                    with naming(where):
                        self._add(name, features[name], lists=lists)
                except DamagedFileError:
                    raise
                except (InvalidDataError, UnsupportedError) as error:
                    self.refused[name] = error
        self._records += parsed.records

    def _add(self, name: str, spans: Spans, *, lists: bool) -> None:
        seen = self._seen.setdefault(name, _Seen(lists))
        found = values_of(inner(spans, name) if lists else spans, name)
        self._compare(name, seen, found, lists=lists)
        if lists:
            seen.records += spans.begin.size
            seen.single &= bool((found.counts == 1).all())
        else:
            seen.records += int(np.count_nonzero(found.present))
            seen.single &= bool((found.counts[found.present] == 1).all())

    def _compare(self, name: str, seen: _Seen, found: Values, *, lists: bool) -> None:
        if seen.lists != lists:
            raise UnsupportedError(
                f"{name!r} is both a feature of the context and a feature list; "
                f"{choose_others('other features')}"
            )
        if seen.kind and found.kind and seen.kind != found.kind:
            raise of_two_kinds(name, seen.kind, found.kind)
        seen.kind = seen.kind or found.kind
        if found.lengths is not None and seen.text:
            try:
                check_text(found.data, LoD.from_lengths([found.lengths]))
            except InvalidDataError:
                seen.text = False

    def schema(self, *, whole: bool) -> Schema:
        """Return the tensors; `whole` says whether all records were added."""
        if not self._records:
            raise InvalidDataError("holds no records, so its features are unknown")
        for name in self.refused:
            self._seen[name].kind = self._seen[name].kind or INT64_LIST
        found = {name: self._seen[name] for name in sorted(self._seen) if self._seen[name].kind}
        if not found:
            raise InvalidDataError("holds no features with values")
        return tuple(
            self._spec(name, seen, nullable=not whole or seen.records < self._records)
            for name, seen in found.items()
        )

    def listed(self) -> set[str]:
        """Return the names of the feature lists."""
        return {name for name, seen in self._seen.items() if seen.lists}

    def _spec(self, name: str, seen: _Seen, *, nullable: bool) -> TensorSpec:
        bytes_ = seen.kind == BYTES_LIST
        dtype = {BYTES_LIST: np.uint8, FLOAT_LIST: np.float32, INT64_LIST: np.int64}[seen.kind]
        marks = (TEXT if seen.text else BYTES) if bytes_ else NO_MARKS
        depth = seen.lists + (not seen.single) + bytes_
        levels = tuple(LevelSpec(f"{name}/{level}") for level in range(depth))
        return TensorSpec(name, np.dtype(dtype), (), levels, marks=marks, nullable=nullable)


def inner(lists: Spans, name: str) -> Spans:
    """Return the Features of FeatureLists; the owner is the number of the list."""
    what = f"feature list {name!r}"
    return fields(lists.numbered(), what).of(1, what)
