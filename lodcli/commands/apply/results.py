"""Writing the results of batches, alone or with the other tensors of the file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from shlex import quote

import click

from lodcli.commands.choose.choosing import (
    items_or_batches,
    items_or_stream,
    named,
    require_shared,
)
from lodcli.formats.core.batching import groups
from lodcli.formats.core.errors import append_text
from lodcli.formats.core.schema import (
    Batch,
    Item,
    LevelSpec,
    Schema,
    TensorSpec,
    find_all,
    schema_of,
)
from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.opened import COMPUTED_BYTES, opened
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

# Takes tensors by name, and the number of their first item; returns results by name.
Compute = Callable[[Mapping[str, LoDTensor], int], dict[str, LoDTensor]]


@dataclass(frozen=True)
class Result:
    """A result to compute of every batch of a file.

    Attributes:
        compute: the computation; it may return several results only without `into`.
        names: of the tensors to compute with; none: the selected one.
        into: name of the result, which is written with all tensors of the file; None: it is
            written alone.
        text: the expression, for errors.
        keeps: whether the result has the index of the first of the tensors, or its upper levels.
        nulls: whether the result may have nulls, given that tensor and the result.
        of_items: whether the result has a value for each item of the file, if it has no names.
        check: raises an error if the schema of the file does not fit the computation.
    """

    compute: Compute
    names: Sequence[str] = ()
    into: str | None = None
    text: str = ""
    keeps: bool = False
    nulls: Callable[[TensorSpec, TensorSpec], bool] = lambda lead, made: False
    of_items: bool = False
    check: Callable[[Schema], None] = lambda schema: None


def write_results(source: Reference, results: Sequence[Result], target: Target) -> None:
    """Write the results of computations on every batch of a file.

    Args:
        results: each may use those before it, which have a name; the last one's decides what is
            written.
    """
    whole = replace(source, name=None)
    into = results[-1].into
    with opened(source) as file:
        schema = file.source.schema
        results[0].check(schema)
        names = _read_names(results, [spec.name for spec in schema])
        of_items = not names and source.name is None and results[0].of_items
        if of_items:
            names = [spec.name for spec in schema]
        for one in results:
            if one.of_items and not one.names:  # it is computed from none of the tensors
                known = [spec.name for spec in schema]
                refuse_into(known, source.name or "", one.into or "", one.text)
        names = names or [file.tensor().name]
        if len(groups(find_all(schema, names))) == 1:
            passing = [spec.name for spec in schema] if into else names

            def batches(wanted: Sequence[str]) -> Iterator[Batch]:
                for batch in named(source, file.source.batches_of(wanted, COMPUTED_BYTES)):
                    kept = {name: batch[name] for name in batch if name in wanted}
                    if kept:
                        yield kept

            alone = None if source.path == "-" else functools.partial(batches, names)
            _write(results, names[0], target, schema, batches(passing), alone)
            return
        # Not opened again unnecessarily: of a pipe, only the rest could be read.
        again = source.name is not None
        only = into is None or of_items
        items = (
            items_or_stream(whole, 0, names, only=only)
            if again
            else items_or_batches(file, 0, names, only=only)
        )
        with ExitStack() as stack:
            try:
                shared, _, found = stack.enter_context(items)
                require_shared(shared, names)
            except SelectionError as error:
                if of_items:
                    file.tensor()  # raises an error that lists the tensors
                if len(results) > 1:
                    append_text(
                        error,
                        "expressions with --then take tensors of the same items: "
                        "run lod apply once more for the others",
                    )
                raise
            _write(results, names[0], target, shared.schema, found)


def _read_names(results: Sequence[Result], known: Sequence[str]) -> list[str]:
    """Return the names of the tensors of the file to compute with."""
    made: list[str | None] = []
    names: list[str] = []
    for result in results:
        # A later name that is unknown is found by the check of that result.
        names += [name for name in result.names if name not in made and (name in known or not made)]
        made.append(result.into)
    return list(dict.fromkeys(names))


def _write(
    results: Sequence[Result],
    lead: str,
    target: Target,
    schema: Schema,
    batches: Iterator[Batch],
    alone: Callable[[], Iterator[Batch]] | None = None,
) -> None:
    """Write the results.

    Args:
        results: see `write_results`.
        lead: the tensor of a result that names none.
        batches: of the tensors to compute with, and of those to write besides the results.
        alone: returns batches of only the tensors to compute with; None if the source can be read
            only once.
    """
    for result in results:
        result.check(schema)
        step = _Computing(find_all(schema, result.names or [lead]), result)
        schema, batches = step.begun(schema, batches, alone)
        if alone is not None:
            alone = functools.partial(step.again, alone)
    target.write(schema, batches)


def write_beside(
    tensors: Mapping[str, Item],
    lead: str,
    results: Mapping[str, LoDTensor],
    into: str | None,
    target: Target,
) -> None:
    """Write results in memory, alone or beside other tensors."""
    if into is None:
        target.write(schema_of(results), [results])
        return
    refuse_into([*tensors], lead, into)
    result = _only(results)
    # Not a second field of the same path: the records would fall apart.
    marks = replace(result.marks, fields=())
    items = {**tensors, into: LoDTensor(result.values, result.lod, marks, result.nulls)}
    target.write(schema_of(items), [items])


def refuse_into(known: Sequence[str], lead: str, into: str, text: str = "") -> None:
    """Raise click.UsageError if a result would replace a tensor other than its first input."""
    if into in known and into != lead:
        to = f" to {text!r}" if text else ""
        replaces = f"lod drop OUT {quote(into)} | lod rename - NAME={quote(into)} replaces it"
        raise click.UsageError(
            f"--into: a tensor is called {into} already; give another name{to}, then {replaces}"
        )


def _only(results: Mapping[str, LoDTensor]) -> LoDTensor:
    if len(results) > 1:
        raise click.UsageError(
            f"--into names one result, this op has several: {', '.join(results)}"
        )
    return next(iter(results.values()))


class _Computing:
    """Computes a result of batches while they are read.

    Args:
        chosen: the tensors to compute with, which are in the same batches.
        result: see there.
    """

    def __init__(self, chosen: Schema, result: Result) -> None:
        self._chosen = chosen
        self._lead = chosen[0]
        self._compute = result.compute
        self._into, self._text = result.into, result.text
        self._keeps = result.keeps
        self._nulls = result.nulls
        # The tensor whose index the result has, and how many levels of it.
        self._model, self._depth = chosen[0], 0

    def begun(
        self,
        schema: Schema,
        batches: Iterator[Batch],
        alone: Callable[[], Iterator[Batch]] | None,
    ) -> tuple[Schema, Iterator[Batch]]:
        """Return the schema with the result, and its batches; see `_write`."""
        # The first result determines dtypes, shapes and levels.
        held: list[Batch] = []
        for batch in batches:
            held.append(batch)
            if self._lead.name in batch or alone is not None:
                break
        known: dict[str, LoDTensor] | None = None
        if held and self._lead.name in held[-1]:
            first = _tensors(held[-1], self._chosen)
            results = known = self._compute(first, 0)
        else:
            empty: Batch = {spec.name: spec.empty() for spec in self._chosen}
            first = _tensors(next(alone() if alone else iter(()), empty), self._chosen)
            results = self._compute(first, 0)
        return self._announced(schema, results, first), self._computed(chain(held, batches), known)

    def again(self, batches: Callable[[], Iterator[Batch]]) -> Iterator[Batch]:
        """Return batches with the result, from other ones."""
        return self._computed(batches(), None)

    def _announced(
        self, schema: Schema, results: Mapping[str, LoDTensor], tensors: Mapping[str, LoDTensor]
    ) -> Schema:
        if self._into is None:
            specs = (spec.uncounted() for spec in schema_of(results))
            return tuple(replace(spec, nullable=self._nulls(self._lead, spec)) for spec in specs)
        refuse_into([spec.name for spec in schema], self._lead.name, self._into, self._text)
        result = _only(results)
        if self._keeps:
            depths = [_shared_depth(result, tensors[spec.name]) for spec in self._chosen]
            self._depth = max(depths)
            self._model = self._chosen[depths.index(self._depth)]
        made = _spec(self._into, result, self._model, self._depth)
        made = replace(made, nullable=self._nulls(self._lead, made))
        others = tuple(made if spec.name == self._into else spec for spec in schema)
        return others if self._into == self._lead.name else (*others, made)

    def _computed(
        self, batches: Iterator[Batch], known: dict[str, LoDTensor] | None
    ) -> Iterator[Batch]:
        """Yield the batches with the result; `known` are those of the first batch, or None."""
        first = 0
        for batch in batches:
            if self._lead.name not in batch:
                yield batch
                continue
            tensors = _tensors(batch, self._chosen)
            found, known = known or self._compute(tensors, first), None
            first += len(tensors[self._lead.name])
            if self._into is None:
                yield found
                continue
            result = _only(found)
            if _shared_depth(result, tensors[self._model.name]) < self._depth:
                raise InvalidDataError(
                    f"the index of {self._into} is that of {self._model.name} "
                    "only in the first items"
                )
            yield {**batch, self._into: result}


def _shared_depth(result: LoDTensor, tensor: LoDTensor) -> int:
    """Return how many levels, from the outermost, two tensors share."""
    pairs = zip(result.lod.levels, tensor.lod.levels, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))


def _spec(name: str, result: LoDTensor, lead: TensorSpec, depth: int) -> TensorSpec:
    """Return the spec of a result, given its first batch and the tensor that it is computed from.

    Args:
        depth: how many levels they share.
    """
    names = result.lod.names
    own = (LevelSpec(f"{name} {n}", names[n]) for n in range(depth, len(names)))
    rows = lead.rows if depth == len(lead.levels) == len(names) else None
    return TensorSpec(
        *(name, result.dtype, result.row_shape, (*lead.levels[:depth], *own), rows),
        marks=result.marks,
    )


def _tensors(batch: Mapping[str, Item], chosen: Schema) -> dict[str, LoDTensor]:
    found = {}
    for spec in chosen:
        tensor = batch[spec.name]
        assert isinstance(tensor, LoDTensor)
        found[spec.name] = tensor
    return found
