"""`lod plan`: the cost of batches of a limited size, and packed batches."""

from __future__ import annotations

import click

from lodcli.shell import options, output
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

STRATEGIES = ("padded", "bucket", "pack")


class _Plan(options.Command):
    def writes(self, name: str) -> bool:
        from lodcli.formats.core.registry import get

        kind = get(name)
        # The tensors of packed batches differ in levels and lengths.
        return kind.many and kind.max_levels is None and not kind.table


@click.command(cls=_Plan)
@options.source
@click.option(
    "--tokens",
    type=options.WholeNumber(1, 2**31 - 1),
    required=True,
    metavar="T",
    help="Maximum number of rows in a batch, padding included.",
)
@click.option(
    "--strategy",
    "strategies",
    type=click.Choice(STRATEGIES),
    multiple=True,
    metavar="NAME",
    help="padded: sequences in their order; bucket: sorted by length; pack: without padding, best "
    "fit decreasing; repeat for several [default: all].",
)
@options.seed("Shuffle the sequences first, and packed batches at the end.", None)
@click.option("--drop-long", is_flag=True, help="With --write, leave out sequences over T rows.")
@click.option(
    "-o",
    "--output",
    "--write",
    "out",
    type=options.SOURCE,
    metavar="OUT",
    help="Write packed batches to OUT.",
)
@click.option("-f", "--force", is_flag=True, help="Replace OUT if it exists.")
@options.level
@options.as_json
@options.quiet
def command(
    source: Reference,
    tokens: int,
    strategies: tuple[str, ...],
    seed: int | None,
    drop_long: bool,
    out: str | None,
    force: bool,
    level: int | str | None,
    as_json: bool,
) -> None:
    """Show what batches of T rows of SOURCE cost: their number and their padding.

    \b
    Examples:
      lod plan articles.lod.h5 --tokens 8192
      lod plan vowels.lod.h5 --tokens 512 --strategy pack --json
      lod plan vowels.lod.h5 --tokens 512 --seed 7 --write packed.lod.h5

    Sequences are the outermost items, or those of --level; a padded batch is as long as its longest
    sequence. If tensors differ in lengths, FILE::NAME names the one to count. Sequences of more
    than T rows are counted and left out. --write stores the packed batches: all tensors that share
    the sequences get a level called batch, and the file also has cu_seqlens, positions, documents,
    items and max_seqlen.
    """
    target = None if out is None else Target(out, None, force, by_name=True)
    if target is not None:
        if strategies and "pack" not in strategies:
            raise click.UsageError(
                f"--write stores packed batches, and --strategy asks for {strategies[0]}; add "
                "--strategy pack"
            )
        if out == "-":
            raise click.UsageError("the table goes to standard output; name a file for --write")
        target.check()
    from lodcli.commands.choose.choosing import items_of
    from lodcli.commands.plan.planning import Plan
    from lodcli.commands.plan.showing import as_object, as_text
    from lodcli.commands.plan.writing import write_packed

    with items_of(source, level) as items:
        plan = Plan.of(items, source.name, tokens, seed)
        costs = [plan.cost(name) for name in strategies or STRATEGIES]
        if target is not None:
            write_packed(plan, items, source, target, drop_long=drop_long)
    if as_json:
        output.as_json(as_object(plan, costs))
    else:
        output.text(as_text(plan, costs))
