"""`lod weights`: show the RNNs of a weights file, and convert it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from lodcli.formats.core.errors import naming_os
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.shell import options, output
from lodcli.shell.printable import printable

if TYPE_CHECKING:
    from lodcli.kernels.index.checks import Array
    from lodcli.kernels.rnn.stack.stack import RNNWeights
    from lodcli.kernels.rnn.stack.state_dict import StateDict

KINDS = ("safetensors", "torch", "keras", "keras-h5", "onnx", "paddle")


@click.command(cls=options.Command)
@click.argument("source", type=options.FILE, metavar="FILE")
@click.option("-o", "--output", "out", type=options.FILE, metavar="OUT", help="Output file.")
@click.option(
    "--to",
    "kind",
    type=click.Choice(KINDS),
    metavar="KIND",
    help=f"Kind of file to write [default: by the extension of OUT]. {', '.join(KINDS)}.",
)
@click.option(
    "--cell", type=click.Choice(tuple(CELLS)), help="The cell, if the file does not store it."
)
@click.option(
    "--prefix",
    metavar="NAME",
    help="Which RNN, if there are several; A,B takes A and B as layers of one.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="OPTION=VALUE",
    help="An option that the file does not store: origin_mode=true, nonlinearity=relu, ..",
)
@click.option("-f", "--force", is_flag=True, help="Replace OUT if it exists.")
@options.as_json
@options.quiet
def command(
    source: str,
    out: str | None,
    kind: str | None,
    cell: str | None,
    prefix: str | None,
    settings: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Show the RNNs in FILE: cell, layers, sizes and arrays; or convert one to OUT.

    \b
    Examples:
      lod weights model.safetensors
      lod weights model.safetensors -o model.keras
      lod weights model.safetensors --json
      lod weights gru.lodt --set origin_mode=true -o gru.safetensors

    FILE is a safetensors or .pt file with torch's names, a .keras or HDF5 file of Keras, an ONNX
    model, or the weights of Paddle's lstm and gru ops, as consecutive streams. No code in it is
    executed. The embedding of a model that takes ids is shown, but not converted.
    """
    if out is None and (kind or force):
        raise click.UsageError("--to and --force are for -o OUT")
    if out is not None and output.is_terminal_output(out):
        raise click.UsageError(
            "weights are binary and cannot be printed to a terminal; name a file with -o OUT"
        )
    from lodcli.formats.weights import read_rnns, write_weights
    from lodcli.kernels.rnn.stack.embedding import EMBEDDING
    from lodcli.kernels.rnn.stack.state_dict import beside_rnns

    with naming_os(source):
        entries = read_rnns(source)
        found = _rnns(source, entries, cell, prefix, _settings(settings), alone=out is not None)
    if out is None:
        table = beside_rnns(entries, EMBEDDING) if prefix is None else None
        _show(source, found, None if table is None else _array(table, entries[table]), as_json)
        return
    (weights,) = found.values()
    with naming_os(out):
        write_weights(out, weights, kind=kind, overwrite=force)
    if as_json:
        report = {"file": out, "rnns": [_described("", weights)], "embedding": None}
        output.as_json(report, err=out == "-")


def _rnns(
    source: str,
    entries: StateDict,
    cell: str | None,
    prefix: str | None,
    settings: dict[str, str | bool],
    *,
    alone: bool,
) -> dict[str, RNNWeights]:
    """Return the RNNs of a file by prefix, at least one; `alone`: exactly one.

    Of several, those that are not supported are left out, with a note.
    """
    from lodcli.formats.core.errors import naming
    from lodcli.kernels.errors import LodError
    from lodcli.kernels.rnn.stack.state_dict import rnn_prefixes, weights_from_state_dict

    prefixes = rnn_prefixes(entries) if prefix is None else [prefix]
    if alone and len(prefixes) > 1:
        names = ", ".join(repr(name.removesuffix(".")) for name in prefixes)
        raise click.UsageError(
            f"{source} holds {len(prefixes)} RNNs, {names}; pick one with --prefix, or several "
            "that are the layers of one: --prefix A,B"
        )
    found, errors = {}, []
    with naming(os.fspath(source)):
        if len(prefixes) < 2 and prefix is None:
            found[""] = weights_from_state_dict(entries, cell, options=settings)
        else:
            for name in prefixes:
                try:
                    shown = "" if not name or "," in name else f"{name.removesuffix('.')}."
                    found[shown] = weights_from_state_dict(
                        entries, cell, prefix=name, options=settings
                    )
                except LodError as error:
                    errors.append((name, error))
        if not found:
            raise errors[0][1]
    for name, why in errors:
        output.note(f"{source}: {name.removesuffix('.')}: is left out: {why}")
    _note_the_rest(source, entries, prefix, alone=alone)
    return found


