"""RNN weights by the names of torch's state dict.

    weight_ih_l0  weight_hh_l0  bias_ih_l0  bias_hh_l0      layer 0
    weight_ih_l0_reverse  ..                                its backward direction
    weight_hr_l0                                            LSTM projection
    peepholes_l0                                            not in torch: (3, H), i f o
    weight_ih  weight_hh  bias_ih  bias_hh                  read only: torch's LSTMCell, GRUCell, ..
    to_hidden_and_gate.weight                               other cells: the names of a published
    to_hidden_and_gate.weight_l1_reverse                    implementation, in stacks with suffix

Layers, directions, sizes and, as far as possible, the cell are inferred from the shapes. A
StateDict also holds the options that are not arrays (activations, Paddle's origin_mode); for a
plain dict, set them with RNNWeights.with_options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from lodcli.kernels.errors import (
    InvalidDataError,
    OptionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.registry import CELLS, weights_class
from lodcli.kernels.rnn.cells.weights import LayerWeights
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.tensor.exchange.rows import rows_of

_DIRECTIONS = ("", "_reverse")
# The names of torch's cells of a single layer.
_OF_CELLS = tuple(CellWeights.names())
# Paddle's layers list their arrays a second time, by the cells in them: 0.cell_fw.weight_ih.
_PADDLE_CELL = re.compile(r"(?P<layers>(?:.*\.)?)\d+\.cell(?:_fw|_bw)?\.(?:weight|bias)_[ih]h")


class _Entry(NamedTuple):
    """The parts of the name of an array in a state dict."""

    prefix: str
    name: str
    layer: int
    direction: int


@cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern of the names of all cells' weights."""
    kinds = [weights_class(kind) for kind in CELLS]
    names = sorted({name for kind in kinds for name in (*kind.names(), *kind.ALIASES)})
    return re.compile(
        r"(?P<prefix>(?:.*\.)?)"
        rf"(?P<name>{'|'.join(map(re.escape, names))})"
        r"(?:_l(?P<layer>0|[1-9][0-9]*)(?P<reverse>_reverse)?)?"
    )


def _parsed(name: str) -> _Entry | None:
    """Return the parts of a name; None if it is not the name of a weight of a cell."""
    match = _pattern().fullmatch(name)
    if not match:
        return None
    if match["layer"] is None and match["name"] in _suffixed() - {*_OF_CELLS}:
        return None
    array = _aliases().get(match["name"], match["name"])
    return _Entry(match["prefix"], array, int(match["layer"] or 0), int(bool(match["reverse"])))


def is_weight_name(name: str) -> bool:
    """Return whether an array of this name in a state dict is a weight of a cell."""
    return _parsed(name) is not None


def _parametrized(name: str) -> bool:
    """Return whether a name is a part of a weight under torch's weight norm, pruning, .."""
    match = re.fullmatch(r"parametrizations\.(\w+)\..*|(\w+)_(?:g|v|orig|mask)", name)
    return match is not None and is_weight_name(match[1] or match[2])


@cache
def _suffixed() -> frozenset[str]:
    """Return the names that always have a layer."""
    kinds = [weights_class(kind) for kind in CELLS]
    return frozenset(name for kind in kinds if kind.SUFFIXED for name in kind.names())


@cache
def _aliases() -> dict[str, str]:
    """Return the names of arrays by other names that files have for them."""
    return {alias: name for kind in CELLS for alias, name in weights_class(kind).ALIASES.items()}


@cache
def _telling() -> frozenset[str]:
    """Return the names that identify an RNN; others, such as "D", are too common."""
    kinds = [weights_class(kind) for kind in CELLS]
    return _suffixed() | {kind.name_of(kind.STATE_WEIGHT) for kind in kinds}


