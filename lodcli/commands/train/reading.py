"""Labelled sequences of a file, for `lod train`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lodcli.commands.train.labels import numbered, of_sequences
from lodcli.expressions.digits import without_decimals
from lodcli.formats.core.errors import naming
from lodcli.formats.core.io import one_tensor
from lodcli.formats.core.names import listing, shown
from lodcli.formats.core.schema import TensorSpec, find
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_below
from lodcli.kernels.rnn.stack.embedding import check_ids, id_of_code, ids_of, require_ids
from lodcli.kernels.rnn.stack.run import rows_as_vectors
from lodcli.kernels.rnn.stack.standardization import Standardization
from lodcli.kernels.rnn.training.train import Labelled
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import VALUES, codes_of
from lodcli.shell.opened import Opened, opened
from lodcli.shell.references import Reference


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled sequences of a file.

    Attributes:
        labelled: the sequences and their labels.
        names: of the classes; () if the file has none.
        label: the file, for messages.
        of_words: whether the labels are words, which another file may number in another order.
        name: of the sequences' tensor.
        label_name: of the labels' tensor.
        whole: whether its rows are single whole numbers.
        vocabulary: the number of ids: of the categories, 256 for text, otherwise the largest plus
            one; 0 if the data are not read as ids.
        words: of the ids; () if they have none.
    """

    labelled: Labelled
    names: tuple[str, ...]
    label: str
    of_words: bool
    name: str
    label_name: str
    whole: bool
    vocabulary: int = 0
    words: tuple[str, ...] = ()

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.names) or self.labelled.classes

    @property
    def width(self) -> int:
        """D, the values of a row."""
        return int(np.prod(self.labelled.sequences.row_shape, dtype=np.int64))

    def standardization(self) -> Standardization:
        """Return mean and standard deviation of each value of a row."""
        with naming(self.label, self.name):
            return Standardization.of(self.labelled.sequences.data)

    def targets(self) -> Standardization:
        """Return mean and standard deviation of each value of the targets."""
        with naming(self.label, "labels"):
            return Standardization.of(self.labelled.labels)

    def check_ids(self, vocabulary: int) -> None:
        """Raise InvalidDataError unless all ids are less than `vocabulary`; names the sequence."""
        sequences = self.labelled.sequences
        with naming(self.label, self.name):
            check_ids(sequences.data, vocabulary, sequences.lod.levels[0])


def read_examples(
    reference: Reference,
    *,
    labels: str,
    level: int | str | None,
    taker: str | None,
    words: tuple[str, ...],
    exact: bool,
    of_values: bool,
    like: str | None = None,
) -> Examples:
    """Return the sequences of a level and the labels of a file, in memory.

    Args:
        taker: what takes the data as ids, for messages; None: the data are rows.
        words: of the ids; () if they are not known yet.
        exact: whether to keep the dtype of rows; otherwise whole numbers become float32.
        of_values: whether whole numbers are targets as well, because other labels are.
        like: the tensor that is taken where the reference names none, if the file has it.

    Raises:
        SelectionError: no such tensor or level.
        LodError: labels that do not fit; names the file.
    """
    with opened(reference) as file, naming(reference.label):
        names = _class_names(file, labels)
        name = _sequences(file, labels, like).name
        held = [spec.name for spec in file.source.schema]
        if labels == "label" and labels not in held:
            known = listing([one for one in held if one != name])
            other = "; lod merge adds one from another file"
            if known:
                other = f"; --labels NAME names another tensor of labels: {known}"
            raise SelectionError(f"no tensor named 'label'{other}")
        items = file.read([name, labels])
        tensor = without_decimals(one_tensor(items[name], "this command"), exact=False)
        if not tensor.lod.n_levels:
            raise InvalidDataError(
                f"{name}: expected at least one level, found none: the "
                "boundaries of its sequences are unknown"
            )
        number = tensor.lod.level(-1 if level is None else level)
        offsets = tensor.lod.absolute(number)
        with naming(reference.label, labels):
            given = one_tensor(items[labels], "--labels")
            numbers, label_words = numbered(given, labels, of_values=of_values)
            if is_float(numbers.dtype):
                names = ()
        with naming(reference.label, name):
            rows, vocabulary = tensor.data, 0
            if taker is None:
                _require_finite(rows, offsets)
                rows, words = rows if exact else rows_as_vectors(rows), ()
            else:
                remedy = "train a model without an embedding on other rows"
                require_ids(tensor.dtype, tensor.row_shape, taker, remedy)
                rows, vocabulary, words = _as_ids(tensor, words)
        sequences = LoDTensor(rows, LoD([offsets]))
        if not len(sequences):
            raise InvalidDataError(f"{name}: no sequences")
        numbers = of_sequences(
            given, numbers, tensor, number, labels, reference, ids=taker is not None
        )
        labelled = Labelled(sequences, numbers)
        whole = tensor.dtype.kind in "iu" and tensor.data[:1].size == 1
        return Examples(
            labelled,
            label_words or names,
            reference.label,
            bool(label_words),
            name,
            labels,
            whole,
            vocabulary,
            words,
        )


