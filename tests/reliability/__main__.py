"""Runs every check completely, and prints the table of docs/internals/reliability.md.

python -m tests.reliability            all checks: two or three hours, best as root
python -m tests.reliability --part 20  a twentieth of them
python -m tests.reliability signals    the checks whose names contain this
python -m tests.reliability --fuzz     damaged files of every format: hours
python -m tests.reliability --fuzz npz --count 500 --keep FOLDER
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.reliability.checks import CHECKS
from tests.reliability.fuzz import command
from tests.reliability.outcome import Outcome


def main() -> int:
    """Run the selected checks; the exit code is 0 if all passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability")
    parser.add_argument("names", nargs="*", help="parts of names; all if none is given")
    parser.add_argument("--part", type=int, default=1, help="how much less than all to try")
    parser.add_argument("--fuzz", action="store_true", help="damage files instead")
    command.add_arguments(parser)
    given = parser.parse_args()
    if given.fuzz:
        return int(not command.fuzz(given))
    failed = False
    print("| fault | tried | did not hold | seconds |\n|---|---|---|---|")
    for name, check in CHECKS.items():
        if given.names and not any(part in name for part in given.names):
            continue
        begun = time.monotonic()
        outcome = check(given.part)
        print(f"{_row(outcome)} {time.monotonic() - begun:.0f} |", flush=True)
        for line in outcome.broken:
            print(line, file=sys.stderr, flush=True)
        failed = failed or bool(outcome.broken)
    return int(failed)


def _row(outcome: Outcome) -> str:
    found = outcome.unable or str(len(outcome.broken))
    return f"| {outcome.fault} | {outcome.tried:,} | {found} |"


if __name__ == "__main__":
    sys.exit(main())
