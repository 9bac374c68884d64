"""`lod train`: train a model that classifies sequences, or predicts numbers of them."""

from __future__ import annotations

import functools
import itertools
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from lodcli.formats.storage import interrupts
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.shell import options, output
from lodcli.shell.references import Reference, parse_reference

# Modules that import NumPy are imported where they are used: --help does not need them.
if TYPE_CHECKING:
    from lodcli.kernels.runtime.precision import Precision

_ABOVE_ZERO = options.Number(0, min_open=True, finite=True)


@click.command(cls=options.Command)
@options.source
@click.option("-o", "--output", "out", type=options.SOURCE, metavar="MODEL", help="Output file.")
@click.option("-f", "--force", is_flag=True, help="Replace MODEL if it exists.")
@click.option(
    "--validation",
    type=options.SOURCE,
    metavar="FILE",
    help="Validation set, whose loss chooses the best epoch [default: SOURCE].",
)
@click.option(
    "--patience",
    type=options.COUNT,
    metavar="N",
    help="Stop after N epochs without a lower loss.",
)
@click.option(
    "--test", type=options.SOURCE, metavar="FILE", help="Test set, used only for evaluation."
)
@click.option(
    "--labels",
    default="label",
    metavar="NAME",
    shell_complete=options.complete_tensors,
    help="The tensor of labels: class numbers, categories or texts; or floating-point numbers, to "
    "predict these [default: label].",
)
@options.finest_level
@click.option("--cell", type=click.Choice(tuple(CELLS)), help="The cell [default: lstm].")
@click.option("--hidden", type=options.COUNT, metavar="H", help="Hidden size [default: 64].")
@click.option("--layers", type=options.COUNT, metavar="L", help="Number of layers [default: 1].")
@click.option(
    "--heads",
    type=options.COUNT,
    metavar="N",
    help="Heads of an rglru or slstm [default: 1].",
)
@click.option("--bidirectional", is_flag=True, help="Run both directions and concatenate.")
@click.option(
    "--pool",
    type=click.Choice(("last", "mean")),
    help="The states that the linear layer takes: the last, or their mean [default: last].",
)
@click.option(
    "--embedding",
    type=options.COUNT,
    metavar="D",
    help="Take whole numbers and text as ids, and learn D values for each id.",
)
@click.option(
    "--vocabulary",
    type=options.COUNT,
    metavar="V",
    help="Number of ids [default: the largest of SOURCE plus one; 256 for text].",
)
@click.option(
    "--standardize",
    is_flag=True,
    help="Scale each value of a row to mean 0 and standard deviation 1.",
)
@click.option("--weights", metavar="MODEL", type=options.FILE, help="Start from a saved model.")
@click.option(
    "--epochs",
    type=click.IntRange(min=0),
    default=30,
    metavar="N",
    help="Number of epochs [default: 30]; 0 only evaluates.",
)
@click.option(
    "--state",
    type=options.FILE,
    metavar="FILE",
    help="Keep the state of the training in FILE; continue from it if it exists.",
)
@click.option(
    "--until",
    type=options.COUNT,
    metavar="EPOCH",
    help="Stop after this epoch [default: --epochs].",
)
@click.option(
    "--batch",
    type=options.COUNT,
    default=16,
    metavar="N",
    help="Sequences in a batch [default: 16].",
)
@click.option(
    "--lr",
    type=_ABOVE_ZERO,
    default=0.01,
    metavar="RATE",
    help="Initial learning rate [default: 0.01].",
)
@click.option(
    "--dropout",
    type=options.Number(0, 1, max_open=True),
    default=0.0,
    metavar="P",
    help="Dropout probability [default: 0].",
)
@click.option(
    "--clip",
    type=_ABOVE_ZERO,
    default=5.0,
    metavar="LENGTH",
    help="Maximum gradient norm [default: 5].",
)
@options.seed()
@options.threads
@options.device
@options.precision
@options.as_json
@options.quiet
def command(
    source: Reference,
    out: str | None,
    force: bool,
    validation: str | None,
    patience: int | None,
    test: str | None,
    labels: str,
    level: int | str | None,
    embedding: int | None,
    standardize: bool,
    weights: str | None,
    epochs: int,
    state: str | None,
    until: int | None,
    batch: int,
    lr: float,
    dropout: float,
    clip: float,
    seed: int,
    threads: int | None,
    device: str,
    precision: Precision,
    as_json: bool,
    **shape: Any,
) -> None:
    """Train an RNN to classify the sequences of SOURCE, or to predict numbers, without padding.

    \b
    Examples:
      lod train vowels.ts -o new.safetensors --test more.ts
      lod train vowels.ts -o new.safetensors --cell gru --bidirectional --dropout 0.3
      lod train vowels.ts -o new.safetensors --validation more.ts --patience 5
      lod train vowels.ts -o new.safetensors --force --state new.state
      lod train reviews.jsonl::text -o new.safetensors --embedding 16
      lod train more.ts --weights speakers.safetensors --epochs 0
      lod run-rnn more.ts --weights speakers.safetensors --emit last -o last.npz

    The model is an RNN, its last states (or their mean), and a linear layer, trained with
    cross-entropy, Adam and a cosine learning-rate schedule. MODEL is a safetensors file with
    the names of a torch module that has rnn and out; it holds the epoch with the lowest loss
    on --validation, or else on SOURCE. It is complete at any time: an interrupt leaves the best
    model so far. The same seed gives the same model.

    Floating-point labels, one number or one row for each sequence, are predicted. MODEL keeps the
    mean and standard deviation of the labels that it was first trained on. The loss is the mean
    squared error of labels standardized by these, so about 1 for a model that always predicts the
    mean in MODEL. The root mean squared errors of the first values are printed; --json has all.

    --embedding D is for ids: tokens, categories, or the bytes of text. Each id has D values, which
    are trained, too; lod run-rnn --weights MODEL looks them up. V is the number of ids that MODEL
    knows.

    --standardize is for values of different scales, or far from 0. MODEL keeps the means and
    standard deviations of SOURCE, and lod run-rnn --weights MODEL applies them.

    --state FILE makes a training resumable: the same command continues after the last epoch in
    FILE, with the same result, bit for bit, as without the interruption. A larger --epochs trains
    on. --weights starts a new training from a model.

    --device cuda trains on an NVIDIA GPU (pip install 'lodcli[cuda12]'); all of SOURCE is then
    copied to the GPU.

    --precision bfloat16 rounds the inputs of the RNN's products, forward and backward, on Intel
    processors with AMX for lstm, gru, elman and slstm, and on a GPU, which has tf32 and float16
    too. Weights, and everything else, stay float32.
    """
    from lodcli.commands.train import reading, saved_state, training
    from lodcli.kernels.rnn.training.train import Recipe, evaluate, prediction_errors, train
    from lodcli.shell.device import computing_on, rounding_to
    from lodcli.shell.progress import progress_line

    _check(out, force, epochs, weights, state)
    if shape["vocabulary"] is not None and embedding is None:
        raise click.UsageError("--vocabulary is for --embedding D")
    if standardize and embedding is not None:
        raise click.UsageError("--standardize is for values, --embedding for ids: give one")
    if not epochs and (validation is not None or patience is not None):
        raise click.UsageError("--validation and --patience choose the epoch: not for --epochs 0")
    others = {"validation": validation, "test": test}
    beside = [parse_reference(one) for one in (*others.values(), weights) if one is not None]
    options.refuse_two_pipes([source, *beside])
    if shape["heads"] is not None and weights is not None:
        raise click.UsageError("--weights defines the number of heads: leave --heads out")
    context = click.get_current_context()
    recipe = Recipe(
        epochs,
        batch,
        lr,
        dropout,
        clip,
        seed,
        threads,
        context.with_resource(computing_on(device, precision)),
    )
    evaluation = functools.partial(evaluate, threads=threads, device=recipe.device)
    saved = training.read_saved(weights, embedding, standardize)
    taker = training.taker_of_ids(saved, embedding)
    words = saved.words("ids") if saved else ()
    exact = standardize or (saved is not None and saved.standardizes)
    of_values = saved is not None and saved.of_values
    examples = reading.read_examples(
        source, labels, level, taker, words, exact=exact, of_values=of_values
    )
    of_values = examples.labelled.of_values
    if saved:
        examples = reading.numbered_as(examples, saved.words("classes"), saved.path)
    sets = {"training": examples}
    for name, file in others.items():
        if file is not None:
            reference = parse_reference(file)
            one = reading.read_examples(
                reference, labels, level, taker, examples.words, exact=exact, of_values=of_values
            )
            sets[name] = reading.numbered_as(one, examples.names, examples.label)
            reading.check_test(examples, sets[name])
    shape |= {"embedding": embedding, "standardize": standardize}
    model = training.starting_model(saved, examples, seed=seed, **shape)
    for one in sets.values():
        if model.embedding is not None:
            one.check_ids(len(model.embedding))
    labelled = {name: one.labelled for name, one in sets.items()}
    as_values = saved is None and taker is None and not standardize
    if as_values and examples.whole:
        output.note(
            f"{examples.label}: {examples.name}: whole numbers are taken as values; --embedding D "
            "takes them as ids"
        )
    elif as_values:
        training.note_on_scales(examples)
    training.note_on_labels(examples, model.classes, new=saved is None)
    remedy = "use --precision float32"
    context.with_resource(rounding_to(precision, model.weight.dtype, remedy))
    about = {"classes": list(examples.names)}
    if examples.words:
        about["ids"] = list(examples.words)
    last, best, save_state = None, None, None
    if state is not None:
        validated = labelled.get("validation")
        run = saved_state.run_of(model, examples.labelled, validated, about, recipe, precision)
        last, best = saved_state.read_state(state, model, run, epochs) or (None, None)
        save_state = functools.partial(saved_state.write_state, state, run=run)
    before = last.number if last else 0
    if last:
        output.note(f"{state}: continuing after epoch {before} of {epochs}")
    keeper = training.Keeper(out, about, force, save_state, last, best)
    unicode = output.shows_unicode(sys.stderr)
    stopped = keeper.stalled(patience)
    with training.saving(keeper), progress_line() as show:
        display = training.Display(show, epochs, unicode, before, of_values=of_values)
        results = train(last or model, examples.labelled, recipe, between=interrupts.check)
        count = 0 if stopped else max(0, (until or epochs) - before)
        for epoch in itertools.islice(results, count):
            scores = {
                name: evaluation(epoch.model, one)
                for name, one in labelled.items()
                if name != "training"
            }
            keeper.offer(epoch, scores.get("validation"))
            display.epoch(epoch, scores)
            stopped = keeper.stalled(patience)
            if stopped:
                break
    model = keeper.best.epoch.model if keeper.best else model
    report = training.report(keeper.best, model, recipe)
    report["stopped_after"] = keeper.last if stopped else None
    if "validation" in sets and keeper.best:
        report["validation_loss"] = keeper.best.loss
    for name in ("training", "validation", "test"):
        found = labelled.get(name)
        report[f"{name}_sequences"] = found and len(found.labels)
        report |= {f"{name}_{kind}": None for kind in ("accuracy", "rmse", "baseline_rmse")}
        if found is None:
            continue
        if of_values:
            errors = prediction_errors(model, found, threads=threads, device=recipe.device)
            report[f"{name}_rmse"] = errors.rmse.tolist()
            report[f"{name}_baseline_rmse"] = errors.baseline.tolist()
        else:
            report[f"{name}_accuracy"] = evaluation(model, found).accuracy
    if as_json:
        output.as_json(report, err=out == "-")
    elif out == "-":
        output.note(training.summary(report))
    else:
        output.text(training.summary(report))


