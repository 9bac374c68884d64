"""Tensors of a file that are chosen, renamed and marked, in any format: `--columns`, `--rename`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lodcli.formats.core.format import BATCH_BYTES, RowBlocks, Source, StoredRows
from lodcli.formats.core.marks import check_content, marked, remarked
from lodcli.formats.core.schema import Batch, Item, Schema, StoredArray, TensorSpec, find, find_all
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.structs.names import named, renamed
from lodcli.formats.values.in_words import batches_in_words, in_words
from lodcli.kernels.errors import SelectionError, counted
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# New specs of tensors, by their names in the file.
Chosen = Mapping[str, TensorSpec]


def chosen_by_name(
    schema: Schema, columns: Sequence[str] | None, names: Mapping[str, str]
) -> Chosen:
    """Return the tensors of some columns or records, in this order, under other names.

    Args:
        columns: names of tensors or records; None for all.
        names: new names of tensors or records, by the old ones.

    Raises:
        SelectionError: there is no such tensor, or two would have one name.
    """
    if columns is not None:
        found = {spec.name: spec for name in columns for spec in named(schema, name)}
        schema = tuple(found.values())
    return dict(zip((spec.name for spec in schema), renamed(schema, names), strict=True))


def with_level_names(schema: Schema, names: Sequence[str], only: str | None) -> Schema:
    """Return the schema with other names of levels.

    Args:
        names: of the levels, outermost first.
        only: the tensor whose levels are named; None: all tensors. Those that share their outermost
            items with a tensor of all these levels may have fewer, which get the first names.

    Raises:
        SelectionError: a tensor has more or fewer levels, or is a TensorArray.
    """
    named = [spec for spec in schema if only in (None, spec.name)]
    whole = {spec.items for spec in named if len(spec.levels) == len(names)}
    found = {
        spec.name: _levelled(spec, names[: len(spec.levels)] if spec.items in whole else names)
        for spec in named
    }
    return tuple(found.get(spec.name, spec) for spec in schema)


def _levelled(spec: TensorSpec, names: Sequence[str]) -> TensorSpec:
    if spec.array:
        raise SelectionError(
            f"{spec.name} is a TensorArray, whose levels take no names; `lod pack` it first"
        )
    given = len(names)
    if len(spec.levels) != given:
        raise SelectionError(
            f"{counted(given, 'level name')} {'is' if given == 1 else 'are'} given, "
            f"{spec.name} has {counted(len(spec.levels), 'level')}"
        )
    levels = zip(spec.levels, names, strict=True)
    return replace(spec, levels=tuple(replace(level, name=name) for level, name in levels))


def with_marks(source: Source, values: str, only: str | None) -> Source:
    """Return a source with other marks on all tensors that can have them: `--text-levels`.

    Args:
        values: "text", also for categories; "bytes" or "numbers".
        only: the tensor or records to change; None: all that can have the marks.

    Raises:
        UnsupportedError: none of them can have the marks.
    """
    if values == "text" and any(spec.marks.categories for spec in source.schema):
        source = _InWords(source)
    asked = source.schema if only is None else named(source.schema, only)
    changed = {spec.name: spec for spec in remarked(asked, values)}
    return Relabelled(source, {s.name: changed.get(s.name, s) for s in source.schema})


class _InWords(Wrapped):
    """A source with text instead of categories."""

    option = "text_levels"

    def __init__(self, inner: Source) -> None:
        super().__init__(inner)
        self.schema = in_words(inner.schema)

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        return batches_in_words(self._inner.batches_of(names, limit_bytes))


class Relabelled(Wrapped):
    """Some tensors of a source, with other names, names of levels and marks.

    Args:
        chosen: the new specs of tensors, by their names in the file; all others are left out.
    """

    def __init__(self, inner: Source, chosen: Chosen) -> None:
        super().__init__(inner)
        self._chosen = dict(chosen)
        olds = find_all(inner.schema, chosen)
        self._old = {spec.name: old for spec, old in zip(chosen.values(), olds, strict=True)}
        self.schema = tuple(chosen.values())
        self.valueless = frozenset(chosen[one].name for one in inner.valueless if one in chosen)
        changed = (
            self._old[one.name].marks.of_values != one.marks.of_values for one in self.schema
        )
        if any(changed):
            self.option = "text_levels"

    def names_in_file(self, names: Iterable[str]) -> dict[str, str] | None:
        """Return the names of tensors in the file, by those here; None if rows must be checked."""
        pairs = [self._pair(name) for name in names]
        if any(old.marks.of_values != spec.marks.of_values or spec.array for old, spec in pairs):
            return None
        return {spec.name: old.name for old, spec in pairs}

    def _pair(self, name: str) -> tuple[TensorSpec, TensorSpec]:
        """Return the specs of a tensor in the file and in this source."""
        spec = find(self.schema, name)
        return self._old[spec.name], spec

    def _item(self, old: str, item: Item) -> Item:
        if isinstance(item, StoredArray):
            return item
        lod = _with_names(self._chosen[old], item.lod)
        if lod is item.lod:
            return item
        return LoDTensor(item.values, lod, item.marks, item.nulls)

    def _marked(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Return batches as in the schema; checks text that is not marked as text in the file."""
        kept = (
            {
                self._chosen[old].name: self._item(old, item)
                for old, item in batch.items()
                if old in self._chosen
            }
            for batch in batches
        )
        return marked(self.schema, (batch for batch in kept if batch))

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = [self._old[spec.name].name for spec in find_all(self.schema, names)]
        return self._marked(self._inner.batches_of(wanted, limit_bytes))

    def read(self, names: Iterable[str] | None = None) -> dict[str, Item]:
        wanted = [spec.name for spec in self.schema] if names is None else list(names)
        found = self._inner.read(
            [self._old[spec.name].name for spec in find_all(self.schema, wanted)]
        )
        return {name: item for batch in self._marked([found]) for name, item in batch.items()}

    def row_blocks(self, name: str, buffer: Callable[[int], Array], block_bytes: int) -> RowBlocks:
        old, spec = self._pair(name)
        if old.marks.of_values != spec.marks.of_values:
            return super().row_blocks(name, buffer, block_bytes)  # checks the rows
        found = self._inner.row_blocks(old.name, buffer, block_bytes)
        return found._replace(lod=_with_names(spec, found.lod))

    def stored_rows(self, name: str) -> StoredRows | None:
        old, spec = self._pair(name)
        if old.marks.of_values != spec.marks.of_values:
            return None
        found = self._inner.stored_rows(old.name)
        return None if found is None else found._replace(lod=_with_names(spec, found.lod))

    def read_index(self, name: str) -> LoD:
        old, spec = self._pair(name)
        return _with_names(spec, self._inner.read_index(old.name))

    def index_parts(self, name: str) -> Iterator[LoD]:
        old, spec = self._pair(name)
        return (_with_names(spec, part) for part in self._inner.index_parts(old.name))

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        old, spec = self._pair(name)
        if isinstance(level, str) and not spec.array:
            level = spec.empty().lod.level(level)
        part = self._inner.slice(old.name, branch, level)
        lod, marks = _with_names(spec, part.lod), part.marks
        if old.marks != spec.marks:
            marks = spec.marks.kept(lod.n_levels, len(spec.levels))
        found = LoDTensor(part.values, lod, marks, part.nulls)
        if part.marks.of_values != marks.of_values:
            check_content({spec.name: found})
        return found


def _with_names(spec: TensorSpec, lod: LoD) -> LoD:
    """Return the index of a tensor, or of a slice of it, which has its finest levels."""
    names = spec.level_names[len(spec.levels) - lod.n_levels :]
    return lod if spec.array or lod.names == names else lod.with_names(names)
