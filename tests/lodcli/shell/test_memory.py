"""`--memory`: the same bytes with a small budget, and refusals before a row is read."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.errors import TooLargeError
from lodcli.formats.core.schema import StoredArray
from lodcli.formats.json.compiled_reader import Blocks
from lodcli.formats.storage.inputs import Input
from lodcli.formats.text.lines import LineReader
from lodcli.formats.tfrecord.frames import framed
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.ranking.rank_table import sequence_rank_table
from lodcli.kernels.runtime.memory_budget import memory_budget, within_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.lodcli.conftest import Lod, tensor
from tests.slow import one_in

ROWS = 300_000
COMMANDS = {
    "convert": "convert big.lod.h5 OUT.lod.h5",
    "jsonl": "convert labels.lod.h5 OUT.jsonl",
    "slice": "slice big.lod.h5 5:900 -o OUT.lod.h5",
    "slice backwards": "slice big.lod.h5 ::-1 -o OUT.lod.h5",
    "rows": "slice big.lod.h5 2,: -o OUT.lod.h5",
    "head": "head big.lod.h5 -n 900 -o OUT.lod.h5",
    "tail": "tail big.lod.h5 -n 900 -o OUT.lod.h5",
    "filter": "filter big.lod.h5 mean(data)>0 -o OUT.lod.h5",
    "sample": "sample big.lod.h5 500 --seed 1 -o OUT.lod.h5",
    "shuffle": "shuffle big.lod.h5 --seed 1 -o OUT.lod.h5",
    "sort": "sort big.lod.h5 -o OUT.lod.h5",
    "cast": "cast big.lod.h5 float64 -o OUT.lod.h5",
    "concat": "concat big.lod.h5 big.lod.h5 -o OUT.lod.h5",
    "merge": "merge big.lod.h5 labels.lod.h5::label -o OUT.lod.h5",
    "group": "group labels.lod.h5 --by label -o OUT.lod.h5",
    "apply": "apply reverse big.lod.h5 -o OUT.lod.h5",
    "expression": "apply data*2 big.lod.h5 --into twice -o OUT.lod.h5",
    "two files": "apply add big.lod.h5 big.lod.h5 -o OUT.lod.h5",
    "unpack": "unpack big.lod.h5 -o OUT.lod.h5",
    "unpack in order": "unpack big.lod.h5 --no-sort -o OUT.lod.h5",
    "unpack jsonl": "unpack big.jsonl -o OUT.lod.h5",
    "pack": "pack steps.lod.h5 -o OUT.lod.h5",
    "steps": "convert steps.lod.h5 OUT.lod.h5",
    "reorder_by_rank": "apply reorder_by_rank big.lod.h5 --table table.lod.h5 -o OUT.lod.h5",
    "sorted by length": "apply sort_by_length big.lod.h5 -o OUT.lod.h5",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of 5 MB, and one with an item of 1.6 MB."""
    folder = tmp_path_factory.mktemp("memory")
    random = np.random.default_rng(3)
    lengths = random.integers(0, 600, 1000)
    rows = int(lengths.sum())
    data = random.integers(-9, 9, (rows, 4)).astype(np.float32)
    io.write(folder / "big.lod.h5", LoDTensor(data, [lengths.tolist()]))
    big = LoDTensor(data, [lengths.tolist()])
    array, index_map = TensorArray.unpack(big)
    io.write(folder / "steps.lod.h5", StoredArray(array, index_map))
    io.write(folder / "big.jsonl", big)
    io.write(folder / "table.lod.h5", LoDTensor(sequence_rank_table(big.lod)))
    io.write(folder / "labels.lod.h5", {"label": LoDTensor(random.integers(0, 9, lengths.size))})
    one = LoDTensor(np.zeros(ROWS), [[10, 200_000, ROWS - 200_010]])
    io.write(folder / "one.lod.h5", one)
    io.write(folder / "one.lods", one)
    return folder


@pytest.fixture(autouse=True)
def _here(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)


def content(path: str) -> int:
    return zlib.crc32(Path(path).read_bytes())


@pytest.mark.parametrize("name", one_in(3, COMMANDS))
def test_a_small_budget_gives_the_same_bytes(name: str, lod: Lod, tmp_path: Path) -> None:
    found = []
    for memory in ("1G", "1M"):
        args = COMMANDS[name].replace("OUT", str(tmp_path / memory)).split()
        assert lod(*args, "--memory", memory).code == 0
        (out,) = tmp_path.glob(f"{memory}*")
        found.append(content(str(out)))
    assert found[0] == found[1]
    assert memory_budget() is None


