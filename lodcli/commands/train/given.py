"""The options of `lod train`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from lodcli.kernels.runtime.precision import Precision


class TrainOptions(TypedDict):
    """The options, by the names of the parameters of the command; None if one is not given."""

    out: str | None
    force: bool
    validation: str | None
    patience: int | None
    test: str | None
    labels: str
    level: int | str | None
    cell: str | None
    hidden: int | None
    layers: int | None
    heads: int | None
    bidirectional: bool
    pool: str | None
    embedding: int | None
    vocabulary: int | None
    standardize: bool
    weights: str | None
    epochs: int
    state: str | None
    until: int | None
    batch: int
    lr: float
    dropout: float
    clip: float
    seed: int
    threads: int | None
    device: str
    precision: Precision
    as_json: bool
