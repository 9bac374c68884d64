"""Hints: for missing files, folders and resources, and for commands and options of others."""

from __future__ import annotations

import errno
import glob
import os
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from shlex import quote

import click

from lodcli.formats.remote.urls import is_url
from lodcli.kernels.platform import processes
from lodcli.kernels.suggestions import did_you_mean
from lodcli.shell.standard_streams import has_input

# The most names of a folder that are compared with a missing one.
MOST_NAMES = 2000
# Share of letters in common from which a name is suggested.
LIKE = 0.75
# The source in `meta` of the context of a command with any number of arguments after it.
BEFORE_NAMES = "lodcli.source_before_names"
_OPTION = r"(?<![\w-])--[a-z][a-z-]+"
_COMMAND = r"\blod ([a-z][a-z-]*)"
# Commands of the shell, SQL and data frames, and what does their work.
ELSEWHERE = {
    "cat": "lod convert FILE --to jsonl prints items, lod concat joins files",
    **dict.fromkeys(
        (
            *("count", "wc", "ls", "list", "info", "show", "describe", "summary", "stat", "stats"),
            *("columns", "length", "lengths", "levels"),
        ),
        "lod inspect FILE counts items and rows, --stats summarizes values",
    ),
    **dict.fromkeys(("check", "validate", "fsck", "test"), "lod verify FILE checks every byte"),
    **dict.fromkeys(
        ("uniq", "dedup", "distinct", "drop-duplicates"),
        "lod group FILE --by KEY --keep first keeps one item of each key",
    ),
    **dict.fromkeys(
        ("append", "union", "rbind", "vstack"),
        "lod concat FILE FILE joins items, lod merge FILE FILE their tensors",
    ),
    **dict.fromkeys(("cut", "csvcut", "pluck"), "lod select FILE NAME writes some tensors"),
    **dict.fromkeys(
        ("del", "delete", "remove", "rm"),
        "lod drop FILE NAME leaves out tensors, lod filter FILE EXPRESSION items",
    ),
    "mv": "lod rename FILE OLD=NEW renames tensors",
    **dict.fromkeys(
        ("dropna", "drop-na", "drop-nulls"),
        "lod filter FILE 'x is not None' leaves out items where x is null",
    ),
    **dict.fromkeys(
        ("fill", "fillna", "fill-null", "fill-nulls"),
        "lod apply 'coalesce(x, 0)' FILE --into x replaces nulls by 0",
    ),
    **dict.fromkeys(
        ("print", "read", "open", "load"),
        "lod inspect FILE describes a file, lod head FILE --to jsonl prints items",
    ),
    **dict.fromkeys(
        ("where", "query", "grep", "search", "sql"), "lod filter FILE EXPRESSION chooses items"
    ),
    **dict.fromkeys(
        ("map", "mutate", "compute", "with-columns"),
        "lod apply EXPRESSION FILE --into NAME computes a column",
    ),
    **dict.fromkeys(
        ("groupby", "group-by", "agg", "aggregate"),
        "lod group FILE --by KEY | lod apply 'mean(x)' - computes one value for each key",
    ),
    **dict.fromkeys(
        ("import", "export", "to", "copy", "cp", "save", "write"),
        "lod convert FILE OUT writes any format",
    ),
    **dict.fromkeys(("flatten", "unnest", "unroll"), "lod explode FILE makes a row of each value"),
    **dict.fromkeys(("predict", "infer"), "lod run-rnn FILE --weights MODEL --emit class predicts"),
    **dict.fromkeys(
        ("batch", "batches", "bucket"), "lod plan FILE --tokens 8192 --write OUT makes batches"
    ),
}
# Options of other programs, and those of lod; for commands that have these.
OPTIONS_ELSEWHERE = {
    **dict.fromkeys(("--desc", "--descending", "-r"), ("--reverse",)),
    **dict.fromkeys(("--limit", "--nrows", "--lines"), ("--items",)),
    **dict.fromkeys(("--sep", "--delimiter", "-d"), ("--separator",)),
    "--format": ("--to", "--from"),
    **dict.fromkeys(("--overwrite", "--replace"), ("--force",)),
    **dict.fromkeys(("--key", "--keys"), ("--by", "--on")),
    **dict.fromkeys(("--left-on", "--right-on"), ("--on",)),
    **dict.fromkeys(("--by", "--on"), ("--by", "--on")),
    **dict.fromkeys(("--learning-rate", "--rate"), ("--lr",)),
    **dict.fromkeys(("--threads", "--workers", "--num-workers"), ("--jobs",)),
    **dict.fromkeys(("--random-state", "--random-seed"), ("--seed",)),
    **dict.fromkeys(("--left", "--right", "--inner", "--outer", "--type"), ("--how",)),
    **dict.fromkeys(("--fraction", "--fractions", "--test-size", "--train-size"), ("--by",)),
    "-n": ("--head",),
    "--batch-size": ("--tokens",),
    "--tolerance": ("--rtol", "--atol"),
    **dict.fromkeys(("--as", "--alias", "--name"), ("--into",)),
    "-k": ("--by",),
    **dict.fromkeys(("--label", "--target", "--targets"), ("--labels",)),
    "--model": ("--weights", "--output"),
}
# Options of other programs in place of an argument of lod, by the name of the argument.
_ARGUMENTS = {
    "expression": (("--where", "--expr", "--query"), "the expression goes after the file"),
    "amount": (("-n", "--n", "--frac", "--fraction"), "write a number, or a share such as 10%"),
    "gap": (
        ("--agg", "--aggregate", "--count", "--max", "--mean", "--min", "--sum"),
        "lod group FILE --by KEY | lod apply 'mean(x)' - computes one value for each key",
    ),
    "folder": (("-o", "--out", "--output"), "the folder to write goes after the file"),
    "source": (("-i", "--in", "--input", "--file"), "the file to read goes without an option"),
    "tensors": (("--by", "--column", "--columns"), "the names go after the file"),
}
# Options of `lod convert` and of other programs that choose tensors.
_CHOOSING = ("--column", "--columns", "--field", "--fields", "--tensors", "--usecols")
# Options that other commands are expected to have, and the commands that have them.
CONVERTING = {
    **dict.fromkeys(("--attribute", "--cu-seqlens", "--data", "--lengths"), "lod convert has"),
    **dict.fromkeys(("--offsets", "--rename", "--text-levels", "--wide"), "lod convert has"),
    "--vocab": "lod convert and lod cast have",
}
# The content that --output writes, in commands where users may expect another.
_OUTPUTS = {"--model": "MODEL"}
# Names and values of files in messages.
_QUOTED = r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?!\w)"""


def remedy(code: int | None, name: str) -> str:
    """Return a hint to append to an OSError about an input file; "" for most.

    >>> remedy(errno.EISDIR, "articles")
    '; name a file in it'
    """
    if is_url(name):
        return ""
    if code == errno.EISDIR:
        if os.path.isdir(name) and not os.listdir(name):
            return ", and empty"
        inner = glob.iglob(os.path.join(glob.escape(name), "*", "*"))
        pattern = f", or a pattern for those in its folders: '{name.rstrip('/')}/*/*'"
        return "; name a file in it" + (pattern if any(map(os.path.isfile, inner)) else "")
    if code != errno.ENOENT:
        return ""
    if (not os.path.isabs(name) or os.path.exists(name)) and (deleted := deleted_folder()):
        return deleted
    if os.path.islink(name):
        return f": it is a link to {os.readlink(name)}, which is not there"
    missing = _missing_folder(name)
    if missing:
        return f": there is no folder {missing}"
    file, _, tensor = name.rpartition(":")
    if tensor and os.path.isfile(file):
        return f"; a tensor is {quote(f'{file}::{tensor}')}"
    near = _near(name)
    if near:
        return f"; did you mean {near}?"
    return "; check the path" + ("" if os.path.isabs(name) else f", relative to {os.getcwd()}")


def option_hint(name: str, params: Sequence[click.Parameter]) -> str:
    """Return a hint for an option that a command lacks; "" without one."""
    flags = {flag: one for one in params for flag in one.opts}
    meant = [flag for flag in OPTIONS_ELSEWHERE.get(name, ()) if flag in flags]
    meant = [one for one in meant if one != "--output" or flags[one].metavar == _OUTPUTS.get(name)]
    if meant:
        return f"did you mean {' or '.join(meant)}?"
    arguments = (_ARGUMENTS.get(str(one.name), ((), "")) for one in params)
    if instead := next((hint for names, hint in arguments if name in names), ""):
        return instead
    if name in _CHOOSING and "--from" in flags:
        return "FILE::NAME chooses one tensor, lod convert --columns several"
    # --force overwrites files: --frac means something else.
    long = (flag for flag in flags if flag != "--force" or name.startswith("--fo"))
    near = did_you_mean(name, [flag for flag in long if flag.startswith("--")])
    if name in CONVERTING and "--from" in flags:
        return f"{near} {CONVERTING[name]} {name}".lstrip()
    return near


def missing_dash_hint(error: BaseException, meta: Mapping[str, object]) -> str:
    """Return a hint on a missing file that may be a tensor, as - is missing; "" without one."""
    if not isinstance(error, FileNotFoundError) or error.filename != meta.get(BEFORE_NAMES):
        return ""
    plain = re.fullmatch(r"\w+", str(error.filename or ""))
    return "; - reads standard input" if plain and has_input() else ""


def standard_input_hint(ctx: click.Context) -> str:
    """Return a hint on a missing argument of a command whose standard input has data; else "".

    Where a later argument is missing, the first may have been taken for the file.
    """
    if ctx.info_name == "view" or not has_input():
        return ""
    named = [one.name for one in ctx.command.params if isinstance(one, click.Argument)]
    if not named or named[0] not in ("source", "sources"):
        return ""
    given = ctx.params.get(named[0])
    if not given:
        return "; - reads standard input"
    if not isinstance(given, str) or given == "-" or os.path.exists(given):
        return ""
    return f"; - reads standard input: lod {ctx.info_name} - {quote(given)}"


def shortage(code: int | None, name: str) -> str:
    """Return a hint to append to an OSError about an exhausted resource; "" for others.

    >>> shortage(errno.EMFILE, "articles")
    '; allow more with ulimit -n'
    >>> import tempfile
    >>> shortage(errno.ENOSPC, tempfile.gettempdir())
    '; it holds temporary data: set TMPDIR to a folder with more room'
    """
    if code == errno.EMFILE:
        return "; allow more with ulimit -n"
    if code == errno.EFBIG:
        if processes.file_limit_bytes() is not None:
            return "; allow more with ulimit -f"
        return "; its file system holds no larger files: write to another one"
    if code not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    import tempfile  # takes 4 ms, which help need not wait for

    folder = tempfile.gettempdir()
    if name.endswith(folder) or name.startswith(os.path.join(folder, "lod-")):
        return "; it holds temporary data: set TMPDIR to a folder with more room"
    return ""


def owner(message: str, group: click.Command, args: Sequence[str]) -> str:
    """Return a hint for a message that names options of `lod convert` which this command lacks.

    Args:
        args: its command line; commands before options.
    """
    command = group
    for arg in args:
        command = _below(command, arg) or command
    convert = _below(group, "convert")
    if convert is None or isinstance(command, click.Group) or "lod convert" in message:
        return ""
    lacking = _flags(convert) - _flags(command)
    for name in re.findall(_COMMAND, message):  # as in "lod cast FILE --dtype-unsafe rounds them"
        named_command = _below(group, name)
        lacking -= _flags(named_command) if named_command is not None else set()
    found = re.findall(_OPTION, re.sub(_QUOTED, "", message))
    named = [one for one in dict.fromkeys(found) if one in lacking]
    if not named:
        return ""
    return f" (lod convert has {' and '.join(named)})"


def negative_hint(name: str) -> str:
    """Return a hint on an option that may be an expression such as -x; "" for others."""
    looks_like_one = re.fullmatch(r"-[^\W\d]", name) is not None
    return "if this is the negative of a tensor, write '-(NAME)'" if looks_like_one else ""


def _below(command: click.Command, name: str) -> click.Command | None:
    if not isinstance(command, click.Group):
        return None
    return command.get_command(click.Context(command), name)


def _flags(command: click.Command) -> set[str]:
    return {flag for parameter in command.params for flag in parameter.opts}


def _missing_folder(name: str) -> str | None:
    """Return the outermost folder of a path that does not exist."""
    folder, missing = os.path.dirname(name), None
    while folder and not os.path.lexists(folder):
        missing, folder = folder, os.path.dirname(folder)
    return missing


def deleted_folder() -> str:
    """Return a hint to append to an OSError if the current folder was deleted; else ""."""
    try:
        os.getcwd()
    except OSError:
        return ": the current folder was deleted; change to another one"
    return ""


def _near(name: str) -> str | None:
    """Return the path with the most similar name in the folder of `name`."""
    # Imported only here: it takes longer than all else in this file.
    from difflib import SequenceMatcher

    folder, base = os.path.split(name)
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES)]
    except OSError:
        return None

    def likeness(a: str, b: str) -> float:
        return SequenceMatcher(None, a, b).ratio()

    # By the text before the first dot: the same extension does not make two names similar.
    stem = base.partition(".")[0]
    alike = [other for other in names if likeness(stem, other.partition(".")[0]) >= LIKE]
    found = max(alike, key=lambda other: likeness(base, other), default=None)
    return None if found is None else os.path.join(folder, found)
