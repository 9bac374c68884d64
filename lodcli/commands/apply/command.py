"""`lod apply`: any sequence op, from the shell."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from lodcli.formats.core.errors import append_text
from lodcli.formats.core.names import split_reference
from lodcli.kernels.errors import NullError, UnsupportedError
from lodcli.kernels.ops.plugins import find_op, op_names, working
from lodcli.kernels.ops.registry import OPS
from lodcli.shell import options, output
from lodcli.shell.limits import guarded

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from lodcli.commands.apply.running import Column, Writing
    from lodcli.commands.apply.steps import Step
    from lodcli.kernels.ops.registry import OpEntry
    from lodcli.shell.references import Reference
    from lodcli.shell.targets import Target

THEN = "--then"
# Names of ops, also those that do not exist; constants and other texts are expressions.
_OP = r"(?!\d|(True|False|None)$)[\w-]+"


class OpGroup(click.Group):
    """The ops of the registry, each a separate command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return op_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _entry(cmd_name.replace("-", "_"))
        return None if entry is None else op_command(entry)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from lodcli.shell.complete import names

        def summary(name: str) -> str | None:
            entry = _entry(name)
            return None if entry is None else entry.summary

        return names.commands(self, ctx, incomplete, summary)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A leading blank hides an expression such as -x / 2 or -wait from click's option parser.
        after_dashes = args[:1] == ["--"] and args[1:2] != [] and args[1].startswith("-")
        args = args[after_dashes:]
        hidden = args and (after_dashes or _hides(args[0]))
        try:
            return super().parse_args(ctx, [f" {args[0]}", *args[1:]] if hidden else args)
        except click.NoSuchOption as error:
            if not any(error.option_name in one.opts for one in expression_command("").params):
                raise
            ctx.fail(f"no option {error.option_name!r} before the op; the op goes first")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and not re.fullmatch(_OP, args[0]):
            _check_expression(args, ctx)
            return "EXPRESSION", expression_command(args[0].removeprefix(" ")), args[1:]
        return args[0], known(args[0], ctx), args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Ops (more with --list, and OP --help)"):
            formatter.write_text(", ".join(op_names()))

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [
            "OP|EXPRESSION [OPTIONS] SOURCE...",
            f"[{THEN} OP|EXPRESSION [OPTIONS]]...",
            "[-o OUT]",
        ]


def _hides(text: str) -> bool:
    """Return whether a text that click would take for options is an expression."""
    return re.match(r"-[\w.(]+[^\w=-]|-(?![qh]+$)[^\W\d]\w+$|-\.?\d", text) is not None


def _entry(name: str) -> OpEntry | None:
    """Return an op; None if there is no such op, or its plug-in is broken: see `known`."""
    try:
        return find_op(name)
    except UnsupportedError:
        return None  # completion and help leave it out


def _check_expression(args: list[str], ctx: click.Context) -> None:
    """Raise click.UsageError if the first argument is a file before an op."""
    text, *rest = args
    if os.path.exists(split_reference(text)[0]):
        op = next((arg for arg in rest if find_op(arg.replace("-", "_")) is not None), "OP")
        ctx.fail(f"the op goes first: lod apply {op} {quote(text)}")


def known(name: str, ctx: click.Context, *, chained: bool = False) -> click.Command:
    """Return the command of an op.

    Raises:
        click.UsageError: there is no such op; suggests similar names.
        UnsupportedError: the op is of a plug-in that does not work.
    """
    if name.startswith("-"):
        ctx.fail(f"expected an op, found the option {name!r}; the op goes first")
    key = name.replace("-", "_")
    entry = find_op(key)
    if entry is None and chained and not re.fullmatch(_OP, name):
        ctx.fail(
            f"{THEN} after an op takes an op, found {name!r}; in an expression, an op is a function"
        )
    if entry is None:
        from lodcli.commands.apply.expression import OWN
        from lodcli.expressions.hints import call_of
        from lodcli.kernels.suggestions import did_you_mean

        if key in OWN:
            ctx.fail(f"no op {name!r}; in an expression it is a function, as in '{call_of(key)}'")
        near = did_you_mean(key, op_names())
        hint = near or "lod apply --list shows all; lod select FILE NAME writes a tensor as it is"
        if not near and "-" in name:
            hint += f"; if this is an expression, write {name.replace('-', ' - ')!r}"
        ctx.fail(f"no op {name!r}; {hint}")
    return op_command(entry, chained=chained)


