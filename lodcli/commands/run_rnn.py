"""`lod run-rnn`: an RNN over every sequence of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click
import numpy as np

from lodcli import options
from lodcli.formats.schema import DEFAULT_NAME, Batch, Schema, TensorSpec
from lodcli.formats.weights import read_weights
from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.rnn.run import RNNOutput, run_rnn
from lodcli.kernels.rnn.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.state_dict import weights_from_state_dict
from lodcli.kernels.tensor import LoDTensor
from lodcli.references import Reference, parse_reference
from lodcli.targets import Target

CELLS = ("lstm", "gru", "gru_paddle", "elman")


@click.command(cls=options.Command)
@options.source
@options.target
@click.option("--cell", type=click.Choice(CELLS), help="The cell; --weights may tell it, too.")
@click.option("--hidden", type=click.IntRange(min=1), metavar="H", help="Hidden size, for --seed.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Random weights from N.")
@click.option(
    "--weights",
    "weights_path",
    type=click.Path(),
    metavar="FILE",
    help="Trained weights: safetensors, by torch's names.",
)
@click.option(
    "--emit",
    type=click.Choice(("all", "last", "both")),
    default="all",
    help="The state at every row (default), after each sequence's last one, or both.",
)
@options.level
@click.option("--reverse", is_flag=True, help="From the last row of a sequence to the first.")
@click.option(
    "--layers", type=click.IntRange(min=1), metavar="L", help="How many layers, for --seed."
)
@click.option("--bidirectional", is_flag=True, help="Both directions side by side, for --seed.")
@click.option(
    "--nonlinearity",
    type=click.Choice(("tanh", "relu", "sigmoid", "identity")),
    help="Of an elman cell; tanh if not given.",
)
@click.option(
    "--h0",
    type=options.SOURCE,
    metavar="FILE",
    help="Initial hidden states, a row a sequence: (H), or (layers x directions, H).",
)
@click.option("--c0", type=options.SOURCE, metavar="FILE", help="Initial cell states of an lstm.")
@click.option(
    "--dtype", type=click.Choice(("float32", "float64")), help="Compute in this; else as SOURCE."
)
def command(
    source: Reference,
    target: Target,
    cell: str | None,
    hidden: int | None,
    seed: int | None,
    weights_path: str | None,
    emit: str,
    level: int | str | None,
    reverse: bool,
    layers: int | None,
    bidirectional: bool,
    nonlinearity: str | None,
    h0: str | None,
    c0: str | None,
    dtype: str | None,
) -> None:
    """Run an RNN over the sequences of a level (the finest if none is given).

    A row of any shape is one step. --emit both writes the tensors "all" and "last".

    \b
    Examples:
      lod run-rnn vowels.lod.h5 -o out.lod.h5 --cell lstm --hidden 64 --seed 1
      lod run-rnn vowels.lod.h5 --weights model.safetensors --emit last -o last.lod.h5
      lod run-rnn vowels.lod.h5 --cell gru --hidden 8 --seed 2 --emit both | lod inspect -
    """
    _check_choice(cell, hidden, seed, weights_path, layers, bidirectional)
    states = _initial(h0), _initial(c0)
    with source.open() as opened:
        spec = opened.tensor()
        if weights_path is not None:
            weights = weights_from_state_dict(read_weights(weights_path), cell)
        else:
            assert cell is not None
            assert hidden is not None
            weights = seeded_weights(
                cell,
                int(np.prod(spec.row_shape, dtype=np.int64)),
                hidden,
                layers=layers or 1,
                bidirectional=bidirectional,
                rng=np.random.default_rng(seed),
            )
        if nonlinearity is not None:
            weights = weights.with_options(nonlinearity=nonlinearity)
        runner = _Runner(weights, -1 if level is None else level, reverse, dtype, *states)
        kinds = ("all", "last") if emit == "both" else (emit,)
        target.write(
            runner.schema(spec, kinds),
            (_batch(result, kinds) for result in runner.run(opened.tensors())),
        )


def _check_choice(
    cell: str | None,
    hidden: int | None,
    seed: int | None,
    weights_path: str | None,
    layers: int | None,
    bidirectional: bool,
) -> None:
    """Refuse options that contradict each other or leave something open."""
    if (seed is None) == (weights_path is None):
        raise click.UsageError("give either --seed N, for random weights, or --weights FILE")
    if seed is not None and (cell is None or hidden is None):
        raise click.UsageError("--seed needs --cell and --hidden")
    if weights_path is not None and (hidden or layers or bidirectional):
        raise click.UsageError("--hidden, --layers and --bidirectional are told by --weights")


def _initial(text: str | None) -> LoDTensor | None:
    """Read initial states."""
    if text is None:
        return None
    with parse_reference(text).open() as opened:
        return opened.read_tensor()[1]


class _Runner:
    """One RNN over batches, one after another: none knows of another but by place."""

    def __init__(
        self,
        weights: RNNWeights,
        level: int | str,
        reverse: bool,
        dtype: str | None,
        hidden: LoDTensor | None,
        cell: LoDTensor | None,
    ) -> None:
        self.weights = weights
        self.level = level
        self.reverse = reverse
        self.dtype = dtype
        self.hidden = hidden
        self.cell = cell

    def schema(self, spec: TensorSpec, kinds: tuple[str, ...]) -> Schema:
        """Return what will come out, found by a run over nothing."""
        empty = spec.empty()
        result = self._one(empty, 0)
        number = empty.lod.level(self.level)
        counts = {"all": spec.rows, "last": spec.levels[number].items}
        levels = {"all": spec.levels, "last": spec.levels[:number]}
        return tuple(
            TensorSpec(
                name,
                tensor.dtype,
                tensor.row_shape,
                levels[kind],
                counts[kind],
            )
            for kind, (name, tensor) in zip(kinds, _batch(result, kinds).items(), strict=True)
            if isinstance(tensor, LoDTensor)
        )

    def run(self, tensors: Iterable[LoDTensor]) -> Iterator[RNNOutput]:
        """Yield the outcome of every batch."""
        done = 0
        for tensor in tensors:
            yield self._one(tensor, done)
            done += tensor.lod.count(self.level)
        for name, states in (("--h0", self.hidden), ("--c0", self.cell)):
            if states is not None and states.rows != done:
                raise ShapeMismatchError(
                    f"{name} has {states.rows} rows, expected one a sequence, {done}"
                )

    def _one(self, tensor: LoDTensor, first: int) -> RNNOutput:
        if self.dtype is not None:
            tensor = tensor.with_data(tensor.data.astype(self.dtype, copy=False))
        count = tensor.lod.count(self.level) if tensor.lod.n_levels else 0
        return run_rnn(
            tensor,
            self.weights,
            level=self.level,
            reverse=self.reverse,
            initial_hidden=_part(self.hidden, "--h0", first, count),
            initial_cell=_part(self.cell, "--c0", first, count),
        )


def _part(
    states: LoDTensor | None, name: str, first: int, count: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    """Return the initial states of some sequences, as run_rnn takes them."""
    if states is None:
        return None
    if first + count > states.rows:
        raise ShapeMismatchError(
            f"{name} has {states.rows} rows, expected one a sequence, at least {first + count}"
        )
    part = states.data[first : first + count]
    return part.swapaxes(0, 1) if part.ndim == 3 else part


def _batch(result: RNNOutput, kinds: tuple[str, ...]) -> Batch:
    tensors = {"all": result.all, "last": result.last}
    return {kind if len(kinds) > 1 else DEFAULT_NAME: tensors[kind] for kind in kinds}
