"""megatron: the indexed datasets of Megatron-LM, NeMo and fairseq, a .idx and a .bin file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from lodcli.formats.core.batching import cuts
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, LevelSpec, Schema, TensorSpec, find
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.pread import read_into
from lodcli.formats.storage.prefetch import ahead
from lodcli.formats.tokens.megatron_index import (
    DTYPES,
    MAGIC,
    OTHERS,
    PORTION,
    Index,
    portions,
)
from lodcli.formats.tokens.megatron_writer import MODE, MegatronWriter, refuse_unheld, tokens_name
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, select
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor

LEVELS = ("document", "sequence")


class Megatron(Format):
    """Documents of sequences of tokens, as `IndexedDataset` of megatron-core reads them.

    - "data": the tokens; levels "document" and "sequence". With one name in `--levels` the
      documents are left out, as Megatron itself does for GPT.
    - "mode": one int8 per sequence, level "document"; only in multimodal datasets.

    fairseq's datasets (--dataset-impl mmap) have no documents: one level, "sequence".

    Either file may be named to read; the .idx to write. A tensor of one level is written as
    documents of one sequence each. Sequences may lie anywhere in the .bin file and are
    written one after another. Reading and writing take constant memory.
    """

    name = "megatron"
    max_levels = 2
    min_levels = 1
    dtypes = frozenset(DTYPES.values())
    row_ranks = 0
    many = True
    options = frozenset({"levels"})
    layout = "files"

    def sniff(self, head: bytes) -> bool:
        return head.startswith((MAGIC, *OTHERS))

    def open(self, source: Input, options: ReadOptions) -> Source:
        return _MegatronSource(source, options.levels)

    def lost_tensor_names(self, schema: Schema) -> Iterable[str]:
        return [name for name in [tokens_name(schema)] if name != DEFAULT_NAME]

    def given_level_names(self, spec: TensorSpec, options: WriteOptions) -> tuple[str, ...]:
        return LEVELS

    def refuse_unheld(self, schema: Schema) -> None:
        refuse_unheld(schema)
        super().refuse_unheld(schema)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        with MegatronWriter(output, schema) as writer:
            for batch in batches:
                writer.add(batch)
            writer.finish()


class _MegatronSource(Source):
    """Two open files, the index checked."""

    def __init__(self, source: Input, names: tuple[str, ...] | None) -> None:
        if names is not None and len(names) not in (1, 2):
            raise UnsupportedError(f"megatron has 2 levels, or 1, found {len(names)} names")
        if source.path is None or source.path.suffix not in (".idx", ".bin"):
            raise UnsupportedError("is read from X.idx and X.bin; name one of these two")
        other = source.path.stem + (".bin" if source.path.suffix == ".idx" else ".idx")
        files = {source.path.suffix: source, other[-4:]: source.beside(other)}
        self._fd = files[".bin"].file.fileno()
        with naming(files[".idx"].label):
            self._index = Index(
                files[".idx"],
                bin_bytes=files[".bin"].size_bytes or 0,
                with_documents=names is None or len(names) == 2,
            )
            if names is None:
                names = LEVELS if self._index.has_documents else LEVELS[1:]
            if len(names) == 2 and not self._index.has_documents:
                raise UnsupportedError(
                    "is a dataset of fairseq, which has 1 level, found 2 names; give one name to "
                    f"{option('levels')}"
                )
        self._names = names
        self._bin = files[".bin"].label
        self.schema = self._described()

    def _described(self) -> Schema:
        counts = (self._index.documents, self._index.sequences)[2 - len(self._names) :]
        levels = tuple(
            LevelSpec(str(level), name, items)
            for level, (name, items) in enumerate(zip(self._names, counts, strict=True))
        )
        specs = [TensorSpec(DEFAULT_NAME, self._index.dtype, (), levels, self._index.tokens)]
        if self._index.has_modes:
            specs.append(
                TensorSpec(MODE, np.dtype(np.int8), (), levels[:-1], self._index.sequences)
            )
        return tuple(specs)

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        return ahead(self._batches(limit_bytes))

    def _batches(self, limit_bytes: int) -> Iterator[Batch]:
        for start, lod in self._portions():
            for first, last in cuts([lod.absolute(0)], [self._index.dtype.itemsize], limit_bytes):
                part, rows = lod.items(0, first, last)
                sequences = (first, last) if lod.n_levels == 1 else lod.levels[0][[first, last]]
                begin, end = start + int(sequences[0]), start + int(sequences[1])
                data = self._tokens(begin, end, rows.stop - rows.start)
                batch = {DEFAULT_NAME: LoDTensor(data, part)}
                if self._index.has_modes:
                    batch[MODE] = LoDTensor(self._index.modes(begin, end), part.without_finest())
                yield batch

    def _portions(self) -> Iterator[tuple[int, LoD]]:
        """Yield the first sequence and the index of each portion of whole outermost items."""
        if len(self._names) == 1:
            for start, stop in portions(self._index.sequences):
                yield start, LoD([self._finest(start, stop)], self._names)
            return
        for first, last in portions(self._index.documents):
            offsets = self._index.document_offsets(first, last)
            # At most PORTION sequences at a time, or one document.
            for begin, end in cuts([offsets - offsets[0]], [8], 8 * PORTION):
                start, stop = int(offsets[begin]), int(offsets[end])
                documents = offsets[begin : end + 1] - start
                yield start, LoD([documents, self._finest(start, stop)], self._names)

    def _finest(self, start: int, stop: int) -> Offsets:
        lengths = self._index.lengths(start, stop).astype(np.int64)
        return lengths_to_offsets(lengths, level=len(self._names) - 1)

    def _tokens(self, start: int, stop: int, tokens: int) -> Array:
        """Return the tokens of sequences start to stop."""
        return self._gathered(self._finest(start, stop), self._index.pointers(start, stop), tokens)

    def _gathered(self, bounds: Offsets, pointers: Array, tokens: int) -> Array:
        """Return gathered tokens: bounds[i] to bounds[i + 1] from pointers[i] on."""
        out: Array = np.empty(tokens, self._index.dtype.newbyteorder("<"))
        held = np.flatnonzero(np.diff(bounds))  # an empty sequence may point anywhere
        pointers, begins = pointers[held], bounds[held]
        # Sequences that are adjacent in the file are read together.
        runs = np.flatnonzero(np.diff(pointers - begins * out.itemsize, prepend=-(1 << 62)))
        ends = [*begins[runs].tolist(), tokens]
        with naming(self._bin):
            for (begin, end), position in zip(pairwise(ends), pointers[runs].tolist(), strict=True):
                read_into(self._fd, out[begin:end], position)
        return out.astype(self._index.dtype, copy=False)

    def read_index(self, name: str) -> LoD:
        levels = len(find(self.schema, name).levels)
        offsets = [self._finest(0, self._index.sequences)]
        if len(self._names) == 2:
            offsets.insert(0, self._index.document_offsets(0, self._index.documents))
        return LoD(offsets[:levels], self._names[:levels])

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        spec = find(self.schema, name)
        if spec.name == MODE:
            return super().slice(name, branch, level)
        lod = self.read_index(name)
        selection = select(lod, self._index.tokens, branch, level)
        start, stop = selection.rows.start, selection.rows.stop
        offsets = lod.levels[-1]
        if start == stop:
            return LoDTensor(np.empty(0, self._index.dtype), selection.lod)
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        bounds = np.clip(offsets[first : last + 1], start, stop)
        skipped = (bounds - offsets[first : last + 1])[:-1] * self._index.dtype.itemsize
        pointers = self._index.pointers(first, last) + skipped
        tokens = self._gathered(bounds - start, pointers, stop - start)
        if selection.drops_row_axis:
            return LoDTensor(tokens).select(0)
        return LoDTensor(tokens, selection.lod)
