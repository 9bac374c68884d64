"""Lists of equal lengths as rows: `lod convert --levels`, and errors that name it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lodcli
from lodcli import LoD, LoDTensor
from tests.lodcli.conftest import Lod

ROWS = np.arange(27.0).reshape(9, 3)
POINTS = LoDTensor(ROWS.reshape(-1), [[3, 0, 5, 1], [3] * 9])


def test_a_pipe_is_read_once(shell: Lod, folder: Path) -> None:
    labels = LoDTensor(np.arange(4))
    lodcli.write(folder / "a.lods", {"points": POINTS, "label": labels})
    table = pa.table({"points": POINTS.to_arrow(), "label": labels.data})
    pq.write_table(table, folder / "a.parquet")
    for name in ("a.lods", "a.parquet"):
        assert shell(f"cat {name} | lod convert - b.lod.h5 -f --levels track").clean
        found = lodcli.read_all(folder / "b.lod.h5")
        np.testing.assert_array_equal(found["points"].data, ROWS)
        assert found["points"].lod.names == ("track",)
        assert found["label"].data.tolist() == [0, 1, 2, 3]


def test_train_and_run_rnn_name_the_command_that_makes_rows(lod: Lod, folder: Path) -> None:
    points = LoDTensor(POINTS.data[:9], [[1, 2], [3] * 3])
    lodcli.write("lists.parquet", {"points": points, "label": LoDTensor(np.array([0, 1]))})
    done = lod("train", "lists.parquet", "-o", "m", "--epochs", "1")
    command = "lod convert lists.parquet ROWS.lod.h5 --levels level0"
    said = f"; --level 0 has as many sequences; if the 3 rows of each are one: {command}\n"
    assert (done.code, done.stderr.endswith(said)) == (1, True), done.stderr
    assert lod(*command.split()[1:]).code == 0
    assert lod("train", "ROWS.lod.h5", "-o", "m", "--epochs", "1", "--hidden", "2").code == 0
    done = lod("run-rnn", "lists.parquet::points", "--weights", "m", "-o", "o.npz")
    assert done.code == 1
    assert (
        "points: expected rows of 3 values for m, found 1; if the 3 rows of each finest sequence "
        in done.stderr
    )
    assert done.stderr.endswith(f"are one: {command}\n")


def test_the_command_that_makes_rows_can_be_pasted(lod: Lod, shell: Lod, folder: Path) -> None:
    points = LoDTensor(POINTS.data[:9], LoD.from_lengths([[1, 2], [3] * 3], ["track", None]))
    lodcli.write("two words.lod.h5", {"points": points, "label": LoDTensor(np.array([0, 1]))})
    done = lod("train", "two words.lod.h5", "-o", "m", "--epochs", "1")
    command = "lod convert 'two words.lod.h5' ROWS.lod.h5 --levels track\n"
    assert done.stderr.endswith(command)
    done = shell("cat 'two words.lod.h5' | lod train - -o m --epochs 1")
    assert done.stderr.endswith(command.replace("'two words.lod.h5'", "-"))