def test_an_item_larger_than_the_budget_is_named(lod: Lod, tmp_path: Path) -> None:
    out = tmp_path / "out.lod.h5"
    args = ["convert", "one.lod.h5", out, "--compress", "--memory"]
    done = lod(*args, "4M")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr == (
        "lod convert: one.lod.h5: data: item 1: 1600000 bytes, of which memory holds up to 3 "
        "copies; the budget is 4M, --memory 5M is enough\n"
    )
    assert not out.exists()
    assert lod(*args, "5M").code == 0


@pytest.mark.parametrize("command", ["shuffle", "head", "filter length()>5", "apply sum"])
def test_every_way_of_reading_refuses_it(command: str, lod: Lod, tmp_path: Path) -> None:
    name, *words = command.split()
    args = [name, "one.lod.h5", *words] if name == "filter" else [name, *words, "one.lod.h5"]
    done = lod(*args, "-o", tmp_path / "out.lod.h5", "--memory", "4M")
    assert done.code == 1
    assert "item 1: 1600000 bytes" in done.stderr


@pytest.mark.parametrize("suffix", ["lods", "npz", "jsonl", "parquet", "arrow", "tfrecord", "tar"])
def test_every_format_refuses_it(suffix: str, lod: Lod, tmp_path: Path) -> None:
    rows = np.zeros(ROWS, np.int64)
    io.write(tmp_path / f"one.{suffix}", LoDTensor(rows, [[10, 200_000, ROWS - 200_010]]))
    done = lod("verify", tmp_path / f"one.{suffix}", "--memory", "4M")
    assert done.code == 1
    what = "its content" if suffix == "tar" else "item 1"
    assert re.search(rf"{what}: 1600\d\d\d bytes.* --memory 5M is enough", done.stderr)
    assert lod("verify", tmp_path / f"one.{suffix}", "--memory", "5M").code == 0


@pytest.mark.parametrize(
    ("dtype", "size_bytes", "less", "enough"),
    # Whole numbers of 8 bits are decoded as 32.
    [("int64", 8 * ROWS, "7M", "12M"), ("int8", 4 * ROWS, "5M", "6M")],
)
def test_records_of_parquet_are_refused_before_they_are_decoded(
    dtype: str, size_bytes: int, less: str, enough: str, lod: Lod, tmp_path: Path
) -> None:
    io.write(tmp_path / "one.parquet", LoDTensor(np.zeros(ROWS, dtype), [[ROWS]]))
    for command in ("inspect", "verify"):
        done = lod(command, tmp_path / "one.parquet", "--memory", less)
        assert done.code == 1
        assert done.stderr.endswith(
            f"one.parquet: the record of row group 0: {size_bytes} bytes, of which memory holds up "
            f"to 5 copies; the budget is {less}, --memory {enough} is enough\n"
        )
        assert lod(command, tmp_path / "one.parquet", "--memory", enough).code == 0


def test_rows_are_the_items_of_a_tensor_without_levels(lod: Lod, tmp_path: Path) -> None:
    io.write(tmp_path / "rows.lods", LoDTensor(np.zeros((3, 400_000))))
    done = lod("verify", tmp_path / "rows.lods", "--memory", "9M")
    assert "data: item 0: 3200000 bytes" in done.stderr
    assert lod("verify", tmp_path / "rows.lods", "--memory", "10M").code == 0


LARGE = {
    "jsonl": (b"[1]\n[" + b"1," * 2_000_000 + b"1]\n", "line 2: at least"),
    "csv": (b"k,v\n1,1\n" + b"2,1\n" * 800_000, "the item that begins on line 3: at least"),
    "txt": (b"a\n\n" + b"a b\n" * 900_000, "an article: at least"),
    "tfrecord": (b"".join(framed(b"") + framed(bytes(3 << 20))), "record 1: 3145744 bytes"),
}


@pytest.mark.parametrize("suffix", LARGE)
def test_an_item_is_refused_before_all_of_it_is_read(suffix: str, lod: Lod, tmp_path: Path) -> None:
    data, what = LARGE[suffix]
    path = tmp_path / f"one.{suffix}"
    path.write_bytes(data)
    levels = ["--levels", "k"] if suffix == "csv" else []
    args = ["convert", path, tmp_path / "out.lod.h5", *levels, "--memory", "4M"]
    done = lod(*args)
    assert done.code == 1
    assert f"one.{suffix}: {what}" in done.stderr


def test_the_compiled_scanner_refuses_a_line_without_an_end(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"1\n" * 1000 + b"1," * 2_000_000)
    with Input(tmp_path / "lines") as file, within_budget(4 << 20):
        blocks = Blocks(LineReader(file), 1000)
        assert blocks.next() is not None
        with pytest.raises(TooLargeError, match=r"^line 1001: at least"):
            list(iter(blocks.next, None))


