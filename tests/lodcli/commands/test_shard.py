"""`lod shard`, and commands that read datasets."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.schema import tensor_of
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor


@pytest.fixture
def source(folder: Path) -> str:
    """t.lod.h5: 20 articles of sentences with their tags, and a label beside each article."""
    rng = np.random.default_rng(3)
    sentences = rng.integers(0, 4, 20)
    words = rng.integers(1, 6, sentences.sum())
    lod = LoD.from_lengths([sentences, words], ["article", "sentence"])
    data = LoDTensor(rng.random((words.sum(), 3)).astype(np.float32), lod)
    tags = LoDTensor(rng.integers(0, 9, words.sum()), lod)
    label = LoDTensor(np.arange(20, dtype=np.int8) % 3)
    io.write(folder / "t.lod.h5", {"data": data, "tags": tags, "label": label})
    return "t.lod.h5"


def test_concat_gives_back_what_was_divided(lod: Lod, source: str) -> None:
    done = lod("shard", source, "ds", "--shards", "4", "--json")
    assert done.code == 0, done.stderr
    (file,) = json.loads(done.stdout)["files"]
    assert (file["file"], file["format"]) == ("ds", "lod.dataset")
    assert [one["rows"] for one in file["tensors"]][2] == 20
    assert len(list(Path("ds").glob("data-*-of-00004.lod.h5"))) == 4
    assert lod("concat", "ds", "-o", "back.lod.h5").code == 0
    assert lod("diff", source, "back.lod.h5").code == 0
    assert lod("diff", source, "ds").code == 0


def test_no_shard_is_empty_beside_a_large_item(lod: Lod, folder: Path) -> None:
    lengths = [4, 1, 15]
    io.write("large.lod.h5", LoDTensor(np.arange(20), [lengths]))
    assert lod("shard", "large.lod.h5", "ds", "--shards", "2").code == 0
    shards = [io.read(path) for path in sorted(Path("ds").glob("data-*"))]
    found = [shard.recursive_sequence_lengths()[0] for shard in shards]
    assert [list(one) for one in found] == [[4, 1], [15]]


def test_few_first_or_last_items_need_only_their_shard(lod: Lod, source: str) -> None:
    lod("shard", source, "ds", "--shards", "4")
    Path("ds/data-00001-of-00004.lod.h5").unlink()
    for command in ("head", "tail"):
        assert lod(command, "ds", "-n", "3", "-o", "few.lod.h5", "-f").code == 0
        lod(command, source, "-n", "3", "-o", "expected.lod.h5", "-f")
        assert lod("diff", "few.lod.h5", "expected.lod.h5").code == 0
    done = lod("tail", "ds", "-n", "18")
    assert done.code == 1
    assert "data-00001-of-00004.lod.h5: is missing" in done.stderr


# What each writes, or reports, of a file and of a dataset of it.
LINES = [
    ("inspect", "{}"),
    ("slice", "{}", "7"),
    ("slice", "{}", "-3:"),
    ("slice", "{}", "--level", "sentence", "4:15"),
    ("slice", "{}", "0:15:2"),
    ("head", "{}", "-n", "3"),
    ("tail", "{}", "-n", "3"),
    ("filter", "{}", "label == 1"),
    ("sort", "{}", "--by", "length"),
    ("shuffle", "{}", "--seed", "3"),
    ("sample", "{}", "5", "--seed", "3"),
    ("select", "{}", "tags"),
    ("cast", "{}", "float64"),
    ("convert", "{}"),
    ("apply", "sum", "{}::data"),
    ("apply", "data - mean(data)", "{}"),
    ("run-rnn", "{}::data", "--cell", "gru", "--hidden", "2", "--seed", "1"),
    ("unpack", "{}::data"),
    ("plan", "{}", "--tokens", "50"),
    ("inspect", "{}", "--isolate"),
    ("slice", "{}", "7", "--isolate"),
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_every_command_reads_a_dataset_as_a_file(
    lod: Lod, source: str, line: tuple[str, ...]
) -> None:
    assert lod("shard", source, "ds", "--shard-size", "300").code == 0
    assert len(list(Path("ds").glob("data-*"))) > 3
    reports, contents = [], []
    for name in (source, "ds"):
        args = [arg.format(name) for arg in line]
        if line[0] in ("inspect", "plan"):
            done = lod(*args, "--json")
            report = json.loads(done.stdout)
            told = report.keys() - {"file", "format", "bytes"}
            reports.append({key: report[key] for key in told})
        else:
            done = lod(*args, "-q", "-f", "-o", "out.lod.h5")
            contents.append(io.read_all("out.lod.h5"))
        assert done.code == 0, done.stderr
    assert reports[:1] == reports[1:]
    one, other = contents or ({}, {})
    assert list(one) == list(other)
    for found, expected in zip(
        map(tensor_of, other.values()), map(tensor_of, one.values()), strict=True
    ):
        assert found.lod == expected.lod
        # Products of matrices may be rounded otherwise in batches of other sizes.
        close = line[0] in ("run-rnn", "apply")
        np.testing.assert_allclose(found.data, expected.data, rtol=1e-6 if close else 0)


def test_items_of_a_level_become_the_outermost(lod: Lod, source: str) -> None:
    assert lod("shard", source, "ds", "--level", "sentence", "--shards", "3").code == 0
    got, expected = tensor("ds", "data"), tensor(source, "data")
    assert got.lod.n_levels == 1
    assert got.lod.levels[0].tolist() == expected.lod.levels[1].tolist()


def test_a_pipe_is_divided_as_it_comes(lod: Lod, shell: Lod, source: str) -> None:
    assert shell(f"lod select {source} data | lod shard - ds --shard-size 200").code == 0
    assert shell(f"lod select {source} data | lod shard - ds2 --shards 5").code == 0
    assert len(list(Path("ds2").glob("data-*-of-00005.lod.h5"))) == 5
    for name in ("ds", "ds2"):
        assert lod("diff", f"{source}::data", name).code == 0


def test_only_a_dataset_is_replaced(lod: Lod, source: str) -> None:
    assert lod("shard", source, "ds").code == 0
    done = lod("shard", source, "ds")
    assert (done.code, "ds: exists already; use --force" in done.stderr) == (3, True)
    assert lod("shard", source, "ds", "--shards", "3", "--force").code == 0
    assert len(list(Path("ds").iterdir())) == 4
    Path("ds", "thesis.txt").write_text("mine")
    done = lod("shard", source, "ds", "--force")
    assert (done.code, "holds 'thesis.txt'" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--shards", "2", "--shard-size", "1M"], "--shards and --shard-size exclude each other"),
        (["--shards", "0"], "0 is not in the range"),
        (["--shard-size", "0"], "must hold at least 1 byte"),
        (["--shard-size", "many"], "is not a size"),
    ],
)
def test_impossible_sizes_are_refused(lod: Lod, source: str, args: list[str], said: str) -> None:
    done = lod("shard", source, "ds", *args)
    assert done.code == 2
    assert said in done.stderr
    assert not Path("ds").exists()


def test_a_folder_without_a_name_is_not_the_current_one(
    lod: Lod, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = os.path.abspath(source)
    assert lod("shard", source, "ds", "--shards", "2").code == 0
    monkeypatch.chdir("ds")
    done = lod("shard", source, "", "--shards", "3", "--force")
    assert (done.code, done.stdout) == (2, "")
    assert "'FOLDER': is empty; name a folder" in done.stderr
    assert len(os.listdir("../ds")) == 3


def test_shards_do_not_replace_what_they_are_made_of(lod: Lod, source: str) -> None:
    lod("shard", source, "ds", "--shards", "2")
    assert lod("shard", "ds", "ds", "--shards", "3", "--force").code == 0
    assert lod("diff", source, "ds").code == 0