def _as_ids(tensor: LoDTensor, words: tuple[str, ...]) -> tuple[Array, int, tuple[str, ...]]:
    """Return the ids of a tensor, how many there are, and their words; see `read_examples`."""
    ids, known = ids_of(tensor, id_of_code(words, tensor.marks)), tensor.marks.categories
    if tensor.marks.kind in VALUES:
        return ids, 256, ()
    if known is not None and not words:
        words = known.words
    return ids, len(words) or int(ids.max(initial=0)) + 1, words


def _require_finite(rows: Array, offsets: Offsets) -> None:
    """Raise InvalidDataError if a value is not finite: weights, or a score, would become nan."""
    if rows.dtype.kind in "biu":
        return
    finite = np.isfinite(rows)
    if not finite.all():
        row, *place = (int(index[0]) for index in np.nonzero(~finite))
        sequence, _ = branch_below((offsets,), row)
        raise InvalidDataError(
            f"row {row} (of sequence {sequence}): expected finite values, found "
            f"{rows[(row, *place)]}; replace it, or leave the sequence out"
        )


def numbered_as(examples: Examples, classes: tuple[str, ...], where: str) -> Examples:
    """Return examples whose labels, if they are words, are numbered as the classes of a file.

    Args:
        where: the file, for messages.

    Raises:
        InvalidDataError: a word is not one of the classes.
    """
    if not examples.of_words or not classes or examples.names == classes:
        return examples
    labels = codes_of(examples.names, classes)[examples.labelled.labels]
    if (labels < 0).any():
        position = int(np.argmax(labels < 0))
        word = examples.names[examples.labelled.labels[position]]
        raise InvalidDataError(
            f"{examples.label}: labels, position {position}: expected a class of {where} "
            f"({listing(classes)}), found {shown(word)}"
        )
    return replace(examples, labelled=Labelled(examples.labelled.sequences, labels), names=classes)


def _sequences(file: Opened, labels: str, like: str | None) -> TensorSpec:
    """Return the named tensor; else `like`, or one that has levels and is not about classes."""
    if file.reference.name is not None:
        return file.tensor()
    others = tuple(
        spec
        for spec in file.source.schema
        if spec.levels and not spec.array and spec.name not in (labels, f"{labels}_names")
    )
    name = like if any(spec.name == like for spec in others) else None
    return find(others, name) if others else file.tensor()


def _class_names(file: Opened, labels: str) -> tuple[str, ...]:
    """Return the texts of the tensor "LABELS_names", which .ts files have; () if there is none."""
    name = f"{labels}_names"
    if not any(spec.name == name for spec in file.source.schema):
        return ()
    item = file.source.read([name])[name]
    if not isinstance(item, LoDTensor) or item.dtype != np.uint8 or item.lod.n_levels != 1:
        return ()
    return tuple(bytes(part.data).decode(errors="replace") for part in item)


def remedy_for_kind(examples: Examples) -> str:
    """Return how to make classes of floating-point labels, as "; .."; "" for other labels."""
    if not examples.labelled.of_values:
        return ""
    return f"; lod cast {examples.label_name}=int64 makes class numbers of whole numbers"


def check_test(examples: Examples, test: Examples) -> None:
    """Check that a test set fits the training set.

    Raises:
        ShapeMismatchError, InvalidDataError: rows of another width, other ids or classes.
    """
    if test.of_words and not examples.names:
        raise InvalidDataError(
            f"{test.label}: labels: expected numbers as in {examples.label}, found words"
        )
    if test.words and not examples.words:
        raise InvalidDataError(
            f"{test.label}: {test.name}: expected ids without words as in {examples.label}, found "
            "categories"
        )
    if test.width != examples.width:
        raise ShapeMismatchError(
            f"{test.label}: expected rows of {examples.width} values as in {examples.label}, "
            f"found {test.width}"
        )
    if examples.names and test.names and examples.names != test.names:
        raise InvalidDataError(
            f"{test.label}: expected the classes {', '.join(examples.names)} as in "
            f"{examples.label}, found {', '.join(test.names)}"
        )
    if test.labelled.of_values != examples.labelled.of_values:
        raise InvalidDataError(
            f"{test.label}: labels: expected "
            f"{'numbers' if examples.labelled.of_values else 'classes'} as in {examples.label}, "
            f"found {test.labelled.labels.dtype if not test.of_words else 'words'}"
            f"{remedy_for_kind(test)}"
        )
    if test.labelled.of_values and test.labelled.classes != examples.classes:
        raise ShapeMismatchError(
            f"{test.label}: labels: expected {examples.classes} values for each sequence as in "
            f"{examples.label}, found {test.labelled.classes}"
        )
    if test.labelled.classes > examples.classes:
        raise InvalidDataError(
            f"{test.label}: has label {test.labelled.classes - 1}, {examples.label} has "
            f"{examples.classes} classes"
        )
