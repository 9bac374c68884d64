"""The class of all commands: arguments that begin with -, and groups of options in help."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Collection
from typing import Any, ClassVar

import click

CODECS = ("deflate", "lz4", "zstd")
# A word after --compress that looks like a codec is an unknown codec, not a file.
_OTHER_CODECS = (
    *("blosc", "brotli", "bz2", "bzip2", "gz", "gzip", "lzf", "lzma", "none", "snappy", "szip"),
    *("xz", "zlib", "zstandard"),
)
# Of the names of options in help, as in click.
_NAME_COLUMNS = 30
# Of expressions, as arguments of their own if the quotes are missing.
_OPERATORS = frozenset(
    (
        *("+", "-", "*", "/", "//", "%", "**"),
        *("==", "!=", "<", "<=", ">", ">=", "in", "is", "and", "or", "not"),
    )
)
# The most arguments of which file names with blanks are tried.
_MOST_WORDS = 12
_NEGATIVE = re.compile(r"-[0-9][0-9,:+-]*")
# Titles of the groups of options in help, in man pages and on the site.
OWN = "Options"
_GROUP_TITLES = {
    flag: title
    for title, flags in {
        "Output": "--output --write --html --to --compress --force --strict",
        "Input": "--from --memory --max-bytes --isolate --skip-unsupported --skip-partitions "
        "--nulls --separator --decimal-comma --encoding --text-columns "
        "--float-decimals",
        "Messages": "--json --quiet --verbose --color --help",
    }.items()
    for flag in flags.split()
}


class Command(click.Command):
    """A command whose arguments may begin with -, as in `lod slice -::ids -1`."""

    # Arguments that begin with - and are no options.
    negative: ClassVar[re.Pattern[str]] = _NEGATIVE
    # Whether an extra argument may be part of an expression without quotes.
    takes_expression: ClassVar[bool] = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        allowed, ctx.allow_extra_args = ctx.allow_extra_args, True
        rest = super().parse_args(ctx, self._prepared(args))
        ctx.allow_extra_args = allowed
        if rest and not allowed and not ctx.resilient_parsing:
            from lodcli.formats.core.names import listing

            # click lists all, and a pattern of the shell may have thousands of files.
            several = "s"[: len(rest) > 1]
            hint = self._hint_on_extra(ctx, args, rest)
            ctx.fail(f"got unexpected extra argument{several} ({listing(rest)}){hint}")
        return rest

    def _hint_on_extra(self, ctx: click.Context, args: list[str], rest: list[str]) -> str:
        """Return a hint on extra arguments, as "; .."; "" without one."""
        positional = self._positional(ctx, args)
        files = [arg for arg in positional if os.path.isfile(arg)]
        # A pattern is of files of one format.
        kinds = {os.path.splitext(file)[1] for file in files}
        if len(files) > 1 == len(kinds) and "--from" in self._options():
            return "; a pattern in quotes, such as '*.csv', reads several files as one"
        if hint := self.misplaced(args):
            return hint
        if self.takes_expression and not _OPERATORS.isdisjoint(positional[1:]):
            return "; put the expression in quotes"
        hint = self.meant_as_output(ctx, rest[-1]) or _without_quotes(positional)
        hint = hint or self._without_commas(args, positional)
        if hint or len(rest) > 1 or files[:1] != positional[:1] or not rest[0].isidentifier():
            return hint
        needed = [one.name for one in self.params if one.required]
        if needed != ["source"] or self.takes_expression or "out_argument" in self._options():
            return ""
        return f"; a tensor of a file is {shlex.quote(f'{files[0]}::{rest[0]}')}"

    def _without_commas(self, args: list[str], positional: list[str]) -> str:
        """Return a hint on a name after the value of an option that takes names; "" for others."""
        options = self._options()
        for flag, first, second in zip(args, args[1:], args[2:], strict=False):
            kind = getattr(options.get(flag), "type", None)
            is_name = second.isidentifier() and not os.path.exists(second)
            if getattr(kind, "name", "") == "names" and second in positional and is_name:
                return f"; several names are joined by commas: {flag} {first},{second}"
        return ""

    def misplaced(self, args: list[str]) -> str:
        """Return a hint on an extra argument: a number, of a command that takes it after -n."""
        if any("-n" in parameter.opts for parameter in self.params):
            for before, arg in itertools.pairwise(["", *args]):
                if re.fullmatch(r"-?[0-9]{1,18}", arg) and before not in ("-n", "--items"):
                    return f"; the number of items goes after -n: -n {arg.removeprefix('-')}"
        return ""

    def writes(self, name: str) -> bool:
        """Return whether the command may write this format to the file of -o."""
        kind = self._options().get("--to")
        return kind is not None and name in getattr(kind.type, "choices", ())

    def meant_as_output(self, ctx: click.Context, arg: str) -> str:
        """Return a hint on an argument that may be the file to write, where only -o names it."""
        options = self._options()
        out = options.get("-o")
        if out is None or "out_argument" in options or ctx.params.get(out.name):
            return ""
        from lodcli.formats.core.registry import get, of_target

        found = of_target(arg)
        if found is None or not self.writes(found) or get(found).read_only:
            return ""
        if os.path.exists(arg) or re.search(r"[*?[]|::|://", arg):
            return ""
        return f"; the file to write goes after -o: -o {shlex.quote(arg)}"

    def _options(self) -> dict[str, click.Parameter]:
        """Return the parameters by all their names."""
        return {name: one for one in self.params for name in one.opts}

    def _positional(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments that are neither options nor their values."""
        values, rest, _ = self.make_parser(ctx).parse_args(self._prepared(args))
        found: list[str] = []
        for one in self.params:
            value = values.get(one.name) if isinstance(one, click.Argument) else None
            found += (
                [value] if isinstance(value, str) else value if isinstance(value, tuple) else ()
            )
        return [*found, *rest]

    def _prepared(self, args: list[str]) -> list[str]:
        """Return arguments for the parser of `make_parser`, which restores those hidden here."""
        before = args[: args.index("--")] if "--" in args else args
        # Hidden from click's option parser by a character that no argument can have.
        hidden = [f"\0{arg}" if self._is_value(arg) else arg for arg in before]
        return [*_with_codecs(hidden), *args[len(before) :]]

    def _is_value(self, arg: str) -> bool:
        return arg.startswith("-::") or self.negative.fullmatch(arg) is not None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = grouped(self, ctx)
        # The same width in all groups; a longer name has a line to itself.
        longest = min(_NAME_COLUMNS, max(len(name) for one in groups.values() for name, _ in one))
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(longest), text) for name, text in records], _NAME_COLUMNS
                )

    def make_parser(self, ctx: click.Context) -> Any:
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            return _unhidden(parse(args))

        parser.parse_args = parse_args  # type: ignore[method-assign]
        return parser


