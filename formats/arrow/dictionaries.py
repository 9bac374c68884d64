"""Dictionaries of Arrow columns as categories."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.formats.arrow.files import Records, Wanted
from lodcli.formats.arrow.layout import Leaf, Level, Node, places
from lodcli.formats.arrow.sizes.buffers import number_dtype
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.exchange.arrow_words import categories_of, recoded
from lodcli.kernels.tensor.marks import Categories


def codes_of(array: Any, categories: Categories, dtype: np.dtype[Any]) -> Any:
    """Return dictionary-encoded text as codes of these words; fixed-size lists as they are."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not isinstance(array, pa.DictionaryArray):
        return array
    return recoded(array, categories, pa.from_numpy_dtype(dtype))


def words_of(records: Records, nodes: Mapping[str, Node]) -> dict[str, Categories | None]:
    """Return the words of each tensor of dictionary-encoded text; None if no categories hold them.

    That is the case if a word is null or repeated, or if there are too many words for a tensor or
    for the codes: dictionaries of later batches may add words. All batches are read, but only
    these columns.

    Args:
        records: must be readable again.
        nodes: by column; in them, such tensors are marked as categories of any words.
    """
    found: dict[str, Categories | None] = {}
    # Structs also have dictionaries of numbers and dates.
    coded = {
        place.leaf.name
        for node in nodes.values()
        for place in places(node)
        if place.leaf.marks.categories is not None
    }
    last: dict[str, Any] = {}
    for name, array in _leaves(records, nodes, coded):
        if found.get(name, _ANY) is None:
            continue
        if name in last and last[name].equals(array.dictionary):
            continue
        last[name] = array.dictionary
        words = categories_of(array)
        try:
            known = found.get(name)
            words = words if known is None or words is None else known.with_words(words)
        except InvalidDataError:  # in another order, or too many
            words = None
        most = np.iinfo(number_dtype(array.type.index_type)).max
        found[name] = None if words is None or len(words.words) - 1 > most else words
    return found


_ANY = Categories(())


def in_range(records: Records, nodes: Mapping[str, Node], counts: Mapping[str, int]) -> set[str]:
    """Return the names of integer tensors whose values all are codes of their words.

    Args:
        records: must be readable again.
        nodes: by column.
        counts: number of words, by tensor.
    """
    found = set(counts)
    for name, array in _leaves(records, nodes, counts):
        if name not in found:
            continue
        if types.is_dictionary(array.type):
            array = array.dictionary
        if not types.is_integer(array.type):
            found.discard(name)
            continue
        import pyarrow.compute as pc  # slow to import

        low, high = pc.min_max(array).as_py().values()
        if low is not None and not 0 <= low <= high < counts[name]:
            found.discard(name)
    return found


def _leaves(
    records: Records, nodes: Mapping[str, Node], names: Container[str]
) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of the tensors of these names; they may contain unused items."""
    chosen = {
        column: node
        for column, node in nodes.items()
        if any(place.leaf.name in names for place in places(node))
    }
    if not chosen:
        return
    for _, batch in records.batches(Wanted(list(chosen), BATCH_BYTES)):
        for column, node in chosen.items():
            for name, array in _of_node(batch.column(column), node):
                if name in names:
                    yield name, array


def _of_node(array: Any, node: Node) -> Iterator[tuple[str, Any]]:
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(node, Leaf):
        while types.is_fixed_size_list(array.type):
            array = array.values
        yield node.name, array
        return
    while isinstance(array, pa.DictionaryArray | pa.RunEndEncodedArray):
        array = array.dictionary if isinstance(array, pa.DictionaryArray) else array.values
    if not isinstance(node, Level):
        for number, below in node.fields:
            yield from _of_node(array.field(number), below)
    elif types.is_map(array.type):
        pairs = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        yield from _of_node(pairs, node.below)
    elif types.is_nested(array.type):
        yield from _of_node(array.values, node.below)
