"""The entry point: signals and standard streams first, then the command line.

What the first lines of `main` do not need is imported later: until then an interrupt would print a
traceback.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

# What imports make stays, some 50,000 objects. To look for garbage in it once takes a tenth of a
# small command, and Python does so at every 700 new objects.
_OBJECTS = 100_000


def main() -> int:
    """Run `lod` with the process's arguments and return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not of nohup
        signal.signal(signal.SIGINT, lambda signum, _: os._exit(128 + signum))
    gc.set_threshold(_OBJECTS)
    try:
        from lodcli.shell import watchdog
        from lodcli.shell.standard_streams import finish

        code = finish(_run(), _report)
        watchdog.stop()
        gc.freeze()  # the rest is freed with the process
        return code
    except MemoryError:  # outside of what reports errors
        try:  # noqa: SIM105 - contextlib would be imported
            os.write(2, b"lod: not enough memory\n")
        except OSError:
            pass
        return 3


def _run() -> int:
    from lodcli.formats.storage import interrupts
    from lodcli.kernels.runtime.threads import let_blas_sleep, limit_libraries
    from lodcli.shell import watchdog
    from lodcli.shell.standard_streams import asks_for_help, prepare_streams

    # Before anything slow is imported.
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
