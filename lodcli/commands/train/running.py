"""Runs `lod train` from its options: reads the sets, trains, and evaluates the best model."""

from __future__ import annotations

import functools
import itertools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lodcli.commands.train import saved_state
from lodcli.commands.train.keeping import Best, Keeper, saving
from lodcli.commands.train.notes import note_on_labels, note_on_rows
from lodcli.commands.train.reading import Examples, check_test, numbered_as, read_examples
from lodcli.commands.train.showing import Display, report_of, summary
from lodcli.commands.train.starting import Saved, read_saved, starting_model, taker_of_ids
from lodcli.formats.storage import interrupts
from lodcli.kernels.rnn.training.classifier import Classifier
from lodcli.kernels.rnn.training.train import Labelled, Recipe, evaluate, prediction_errors, train
from lodcli.shell import output
from lodcli.shell.device import computing_on, rounding_to
from lodcli.shell.progress import progress_line
from lodcli.shell.references import Reference, parse_reference

if TYPE_CHECKING:
    from lodcli.commands.train.given import TrainOptions


def run(source: Reference, given: TrainOptions) -> None:
    """Train, or only evaluate, as the options specify, which are already checked."""
    context = click.get_current_context()
    device = context.with_resource(computing_on(given["device"], given["precision"]))
    recipe = Recipe(
        epochs=given["epochs"],
        batch=given["batch"],
        rate=given["lr"],
        dropout=given["dropout"],
        clip=given["clip"],
        seed=given["seed"],
        threads=given["threads"],
        device=device,
    )
    saved = read_saved(given["weights"], given["embedding"], given["standardize"])
    taker = taker_of_ids(saved, given["embedding"])
    sets = _read_sets(source, saved, taker, given)
    examples = sets["training"]
    model = starting_model(saved, examples, given)
    for one in sets.values():
        if model.embedding is not None:
            one.check_ids(len(model.embedding))
    if saved is None and taker is None and not given["standardize"]:
        note_on_rows(examples)
    note_on_labels(examples, model.classes, new=saved is None)
    remedy = "use --precision float32"
    context.with_resource(rounding_to(given["precision"], model.weight.dtype, remedy))
    labelled = {name: one.labelled for name, one in sets.items()}
    about = {"classes": list(examples.names)}
    if examples.words:
        about["ids"] = list(examples.words)
    best, stopped_after = _trained(model, labelled, about, recipe, given)
    model = best.epoch.model if best else model
    report = report_of(best, model, recipe)
    report["stopped_after"] = stopped_after
    if "validation" in sets and best:
        report["validation_loss"] = best.loss
    report |= _evaluated(model, labelled, recipe)
    out = given["out"]
    if given["as_json"]:
        output.as_json(report, err=out == "-")
    elif out == "-":
        output.note(summary(report))
    else:
        output.text(summary(report))


def _read_sets(
    source: Reference, saved: Saved | None, taker: str | None, given: TrainOptions
) -> dict[str, Examples]:
    """Return the training set, and the validation and test sets that are given, by their names."""
    read = functools.partial(
        read_examples,
        labels=given["labels"],
        level=given["level"],
        taker=taker,
        exact=given["standardize"] or (saved is not None and saved.standardizes),
    )
    words, of_values = (saved.words("ids"), saved.of_values) if saved else ((), False)
    examples = read(source, words=words, of_values=of_values)
    of_values = examples.labelled.of_values
    if saved:
        examples = numbered_as(examples, saved.words("classes"), saved.path)
    sets = {"training": examples}
    for name, path in (("validation", given["validation"]), ("test", given["test"])):
        if path is not None:
            reference = parse_reference(path)
            if reference.name is None and source.name is not None:
                # Not the only tensor of the file: it may be another, of rows of the same width.
                reference = replace(reference, name=examples.name)
            one = read(
                reference,
                words=examples.words,
                of_values=of_values,
                like=examples.name,
            )
            sets[name] = numbered_as(one, examples.names, examples.label)
            check_test(examples, sets[name])
    return sets


def _trained(
    model: Classifier,
    sets: dict[str, Labelled],
    about: dict[str, list[str]],
    recipe: Recipe,
    given: TrainOptions,
) -> tuple[Best | None, int | None]:
    """Train, and write the best model.

    Args:
        model: the initial one.
        about: the names of the classes and the ids, for the file.

    Returns:
        The best epoch, None if there is none; and the last one if --patience ended the training.
    """
    state, epochs, patience, examples = (
        given["state"],
        recipe.epochs,
        given["patience"],
        sets["training"],
    )
    last, best, save_state = None, None, None
    if state is not None:
        validation = sets.get("validation")
        same = saved_state.run_of(model, examples, validation, about, recipe, given["precision"])
        last, best = saved_state.read_state(state, model, same, epochs) or (None, None)
        save_state = functools.partial(saved_state.write_state, state, run=same)
    before = last.number if last else 0
    if last:
        output.note(f"{state}: continuing after epoch {before} of {epochs}")
    keeper = Keeper(given["out"], about, given["force"], save_state, last, best)
    stopped = keeper.stalled(patience)
    evaluation = functools.partial(evaluate, threads=recipe.threads, device=recipe.device)
    with saving(keeper), progress_line() as show:
        unicode, of_values = output.shows_unicode(sys.stderr), examples.of_values
        display = Display(show, epochs, unicode, before, of_values=of_values)
        results = train(last or model, examples, recipe, between=interrupts.check)
        count = 0 if stopped else max(0, (given["until"] or epochs) - before)
        for epoch in itertools.islice(results, count):
            scores = {
                name: evaluation(epoch.model, one)
                for name, one in sets.items()
                if name != "training"
            }
            keeper.offer(epoch, scores.get("validation"))
            display.epoch(epoch, scores)
            stopped = keeper.stalled(patience)
            if stopped:
                break
    return keeper.best, keeper.last if stopped else None


def _evaluated(model: Classifier, sets: dict[str, Labelled], recipe: Recipe) -> dict[str, Any]:
    """Return the accuracies or errors of a model on the sets, for the report."""
    found: dict[str, Any] = {}
    how: dict[str, Any] = {"threads": recipe.threads, "device": recipe.device}
    for name in ("training", "validation", "test"):
        one = sets.get(name)
        found[f"{name}_sequences"] = one and len(one.labels)
        found |= {f"{name}_{kind}": None for kind in ("accuracy", "rmse", "baseline_rmse")}
        if one is None:
            continue
        if one.of_values:
            errors = prediction_errors(model, one, **how)
            found[f"{name}_rmse"] = errors.rmse.tolist()
            found[f"{name}_baseline_rmse"] = errors.baseline.tolist()
        else:
            found[f"{name}_accuracy"] = evaluate(model, one, **how).accuracy
    return found
