"""Writes a Megatron dataset: tokens as they arrive, the index at the end."""

from __future__ import annotations

import numpy as np

from lodcli.formats.arrays.byte_blocks import byte_blocks
from lodcli.formats.arrays.spool import Spool, SpooledArray
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Batch, Schema, TensorSpec, tensor_of
from lodcli.formats.storage.outputs import Output
from lodcli.formats.tokens.megatron_index import DTYPES, HEADER, MAGIC, VERSION
from lodcli.kernels.errors import SelectionError, UnsupportedError

MODE = "mode"
MOST_TOKENS = 2**31 - 1


def refuse_unheld(schema: Schema) -> None:
    """Raise UnsupportedError unless the tensors are tokens, and optionally a mode per sequence."""
    data, mode = _parts(schema)
    if mode is None:
        return
    if mode.dtype != np.int8 or mode.row_shape:
        raise UnsupportedError(
            f"megatron holds {MODE} as one int8 per sequence; found {mode.dtype.name} "
            f"of row shape {mode.row_shape}"
        )
    keys = [level.key for level in data.levels]
    if len(keys) != 2 or [level.key for level in mode.levels] != keys[:1]:
        raise UnsupportedError(
            f"megatron holds {MODE} only beside {data.name} of two levels, the outer of which is "
            f"the one level of {MODE}"
        )


def tokens_name(schema: Schema) -> str:
    """Return the name of the tensor that holds the tokens."""
    return _parts(schema)[0].name


def _parts(schema: Schema) -> tuple[TensorSpec, TensorSpec | None]:
    if len(schema) == 1:
        return schema[0], None
    modes = [spec for spec in schema if spec.name == MODE]
    if len(schema) > 2 or not modes:
        found = listing(spec.name for spec in schema)
        raise UnsupportedError(
            f"megatron holds one tensor, and a {MODE} for each of its sequences; this has "
            f"{found}; choose one with FILE::NAME"
        )
    return next(spec for spec in schema if spec.name != MODE), modes[0]


class MegatronWriter:
    """Writes batches to a .bin file, and then the .idx file to `output`.

    Raises:
        SelectionError: the output is not named X.idx.
    """

    def __init__(self, output: Output, schema: Schema) -> None:
        data, mode = _parts(schema)
        assert output.path is not None
        if not output.label.endswith(".idx"):
            raise SelectionError(f"{output.label}: megatron writes X.idx and X.bin; name X.idx")
        self._output = output
        self._bin = output.part(output.label.rpartition("/")[2].removesuffix(".idx") + ".bin")
        self._data, self._mode = data.name, mode.name if mode else None
        self._dtype = data.dtype
        self._sequences = self._documents = 0
        self._spool = Spool(output)
        self._lengths, self._ends, self._modes = (SpooledArray(self._spool) for _ in range(3))

    def __enter__(self) -> MegatronWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._spool.close()

    def add(self, batch: Batch) -> None:
        """Write the tokens of a batch, and buffer its index."""
        tensor = tensor_of(batch[self._data])
        lengths = tensor.lod.lengths(-1)
        if (lengths > MOST_TOKENS).any():
            at = int(np.argmax(lengths > MOST_TOKENS))
            raise UnsupportedError(
                f"megatron holds at most {MOST_TOKENS} tokens per sequence; sequence "
                f"{self._sequences + at} has {lengths[at]}"
            )
        ends = tensor.lod.levels[0][1:] if tensor.lod.n_levels == 2 else np.arange(lengths.size) + 1
        for block in byte_blocks(tensor.data):
            self._bin.write(block.data)
        self._lengths.append(lengths.astype(np.int32))
        self._ends.append(ends + self._sequences)
        if self._mode is not None:
            self._modes.append(tensor_of(batch[self._mode]).data)
        self._sequences += lengths.size
        self._documents += ends.size

    def finish(self) -> None:
        """Write the index."""
        code = next(code for code, name in DTYPES.items() if name == self._dtype.name)
        head = HEADER.pack(MAGIC, VERSION, code, self._sequences, self._documents + 1)
        self._output.write(head)
        for block in self._lengths.blocks():
            self._output.write(block)
        self._write_pointers()
        self._output.write(bytes(8))
        for array in (self._ends, self._modes):
            for block in array.blocks():
                self._output.write(block)

    def _write_pointers(self) -> None:
        end = 0
        for block in self._lengths.blocks():
            sizes = np.frombuffer(block, "<i4").astype(np.int64) * self._dtype.itemsize
            ends = np.cumsum(sizes) + end
            self._output.write((ends - sizes).astype("<i8", copy=False).data)
            end = int(ends[-1])
