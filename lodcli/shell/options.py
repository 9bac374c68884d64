"""Options shared by several commands."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
from collections.abc import Callable, Iterable
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lodcli.formats.core.names import check_name, split_reference
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.table import TABLE
from lodcli.formats.remote.urls import is_url
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.runtime.memory_budget import default_budget, memory_budget, within_budget
from lodcli.kernels.runtime.precision import PRECISIONS, Precision
from lodcli.shell.command import CODECS
from lodcli.shell.command import Command as Command
from lodcli.shell.limits import NAMES as NAMES
from lodcli.shell.limits import guarded
from lodcli.shell.messages import as_json as as_json
from lodcli.shell.messages import quiet as quiet
from lodcli.shell.references import Reference, parse_reference
from lodcli.shell.remedies import BEFORE_NAMES
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = tuple(TABLE)
MOST_JOBS = 1024
COUNT = click.IntRange(min=1)


class _Level(click.ParamType[int | str]):
    name = "level"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        text = str(value).strip()
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        from lodcli.shell.complete.names import levels

        return levels(ctx, incomplete)


class WholeNumber(click.ParamType[int]):
    """A whole number whose range is so wide that help does not show it."""

    name = "integer"

    def __init__(self, least: int, most: int) -> None:
        self._range = click.IntRange(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return self._range.convert(value, param, ctx)


class Number(click.FloatRange):
    """A number in a range, and not nan, which no comparison with a bound excludes."""

    def __init__(self, *given: Any, finite: bool = False, **more: Any) -> None:
        super().__init__(*given, **more)
        self._finite = finite

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number) or (self._finite and math.isinf(number)):
            kind = "finite number" if self._finite else "number"
            self.fail(f"expected a {kind}, found {value!r}", param, ctx)
        return number


class NamedPath(click.Path):
    """click.Path, with an error for an empty name."""

    remedy = "name a file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail(f"is empty; {self.remedy}", param, ctx)
        return super().convert(value, param, ctx)


class _Folder(NamedPath):
    remedy = "name a folder"


class _Source(NamedPath):
    """FILE or FILE::NAME. The file's existence is checked when it is opened."""

    name = "source"
    remedy = "name a file; - is standard input or output"

    def __init__(self) -> None:
        super().__init__(allow_dash=True, readable=False)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        from lodcli.shell.complete.names import references

        found = references(incomplete)
        return super().shell_complete(ctx, param, incomplete) if found is None else found