class OpCommand(options.Command):
    """One op with its files and options, and the ops after --then."""

    entry: OpEntry
    chained = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from lodcli.commands.apply.steps import step_of

        segments = _split(args)
        super().parse_args(ctx, segments[0])
        if ctx.resilient_parsing:
            return []
        steps = [step_of(self.entry, ctx, chained=self.chained)]
        for segment in segments[1:]:
            if steps[-1].described.several:
                name = steps[-1].name
                ctx.fail(f"{name} returns several tensors, so it must be last in the chain")
            if not segment:
                ctx.fail(f"{THEN} needs an op")
            assert ctx.parent is not None
            following = known(segment[0], ctx.parent, chained=True)
            inner = following.make_context(segment[0], segment[1:], parent=ctx.parent)
            steps += inner.params.pop("steps")
            _take_options(inner, ctx)
        ctx.params["steps"] = steps
        return []


def _take_options(inner: click.Context, ctx: click.Context) -> None:
    """Take options of the output, which may follow any op or expression, usually the last."""
    for name, value in inner.params.items():
        if inner.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            ctx.params[name] = value


def _split(args: list[str]) -> list[list[str]]:
    """Return the arguments of each op."""
    segments: list[list[str]] = [[]]
    for arg in args:
        if arg == THEN:
            segments.append([])
        else:
            segments[-1].append(arg)
    return segments


_LETTERS = "x are the rows, y is the result, s a sequence, lo to hi-1 its rows, n their number."


def op_command(entry: OpEntry, *, chained: bool = False) -> click.Command:
    """Return the command of an op."""
    from lodcli.commands.apply.arguments import click_option, described, example

    own = described(entry)

    @click.command(
        entry.name,
        cls=OpCommand,
        short_help=entry.summary,
        help=(
            f"Return {entry.summary}.\n\n\b\n  {entry.equation}\n\n{_LETTERS}\n\n"
            f"\b\nExamples:\n  {example(entry, own)}"
        ),
        params=[
            click.Argument(
                ["inputs"],
                nargs=-1,
                type=options.SOURCE,
                metavar=" ".join(
                    one.name.upper() + ("..." if one.kind == "tensors" else "")
                    for one in own.inputs[chained:]
                ),
            ),
            *(click_option(one) for one in own.options),
        ],
    )
    @click.option(
        "--backend",
        type=click.Choice(("auto", "numpy", "numba")),
        default="auto",
        help="Backend of this op; auto: compiled kernels (numba) where they pay off "
        "[default: auto].",
    )
    @options.from_format
    @guarded
    @computed(dtype=None if any(one.name == "dtype" for one in own.options) else _FOR_OP + _LIMITS)
    def command(steps: list[Step], writing: Writing) -> None:
        from lodcli.commands.apply.running import apply

        try:
            apply(steps, writing)
        except NullError as error:
            picks = (one for one in steps if one.picks)
            if any("pad_value" not in one.values for one in picks):
                append_text(error, "--pad-value replaces those of missing rows")
            raise

    assert isinstance(command, OpCommand)
    command.entry, command.chained = entry, chained
    return command


class ExpressionCommand(options.Command):
    """One expression with its file and options, and the expressions after --then."""

    text: str

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from lodcli.commands.apply.running import Column

        segments = _split(args)
        super().parse_args(ctx, segments[0])
        if ctx.resilient_parsing:
            return []
        own = ctx.params
        columns = [Column(self.text, own.pop("into"), own.pop("float_dtype"))]
        for segment in segments[1:]:
            if not segment or (segment[0].startswith("-") and not _hides(segment[0])):
                ctx.fail(f"{THEN} needs an expression{self._negative(segment)}")
            if columns[-1].into is None:
                ctx.fail(f"{THEN} needs --into NAME before it, a name for {columns[-1].text!r}")
            following = expression_command(segment[0], chained=True)
            inner = following.make_context(self.name, segment[1:], parent=ctx.parent)
            columns += inner.params.pop("columns")
            _take_options(inner, ctx)
        ctx.params["columns"] = columns
        return []

    def _negative(self, args: list[str]) -> str:
        """Return a hint on arguments that may begin with the negative of a tensor."""
        from lodcli.shell.remedies import negative_hint

        if not args or args[0] in {name for one in self.params for name in one.opts}:
            return ""
        return f"; {negative_hint(args[0])}".removesuffix("; ")


