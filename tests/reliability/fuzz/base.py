"""A valid file, folder or pair to be damaged, and its known content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.reliability.fuzz.known import Content

WEIGHTS = "weights"


@dataclass(frozen=True)
class Base:
    """A good file.

    Attributes:
        format: the format it is read as; WEIGHTS for the weights of an RNN.
        files: their content by name; names of a folder's files begin with `main/`.
        main: what is opened.
        content: what is in it, from the generator: never from our reader.
        sealed: whether a checksum covers all that matters: then damage that repairs none of
            them must be refused or harmless.
        sealed_parts: whether that holds as well of a slice that is read alone.
        options: the ReadOptions it is read with.
        kinds: which mutators a file gets; by name, else `format`.
        oracle: a function of `fuzz.oracles`, which reads a file without our code: tells whether
            other content, under repaired checksums, is what the file says.
    """

    format: str
    files: dict[str, bytes]
    main: str
    content: Content
    sealed: bool = False
    sealed_parts: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    oracle: str | None = None

    def kind(self, name: str) -> str:
        """Return the kind of one of the files, by which its mutators are chosen."""
        return self.kinds.get(name, self.format)


BASES: dict[str, Callable[[], Base]] = {}


def base(name: str) -> Callable[[Callable[[], Base]], Callable[[], Base]]:
    """Register a function that makes a base; it is made when asked for, once.

    Its name is that of its format, and behind a comma what is special about it.
    """

    def register(make: Callable[[], Base]) -> Callable[[], Base]:
        assert name not in BASES, name
        BASES[name] = cache(make)
        return make

    return register
