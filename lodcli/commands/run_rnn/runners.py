"""`lod run-rnn` for each batch: a plain RNN, nested RNNs, or a step function."""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.commands.run_rnn.work_stats import Work
from lodcli.expressions.digits import without_decimals
from lodcli.formats.core.errors import naming
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, LevelSpec, Schema, TensorSpec
from lodcli.kernels.errors import InvalidDataError, OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.loops.dynamic_rnn import DynamicRNN, Step
from lodcli.kernels.rnn.nested.nested import NestedRNN
from lodcli.kernels.rnn.nested.run import chained_offsets, level_numbers, run_nested
from lodcli.kernels.rnn.stack.chunked import Chunking
from lodcli.kernels.rnn.stack.embedding import check_ids, embed, ids_of
from lodcli.kernels.rnn.stack.run import arithmetic_dtype, run_rnn
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.standardization import Standardization
from lodcli.kernels.runtime.devices import moved
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.opened import opened
from lodcli.shell.references import parse_reference


class Feed:
    """The rows of a file in order, with a caller-chosen number at a time.

    Args:
        tensors: the file's batches.
        option: the option that names the file, for messages.
    """

    def __init__(
        self, tensors: Iterator[LoDTensor], option: str, row_shape: tuple[int, ...]
    ) -> None:
        self.row_shape = row_shape
        self._tensors = tensors
        self._option = option
        self._parts: list[Array] = []
        self._done = 0

    def take(self, count: int) -> Array:
        """Return the next rows.

        Raises:
            ShapeMismatchError: there are fewer.
        """
        while not self._parts or sum(map(len, self._parts)) < count:
            tensor = next(self._tensors, None)
            if tensor is None:
                there = self._done + sum(map(len, self._parts))
                raise ShapeMismatchError(
                    f"{self._option} has {there} rows, expected at least {self._done + count}"
                )
            self._parts.append(tensor.data)
        whole = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        self._parts = [whole[count:]]
        self._done += count
        return whole[:count]

    def finish(self) -> None:
        """Check that no rows are left over.

        Raises:
            ShapeMismatchError: there are some.
        """
        rest = sum(map(len, self._parts)) + sum(tensor.rows for tensor in self._tensors)
        if rest:
            raise ShapeMismatchError(
                f"{self._option} has {self._done + rest} rows, expected {self._done}"
            )


@contextmanager
def fed(text: str | None, option: str) -> Iterator[Feed | None]:
    """Open a file for a Feed; yield None if no file is named."""
    if text is None:
        yield None
        return
    with opened(parse_reference(text)) as file:
        rows = (without_decimals(one, exact=False) for one in file.tensors())
        yield Feed(rows, option, file.tensor().row_shape)


@dataclass(frozen=True)
class Settings:
    """Settings of all kinds of runs.

    Attributes:
        kinds: the results: "all", "last", or both; or "class", "scores" or "value".
        dtype: of the computation; None: that of the data.
        device: where to compute; data is copied from main memory and back.
        threads: see rnn_forward.
        hidden, cell: the initial states.
    """

    kinds: tuple[str, ...]
    dtype: str | None
    device: str
    threads: int | None
    hidden: Feed | None
    cell: Feed | None


class Lookup:
    """Looks ids up in an embedding.

    Args:
        name: of the tensor, for messages.
        table: (V, D), on the device of the computation.
        codes: the id of each code of the file's categories; None: codes are ids.

    Attributes:
        ids: of the last batch.
    """

    def __init__(self, name: str, table: Array, codes: Array | None) -> None:
        self.table = table
        self._name = name
        self.ids: Array = np.zeros(0, np.int64)
        self._codes = codes
        self._sequences = 0

    def rows(self, tensor: LoDTensor) -> LoDTensor:
        """Return the row of each id of the next batch.

        Raises:
            InvalidDataError: an id that is not in the table; names its finest sequence.
        """
        offsets = tensor.lod.levels[-1] if tensor.lod.n_levels else None
        with naming(self._name):
            self.ids = ids_of(tensor, self._codes)
            check_ids(self.ids, len(self.table), offsets, before=self._sequences)
        self._sequences += 0 if offsets is None else len(offsets) - 1
        return tensor.with_data(embed(self.ids, self.table))


