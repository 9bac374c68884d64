"""`lod bench`: benchmark lod against other libraries and the machine's limits."""

from __future__ import annotations

from typing import Any

import click

from lodcli.commands.bench.options import Settings, folder, hidden, measuring, passes
from lodcli.kernels.runtime.precision import PRECISIONS, Precision
from lodcli.shell import options
from lodcli.shell.command import check_command


class _Bench(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click cuts these lines at 45 characters.
        lines = [(name, one.get_short_help_str(200)) for name, one in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        check_command(ctx, args, sorted(self.commands))
        return super().resolve_command(ctx, args)


class _Benchmark(options.Command):
    def writes(self, name: str) -> bool:
        return name == "json"


@click.group(cls=_Bench, invoke_without_command=True)
@click.option(
    "--compare",
    nargs=2,
    metavar="OLD.json NEW.json",
    help="Compare two reports; exit with 1 if lod became slower.",
)
@click.option(
    "--threshold",
    type=options.Number(0),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="For --compare: ignore smaller changes.",
)
@click.option(
    "--alpha",
    type=options.Number(0, 1),
    default=0.01,
    show_default=True,
    metavar="P",
    help="For --compare: significance level of a change.",
)
@options.as_json
@options.quiet
@click.pass_context
def command(
    ctx: click.Context,
    compare: tuple[str, str] | None,
    threshold: float,
    alpha: float,
    as_json: bool,
) -> None:
    """Benchmark lod against other libraries, interleaved, and check that all results agree.

    \b
    Examples:
      lod bench kernels --op sum --rows 10000 --against numpy
      lod bench kernels --op sum,max --lengths articles.lod.h5 --against numpy --json
      lod bench kernels --op max --rows 20000 --against none -o old.json

    Each row shows times (minimum, median, quartile range), useful work per second, its fraction
    of the machine's limit, and the time of the best peer divided by lod's. Peers are the
    installed libraries; missing libraries are named. -o writes a report; lod bench --compare
    old.json new.json compares two reports.
    """
    for name in ("threshold", "alpha") if not compare else ():
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} needs --compare OLD.json NEW.json")
    if compare:
        if ctx.invoked_subcommand is not None:
            raise click.UsageError("--compare compares two reports, without a benchmark")
        from lodcli.commands.bench.showing import compare_and_show

        share = threshold / 100
        compare_and_show(*compare, threshold=share, alpha=alpha, as_json=as_json)
    elif as_json and ctx.invoked_subcommand is not None:
        raise click.UsageError(f"--json goes after {ctx.invoked_subcommand}")
    elif ctx.invoked_subcommand is None:
        raise click.exceptions.NoArgsIsHelpError(ctx)


@command.command(cls=_Benchmark)
@click.option("--op", "ops", metavar="OP[,..]", help="Ops [default: all that are measured].")
@click.option("--case", metavar="NAME[,..]", help="Named cases: B1 to B3, S1, S2, W3 to W300, ..")
@measuring
def kernels(ops: str | None, case: str | None, settings: Settings, **sizes: Any) -> None:
    """Time the sequence ops.

    \b
    Examples:
      lod bench kernels --case B1 --threads 1,2 --json
      lod bench kernels --case G1,G2 --device cuda -o gpu.json
      lod bench kernels --op max,reverse --rows 1e5 --lengths uniform:1,99

    B1 is 1,000,000 rows of 64 in 20,000 sequences of skewed lengths, B2 5,000,000 rows of one
    value in 500,000 short sequences, B3 100,000 rows of 1,024 in 200 long ones; 3 % are empty.
    S1 and S2 are 10 and 1,000 rows of 64; W3, W5, W7, W48, W100 and W300 are 256 MB of rows of that
    width. G1, G2 and G3, for --device cuda, are 10,000,000 rows of 64 in 200,000 sequences of
    equal, very skewed and skewed lengths. attention and attention_grad of float16 and bfloat16
    are measured with --device cuda only. --rows, --features, --sequences and --lengths define a
    custom case; the others default to B1 (with only --device cuda to G1).
    """
    from lodcli.bench.suites.cases import KERNEL_CASES, USUAL_KERNEL_CASES
    from lodcli.bench.suites.kernels import KernelPlan
    from lodcli.bench.suites.ops import BENCH_OPS, ops_of
    from lodcli.commands.bench.showing import cases_of, parse_ops, run_and_show, usual

    default = usual(USUAL_KERNEL_CASES, settings.device)
    chosen = cases_of(KERNEL_CASES, case, settings.seed, usual=default, **sizes)
    known = ops_of(settings.device) if ops is None else list(BENCH_OPS)
    run_and_show("kernels", KernelPlan(parse_ops(ops, known), chosen), settings)


@command.command(cls=_Benchmark)
@click.option("--cell", "cells", metavar="CELL[,..]", help="lstm, gru, elman [default: all].")
@passes
@click.option("--case", metavar="NAME[,..]", help="Named cases: a to e, b-equal, ..")
@hidden
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="float32",
    help="Precision of products: bfloat16, or on a GPU also tf32 and float16. With bfloat16 and "
    "float16, torch gets rows of this dtype, and so does lod on a GPU [default: float32].",
)
@click.option(
    "--dtype",
    type=click.Choice(("float32", "float64")),
    default="float32",
    help="The dtype of rows and weights [default: float32].",
)
@measuring
def rnn(
    cells: str | None,
    passes: str | None,
    case: str | None,
    precision: Precision,
    dtype: str,
    settings: Settings,
    **sizes: Any,
) -> None:
    """Time one RNN layer, forward or forward and backward (training).

    \b
    Examples:
      lod bench rnn --cell lstm --case a --threads 1,2
      lod bench rnn --cell gru --pass forward --hidden 96 --lengths uniform:1,99
      lod bench rnn --cell lstm --case b --dtype float64
      lod bench rnn --case b --device cuda --precision tf32
      lod bench rnn --case h128 --device cuda --precision bfloat16
      lod bench rnn --pass forward --case b,c --precision bfloat16 --against torch

    Case a is 32 sequences of 50 rows on average, with 128 features and hidden size 128; b 256 of
    60, 256; c 64 of 200, 512; d one sequence of 500, 256; e, for --device cuda, 1,024 of 100,
    1,024. b-equal, c-equal and e-equal have equal lengths; h64, h128 and h192 are c with smaller
    hidden sizes. 1x200, 1x512, 8x200 and 64x200 are few sequences: their number and the hidden
    size. Padding does not count as work.

    On a GPU the report shows how lod runs the layer, and the estimated time.
    """
    from lodcli.bench.suites.cases import RNN_CASES, USUAL_RNN_CASES
    from lodcli.bench.suites.rnn import CELLS, PASSES, RnnPlan
    from lodcli.commands.bench.showing import cases_of, parse_ops, run_and_show, usual

    if precision == "bfloat16" and len(settings.device) > 1:
        raise click.UsageError(
            "--precision bfloat16 is measured on one device: --device cpu or cuda"
        )
    if precision in ("tf32", "float16") and tuple(settings.device) != ("cuda",):
        raise click.UsageError(f"--precision {precision} goes with --device cuda")
    if dtype != "float32" and (precision != "float32" or "cuda" in settings.device):
        raise click.UsageError(f"--dtype {dtype} is measured on a CPU, without --precision")
    default = usual(USUAL_RNN_CASES, settings.device)
    chosen = cases_of(RNN_CASES, case, settings.seed, usual=default, **sizes)
    ways = parse_ops(passes, PASSES, "--pass")
    ops = [f"{cell} {way}" for cell in parse_ops(cells, list(CELLS), "--cell") for way in ways]
    run_and_show("rnn", RnnPlan(ops, chosen, precision, dtype), settings)