class StateDict(dict[str, Array]):
    """Arrays by torch's names, with the cells and options that arrays cannot express.

    Attributes:
        said: by the prefix of each RNN, with its dot: its "cell", and those of its options that
            differ from the defaults: {"": {"cell": "gru_paddle", "origin_mode": True}}.
        untold: options that this kind of file cannot store.
        refused: by the prefix of each unsupported RNN: why it is not supported.
        starts_from: by the prefix of each RNN whose initial states another part of its model
            computes: the name of that part.
        metadata: further texts in the file, by name.
    """

    @types_explained
    def __init__(
        self,
        arrays: Mapping[str, Array] | None = None,
        said: Mapping[str, Mapping[str, str | bool]] | None = None,
        untold: Iterable[str] = (),
        refused: Mapping[str, str] | None = None,
        starts_from: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(arrays or {})
        self.metadata = dict(metadata or {})
        self.refused = dict(refused or {})
        self.starts_from = dict(starts_from or {})
        self.untold = frozenset(untold)
        self.said = {prefix: dict(options) for prefix, options in (said or {}).items()}


@types_explained
def state_dict(weights: RNNWeights) -> StateDict:
    """Return the weights by torch's names; the arrays are shared, not copied.

    Raises:
        InvalidDataError: a layer has no weight_ih (its data are projected already),
            which torch's names cannot express.
    """
    said = {"cell": weights.cell, **unusual_options(weights)}
    return StateDict(named_arrays(weights), {"": said})


def named_arrays(weights: RNNWeights, prefix: str = "") -> dict[str, Array]:
    """Return the arrays of `state_dict`, whose names begin with a prefix.

    Raises:
        InvalidDataError: see `state_dict`.
    """
    entries = {}
    for suffixes, layer in zip(weights.suffixes(), weights.layers, strict=True):
        for suffix, direction in zip(suffixes, layer, strict=True):
            if direction.takes_projected:
                raise InvalidDataError(
                    f"{direction.INPUT_WEIGHT}{suffix}: a state dict needs it, but these weights "
                    "take data that are projected already"
                )
            for name, array in direction.named().items():
                entries[f"{prefix}{name}{suffix}"] = array
    return entries


def unusual_options(weights: RNNWeights) -> dict[str, str | bool]:
    """Return the options of the cells that differ from their defaults.

    Raises:
        InvalidDataError: layers or directions whose options differ.
    """
    found = [
        {
            name: getattr(cell, name)
            for name, default in cell.option_defaults().items()
            if getattr(cell, name) != default
        }
        for layer in weights.layers
        for cell in layer
    ]
    for options in found:
        if options != found[0]:
            raise InvalidDataError(
                f"weights: expected the same options in all layers, found {found[0]} and {options}"
            )
    return found[0]


@types_explained
def weights_from_state_dict(
    entries: Mapping[str, Array],
    cell: str | None = None,
    *,
    prefix: str | None = None,
    options: Mapping[str, str | bool] | None = None,
) -> RNNWeights:
    """Return the RNN found in a state dict.

    Args:
        entries: arrays or tensors of torch by name. The one prefix that RNN weights have ("rnn.",
            "encoder.lstm.") is stripped, and entries without it are ignored.
        cell: one of CELLS; None: that of a StateDict, else inferred from names and shapes, where
            a GRU is taken for torch's.
        prefix: which RNN, if there are several; "" is the one without a prefix. Several RNNs,
            separated by commas, are the layers of one.
        options: of the cells, if `entries` do not hold them: see RNNWeights.with_options.

    Raises:
        InvalidDataError: no RNN, several, a gap in its layers or directions, or an unknown
            entry among the weights, which would change the results.
        OptionError: a cell or an option that disagrees with `entries`.
        ShapeMismatchError: shapes that do not fit each other or the cell.
        UnsupportedError: no such cell or option; a StateDict whose file has an RNN that is not
            supported.

    >>> import numpy as np
    >>> names = {"rnn.weight_ih_l0": (8, 3), "rnn.weight_hh_l0": (8, 2), "out.weight": (1, 2)}
    >>> weights = weights_from_state_dict({n: np.zeros(s) for n, s in names.items()})
    >>> weights.cell, weights.input_size, weights.hidden_size
    ('lstm', 3, 2)
    """
    if prefix is not None and "," in prefix:
        parts = [
            weights_from_state_dict(entries, cell, prefix=part, options=options)
            for part in prefix.split(",")
        ]
        return RNNWeights(tuple(layer for part in parts for layer in part.layers))
    picked = _pick_prefix(entries, prefix)
    if picked in _refused(entries):
        raise UnsupportedError(_refused(entries)[picked])
    found = _entries_under(entries, picked, strict=prefix is None)
    said = dict(entries.said.get(picked, {})) if isinstance(entries, StateDict) else {}
    told = said.pop("cell", None)
    untold = entries.untold if isinstance(entries, StateDict) else ()
    if cell is not None and told is not None and cell != told:
        raise OptionError(f"state dict: it names the cell {told}, not {cell}")
    layers, directions = _extent(found)
    named = str(told) if cell is None and told is not None else cell
    likely = _likely_kind(found, named)
    alone = layers == directions == 1 and not likely.SUFFIXED

    def suffix(layer: int, direction: int) -> str:
        return "" if alone else f"_l{layer}{_DIRECTIONS[direction]}"

    for layer in range(layers):
        for name in likely.required():
            for direction in range(directions):
                if name not in found.get((layer, direction), {}):
                    missing = f"{picked}{name}{suffix(layer, direction)}"
                    raise InvalidDataError(f"state dict: {missing} is missing")
    kind = _gated_kind(found[0, 0], named) if issubclass(likely, CellWeights) else likely
    weights = RNNWeights(
        tuple(
            tuple(_direction(kind, found[layer, d], suffix(layer, d)) for d in range(directions))
            for layer in range(layers)
        )
    )
    weights = weights.with_options(**said) if said else weights
    changed = weights.with_options(**options) if options else weights
    for name in options or ():
        here, there = (getattr(one.layers[0][0], name) for one in (weights, changed))
        # A file that stores the cell also stores all options that differ from the defaults, except
        # for `untold` ones, which it cannot store.
        if told is not None and here != there and name not in untold:
            raise OptionError(f"state dict: it stores {name}={here}, not {there}")
    return changed


def require_shape(
    weights: RNNWeights,
    *,
    hidden: int | None = None,
    layers: int | None = None,
    bidirectional: bool = False,
) -> None:
    """Raise OptionError if weights have another shape; None and False take any."""
    for what, wanted, found in (
        ("hidden size", hidden, weights.hidden_size),
        ("number of layers", layers, len(weights.layers)),
        ("number of directions", 2 if bidirectional else None, weights.directions),
    ):
        if wanted not in (None, found):
            raise OptionError(f"state dict: expected a {what} of {wanted}, found {found}")


def rnn_prefixes(entries: Mapping[str, Array]) -> list[str]:
    """Return the prefixes, with their dots, under which there are RNN weights; sorted."""
    parsed = (_parsed(name) for name in entries if not _is_repeated(name, entries))
    found = {entry.prefix for entry in parsed if entry and entry.name in _telling()}
    return sorted(found | _refused(entries).keys())


def beside_rnns(entries: Mapping[str, Array], name: str) -> str | None:
    """Return the full name of an array of the module that has the RNNs of a state dict, or None.

    "embedding.weight" is "model.embedding.weight" beside "model.rnn.weight_ih_l0".
    """
    parents = {prefix.removesuffix(".").rpartition(".")[:2] for prefix in rnn_prefixes(entries)}
    full = "".join(parents.pop() if len(parents) == 1 else ()) + name
    return full if full in entries else None


def _refused(entries: Mapping[str, Array]) -> dict[str, str]:
    return entries.refused if isinstance(entries, StateDict) else {}


def _is_repeated(name: str, entries: Mapping[str, Array]) -> bool:
    """Return whether this is an array of a cell in a layer of Paddle, which is listed as well."""
    match = _PADDLE_CELL.fullmatch(name)
    return match is not None and f"{match['layers']}weight_ih_l0" in entries


def _pick_prefix(entries: Mapping[str, Array], wanted: str | None) -> str:
    """Return the prefix to strip, with its dot."""
    prefixes = rnn_prefixes(entries)
    listed = ", ".join(repr(prefix.removesuffix(".")) for prefix in prefixes)
    if wanted is not None:
        dotted = wanted if not wanted or wanted.endswith(".") else wanted + "."
        if dotted not in prefixes:
            raise InvalidDataError(
                f"state dict: no RNN weights under prefix {wanted!r}; there are "
                f"some under: {listed or 'none'}"
            )
        return dotted
    if not prefixes:
        raise InvalidDataError(
            "state dict: no RNN weights; expected names such as weight_ih_l0, "
            f"found {', '.join(list(entries)[:4]) or 'no entries'}"
        )
    if len(prefixes) > 1:
        raise InvalidDataError(
            f"state dict: {len(prefixes)} RNNs, under {listed}; write one to a file with `lod "
            "weights FILE --prefix NAME -o ONE.safetensors` (A,B takes A and B as layers of one); "
            "in Python, pass prefix"
        )
    return prefixes[0]


def _entries_under(
    entries: Mapping[str, Array], prefix: str, *, strict: bool
) -> dict[tuple[int, int], dict[str, Array]]:
    """Return the arrays by name, by (layer, direction).

    An unknown name next to the weights ("rnn.weight_xx_l0") is an error: a module with such an
    array computes something else. Entries of other modules are ignored, unless neither a prefix
    nor the caller separates them from this one. Torch's LSTMCell, GRUCell and RNNCell hold no
    other modules: a cell that does, such as a norm of its gates, is another cell.
    """
    found: dict[tuple[int, int], dict[str, Array]] = {}
    of_cell = prefix != "" and f"{prefix}weight_hh" in entries
    for name, array in entries.items():
        if not name.startswith(prefix) or _is_repeated(name, entries):
            continue
        entry = _parsed(name.removeprefix(prefix))
        if entry and not entry.prefix:
            here = found.setdefault((entry.layer, entry.direction), {})
            if entry.name in here:
                raise InvalidDataError(
                    f"state dict: {prefix}{entry.name} appears twice, with _l0 and without"
                )
            if not hasattr(array, "ndim"):
                raise InvalidDataError(
                    f"state dict: {name}: expected an array, found {type(array).__name__}"
                )
            here[entry.name] = rows = rows_of(array)
            if rows.dtype.kind == "c":  # not a NotDefinedError: as a rule the array is of a file
                raise InvalidDataError(
                    f"state dict: {name}: expected real numbers, found {rows.dtype}"
                )
        elif of_cell:
            raise InvalidDataError(
                f"state dict: {name} is in the same module as {prefix}weight_hh; expected only the "
                f"weights of torch's LSTMCell, GRUCell or RNNCell: {', '.join(_OF_CELLS)}"
            )
        elif _parametrized(name.removeprefix(prefix)):
            raise InvalidDataError(
                f"state dict: {name} is a part of a weight, as of weight norm or pruning; remove "
                "the parametrization from the module before you save its state dict "
                "(torch.nn.utils.parametrize.remove_parametrizations, remove_weight_norm, "
                "prune.remove)"
            )
        elif "." not in name.removeprefix(prefix):
            raise InvalidDataError(f"state dict: {name} is not a weight of an RNN known here")
        elif strict and not prefix:
            raise InvalidDataError(
                f'state dict: {name} is not a weight of an RNN; give the prefix "" to leave the '
                "entries of other modules out, or write the RNN to a separate file with "
                "`lod weights --prefix ''`"
            )
    return found


def _extent(found: dict[tuple[int, int], dict[str, Array]]) -> tuple[int, int]:
    """Return the number of layers and of directions."""
    return 1 + max(layer for layer, _ in found), 1 + max(direction for _, direction in found)


def _likely_kind(
    found: dict[tuple[int, int], dict[str, Array]], wanted: str | None
) -> type[LayerWeights]:
    """Return the weights class that has most of the names; if several do, the first in CELLS."""
    if wanted is not None:
        return weights_class(wanted)
    names = {name for arrays in found.values() for name in arrays}
    return max(map(weights_class, CELLS), key=lambda one: len(names & set(one.names())))


def _gated_kind(first: dict[str, Array], wanted: str | None) -> type[CellWeights]:
    """Return the weights class that matches the number of gates of the first layer."""
    weight_hh, weight_hr = first["weight_hh"], first.get("weight_hr")
    if weight_hh.ndim != 2 or (weight_hr is not None and weight_hr.ndim != 2):
        raise ShapeMismatchError(
            f"weight_hh_l0, weight_hr_l0: expected 2 dimensions, found shape {weight_hh.shape}"
            + ("" if weight_hr is None else f" and {weight_hr.shape}")
        )
    rows = weight_hh.shape[0]
    hidden = weight_hh.shape[1] if weight_hr is None else weight_hr.shape[1]
    every = [one for one in map(weights_class, CELLS) if issubclass(one, CellWeights)]
    classes = [one for one in every if wanted in (None, one.KIND)]
    fitting = [one for one in classes if hidden and rows == one.GATES * hidden]
    if not fitting:
        gates = ", ".join(f"{one.GATES * hidden} ({one.KIND})" for one in classes)
        raise ShapeMismatchError(
            f"weight_hh_l0: expected rows for a hidden size of {hidden}: {gates}; found {rows}"
        )
    return fitting[0]


def _direction(kind: type[LayerWeights], arrays: dict[str, Array], suffix: str) -> LayerWeights:
    """Return the weights of a layer in a direction; `suffix` is added to names in messages."""
    names = kind.names()
    # A name with a dot belongs to another module, such as "to_out.weight" next to an LSTM.
    unknown = {name for name in set(arrays) - set(names) if "." not in name}
    if unknown:
        raise InvalidDataError(
            f"state dict: a cell of kind {kind.KIND} has no {', '.join(sorted(unknown))}"
        )
    fields: dict[str, Any] = {names[name]: array for name, array in arrays.items() if name in names}
    made = kind(**fields)
    made.check_ranks(suffix)
    return made
