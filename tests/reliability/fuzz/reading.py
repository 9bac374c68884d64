"""Read one file in a worker, and return the outcome."""

from __future__ import annotations

import contextlib
import importlib
import io as text_io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lodcli
from lodcli.formats.core import registry as table
from lodcli.formats.core.format import Source, joined
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.weights import read_weights
from lodcli.shell import failures
from lodcli.shell.group import group
from lodcli.shell.printable import printable
from tests.reliability.fuzz import known
from tests.reliability.fuzz.base import WEIGHTS, Base
from tests.reliability.fuzz.known import Content, UnsoundError

MAX_BYTES = 64 << 20
# Few enough that a small file comes in several batches.
BATCH_BYTES = 64

# What may come of it. The first three hold, "changed" if nothing told the reader better.
SAME, REFUSED, CONTAINED, CHANGED = "same", "refused", "contained", "changed"
SILENT, INTERNAL, UNSOUND, UNCLEAR, MEMORY = "silent", "internal", "unsound", "unclear", "memory"
CRASH, HANG = "crash", "hang"
FAULTS = (SILENT, INTERNAL, UNSOUND, UNCLEAR, MEMORY, CRASH, HANG)

READ, BATCHES, SLICE, PIPE, COMMANDS = "read", "batches", "slice", "pipe", "commands"
# As much as a pipe holds without anybody at its other end.
PIPE_BYTES = 1 << 16
_ENDED_CHILD = "crashed the sandboxed process"
_OUT_OF_MEMORY = "not enough memory"


@dataclass(frozen=True)
class Target:
    """A base as a worker needs it: without its files.

    Attributes:
        piped: whether it can come out of a pipe. What is compressed can, but only its name says
            so where its first bytes are damaged.
    """

    format: str
    main: str
    content: Content
    options: dict[str, Any]
    oracle: str | None
    piped: bool

    @classmethod
    def of(cls, base: Base) -> Target:
        """Return what a worker needs of a base."""
        compressed = base.main.endswith((".gz", ".zst"))
        piped = len(base.files) == 1 and not compressed and base.format != WEIGHTS
        return cls(base.format, base.main, base.content, base.options, base.oracle, piped)


@dataclass(frozen=True)
class Answer:
    """What came of reading a file: one of the words above, and details in a line."""

    outcome: str
    detail: str = ""


def operations(target: Target) -> tuple[str, ...]:
    """Return the ways in which files of a base are read."""
    if target.format == WEIGHTS:
        return (READ, READ, READ, COMMANDS)
    one = len(target.content) == 1
    (first, *_) = target.content.values()
    sliced = one and first.lengths and first.order is None and first.lengths[0]
    sliced_or_not = SLICE if sliced else READ
    return (READ, BATCHES, PIPE if target.piped else READ, sliced_or_not, COMMANDS)


def read(target: Target, folder: Path, operation: str, number: int) -> Answer:
    """Read the file of a target in a folder, in one of the ways."""
    path = folder / target.main
    try:
        if operation == PIPE and path.stat().st_size < PIPE_BYTES:
            _into_stdin(path)
            path = Path("-")
        if operation == COMMANDS:
            return _commands(target, path, number)
        expected, found = _found(target, path, operation, number)
    except UnsoundError as error:
        return Answer(UNSOUND, str(error))
    except Exception as error:
        return _refused(error, path, usage=bool(target.options) or operation == SLICE)
    told = known.difference(found, expected)
    return Answer(SAME) if told is None else Answer(CHANGED, f"{operation}: {told}")


def judge(target: Target, folder: Path) -> Answer:
    """Return whether content that is not that of the base is what the file says."""
    if target.oracle is None:
        return Answer(CHANGED, "nothing else reads it")
    oracle = getattr(importlib.import_module("tests.reliability.fuzz.oracles"), target.oracle)
    path = folder / target.main
    _, found = _found(target, path, READ, 0)
    try:
        expected = oracle(path)
    except ImportError:
        raise  # which says nothing about the file
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return Answer(SILENT, f"another reader refuses it: {what[:300]}")
    told = known.difference(found, expected)
    return Answer(CHANGED) if told is None else Answer(SILENT, f"another reader: {told}")


def _into_stdin(path: Path) -> None:
    """Make standard input a pipe out of which the file comes."""
    reading, writing = os.pipe()
    os.write(writing, path.read_bytes())
    os.close(writing)
    os.dup2(reading, 0)
    os.close(reading)
    sys.stdin = os.fdopen(0, closefd=False)