@command.command(cls=_Benchmark)
@click.option("--cell", "cells", metavar="CELL[,..]", help="mingru, lru, s5, .. [default: all].")
@passes
@click.option("--case", metavar="NAME[,..]", help="many, long, wide, one, skewed [default: all].")
@hidden
@measuring
def linear(
    cells: str | None, passes: str | None, case: str | None, settings: Settings, **sizes: Any
) -> None:
    """Time one layer of a linear cell, forward or forward and backward (training).

    \b
    Examples:
      lod bench linear --cell mingru,s5 --case long --threads 1
      lod bench linear --cell lru --pass training --hidden 96 --lengths uniform:1,99

    Case many is 64 sequences of 200 rows, with 128 features and hidden size 128; long 16 of 1,000,
    64; wide 4 of 1,000, 256; one a single sequence of 20,000, 64; skewed 64 of 200 on average, 128.
    torch runs the same cell on a padded batch: step by step (up to 1,000 steps), and with parallel
    scans.
    """
    from lodcli.bench.suites.cases import LINEAR_CASES
    from lodcli.bench.suites.linear import LINEAR_CELLS, LinearPlan
    from lodcli.bench.suites.rnn import PASSES
    from lodcli.commands.bench.showing import cases_of, parse_ops, run_and_show

    chosen = cases_of(LINEAR_CASES, case, settings.seed, **sizes)
    ways = parse_ops(passes, PASSES, "--pass")
    ops = [f"{cell} {way}" for cell in parse_ops(cells, LINEAR_CELLS, "--cell") for way in ways]
    run_and_show("linear", LinearPlan(ops, chosen), settings)


