"""`lod bench`: how fast ours is, beside other people's software and the machine's limits."""

from __future__ import annotations

from typing import Any

import click

from lodcli import options
from lodcli.bench.options import Settings, settings, sizes, sweep


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Measure lod beside other libraries, interleaved, and check that all computed the same.

    Each row says how long (least, median, quartile range), how much useful work a second,
    what fraction of the machine's limit that is, and how many times as long the best peer
    took. Peers are the libraries that are installed; those missing are named.

    \b
    Examples:
      lod bench kernels --op sum --rows 10000 --against numpy
      lod bench kernels --op sum,max --lengths articles.lod.h5 --against numpy --json
    """
    if ctx.invoked_subcommand is None:
        raise click.exceptions.NoArgsIsHelpError(ctx)


@command.command(cls=options.Command)
@click.option("--op", "ops", metavar="OP[,..]", help="Ops; all that are measured if not given.")
@click.option("--case", metavar="NAME[,..]", help="Named cases: B1, B2, B3.")
@sizes
@sweep
@settings
def kernels(
    ops: str | None, case: str | None, sweep: str | None, settings: Settings, **sizes: Any
) -> None:
    """Time the sequence ops.

    B1 is 1,000,000 rows of 64 in 20,000 sequences of skewed lengths, B2 5,000,000 rows of one
    value in 500,000 short sequences, B3 100,000 rows of 1,024 in 200 long ones; 3 % are empty.
    With --rows, --features, --sequences or --lengths a case of your own is made, and what is
    not given is B1's.

    \b
    Examples:
      lod bench kernels --case B1 --threads 1,2 --json
      lod bench kernels --op max,reverse --rows 1e5 --lengths uniform:1,99
    """
    from lodcli.bench.cases import KERNEL_CASES
    from lodcli.bench.kernels import KernelPlan
    from lodcli.bench.ops import BENCH_OPS
    from lodcli.bench.showing import cases_of, parse_ops, run_and_show

    chosen = cases_of(KERNEL_CASES, case, sweep, settings.seed, **sizes)
    run_and_show("kernels", KernelPlan(parse_ops(ops, list(BENCH_OPS)), chosen), settings)
