"""`lod train`: train a model that classifies sequences, or predicts numbers of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

import click

from lodcli.formats.storage.outputs import Output
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.shell import options, output
from lodcli.shell.references import Reference, parse_reference

if TYPE_CHECKING:
    from lodcli.commands.train.given import TrainOptions

_ABOVE_ZERO = options.Number(0, min_open=True, finite=True)


class _Train(options.Command):
    def writes(self, name: str) -> bool:
        return name == "safetensors"


@click.command(cls=_Train)
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
def command(source: Reference, **given: Unpack[TrainOptions]) -> None:
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

    The model is an RNN, and a linear layer on its last states or on their mean, trained with
    cross-entropy, Adam and a cosine learning-rate schedule. MODEL is a safetensors file; its arrays
    have the names of a torch module that has rnn and out. It holds the epoch with the lowest loss
    on --validation, or else on SOURCE. It is complete at any time: an interrupt leaves the best
    model so far. The same seed gives the same model.

    The sequences of a validation or test set are in FILE::NAME. Without ::NAME, they are in the
    tensor with the same name as in SOURCE, or, if SOURCE has no ::NAME either, in the only tensor
    of sequences.

    Floating-point labels, one number or one row for each sequence, are predicted. MODEL keeps the
    mean and standard deviation of the labels that it was first trained on. The loss is the mean
    squared error of labels standardized by these: about 1 for a model that always predicts the
    mean. The root mean squared errors of the first values are printed; --json has all.

    --embedding D is for ids: tokens, categories, or the bytes of text. Each id has D values, which
    are trained, too; lod run-rnn --weights MODEL looks them up. --vocabulary V sets the number of
    ids that MODEL knows.

    --standardize is for values of different scales, or far from 0. MODEL keeps the means and
    standard deviations of SOURCE, and lod run-rnn --weights MODEL applies them.

    --state FILE makes a training resumable: the same command continues after the last epoch in
    FILE, with the same result, bit for bit, as without the interruption. It needs --force, because
    MODEL exists by then. A larger --epochs trains on. --weights starts a new training from a model.

    --device cuda trains on an NVIDIA GPU (pip install 'lodcli[cuda12]'); all of SOURCE is then
    copied to the GPU.

    --precision bfloat16 rounds the inputs of the RNN's matrix products, forward and backward: on
    Intel processors with AMX for lstm, gru, elman and slstm, and on a GPU, which also supports tf32
    and float16. Weights, and everything else, stay float32.
    """
    _check(source, given)
    from lodcli.commands.train.running import run

    run(source, given)


def _check(source: Reference, given: TrainOptions) -> None:
    """Raise errors for contradictory options, and for an output that cannot be written."""
    _check_output(given)
    if given["vocabulary"] is not None and given["embedding"] is None:
        raise click.UsageError("--vocabulary is for --embedding D")
    if given["standardize"] and given["embedding"] is not None:
        raise click.UsageError("--standardize is for values, --embedding for ids: give one")
    if not given["epochs"] and (given["validation"] is not None or given["patience"] is not None):
        raise click.UsageError("--validation and --patience choose the epoch: not for --epochs 0")
    beside = (given["validation"], given["test"], given["weights"])
    others = [parse_reference(path) for path in beside if path is not None]
    options.refuse_two_pipes([source, *others])
    if given["heads"] is not None and given["weights"] is not None:
        raise click.UsageError("--weights defines the number of heads: leave --heads out")


def _check_output(given: TrainOptions) -> None:
    """Raise errors for an output that contradicts other options, or cannot be written."""
    out, epochs, state = given["out"], given["epochs"], given["state"]
    if epochs and out is None:
        raise click.UsageError("give -o MODEL to save the model, or --epochs 0 to evaluate only")
    if not epochs and (given["weights"] is None or out is not None):
        raise click.UsageError("--epochs 0 evaluates a saved model: give --weights, and no -o")
    if state is not None:
        same = out is not None and os.path.realpath(state) == os.path.realpath(out)
        if not epochs or state == "-" or same:
            raise click.UsageError("--state needs -o MODEL, and a named file other than MODEL")
        Output(state, overwrite=True).abort()
    if out == "-" and output.is_terminal_output("-"):
        raise click.UsageError(
            "a model is binary and cannot be printed to a terminal; give -o MODEL"
        )
    if out not in (None, "-"):
        _check_name(str(out))
        # Creates the partial file, and removes it again.
        Output(str(out), overwrite=given["force"]).abort()


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
