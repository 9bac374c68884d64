"""The manifest of a dataset: the totals, and the expected properties of each shard."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.schema import Batch, Schema, TensorSpec, rekeyed, schema_of
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.tensor.lod_tensor import LoDTensor

NAME = "manifest.lod.h5"
# Tensors that describe the shards, in this order, before those of the dataset.
TOTALS, SIZES, SUMS, NULLABLE = "shard-totals", "shard-bytes", "shard-crc32c", "tensor-nullable"
COLUMNS = (TOTALS, SIZES, SUMS, NULLABLE)
SHARDS = r"data-[0-9]{5,}-of-[0-9]{5,}\.lod\.h5"

Sums = npt.NDArray[np.uint32]


def is_dataset(path: str) -> bool:
    """Return whether a folder has a manifest."""
    return os.path.isfile(os.path.join(path, NAME))


def shard_name(number: int, count: int) -> str:
    """Return the name of a shard; names of one dataset sort in the order of the shards.

    >>> shard_name(3, 64)
    'data-00003-of-00064.lod.h5'
    """
    digits = max(5, len(str(count)))
    return f"data-{number:0{digits}}-of-{count:0{digits}}.lod.h5"


def count_columns(schema: Schema) -> dict[tuple[str, int], int]:
    """Return the column of running totals for each level of each tensor, and for its rows.

    Rows are the level below the finest. Tensors that share levels share their columns, and also the
    column of rows if they share all levels.

    >>> count_columns(schema_of({"data": LoDTensor([7, 8, 9], [[1, 2]])}))
    {('data', 0): 0, ('data', 1): 1}
    """
    places: dict[Hashable, int] = {}
    found = {}
    for spec in rekeyed(schema):
        keys: list[Hashable] = [level.key for level in spec.levels]
        keys.append(("rows of", *(keys[-1:] or [("tensor", spec.name)])))
        for level, key in enumerate(keys):
            found[spec.name, level] = places.setdefault(key, len(places))
    return found


def counts_of(schema: Schema) -> list[int]:
    """Return the counts of a file, one for each column."""
    found: dict[int, int] = {}
    places = count_columns(schema)
    for spec in schema:
        for level, count in enumerate([*(one.items for one in spec.levels), spec.rows]):
            assert count is not None
            found[places[spec.name, level]] = count
    return list(found.values())


def uncounted(schema: Schema) -> Schema:
    """Return the schema without counts and nullability, which is equal for all shards."""
    return tuple(replace(spec.uncounted(), nullable=False) for spec in rekeyed(schema))


def refuse_columns(schema: Schema) -> None:
    """Raise UnsupportedError for a tensor with the name of a column."""
    for spec in schema:
        if spec.name in COLUMNS:
            raise UnsupportedError(
                f"a dataset holds no tensor called {spec.name}: its manifest has a tensor of that "
                "name; `lod rename` it first"
            )


@dataclass(frozen=True, eq=False)
class Manifest:
    """The description of the shards of a dataset.

    Attributes:
        schema: of all shards together, without counts.
        totals: (shards + 1, columns) int64, the number of items before each shard, and in all
            shards; see `count_columns`.
        sizes: (shards,) int64, the bytes of each file.
        sums: (shards,) uint32, the CRC32C of each header, which holds those of all rows.
    """

    schema: Schema
    totals: npt.NDArray[np.int64]
    sizes: Offsets
    sums: Sums

    @property
    def count(self) -> int:
        """The number of shards."""
        return len(self.sizes)

    @property
    def names(self) -> list[str]:
        """The names of the shards."""
        return [shard_name(number, self.count) for number in range(self.count)]

    def ends(self) -> dict[tuple[str, int], Offsets]:
        """Return the number of items, or rows, before each shard, by tensor and level."""
        columns = np.ascontiguousarray(self.totals.T)
        return {key: columns[place] for key, place in count_columns(self.schema).items()}

    def counted(self) -> Schema:
        """Return the schema of all shards together."""
        places, last = count_columns(self.schema), self.totals[-1].tolist()

        def with_counts(spec: TensorSpec) -> TensorSpec:
            counts = [last[places[spec.name, level]] for level in range(len(spec.levels) + 1)]
            levels = zip(spec.levels, counts, strict=False)
            return replace(
                spec,
                levels=tuple(replace(level, items=count) for level, count in levels),
                rows=counts[-1],
            )

        return tuple(map(with_counts, self.schema))

    @classmethod
    def of(
        cls, schema: Schema, counts: Sequence[Sequence[int]], sizes: Sequence[int], sums: Sums
    ) -> Manifest:
        """Return the manifest of shards with these counts, one row for each shard."""
        totals = np.zeros((len(counts) + 1, len(counts[0])), np.int64)
        np.cumsum(counts, axis=0, out=totals[1:])
        return cls(schema, totals, np.array(sizes, np.int64), sums)

    def tensors(self) -> tuple[Schema, Batch]:
        """Return the tensors to write to the file of the manifest."""
        columns = {
            TOTALS: LoDTensor(self.totals),
            SIZES: LoDTensor(self.sizes),
            SUMS: LoDTensor(self.sums),
            NULLABLE: LoDTensor(np.array([spec.nullable for spec in self.schema], np.bool_)),
        }
        empty = {spec.name: spec.empty() for spec in self.schema}
        specs = tuple(replace(spec.uncounted(), nullable=False) for spec in self.schema)
        return (*schema_of(columns), *specs), {**columns, **empty}

    @classmethod
    def read(cls, source: ContainerSource) -> Manifest:
        """Return the manifest that a container holds.

        Raises:
            DamagedFileError: it is not a manifest.
        """
        specs = source.schema[len(COLUMNS) :]
        _require(
            tuple(spec.name for spec in source.schema[: len(COLUMNS)]) == COLUMNS and bool(specs),
            f"is not a manifest: its first tensors must be {', '.join(COLUMNS)}",
        )
        columns = dict(zip(COLUMNS, source.schema, strict=False))
        shards, width = columns[SIZES].rows or 0, len(set(count_columns(specs).values()))
        expected = {
            TOTALS: (shards + 1, (width,), "int64"),
            SIZES: (shards, (), "int64"),
            SUMS: (shards, (), "uint32"),
            NULLABLE: (len(specs), (), "bool"),
        }
        for name, (rows, shape, dtype) in expected.items():
            spec = columns[name]
            _require(
                (spec.rows, spec.row_shape, spec.dtype.name) == (rows, shape, dtype)
                and not (spec.levels or spec.nullable or spec.array),
                f"{name}: expected {dtype} of shape {(rows, *shape)}",
            )
        for spec in specs:
            _require(
                not (spec.array or spec.nullable) and not any(counts_of((spec,))),
                f"{spec.name}: must be an empty tensor",
            )
        _require(shards > 0, "names no shard")
        totals = source.read_rows(TOTALS, 0, shards + 1)
        steps = np.diff(totals, axis=0)
        _require(
            not totals[0].any() and not (steps < 0).any(),
            f"{TOTALS}: must begin with 0 and never decrease",
        )
        nullable = source.read_rows(NULLABLE, 0, len(specs)).tolist()
        schema = tuple(
            replace(spec.uncounted(), nullable=one)
            for spec, one in zip(specs, nullable, strict=True)
        )
        sums = source.read_rows(SUMS, 0, shards)
        return cls(schema, totals, source.read_rows(SIZES, 0, shards), sums)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise DamagedFileError(what)
