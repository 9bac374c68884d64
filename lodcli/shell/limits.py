"""Options of all commands that read: limits, columns left out, nulls, and the text of csv files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lodcli.formats.core.options import NULLS, ReadKeywords, ReadOptions, read_options
from lodcli.kernels.runtime.memory_budget import LEAST_BYTES, parsed_size, within_budget
from lodcli.kernels.suggestions import or_near

if TYPE_CHECKING:
    from lodcli.formats.core.limits import Limits

F = TypeVar("F", bound=Callable[..., Any])

_LIMITS = "lodcli.limits"


class _Size(click.ParamType[int]):
    """Bytes, as 4096, 500M, 2G or 1.5T; the letters are powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        size = parsed_size(str(value))
        if size is None:
            self.fail(f"{value!r} is not a size; write 4096, 500M or 2G", param, ctx)
        return size


SIZE = _Size()


class _Nulls(click.ParamType[str]):
    """How to read nulls."""

    name = "how"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in NULLS[:-1] and not str(value).startswith("fill="):
            near = or_near(value, NULLS[:-1])
            self.fail(f"expected one of {', '.join(NULLS)}, found {value!r}{near}", param, ctx)
        return str(value)


_NULLS = _Nulls()


class _Names(click.ParamType[tuple[str, ...]]):
    """Names as a,b,c."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        return tuple(part.strip() for part in str(value).split(","))


NAMES = _Names()


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    # Only if given: the ops after --then share this context, and any of them may set it.
    if value is not None and value is not False:
        ctx.meta[f"{_LIMITS}.{param.name}"] = value


def _spend(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    if value is None:
        return
    if value < LEAST_BYTES:
        raise click.BadParameter("expected 1M or more", ctx, param)
    ctx.find_root().with_resource(within_budget(value))


# An option whose value stays in the context.
_option = functools.partial(click.option, expose_value=False, callback=_keep)
_OPTIONS = (
    _option(
        "--memory",
        type=SIZE,
        metavar="SIZE",
        callback=_spend,
        help="Memory budget for data, such as 500M or 2G [default: a quarter of the memory].",
    ),
    _option(
        "--max-bytes",
        type=SIZE,
        metavar="SIZE",
        help="Maximum decompressed size, such as 500M or 2G [default: 1 GiB or 1100 times "
        "the file size, whichever is larger].",
    ),
    _option(
        "--isolate",
        is_flag=True,
        help="Read in a sandboxed child process: for untrusted files.",
    ),
    _option(
        "--skip-unsupported",
        is_flag=True,
        help="Leave out columns and fields that tensors cannot hold, with a note for each.",
    ),
    _option(
        "--skip-partitions",
        is_flag=True,
        help="Read no columns from the names of folders, such as year=2024.",
    ),
    _option(
        "--nulls",
        type=_NULLS,
        metavar="HOW",
        help="How to read nulls: keep, empty (lists and text), zero, nan, fill=X, drop or error "
        "[default: keep]. If given, also as keep, missing fields, columns that some of several "
        "files lack, empty texts of csv without quotes, and NA among numbers are nulls.",
    ),
    _option(
        "--separator",
        metavar="CHAR",
        help="Character between the fields of csv, such as ';', or its name: comma, "
        "semicolon, tab, bar, space.",
    ),
    _option(
        "--decimal-comma",
        is_flag=True,
        help="Numbers of csv have a decimal comma, as in 1,5.",
    ),
    _option(
        "--encoding",
        metavar="NAME",
        help="Encoding of text, such as latin1 or utf-16 [default: utf-8].",
    ),
    _option(
        "--text-columns",
        type=NAMES,
        metavar="NAMES",
        help="Columns of csv that are text even if they look like numbers: zip,phone.",
    ),
    _option(
        "--float-decimals",
        is_flag=True,
        help="Decimals of more than 18 digits, in arrow, parquet and orc, become float64.",
    ),
)


def guarded(function: F) -> F:
    """Options of all commands that read; `opened` reads them from the context."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def chosen_limits() -> dict[str, Any]:
    """Return the options of `guarded` in the context, for a context in another process."""
    context = click.get_current_context()
    return {key: value for key, value in context.meta.items() if key.startswith(_LIMITS)}


def limits() -> Limits:
    """Return the values of --max-bytes and --isolate of this command."""
    from lodcli.formats.core.limits import Limits

    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    return Limits(meta.get(f"{_LIMITS}.max_bytes"), bool(meta.get(f"{_LIMITS}.isolate")))


def reading(options: ReadOptions) -> ReadOptions:
    """Return options with those of `guarded` that are not in `limits`, such as --nulls."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    found: ReadKeywords = {}
    for name in (
        *("skip_unsupported", "skip_partitions", "nulls", "separator", "decimal_comma"),
        *("encoding", "text_columns", "float_decimals"),
    ):
        if f"{_LIMITS}.{name}" in meta:
            found[name] = meta[f"{_LIMITS}.{name}"]
    return read_options(options, found)
