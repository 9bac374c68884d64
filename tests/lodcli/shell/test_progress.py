"""How much of the work is done, and how long the rest will take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell import progress
from lodcli.shell.opened import opened
from lodcli.shell.progress import passed_by, share_of
from lodcli.shell.references import Reference


def _shares(path: Path) -> list[float]:
    with opened(Reference(str(path))) as source:
        share = share_of(source.schema, source.read_share)
        found = [share(passed_by(batch)) for batch in source.source.batches(1 << 20)]
    assert None not in found
    return [one for one in found if one is not None]


@pytest.mark.parametrize("ending", [".lod.h5", ".npz", ".jsonl", ".jsonl.gz", ".parquet", ".idx"])
def test_the_share_of_a_file_that_was_read_grows_to_one(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 9999, 1_000_000).astype(np.int64)
    path = tmp_path / f"x{ending}"
    io.write(path, LoDTensor(data, LoD([np.arange(0, 1_000_001, 100)])))
    shares = _shares(path)
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.6
    assert shares[-1] == 1


def test_the_share_of_a_pipe_is_unknown() -> None:
    tensor = LoDTensor(np.arange(3), LoD.from_lengths([[2, 1]]))
    (spec,) = schema_of({"data": tensor})
    share = share_of((type(spec)("data", spec.dtype),))
    assert share(passed_by({"data": tensor})) is None


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "2,000 rows, 3.0 MB, 200 rows/s, 0.3 MB/s"),
        (0.5, "2,000 rows, 3.0 MB, 200 rows/s, 0.3 MB/s, 50%, 10 s left"),
        (0.1, "2,000 rows, 3.0 MB, 200 rows/s, 0.3 MB/s, 10%, 1:30 min left"),
        (1e-5, "2,000 rows, 3.0 MB, 200 rows/s, 0.3 MB/s, 0%, 277:46 h left"),
        (1.0, "2,000 rows, 3.0 MB, 200 rows/s, 0.3 MB/s, 100%, 0 s left"),
    ],
)
def test_the_time_left_is_what_the_rest_takes_at_this_speed(share: float | None, text: str) -> None:
    assert progress._described(2000, 3_000_000, 10.0, share) == text
