"""Options shared by the measuring commands of `lod bench`, as one checked Settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import click

from lodcli.shell import options

F = TypeVar("F", bound=Callable[..., Any])
# Larger counts exceed any memory, and the exact integers of float64.
MOST = 10**15
EXPORTS = ("csv", "markdown", "pytest-benchmark")


@dataclass(frozen=True)
class Settings:
    """Options for measuring and printing.

    Attributes:
        threads: numbers of threads, each measured in a separate process.
        device: "cpu" or "cuda", several.
        against: names of peers; None: all that are installed.
        pythons: the Python interpreter of a peer, by its name.
        rounds, budget: see harness.Effort.
        seed: of random lengths and values.
        as_json, export: the format of standard output; a table if neither is set.
        out: a file to which the JSON report is also written.
        force: whether `out` may be replaced.
        plot: a file for a picture, or "-" for the terminal.
    """

    threads: Sequence[int]
    device: Sequence[str]
    against: str | None
    pythons: dict[str, str]
    rounds: int
    budget: float
    seed: int
    as_json: bool
    export: str | None
    out: str | None
    force: bool
    plot: str | None


class _Counts(click.ParamType[tuple[int, ...]]):
    name = "counts"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        try:
            counts = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            counts = ()
        if not counts or min(counts) < 1 or max(counts) > 1024:
            self.fail(f"expected numbers of 1 to 1024 such as 1,2, found {value!r}", param, ctx)
        return counts


class _Count(click.ParamType[int]):
    """A whole number of at least 1, written out or as 1e6."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            count = int(value)
        except ValueError:
            count = _whole(value)
        if not 1 <= count <= MOST:
            self.fail(f"expected a whole number from 1 to {MOST:.0e}, found {value!r}", param, ctx)
        return count


def _whole(text: str) -> int:
    """Return the whole number in a text such as 1e6; 0 if it is not a whole number."""
    try:
        number = float(text)
    except ValueError:
        return 0
    return int(number) if number.is_integer() else 0


COUNT = _Count()


class _Seconds(click.ParamType[float]):
    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            self.fail(f"expected seconds, 0 or more, found {value!r}", param, ctx)
        return seconds


class _Devices(click.ParamType[tuple[str, ...]]):
    name = "devices"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        names = tuple(part.strip() for part in str(value).split(","))
        if not names or any(name not in ("cpu", "cuda") for name in names):
            self.fail(f"expected cpu, cuda or both, found {value!r}", param, ctx)
        return names


def settings(function: F) -> F:
    """The options of Settings, as one value called `settings`."""

    @click.option(
        "--threads",
        type=_Counts(),
        metavar="N[,N..]",
        help="Numbers of threads [default: all processors].",
    )
    @click.option(
        "--device",
        type=_Devices(),
        default="cpu",
        metavar="cpu,cuda",
        help="Where to compute [default: cpu].",
    )
    @click.option(
        "--against", metavar="PEER[,..]", help="Peers to compare with, or none [default: all]."
    )
    @click.option(
        "--peer-python",
        multiple=True,
        metavar="PEER=PYTHON",
        help="Run a peer in another interpreter, in a separate process.",
    )
    @click.option(
        "--rounds",
        type=click.IntRange(1, 1000),
        default=11,
        show_default=True,
        metavar="N",
        help="Undisturbed samples of each candidate; at most three times as many are taken.",
    )
    @click.option(
        "--budget",
        type=_Seconds(),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for starting rounds, for each op and case.",
    )
    @options.seed("Random seed of lengths and values.")
    @options.as_json
    @click.option(
        "--export",
        type=click.Choice(EXPORTS),
        help="Print results in this format instead of a table.",
    )
    @click.option(
        "-o",
        "--output",
        "out",
        type=options.FILE,
        metavar="FILE",
        help="Also write the JSON report to FILE.",
    )
    @click.option("-f", "--force", is_flag=True, help="Replace FILE if it exists.")
    @click.option(
        "--plot",
        type=options.NamedPath(allow_dash=True),
        metavar="FILE.svg|.png|-",
        help="Plot time against the parameter of --sweep; - plots on the terminal.",
    )
    @options.quiet
    @functools.wraps(function)
    def wrapped(*args: Any, threads: Any, peer_python: tuple[str, ...], **rest: Any) -> Any:
        from lodcli.kernels.platform.machine import usable_cores

        printed = {
            "--json": rest["as_json"],
            "--export": rest["export"],
            "-o -": rest["out"] == "-",
            "--plot -": rest["plot"] == "-",
        }
        both = [option for option, chosen in printed.items() if chosen]
        if len(both) > 1:
            raise click.UsageError(f"{both[0]} and {both[1]} both write to standard output")
        _require_cores(threads)
        own = [field.name for field in fields(Settings) if field.name in rest]
        chosen = Settings(
            threads=threads or (usable_cores(),),
            pythons=_pythons(peer_python),
            **{name: rest.pop(name) for name in own},
        )
        return function(*args, settings=chosen, **rest)

    return wrapped  # type: ignore[return-value]


def _require_cores(threads: Sequence[int] | None) -> None:
    """Raise click.UsageError for more threads than cores: they would wait for each other."""
    from lodcli.kernels.platform.machine import usable_cores

    most = usable_cores()
    if threads and max(threads) > most:
        raise click.UsageError(
            f"--threads {max(threads)}: more than the {most} processors of this machine"
        )


def _pythons(given: Sequence[str]) -> dict[str, str]:
    import shutil

    from lodcli.bench.peers import PEERS
    from lodcli.kernels.platform import environment

    found = {}
    for name in PEERS:
        # So that a script need not repeat --peer-python.
        variable = f"LOD_BENCH_{name.upper()}_PYTHON"
        python = environment.value(variable)
        if python and shutil.which(python) is None:
            raise click.UsageError(f"{variable}: {python} cannot be run")
        if python:
            found[name] = python
    for text in given:
        name, _, python = text.partition("=")
        if name not in PEERS or not python:
            raise click.UsageError(
                f"--peer-python {text}: expected PEER=PYTHON, PEER one of {', '.join(PEERS)}"
            )
        if shutil.which(python) is None:
            raise click.UsageError(f"--peer-python {text}: {python} cannot be run")
        found[name] = python
    return found


# Which cases to measure: arguments of `cases_of`.
_SIZES = (
    click.option("--rows", type=COUNT, metavar="N", help="Total number of rows."),
    click.option("--features", type=COUNT, metavar="N", help="float32 values per row."),
    click.option("--sequences", type=COUNT, metavar="N", help="Number of sequences."),
    click.option(
        "--lengths",
        metavar="SPEC|FILE",
        help="lognormal:50,0.9 (mean, sigma), lognormal:50,0.9,0.03 (3 % empty), "
        "uniform:1,99, fixed:50, or the lengths in a file.",
    ),
    click.option(
        "--sweep",
        metavar="WHAT=N,N,..",
        help="Measure at each value of rows, sequences, features, hidden or skew.",
    ),
)


def measuring(function: F) -> F:
    """The options of the sizes, and those of `settings`."""
    function = settings(function)
    for option in reversed(_SIZES):
        function = option(function)
    return function


folder = click.option(
    "--folder", type=click.Path(exists=True, file_okay=False), help="Folder for test files."
)
passes = click.option(
    "--pass", "passes", metavar="PASS[,..]", help="forward, training [default: both]."
)
hidden = click.option("--hidden", type=COUNT, metavar="H", help="Hidden size.")
