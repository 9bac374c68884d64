"""Texts of ISO 8601 as times: the text formats, such as csv and JSON, have no other times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import Batch, Item, TensorSpec
from lodcli.formats.core.wrapped import Wrapped
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_of, named_branch
from lodcli.kernels.tensor.exchange.time_texts import number_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Times
from lodcli.kernels.tensor.nulls import Nulls

# Units of which NumPy parses texts to the same numbers, and the maximum number of digits below
# the second.
_DIGITS = {"s": 0, "ms": 3, "us": 6}
_PLAIN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,%d})?Z?)?"


class ParsedTimes(Wrapped):
    """A source with times instead of some texts; an empty text is null.

    Args:
        inner: the open file.
        times: by tensor, the times that its texts are.

    Raises:
        UnsupportedError: a tensor has no texts; names it.
    """

    def __init__(self, inner: Source, times: Mapping[str, Times]) -> None:
        super().__init__(inner)
        self._times = times
        self.schema = tuple(map(self._spec, inner.schema))

    def _spec(self, spec: TensorSpec) -> TensorSpec:
        if spec.name not in self._times:
            return spec
        times = self._times[spec.name]
        if not spec.marks.is_text:
            what = spec.marks.unit or spec.dtype.name
            raise UnsupportedError(f"{spec.name}: only text can be {times}, this is {what}")
        marks = replace(spec.marks, values=None, unit=times)
        return replace(
            spec,
            dtype=np.dtype(np.int64),
            levels=spec.levels[:-1],
            rows=spec.levels[-1].items,
            marks=marks,
            nullable=True,
        )

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        before = dict.fromkeys(self._times, 0)
        for batch in self._inner.batches_of(list(names), limit_bytes):
            made: dict[str, Item] = dict(batch)
            for name in before.keys() & batch.keys():
                texts = batch[name]
                assert isinstance(texts, LoDTensor)
                with naming(name):
                    made[name] = _parsed(texts, self._times[name], before[name])
                before[name] += len(texts)
            yield made


def _parsed(tensor: LoDTensor, times: Times, before: int) -> LoDTensor:
    """Return times of a tensor of texts, which follows `before` outermost items."""
    lod = LoD._trusted(tensor.lod.levels[:-1], tensor.lod.names[:-1])
    offsets = tensor.lod.levels[-1]
    masks = tensor.nulls.masks[:-1] if tensor.nulls else [None] * tensor.lod.n_levels
    valid = offsets[1:] > offsets[:-1]
    if masks[-1] is not None:
        valid &= masks[-1]
    raw = np.ascontiguousarray(tensor.values).tobytes()
    places = np.flatnonzero(valid).tolist()
    bounds = offsets.tolist()
    texts = [raw[bounds[n] : bounds[n + 1]].decode() for n in places]
    numbers = np.zeros(valid.size, np.int64)
    fast = _fast(texts, times)
    if fast is not None:
        numbers[valid] = fast
    else:
        for place, text in zip(places, texts, strict=True):
            try:
                numbers[place] = number_of(text, times)
            except (InvalidDataError, OverflowError) as error:
                first, *rest = branch_of(lod, lod.n_levels, place)
                where = named_branch(lod.names, (first + before, *rest), [])
                what = error if isinstance(error, InvalidDataError) else f"{text} is beyond 64 bits"
                raise InvalidDataError(f"{where}: {what}") from error
    nulls = Nulls.of([*masks[:-1], None if valid.all() else valid])
    return LoDTensor(numbers, lod, replace(tensor.marks, values=None, unit=times), nulls)


def _fast(texts: list[str], times: Times) -> Array | None:
    """Return the numbers of texts that NumPy can parse; None if one is in another form."""
    if times.kind != "timestamp" or times.unit not in _DIGITS or not texts:
        return None
    digits = _DIGITS[times.unit]
    pattern = _PLAIN % digits if digits else _PLAIN.replace(r"(?:\.[0-9]{1,%d})?", "")
    if not all(map(re.compile(pattern).fullmatch, texts)):
        return None
    try:
        moments = np.array([text.removesuffix("Z") for text in texts], f"datetime64[{times.unit}]")
    except ValueError:
        return None
    return moments.astype(np.int64)
