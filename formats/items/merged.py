"""Tensors of several files with a common index, as one source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from lodcli.formats.core.batching import interleaved, only
from lodcli.formats.core.errors import naming_file, naming_source
from lodcli.formats.core.format import Source
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import (
    Batch,
    EqualOffsets,
    LevelKeys,
    LevelSpec,
    Schema,
    TensorSpec,
    find,
)
from lodcli.formats.items.indexed_copy import Labelled, S
from lodcli.formats.structs.presence import Told, any_valid, common_lists, with_common_records
from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.nulls import Mask

# The offsets of each level of a tensor, and their keys.
Chain = tuple[list[Offsets], tuple[str, ...]]
# A file, and the name of a tensor in it.
Like = tuple[Labelled[IndexedSource], str]


class MergedSource(IndexedSource):
    """The tensors of several files; those of all others must fit the index of the first.

    A tensor fits if its levels equal those of a tensor of the first file, down to the last level
    that both have; or if it has no levels, and a row for each outermost item of such a tensor. Text
    is one value: the level of its bytes is none of them.

    Fields of the same records may come from several files, see `with_common_records`. A record, or
    a list of them, is null only where it is null in all of them: what stores it is one tensor.

    Raises:
        InvalidDataError: two tensors have the same name, or a shared level has two names.
        ShapeMismatchError: a tensor does not fit, or lists of the same records differ; names the
            position.
    """

    def __init__(self, parts: Sequence[Labelled[IndexedSource]]) -> None:
        parts, shared = _with_common_records(parts)
        keys, equal = LevelKeys(), EqualOffsets()

        def chain(part: Labelled[IndexedSource], name: str, stop: int | None = None) -> Chain:
            offsets = [equal.first(one) for one in part.source.lods[name].levels[:stop]]
            return offsets, keys.of(map(id, offsets))

        self._presence: dict[str, list[tuple[Labelled[IndexedSource], Told]]] = {}
        self._part_of: dict[str, Labelled[IndexedSource]] = {}
        chains: dict[str, Chain] = {}
        for ways in shared:
            (first, like), *_ = found = [(parts[number], told) for number, told in ways]
            _require_equal([(part, told.like) for part, told in found], like.level, chain)
            self._presence[like.spec.name] = found
            chains[like.spec.name] = chain(first, like.like, like.level)
        for part in parts:
            for spec in part.schema:
                with naming_file(part.label):
                    self._refuse(part, spec)
                self._part_of[spec.name] = part
                if spec.name not in chains:
                    chains[spec.name] = chain(part, spec.name)
        self._lists: list[tuple[int, frozenset[str], list[Like]]] = []
        for level, likes, inside in common_lists([part.schema for part in parts]):
            lists = [(parts[number], like) for number, like in likes]
            _require_equal(lists, level, chain)
            self._lists.append((level, inside, lists))
        _require_fit(parts, chains)
        self._unify([(part, spec) for part in parts for spec in part.schema], chains)

    def _refuse(self, part: Labelled[IndexedSource], spec: TensorSpec) -> None:
        if spec.array:
            raise SelectionError(f"{spec.name} is a TensorArray; `lod pack` it first")
        other = self._part_of.get(spec.name)
        if other is not None:
            raise InvalidDataError(
                f"a tensor called {spec.name} is in {other.label} as well; "
                f"rename it first: lod rename {part.label} {spec.name}=OTHER -o NEW"
            )

    def _unify(
        self,
        tensors: Sequence[tuple[Labelled[IndexedSource], TensorSpec]],
        chains: Mapping[str, Chain],
    ) -> None:
        """Give equal levels one key, one array and one name."""
        names: dict[str, tuple[str, str]] = {}
        for part, spec in tensors:
            for key, level in zip(chains[spec.name][1], spec.levels, strict=True):
                if level.name is None:
                    continue
                name, label = names.setdefault(key, (level.name, part.label))
                if name != level.name:
                    with naming_file(part.label):
                        raise InvalidDataError(
                            f"{spec.name}: a level is called {level.name}, and {name} in {label}"
                        )
        lods: dict[tuple[str, ...], LoD] = {}
        schema = []
        for _, spec in tensors:
            offsets, chain = chains[spec.name]
            levels = tuple(
                LevelSpec(key, names[key][0] if key in names else None, one.size - 1)
                for key, one in zip(chain, offsets, strict=True)
            )
            lod = LoD._trusted(offsets, [level.name for level in levels])
            lods.setdefault(chain, lod)
            schema.append(replace(spec, levels=levels))
        self.schema = tuple(schema)
        self.lods = {spec.name: lods[chains[spec.name][1]] for spec in schema}

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        if name in self._presence:
            return any_valid(list(self._present(name, start, stop)), stop - start)
        part = self._part_of[name]
        with naming_file(part.label):
            return part.source.read_rows(name, start, stop)

    def _present(self, name: str, start: int, stop: int) -> Iterator[Mask]:
        """Yield which records are not null in each of the files."""
        for part, told in self._presence[name]:
            with naming_file(part.label):
                yield told.read_rows(part.source, start, stop)

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        masks = []
        for part, like in self._masking(name, level):
            with naming_file(part.label):
                masks.append(part.source.read_mask(like, level, start, stop))
        known = masks and all(mask is not None for mask in masks)
        return any_valid(masks, stop - start) if known else None

    def _masking(self, name: str, level: int) -> list[Like]:
        """Return tensors; an item of a level is null where it is null in all of them."""
        for depth, inside, lists in self._lists:
            if level < depth and name in inside:
                return lists
        told = self._presence.get(name)
        if told is None:
            return [(self._part_of[name], name)]
        return [(part, one.like) for part, one in told if level < one.level]

    def read_masked(self, name: str, start: int, stop: int) -> tuple[Array, Mask | None]:
        if name in self._presence:
            return super().read_masked(name, start, stop)
        part = self._part_of[name]
        with naming_file(part.label):
            return part.source.read_masked(name, start, stop)


def merged_records(
    parts: Sequence[Labelled[Source]],
) -> tuple[Schema, Iterator[Batch]] | None:
    """Return the schema and the batches of files of records, read at the same time.

    None if only `MergedSource` can merge them: if lists of two files have to be compared, what
    stores null records has to be computed, or the files differ in their numbers of records or in
    names, or do not say them.
    """
    parts, shared = _with_common_records(parts)
    names = [spec.name for part in parts for spec in part.schema]
    counts = {spec.items for part in parts for spec in part.schema}
    with_lists = sum(any(spec.depth for spec in part.schema) for part in parts)
    records = all(part.source.records for part in parts)
    if not records or with_lists > 1 or None in counts or len(counts) > 1:
        return None
    if shared or len(set(names)) < len(names):
        return None
    schema = tuple(
        replace(spec, levels=tuple(replace(one, key=f"{n}/{one.key}") for one in spec.levels))
        for n, part in enumerate(parts)
        for spec in part.schema
    )
    return schema, interleaved(map(_batches, parts))


def _with_common_records(
    parts: Sequence[Labelled[S]],
) -> tuple[list[Labelled[S]], list[list[tuple[int, Told]]]]:
    schemas, shared = with_common_records([part.schema for part in parts])
    found = [replace(part, schema=schema) for part, schema in zip(parts, schemas, strict=True)]
    return found, shared


def _batches(part: Labelled[Source]) -> Iterator[Batch]:
    names = [spec.name for spec in part.schema]
    with naming_source(part.label):
        yield from only(part.source.batches_of(names), names)


def _require_equal(
    found: Sequence[Like],
    level: int,
    chain: Callable[[Labelled[IndexedSource], str, int], Chain],
) -> None:
    """Raise ShapeMismatchError if the same records of several files differ in number."""
    ends = [(find(part.schema, name).items, chain(part, name, level)[1]) for part, name in found]
    first, like = found[0]
    for (part, name), end in zip(found, ends, strict=True):
        if end != ends[0]:
            with naming_file(part.label):
                raise _misfit(name, part, like, first)


def _require_fit(parts: Sequence[Labelled[IndexedSource]], chains: Mapping[str, Chain]) -> None:
    """Raise ShapeMismatchError for a tensor that does not fit the first file."""

    def keys(spec: TensorSpec) -> tuple[str, ...]:
        return chains[spec.name][1][: spec.depth]

    first = parts[0]
    ends = {keys(spec) for spec in first.schema}
    known = {chain[:depth] for chain in ends for depth in range(1, len(chain) + 1)}
    flat = {spec.items for spec in first.schema if not spec.depth}
    items = {spec.items for spec in first.schema}
    for part in parts[1:]:
        for spec in part.schema:
            chain = keys(spec)
            fits = spec.items in flat if chain else spec.items in items
            begins = (chain[:depth] for depth in range(1, len(chain)))
            if not (fits or chain in known or any(begin in ends for begin in begins)):
                other = next((one for one in first.schema if one.depth), first.schema[0])
                with naming_file(part.label):
                    raise _misfit(spec.name, part, other.name, first)


def _misfit(
    name: str, part: Labelled[IndexedSource], other_name: str, first: Labelled[IndexedSource]
) -> ShapeMismatchError:
    spec, other = find(part.schema, name), find(first.schema, other_name)
    depth = min(spec.depth, other.depth)
    lod, other_lod = part.source.lods[spec.name], first.source.lods[other.name]
    found = lod.upto(depth - 1).difference(other_lod.upto(depth - 1)) if depth else None
    items = f"{spec.items} outermost items against {other.items}"
    return ShapeMismatchError(
        f"{spec.name} does not have the index of {other.name} in {first.label}: {found or items}"
    )
