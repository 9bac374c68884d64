"""The entry point: signals and standard streams first, then the command line."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

from lodcli.formats.storage import interrupts
from lodcli.kernels.runtime.threads import let_blas_sleep, limit_libraries
from lodcli.shell import watchdog
from lodcli.shell.standard_streams import asks_for_help, finish, prepare_streams

# What imports make stays, some 50,000 objects. To look for garbage in it once takes a tenth of a
# small command, and Python does so at every 700 new objects.
_OBJECTS = 100_000


def main() -> int:
    """Run `lod` with the process's arguments and return its exit code."""
    gc.set_threshold(_OBJECTS)
    try:
        code = finish(_run(), _report)
        watchdog.stop()
        gc.freeze()  # what is left goes with the process
        return code
    except MemoryError:  # outside of what reports errors
        with contextlib.suppress(OSError):
            os.write(2, b"lod: not enough memory\n")
        return 3


def _run() -> int:
    # Before anything slow is imported, so that an early Ctrl-C ends quietly as well.
    try:
        interrupts.install()
        prepare_streams()
        let_blas_sleep()
        # Help opens no file and calls no library; the watchdog would cost a third of its time.
        if not asks_for_help(sys.argv[1:]):
            watchdog.start()
            limit_libraries()
        from lodcli.shell.failures import run
        from lodcli.shell.group import group

        return run(group, sys.argv[1:])
    except interrupts.Interrupted as interrupt:
        return 128 + interrupt.signum


def _report(error: OSError) -> int:
    from lodcli.shell.failures import report

    return report(error, "lod")


if __name__ == "__main__":
    sys.exit(main())