def expression_command(text: str, *, chained: bool = False) -> ExpressionCommand:
    """Return the command that writes the value of an expression."""

    @computed(dtype=f"{_FOR_OP}; floats of the result, too{_LIMITS}")
    def function(columns: list[Column], source: Reference, writing: Writing) -> None:
        from lodcli.commands.apply.running import apply_expressions

        apply_expressions(columns, source, writing)

    made = click.command(
        "EXPRESSION",
        cls=ExpressionCommand,
        help="Write the value of an expression; see lod apply -h.",
    )(guarded(function) if chained else options.source(function))
    made.text = text
    return made


def computed(*, dtype: str | None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """--into, --dtype, --device and the target, as one Writing called `writing`.

    Args:
        dtype: help of --dtype; None for an op with an option of this name.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "--into",
            metavar="NAME",
            callback=options.new_name,
            help="Write all tensors of the file, and the result as NAME: beside them, or in place "
            "of the one it was computed from.",
        )
        @options.device
        @options.target
        @options.shard_jobs
        @functools.wraps(function)
        def wrapped(
            *,
            into: str | None = None,
            target: Target,
            device: str,
            float_dtype: str | None = None,
            **rest: Any,
        ) -> None:
            from lodcli.commands.apply.running import Writing
            from lodcli.shell.device import computing_on

            with computing_on(device) as place:
                function(writing=Writing(target, into, float_dtype, place), **rest)

        if dtype is None:
            return wrapped
        floats = click.Choice(("float16", "bfloat16", "float32", "float64"))
        return click.option("--dtype", "float_dtype", type=floats, help=dtype)(wrapped)

    return decorated


_FOR_OP = "Convert to this dtype first, such as whole numbers for softmax"
_LIMITS = ". A value too large for it is an error; a result computed in it may be inf."


@click.group(cls=OpGroup, invoke_without_command=True, no_args_is_help=True)
@click.option("--list", "as_list", is_flag=True, help="List every op in one line.")
@options.as_json
@options.quiet
@click.pass_context
def command(ctx: click.Context, as_list: bool, as_json: bool) -> None:
    """Apply an op to the sequences of a file; --then chains more ops on its result.

    \b
    Examples:
      lod apply --list
      lod apply sum vowels.lod.h5 -o sums.lod.h5
      lod apply max articles.lod.h5 --level article --to jsonl
      lod apply softmax vowels.lod.h5 --then reverse --then last -o last.lod.h5
      lod apply mul vowels.lod.h5 2 --then softmax -o weights.lod.h5
      lod apply 'data - mean(data)' vowels.lod.h5 --into centered -o both.lod.h5
      lod apply 'length(data)' vowels.lod.h5 --into n --then 'n * 2' --into m -o c.lod.h5
      lod apply softmax shards --jobs 2 -o weights

    An op takes one file for each input tensor; a chained op takes its first input from the
    previous op. Arrays, such as filters, are given as --weight FILE::NAME, or as numbers: 1,2,3.

    An expression consists of names of tensors, numbers, + - * / // % **, comparisons, functions
    such as exp, log, abs and length, and ops, as in softmax(data * 2 + 1). A value with one row for
    each sequence, such as mean(data), is broadcast to the rows of the sequence. A value computed
    from a null is null; sum, mean, median, max, min, any and all skip nulls, and coalesce(data, 0)
    replaces them. `data if data > 0 else 0` chooses between two values. index() is the number of
    the item; a constant such as 5 is the value of each item. --into NAME writes all tensors of the
    file, and the result as NAME. --then EXPRESSION --into NAME computes one more tensor, also of
    the results before it, in the same pass; each expression has its own --dtype.

    With --device cuda all ops compute on an NVIDIA GPU (pip install 'lodcli[cuda12]'); rows are
    copied to the GPU after reading, and back before writing.
    """
    if ctx.invoked_subcommand is not None:
        if as_list:
            raise click.UsageError("--list takes no op")
        if as_json:
            raise click.UsageError("--json goes after the op")
        return
    if not as_list:
        raise click.UsageError("--json needs --list" if as_json else "expected OP or EXPRESSION")
    theirs, broken = working()
    for error in broken:
        output.note(str(error))
    found: list[OpEntry] = sorted([*OPS.values(), *theirs], key=lambda entry: entry.name)
    if as_json:
        ops = [
            {
                "name": entry.name,
                "summary": entry.summary,
                "equation": entry.equation,
                "package": entry.package,
            }
            for entry in found
        ]
        output.as_json({"ops": ops})
    else:
        output.text(output.table(["op", "result"], [[one.name, one.summary] for one in found]))
