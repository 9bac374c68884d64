"""The entry point: signals and standard streams first, then the command line."""

from __future__ import annotations

import sys

from lodcli.formats import interrupts
from lodcli.signals import finish, prepare_streams


def main() -> int:
    """Run `lod` with the process's arguments and return its exit code."""
    # Before anything slow is imported, so that an early Ctrl-C ends quietly as well.
    try:
        interrupts.install()
        prepare_streams()
        from lodcli.failures import run
        from lodcli.group import group

        code = run(group, sys.argv[1:])
    except interrupts.Interrupted as interrupt:
        code = 128 + interrupt.signum
    return finish(code)


if __name__ == "__main__":
    sys.exit(main())
