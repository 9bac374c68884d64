"""Tensors of several files with a common index, as one source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lodcli.formats.core.errors import naming_file
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import EqualOffsets, LevelKeys, LevelSpec, TensorSpec
from lodcli.formats.items.indexed_copy import Labelled
from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.nulls import Mask


class MergedSource(IndexedSource):
    """The tensors of several files; those of all others must fit the index of the first.

    A tensor fits if its levels equal those of a tensor of the first file, down to the last level
    that both have; or if it has no levels, and a row for each outermost item of such a tensor. Text
    is one value: the level of its bytes is none of them.

    Raises:
        InvalidDataError: two tensors have the same name, or a shared level has two names.
        ShapeMismatchError: a tensor does not fit; names the position.
    """

    def __init__(self, parts: Sequence[Labelled]) -> None:
        self._part_of: dict[str, Labelled] = {}
        for part in parts:
            for spec in part.schema:
                with naming_file(part.label):
                    self._refuse(part, spec)
                self._part_of[spec.name] = part
        first = parts[0]
        known = [(spec, first.source.lods[spec.name]) for spec in first.schema]
        for part in parts[1:]:
            for spec in part.schema:
                with naming_file(part.label):
                    _require_fit(spec, part.source.lods[spec.name], first.label, known)
        self._unify([(part, spec) for part in parts for spec in part.schema])

    def _refuse(self, part: Labelled, spec: TensorSpec) -> None:
        if spec.array:
            raise SelectionError(f"{spec.name} is a TensorArray; `lod pack` it first")
        other = self._part_of.get(spec.name)
        if other is not None:
            raise InvalidDataError(
                f"a tensor called {spec.name} is in {other.label} as well; "
                f"rename it first: lod rename {part.label} {spec.name}=OTHER -o NEW"
            )

    def _unify(self, tensors: Sequence[tuple[Labelled, TensorSpec]]) -> None:
        """Give equal levels one key, one array and one name."""
        keys, equal = LevelKeys(), EqualOffsets()
        names: dict[str, tuple[str, str]] = {}
        chains: dict[str, tuple[list[Offsets], tuple[str, ...]]] = {}
        for part, spec in tensors:
            offsets = [equal.first(one) for one in part.source.lods[spec.name].levels]
            chain = keys.of(map(id, offsets))
            chains[spec.name] = offsets, chain
            for key, level in zip(chain, spec.levels, strict=True):
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
        part = self._part_of[name]
        with naming_file(part.label):
            return part.source.read_rows(name, start, stop)

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        part = self._part_of[name]
        with naming_file(part.label):
            return part.source.read_mask(name, level, start, stop)

    def read_masked(self, name: str, start: int, stop: int) -> tuple[Array, Mask | None]:
        part = self._part_of[name]
        with naming_file(part.label):
            return part.source.read_masked(name, start, stop)


def _require_fit(
    spec: TensorSpec, lod: LoD, label: str, known: Sequence[tuple[TensorSpec, LoD]]
) -> None:
    for other, other_lod in known:
        depth = min(spec.depth, other.depth)
        if depth == 0:
            if spec.items == other.items:
                return
        elif lod.upto(depth - 1).same_levels(other_lod.upto(depth - 1)):
            return
    other, other_lod = next(((o, found) for o, found in known if o.depth), known[0])
    depth = min(spec.depth, other.depth)
    found = lod.upto(depth - 1).difference(other_lod.upto(depth - 1)) if depth else None
    items = f"{spec.items} outermost items against {other.items}"
    raise ShapeMismatchError(
        f"{spec.name} does not have the index of {other.name} in {label}: {found or items}"
    )