def _check(
    out: str | None, force: bool, epochs: int, weights: str | None, state: str | None
) -> None:
    """Raise errors for contradictory options, and for an output that cannot be written."""
    if epochs and out is None:
        raise click.UsageError("give -o MODEL to save the model, or --epochs 0 to evaluate only")
    if not epochs and (weights is None or out is not None):
        raise click.UsageError("--epochs 0 evaluates a saved model: give --weights, and no -o")
    if state is not None:
        same = out is not None and os.path.realpath(state) == os.path.realpath(out)
        if not epochs or state == "-" or same:
            raise click.UsageError("--state is a file of its own, of a training with -o MODEL")
        Output(state, overwrite=True).abort()
    if out == "-" and output.is_terminal_output("-"):
        raise click.UsageError(
            "a model is binary and cannot be printed to a terminal; give -o MODEL"
        )
    if out not in (None, "-"):
        _check_name(str(out))
        # Creates the partial file, and removes it again.
        Output(str(out), overwrite=force).abort()


def _check_name(out: str) -> None:
    """Raise UsageError for an extension of other weights, of another format or of compression."""
    from lodcli.formats.core import registry
    from lodcli.formats.storage.compression import suffix_codec
    from lodcli.formats.weights import known_kind

    kind = known_kind(out)
    named = kind or registry.of_name(out) or suffix_codec(out)
    if named is None or kind == "safetensors":
        return
    remedy = "name it MODEL.safetensors"
    if kind is not None:
        remedy += f", then lod weights MODEL.safetensors -o {out} converts its RNN to {kind}"
    raise click.UsageError(f"{out}: a model is written as safetensors; {remedy}")
