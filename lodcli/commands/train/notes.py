"""Notes of `lod train` on data that may be meant otherwise."""

from __future__ import annotations

import numpy as np

from lodcli.commands.train.labels import cast_to_predict
from lodcli.commands.train.reading import Examples
from lodcli.kernels.errors import InvalidDataError
from lodcli.shell.output import note

# An RNN learns little from values beyond these: the states of its first steps are saturated, or
# differences between them vanish.
FAR_FROM_ZERO = 30
HARDLY_DIFFERENT = 0.01


def note_on_rows(examples: Examples) -> None:
    """Print a note if rows may be ids, and if values are far from 0, or hardly differ."""
    if examples.whole:
        note(
            f"{examples.label}: {examples.name}: whole numbers are taken as values; --embedding D "
            "takes them as ids"
        )
        return
    try:
        found = examples.standardization()
    except InvalidDataError:  # too large for their squares; the training ends with an error
        return
    far = np.hypot(found.mean, found.std) > FAR_FROM_ZERO
    far |= found.std < HARDLY_DIFFERENT
    if not far.any():
        return
    place = int(np.argmax(far))
    which = f"value {place} of a row has" if far.size > 1 else "its values have"
    note(
        f"{examples.label}: {examples.name}: {which} mean {found.mean[place]:.3g} and standard "
        f"deviation {found.std[place]:.3g}; --standardize makes them 0 and 1"
    )


def note_on_labels(examples: Examples, classes: int, *, new: bool) -> None:
    """Print a note if the labels may have another meaning.

    Args:
        classes: of the model.
        new: whether the labels determine what the model predicts, classes or values.
    """
    name, labelled = f"{examples.label}: {examples.label_name}", examples.labelled
    if labelled.of_values:
        # Rows of several numbers cannot be classes.
        if new and labelled.classes == 1 and not (labelled.labels % 1).any():
            note(
                f"{name}: floating-point numbers are predicted as values; lod cast "
                f"{examples.label_name}=int64 makes class numbers"
            )
    elif classes == 1:
        only = repr(examples.names[0]) if examples.names else 0
        note(f"{examples.label}: all labels are {only}: one class leaves nothing to learn")
    elif new and not examples.names and classes > len(labelled.labels):
        note(
            f"{name}: whole numbers are classes, {classes} for {len(labelled.labels)} sequences; "
            f"{cast_to_predict(examples.label_name)}"
        )
