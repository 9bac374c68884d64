"""safetensors: a tensor as `data`, `lod.0`, .. or NAME/data, NAME/lod.0, ..

A file is the size of a JSON header (uint64), the header, and the arrays' bytes, in order and
without gaps: https://huggingface.co/docs/safetensors. The package safetensors is not used here: it
reads only files with a name, and writes only arrays that are completely in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lodcli.formats.arrays.array_file import (
    Layout,
    PlacedArray,
    PlacedSource,
    Plan,
    write_placed,
)
from lodcli.formats.arrays.flat_arrays import (
    FLAT_OPTIONS,
    FLAT_WRITE_OPTIONS,
    MARKS,
    array_names,
    index_dtype,
    marked,
    mask_array_name,
)
from lodcli.formats.core.format import AnnotatedFormat, LeftOut, Source
from lodcli.formats.core.marks import flat_json, from_flat_json
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.safetensors.header import (
    DTYPES,
    Header,
    encoded_header,
    looks_like_header,
    read_header,
    require_tensor_dtype,
)
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.values.file_attributes import fitting, parsed, texts_and_others
from lodcli.formats.values.without_nulls import refusing_nulls
from lodcli.kernels.options import option


class Safetensors(AnnotatedFormat):
    """Named tensors in a safetensors file. Reading executes no code from the file.

    The tensor called "data" is `data`, `lod.0`, ..; any other is `NAME/data`, `NAME/lod.0`,
    ..; any other array `NAME` is a tensor without levels. A slice reads its rows only.
    """

    name = "safetensors"
    dtypes = frozenset(DTYPES.values())
    options = FLAT_OPTIONS
    write_options = FLAT_WRITE_OPTIONS
    seekable_output = True

    def sniff(self, head: bytes) -> bool:
        return looks_like_header(head)

    def open(self, source: Input, options: ReadOptions) -> Source:
        file = source.make_seekable()
        fd = file.fileno()
        header = read_header(fd, file.seek(0, 2))
        arrays, found = header.placed(), PlacedSource(fd)
        found.left_out = LeftOut()

        def look(name: str) -> PlacedArray:
            require_tensor_dtype(name, header)
            return arrays[name]

        said = from_flat_json(header.metadata.get(MARKS, ""))
        kept = said.tensors if said is not None else {}
        texts = {k: v for k, v in header.metadata.items() if said is None or k != MARKS}
        content = texts | dict(said.attributes if said is not None else {})
        found.attributes, found.notes = fitting(content)
        found.describe(header.arrays, look, kept, options)
        found.schema = marked(found.schema, kept)
        return found

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        names, kind = array_names(schema, options), index_dtype(options)

        def plan(counted: Schema, masked: Mapping[str, Sequence[int]]) -> Plan:
            texts, others = texts_and_others(parsed(options.attributes), {MARKS})
            kept = flat_json(counted, masked, others)
            header = Header({}, texts if kept is None else {**texts, MARKS: kept})
            for spec in counted:
                assert spec.rows is not None
                header.add(names(spec.name, -1), spec.dtype, (spec.rows, *spec.row_shape))
                for level, found in enumerate(spec.levels):
                    assert found.items is not None
                    header.add(names(spec.name, level), kind, (found.items + 1,))
                sizes = (*(found.items for found in spec.levels), spec.rows)
                for level in masked.get(spec.name, ()):
                    size = sizes[level]
                    assert size is not None
                    header.add(mask_array_name(spec, level), np.dtype(np.bool_), (size,))
            raw = encoded_header(header)
            positions = {name: len(raw) + array.start for name, array in header.arrays.items()}
            return Plan([(0, raw)], positions)

        masks = not options.cu_seqlens
        if not masks:
            # With a chosen name of the index, the tensor of a mask would be unknown.
            batches = refusing_nulls(batches, f"safetensors with {option('cu-seqlens')}")
        write_placed(output, schema, batches, Layout(names, plan, np.dtype(kind), masks))