def check_command(
    ctx: click.Context,
    args: list[str],
    known: Collection[str],
    hint_on: Callable[[str], str] = lambda name: "",
) -> None:
    """Fail if the first argument is neither an option nor a known command.

    Args:
        hint_on: returns the hint on a name, or "" for the similar command, else the list of all.
    """
    if ctx.resilient_parsing or not args or args[0] in known or args[0].startswith("-"):
        return  # completion shows no errors
    from lodcli.kernels.suggestions import did_you_mean

    hint = hint_on(args[0]) or did_you_mean(args[0], known, 1) or f"there are: {', '.join(known)}"
    ctx.fail(f"no command {args[0]!r}; {hint}")


def grouped(command: click.Command, context: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Return the options of a command with their help, by the title of their group.

    A command that reads no file has one group.
    """
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    several = any("--from" in option.opts for option in options)
    groups: dict[str, list[tuple[str, str]]] = {
        OWN: [],
        **{one: [] for one in _GROUP_TITLES.values()},
    }
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            title = next(
                (_GROUP_TITLES[flag] for flag in option.opts if flag in _GROUP_TITLES), OWN
            )
            groups[title if several else OWN].append(record)
    return {title: records for title, records in groups.items() if records}


def _without_quotes(args: list[str]) -> str:
    """Return a hint on arguments that are one file, whose name has blanks; "" for others."""
    for start, stop in itertools.combinations(range(min(len(args), _MOST_WORDS) + 1), 2):
        name = " ".join(args[start:stop])
        if stop - start > 1 and os.path.isfile(name):
            return f"; a name with blanks goes in quotes: {shlex.quote(name)}"
    return ""


def _unhidden(parsed: Any) -> Any:
    """Return the result of a parser, with the arguments that were hidden from it restored."""
    if isinstance(parsed, str):
        return parsed.removeprefix("\0")
    if isinstance(parsed, dict):
        return {name: _unhidden(value) for name, value in parsed.items()}
    return type(parsed)(map(_unhidden, parsed)) if isinstance(parsed, list | tuple) else parsed


def _with_codecs(args: list[str]) -> list[str]:
    """Return the arguments with a bare --compress given its default codec."""
    result = []
    for arg, following in itertools.zip_longest(args, args[1:]):
        bare = arg == "--compress" and following not in (*CODECS, *_OTHER_CODECS)
        result.append("--compress=deflate" if bare else arg)
    return result