def test_an_item_too_large_for_a_slice_is_read_as_a_range(lod: Lod, tmp_path: Path) -> None:
    done = lod("slice", "one.lod.h5", "1", "-o", tmp_path / "item.lod.h5", "--memory", "4M")
    assert done.code == 1
    assert "the slice of data: 1600000 bytes" in done.stderr
    assert "--memory 5M is enough" in done.stderr
    args = ["slice", "one.lod.h5", "1,0:", "-o", tmp_path / "rows.lod.h5", "--memory", "1M"]
    assert lod(*args).code == 0
    assert tensor(tmp_path / "rows.lod.h5").rows == 200_000


@pytest.mark.parametrize("order", ["key", "first"])
def test_a_group_larger_than_the_budget_is_named(order: str, lod: Lod, tmp_path: Path) -> None:
    user = LoDTensor.from_lists(["bob"] * 20_000 + ["ann"] * 5)
    io.write(tmp_path / "in.lod.h5", {"user": user, "v": LoDTensor(np.zeros((20_005, 20)))})
    args = ["group", tmp_path / "in.lod.h5", "--by", "user", "--order", order]
    done = lod(*args, "-o", tmp_path / "out.lod.h5", "--memory", "4M")
    assert (done.code, done.stdout) == (1, "")
    place = re.escape(f"lod group: {tmp_path}/in.lod.h5: the group of user='bob': at least ")
    copies = "[0-9]+ bytes, of which memory holds up to 3 copies; the budget is 4M, set a larger "
    assert re.fullmatch(f"{place}{copies}one with --memory\n", done.stderr)
    assert not (tmp_path / "out.lod.h5").exists()
    assert lod(*args, "-o", tmp_path / "out.lod.h5", "--memory", "16M").code == 0


def test_matches_larger_than_the_budget_are_named(lod: Lod, tmp_path: Path) -> None:
    zeros = LoDTensor(np.zeros(20_000, np.int64))
    io.write(tmp_path / "few.lod.h5", {"id": LoDTensor(np.arange(3))})
    io.write(tmp_path / "many.lod.h5", {"id": zeros, "v": LoDTensor(np.zeros((20_000, 20)))})
    args = ["join", tmp_path / "few.lod.h5", tmp_path / "many.lod.h5", "--on", "id", "-f", "-o"]
    done = lod(*args, tmp_path / "out.lod.h5", "--memory", "4M")
    assert (done.code, done.stdout) == (1, "")
    files = f"{tmp_path}/few.lod.h5 and {tmp_path}/many.lod.h5"
    assert done.stderr.startswith(f"lod join: {files}: the matches of id=0: at least ")
    assert done.stderr.endswith("; the budget is 4M, set a larger one with --memory\n")
    assert lod(*args, tmp_path / "out.lod.h5", "--memory", "16M").code == 0
    for how in ("semi", "anti"):
        assert lod(*args, tmp_path / "out.lod.h5", "--memory", "1M", "--how", how).code == 0


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("order", ["key", "first"])
def test_a_group_near_the_end_of_the_file_is_named(
    order: str, more: int, lod: Lod, tmp_path: Path
) -> None:
    user = LoDTensor.from_lists(["bob"] * 9600 + ["carol"] * more)
    io.write(tmp_path / "in.lod.h5", {"user": user, "v": LoDTensor(np.zeros((9600 + more, 19)))})
    args = ["group", tmp_path / "in.lod.h5", "--by", "user", "--order", order]
    done = lod(*args, "-o", tmp_path / "out.lod.h5", "--memory", "4M")
    assert done.code == 1
    assert done.stderr.startswith(f"lod group: {tmp_path}/in.lod.h5: the group of user='bob': ")


def test_matches_of_other_keys_do_not_count(lod: Lod, tmp_path: Path) -> None:
    ids = LoDTensor(np.concatenate([np.arange(2500), np.full(6000, 2500)]))
    io.write(tmp_path / "few.lod.h5", {"id": LoDTensor(np.arange(2501))})
    io.write(tmp_path / "many.lod.h5", {"id": ids, "v": LoDTensor(np.zeros((8500, 20)))})
    args = ["join", tmp_path / "few.lod.h5", tmp_path / "many.lod.h5", "--on", "id", "-o"]
    assert lod(*args, tmp_path / "out.lod.h5", "--memory", "4M").code == 0
    assert io.read_all(tmp_path / "out.lod.h5")["v"].rows == 8500


def test_one_copy_is_not_called_copies(lod: Lod, tmp_path: Path) -> None:
    io.write(tmp_path / "in.lod.h5", LoDTensor.from_lists([f"{i:06}" for i in range(40_000)]))
    done = lod("sort", tmp_path / "in.lod.h5", "--by", "data", "--memory", "1M")
    assert done.code == 1
    assert re.search(": 40000 texts: [0-9]+ bytes; the budget is 1M, --memory 3M is", done.stderr)


