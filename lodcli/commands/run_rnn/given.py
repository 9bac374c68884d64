"""The options of `lod run-rnn`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from lodcli.kernels.runtime.precision import Precision


class RunOptions(TypedDict):
    """The options, by the names of the parameters of the command; None if one is not given."""

    cell: str | None
    hidden: int | None
    layers: int | None
    heads: int | None
    bidirectional: bool
    seed: int | None
    path: str | None
    nonlinearity: str | None
    coupled: bool
    nested: str | None
    step: str | None
    level: int | str | None
    reverse: bool
    emit: str
    h0: str | None
    c0: str | None
    grad: bool
    upstream: str | None
    checkpoint: int | None
    truncate: int | None
    dtype: str | None
    threads: int | None
    device: str
    precision: Precision
    stats: bool