class Runner(ABC):
    """One kind of run over batches, which are independent of each other.

    Attributes:
        names: of the states after every row: one for each RNN.
    """

    names: tuple[str, ...] = ("all",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.work = Work()
        self.lookup: Lookup | None = None
        self.standardization: Standardization | None = None

    def run(self, spec: TensorSpec, tensors: Iterable[LoDTensor]) -> tuple[Schema, Iterator[Batch]]:
        """Return the schema of the results, from the first batch, and all batches of results."""
        batches = (self._timed(tensor) for tensor in tensors)
        tensor, first = next(batches)
        schema = [
            _described(name, found, spec, self.shared(tensor.lod)) for name, found in first.items()
        ]
        schema += [
            TensorSpec(name, array.dtype, array.shape[1:], (), len(array))
            for name, array in self.totals().items()
        ]
        rest = itertools.chain([first], (found for _, found in batches))
        return tuple(schema), self._finished(rest)

    def _timed(self, tensor: LoDTensor) -> tuple[LoDTensor, dict[str, LoDTensor]]:
        begun = time.perf_counter()
        tensor = without_decimals(tensor, exact=False)
        if self.lookup is not None:
            tensor = self.lookup.rows(tensor)
        elif self.standardization is not None:
            dtype = arithmetic_dtype(self.settings.dtype or tensor.dtype)
            rows = self.standardization.applied(tensor.data, dtype)
            tensor = tensor.with_data(rows.reshape(tensor.data.shape))
        elif self.settings.dtype is not None:
            tensor = tensor.with_data(tensor.data.astype(self.settings.dtype, copy=False))
        found = self.one(tensor.with_data(self.there(tensor.data)))
        found = {name: one.to_device("cpu") for name, one in found.items()}
        self.work.seconds += time.perf_counter() - begun
        return tensor, found

    def _finished(self, batches: Iterator[dict[str, LoDTensor]]) -> Iterator[Batch]:
        yield from batches
        for feed in self.feeds():
            feed.finish()
        totals = self.totals()
        if totals:
            yield {name: LoDTensor(array) for name, array in totals.items()}

    def state_bytes(self, spec: TensorSpec) -> int:
        """Return the approximate memory of a run for each row, besides the row; 0 if unknown."""
        return 0

    def row_bytes(self, spec: TensorSpec) -> int:
        """Return the bytes of a row to compute with: after the lookup, if there is one."""
        return spec.row_bytes if self.lookup is None else self.lookup.table[:1].nbytes

    @abstractmethod
    def one(self, tensor: LoDTensor) -> dict[str, LoDTensor]:
        """Return the results of one batch, by name."""

    def totals(self) -> dict[str, Array]:
        """Return results that are accumulated over all batches so far, by name."""
        return {}

    def there(self, array: Array) -> Array:
        """Return an array on the device of the computation."""
        return moved(array, self.settings.device)

    def feeds(self) -> list[Feed]:
        """Return the feeds that must have no rows left at the end."""
        given = (self.settings.hidden, self.settings.cell)
        return [feed for feed in given if feed is not None]

    def shared(self, lod: LoD) -> int:
        """Return how many levels results may have in common with the input."""
        return lod.n_levels

    def initial(self, count: int) -> dict[str, Any]:
        """Return the initial states of the next `count` sequences, as arguments of run_rnn."""
        found = {}
        for name, feed in (("hidden", self.settings.hidden), ("cell", self.settings.cell)):
            if feed is not None:
                part = self.there(feed.take(count))
                found[f"initial_{name}"] = part.swapaxes(0, 1) if part.ndim == 3 else part
        return found

    def named(self, found: dict[str, LoDTensor]) -> dict[str, LoDTensor]:
        """Return results under the names to write; a single result is called "data"."""
        return found if len(found) > 1 else {DEFAULT_NAME: next(iter(found.values()))}


def _described(name: str, found: LoDTensor, spec: TensorSpec, shared: int) -> TensorSpec:
    depth = found.lod.n_levels
    levels = list(spec.levels[: min(depth, shared)])
    for level in range(len(levels), depth):
        levels.append(LevelSpec(f"{name}.{level}", found.lod.names[level]))
    rows = spec.levels[depth].items if depth < len(spec.levels) else spec.rows
    if depth > shared:
        rows = None
    return TensorSpec(name, found.dtype, found.row_shape, tuple(levels), rows, marks=found.marks)


class PlainRunner(Runner):
    """An RNN over the sequences of one level."""

    # Measured: outputs of this batch and the one before, and temporary arrays of a layer.
    STATES = 9

    def __init__(
        self, settings: Settings, weights: RNNWeights, *, level: int | str, reverse: bool
    ) -> None:
        super().__init__(settings)
        self.weights = weights.moved(self.there)
        self.level = level
        self.reverse = reverse

    def state_bytes(self, spec: TensorSpec) -> int:
        width = self.weights.hidden_size * self.weights.directions
        itemsize = self.weights.layers[0][0].dtype.itemsize
        return self.STATES * width * itemsize

    def forward(
        self, tensor: LoDTensor, *, keep: bool = False, chunking: Chunking | None = None
    ) -> Any:
        """Return run_rnn's result."""
        # Without levels, run_rnn raises an error.
        count = tensor.lod.count(self.level) if tensor.lod.n_levels else 0
        result = run_rnn(
            tensor,
            self.weights,
            level=self.level,
            reverse=self.reverse,
            **self.initial(count),
            keep=keep,
            chunking=chunking,
            threads=self.settings.threads,
        )
        self.work.add(0, self.weights, np.diff(tensor.lod.absolute(self.level)))
        return result

    def one(self, tensor: LoDTensor) -> dict[str, LoDTensor]:
        result = self.forward(tensor)
        return self.named({kind: getattr(result, kind) for kind in self.settings.kinds})


class NestedRunner(Runner):
    """RNNs over several levels. "all" is a tensor for each, named by its level."""

    def __init__(self, settings: Settings, rnn: NestedRNN, names: tuple[str, ...]) -> None:
        super().__init__(settings)
        if "last" in names and len(settings.kinds) > 1:
            raise OptionError(
                "--emit both: the states of level last would have the name of the last states; "
                "run --emit all and --emit last, or name the level by its number"
            )
        self.rnn = rnn.moved(self.there)
        self.names = names

    def forward(self, tensor: LoDTensor, *, keep: bool = False) -> Any:
        """Return run_nested's result."""
        numbers = level_numbers(tensor.lod, self.rnn)
        result = run_nested(
            tensor,
            self.rnn,
            **self.initial(tensor.lod.count(numbers[0])),
            keep=keep,
            threads=self.settings.threads,
        )
        offsets = chained_offsets(tensor.lod, numbers)
        for place, (level, own) in enumerate(zip(self.rnn.levels, offsets, strict=True)):
            self.work.add(place, level.weights, np.diff(own))
        return result

    def one(self, tensor: LoDTensor) -> dict[str, LoDTensor]:
        result = self.forward(tensor)
        found: dict[str, LoDTensor] = {}
        if "all" in self.settings.kinds:
            found |= dict(zip(self.names, result.states, strict=True))
        if "last" in self.settings.kinds:
            found["last"] = result.last
        return self.named(found)


class StepRunner(Runner):
    """A step function over the items of one level."""

    def __init__(self, settings: Settings, step: Step, *, level: int | str, reverse: bool) -> None:
        super().__init__(settings)
        self.rnn = DynamicRNN(step, level=level, reverse=reverse)
        self.level = level

    def shared(self, lod: LoD) -> int:
        return lod.level(self.level) + 1

    def one(self, tensor: LoDTensor) -> dict[str, LoDTensor]:
        if not tensor.lod.n_levels:
            raise InvalidDataError("expected a tensor of at least one level, found none")
        number = tensor.lod.level(self.level)
        count = tensor.lod.count(number)
        parts = [self.there(feed.take(count)) for feed in self.feeds()]
        memory = None if not parts else parts[0] if len(parts) == 1 else tuple(parts)
        result = self.rnn(tensor, memory)
        self.work.add(0, None, tensor.lod.lengths(number))
        found = {"all": result.all} if "all" in self.settings.kinds else {}
        if "last" in self.settings.kinds:
            found |= self._last(result.last, tensor.lod.above(number))
        return self.named(found)

    def _last(self, memory: Any, lod: LoD) -> dict[str, LoDTensor]:
        if memory is None:
            raise InvalidDataError("the step returns no memory: --emit last has nothing to write")
        if not isinstance(memory, tuple):
            return {"last": LoDTensor(memory, lod)}
        return {f"last{number}": LoDTensor(part, lod) for number, part in enumerate(memory)}
