"""webdataset: samples in a tar archive, one file a field."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import lru_cache, partial
from itertools import chain

import numpy as np

from lodcli.formats.arrays.budget import ITEM_COPIES, require_fits
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.format import BATCH_BYTES, Format, Source, leaving_out
from lodcli.formats.core.names import name_of, there_are
from lodcli.formats.core.options import ReadOptions, WriteOptions, choose_others
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.formats.npz.npy_header import NPY_DTYPES, decoded, written_header
from lodcli.formats.records.samples import (
    LEVEL,
    Sample,
    Values,
    blocks,
    choose_fields,
    collected,
    spec_of,
)
from lodcli.formats.records.tar_headers import Headers
from lodcli.formats.records.tar_stream import BLOCK, COPY_BYTES, Content, members
from lodcli.formats.storage.compression import Unpacked
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.text.numerals import MOST_EXACT_FLOAT64
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array

WHOLE_NUMBERS = ("cls", "cls2", "index", "inx", "id", "count")
TEXTS = ("txt", "text", "transcript")
JSON = ("json", "jsn")


class WebDataset(Format):
    """Files `KEY.FIELD.npy`, one after another for each key, as webdataset reads them.

    - `.npy`: arrays are one level, "sample", all axes but the first equal; single numbers
      have no level;
    - `.cls`, `.id`, ..: whole numbers, int64; `.json`: a number, or a list of numbers;
    - `.txt`: one level of bytes, marked as text; `.bin`: the same without the mark;
    - one of these packed, `.npy.gz`: the same.

    The name of a field is FIELD, or the last ending if a file is named `KEY.ENDING`. Other kinds of
    files (images, pickles) are refused unless `--field` leaves them out. The writer makes `.npy`
    files, `.txt` for text, and `.cls` for int64 without levels. Can be read from and written to a
    pipe.
    """

    name = "webdataset"
    max_levels = 1
    dtypes = NPY_DTYPES
    many = True
    kept_marks = frozenset({"text"})
    record = "sample"
    options = frozenset({"field"})

    def sniff(self, head: bytes) -> bool:
        return head[257:262] == b"ustar"

    def open(self, source: Input, options: ReadOptions) -> Source:
        return _TarSource(source, options.field)

    def given_level_names(self, spec: TensorSpec, options: WriteOptions) -> tuple[str, ...]:
        return (LEVEL,)

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        for spec in schema:
            if spec.row_shape and not spec.levels:
                raise UnsupportedError(
                    f"webdataset holds tensors without levels as single numbers; rows of "
                    f"{spec.name} have shape {spec.row_shape}"
                )
            if spec.items == 0:
                raise _without_samples()

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        fields = [_Field(spec) for spec in schema]
        count = 0
        for block in blocks(self, schema, batches, output):
            columns = [field.contents(block[field.name]) for field in fields]
            parts: list[bytes | memoryview] = []
            for contents in zip(*columns, strict=True):
                key = b"%09d" % count
                count += 1
                for field, (head, data) in zip(fields, contents, strict=True):
                    size = len(head) + len(data)
                    padding = _ZEROS[: -size % BLOCK]
                    parts += (field.headers.of(key, size), head, data, padding)
            # A single sample may be large, and is written without joining its parts.
            alone = len(parts) == 4 * len(fields)
            for part in parts if alone else [b"".join(parts)]:
                output.write(part)
        if not count:
            raise _without_samples()
        output.write(bytes(2 * BLOCK))


_ZEROS = bytes(BLOCK)


def _without_samples() -> UnsupportedError:
    return UnsupportedError(
        "webdataset holds at least one sample, for the files of a sample name the fields; "
        "this has none"
    )


class _Field:
    """Makes the files of one field.

    Attributes:
        headers: tar headers of its files, whose names begin with the number of the sample.
    """

    def __init__(self, spec: TensorSpec) -> None:
        self.name = spec.name
        whole = not spec.levels and spec.dtype == np.int64
        self._kind = "cls" if whole else "txt" if spec.marks.is_text else "npy"
        self.headers = Headers(f".{spec.name}.{self._kind}")
        self._spec = spec
        # Cached: thousands of samples have few different lengths.
        self._header = lru_cache(maxsize=1024)(self._npy_header)

    def contents(self, values: Values) -> Iterator[tuple[bytes, bytes | memoryview]]:
        """Yield the content of a file for each value, in two parts."""
        if self._kind == "cls":
            for number in values.rows.tolist():
                yield b"%d" % number, b""
            return
        for count, data in values.each():
            yield b"" if self._kind == "txt" else self._header(count), data

    def _npy_header(self, count: int) -> bytes:
        shape = (count, *self._spec.row_shape) if self._spec.levels else self._spec.row_shape
        return written_header(self._spec.dtype, shape)


class _TarSource(Source):
    """An archive, read sequentially: a pipe once, a file again for every pass."""

    records = True

    def __init__(self, source: Input, fields: tuple[str, ...] | None) -> None:
        self._file = source.file
        self._bounds = source.bounds
        self._again = source.seekable
        self._fields = None if fields is None else tuple(map(name_of, fields))
        self._known: set[str] | None = set()
        self._texts: set[str] = set()
        self.left_out = {}
        self._first: Sample | None = None
        self._rest = self._samples()
        self._first = next(self._rest, None)
        known, self._known = sorted(self._known or ()), None
        for field in self._fields or ():
            if known and field not in known:
                raise SelectionError(
                    f"the first sample has no field {field!r}; {there_are(known, field)}"
                )
        if not self._first:
            self.refuse_left_out()
            raise InvalidDataError("holds no samples, so its fields are unknown")
        self.schema = tuple(
            spec_of(name, value, ragged=value.ndim > 0, items=None, text=name in self._texts)
            for name, value in self._first.items()
        )

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        assert self._first is not None
        samples: Iterator[Sample] = chain([self._first], self._rest)
        if self._again:
            self._file.seek(0)
            samples = self._samples()
        yield from collected(self.schema, samples, limit_bytes, _lacking())

    def _samples(self) -> Iterator[Sample]:
        current, sample = None, dict[str, Array]()
        self._unpacked_bytes = 0
        for member, content in members(self._file):
            folder, slash, base = member.rpartition("/")
            key, dot, endings = base.partition(".")
            if not key or not dot or not endings:
                continue  # as in webdataset: without an extension or a key, it is in no sample
            if (folder + slash + key) != current:
                if sample or self._known:
                    yield sample
                current, sample = folder + slash + key, {}
            name, ending, packed = _field(endings)
            if self._known is not None:  # this is the first sample
                self._known.add(name)
                if ending in TEXTS:
                    self._texts.add(name)
            if name in self.left_out or (self._fields is not None and name not in self._fields):
                continue
            if name in sample:
                raise DamagedFileError(f"{member}: a second field {name} of this sample")
            try:
                read = partial(self._unpacked, content) if packed else content.read
                value = _decoded(ending, read)
                sample[name] = self._like_first(name, value) if ending in JSON else value
            except LodError:
                optional = self._known is not None
                with (
                    leaving_out(self.left_out, name) if optional else nullcontext(),
                    naming(member),
                ):
                    raise
        if sample or self._known:
            yield sample

    def _unpacked(self, content: Content) -> bytes:
        """Return the decompressed content of a file."""
        reader, parts, size = Unpacked(io.BytesIO(content.read()), "gzip"), list[bytes](), 0
        while part := reader.read(COPY_BYTES):
            parts.append(part)
            size += len(part)
            self._bounds.check(self._unpacked_bytes + size, "decompresses to at least")
            require_fits("its content", size, ITEM_COPIES)
        self._unpacked_bytes += size
        return b"".join(parts)

    def _like_first(self, name: str, value: Array) -> Array:
        """Return numbers of JSON in the dtype of the first sample, if that changes none of them."""
        first = None if self._first is None else self._first.get(name)
        if first is None or value.dtype == first.dtype:
            return value
        whole = value.dtype.kind == "i" and first.dtype == np.float64
        exact = whole and (np.abs(value) <= MOST_EXACT_FLOAT64).all()
        return value.astype(first.dtype) if exact or not value.size else value


# Cached: a million members have few different extensions. Not more, as one may have 64 KB.
@lru_cache(maxsize=128)
def _field(endings: str) -> tuple[str, str, bool]:
    """Return the name of a field, its extension, and whether it is packed with gzip."""
    # Of a packed file there is another extension before this one.
    packed = endings.lower().endswith(".gz") and endings[-4:-3] not in ("", ".")
    name, _, ending = endings[: -3 if packed else None].rpartition(".")
    return name_of(name or ending), ending.lower(), packed


def _decoded(ending: str, read: Callable[[], bytes]) -> Array:
    if ending == "npy":
        return decoded(read())
    if ending in WHOLE_NUMBERS:
        text = read().strip()
        digits = text.removeprefix(b"-")
        if not digits.isdigit() or len(digits) > 40:
            raise InvalidDataError(f"expected a whole number, found {text[:40]!r}")
        if not -(2**63) <= int(text) < 2**63:
            raise InvalidDataError(f"expected a whole number of 64 bits, found {int(text)}")
        return np.array(int(text), np.int64)
    if ending in TEXTS or ending == "bin":
        return np.frombuffer(read(), np.uint8)
    if ending in JSON:
        return _from_json(read())
    raise UnsupportedError(
        f".{ending[:20]} files hold no numbers, or are unsafe to decode; "
        f"{choose_others('other fields')}"
    )


def _lacking() -> str:
    """Return advice if a sample lacks a field, for messages."""
    return (
        f"{choose_fields()}, or, if the files of a sample are not next to each other, sort them, "
        "as tar --sort=name does"
    )


def _from_json(text: bytes) -> Array:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise DamagedFileError(f"is not JSON; {choose_fields()}") from None
    numbers = value if isinstance(value, list) else [value]
    if not all(type(one) in (int, float) for one in numbers):
        raise UnsupportedError(
            f"is neither a number nor a list of numbers; {choose_others('other fields')}"
        )
    whole = bool(numbers) and all(type(one) is int for one in numbers)
    dtype = np.dtype(np.int64 if whole else np.float64)
    # An integer above this may not be exact as a float.
    largest = 2**63 - 1 if whole else MOST_EXACT_FLOAT64
    for one in numbers:
        if type(one) is int and abs(one) > largest:
            raise InvalidDataError(
                f"{one if abs(one) < 2**200 else 'a whole number'} cannot be represented exactly "
                f"in {dtype}; store it as .npy, or {choose_fields()}"
            )
    return np.array(value, dtype)
