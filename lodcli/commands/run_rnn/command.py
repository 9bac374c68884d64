"""`lod run-rnn`: an RNN over every sequence of a file."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click
import numpy as np

from lodcli.commands.run_rnn.gradients import NestedGradients, PlainGradients, upstream_names
from lodcli.commands.run_rnn.nested_spec import parse_nested
from lodcli.commands.run_rnn.runners import (
    Feed,
    NestedRunner,
    PlainRunner,
    Runner,
    Settings,
    StepRunner,
    fed,
)
from lodcli.commands.run_rnn.step_function import load_step
from lodcli.formats.core.errors import naming_file
from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.weights import read_weights
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.rnn.nested.state_dict import nested_from_state_dict, seeded_nested
from lodcli.kernels.rnn.stack.chunked import Chunking
from lodcli.kernels.rnn.stack.run import arithmetic_dtype
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.stack.state_dict import require_shape, weights_from_state_dict
from lodcli.kernels.runtime.precision import PRECISIONS, float32_products
from lodcli.shell import options, output
from lodcli.shell.device import computing_on
from lodcli.shell.opened import opened
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

COUNT = click.IntRange(min=1)


@click.command(cls=options.Command)
@options.source
@options.target
@click.option(
    "--cell", type=click.Choice(tuple(CELLS)), help="The cell; --weights may tell it, too."
)
@click.option("--hidden", type=COUNT, metavar="H", help="Hidden size; --weights tells it, too.")
@click.option("--layers", type=COUNT, metavar="L", help="How many layers; --weights tells it, too.")
@click.option(
    "--bidirectional", is_flag=True, help="Both directions side by side; --weights tells it, too."
)
@click.option(
    "--seed",
    "--init",
    "seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Random weights from the number N.",
)
@click.option(
    "--weights",
    "path",
    type=click.Path(),
    metavar="FILE",
    help="Trained weights of torch, Keras, ONNX or Paddle; see lod weights.",
)
@click.option(
    "--nonlinearity",
    type=click.Choice(("tanh", "relu", "sigmoid", "identity")),
    help="Of an elman cell; tanh if not given.",
)
@click.option("--coupled", is_flag=True, help="An lstm whose forget gate is 1 - input gate.")
@click.option("--nested", metavar="SPEC", help="RNNs inside of RNNs; see above.")
@click.option("--step", metavar="MODULE:FUNCTION", help="A step of your own; see above.")
@options.level
@click.option("--reverse", is_flag=True, help="From the last row of a sequence to the first.")
@click.option(
    "--emit",
    type=click.Choice(("all", "last", "both")),
    default="all",
    help="The state at every row (default), after each sequence's last one, or both.",
)
@click.option(
    "--h0",
    type=options.SOURCE,
    metavar="FILE",
    help="Initial hidden states, a row a sequence: (H), or (layers x directions, H).",
)
@click.option("--c0", type=options.SOURCE, metavar="FILE", help="Initial cell states of an lstm.")
@click.option("--grad", is_flag=True, help="Give gradients instead of states.")
@click.option(
    "--upstream",
    type=options.SOURCE,
    metavar="FILE",
    help="The gradient by what --emit says, in its shape; else ones.",
)
@click.option("--checkpoint", type=COUNT, metavar="STEPS", help="For --grad: keep less, run twice.")
@click.option("--truncate", type=COUNT, metavar="STEPS", help="For --grad: cut it off so often.")
@click.option(
    "--dtype", type=click.Choice(("float32", "float64")), help="Compute in this; else as SOURCE."
)
@click.option("--threads", type=COUNT, metavar="N", help="At most so many; else all processors.")
@options.device
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="float32",
    help="Of products of float32, with --device cuda: float32 is exact, the others faster.",
)
@click.option("--stats", is_flag=True, help="Tell the work done, and what padding would add.")
def command(source: Reference, target: Target, **given: Any) -> None:
    """Run an RNN over the sequences of a level (the finest if none is given).

    A row of any shape is one step. Several results are several tensors: "all" and "last".

    --nested runs one RNN inside of another: SPEC is LEVEL:CELL:HIDDEN for each, outermost
    first, parted by "/", and may say layers=N, bidirectional, reverse, and boot: each
    sequence then starts from the state of the RNN above. With --weights the levels do;
    they are the prefixes of the weights' names. --emit all gives a tensor for each level.

    --step calls FUNCTION(inputs, memory), which returns (outputs, memory), at every time
    step, with a row for each sequence still alive; memory is None at first, or --h0.

    --device cuda computes on an NVIDIA GPU (pip install 'lodcli[cuda12]'); files are read and
    written as ever. A step function then gets cupy arrays. --precision tf32, bfloat16 or
    float16 rounds what products take, on tensor cores; all else stays float32.

    --grad gives the gradients of the sum of what --emit says times --upstream: "input",
    "h0", "c0" and one tensor for each weight.

    \b
    Examples:
      lod run-rnn vowels.lod.h5 -o out.lod.h5 --cell lstm --hidden 64 --seed 1
      lod run-rnn vowels.lod.h5 --weights model.safetensors --emit last -o last.lod.h5
      lod run-rnn vowels.lod.h5 --cell gru --hidden 8 --seed 2 --emit both | lod inspect -
      lod run-rnn events.lod.h5 --nested day:gru:8/hour:gru:4:boot --seed 1 -o out.lod.h5
      lod run-rnn vowels.lod.h5 --step model:step -o out.lod.h5
      lod run-rnn vowels.lod.h5 --cell gru --hidden 4 --seed 1 --grad -o gradients.npz
    """
    _check(given)
    with ExitStack() as stack:
        device = stack.enter_context(computing_on(given["device"]))
        stack.enter_context(float32_products(given["precision"]))
        file = stack.enter_context(opened(source))
        feeds = [stack.enter_context(fed(given[n], f"--{n}")) for n in ("h0", "c0")]
        kinds = ("all", "last") if given["emit"] == "both" else (given["emit"],)
        settings = Settings(kinds, given["dtype"], device, given["threads"], *feeds)
        runner = _runner(settings, file.tensor(), given)
        if given["upstream"] is not None:
            assert isinstance(runner, PlainGradients | NestedGradients)
            runner.gradients.upstream.update(_upstream(stack, given["upstream"], runner, kinds))
        target.write(*runner.run(file.tensor(), file.tensors()))
    if given["stats"]:
        for line in runner.work.lines():
            output.note(line)


def _check(given: dict[str, Any]) -> None:
    """Refuse options that contradict each other or leave something open."""
    if given["precision"] != "float32":
        if given["step"]:
            raise click.UsageError("--step does without --precision")
        if not given["device"].startswith("cuda"):
            raise click.UsageError(
                f"--precision {given['precision']} goes with --device cuda: in main memory all "
                "products are exact"
            )
    shape = [name for name in ("hidden", "layers", "bidirectional") if given[name]]
    ways = [name for name in ("nested", "step") if given[name]]
    if len(ways) > 1:
        raise click.UsageError("give either --nested or --step")
    if given["step"]:
        needless = ("cell", "seed", "path", *shape, "nonlinearity", "coupled", "grad")
        for name in needless:
            if given[name] not in (None, False):
                option = "weights" if name == "path" else name
                raise click.UsageError(f"--step does without --{option}")
        return
    if (given["seed"] is None) == (given["path"] is None):
        raise click.UsageError("give either --seed N, for random weights, or --weights FILE")
    if given["nested"]:
        for name in (*shape, "cell", "level", "reverse"):
            if given[name] not in (None, False):
                raise click.UsageError(f"--nested says the {name} of each RNN in SPEC")
    elif given["seed"] is not None and (given["cell"] is None or given["hidden"] is None):
        raise click.UsageError("--seed needs --cell and --hidden")
    for name in ("upstream", "checkpoint", "truncate"):
        if given[name] is not None and not given["grad"]:
            raise click.UsageError(f"--{name} is for --grad")
    if given["nested"] and (given["checkpoint"] or given["truncate"]):
        raise click.UsageError("--checkpoint and --truncate are for one RNN, not for --nested")


def _runner(settings: Settings, spec: TensorSpec, given: dict[str, Any]) -> Runner:
    width = int(np.prod(spec.row_shape, dtype=np.int64))
    level = -1 if given["level"] is None else given["level"]
    dtype = arithmetic_dtype(settings.dtype or spec.dtype)
    if given["step"]:
        step = load_step(given["step"])
        return StepRunner(settings, step, level=level, reverse=given["reverse"])
    if given["nested"]:
        shapes = parse_nested(given["nested"])
        names = tuple(shape.prefix for shape in shapes)
        if given["path"] is not None:
            with naming_file(given["path"]):
                rnn = nested_from_state_dict(read_weights(given["path"]), shapes)
        else:
            rnn = seeded_nested(shapes, width, rng=np.random.default_rng(given["seed"]))
        rnn = rnn.frozen(dtype)
        if given["grad"]:
            return NestedGradients(settings, rnn, names, upstream={})
        return NestedRunner(settings, rnn, names)
    weights = _weights(width, given).frozen(dtype)
    where = {"level": level, "reverse": given["reverse"]}
    if given["grad"]:
        chunking = Chunking(given["checkpoint"], given["truncate"])
        return PlainGradients(settings, weights, **where, upstream={}, chunking=chunking)
    return PlainRunner(settings, weights, **where)


def _weights(width: int, given: dict[str, Any]) -> RNNWeights:
    cell, path = given["cell"], given["path"]
    shape: dict[str, Any] = {"layers": given["layers"], "bidirectional": given["bidirectional"]}
    wanted: dict[str, str | bool] = {}
    if given["nonlinearity"] is not None:
        wanted["nonlinearity"] = given["nonlinearity"]
    if given["coupled"]:
        wanted["coupled"] = True
    if path is not None:
        with naming_file(path):
            weights = weights_from_state_dict(read_weights(path), cell, options=wanted)
            require_shape(weights, hidden=given["hidden"], **shape)
        return weights
    shape |= {"layers": given["layers"] or 1, "rng": np.random.default_rng(given["seed"])}
    weights = seeded_weights(cell, width, given["hidden"], **shape)
    return weights.with_options(**wanted) if wanted else weights


def _upstream(
    stack: ExitStack, text: str, runner: Runner, kinds: tuple[str, ...]
) -> dict[str, Feed]:
    """Open the file of upstream gradients once for each result it is for."""
    names = upstream_names(runner, kinds)
    found = {}
    for name in names:
        reference = text if len(names) == 1 else f"{text}::{name}"
        feed = stack.enter_context(fed(reference, "--upstream"))
        assert feed is not None
        found[name] = feed
    return found
