"""Summary of a file for `lod inspect`: collected from the index, as text or JSON."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from lodcli.commands.inspect.drawing import draw, preview
from lodcli.commands.inspect.examined import Examined, Wanted, examined
from lodcli.commands.inspect.statistics import Lengths, Statistics, bars
from lodcli.formats.core.format import Source
from lodcli.formats.core.schema import (
    DEFAULT_NAME,
    LevelSpec,
    Schema,
    StoredArray,
    TensorSpec,
    find,
    find_all,
)
from lodcli.formats.items.indexed_copy import indexed
from lodcli.formats.structs.tree import Node, tree
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import attributes_text
from lodcli.reports.counting import described
from lodcli.reports.inspection import LevelStatistics
from lodcli.shell import output
from lodcli.shell.opened import Opened
from lodcli.shell.printable import printable
from lodcli.shell.progress import progressing_batches

# Limits on a preview of text: bytes read, and finest sequences.
PREVIEW_BYTES = 1 << 20
PREVIEW_SEQUENCES = 64
# Items of each level that are kept for a drawing: more than fit into a line.
HEAD_ITEMS = 10_000
MOST_STEPS_SHOWN = 10
MOST_RECORDS = 10
MOST_WORDS = 20
MOST_ATTRIBUTES = 150


@dataclass(frozen=True)
class TensorSummary:
    """One tensor.

    Attributes:
        lengths: of the sequences of every level.
        head: the index of its first outermost items, all if there are few; for a TensorArray, the
            whole index of its time-major form.
        text: its first finest sequences, if they are text.
    """

    spec: TensorSpec
    lengths: Lengths
    head: LoD
    rows: int
    text: str | None

    @cached_property  # not needed for a line of a table
    def statistics(self) -> Statistics:
        """The figures of every level."""
        return self.lengths.statistics(self.rows, self.spec.row_bytes)

    @property
    def size_bytes(self) -> int:
        """Bytes of the rows."""
        return self.rows * self.spec.row_bytes

    @property
    def shape(self) -> str:
        """The shape of the data, such as "15 x 2"."""
        return " x ".join(f"{size:,}" for size in (self.rows, *self.spec.row_shape))

    def levels(self, level: int | str | None) -> tuple[LevelStatistics, ...]:
        """Return the statistics of a level; of all for None."""
        levels = self.statistics.levels
        return levels if level is None else (levels[self.head.level(level)],)


class _Collected:
    """Statistics of the index of a tensor, collected part by part."""

    def __init__(self, spec: TensorSpec, *, whole: bool = False) -> None:
        self.rows = 0
        self._spec = spec
        self._lengths = Lengths(spec.level_names)
        self._head: list[LoD] = []
        most = math.inf if whole or spec.array else HEAD_ITEMS
        self._wanted: list[float] = [most] * len(spec.levels)

    @property
    def first(self) -> LoD:
        """The beginning of the first part."""
        return self._head[0] if self._head else self._spec.empty().lod

    def add(self, lod: LoD) -> None:
        """Take the next part."""
        self.rows += lod.rows or 0
        self._lengths.add(lod)
        if not self._head or max(self._wanted, default=0) > 0:
            lod = self._enough_of(lod)
            self._head.append(lod)
            self._wanted = [n - lod.count(k) for k, n in enumerate(self._wanted)]

    def _enough_of(self, lod: LoD) -> LoD:
        """Return a copy of the first outermost items of a part, or of all if it has fewer."""
        stop = HEAD_ITEMS
        while lod.n_levels and stop < lod.count(0):
            head, _ = lod.items(0, 0, stop)
            if all(head.count(k) >= n for k, n in enumerate(self._wanted)):
                return LoD([level.copy() for level in head.levels], head.names)
            stop *= 2
        return lod

    def summary(self, spec: TensorSpec, rows: int, text: str | None) -> TensorSummary:
        """Return the summary of a tensor with this index, after all parts were added."""
        head = LoD.concatenate(self._head) if self._head else self.first
        return TensorSummary(spec, self._lengths, head, rows, text)


def summaries(
    opened: Opened, wanted: Wanted, *, whole: bool = False
) -> tuple[list[TensorSummary], Examined]:
    """Return the summaries of the tensors of a file, and the results of the given options.

    Rows are read only if necessary. With `whole`, the head of each index is all of it.
    """
    if not wanted:
        return _summaries(opened, whole), Examined()
    chosen = opened.tensor().name if wanted.of_sequences else None
    names = [spec.name for spec in opened.schema]
    with indexed(opened.source, names) as source:
        specs = find_all(source.schema, names)
        one = None if chosen is None else find(source.schema, chosen)
        more = examined(source, specs, one, wanted)
        return _from_index(source, specs), more


def _summaries(opened: Opened, whole: bool) -> list[TensorSummary]:
    # A source that can slice without reading everything can read the index alone, and again.
    if opened.source.partial:
        return _from_index(opened.source, opened.schema, whole)
    return list(_from_batches(opened, whole))


def _from_index(source: Source, schema: Schema, whole: bool = False) -> list[TensorSummary]:
    """Read the index of each tensor; of tensors that share it only once."""
    known: dict[tuple[LevelSpec, ...], _Collected] = {}
    leads: dict[str, _Collected] = {}
    for spec in schema:
        if spec.levels not in known:
            known[spec.levels] = leads[spec.name] = _Collected(spec, whole=whole)
    for name, part in source.index_parts_of(leads):
        leads[name].add(part)
    found = []
    for spec in schema:
        collected = known[spec.levels]
        rows = collected.rows if spec.rows is None else spec.rows
        found.append(collected.summary(spec, rows, _first_text(source, spec, collected.first)))
    return found


def _first_text(source: Source, spec: TensorSpec, first: LoD) -> str | None:
    """Return the preview of a tensor of text; `first` is the first part of its index."""
    if spec.dtype.name == "uint8" and not spec.row_shape and first.n_levels and not spec.array:
        offsets = first.levels[-1][: PREVIEW_SEQUENCES + 1]
        count = int(offsets.searchsorted(PREVIEW_BYTES, side="right")) - 1
        if count:
            return preview(source.slice(spec.name, (slice(0, count),), -1), width=output.width())
    return None


def _from_batches(opened: Opened, whole: bool) -> Iterator[TensorSummary]:
    """Read everything once without keeping rows: the file may be a pipe, and large."""
    collected = {spec.name: _Collected(spec, whole=whole) for spec in opened.schema}
    rows = dict.fromkeys(collected, 0)
    texts: dict[str, str | None] = {}
    for batch in progressing_batches(opened.batches(), opened.schema, opened.read_share):
        for name, item in batch.items():
            tensor = item.array.steps if isinstance(item, StoredArray) else item
            collected[name].add(tensor.lod)
            rows[name] += tensor.rows
            if isinstance(item, LoDTensor) and tensor.rows:
                texts.setdefault(name, preview(tensor, width=output.width()))
    for spec in opened.schema:
        yield collected[spec.name].summary(spec, rows[spec.name], texts.get(spec.name))


# -- JSON --------------------------------------------------------------------------


def as_json(
    opened: Opened, found: list[TensorSummary], level: int | str | None, more: Examined
) -> dict[str, Any]:
    """Return everything, for scripts; the level is of the tensors that text shows in full."""
    main = [one.spec.name for one in _main(found) or found]
    return {
        "file": opened.reference.file,
        "format": opened.format_name,
        "bytes": file_bytes(opened),
        "attributes": dict(opened.source.attributes),
        "tensors": [
            _tensor_json(summary, level if summary.spec.name in main else None)
            | more.to_json(summary.spec.name)
            for summary in found
        ],
    }


def _tensor_json(summary: TensorSummary, level: int | str | None) -> dict[str, Any]:
    spec, figures = summary.spec, summary.statistics
    content: dict[str, Any] = described(spec) | {
        "rows": summary.rows,
        "bytes": summary.size_bytes,
        "levels": [asdict(one) for one in summary.levels(level)],
        "padding": asdict(figures.padding),
    }
    if spec.array:
        content["step_sizes"] = summary.head.lengths(0).tolist()
        content["outer"] = [{"name": outer.name, "items": outer.items} for outer in spec.outer]
    return content


def file_bytes(opened: Opened) -> int | None:
    """Return the size of a file; None for a pipe or a folder."""
    path = opened.reference.path
    return os.path.getsize(path) if path != "-" and os.path.isfile(path) else None


# -- text --------------------------------------------------------------------------


def _main(found: list[TensorSummary]) -> list[TensorSummary]:
    """Return the tensor to show in full, the only one or the one called "data"; [] for none."""
    return found if len(found) == 1 else [one for one in found if one.spec.name == DEFAULT_NAME]


def as_text(
    opened: Opened,
    found: list[TensorSummary],
    *,
    level: int | str | None,
    head: int | None,
    unicode: bool,
) -> str:
    """Return one line for each tensor, and details of the only one or of the one called "data"."""
    size = file_bytes(opened)
    main = _main(found)
    if level is not None and not main:
        for summary in found:
            summary.head.level(level)  # checked, although no levels are shown
    parts = [opened.format_name, output.plural(len(found), "tensor")]
    if size is not None:
        parts.append(output.size_text(size))
    name = printable(opened.reference.label)
    lines = [*output.headed(f"{name}:", ", ".join(parts)), ""]
    if len(found) > 1:
        lines += [_several(found), ""]
    lines += _words(found)
    lines += _attributes(found, opened.source.attributes)
    for summary in main:
        lines += _one(summary, level, head, unicode)
    return "\n".join(lines).rstrip("\n")


def forms_text(levels: Mapping[str, list[list[int]]]) -> str:
    """Return levels in the form of `lod apply lod_reset`; several tensors with their names."""
    lines = {
        name: "/".join(",".join(map(str, level)) for level in of_tensor)
        for name, of_tensor in levels.items()
    }
    if len(lines) == 1:
        return next(iter(lines.values()))
    return "\n".join(f"{printable(name)}: {line}" for name, line in lines.items())


def _several(found: list[TensorSummary]) -> str:
    rows = [
        (
            summary.spec.name,
            _kind(summary.spec) + (" steps" if summary.spec.array else ""),
            summary.shape,
            output.size_text(summary.size_bytes),
            _level_names(summary),
        )
        for summary in found
    ]
    table = output.table(("tensor", "dtype", "shape", "size", "levels"), rows)
    columns = [node for node in tree(tuple(one.spec for one in found)) if node.fields]
    return "\n".join([table, *([f"\nrecords: {_trees(columns)}"] if columns else [])])


def _words(found: list[TensorSummary]) -> list[str]:
    """Return a line for the tensors with the same categories, cut, and a blank line."""
    names: dict[tuple[str, ...], list[str]] = {}
    for one in found:
        if one.spec.marks.categories is not None:
            names.setdefault(one.spec.marks.categories.words, []).append(one.spec.name)
    lines = [
        printable(f"words of {', '.join(of)}: {', '.join(words[:MOST_WORDS])}")
        + (f" and {len(words) - MOST_WORDS:,} more" if len(words) > MOST_WORDS else "")
        for words, of in names.items()
    ][:MOST_RECORDS]
    return [*map(_cut, lines), ""] if lines else []


def _attributes(found: list[TensorSummary], of_file: Mapping[str, Any]) -> list[str]:
    """Return a line for the attributes of the file, and one for the tensors with the same ones.

    Each is cut; a blank line follows.
    """
    names: dict[str, list[str]] = {}
    for one in found:
        if one.spec.marks.attributes:
            names.setdefault(one.spec.marks.attributes, []).append(one.spec.name)
    said = [f"attributes of {', '.join(of)}: {text}" for text, of in names.items()][:MOST_RECORDS]
    if of_file:
        said.insert(0, f"attributes of the file: {attributes_text(of_file)}")
    return [*(_cut(printable(line)) for line in said), ""] if said else []


def _cut(line: str) -> str:
    return f"{line[:MOST_ATTRIBUTES]}.." if len(line) > MOST_ATTRIBUTES else line


def _trees(columns: Sequence[Node]) -> str:
    more = f" and {len(columns) - MOST_RECORDS} more" if len(columns) > MOST_RECORDS else ""
    return printable(", ".join(map(str, columns[:MOST_RECORDS]))) + more


def _kind(spec: TensorSpec) -> str:
    """Return a description of the rows: dtype, marks, and whether they may be null."""
    kind = spec.dtype.name
    if spec.marks.kind:
        kind = f"{spec.marks.of_values} ({kind})"
    return f"{kind} or null" if spec.nullable else kind


def _level_names(summary: TensorSummary) -> str:
    counted = zip(summary.lengths.items, summary.spec.level_names, strict=True)
    return ", ".join(
        f"{items:,} {name or f'(level {number})'}" for number, (items, name) in enumerate(counted)
    )


def _one(
    summary: TensorSummary, level: int | str | None, head: int | None, unicode: bool
) -> list[str]:
    spec, lod = summary.spec, summary.head
    kind = f"{_kind(spec)}, {summary.shape}, {output.size_text(summary.size_bytes)}"
    lines = output.headed(f"{printable(spec.name)}:", kind)
    if spec.array:
        lines += _steps(summary)
    if lod.n_levels:
        lines += ["", _levels(summary, level, unicode)]
        if not spec.array:
            for one in summary.statistics.levels:
                if not one.min == one.max == 1:
                    continue
                lines += output.wrapped(
                    f"{one.name or f'level {one.level}'}: every length is 1, so the level is "
                    "redundant; lod apply lod_reset --drop-ones removes it"
                )
    shown = lod
    if level is not None:
        number = lod.level(level)
        shown = lod.items(number, 0, lod.count(number))[0]
    if lod.n_levels and level is None and not spec.array:
        lines += ["", *output.wrapped(_padding(summary))]
    drawn = _drawing(shown, summary, head, unicode)
    if drawn:
        lines += ["", *drawn]
    if summary.text is not None:
        lines += ["", summary.text]
    return lines


def _levels(summary: TensorSummary, level: int | str | None, unicode: bool) -> str:
    shown = summary.levels(level)
    # Most tensors have no empty sequence, and 80 columns are few.
    empty = any(one.empty for one in shown)
    rows = [
        (
            str(one.level),
            one.name or "-",
            f"{one.items:,}",
            *(output.figure(x, ",.1f") for x in (one.min, one.median, one.mean, one.p95, one.max)),
            *[f"{one.empty:,}"] * empty,
            bars(one.histogram, unicode=unicode),
        )
        for one in shown
    ]
    headers = ["level", "name", "items", "min", "median", "mean", "p95", "max"]
    return output.table([*headers, *["empty"] * empty, "lengths"], rows)


def _steps(summary: TensorSummary) -> list[str]:
    sizes = summary.head.lengths(0)
    shown = " ".join(str(size) for size in sizes[:MOST_STEPS_SHOWN].tolist())
    more = " .." if sizes.size > MOST_STEPS_SHOWN else ""
    lines = output.wrapped(
        f"TensorArray of {output.plural(sizes.size, 'step')}, sizes {shown}{more}"
    )
    outer = ", ".join(_outer_level(number, spec) for number, spec in enumerate(summary.spec.outer))
    return [*lines, *output.wrapped(f"unpacked from {outer}")] if outer else lines


def _outer_level(number: int, spec: LevelSpec) -> str:
    name = printable(spec.name or f"(level {number})")
    return name if spec.items is None else f"{spec.items:,} {name}"


def _padding(summary: TensorSummary) -> str:
    cost = summary.statistics.padding
    return (
        f"padded to one rectangle: {output.plural(cost.padded_rows, 'row')}, "
        f"{100 * cost.fraction:.1f} % of them padding; saved: {output.size_text(cost.saved_bytes)}"
    )


def _drawing(lod: LoD, summary: TensorSummary, head: int | None, unicode: bool) -> list[str]:
    rows = summary.rows
    if head is not None and lod.n_levels:
        lod, kept = lod.items(0, 0, min(head, lod.count(0)))
        rows = kept.stop
    elif head is not None:
        rows = min(head, rows)
    return draw(lod, rows, summary.spec.row_shape, width=output.width(), unicode=unicode)