@command.command(cls=_Benchmark)
@click.option(
    "--op", "ops", metavar="OP[,..]", help="jsonl_to_lod, lod_to_arrow, .. [default: all]."
)
@click.option(
    "--dtype",
    type=click.Choice(("int32", "int64", "float32", "float64")),
    default="int64",
    show_default=True,
    help="The dtype of the values.",
)
@folder
@measuring
def convert(
    ops: str | None, dtype: str, folder: str | None, settings: Settings, **sizes: Any
) -> None:
    """Time conversions to and from lod's container: jsonl, arrow, parquet, megatron, and others.

    \b
    Examples:
      lod bench convert --op jsonl_to_lod,lod_to_jsonl --threads 1
      lod bench convert --op parquet_to_lod --dtype float32 --folder /dev/shm

    A peer reads the same file, or writes the same values from memory; cp copies the bytes. By
    default 4,000,000 values in 80,000 sequences.
    """
    from lodcli.bench.suites.cases import CONVERT_CASES
    from lodcli.bench.suites.convert import CONVERSIONS, ConvertPlan
    from lodcli.commands.bench.showing import cases_of, parse_ops, run_and_show

    chosen = cases_of(CONVERT_CASES, None, settings.seed, **sizes)
    plan = ConvertPlan(parse_ops(ops, CONVERSIONS), chosen, dtype, folder=folder)
    run_and_show("convert", plan, settings)


@command.command(cls=_Benchmark)
@click.option(
    "--op",
    "ops",
    metavar="OP[,..]",
    help="write, write_synced, read, verify, sequence, open_and_sequence.",
)
@folder
@measuring
def io(ops: str | None, folder: str | None, settings: Settings, **sizes: Any) -> None:
    """Time lod's container, plain and compressed: writing, reading, checking, single sequences.

    \b
    Examples:
      lod bench io --op read,write --threads 1 --folder /dev/shm

    Files are in the page cache; write_synced also waits until they are on the disk. By default, a
    file has 500,000 rows of 128 values, 80 rows per sequence. The op sequence reads 20 sequences of
    an open file; open_and_sequence opens the file each time.
    """
    from lodcli.bench.suites.cases import FILE_CASES
    from lodcli.bench.suites.files import IO_OPS, FilesPlan
    from lodcli.commands.bench.showing import cases_of, parse_ops, run_and_show

    chosen = cases_of(FILE_CASES, None, settings.seed, **sizes)
    run_and_show("io", FilesPlan(parse_ops(ops, IO_OPS), chosen, "io", folder=folder), settings)