def test_whole_tensors_are_refused_before_a_row_is_read(lod: Lod, tmp_path: Path) -> None:
    damaged = bytearray(Path("big.lod.h5").read_bytes())
    damaged[len(damaged) // 2] ^= 1  # found only by who reads it
    Path("damaged.lod.h5").write_bytes(damaged)
    args = ["apply", "scatter", "damaged.lod.h5", "big.lod.h5", "labels.lod.h5"]
    done = lod(*args, "-o", tmp_path / "out.lod.h5", "--memory", "2M")
    assert done.code == 1
    assert "of which memory holds up to 3 copies; the budget is 2M, --memory" in done.stderr
    done = lod(*args, "-o", tmp_path / "out.lod.h5")
    assert "were altered" in done.stderr


def test_an_unknown_number_of_rows_is_counted_as_they_come(shell: Lod, data: Path) -> None:
    done = shell(f"lod apply sort_by_length - -o o.lod.h5 --memory 4M < {data}/one.lods")
    assert done.code == 1
    assert "the budget is 4M" in done.stderr


def test_the_variable_counts_and_the_option_goes_before_it(shell: Lod, data: Path) -> None:
    line = f"lod convert {data}/one.lod.h5 out.lod.h5 --compress -f"
    done = shell(line, LOD_MEMORY="4M")
    assert (done.code, "the budget is 4M" in done.stderr) == (1, True)
    assert shell(f"{line} --memory 5M", LOD_MEMORY="4M").code == 0
    done = shell(line, LOD_MEMORY="much")
    assert done.code == 2
    assert "LOD_MEMORY: expected a size of 1M or more, found 'much'" in done.stderr


@pytest.mark.parametrize("text", ["0", "1023K", "-5M", "much"])
def test_an_invalid_budget_is_an_error(text: str, lod: Lod) -> None:
    done = lod("inspect", "one.lod.h5", "--memory", text)
    assert done.code == 2
    assert done.stderr.count("\n") == 1


def test_processes_share_the_budget(shell: Lod, data: Path) -> None:
    assert shell(f"lod shard {data}/one.lod.h5 shards --shards 2").code == 0
    done = shell("lod apply reverse shards --jobs 2 -o out --memory 8M", LOD_THREADS="2")
    assert "the budget is 4M" in done.stderr
    assert shell("lod apply reverse shards --jobs 2 -o out --memory 10M", LOD_THREADS="2").code == 0


def test_damage_in_large_steps_is_found(lod: Lod, tmp_path: Path) -> None:
    data = bytearray(Path("steps.lod.h5").read_bytes())
    assert lod("verify", "steps.lod.h5", "--memory", "1M").code == 0
    data[len(data) // 2] ^= 1
    (tmp_path / "damaged.lod.h5").write_bytes(data)
    for command in (["verify"], ["pack", "-o", tmp_path / "out.lod.h5"]):
        done = lod(*command, tmp_path / "damaged.lod.h5", "--memory", "1M")
        assert done.code == 1
        assert "damaged.lod.h5: /data: rows" in done.stderr
        assert "were altered" in done.stderr


def test_steps_in_a_pipe_come_whole(shell: Lod, data: Path) -> None:
    done = shell(f"lod convert {data}/steps.lod.h5 - | lod pack - -o o.lod.h5 --memory 1M")
    assert done.code == 1
    assert "the budget is 1M" in done.stderr


@pytest.mark.slow
def test_an_rnn_computes_the_same_in_smaller_batches(lod: Lod, tmp_path: Path) -> None:
    found = []
    for memory in ("1G", "1M"):
        out = tmp_path / f"{memory}.lod.h5"
        args = ["run-rnn", "big.lod.h5", "--cell", "gru", "--hidden", "4", "--seed", "1"]
        assert lod(*args, "-o", out, "--memory", memory).code == 0
        found.append(tensor(out))
    assert found[0].lod == found[1].lod
    # Matrix products of other sizes add in another order.
    np.testing.assert_allclose(found[0].data, found[1].data, rtol=1e-5, atol=1e-6)


def test_an_error_in_a_later_batch_says_from_which_item_the_op_counts(
    lod: Lod, folder: Path
) -> None:
    lengths = np.full(4000, 20)
    lengths[3500] = 21
    rows = np.zeros((lengths.sum(), 4), np.float32)
    io.write("odd.lod.h5", LoDTensor(rows, LoD.from_lengths([lengths])))
    args = ["apply", "reshape", "odd.lod.h5", "--new-dim", "8", "-o", "out.lod.h5"]
    assert "h5: sequence_reshape: sequence 3500 has 84 values" in lod(*args).stderr
    said = lod(*args, "--memory", "1M").stderr
    found = re.search(r"of the items from (\d+) on: sequence_reshape: sequence (\d+) has 84", said)
    assert found, said
    assert int(found[1]) + int(found[2]) == 3500
    assert int(found[1]) > 0
    assert not Path("out.lod.h5").exists()
