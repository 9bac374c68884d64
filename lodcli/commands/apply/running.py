"""Runs a chain of ops over the tensors of files, for `lod apply`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import click
import numpy as np

from lodcli.commands.apply.arguments import as_kind
from lodcli.commands.apply.calling import call
from lodcli.commands.apply.expression import TensorExpression
from lodcli.commands.apply.results import Result, write_beside, write_results
from lodcli.commands.apply.steps import ARITHMETIC, Step
from lodcli.expressions.digits import spec_without_decimals, without_decimals
from lodcli.expressions.function_table import INDEX
from lodcli.expressions.showing import showing_where
from lodcli.formats.arrays.budget import WHOLE_COPIES, require_fits
from lodcli.formats.core.errors import naming
from lodcli.formats.core.limits import declared_bytes
from lodcli.formats.core.schema import Item, Schema, TensorSpec, find, schema_of, tensor_of
from lodcli.formats.values.changed import value_at
from lodcli.kernels.dtypes import dtype_of_rows, is_float
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.plugins import no_gpu
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Marks, Times
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.shell.opened import Opened, opened
from lodcli.shell.options import refuse_two_pipes
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

_SORTED, _REORDERED = "sort_by_length", "reorder_by_rank"


class Column(NamedTuple):
    """An expression, the name of its value, and the dtype to compute in: see `Writing`."""

    text: str
    into: str | None
    dtype: str | None


@dataclass(frozen=True)
class Writing:
    """The target of the results, and how they are computed.

    Attributes:
        into: name of the result, which is written with all tensors of the file; None: it is
            written alone.
        dtype: floating dtype to which tensors are converted first, and floats of the result; None:
            not converted.
    """

    target: Target
    into: str | None = None
    dtype: str | None = None
    device: str = "cpu"

    def prepared(self, tensor: LoDTensor, name: str, before: int = 0) -> LoDTensor:
        """Return a tensor in the dtype to compute with; text, times and categories as they are.

        Args:
            tensor: of a file, or a part of it.
            before: number of outermost items in earlier parts.
        """
        if self.dtype is None or tensor.marks.kind not in (None, "decimal"):
            return tensor
        dtype = dtype_of_rows(self.dtype)
        if tensor.dtype.kind == "c":
            raise UnsupportedError(f"--dtype {dtype}: the tensor is complex, found {tensor.dtype}")
        rows = _floats(without_decimals(tensor), dtype, name, before)
        return LoDTensor(rows, tensor.lod, nulls=tensor.nulls)

    def rounded(self, result: LoDTensor, name: str, before: int) -> LoDTensor:
        """Return a result with its floats in the dtype; quotients of times, say, are float64."""
        if self.dtype is None or not is_float(result.dtype):
            return result
        rows = _floats(result, dtype_of_rows(self.dtype), name, before)
        return LoDTensor(rows, result.lod, result.marks, result.nulls)


def _floats(tensor: LoDTensor, dtype: np.dtype[Any], name: str, before: int) -> Array:
    """Return values in a floating dtype. Raises InvalidDataError: one is too large for it."""
    values = tensor.values
    rows = as_dtype(values, dtype)
    if rows is values or np.isfinite(rows).all():
        return rows
    large = np.isfinite(values) & ~np.isfinite(rows)
    if large.any():
        where, value = value_at(tensor, None, int(large.argmax()), before)
        narrow = np.isfinite(as_dtype(values[large], np.dtype(np.float32))).all()
        wider = "float32 or float64" if narrow else "float64"
        with naming(name):
            raise InvalidDataError(f"{where}: {value} does not fit {dtype}; give --dtype {wider}")
    return rows


def _after(first: int) -> AbstractContextManager[None]:
    """Name the first outermost item of a batch in errors of ops, which count from 0 in each."""
    return naming(f"of the items from {first} on") if first else nullcontext()


def apply(steps: Sequence[Step], writing: Writing) -> None:
    """Run the steps, and write the results of the last one."""
    if writing.target.shard_option:
        _apply_by_shards(steps, writing)
        return
    device = writing.device
    for step in steps if device != "cpu" else ():
        if step.values.get("backend", "auto") != "auto":
            raise click.UsageError(
                f"--backend {step.values['backend']} computes in main memory; it goes with "
                "--device cpu"
            )
        if not step.entry.gpu:
            raise no_gpu(step.entry)
    refuse_two_pipes(one for step in steps for one in step.references())
    ready = [_with_files(step, device) for step in steps]
    first = steps[0].files[0]
    if _whole(steps) is None:

        def compute(tensors: Mapping[str, LoDTensor], first: int) -> dict[str, LoDTensor]:
            ((name, tensor),) = tensors.items()
            values = [writing.prepared(tensor, name, first)]
            with _after(first):
                return _run(ready, values, name, device)

        keeps = all(step.entry.keeps or step.entry.pools for step in steps)
        nulls = _may_have_nulls(steps)
        result = Result(compute, into=writing.into, keeps=keeps, nulls=nulls)
        write_results(first, [result], writing.target)
        return
    if writing.into is None and _written_in_parts(ready, writing):
        return
    beside: Mapping[str, Item] = {}
    name = ""
    values: list[LoDTensor] = []
    names: list[str] = []
    with ExitStack() as stack:
        files = [stack.enter_context(opened(one)) for one in steps[0].files]
        _require_fit(files)
        if writing.into is not None:
            with opened(dataclasses.replace(first, name=None)) as file:
                beside = file.read([spec.name for spec in file.source.schema])
        for file in files:
            found, tensor = _read_from(file, _input_kind(steps[0], len(values)))
            if not name and found in beside:
                tensor = tensor_of(beside[found])  # the index that they share is one object
            name = name or found
            names.append(found)
            values.append(writing.prepared(tensor, found))
    ready[0] = _naming_tensors(ready[0], names)
    results = _run(ready, values, name, device)
    write_beside(beside, name, results, writing.into, writing.target)


def _naming_tensors(step: Step, names: Sequence[str]) -> Step:
    """Return a step whose files name the tensors that were read from them."""
    waiting = iter(names)
    inputs = (
        dataclasses.replace(one, name=next(waiting)) if isinstance(one, Reference) else one
        for one in step.inputs
    )
    return dataclasses.replace(step, inputs=tuple(inputs))


def _whole(steps: Sequence[Step]) -> Step | None:
    """Return the first step that takes whole tensors; None if all can process batches."""
    for step in steps:
        if not step.itemwise or (step is steps[0] and len(step.files) > 1):
            return step
    return None


def _may_have_nulls(steps: Sequence[Step]) -> Callable[[TensorSpec, TensorSpec], bool]:
    """Return a function of the first tensor and a result: whether the result may have nulls."""
    keep = all(step.entry.nulls or step.number is not None for step in steps)
    # Of an empty sequence, no time is the greatest: see sequence_max. And none is a duration / 0.
    pick = any(step.picks or step.entry.pools or step.name in ARITHMETIC for step in steps)
    return lambda lead, made: (
        (keep and lead.nullable) or (pick and isinstance(made.marks.unit, Times | Categories))
    )


class _Failed(Exception):
    """An op failed on a batch; places in its error are not those in the tensor."""


def _written_in_parts(steps: Sequence[Step], writing: Writing) -> bool:
    """Write the results of batches if together they are the result; return whether it was done."""
    first, target, begun = steps[0], writing.target, False
    if any(step.files or not step.itemwise for step in steps[1:]):
        return False
    from lodcli.commands.apply.in_step import in_step, items_by_rank, longest_items

    try:
        with ExitStack() as stack:
            if first.entry.pairs and first.number is None:
                parts = in_step(stack, first.files, fewer=first.name in ARITHMETIC)
            elif first.name == _SORTED:
                parts = longest_items(stack, first.files[0], first.values.get("level", 0))
                steps = steps[1:]
            elif first.name == _REORDERED:
                parts = items_by_rank(stack, first.files[0], first.values["table"])
                steps = steps[1:]
            else:
                return False
            if parts is None:
                return False
            found = _results(steps, *parts, writing)
            start = next(found)
            begun = True
            nulls = _may_have_nulls(steps)
            schema = tuple(
                dataclasses.replace(spec.uncounted(), nullable=nulls(spec, spec))
                for spec in schema_of(start)
            )
            target.write(schema, chain([start], found))
    except _Failed as failed:
        # With whole tensors the op's error has the right place; data in a pipe cannot be undone.
        if begun and target.path == "-" and failed.__cause__ is not None:
            raise failed.__cause__ from None
        return False
    return True


def _results(
    steps: Sequence[Step], name: str, batches: Iterator[list[LoDTensor]], writing: Writing
) -> Iterator[dict[str, LoDTensor]]:
    first = 0
    for batch in batches:
        try:
            values = [writing.prepared(tensor, name, first) for tensor in batch]
            with _after(first):
                found = _run(steps, values, name, writing.device)
        except LodError as error:
            raise _Failed from error
        yield found
        first += len(batch[0])


def _apply_by_shards(steps: Sequence[Step], writing: Writing) -> None:
    """Run the steps over each shard of a dataset."""
    from lodcli.shell.jobs.by_shards import by_shards

    whole = _whole(steps)
    if whole is not None:
        raise UnsupportedError(
            f"{writing.target.shard_option} computes each shard separately, and {whole.name} takes "
            "whole tensors; leave it out"
        )
    _require_cpu(writing)
    source, *rest = steps[0].inputs
    assert isinstance(source, Reference)
    steps = [dataclasses.replace(steps[0], inputs=tuple(rest)), *steps[1:]]
    files = [one.path for step in steps for one in step.references()]
    aside = dataclasses.replace(writing, target=Target())
    by_shards(_apply_shard, source, writing.target, steps, aside, files=files)


def _apply_shard(source: Reference, target: Target, steps: Sequence[Step], how: Writing) -> None:
    first = dataclasses.replace(steps[0], inputs=(source, *steps[0].inputs))
    apply([first, *steps[1:]], dataclasses.replace(how, target=target))


def _require_cpu(writing: Writing) -> None:
    if writing.device != "cpu":
        raise click.UsageError(
            f"{writing.target.shard_option} computes on the CPU, without --device cuda"
        )


def _run(
    steps: Sequence[Step], values: Sequence[LoDTensor], name: str, device: str
) -> dict[str, LoDTensor]:
    """Return the results of the last step, by name, in main memory.

    Args:
        steps: with the content of their files: see _with_files.
        values: the inputs of the first step.
        name: of a result without a name.
        device: where the ops compute; their results stay there until the last.
    """
    items = {name: values[0]}
    padder = ""
    for step in steps:
        given = list(values)
        if step.chained:
            (before,) = items.values()
            given = [before, *(_read(one, "tensor")[1] for one in step.files)]
        items = _named(call(step, given, device, name, padder), step, name)
        pads = "pad_value" in (one.name for one in step.described.options)
        made = any(one.nulls for one in items.values()) and not any(one.nulls for one in given)
        padder = step.name if made and pads else padder
    return {key: tensor.to_device("cpu") for key, tensor in items.items()}


def _named(result: Any, step: Step, name: str) -> dict[str, LoDTensor]:
    """Return results by name; a number or an array becomes a tensor without levels."""
    if isinstance(result, tuple | list):
        names = step.entry.results or [f"{name}_{place}" for place in range(len(result))]
        return {key: _tensor(one) for key, one in zip(names, result, strict=True)}
    return {name: _tensor(result)}


def _tensor(result: Any) -> LoDTensor:
    if isinstance(result, LoDTensor):
        return result
    if isinstance(result, TensorArray):
        return result.steps
    return LoDTensor(np.atleast_1d(as_array(result)))


def _with_files(step: Step, device: str) -> Step:
    """Return a step with the content of the files in its options; arrays are on the device."""
    kinds = {one.name: one.kind for one in step.described.options}
    values = dict(step.values)
    for key, value in values.items():
        if isinstance(value, Reference):
            value = as_kind(kinds[key], _read(value, kinds[key])[1])
        if kinds.get(key) == "array" and not step.entry.is_index(key):
            value = LoDTensor(value).to_device(device).data
        elif isinstance(value, LoDTensor):
            value = value.to_device(device)
        values[key] = value
    return dataclasses.replace(step, values=values)


def _input_kind(step: Step, place: int) -> str:
    wanted = step.described.inputs
    return wanted[min(place, len(wanted) - 1)].kind


def _read(reference: Reference, kind: str) -> tuple[str, LoDTensor]:
    """Read a tensor of a file; see `_read_from`."""
    with opened(reference) as file:
        return _read_from(file, kind)


def _read_from(file: Opened, kind: str) -> tuple[str, LoDTensor]:
    """Read a tensor, or the steps of a TensorArray if one is expected, with its name."""
    if kind == "steps" and any(spec.array for spec in file.schema):
        name, stored = file.array()
        return name, stored.array.steps
    return file.read_tensor()


def _require_fit(files: Sequence[Opened]) -> None:
    """Raise TooLargeError unless the tensors of all these files fit into the memory budget."""
    if len(files) > 1:
        specs = [find(file.source.schema, file.reference.name) for file in files]
        what = ", ".join(dict.fromkeys(file.reference.label for file in files))
        require_fits(what, sum(map(declared_bytes, specs)), WHOLE_COPIES)


def apply_expressions(columns: Sequence[Column], source: Reference, writing: Writing) -> None:
    """Write the values of expressions; each may use those before it, which have a name."""
    if writing.target.shard_option:
        from lodcli.shell.jobs.by_shards import by_shards

        _require_cpu(writing)
        with showing_where():
            if any(TensorExpression(one.text).counts for one in columns):
                raise UnsupportedError(
                    f"{writing.target.shard_option} computes each shard separately, and index() "
                    "counts the items of all; leave it out"
                )
        aside = dataclasses.replace(writing, target=Target())
        by_shards(_express_shard, source, writing.target, columns, aside)
        return
    with showing_where():
        results = [_value(one, dataclasses.replace(writing, dtype=one.dtype)) for one in columns]
        write_results(source, results, writing.target)


def _value(column: Column, writing: Writing) -> Result:
    """Return the value of an expression."""
    expression = TensorExpression(column.text)
    marks = dict[str, Marks]()

    def check(schema: Schema) -> None:
        marks.update((spec.name, spec.marks) for spec in schema)
        floats = writing.dtype is not None
        expression.check(tuple(map(spec_without_decimals, schema)) if floats else schema)

    def compute(tensors: Mapping[str, LoDTensor], first: int) -> dict[str, LoDTensor]:
        own = {
            name: writing.prepared(_marked(tensor, marks[name]), name, first)
            for name, tensor in tensors.items()
        }
        placed = {name: tensor.to_device(writing.device) for name, tensor in own.items()}
        name = expression.tensors[0] if expression.tensors else INDEX
        with _after(first):
            made = expression.of(placed, first)
        return {name: writing.rounded(made, column.into or "result", first)}

    return Result(
        *(compute, expression.tensors, column.into),
        text=column.text,
        keeps=expression.keeps,
        nulls=lambda lead, made: expression.nulls(),
        of_items=True,
        check=check,
    )


def _marked(tensor: LoDTensor, marks: Marks) -> LoDTensor:
    """Return a tensor with its marks, which batches of a file may lack."""
    return LoDTensor(tensor.values, tensor.lod, Marks(marks.values, marks.unit), tensor.nulls)


def _express_shard(
    source: Reference, target: Target, columns: Sequence[Column], how: Writing
) -> None:
    apply_expressions(columns, source, dataclasses.replace(how, target=target))
