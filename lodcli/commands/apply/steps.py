"""One op of the command line of `lod apply`: its files and its options."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import click
import numpy as np

from lodcli.commands.apply.arguments import ARRAY, Described, described
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.ops.elementwise.elementwise import UFUNCS
from lodcli.kernels.ops.plugins import find_op
from lodcli.kernels.ops.registry import OpEntry
from lodcli.shell.command import Command
from lodcli.shell.references import Reference, parse_reference

ARITHMETIC: Mapping[str, np.ufunc] = {str(name): ufunc for name, ufunc in UFUNCS.items()}


@dataclass(frozen=True)
class Step:
    """One op of the command line.

    Attributes:
        entry: the op.
        described: its parameters and results.
        inputs: its files; a chained op has the previous result instead of the first. Arithmetic
            accepts a number for the second.
        values: its options that were given; files are not read yet.
        chained: whether there is an op before it.
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
        """The number operand of arithmetic; None if there is none."""
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
    files = len(own.inputs) - chained if entry.name in ARITHMETIC else len(texts)
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
        assert isinstance(ctx.command, Command)
        hint = ctx.command.meant_as_output(ctx, texts[-1])
        for file, name in itertools.permutations(texts) if len(texts) == 2 else ():
            # A name with a point is rather that of a file.
            if not hint and os.path.isfile(file) and name.isidentifier():
                hint = f"; a tensor of a file is {quote(f'{file}::{name}')}"
        ctx.fail(f"{ctx.info_name} takes {len(wanted)} ({names}){before}; found {found}{hint}")