def _note_the_rest(source: str, entries: StateDict, prefix: str | None, *, alone: bool) -> None:
    """Print a note on content of a file beside its RNNs, and on the source of initial states."""
    from lodcli.formats.core.names import listing
    from lodcli.kernels.rnn.stack.embedding import EMBEDDING
    from lodcli.kernels.rnn.stack.state_dict import beside_rnns, is_weight_name

    table = None if alone else beside_rnns(entries, EMBEDDING)
    others = [name for name in entries if not is_weight_name(name) and name != table]
    if others and prefix is None:
        output.note(f"{source}: not part of an RNN, and left out: {listing(others)}")
    for name, layer in entries.starts_from.items():
        if prefix is None or name.removesuffix(".") in prefix.split(","):
            rnn = f"{name.removesuffix('.')}: " if name else ""
            output.note(
                f"{source}: {rnn}the model takes initial states from {layer}, which is not part of "
                "it; lod run-rnn starts from zeros, or from --h0 and --c0"
            )


def _settings(settings: tuple[str, ...]) -> dict[str, str | bool]:
    """Return the values of OPTION=VALUE; true and false become booleans."""
    found: dict[str, str | bool] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if not name or not value:
            raise click.UsageError(f"--set {setting}: expected OPTION=VALUE")
        found[name] = {"true": True, "false": False}.get(value, value)
    return found


def _described(prefix: str, weights: RNNWeights) -> dict[str, Any]:
    """Return the description of an RNN for --json."""
    from lodcli.kernels.rnn.stack.state_dict import state_dict, unusual_options

    arrays = state_dict(weights)
    return {
        "prefix": prefix,
        "cell": weights.cell,
        "options": unusual_options(weights),
        "layers": len(weights.layers),
        "directions": weights.directions,
        "input_size": weights.input_size,
        "hidden_size": weights.hidden_size,
        "output_size": weights.output_size,
        "arrays": [_array(prefix + name, array) for name, array in arrays.items()],
    }


def _array(name: str, array: Array) -> dict[str, Any]:
    return {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}


def _show(
    source: str, found: dict[str, RNNWeights], embedding: dict[str, Any] | None, as_json: bool
) -> None:
    rnns = [_described(prefix, weights) for prefix, weights in found.items()]
    if as_json:
        output.as_json({"file": source, "rnns": rnns, "embedding": embedding})
        return
    for number, rnn in enumerate(rnns):
        options_text = "".join(f", {name}={value}" for name, value in rnn["options"].items())
        output.text(
            ("\n" if number else "")
            + (f"{printable(rnn['prefix'].removesuffix('.'))}: " if rnn["prefix"] else "")
            + f"{rnn['cell']}, {output.plural(rnn['layers'], 'layer')}, "
            + f"{output.plural(rnn['directions'], 'direction')}, input {rnn['input_size']}, "
            + f"hidden {rnn['hidden_size']}, output {rnn['output_size']}{options_text}"
        )
        _show_arrays(rnn["arrays"])
    if embedding is not None:
        output.text("\nembedding")
        _show_arrays([embedding])


def _show_arrays(arrays: list[dict[str, Any]]) -> None:
    rows = [
        (array["name"], " x ".join(map(str, array["shape"])), array["dtype"]) for array in arrays
    ]
    output.text(output.table(("array", "shape", "dtype"), rows))
