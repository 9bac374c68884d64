"""Sets up `lod run-rnn` from its options: weights, initial states, output."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from lodcli.commands.run_rnn.classifying import ClassRunner, classifier_in, renamed_to
from lodcli.commands.run_rnn.gradients import NestedGradients, PlainGradients
from lodcli.commands.run_rnn.kinds import CLASSES
from lodcli.commands.run_rnn.nested_spec import parse_nested, require_seedable
from lodcli.commands.run_rnn.runners import (
    Feed,
    Lookup,
    NestedRunner,
    PlainRunner,
    Runner,
    Settings,
    StepRunner,
    fed,
)
from lodcli.commands.run_rnn.step_function import load_step
from lodcli.expressions.digits import spec_without_decimals
from lodcli.formats.core.errors import naming, naming_file
from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.weights import read_weights
from lodcli.formats.weights.model_file import about_of
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.nested.state_dict import nested_from_state_dict, seeded_nested
from lodcli.kernels.rnn.stack.chunked import Chunking
from lodcli.kernels.rnn.stack.embedding import EMBEDDING, check_table, id_of_code, require_ids
from lodcli.kernels.rnn.stack.run import arithmetic_dtype
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.stack.standardization import MEAN, Standardization, standardization_in
from lodcli.kernels.rnn.stack.state_dict import (
    StateDict,
    beside_rnns,
    require_shape,
    weights_from_state_dict,
)
from lodcli.shell import output
from lodcli.shell.device import computing_on, rounding_to
from lodcli.shell.opened import opened
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from lodcli.commands.run_rnn.given import RunOptions
    from lodcli.kernels.rnn.loops.dynamic_rnn import Step
    from lodcli.kernels.rnn.nested.state_dict import LevelShape


def run(source: Reference, target: Target, given: RunOptions) -> None:
    """Run an RNN as the options specify, which are already checked."""
    with ExitStack() as stack:
        device = stack.enter_context(computing_on(given["device"], given["precision"]))
        # Before the file is opened, which errors in these options do not concern.
        step_or_nested: Step | tuple[LevelShape, ...] | None = None
        if given["step"]:
            step_or_nested = load_step(given["step"])
        elif given["nested"]:
            step_or_nested = parse_nested(given["nested"])
            if given["path"] is None:
                require_seedable(step_or_nested, given["nested"])
        file = stack.enter_context(opened(source))
        entries, table = None, None
        if given["path"] is not None:
            with naming_file(given["path"]):
                entries = read_weights(given["path"])
            name = beside_rnns(entries, EMBEDDING)
            table = None if name is None else entries[name]
        spec = spec_without_decimals(file.tensor())
        dtype = arithmetic_dtype(given["dtype"] or (spec if table is None else table).dtype)
        stack.enter_context(rounding_to(given["precision"], dtype, "add --dtype float32"))
        h0, c0 = given["h0"], given["c0"]
        feeds = [
            stack.enter_context(fed(h0, f"--h0 {h0}")),
            stack.enter_context(fed(c0, f"--c0 {c0}")),
        ]
        kinds = ("all", "last") if given["emit"] == "both" else (given["emit"],)
        settings = Settings(kinds, given["dtype"], device, given["threads"], *feeds)
        with naming_file(source.label):
            runner = _runner(settings, spec, dtype, given, step_or_nested, entries, table, source)
        if given["upstream"] is not None:
            assert isinstance(runner, PlainGradients | NestedGradients)
            runner.upstream = _upstream(stack, given["upstream"], runner.results())
        # Errors from here on name this file alone, not the other open ones as well.
        stack.enter_context(naming_file(source.label))
        tensors = file.tensors(runner.state_bytes(spec), runner.row_bytes(spec))
        # Rows of float64 may be infinite in float32.
        stack.enter_context(np.errstate(over="ignore"))
        target.write(*runner.run(spec, tensors))
    if given["stats"] and output.is_json():
        target.add_to_report(stats=runner.work.report())
    elif given["stats"]:
        for line in runner.work.lines():
            output.note(line)


def _runner(
    settings: Settings,
    spec: TensorSpec,
    dtype: np.dtype[Any],
    given: RunOptions,
    step_or_nested: Step | tuple[LevelShape, ...] | None,
    entries: StateDict | None,
    table: Array | None,
    source: Reference,
) -> Runner:
    """Return the kind of run that the options choose.

    Args:
        step_or_nested: the step function, or the shapes of nested RNNs; None: one RNN.
        entries: those of --weights, if it is given.
        table: the embedding among them, if there is one.
    """
    width = int(np.prod(spec.row_shape, dtype=np.int64))
    level = -1 if given["level"] is None else given["level"]
    path = given["path"] or ""
    if callable(step_or_nested):
        return StepRunner(settings, step_or_nested, level=level, reverse=given["reverse"])
    if step_or_nested is not None:
        names = tuple(shape.prefix for shape in step_or_nested)
        if entries is not None:
            with naming_file(path):
                rnn = nested_from_state_dict(entries, step_or_nested)
        else:
            rnn = seeded_nested(step_or_nested, width, rng=np.random.default_rng(given["seed"]))
        rnn, input_size = rnn.frozen(dtype), rnn.input_size
        runner: Runner
        if given["grad"]:
            runner = NestedGradients(settings, rnn, names)
        else:
            runner = NestedRunner(settings, rnn, names)
    else:
        weights = _weights(width, given, entries).frozen(dtype)
        input_size = weights.input_size
        where: dict[str, Any] = {"level": level, "reverse": given["reverse"]}
        if given["grad"]:
            chunking = Chunking(given["checkpoint"], given["truncate"])
            runner = PlainGradients(settings, weights, **where, chunking=chunking)
        elif given["emit"] in CLASSES:
            assert entries is not None
            with naming_file(path):
                model, classes = classifier_in(entries, weights, given["emit"], path)
            runner = ClassRunner(settings, model, classes, **where)
        else:
            runner = PlainRunner(settings, weights, **where)
    if entries is not None:
        with naming_file(path):
            runner.standardization = _standardization(entries, input_size)
    if table is not None:
        assert entries is not None
        codes = _codes(spec, entries, table, input_size, path)
        runner.lookup = Lookup(spec.name, runner.there(table.astype(dtype, copy=False)), codes)
    elif entries is not None and width != input_size:
        raise _other_width(spec, entries, input_size, path, source)
    return runner


def _codes(
    spec: TensorSpec, entries: StateDict, table: Array, width: int, path: str
) -> Array | None:
    """Return the ids of the codes of a tensor, for an embedding of `width` values; see id_of_code.

    Raises:
        LodError: the embedding, or the tensor, does not fit.
    """
    with naming_file(path):
        check_table(table, width)
        words = tuple(about_of(entries).get("ids", ()))
    remedy = f"for other rows, lod weights {path} -o RNN.safetensors writes the RNN alone"
    with naming(spec.name):
        require_ids(spec.dtype, spec.row_shape, f"{EMBEDDING} of {path}", remedy)
        return id_of_code(words, spec.marks)


def _other_width(
    spec: TensorSpec, entries: StateDict, width: int, path: str, source: Reference
) -> ShapeMismatchError:
    """Return the error about rows of another width than that of the weights, with advice."""
    values, remedy = int(np.prod(spec.row_shape, dtype=np.int64)), ""
    found = str(values)
    if spec.dtype.kind in "iu" and not spec.row_shape:
        found = "one whole number a row"
        remedy = f"; for ids the model needs {EMBEDDING}, as lod train --embedding makes"
        remedy += renamed_to("embedding", entries, width, biased=False)
    if values == 1 and len(spec.levels) > 1:
        command = source.as_rows(spec.level_names[:-1])
        remedy += f"; if the {width} rows of each finest sequence are one: {command}"
    return ShapeMismatchError(
        f"{spec.name}: expected rows of {width} values for {path}, found {found}{remedy}"
    )


def _standardization(entries: StateDict, width: int) -> Standardization | None:
    """Return the standardization of rows of `width` values in a state dict; None if it has none."""
    found = standardization_in(entries)
    if found is None:
        return None
    if beside_rnns(entries, EMBEDDING) is not None:
        raise InvalidDataError(f"{MEAN}: expected none beside {EMBEDDING}, which takes ids")
    if len(found.mean) != width:
        raise ShapeMismatchError(f"{MEAN}: expected {(width,)}, found {found.mean.shape}")
    return found


def _weights(width: int, given: RunOptions, entries: StateDict | None) -> RNNWeights:
    cell, hidden, path = given["cell"], given["hidden"], given["path"] or ""
    shape: dict[str, Any] = {"layers": given["layers"], "bidirectional": given["bidirectional"]}
    wanted: dict[str, str | bool] = {}
    if given["nonlinearity"] is not None:
        wanted["nonlinearity"] = given["nonlinearity"]
    if given["coupled"]:
        wanted["coupled"] = True
    if entries is not None:
        with naming_file(path):
            weights = weights_from_state_dict(entries, cell, options=wanted)
            require_shape(weights, hidden=hidden, **shape)
        for layer in entries.starts_from.values() if given["h0"] is None else ():
            output.note(
                f"{path}: the model takes initial states from {layer}, which is not part of it; "
                "starting from zeros, as without --h0 and --c0"
            )
        return weights
    shape |= {"layers": given["layers"] or 1, "heads": given["heads"] or 1}
    shape |= {"rng": np.random.default_rng(given["seed"])}
    assert cell is not None
    assert hidden is not None
    weights = seeded_weights(cell, width, hidden, **shape)
    return weights.with_options(**wanted) if wanted else weights


def _upstream(stack: ExitStack, text: str, names: list[str]) -> dict[str, Feed]:
    """Open the file of upstream gradients, once for each result that has one."""
    found = {}
    for name in names:
        reference = text if len(names) == 1 else f"{text}::{name}"
        feed = stack.enter_context(fed(reference, f"--upstream {reference}"))
        assert feed is not None
        found[name] = feed
    return found