class Form(click.Choice[str]):
    """A form of the index, or a layout of torch; for the name of a format, the error has a hint."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in FORMATS:
            to = ctx is not None and any("--to" in one.opts for one in ctx.command.params)
            flags = "--from or --to" if to else "--from"
            self.fail(f"{value!r} is a format: write {flags} {value}", param, ctx)
        return super().convert(value, param, ctx)


class _FormatName(click.Choice[str]):
    """The name of a format: a built-in one, else one of a plug-in."""

    def __init__(self) -> None:
        super().__init__(FORMATS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in FORMATS:
            from lodcli.formats.catalogue import plugins

            known = [*FORMATS, *plugins.names()]
            if value not in known:
                from lodcli.formats.core.registry import of_name
                from lodcli.kernels.suggestions import did_you_mean

                meant = of_name(f".{value}")  # an extension, such as lods
                hint = f"did you mean {meant}?" if meant else did_you_mean(value, known)
                hint = hint or "lod convert --formats lists all"
                self.fail(f"no format {value!r}; {hint}{plugins.advice()}", param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        from lodcli.formats.catalogue import plugins

        found = [name for name in plugins.names() if name.startswith(incomplete)]
        return [*super().shell_complete(ctx, param, incomplete), *map(CompletionItem, found)]


LEVEL = _Level()
FORMAT_NAME = _FormatName()
SOURCE = _Source()
FILE = NamedPath()
FOLDER = _Folder()


def level_of(default: str) -> Callable[[F], F]:
    """--level, with the default that its help names."""
    return click.option(
        "--level",
        type=LEVEL,
        metavar="LEVEL",
        help=f"A level by number (0 the outermost, -1 the finest) or by name [default: {default}].",
    )


level, finest_level = level_of("the outermost"), level_of("the finest")


# What a pattern of files hardly has.
_EXPRESSION = re.compile(r"[\s<>()]")


def _check_file_first(source: str, ctx: click.Context) -> None:
    """Raise click.UsageError if SOURCE is no file, but an argument after it is.

    A source that looks like a file is one whose name may be misspelled.
    """
    others: list[str] = []
    for one in ctx.command.params:
        if isinstance(one, click.Argument) and one.name not in ("source", "out_argument"):
            if one.nargs == -1:
                ctx.meta[BEFORE_NAMES] = source
            value = ctx.params.get(one.name)
            others += [value] if isinstance(value, str) else value or ()
    file = next((one for one in others if os.path.isfile(split_reference(one)[0])), None)
    if file is None or _looks_like_file(split_reference(source)[0]):
        return
    rest = f" {quote(source)}" if len(others) == 1 else ", then the others"
    raise click.UsageError(f"the file goes first: lod {ctx.info_name} {quote(file)}{rest}")


def _looks_like_file(path: str) -> bool:
    from lodcli.formats.core.registry import of_name
    from lodcli.formats.several.patterns import fixed_folder, matching

    if path == "-" or is_url(path) or of_name(path) is not None or os.path.exists(path):
        return True
    folder = fixed_folder(path)
    if folder is None:
        return False
    # Expressions, as x * 2 > 4, may be patterns too.
    return not _EXPRESSION.search(path) or os.path.isdir(folder) or bool(matching(path))


# How many items, as `count`.
items = click.option(
    "-n",
    "--items",
    "count",
    type=WholeNumber(-(10**18), 10**18),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of items; -N means all but N.",
)


def seed(text: str = "Random seed.", default: int | None = 0, *more: str) -> Callable[[F], F]:
    """--seed, with a help text; without a default nothing is random unless it is given.

    Args:
        more: further names of the option.
    """
    return click.option(
        "--seed",
        *more,
        type=WholeNumber(0, 2**64 - 1),
        default=default,
        show_default=True,
        metavar="N",
        help=text,
    )


def jobs(text: str, default: int | None = 1) -> Callable[[F], F]:
    """--jobs, with a help text."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1, MOST_JOBS),
        default=default,
        show_default=True,
        metavar="N",
        help=text,
    )


def shard_jobs(function: F) -> F:
    """--jobs and --scheduler, which become part of the command's `target`; see `by_shards`."""
    function = click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Like --jobs, on the workers of a Dask scheduler, such as tcp://host:8786; local "
        "starts --jobs workers on this machine.",
    )(function)
    return jobs(
        "Compute the shards of a dataset, or parts of a lod.h5 file, in N processes of one thread "
        "each; the same command continues after an interruption.",
        None,
    )(function)


threads = click.option(
    "--threads",
    type=COUNT,
    metavar="N",
    help="Maximum number of threads [default: all processors].",
)


from_format = click.option(
    "--from",
    "from_format",
    type=FORMAT_NAME,
    metavar="FORMAT",
    help="Input format, one of lod convert --formats [default: detect from content and name].",
)


device = click.option(
    "--device",
    default="auto",
    metavar="NAME",
    help="Where to compute: cpu, cuda or cuda:N [default: auto, which is the CPU].",
)


def precision(function: F) -> F:
    """--precision, of a command with --device; a precision that the CPU lacks is a usage error."""

    @click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        default="float32",
        help="Precision of float32 products: float32 is exact, others are faster; see above "
        "[default: float32].",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, precision: Precision, device: str, **rest: Any) -> Any:
        if precision not in ("float32", "bfloat16") and not device.startswith("cuda"):
            raise click.UsageError(
                f"--precision {precision} needs --device cuda: the CPU has float32 and bfloat16"
            )
        return function(*args, precision=precision, device=device, **rest)

    return wrapped  # type: ignore[return-value]


def source(function: F) -> F:
    """The argument SOURCE, --from and the options of `guarded`; one Reference called `source`."""

    @click.argument("source", type=SOURCE)
    @from_format
    @guarded
    @functools.wraps(function)
    def wrapped(*args: Any, source: str, from_format: str | None, **rest: Any) -> Any:
        _check_file_first(source, click.get_current_context())
        return function(*args, source=parse_reference(source, from_format), **rest)

    return wrapped  # type: ignore[return-value]


