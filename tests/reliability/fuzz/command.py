"""`python -m tests.reliability --fuzz`: all bases, and the table of internals/reliability.md."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.reliability.fuzz.bases import BASES
from tests.reliability.fuzz.campaign import Tally, damaged, run
from tests.reliability.fuzz.reading import CHANGED, CONTAINED, REFUSED, SAME

COUNT = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only fuzzing takes."""
    given = parser.add_argument_group("with --fuzz")
    given.add_argument("--count", type=int, default=COUNT, help="damaged files of each base")
    given.add_argument("--seed", type=int, default=1, help="other seeds, other damage")
    given.add_argument("--first", type=int, default=0, help="the number of the first file")
    given.add_argument("--jobs", type=int, default=2, help="how many bases at a time")
    given.add_argument("--keep", type=Path, help="write the files that show a fault here")


def fuzz(given: argparse.Namespace) -> bool:
    """Damage the bases whose names contain one of those given; return whether all held."""
    names = [one for one in BASES if not given.names or any(part in one for part in given.names)]
    print("| base | tried | refused | the same | other content | faults | files a minute |")
    print("|---|---|---|---|---|---|---|", flush=True)
    tallies = []
    with ThreadPoolExecutor(given.jobs) as pool:
        started = [
            pool.submit(run, name, given.count, seed=given.seed, first=given.first)
            for name in names
        ]
        for one in started:
            tally = one.result()
            tallies.append(tally)
            print(_row(tally), flush=True)
            for fault in tally.faults:
                print(f"{tally.base}: {fault}", file=sys.stderr, flush=True)
                if given.keep:
                    _keep(given.keep, tally.base, given.seed, fault.number)
    print("\n" + shares(tallies))
    return not any(tally.faults for tally in tallies)


def _row(tally: Tally) -> str:
    counts = tally.outcomes
    refused = f"{counts[REFUSED] + counts[CONTAINED]:,}"
    if counts[CONTAINED]:
        refused += f" ({counts[CONTAINED]:,} by the end of a child process)"
    cells = [tally.base, f"{tally.tried:,}", refused, f"{counts[SAME]:,}", f"{counts[CHANGED]:,}"]
    cells.append(str(len(tally.faults)))
    return f"| {' | '.join(cells)} | {60 * tally.tried / tally.seconds:,.0f} |"


def shares(tallies: list[Tally]) -> str:
    """Return the table of what each format takes for other content, of blindly damaged files."""
    blind, accepted = Counter[str](), Counter[str]()
    for tally in tallies:
        name = tally.base.partition(",")[0]
        blind[name] += tally.generic
        accepted[name] += tally.accepted
    ordered = sorted(blind, key=lambda name: -accepted[name] / max(1, blind[name]))
    lines = ["| format | damaged files | accepted with other content |", "|---|---|---|"]
    for name in ordered:
        share = 100 * accepted[name] / max(1, blind[name])
        lines.append(f"| {name} | {blind[name]:,} | {share:.2g} % |")
    return "\n".join(lines)


def _keep(folder: Path, base: str, seed: int, number: int) -> None:
    place = folder / f"{base}, seed {seed}, {number}"
    for name, content in damaged(base, seed, number).files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
