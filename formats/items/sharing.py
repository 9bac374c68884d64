"""Finds the tensors of a file that share the items of a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lodcli.formats.core.schema import EqualOffsets, Schema, TensorSpec, find, rekeyed
from lodcli.formats.structs.names import named
from lodcli.kernels.errors import SelectionError, counted
from lodcli.kernels.index.lod import LoD, level_named
from lodcli.kernels.index.selection import level_label


@dataclass(frozen=True)
class Shared:
    """The tensors of a file that share the items of one level.

    A tensor shares them if it has that level, or if its values (rows, or whole texts) are the
    items: it then has only the levels above. Outermost items are shared by all tensors with
    equally many of them, such as the fields of records; the items of a tensor without levels are
    its rows.

    Attributes:
        level: the number of the level; 0 the outermost.
        level_name: its name, or None.
        specs: these tensors, as they are in the file.
        others: the names of all other tensors.
    """

    level: int
    level_name: str | None
    specs: Schema
    others: tuple[str, ...]

    @property
    def level_label(self) -> str:
        """The name of the level for messages; its number if it has none."""
        return level_label(self.level_name, self.level)

    @property
    def names(self) -> list[str]:
        """The names of the tensors that share the items."""
        return [spec.name for spec in self.specs]

    def only(self, *names: str) -> Shared:
        """Return the same with only some of the tensors."""
        kept = tuple(spec for spec in self.specs if spec.name in names)
        left = tuple(spec.name for spec in self.specs if spec.name not in names)
        return replace(self, specs=kept, others=(*self.others, *left))

    @property
    def schema(self) -> Schema:
        """The tensors with the items as outermost level, counts unknown."""
        return tuple(
            replace(
                spec,
                levels=spec.levels[self.level :],
                marks=replace(spec.marks, fields=()) if self.level else spec.marks,
            ).uncounted()
            for spec in self.specs
        )


def sharing(
    schema: Schema,
    name: str | None = None,
    level: int | str | None = None,
    used: Sequence[str] = (),
    *,
    records: bool = False,
) -> Shared:
    """Return the tensors that share a level.

    Args:
        name: a tensor or records that have the level; None: the only such level of the file, or
            the level of a used tensor, or of the tensor "data".
        level: its number or name; None: the outermost.
        used: names of tensors, at least one of which shares the level.
        records: whether all tensors have equally many outermost items, even if counts are unknown.

    Raises:
        SelectionError: no such tensor or level, or several levels to choose from.
    """
    specs = rekeyed(schema)
    lead = _lead(specs, name, level, used, records=records)
    if lead.array:
        raise SelectionError(f"{lead.name} is a TensorArray; `lod pack` it first")
    number = _level(lead, level)
    found = tuple(spec for spec in specs if _shares(spec, lead, number, records=records))
    chosen = {spec.name for spec in found}
    others = tuple(spec.name for spec in specs if spec.name not in chosen)
    level_name = lead.levels[number].name if lead.levels else None
    return Shared(number, level_name, found, others)


def with_equal_levels(schema: Schema, lods: Mapping[str, LoD]) -> Schema:
    """Return the schema with one key for levels of equal offsets, also if the file stores two.

    Fields of JSON with equal lists, such as words and their tags, have separate levels.
    """
    equal, first = EqualOffsets(), dict[str, int]()
    for spec in schema:
        if not spec.array:
            for level, offsets in zip(spec.levels, lods[spec.name].levels, strict=True):
                first[level.key] = id(equal.first(offsets))
    return rekeyed(schema, lambda level: first.get(level.key, level.key))


def _lead(
    specs: Schema, name: str | None, level: int | str | None, used: Sequence[str], *, records: bool
) -> TensorSpec:
    if name is not None:
        return named(specs, name)[0]
    known = [spec for spec in specs if spec.name in used]
    known.sort(key=lambda spec: -len(spec.levels))
    candidates = known or [spec for spec in specs if spec.levels and not spec.array]
    # Without levels the items are rows, as of the columns of a table of numbers.
    candidates = candidates or [spec for spec in specs if not spec.array]
    if isinstance(level, str):
        candidates = [s for s in candidates if level in s.level_names] or candidates
    if known and not known[0].levels:
        # A used tensor without levels, such as labels: prefer the sequences, which have levels.
        return next((s for s in specs if s.levels and s.items == known[0].items), known[0])
    counts = {spec.items for spec in candidates}
    records = records or (len(counts) == 1 and counts != {None})
    levels = {spec.levels[:1] for spec in candidates}
    if candidates and (known or records or (len(levels) == 1 and levels != {()})):
        return candidates[0]
    return find(specs, None)


def _level(lead: TensorSpec, level: int | str | None) -> int:
    depth = len(lead.levels)
    if level is None or (level == 0 and not depth):
        return 0
    if not depth:
        raise SelectionError(f"{lead.name} has no levels, so there is no level {level!r}")
    if isinstance(level, str):
        try:
            return level_named(level, lead.level_names)
        except SelectionError as error:
            raise SelectionError(f"{lead.name}: {error}") from None
    number = level + depth if level < 0 else level
    if not 0 <= number < depth:
        raise SelectionError(
            f"{lead.name}: no level {level}: there {'is' if depth == 1 else 'are'} "
            f"{counted(depth, 'level')}"
        )
    return number


def _shares(spec: TensorSpec, lead: TensorSpec, level: int, *, records: bool) -> bool:
    if spec.array:
        return False
    if spec.name == lead.name:
        return True
    if level == 0 and (records or (spec.items is not None and spec.items == lead.items)):
        return True
    keys, lead_keys = ([one.key for one in each.levels] for each in (spec, lead))
    if not lead_keys or not keys:
        return False
    if spec.depth > level or not level:
        return keys[: level + 1] == lead_keys[: level + 1]
    return spec.depth == level and keys[:level] == lead_keys[:level]
