"""Options of ops that are larger than any array, or than 64 bits."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply.arguments import described
from lodcli.kernels.errors import LodError, OptionError
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.rnn.stack.stack import seeded_weights
from tests.cases_ops import on_every_backend
from tests.kernels.ops.op_arguments import arguments
from tests.kernels.ops.test_call_counts import ten_rows

HUGE = (2**62, 2**63 - 1, 2**63, 2**70, -(2**62), -(2**63), -(2**70), 10**30)
# The options of all ops that are whole numbers, or several of them.
OPTIONS = [
    (op, one.name, one.kind)
    for op in OPS
    for one in described(OPS[op]).options
    if one.kind in ("int", "ints", "level", "value", "values")
]


@on_every_backend
@pytest.mark.parametrize(("op", "name", "kind"), OPTIONS)
def test_a_huge_number_gives_a_result_or_an_error_of_lod(
    op: str, name: str, kind: str, backend: str
) -> None:
    own = described(OPS[op])
    given = {**arguments(op, ten_rows(op)), **({"backend": backend} if own.has_backend else {})}
    for number in HUGE:
        value = [number, *list(given.get(name, ()))[1:]] if kind in ("ints", "values") else number
        with suppress(LodError):
            own.function(**{**given, name: value})


@pytest.mark.parametrize("number", [2**62, 2**70])
def test_values_that_no_array_holds_are_named(number: int) -> None:
    pad = OPS["pad"].load()
    with pytest.raises(OptionError) as caught:
        pad(ten_rows("pad"), maxlen=number)
    assert str(caught.value) == (
        f"sequence_pad: maxlen: {number} is out of range: no array holds as many values"
    )


@pytest.mark.parametrize("size", ["hidden_size", "layers", "projection_size", "input_size"])
@pytest.mark.parametrize("number", [2**62, 2**70, -(2**70)])
def test_weights_of_a_huge_size_are_refused(size: str, number: int) -> None:
    sizes: dict[str, Any] = {"input_size": 3, "hidden_size": 2, size: number}
    with pytest.raises(LodError):
        seeded_weights("lstm", rng=np.random.default_rng(0), **sizes)
