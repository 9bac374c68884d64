"""Reports an error as one line on standard error and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Sequence

import click

from lodcli.formats.core.errors import places
from lodcli.formats.storage.interrupts import XCPU, Interrupted
from lodcli.kernels.errors import (
    LodError,
    NotDefinedError,
    OptionError,
    SelectionError,
    UnsupportedError,
)
from lodcli.kernels.options import for_shell
from lodcli.kernels.platform import environment, processes
from lodcli.kernels.platform.pools import NO_THREAD
from lodcli.kernels.runtime.memory_budget import memory_setting
from lodcli.kernels.runtime.threads import thread_setting
from lodcli.kernels.suggestions import did_you_mean
from lodcli.shell import output
from lodcli.shell.printable import printable
from lodcli.shell.remedies import (
    deleted_folder,
    missing_dash_hint,
    negative_hint,
    option_hint,
    owner,
    remedy,
    shortage,
    standard_input_hint,
)
from lodcli.shell.standard_streams import CLOSED_PIPE, asks_for_help, before_dashes
from lodcli.shell.targets import STREAM_TO_COME

INVALID, USAGE, IO, UNSUPPORTED = 1, 2, 3, 4

_WORDS = {
    errno.ENOENT: "no such file",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EISDIR: "is a folder, not a file",
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "exceeds the file size limit",
    errno.EBUSY: "is a mount point, or used by the system in another way; name another path",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the device failed (input/output error)",
    errno.EMFILE: "too many files are open",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "its symbolic links form a loop",
    errno.EBADF: "is closed",
    errno.ENXIO: "cannot be opened as a file",
}

_NONE_SUCH = "^No such (option|command)"
# click's "No such command 'x'. Did you mean 'y'?", or, of several, in parentheses.
_SUGGESTION = r"\.? \(?Did you mean '?(.+?)'?\?\)?$"
_NOT_A_CHOICE = r"'([^']*)' is not one of (.*)$"
_NOT_WHOLE = r"is not a valid integer( range)?$"
_NO_NUMBER = r"is not a valid float( range)?$"


@for_shell()
def run(group: click.Group, args: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors are printed."""
    label, context = "lod", None
    started = time.monotonic()
    try:
        _complete(group)
        with group.make_context("lod", list(args)) as context:
            _check_environment()
            group.invoke(context)
            output.tell_of_cost(time.monotonic() - started)
    except BaseException as raised:
        error = _reported(raised)
        if isinstance(error, OSError) and error.filename is None and asks_for_help(args):
            error.filename = "standard output"
        if context is not None and context.invoked_subcommand:
            label = f"lod {context.invoked_subcommand}"
        told = owner(str(error), group, args) if isinstance(error, LodError) else ""
        told += missing_dash_hint(error, {} if context is None else context.meta)
        code = report(error, label, as_json=_asks_for_json(args), more=told)
        if context is not None and context.meta.get(STREAM_TO_COME):
            _fail_stream()
        if isinstance(error, MemoryError):
            _release(error)
        return code
    return 0


def _reported(raised: BaseException) -> BaseException:
    """Return the error to report of an exception that was raised."""
    # While a class is made, as in an import, Python 3.11 raises RuntimeError from the interrupt.
    found: BaseException | None = raised
    while found is not None and not isinstance(found, Interrupted):
        found = found.__cause__
    return raised if found is None else found.error or found


