"""`lod run-rnn`: run an RNN over every sequence of a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

import click

from lodcli.commands.run_rnn.kinds import CLASSES, STATES
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.shell import options
from lodcli.shell.references import Reference, parse_reference
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from lodcli.commands.run_rnn.given import RunOptions


@click.command(cls=options.Command)
@options.source
@options.target
@options.shard_jobs
@click.option("--cell", type=click.Choice(tuple(CELLS)), help="The cell; --weights may define it.")
@click.option(
    "--hidden", type=options.COUNT, metavar="H", help="Hidden size; --weights defines it."
)
@click.option(
    "--layers", type=options.COUNT, metavar="L", help="Number of layers; --weights defines it."
)
@click.option(
    "--heads",
    type=options.COUNT,
    metavar="N",
    help="Heads of an rglru or slstm [default: 1]; --weights defines it.",
)
@click.option("--bidirectional", is_flag=True, help="Run both directions; --weights defines it.")
@options.seed("Random weights with seed N.", None, "--init", "seed")
@click.option(
    "--weights",
    "path",
    type=options.FILE,
    metavar="FILE",
    help="Trained weights of torch, Keras, ONNX or Paddle; see lod weights.",
)
@click.option(
    "--nonlinearity",
    type=click.Choice(("tanh", "relu", "sigmoid", "identity")),
    help="Nonlinearity of an elman cell [default: tanh].",
)
@click.option("--coupled", is_flag=True, help="An lstm whose forget gate is 1 - input gate.")
@click.option("--nested", metavar="SPEC", help="Nested RNNs; see above.")
@click.option("--step", metavar="MODULE:FUNCTION", help="A custom step function; see above.")
@options.finest_level
@click.option("--reverse", is_flag=True, help="Run from the last row of a sequence to the first.")
@click.option(
    "--emit",
    type=click.Choice((*STATES, *CLASSES)),
    default="all",
    help="The state after every row, after the last row of each sequence, or both; with a model of "
    "lod train, the class of each sequence, the scores of all classes, or the predicted value "
    "[default: all].",
)
@click.option(
    "--h0",
    type=options.SOURCE,
    metavar="FILE",
    help="Initial hidden states, one row per sequence: (H), or (layers x directions, H).",
)
@click.option(
    "--c0",
    type=options.SOURCE,
    metavar="FILE",
    help="Initial cell states, of a cell that has them.",
)
@click.option("--grad", is_flag=True, help="Compute gradients instead of states.")
@click.option(
    "--upstream",
    type=options.SOURCE,
    metavar="FILE",
    help="Upstream gradient of the emitted outputs, in their shape [default: ones].",
)
@click.option(
    "--checkpoint",
    type=options.COUNT,
    metavar="STEPS",
    help="With --grad: store states only every STEPS steps, recompute the others.",
)
@click.option(
    "--truncate",
    type=options.COUNT,
    metavar="STEPS",
    help="With --grad: stop the gradient every STEPS steps.",
)
@click.option(
    "--dtype",
    type=click.Choice(("float32", "float64")),
    help="The dtype of the computation [default: that of SOURCE].",
)
@options.threads
@options.device
@options.precision
@click.option(
    "--stats", is_flag=True, help="Print the number of steps, and how many padding would add."
)
def command(source: Reference, target: Target, **given: Unpack[RunOptions]) -> None:
    """Run an RNN over the sequences of a level.

    \b
    Examples:
      lod run-rnn vowels.lod.h5 -o out.lod.h5 --cell lstm --hidden 64 --seed 1
      lod run-rnn vowels.lod.h5 --weights model.safetensors --emit last -o last.lod.h5
      lod run-rnn reviews.jsonl::text --weights text.safetensors --emit class -o class.csv
      lod run-rnn vowels.lod.h5 --cell gru --hidden 8 --seed 2 --emit both | lod inspect -
      lod run-rnn events.lod.h5 --nested day:gru:8/hour:gru:4:boot --seed 1 -o out.lod.h5
      lod run-rnn vowels.lod.h5 --step model:step -o out.lod.h5
      lod run-rnn vowels.lod.h5 --cell gru --hidden 4 --seed 1 --grad -o gradients.npz
      lod run-rnn shards --jobs 2 --cell lstm --hidden 8 --seed 1 -o states

    A row of any shape is one step. --emit both writes two tensors, "all" and "last".

    --emit class is for a model of lod train: "predicted" is the most probable class of each
    sequence, and "probability" its probability. --emit scores writes the scores of all classes,
    before softmax. --emit value is for a model that predicts numbers, which are "predicted".

    If the weights have an embedding, as after lod train --embedding, the rows are ids: whole
    numbers, categories or text.

    --nested runs nested RNNs: SPEC is LEVEL:CELL:HIDDEN for each RNN, outermost first,
    separated by "/", with optional words layers=N, bidirectional, reverse, and boot (each
    sequence starts from the state of the outer RNN). With --weights the level names are
    enough; they are the prefixes of the weights' names. --emit all writes a tensor for each
    level.

    --step calls FUNCTION(inputs, memory), which returns (outputs, memory), at every time
    step, with one row for each sequence still active; memory starts as None, or --h0.

    --device cuda computes on an NVIDIA GPU (pip install 'lodcli[cuda12]'). A step function then
    gets cupy arrays.

    --precision tf32, bfloat16 or float16 rounds the inputs of matrix products, for a GPU's tensor
    cores; everything else stays float32. On the CPU only bfloat16 is supported, on Intel processors
    with AMX, for lstm, gru, elman and slstm: about 3 times as fast from 200 units on, with an error
    of 0.004 to 0.01. With --grad the products of the gradients are rounded as well.

    --grad computes the gradients of the sum of the emitted outputs times --upstream, and writes
    "input", "h0", "c0" and one tensor for each weight.
    """
    from lodcli.commands.run_rnn.running import run

    _check(given)
    beside = (given["path"], given["h0"], given["c0"], given["upstream"])
    others = [parse_reference(path) for path in beside if path is not None]
    options.refuse_two_pipes([source, *others])
    if not target.shard_option:
        run(source, target, given)
        return
    from lodcli.shell.jobs.by_shards import by_shards

    _check_shards(given, target.shard_option)
    step = (given["step"] or "").partition(":")[0].replace(".", "/") + ".py"
    files = [path for path in (given["path"], step) if path and os.path.exists(path)]
    by_shards(run, source, target, given, files=files)


def _check_shards(given: Mapping[str, Any], option: str) -> None:
    """Raise UsageError for options that need more than one shard, or one thread of the CPU."""
    for name in ("h0", "c0", "grad", "stats", "threads"):
        if given[name]:
            raise click.UsageError(f"{option} computes each shard separately, without --{name}")
    if given["device"].startswith("cuda"):
        raise click.UsageError(f"{option} computes on the CPU, without --device cuda")


def _check(given: Mapping[str, Any]) -> None:
    """Raise UsageError for contradictory or missing options."""
    for name in ("nested", "step"):
        if given[name] == "":
            raise click.UsageError(f"--{name} is empty; leave it out, or see the examples")
    if given["emit"] in CLASSES:
        for name in ("nested", "step", "grad", "seed"):
            if given[name] not in (None, False):
                raise click.UsageError(
                    f"--emit {given['emit']} is for --weights MODEL of lod train, without --{name}"
                )
    if given["step"] and given["precision"] != "float32":
        raise click.UsageError("--step does not take --precision")
    shape = [name for name in ("hidden", "layers", "bidirectional") if given[name]]
    ways = [name for name in ("nested", "step") if given[name]]
    if given["heads"] is not None and (ways or given["path"] is not None):
        raise click.UsageError("--heads is for --seed, without --nested and --step")
    if len(ways) > 1:
        raise click.UsageError("give either --nested or --step")
    for name in ("upstream", "checkpoint", "truncate"):
        if given[name] is not None and not given["grad"]:
            raise click.UsageError(f"--{name} is for --grad")
    if given["step"]:
        if given["grad"]:
            raise click.UsageError("lod computes no gradients of a --step: leave --grad out")
        needless = ("cell", "seed", "path", *shape, "nonlinearity", "coupled")
        for name in needless:
            if given[name] not in (None, False):
                option = "weights" if name == "path" else name
                raise click.UsageError(f"--step does not take --{option}")
        return
    if (given["seed"] is None) == (given["path"] is None):
        raise click.UsageError("give either --seed N, for random weights, or --weights FILE")
    if given["nested"]:
        for name in (*shape, "cell", "level", "reverse"):
            if given[name] not in (None, False):
                raise click.UsageError(f"--nested defines the {name} of each RNN in SPEC")
        for name in ("nonlinearity", "coupled"):
            if given[name]:
                raise click.UsageError(f"--nested does not take --{name}")
    elif given["seed"] is not None and (given["cell"] is None or given["hidden"] is None):
        raise click.UsageError("--seed needs --cell and --hidden")
    if given["nested"] and (given["checkpoint"] or given["truncate"]):
        raise click.UsageError("--checkpoint and --truncate are for one RNN, not for --nested")
