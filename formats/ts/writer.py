"""Writes .ts files: lines to a temporary file first, because the header depends on them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lodcli.formats.core.names import listing, shown
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, Schema, TensorSpec
from lodcli.formats.storage.outputs import Output
from lodcli.formats.text.numerals import MOST_EXACT_FLOAT64, texts
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform import files
from lodcli.kernels.tensor.lod_tensor import LoDTensor

LABEL = "label"
LABEL_NAMES = "label_names"
MOST_UNNAMED_CLASSES = 100_000
WRITE_BYTES = 1 << 20


def refuse_unheld(schema: Schema) -> None:
    """Raise UnsupportedError unless the tensors are series, and optionally their labels."""
    data = _data_spec(schema)
    specs = {spec.name: spec for spec in schema if spec is not data}
    unknown = sorted(specs.keys() - {LABEL, LABEL_NAMES})
    if unknown:
        raise UnsupportedError(
            f"ts holds tensors named {DEFAULT_NAME}, {LABEL} and {LABEL_NAMES}, "
            f"no {', '.join(unknown)}"
        )
    if len(data.levels) != 1 or len(data.row_shape) != 1 or not data.row_shape[0]:
        raise UnsupportedError(
            f"ts holds one level of rows (C,), one value per channel; {data.name} has "
            f"{len(data.levels)} and rows of shape {data.row_shape}"
        )
    label, names = specs.get(LABEL), specs.get(LABEL_NAMES)
    if label and (label.levels or label.row_shape):
        raise UnsupportedError(f"ts holds one {LABEL} per series: no levels, single values")
    if names and (label is None or label.dtype.kind not in "iu"):
        raise UnsupportedError(f"ts holds {LABEL_NAMES} only beside a {LABEL} of whole numbers")
    if names and (len(names.levels) != 1 or names.row_shape or names.dtype != np.uint8):
        raise UnsupportedError(f"ts holds {LABEL_NAMES} as text: one level of uint8 bytes")


def _data_spec(schema: Schema) -> TensorSpec:
    if len(schema) == 1:
        return schema[0]
    for spec in schema:
        if spec.name == DEFAULT_NAME:
            return spec
    found = listing(spec.name for spec in schema)
    raise UnsupportedError(f"ts holds series in a tensor named {DEFAULT_NAME}; found {found}")


class TsWriter:
    """Collects batches and then writes the file."""

    def __init__(self, schema: Schema, output: Output) -> None:
        self._output = output
        self._data = _data_spec(schema)
        self._specs = {spec.name: spec for spec in schema if spec is not self._data}
        self._labels: list[Array] = []
        self._names: list[bytes] = []
        self._lengths: set[int] = set()
        self._series = 0
        self._missing = False
        self._lines = output.spool(buffering=0)

    def __enter__(self) -> TsWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._lines.close()

    def add(self, batch: Batch) -> None:
        """Add a batch of any of the tensors."""
        for name, item in batch.items():
            assert isinstance(item, LoDTensor)
            if name == self._data.name:
                self._add_series(item)
            elif name == LABEL:
                self._labels.append(item.data)
            elif name == LABEL_NAMES:
                letters = item.data.tobytes()
                bounds = item.lod.levels[0].tolist()
                self._names += [letters[start:stop] for start, stop in pairwise(bounds)]

    def _add_series(self, tensor: LoDTensor) -> None:
        data, bounds = tensor.data, tensor.lod.levels[0].tolist()
        lengths = tensor.lod.lengths(0)
        if (lengths == 0).any():
            item = self._series + int(np.argmax(lengths == 0))
            raise UnsupportedError(f"ts holds no empty series; {item} is empty")
        self._lengths.update(np.unique(lengths).tolist())
        columns = [self._column(data[:, channel]) for channel in range(data.shape[1])]
        lines = [
            ":".join([",".join(column[start:stop]) for column in columns])
            for start, stop in pairwise(bounds)
        ]
        if lines:
            with self._output.naming(spooling=True):
                files.write_all(self._lines.fileno(), "\n".join([*lines, ""]).encode())
        self._series += len(lines)

    def _column(self, values: Array) -> list[str]:
        if values.dtype.kind in "iu":
            low, high = -MOST_EXACT_FLOAT64, MOST_EXACT_FLOAT64
            wrong = (values > high) | (values < low) if values.dtype.itemsize == 8 else None
            if wrong is not None and wrong.any():
                raise UnsupportedError(
                    f"ts holds whole numbers up to 2**53; found {values[np.argmax(wrong)]}"
                )
            return texts(values)
        found = texts(values)
        with np.errstate(invalid="ignore"):  # isnan of ml_dtypes warns about NaN
            missing = np.isnan(values)
        if missing.any():
            self._missing = True
            for place in np.flatnonzero(missing).tolist():
                found[place] = "?"
        return found

    def finish(self) -> None:
        """Write everything.

        Raises:
            ShapeMismatchError: there is not one label per series.
            InvalidDataError: a label without a class.
            UnsupportedError: classes that a line of text cannot hold.
        """
        directive, labels = self._labelled()
        output = self._output
        output.write(self._header(directive))
        self._lines.seek(0)
        with open(self._lines.fileno(), "rb", closefd=False) as file:
            if labels is None:
                while block := file.read(WRITE_BYTES):
                    output.write(block)
                return
            named = iter(labels)
            while lines := file.readlines(WRITE_BYTES):
                output.write(b"".join([line[:-1] + b":" + next(named) + b"\n" for line in lines]))

    def _header(self, directive: bytes) -> bytes:
        channels = self._data.row_shape[0]
        lines = [
            b"@problemName lod",
            b"@timeStamps false",
            b"@missing " + _truth(self._missing),
            b"@univariate " + _truth(channels == 1),
        ]
        if channels > 1:
            lines.append(b"@dimensions %d" % channels)
        lines.append(b"@equalLength " + _truth(len(self._lengths) == 1))
        if len(self._lengths) == 1:
            lines.append(b"@seriesLength %d" % next(iter(self._lengths)))
        return b"\n".join([*lines, directive, b"@data", b""])

    def _labelled(self) -> tuple[bytes, list[bytes] | None]:
        """Return the directive for the labels, and each label as text."""
        if LABEL not in self._specs:
            return b"@classLabel false", None
        labels = np.concatenate([np.empty(0, self._specs[LABEL].dtype), *self._labels])
        if labels.size != self._series:
            raise ShapeMismatchError(
                f"ts holds one {LABEL} per series: {self._series} series, {labels.size} labels"
            )
        if labels.dtype.kind not in "iu":
            with np.errstate(invalid="ignore"):
                wrong = ~np.isfinite(labels)
            if wrong.any():
                raise UnsupportedError(
                    f"ts holds finite numbers as {LABEL}, that of series {np.argmax(wrong)} is "
                    f"{labels[np.argmax(wrong)]}"
                )
            return b"@targetLabel true", [text.encode() for text in texts(labels)]
        names = self._class_names(labels)
        wrong = (labels < 0) | (labels >= len(names))
        if wrong.any():
            series = int(np.argmax(wrong))
            raise InvalidDataError(
                f"{LABEL} of series {series}: expected a class from 0 to {len(names) - 1}, "
                f"found {labels[series]}"
            )
        named = [names[label] for label in labels.tolist()]
        return b"@classLabel true " + b" ".join(names), named

    def _class_names(self, labels: Array) -> list[bytes]:
        names = self._names
        words = self._specs[LABEL].marks.categories
        if words is not None:
            names = [word.encode() for word in words.words]
        elif LABEL_NAMES not in self._specs:
            most = int(labels.max(initial=0))
            if most >= MOST_UNNAMED_CLASSES:
                raise UnsupportedError(f"ts: class {most} is too large without {LABEL_NAMES}")
            names = [b"%d" % number for number in range(most + 1)]
        if not names:
            raise UnsupportedError("ts needs at least one class, found none")
        for name in names:
            if name.split() != [name] or b":" in name:
                raise UnsupportedError(
                    "ts holds no class that is empty or has white space or ':' in it; "
                    f"found {shown(name)}"
                )
        if len(set(names)) < len(names):
            raise UnsupportedError(f"ts needs classes that differ; some in {LABEL_NAMES} do not")
        return names


def _truth(value: bool) -> bytes:
    return b"true" if value else b"false"