def complete_tensors(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Return the names of the tensors of the file on the line, for one name or a,b."""
    from lodcli.shell.complete.names import tensors

    return tensors(ctx, incomplete)


# The argument `tensors`: names, completed from the file on the line.
tensor_names = click.argument(
    "tensors", nargs=-1, required=True, metavar="TENSOR...", shell_complete=complete_tensors
)


def new_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Callback of an option that names a tensor to write: raise click.BadParameter if it cannot."""
    try:
        if value is not None:
            check_name(value)
    except InvalidDataError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return value


def refuse_two_pipes(references: Iterable[Reference]) -> None:
    """Raise click.UsageError if standard input is named twice."""
    if sum(one.path == "-" for one in references) > 1:
        raise click.UsageError("- is given twice, but there is one standard input")


def sources(function: F) -> F:
    """As `source`, for one or more; Reference objects called `sources`."""
    return _several(function, "SOURCE...")


def two_sources(function: F) -> F:
    """As `sources`, for exactly two."""
    return _several(function, "A B", exactly=2)


def _several(function: F, metavar: str, exactly: int | None = None) -> F:
    @click.argument("sources", nargs=-1, required=True, type=SOURCE, metavar=metavar)
    @from_format
    @guarded
    @functools.wraps(function)
    def wrapped(*args: Any, sources: tuple[str, ...], from_format: str | None, **rest: Any) -> Any:
        if exactly not in (None, len(sources)):
            raise click.UsageError(f"expected {exactly} files, {metavar}; found {len(sources)}")
        references = [parse_reference(text, from_format) for text in sources]
        refuse_two_pipes(references)
        # Once for all files: finding the default reads a dozen files of the system.
        with within_budget(memory_budget() or default_budget()):
            return function(*args, sources=references, **rest)

    return wrapped  # type: ignore[return-value]


def target(function: F, *, files: str | None = None) -> F:
    """-o, --to, --compress, --force, --strict, --json and those of `quiet`.

    They are one checked Target called `target`. With --json the files it wrote are printed at the
    end, on standard error if data went to standard output.

    Args:
        files: for a command that writes several files: the help of -o, which is then required.
    """

    @click.option(
        "-o",
        "--output",
        "out",
        type=SOURCE,
        metavar="OUT",
        required=files is not None,
        help=files or "Output file [default: standard output].",
    )
    @click.option(
        "--to",
        "to_format",
        type=FORMAT_NAME,
        metavar="FORMAT",
        help="Output format, one of lod convert --formats [default: by the extension of OUT; "
        "lod.stream for a pipe].",
    )
    @click.option(
        "--compress",
        type=click.Choice(CODECS),
        metavar="[CODEC]",
        help=f"Compress a lod.h5, dataset or Parquet file: {', '.join(CODECS)} [default codec: "
        "deflate].",
    )
    @click.option("-f", "--force", is_flag=True, help="Replace OUT if it exists.")
    @click.option(
        "--strict",
        is_flag=True,
        help="Fail, instead of printing a note, if OUT loses something, such as level names.",
    )
    @as_json
    @quiet
    @functools.wraps(function)
    def wrapped(
        *args: Any,
        as_json: bool,
        out: str | None,
        to_format: str | None,
        compress: str | None,
        force: bool,
        strict: bool,
        jobs: int | None = None,
        scheduler: str | None = None,
        **rest: Any,
    ) -> Any:
        write_options = WriteOptions(compression=compress)
        chosen = Target(out or "-", to_format, force, strict, write_options, jobs, scheduler)
        if "out_argument" in rest:
            chosen = _with_argument(chosen, out, rest.pop("out_argument"))
        chosen.check()
        result = function(*args, target=chosen, **rest)
        if as_json:
            chosen.report()
        return result

    return wrapped  # type: ignore[return-value]


def _with_argument(target: Target, option: str | None, argument: str | None) -> Target:
    """Return the target of a command that takes OUT as an argument as well."""
    if option and argument:
        raise click.UsageError("the output is given twice, as OUT and with -o")
    return dataclasses.replace(target, path=argument or target.path)


def new_names(pairs: Iterable[str]) -> dict[str, str]:
    """Return the new names in `OLD=NEW`, by the old ones.

    Raises:
        click.UsageError: another form, or a name that is renamed twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        old, _, new = pair.partition("=")
        if not (old and new):
            raise click.UsageError(f"{pair!r} renames nothing; write OLD=NEW")
        if old in found:
            raise click.UsageError(f"{old} is renamed twice")
        found[old] = new
    return found
