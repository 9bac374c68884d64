"""Limits on reading a file: --max-bytes, --isolate and --skip-unsupported."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from lodcli.formats.core.limits import Limits

F = TypeVar("F", bound=Callable[..., Any])

_LIMITS = "lodcli.limits"


class _Size(click.ParamType[int]):
    """Bytes, as 4096, 500M, 2G or 1.5T; a letter counts in 1024s."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(
            r"([0-9]{1,15}(?:\.[0-9]{1,3})?)\s*([KMGT]?)(?:i?B)?", str(value), re.I
        )
        if found is None:
            self.fail(f"{value!r} is not a size; write 4096, 500M or 2G", param, ctx)
        return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))


SIZE = _Size()


def guarded(function: F) -> F:
    """--max-bytes, --isolate, --skip-unsupported; `opened` reads them from the context."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        # Only if given: the ops after --then share this context, and any of them may set it.
        if value is not None and value is not False:
            ctx.meta[f"{_LIMITS}.{param.name}"] = value

    @click.option(
        "--max-bytes",
        type=SIZE,
        metavar="SIZE",
        expose_value=False,
        callback=keep,
        help="Maximum decompressed size, such as 500M or 2G [default: 1 GiB or 1100 times "
        "the file size, whichever is larger].",
    )
    @click.option(
        "--isolate",
        is_flag=True,
        expose_value=False,
        callback=keep,
        help="Read in a sandboxed child process: for untrusted files.",
    )
    @click.option(
        "--skip-unsupported",
        is_flag=True,
        expose_value=False,
        callback=keep,
        help="Leave out columns and fields that no tensor can hold, with a note for each.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, **rest: Any) -> Any:
        return function(*args, **rest)

    return wrapped  # type: ignore[return-value]


def limits() -> Limits:
    """Return what --max-bytes and --isolate of this command say."""
    from lodcli.formats.core.limits import Limits

    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    return Limits(meta.get(f"{_LIMITS}.max_bytes"), bool(meta.get(f"{_LIMITS}.isolate")))


def skips_unsupported() -> bool:
    """Return whether --skip-unsupported was given to this command."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"{_LIMITS}.skip_unsupported"))
