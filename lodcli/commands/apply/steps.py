"""Runs a chain of ops over the tensors of files, for `lod apply`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from lodcli.commands.apply.arguments import Described, Parameter, as_kind, described
from lodcli.formats.core.schema import Batch, Schema, schema_of
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.ops.registry import OPS, OpEntry
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.shell.opened import opened
from lodcli.shell.options import refuse_two_pipes
from lodcli.shell.references import Reference, parse_reference
from lodcli.shell.targets import Target


@dataclass(frozen=True)
class Step:
    """One op as it was typed.

    Attributes:
        name: of the op.
        described: what it takes.
        inputs: its files; a chained op has the result before it instead of the first.
        values: its options that were given; files not yet read.
        chained: whether an op comes before it.
    """

    name: str
    described: Described
    inputs: tuple[Reference, ...]
    values: Mapping[str, Any]
    chained: bool

    @property
    def entry(self) -> OpEntry:
        """Its line in the table."""
        return OPS[self.name]

    def references(self) -> list[Reference]:
        """Return every file that it reads."""
        return [*self.inputs, *(v for v in self.values.values() if isinstance(v, Reference))]


def step_of(name: str, ctx: click.Context, *, chained: bool) -> Step:
    """Take what belongs to an op out of the parameters of its command line.

    Raises:
        click.UsageError: too few files, or too many.
        UnsupportedError: a backend that the op has not.
    """
    own = described(OPS[name])
    texts = ctx.params.pop("inputs")
    backend, from_format = ctx.params.pop("backend"), ctx.params.pop("from_format")
    values = {one.name: ctx.params.pop(one.name) for one in own.options}
    values = {key: value for key, value in values.items() if value is not None}
    if own.has_backend:
        values["backend"] = backend
    elif backend not in ("auto", "numpy"):
        raise UnsupportedError(f"no {backend} kernel for {name}; use --backend numpy")
    _check_count(own, texts, ctx, chained=chained)
    inputs = tuple(parse_reference(text, from_format) for text in texts)
    return Step(name, own, inputs, values, chained)


def _check_count(
    own: Described, texts: Sequence[str], ctx: click.Context, *, chained: bool
) -> None:
    """Refuse too few or too many files."""
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


def apply(steps: Sequence[Step], target: Target, device: str = "cpu") -> None:
    """Run the steps on a device, and write what the last one gives."""
    for step in steps if device != "cpu" else ():
        if step.values.get("backend", "auto") != "auto":
            raise click.UsageError(
                f"--backend {step.values['backend']} computes in main memory; it goes with "
                "--device cpu"
            )
    refuse_two_pipes(one for step in steps for one in step.references())
    if all(step.entry.itemwise for step in steps) and len(steps[0].inputs) == 1:
        _in_batches(steps, target, device)
        return
    name = ""
    values: list[LoDTensor] = []
    for reference in steps[0].inputs:
        found, tensor = _read(reference, _input_kind(steps[0], len(values)))
        name = name or found
        values.append(tensor)
    items = _run([_with_files(step, device) for step in steps], values, name, device)
    target.write(schema_of(items), [items])


def _in_batches(steps: Sequence[Step], target: Target, device: str) -> None:
    """Run the steps over batches of whole outermost items."""
    ready = [_with_files(step, device) for step in steps]
    with opened(steps[0].inputs[0]) as file:
        spec = file.tensor()
        tensors = file.tensors()
        # A batch tells dtypes, shapes and levels; nothing at all may be too little for an op.
        first = next(tensors, None)
        if first is None:
            first = spec.empty()
        result = _run(ready, [first], spec.name, device)

        def batches() -> Iterator[Batch]:
            yield result
            for tensor in tensors:
                yield _run(ready, [tensor], spec.name, device)

        target.write(_uncounted(schema_of(result)), batches())


def _uncounted(schema: Schema) -> Schema:
    """Return a schema of which the first batch is not yet all."""
    return tuple(
        dataclasses.replace(
            spec,
            rows=None,
            levels=tuple(dataclasses.replace(level, items=None) for level in spec.levels),
        )
        for spec in schema
    )


def _run(
    steps: Sequence[Step], values: Sequence[LoDTensor], name: str, device: str
) -> dict[str, LoDTensor]:
    """Return what the last step gives, by name, in main memory.

    Args:
        steps: their files are read: see _with_files.
        values: the inputs of the first step.
        name: of a result that has no name of its own.
        device: where the ops compute; their results stay there until the last.
    """
    items = {name: values[0]}
    for step in steps:
        given = list(values)
        if step.chained:
            (before,) = items.values()
            given = [before, *(_read(one, "tensor")[1] for one in step.inputs)]
        items = _named(_call(step, given, device), step, name)
    return {key: tensor.to_device("cpu") for key, tensor in items.items()}


def _call(step: Step, tensors: Sequence[LoDTensor], device: str) -> Any:
    wanted = step.described.inputs
    kinds = [wanted[min(place, len(wanted) - 1)] for place in range(len(tensors))]
    given = [_placed(step.entry, *pair, device) for pair in zip(kinds, tensors, strict=True)]
    if wanted[0].kind == "tensors":
        keywords: dict[str, Any] = {wanted[0].name: list(given)}
    else:
        pairs = zip(wanted, given, strict=True)
        keywords = {one.name: as_kind(one.kind, tensor) for one, tensor in pairs}
    try:
        return step.described.function(**keywords, **step.values)
    except LodError:
        raise
    except (ValueError, OverflowError) as error:
        # NumPy's own, such as for an array larger than can be.
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
    """Return a step whose options hold what their files hold, arrays on the device."""
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
    """Read a tensor, or the steps of a TensorArray where one is wanted, with its name."""
    with opened(reference) as file:
        if kind == "steps" and any(spec.array for spec in file.schema):
            name, stored = file.array()
            return name, stored.array.steps
        return file.read_tensor()