def _release(error: MemoryError) -> None:
    """Release partially constructed objects, without messages from their destructors.

    An event loop of asyncio without all its fields prints a traceback, a coroutine that never ran
    a warning.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, sys.unraisablehook = sys.unraisablehook, lambda _: None
        error.__traceback__ = error.__context__ = error.__cause__ = None
        sys.unraisablehook = before


def _fail_stream() -> None:
    """Write a stream to standard output that reports the failure of this command.

    A file that standard output is appended to, and that has content, is left unchanged.
    """
    from lodcli.formats.storage.outputs import Output
    from lodcli.formats.stream.writer import write_failure

    with contextlib.suppress(OSError, LodError), Output("-") as standard_output:
        found = os.fstat(standard_output.fd)
        if stat.S_ISREG(found.st_mode) and found.st_size:
            return
        write_failure(standard_output)


def _asks_for_json(args: Sequence[str]) -> bool:
    # Not from click's parsed options: parsing them may have caused the error.
    return "--json" in before_dashes(args)


def _complete(group: click.Group) -> None:
    """Print shell completions and exit, if the shell requested them."""
    instruction = os.environ.get("_LOD_COMPLETE")
    if instruction:
        from click.shell_completion import shell_complete

        from lodcli.shell.complete.shells import register

        register()
        code = shell_complete(group, {}, "lod", "_LOD_COMPLETE", instruction)
        if code:
            raise OptionError(
                f"_LOD_COMPLETE: expected a value set by the script of `lod completion`, found "
                f"{instruction[:40]!r}"
            )
        raise SystemExit(code)


def _check_environment() -> None:
    """Raise OptionError if an environment variable of lod has an unknown value."""
    thread_setting()
    memory_setting()
    debug = environment.value("LOD_DEBUG")
    if debug not in ("", "0", "1"):
        raise OptionError(f"LOD_DEBUG: expected 0 or 1, found {debug[:40]!r}")
    if environment.value("LOD_NATIVE"):
        from lodcli.kernels.native import settings

        with contextlib.suppress(settings.LevelError):
            settings.level()


def report(error: BaseException, label: str, *, as_json: bool = False, more: str = "") -> int:
    """Print an error in one line, as JSON or in words, and return its exit code.

    Args:
        label: the command that failed.
        more: text to append to its message.
    """
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else INVALID if error.code else 0
    if isinstance(error, Interrupted) and error.signum != XCPU:
        return 128 + error.signum
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return 130
    if isinstance(error, BrokenPipeError):
        return CLOSED_PIPE
    if environment.value("LOD_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        _say(error.ctx.get_help() if error.ctx else "")
        return USAGE
    message, code = explained(error)
    message += more
    if code == INVALID and _was_said(error) and not as_json:
        return code
    if isinstance(error, click.UsageError):
        label = error.ctx.command_path if error.ctx else label
        message = f"{message}; see {label} --help"
    if as_json:
        from lodcli.reports.describing import described

        with contextlib.suppress(OSError):
            output.as_json({"error": described(error, message, code, label)}, err=True)
        return code
    _say(printable(f"{label}: {message}"))
    return code


def _was_said(error: BaseException) -> bool:
    """Return whether the command that writes to standard input has reported the error already."""
    from lodcli.formats.core.errors import ProducerFailedError
    from lodcli.formats.storage.inputs import STANDARD_INPUT

    return isinstance(error, ProducerFailedError) and places(error)[:1] == [STANDARD_INPUT]


def explained(error: BaseException) -> tuple[str, int]:
    """Return an error in words and its exit code."""
    if isinstance(error, click.ClickException):
        said = _no_option(error) if isinstance(error, click.NoSuchOption) else None
        message = " ".join((said or error.format_message()).split()).removesuffix(".")
        message = re.sub(_NONE_SUCH, r"no \1", message)
        message = re.sub(_SUGGESTION, r"; did you mean \1?", message)
        message = re.sub(_NOT_WHOLE, "is not a whole number", message)
        message = re.sub(_NO_NUMBER, "is not a number", message)
        message += _near_choice(message) + _use_of_missing(error)
        return message[:1].lower() + message[1:], USAGE
    if isinstance(error, LodError):
        return str(error.args[0]) if error.args else type(error).__name__, _code(error)
    if isinstance(error, Interrupted):
        what = "the limit on processor time is reached; allow more with ulimit -t"
        return what, 128 + error.signum
    if isinstance(error, OSError):
        return _os_message(error), IO
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return NO_THREAD, IO
    if isinstance(error, MemoryError):
        known = places(error)
        where = f"{'::'.join(known)}: " if known else ""
        less = "smaller inputs" + ", or one tensor with FILE::NAME" * (len(known) < 2)
        return f"{where}not enough memory; try {less}", IO
    if isinstance(error, ImportError) and not str(error.name).startswith("lodcli"):
        if isinstance(error, ModuleNotFoundError):
            return f"needs the package {error.name}, which is not installed", UNSUPPORTED
        what = " ".join(str(error).split())
        if "failed to map segment" in what and processes.address_limit_bytes() is not None:
            return f"not enough memory for a package: {what}; allow more with ulimit -v", IO
        return (
            f"a package is installed but cannot be imported: {what}; install it again",
            UNSUPPORTED,
        )
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"internal error: {what}; run with LOD_DEBUG=1 and report it", INVALID


def _no_option(error: click.NoSuchOption) -> str:
    """Return an error about an unknown option, with a hint."""
    name, context = error.option_name, error.ctx
    hint = option_hint(name, context.command.params if context else [])
    usage = " ".join(context.command.collect_usage_pieces(context)) if context else ""
    if "EXPRESSION" in usage:
        hint = f"{hint} {negative_hint(name)}".strip()
    return error.message.removesuffix(".") + f"; {hint}" * bool(hint)


def _use_of_missing(error: click.ClickException) -> str:
    """Return a hint on a missing argument, or an example with a missing option of its command."""
    if not isinstance(error, click.MissingParameter) or error.ctx is None:
        return ""
    param = error.param
    if not isinstance(param, click.Option):
        return standard_input_hint(error.ctx)
    lines = map(str.strip, (error.ctx.command.help or "").splitlines())
    uses = (one for one in lines if one.startswith("lod ") and {*param.opts} & {*one.split()})
    example = next(uses, "")
    return f", as in {example}" if example else ""


def _near_choice(message: str) -> str:
    """Return a hint to append to click's message about a value that is not one of the choices."""
    found = re.search(_NOT_A_CHOICE, message)
    near = found and did_you_mean(found[1], re.findall("'(.*?)'", found[2]))
    return f"; {near}" if near else ""