@command.command("slice", cls=_Benchmark)
@folder
@measuring
def slice_(folder: str | None, settings: Settings, **sizes: Any) -> None:
    """Time reading single sequences from files of 5, 51 and 512 MB, opened each time.

    \b
    Examples:
      lod bench slice --threads 1 --plot -
      lod bench slice --sweep rows=1e4,1e7 --features 16
    """
    from lodcli.bench.suites.cases import FILE_CASES, SLICE_SWEEP
    from lodcli.bench.suites.files import FilesPlan
    from lodcli.commands.bench.showing import cases_of, run_and_show

    if all(value is None for value in sizes.values()):
        sizes["sweep"] = SLICE_SWEEP
    chosen = cases_of(FILE_CASES, None, settings.seed, **sizes)
    run_and_show("io", FilesPlan(["open_and_sequence"], chosen, "slice", folder=folder), settings)


@command.command(cls=_Benchmark)
@folder
@measuring
def load(folder: str | None, settings: Settings, **sizes: Any) -> None:
    """Time an epoch of training batches in random order, compared with other loaders.

    \b
    Examples:
      lod bench load --threads 1 --budget 60 --folder /dev/shm
      lod bench load --rows 5e6 --against webdataset,datasets

    Each loader returns every sequence once, in batches of at most 4,096 rows, in one process; files
    are in the page cache. lod reads and checks the rows, or maps the file unchecked. By default
    1,000,000 rows of 16 values in 20,000 sequences. Needs torch.
    """
    from lodcli.bench.suites.cases import LOAD_CASES
    from lodcli.bench.suites.load import EPOCH, LoadPlan
    from lodcli.commands.bench.showing import cases_of, run_and_show

    chosen = cases_of(LOAD_CASES, None, settings.seed, **sizes)
    run_and_show("load", LoadPlan([EPOCH], chosen, folder=folder), settings)


def _question(name: str, help_text: str) -> None:
    """Add the command of one question of lodcli/bench/suites/questions.py."""

    @click.option("--op", "ops", metavar="OP[,..]", help="Ops [default: all].")
    @measuring
    def ask(ops: str | None, settings: Settings, **sizes: Any) -> None:
        from lodcli.bench.suites.cases import QUESTION_CASES
        from lodcli.bench.suites.questions import QUESTIONS, QuestionPlan
        from lodcli.commands.bench.showing import cases_of, parse_ops, run_and_show

        chosen = cases_of(QUESTION_CASES, None, settings.seed, base="skew 0.8", **sizes)
        plan = QuestionPlan(parse_ops(ops, list(QUESTIONS[name])), chosen, name)
        run_and_show("questions", plan, settings)

    command.add_command(click.command(name, cls=_Benchmark, help=help_text)(ask))


_question(
    "padding",
    """Time unpadded rows and the same rows in a padded batch, by the skew of their lengths.

    \b
    Examples:
      lod bench padding --op sum --threads 1
      lod bench padding --lengths words.lod.h5 --features 64
    """,
)
_question(
    "offsets",
    """Time an index of offsets and one of lengths, which need a prefix sum first.

    \b
    Examples:
      lod bench offsets --op access,sum --threads 1

    access reads 1,000 random sequences; the other ops run the kernel.
    """,
)
_question(
    "sorting",
    """Time sequences in input order and sorted by length.

    \b
    Examples:
      lod bench sorting --op steps --threads 1

    steps runs a recurrent cell step by step: if sorted, the active sequences are a prefix;
    if not, they must be searched at each step.
    """,
)
_question(
    "levels",
    """Time lookups of the rows of upper items: by nested or absolute offsets, or sums of lengths.

    \b
    Examples:
      lod bench levels --sequences 100000 --threads 1

    Each measurement is 1,000 lookups.
    """,
)
