"""Parser of the SPEC of nested RNNs: article:gru:64/sentence:gru:32:boot."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from lodcli.kernels.errors import OptionError, SelectionError
from lodcli.kernels.options import option
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.rnn.nested.state_dict import LevelShape, seeded_nested

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_FLAGS = ("bidirectional", "reverse", "boot")
_EXAMPLE = "article:gru:64/sentence:lstm:32:layers=2:boot"


def parse_nested(text: str) -> tuple[LevelShape, ...]:
    """Return the RNNs of a SPEC, outermost first.

    A SPEC is one RNN or several, separated by "/". An RNN is a level, then its options,
    separated by ":", in any order: a cell, a hidden size, layers=N, bidirectional, reverse,
    boot.

    Raises:
        SelectionError: a word is not one of these; names it.

    >>> outer, inner = parse_nested("article/sentence:gru:32:boot")
    >>> (outer.level, outer.cell), (inner.cell, inner.hidden, inner.boot)
    (('article', None), ('gru', 32, True))
    """
    return tuple(_parse_one(part, text) for part in text.split("/"))


def require_seedable(shapes: Sequence[LevelShape], text: str) -> None:
    """Raise an error if RNNs cannot have random weights, whatever they run over.

    Args:
        shapes: outermost first.
        text: the SPEC, for messages.

    Raises:
        OptionError: one has no cell or no hidden size, or a boot that does not work.
    """
    # With states of one value, which take no time; the conditions do not depend on the sizes.
    small = [dataclasses.replace(shape, hidden=shape.hidden and 1) for shape in shapes]
    try:
        seeded_nested(small, 1, rng=np.random.default_rng(0))
    except OptionError as error:
        said = str(error).removeprefix("nested, ")
        raise OptionError(f"{option('nested', text)}: {said}") from None


def _parse_one(part: str, text: str) -> LevelShape:
    name, *words = (word.strip() for word in part.split(":"))
    if not name:
        raise SelectionError(f"--nested {text!r}: an RNN begins with its level, as in {_EXAMPLE}")
    shape = LevelShape(int(name) if _NUMBER.fullmatch(name) else name, name)
    said: dict[str, Any] = {}
    for word in words:
        key, value = _parse_word(word, text)
        if key in said:
            raise SelectionError(f"--nested {text!r}: {name}: {key} appears twice")
        said[key] = value
    return dataclasses.replace(shape, **said)


def _parse_word(word: str, text: str) -> tuple[str, Any]:
    if word in CELLS:
        return "cell", word
    if word in _FLAGS:
        return word, True
    key, equals, number = word.partition("=")
    if not equals:
        key, number = "hidden", word
    if key in ("hidden", "layers") and _NUMBER.fullmatch(number) and int(number) > 0:
        return key, int(number)
    known = ", ".join((*CELLS, *_FLAGS))
    raise SelectionError(
        f"--nested {text!r}: {word!r} is not a cell, a hidden size or an option; use {known}, "
        f"layers=N or a number, as in {_EXAMPLE}"
    )