def _code(error: LodError) -> int:
    if isinstance(error, OSError):
        return IO
    if isinstance(error, SelectionError | OptionError | NotDefinedError):
        return USAGE
    return UNSUPPORTED if isinstance(error, UnsupportedError) else INVALID


def _os_message(error: OSError) -> str:
    what = _WORDS.get(error.errno or 0) or error.strerror or str(error).partition("\n")[0]
    if error.errno in (errno.ENOSPC, errno.EDQUOT):  # how much was to be written
        what += "".join(str(error.strerror).partition("; ")[1:])
    if str(error.strerror).startswith("No usable temporary directory"):  # of tempfile
        what = "needs a folder for temporary files, and none can be written to; set TMPDIR to one"
        if _has_temporary_folder():  # now that files were closed
            what = _WORDS[errno.EMFILE] + shortage(errno.EMFILE, "")
        return f"{error.filename}: {what}" if error.filename else what
    name = error.filename if error.filename2 is None else error.filename2
    if name is None and error.errno == errno.EAGAIN:  # of fork
        return NO_THREAD
    if name is None:
        more = deleted_folder() if error.errno == errno.ENOENT else shortage(error.errno, "")
        return (what or type(error).__name__) + more
    if error.filename2 is not None:  # the target of a write
        what = f"cannot be written: {what}"
    if not isinstance(name, str | bytes | os.PathLike):
        return f"{name}: {what}"
    shown = os.fsdecode(name)
    more = shortage(error.errno, shown)
    if error.filename2 is None:
        more = more or remedy(error.errno, shown)
    return f"{shown}: {what}{more}"


def _has_temporary_folder() -> bool:
    import tempfile

    try:
        tempfile.gettempdir()
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(text, err=True)