def _found(target: Target, path: Path, operation: str, number: int) -> tuple[Content, Content]:
    """Return the content that is expected, and that which is there."""
    if target.format == WEIGHTS:
        arrays = read_weights(path)
        return target.content, {name: known.known(array) for name, array in arrays.items()}
    options = ReadOptions(**target.options)
    with lodcli.open(
        path, format_name=target.format, options=options, limits=Limits(MAX_BYTES)
    ) as source:
        if operation == SLICE:
            return _sliced(target.content, source, number)
        if operation == BATCHES:
            items = joined(source.schema, source.batches(BATCH_BYTES))
        else:
            items = source.read()
        found = known.seen(items)
        _check_schema(source, found)
        return target.content, found


def _sliced(content: Content, source: Source, number: int) -> tuple[Content, Content]:
    ((name, whole),) = content.items()
    count = len(whole.lengths[0])
    start = number % count
    stop = start + 1 + number // count % (count - start)
    part = source.slice(name, (slice(start, stop),))
    return known.items_of(content, start, stop), known.seen({name: part})


def _check_schema(source: Source, found: Content) -> None:
    """Raise UnsoundError if a file does not hold what it was said to hold when it was opened."""
    for spec in source.schema:
        one = found[spec.name]
        told = [(spec.rows, one.shape[0])]
        if one.order is None:
            told += [
                (level.items, len(lengths))
                for level, lengths in zip(spec.levels, one.lengths, strict=True)
            ]
        for said, there in told:
            if said is not None and said != there:
                raise UnsoundError(f"{spec.name}: the schema says {said} items, there are {there}")
        if (spec.dtype.name, tuple(spec.row_shape)) != (one.dtype, one.shape[1:]):
            raise UnsoundError(f"{spec.name}: the schema says {spec.dtype} {spec.row_shape}")


def _refused(error: BaseException, path: Path, *, usage: bool) -> Answer:
    """Return what an error is: clear, or a fault of ours."""
    message, code = failures.explained(error)
    return _told(message, code, path, usage=usage)


def _told(message: str, code: int, path: Path, *, usage: bool) -> Answer:
    line = " ".join(message.split())[:400]
    if "internal error:" in message:
        return Answer(INTERNAL, line)
    if _OUT_OF_MEMORY in message:
        return Answer(MEMORY, line)
    if _ENDED_CHILD in message:
        return Answer(CONTAINED, line)
    allowed = (failures.INVALID, failures.IO, failures.UNSUPPORTED)
    # What a person chose by name may be gone: that is an error of usage.
    if code not in (*allowed, *((failures.USAGE,) if usage else ())):
        return Answer(UNCLEAR, f"exit code {code}: {line}")
    named = ("standard input",) if path == Path("-") else (str(path), os.fspath(path.parent))
    if not any(name in message for name in named):
        return Answer(UNCLEAR, f"names no file: {line}")
    if "\n" in printable(message).rstrip("\n") or len(message) > 2000:
        return Answer(UNCLEAR, f"{len(message)} characters: {line}")
    return Answer(REFUSED, line)


# -- commands ------------------------------------------------------------------------


def _commands(target: Target, path: Path, number: int) -> Answer:
    """Run a command on the file: nothing but data on stdout, or one line and an exit code."""
    args = _arguments(target, path, number)
    out, err = text_io.StringIO(), text_io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = failures.run(group, args)
    made = path.parent / "made.lods"
    left = [name for name in os.listdir(path.parent) if name.endswith(".lod-partial")]
    if left or made.exists() != (code == 0 and "convert" in args):
        return Answer(UNCLEAR, f"{args[0]}: exit code {code}, left behind {left}")
    made.unlink(missing_ok=True)
    if code == 0:
        return Answer(SAME)  # what is in it, the other operations compare
    told = _told(err.getvalue(), code, path, usage=bool(target.options))
    if told.outcome == REFUSED and (args[0] != "verify" and out.getvalue()):
        return Answer(UNCLEAR, f"{args[0]}: prints data and fails: {told.detail}")
    return Answer(told.outcome, f"{args[0]}: {told.detail}")


def _arguments(target: Target, path: Path, number: int) -> list[str]:
    name = os.fspath(path)
    if target.format == WEIGHTS:
        return ["weights", name]
    source = ["--from", target.format, "--max-bytes", str(MAX_BYTES)]
    convert = ["convert", name, os.fspath(path.parent / "made.lods"), *source]
    for option, value in target.options.items():
        flag = f"--{option.replace('_', '-')}"
        if option in ("levels", "names"):
            convert += [flag, ",".join(value)]
        elif isinstance(value, tuple):
            convert += [word for one in value for word in (flag, one)]
        else:
            convert += [flag, str(value)]
    if target.options:
        return convert
    return ([["verify", name, *source], ["inspect", name, *source], convert])[number % 3]


def prepare(target: Target) -> None:
    """Import what reading will need, so that limits are set after."""
    if target.format != WEIGHTS:
        for module in table.get(target.format).modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
    if target.oracle:
        oracles = importlib.import_module("tests.reliability.fuzz.oracles")
        for module in oracles.NEEDS.get(target.oracle, ()):
            importlib.import_module(module)
