"""Runs a chain of ops over the tensors of files, for `lod apply`."""

from __future__ import annotations

import ast
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from shlex import quote
from typing import Any

import click
import numpy as np

from lodcli.commands.apply.arguments import (
    ARRAY,
    Described,
    Parameter,
    as_kind,
    as_value,
    described,
)
from lodcli.commands.apply.elementwise import arithmetic
from lodcli.commands.apply.expression import TensorExpression
from lodcli.commands.apply.results import write_beside, write_results
from lodcli.commands.apply.skipping_nulls import SKIPPING, refusal
from lodcli.expressions.decimals import spec_without_decimals, without_decimals
from lodcli.expressions.functions import INDEX
from lodcli.expressions.hints import as_written
from lodcli.expressions.parsing import OF_TIMES, ExpressionError
from lodcli.expressions.showing import showing_where
from lodcli.expressions.units import undefined
from lodcli.formats.arrays.budget import WHOLE_COPIES, require_fits
from lodcli.formats.core.errors import name_file
from lodcli.formats.core.limits import declared_bytes
from lodcli.formats.core.schema import Item, Schema, TensorSpec, find, schema_of, tensor_of
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import (
    InvalidDataError,
    LodError,
    NotFloatingError,
    NullError,
    UnsupportedError,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.elementwise.elementwise import UFUNCS, joined
from lodcli.kernels.ops.plugins import find_op, no_gpu
from lodcli.kernels.ops.registry import OpEntry
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Marks, Times
from lodcli.kernels.tensor.nulls import Nulls
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.shell.opened import Opened, opened
from lodcli.shell.options import refuse_two_pipes
from lodcli.shell.references import Reference, parse_reference
from lodcli.shell.targets import Target

_SORTED, _REORDERED = "sort_by_length", "reorder_by_rank"
# What errors call the second tensor, if the first has the same name.
_SECOND = "the second"
_ARITHMETIC: Mapping[str, np.ufunc] = {str(name): ufunc for name, ufunc in UFUNCS.items()}
_OPERATORS: Mapping[str, type[ast.operator]] = {
    "add": ast.Add,
    "sub": ast.Sub,
    "mul": ast.Mult,
    "div": ast.Div,
}


@dataclass(frozen=True)
class Step:
    """One op of the command line.

    Attributes:
        entry: the op.
        described: its parameters and results.
        inputs: its files; a chained op has the previous result instead of the first. Arithmetic
            accepts a number for the second.
        values: its options that were given; files are not read yet.
        chained: whether an op comes before it.
    """

    entry: OpEntry
    described: Described
    inputs: tuple[Reference | float, ...]
    values: Mapping[str, Any]
    chained: bool

    @property
    def name(self) -> str:
        """The name of the op."""
        return self.entry.name

    @property
    def number(self) -> float | None:
        """The number that arithmetic is done with; None if there is none."""
        return next((one for one in self.inputs if not isinstance(one, Reference)), None)

    @property
    def itemwise(self) -> bool:
        """Whether it can process batches one by one."""
        return self.entry.itemwise or self.number is not None

    @property
    def picks(self) -> bool:
        """Whether a time or category that does not exist is null, unless a pad_value is given."""
        options = [one.name for one in self.described.options]
        return self.entry.marks and "pad_value" in options

    @property
    def files(self) -> list[Reference]:
        """The files it reads tensors from."""
        return [one for one in self.inputs if isinstance(one, Reference)]

    def references(self) -> list[Reference]:
        """Return every file that it reads."""
        return [*self.files, *(v for v in self.values.values() if isinstance(v, Reference))]

    def __reduce__(self) -> tuple[Any, ...]:
        # By name: the functions of a plug-in cannot be pickled.
        return _step, (self.name, self.inputs, self.values, self.chained)


def _step(
    name: str, inputs: tuple[Reference | float, ...], values: Mapping[str, Any], chained: bool
) -> Step:
    entry = find_op(name)
    assert entry is not None
    return Step(entry, described(entry), inputs, values, chained)


def step_of(entry: OpEntry, ctx: click.Context, *, chained: bool) -> Step:
    """Return the step of an op, and remove its parameters from those of the command line.

    Raises:
        click.UsageError: too few files, or too many.
        UnsupportedError: a backend that the op does not have.
    """
    own = described(entry)
    texts = ctx.params.pop("inputs")
    backend, from_format = ctx.params.pop("backend"), ctx.params.pop("from_format")
    values = {one.name: ctx.params.pop(one.name) for one in own.options}
    values = {key: value for key, value in values.items() if value is not None}
    if own.has_backend:
        values["backend"] = backend
    elif backend not in ("auto", "numpy"):
        raise UnsupportedError(f"no {backend} kernel for {entry.name}; use --backend numpy")
    _check_count(own, texts, ctx, chained=chained)
    files = len(own.inputs) - chained if entry.name in _ARITHMETIC else len(texts)
    inputs: list[Reference | float] = []
    for text in texts:
        number = _number(text) if len(inputs) + 1 == files else None
        inputs.append(parse_reference(text, from_format) if number is None else number)
    return Step(entry, own, tuple(inputs), values, chained)


def _number(text: str) -> float | None:
    """Return the number in a text; None for other texts, and for an existing file."""
    found = ARRAY.convert(text, None, None) if not os.path.exists(text) else None
    return found.item() if isinstance(found, np.ndarray) and not found.ndim else None


def _check_count(
    own: Described, texts: Sequence[str], ctx: click.Context, *, chained: bool
) -> None:
    """Raise click.UsageError for too few or too many files."""
    wanted = own.inputs
    if wanted[0].kind == "tensors":
        if not texts and not chained:
            ctx.fail(f"missing argument '{wanted[0].name.upper()}...'")
        return
    found = len(texts) + chained
    if found < len(wanted):
        ctx.fail(f"missing argument {wanted[found].name.upper()!r}")
    if found > len(wanted):
        names = " ".join(one.name.upper() for one in wanted)
        before = ", the first of them the result before it" if chained else ""
        ctx.fail(f"{ctx.info_name} takes {len(wanted)} ({names}){before}; found {found}")


@dataclass(frozen=True)
class Writing:
    """Where results go, and how they are computed.

    Attributes:
        target: the file.
        into: name of the result, which is written with all tensors of the file; None: it is
            written alone.
        dtype: floating dtype to which tensors are converted first; None: not converted.
        device: where to compute.
    """

    target: Target
    into: str | None = None
    dtype: str | None = None
    device: str = "cpu"

    def prepared(self, tensor: LoDTensor) -> LoDTensor:
        """Return a tensor in the dtype to compute with; text, times and categories as they are."""
        if self.dtype is None or tensor.marks.kind not in (None, "decimal"):
            return tensor
        dtype = dtype_of_rows(self.dtype)
        if tensor.dtype.kind == "c":
            raise UnsupportedError(f"--dtype {dtype}: the tensor is complex, found {tensor.dtype}")
        rows = without_decimals(tensor).values.astype(dtype, copy=False)
        return LoDTensor(rows, tensor.lod, nulls=tensor.nulls)


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
            return _run(ready, [writing.prepared(tensor)], name, device)

        keeps = all(step.entry.keeps or step.entry.pools for step in steps)
        nulls, into = _may_have_nulls(steps), writing.into
        write_results(first, (), compute, writing.target, into, keeps=keeps, nulls=nulls)
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
            values.append(writing.prepared(tensor))
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
    """Return a function that tells, by the first tensor and a result, if that may have nulls."""
    keep = all(step.entry.nulls or step.number is not None for step in steps)
    # Of an empty sequence, no time is the greatest: see sequence_max. And none is a duration / 0.
    pick = any(step.picks or step.entry.pools or step.name in _ARITHMETIC for step in steps)
    return lambda lead, made: (
        (keep and lead.nullable) or (pick and isinstance(made.marks.unit, Times | Categories))
    )


class _Failed(Exception):
    """An op failed on a batch; places in its error are those in the batch, not in the tensor."""


def _written_in_parts(steps: Sequence[Step], writing: Writing) -> bool:
    """Write the results of batches if together they are the result; return whether it was done."""
    first, target, begun = steps[0], writing.target, False
    if any(step.files or not step.itemwise for step in steps[1:]):
        return False
    from lodcli.commands.apply.in_step import in_step, items_by_rank, longest_items

    try:
        with ExitStack() as stack:
            if first.entry.pairs and first.number is None:
                parts = in_step(stack, first.files, fewer=first.name in _ARITHMETIC)
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
    for batch in batches:
        try:
            values = [writing.prepared(tensor) for tensor in batch]
            yield _run(steps, values, name, writing.device)
        except LodError as error:
            raise _Failed from error


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
        items = _named(_call(step, given, device, name, padder), step, name)
        pads = "pad_value" in (one.name for one in step.described.options)
        made = any(one.nulls for one in items.values()) and not any(one.nulls for one in given)
        padder = step.name if made and pads else padder
    return {key: tensor.to_device("cpu") for key, tensor in items.items()}


def _of_units(step: Step, tensors: Sequence[LoDTensor], device: str, name: str) -> LoDTensor | None:
    """Return what an expression computes from times and categories.

    Args:
        step: the op.
        tensors: its inputs.
        device: where to compute.
        name: of the first tensor, for messages.

    Returns:
        None: the op takes the values as they are.

    Raises:
        InvalidDataError: the op is not defined for them.
    """
    units = [tensor.marks.unit for tensor in tensors]
    marked = any(isinstance(unit, Times | Categories) for unit in units)
    if not marked or step.entry.package is not None:
        return None
    first, *others = tensors
    second = (step.files[-1].name or "") if others else ""
    if step.name in _ARITHMETIC:
        names = (name, _SECOND if second in ("", name) else second)  # as errors call them
        named = {names[0]: first}
        for tensor in others:
            level = step.values.get("level", -1)
            if joined(first, tensor, level, f"sequence_{step.name}") is not None:
                tensor = _under(first.lod.above(level), tensor)
            named[names[1]] = tensor
        one, other = (_reference(name) for name in names)
        if step.number is not None:
            other = ast.Constant(step.number)
        tree: ast.expr = ast.BinOp(one, _OPERATORS[step.name](), other)
    elif step.name in OF_TIMES and isinstance(units[0], Times):
        if first.nulls and not step.entry.nulls:
            return None  # which the op refuses
        values = {key: value for key, value in step.values.items() if key != "backend"}
        if isinstance(values.get("pad_value"), str):
            values["pad_value"] = as_value(values["pad_value"], first)
        for key, value in values.items():  # no time is nan
            if isinstance(value, float) and not math.isfinite(value):
                values[key] = str(value)
        options = [ast.keyword(key, ast.Constant(value)) for key, value in values.items()]
        named = {name: first}
        tree = ast.Call(ast.Name(step.name, ast.Load()), [_reference(name)], options)
    else:
        wanted = step.described.inputs
        for place, unit in enumerate(units):
            own = wanted[min(place, len(wanted) - 1)]
            why = undefined(step.name, as_written(name), unit, picks=step.entry.marks)
            if why and not step.entry.is_index(own.name):
                raise InvalidDataError(why)
        return None
    try:
        expression = TensorExpression("", tree)
        expression.check(schema_of(named))
        return expression.of({name: item.to_device(device) for name, item in named.items()})
    except ExpressionError as error:
        said = str(error).partition(": ")[2]
        begins = "" if said.startswith(f"{step.name} ") else f"{step.name}: "
        if second:
            said = said.replace(as_written(_SECOND), as_written(second))
        failed = InvalidDataError(f"{begins}{said}")
        if others:  # else there is one file, which will be named
            name_file(failed, ", ".join(dict.fromkeys(one.label for one in step.files)))
        raise failed from None


def _reference(name: str) -> ast.expr:
    """Return the part of an expression that names a tensor."""
    return ast.Call(ast.Name("tensor", ast.Load()), [ast.Constant(name)], [])


def _under(lod: LoD, tensor: LoDTensor) -> LoDTensor:
    """Return the rows of a tensor under an index, of which it has all levels or none."""
    masks = tensor.nulls.masks
    missing = [None] * (lod.n_levels + 1 - len(masks))
    nulls = Nulls.of([*missing, *masks]) if masks else tensor.nulls
    return LoDTensor(tensor.values, lod, tensor.marks, nulls)


def _call(
    step: Step, tensors: Sequence[LoDTensor], device: str, name: str, padder: str = ""
) -> Any:
    """Return the result of an op.

    Args:
        padder: the op before it that made the nulls of the first tensor, for messages.
    """
    if not step.entry.marks:
        tensors = [without_decimals(tensor) for tensor in tensors]
    found = _of_units(step, tensors, device, name)
    if found is not None:
        return found
    if step.number is not None:
        with np.errstate(all="ignore"):
            return arithmetic(_ARITHMETIC[step.name], tensors[0].to_device(device), step.number)
    wanted = step.described.inputs
    kinds = [wanted[min(place, len(wanted) - 1)] for place in range(len(tensors))]
    given = [_placed(step.entry, *pair, device) for pair in zip(kinds, tensors, strict=True)]
    if wanted[0].kind == "tensors":
        keywords: dict[str, Any] = {wanted[0].name: list(given)}
    else:
        pairs = zip(wanted, given, strict=True)
        keywords = {one.name: as_kind(one.kind, tensor) for one, tensor in pairs}
    keywords |= step.values
    for one in step.described.options:
        if one.kind == "value" and one.name in keywords:
            keywords[one.name] = as_value(keywords[one.name], tensors[0])
        elif one.kind == "values" and one.name in keywords:
            keywords[one.name] = [as_value(text, tensors[0]) for text in keywords[one.name]]
    try:
        return step.described.function(**keywords)
    except NotFloatingError as error:
        how = "--dtype float32 converts them first"
        if tensors[0].marks.values is not None:
            how = f"lod convert --text-levels numbers makes numbers of {tensors[0].marks.values}"
        raise InvalidDataError(f"{error}; {how}") from None
    except NullError:
        place = next((n for n, tensor in enumerate(tensors) if tensor.nulls), None)
        if place is None:
            raise
        knows = f"lod apply {quote(f'{step.name}({as_written(name)})')} computes with them"
        remedy = knows if step.name in SKIPPING and not step.chained else ""
        said = refusal(step.name, tensors[place], remedy)
        if padder and not place:
            where = tensors[0].nulls.first(tensors[0].lod)
            said = (
                f"{where} after {padder}, and {step.name} takes no nulls; give {padder} --pad-value"
            )
        if len(tensors) > 1 and place >= step.chained:  # else there is one file, which is named
            file = step.files[place - step.chained]
            said = ": ".join([file.label, *([file.name] if file.name else []), said])
        raise UnsupportedError(said) from None
    except LodError as error:
        # The file that the message will name holds the tensor of the first step.
        if step.chained and f"{step.name}:" not in str(error):
            error.args = (f"{step.name}: {error}", *error.args[1:])
        raise
    except (ValueError, OverflowError) as error:
        # Errors of NumPy, such as for an array that is too large.
        raise InvalidDataError(f"{step.name}: {error}") from error


def _placed(entry: OpEntry, own: Parameter, tensor: LoDTensor, device: str) -> LoDTensor:
    """Return a tensor on the device, unless it is an array that describes an index."""
    stays = own.kind == "array" and entry.is_index(own.name)
    return tensor if stays else tensor.to_device(device)


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
    """Read a tensor, or the steps of a TensorArray where one is wanted, with its name."""
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


def apply_expression(text: str, source: Reference, writing: Writing) -> None:
    """Write the value of an expression."""
    if writing.target.shard_option:
        from lodcli.shell.jobs.by_shards import by_shards

        _require_cpu(writing)
        with showing_where():
            if TensorExpression(text).counts:
                raise UnsupportedError(
                    f"{writing.target.shard_option} computes each shard separately, and index() "
                    "counts the items of all; leave it out"
                )
        aside = dataclasses.replace(writing, target=Target())
        by_shards(_express_shard, source, writing.target, text, aside)
        return
    with showing_where():
        expression = TensorExpression(text)
        marks = dict[str, Marks]()

        def check(schema: Schema) -> None:
            marks.update((spec.name, spec.marks) for spec in schema)
            floats = writing.dtype is not None
            expression.check(tuple(map(spec_without_decimals, schema)) if floats else schema)

        def compute(tensors: Mapping[str, LoDTensor], first: int) -> dict[str, LoDTensor]:
            own = {
                name: writing.prepared(_marked(tensor, marks[name]))
                for name, tensor in tensors.items()
            }
            placed = {name: tensor.to_device(writing.device) for name, tensor in own.items()}
            name = expression.tensors[0] if expression.tensors else INDEX
            return {name: expression.of(placed, first)}

        write_results(
            *(source, expression.tensors, compute, writing.target, writing.into),
            keeps=expression.keeps,
            nulls=lambda lead, made: expression.nulls(),
            check=check,
        )


def _marked(tensor: LoDTensor, marks: Marks) -> LoDTensor:
    """Return a tensor with its marks, which batches of a file may lack."""
    return LoDTensor(tensor.values, tensor.lod, Marks(marks.values, marks.unit), tensor.nulls)


def _express_shard(source: Reference, target: Target, text: str, how: Writing) -> None:
    apply_expression(text, source, dataclasses.replace(how, target=target))
