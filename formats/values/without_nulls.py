"""Nulls of files: an error for formats without them, or filled or dropped by `--nulls`."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from shlex import quote

import numpy as np

from lodcli.formats.core.batching import groups, only
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.names import is_plain
from lodcli.formats.core.options import fill_value
from lodcli.formats.core.schema import Batch, Item, Schema, StoredArray, TensorSpec, tensor_of
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.items.taking import taken
from lodcli.kernels.errors import NullError, OptionError
from lodcli.kernels.options import by_reader, option, option_name
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask, Nulls

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}:[0-9]{2}|[+-]?P")
_ALONE = "choose one tensor with FILE::NAME, or fill them"


def refusing_nulls(
    batches: Iterable[Batch],
    what: str,
    *,
    lists_only: bool = False,
    among: Container[str] | None = None,
) -> Iterator[Batch]:
    """Yield batches without nulls.

    Args:
        what: what cannot hold nulls, for messages.
        lists_only: whether null numbers and null text are yielded.
        among: names of tensors; nulls of others are yielded.

    Raises:
        NullError: there is a null; names the tensor and the position.
    """
    for batch, before in _counted(batches):
        for name, item in batch.items():
            if not isinstance(item, LoDTensor) or (among is not None and name not in among):
                continue
            if _null_lists(item) if lists_only else item.nulls:
                with naming(name):
                    item.refuse_nulls(what, before[name])
        yield batch


def _null_lists(tensor: LoDTensor) -> bool:
    """Return whether there are nulls other than numbers and text."""
    values = tensor.lod.n_levels - tensor.marks.is_text
    return any(level != values for level, _ in tensor.nulls.present())


def has_null_texts(item: Item) -> bool:
    """Return whether a tensor is text, and some of its texts are null."""
    return isinstance(item, LoDTensor) and item.marks.is_text and item.nulls.mask(-2) is not None


def _counted(batches: Iterable[Batch]) -> Iterator[tuple[Batch, dict[str, int]]]:
    """Yield batches, each with the number of outermost items of its tensors that came before."""
    done = dict[str, int]()
    for batch in batches:
        yield batch, {name: done.get(name, 0) for name in batch}
        for name, item in batch.items():
            done[name] = done.get(name, 0) + len(tensor_of(item))


def _coalesced(name: str, text: str) -> str:
    """Return the expression with a text in place of the null texts of a tensor."""
    value, other = (json.dumps(one, ensure_ascii=False) for one in (name, text))
    return f"coalesce({name if is_plain(name) else f'tensor({value})'}, {other})"


class WithoutNulls(Wrapped):
    """A source whose nulls are filled, dropped or refused.

    Args:
        how: "empty", "zero", "nan", "drop", "error" or "fill=X".
        records: whether the outermost items of all tensors belong together: a null in one of the
            requested tensors drops the item from all of them.
    """

    option = "nulls"

    def __init__(self, inner: Source, how: str, *, records: bool) -> None:
        super().__init__(inner)
        self._how = how
        self._records = records or len(inner.schema) == 1
        self.schema, self.valueless = schema_without_nulls(inner.schema, how), frozenset()
        self._check_fill()

    def _check_fill(self) -> None:
        """Raise OptionError if no tensor has the value that is to replace nulls."""
        text = fill_value(self._how) if self._how.startswith("fill=") else 0
        known = (spec.marks.categories for spec in self.schema)
        if not isinstance(text, str) or _TIME.match(text):
            return
        if not any(one is not None and text in one.words for one in known):
            hint = ""
            texts = (one.name for one in self._inner.schema if one.marks.is_text and one.nullable)
            if name := next(texts, None):
                shell = f"lod apply {quote(_coalesced(name, text))} FILE --into {quote(name)}"
                hint = f"; for text, {by_reader(shell=shell, python='fill_nulls of a tensor')}"
            raise OptionError(
                f"{option_name('nulls')}: {self._how}: expected a number, a date, a time, "
                f"a duration, true, false or a word of categories{hint}"
            )

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = list(names)
        return self._treated(only(self._inner.batches_of(wanted, limit_bytes), wanted), wanted)

    def _treated(self, batches: Iterator[Batch], names: list[str]) -> Iterator[Batch]:
        wanted = set(names)
        schema = tuple(spec for spec in self._inner.schema if spec.name in wanted)
        if self._how == "error":
            yield from refusing_nulls(batches, option("nulls", "error"))
        elif self._how == "drop":
            for batch, before in _counted(batches):
                yield _dropped(schema, batch, before, self._records)
        else:
            for batch, before in _counted(batches):
                yield {name: self._filled(name, item, before[name]) for name, item in batch.items()}

    def _filled(self, name: str, item: Item, before: int) -> Item:
        if isinstance(item, StoredArray) or not item.nulls:
            return item
        with naming(name):
            if self._how != "empty":
                if self._how in ("zero", "nan") and item.marks.categories is not None:
                    why = f"categories have no {self._how}"
                    _refuse_rows(item, before, why, "keep", "drop", "fill=X")
                # A number is a word of categories, and no code.
                word = item.marks.categories is not None and self._how.startswith("fill=")
                value = self._how.removeprefix("fill=") if word else fill_value(self._how)
                return item.fill_nulls(0 if item.marks.values else value)  # texts become empty
            others = ("keep",) if item.marks.categories is not None else ("zero", "nan")
            _refuse_rows(item, before, "no row is empty", *others, "drop", "fill=X")
            return LoDTensor(item.values, item.lod, item.marks)


def schema_without_nulls(schema: Schema, how: str) -> Schema:
    """Return the schema of a file whose nulls are filled, dropped or refused; see WithoutNulls."""
    drops = how == "drop" and any(spec.nullable for spec in schema)
    # Without nulls no record is null, so nothing has to store which are.
    return tuple(
        replace(
            replace(spec.uncounted(), rows=spec.rows if spec.array else None) if drops else spec,
            nullable=False,
        )
        for spec in schema
        if not spec.marks.tells_records
    )


def _refuse_rows(item: LoDTensor, before: int, why: str, *others: str) -> None:
    """Raise NullError, with other values of the option, if a row is null."""
    if item.nulls.rows is not None:
        only = Nulls((*(None for _ in item.lod.levels), item.nulls.rows))
        where = only.first(item.lod, before)
        raise NullError(f"{where}, and {why}; use {option('nulls', *others)}")


def _dropped(schema: Schema, batch: Batch, before: Mapping[str, int], records: bool) -> Batch:
    """Return a batch without its null items and rows, the same outermost items in all tensors.

    Args:
        batch: some of the items.
        before: by tensor, the number of outermost items that came before.
        records: see WithoutNulls.
    """
    tensors = {name: item for name, item in batch.items() if isinstance(item, LoDTensor)}
    if not any(tensor.nulls for tensor in tensors.values()):
        return batch
    apart = [] if records else groups(schema)
    kept: Mask | None = None
    for name, tensor in tensors.items():
        mask = tensor.nulls.mask(0)
        if mask is None:
            continue
        if len(apart) > 1:
            other = next(one[0].name for one in apart if all(spec.name != name for spec in one))
            where = tensor.nulls.first(tensor.lod, before[name])
            also = by_reader(
                shell=", or lod filter FILE 'NAME is not None' chooses items", python=""
            )
            raise NullError(f"{name}: {where}, and {other} may have the same items; {_ALONE}{also}")
        kept = mask if kept is None else kept & mask
    if kept is not None:
        tensors = taken(tensors, np.flatnonzero(kept))
    specs = {spec.name: spec for spec in schema}
    owners: dict[str, list[str]] = {}
    for spec in schema:
        for level in spec.levels:
            owners.setdefault(level.key, []).append(spec.name)
    return {
        name: _without_inner(specs[name], owners, item, tensors[name], before[name])
        if isinstance(item, LoDTensor)
        else item
        for name, item in batch.items()
    }


def _without_inner(
    spec: TensorSpec,
    owners: Mapping[str, Sequence[str]],
    given: LoDTensor,
    tensor: LoDTensor,
    before: int,
) -> LoDTensor:
    """Return a tensor without nulls below its outermost items.

    Args:
        owners: the tensors of each level.
        given: with its null items, which messages count.
        tensor: without them.
        before: number of outermost items before those given.
    """
    if not tensor.nulls:
        return tensor
    name = spec.name
    for level, _ in tensor.nulls.present():
        sharing = owners[spec.levels[level - 1].key] if level else ()
        other = next((one for one in sharing if one != name), None)
        if other is not None:
            below = Nulls.of([None, *given.nulls.masks[1:]])
            raise NullError(
                f"{name}: {below.first(given.lod, before)}, and {other} has the same sequences; "
                f"{_ALONE}"
            )
    return tensor.drop_nulls()
