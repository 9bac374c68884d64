"""Twelve jobs as users type them: the installed `lod` in a shell, at most three calls each."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from tests.formats.cases.range_server import serving
from tests.lodcli.conftest import Done, in_bash

RNG = np.random.default_rng(20)
LENGTHS = RNG.integers(1, 130, 60).tolist()
RECORDS = [
    {"id": n, "ids": RNG.integers(0, 1000, length).tolist()} for n, length in enumerate(LENGTHS)
]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tokens.jsonl."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps(record) for record in RECORDS]
    Path("tokens.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def typed(line: str, code: int = 0) -> Done:
    """Run a line of bash, with at most three calls of lod."""
    assert line.count("lod ") <= 3
    done = in_bash(Path(), line)
    assert done.code == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def lines_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_tokens_become_packed_batches() -> None:
    typed(
        "lod plan -q tokens.jsonl::ids --tokens 512 --strategy pack --write packed.npz > plan.txt"
    )
    with np.load("packed.npz") as packed:
        rows, longest = packed["ids/data"], packed["max_seqlen"]
        ends, starts = packed["cu_seqlens/data"], packed["cu_seqlens/lod.0"]
        batches = packed["ids/lod.0"]
    found = []
    row = 0
    for batch, (first, last) in enumerate(pairwise(starts)):
        cu_seqlens = ends[first:last]
        assert cu_seqlens[0] == 0
        assert cu_seqlens[-1] <= 512
        assert len(cu_seqlens) - 1 == batches[batch + 1] - batches[batch]
        assert longest[batch] == np.diff(cu_seqlens).max()
        for begin, end in pairwise(cu_seqlens):
            found.append(rows[row + begin : row + end].tolist())
        row += int(cu_seqlens[-1])
    assert sorted(found) == sorted(record["ids"] for record in RECORDS)
    assert len(starts) - 1 <= np.ceil(sum(LENGTHS) / 512) * 1.1 + 1


def lstm(x: Any, weights: dict[str, Any]) -> Any:
    """Return the last state of torch's LSTM, step by step."""
    h = c = np.zeros(weights["weight_hh_l0"].shape[1])
    for row in x:
        gates = weights["weight_ih_l0"] @ row + weights["bias_ih_l0"]
        gates = gates + weights["weight_hh_l0"] @ h + weights["bias_hh_l0"]
        i, f, g, o = np.split(gates, 4)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
    return h


def test_a_folder_of_arrays_becomes_features_of_an_lstm() -> None:
    from safetensors.numpy import save_file

    shapes = {"weight_ih_l0": (20, 3), "weight_hh_l0": (20, 5), "bias_ih_l0": (20,)}
    shapes["bias_hh_l0"] = (20,)
    weights = {k: RNG.normal(size=shape).astype("f") / 3 for k, shape in shapes.items()}
    save_file(weights, "lstm.safetensors")
    Path("frames").mkdir()
    clips = [RNG.normal(size=(steps, 3)).astype("f") for steps in (4, 1, 6, 2)]
    for n, clip in enumerate(clips):
        np.save(f"frames/{n}.npy", clip)
    typed("lod concat -q frames/*.npy --new-level clip -o clips.lod.h5")
    typed("lod run-rnn -q clips.lod.h5 --weights lstm.safetensors --emit last -o features.npy")
    expected = [lstm(clip, weights) for clip in clips]
    np.testing.assert_allclose(np.load("features.npy"), expected, atol=1e-5)  # float32


@pytest.mark.slow
def test_a_dataset_is_filtered_shuffled_and_split() -> None:
    datasets = pytest.importorskip("datasets")
    pq = pytest.importorskip("pyarrow.parquet")
    datasets.Dataset.from_list(RECORDS).save_to_disk("dataset")
    found = json.loads(typed("lod inspect dataset::ids --json").stdout)
    assert str(max(LENGTHS)) in json.dumps(found)
    typed("lod filter -q dataset '10 <= length(ids) <= 100' -o kept.lod.h5")
    split = "lod split -q kept.lod.h5 --by fractions 0.8,0.1,0.1 --seed 7 -o"
    typed(f"{split} '{{train,valid,test}}.parquet'")
    typed(f"{split} 'again-{{train,valid,test}}.parquet'")
    parts = {
        name: pq.read_table(f"{name}.parquet").to_pylist() for name in ("train", "valid", "test")
    }
    kept = [record for record in RECORDS if 10 <= len(record["ids"]) <= 100]
    together = [record for part in parts.values() for record in part]
    assert sorted(together, key=lambda one: one["id"]) == kept
    assert [one["id"] for one in together] != [one["id"] for one in kept]
    assert abs(len(parts["train"]) - 0.8 * len(kept)) <= 1
    assert pq.read_table("again-train.parquet").to_pylist() == parts["train"]


def test_differences_of_two_tokenizations_are_shown() -> None:
    other = [dict(record) for record in RECORDS]
    other[3] = {"id": 3, "ids": [*RECORDS[3]["ids"], 7]}
    other[5] = {"id": 5, "ids": [RECORDS[5]["ids"][0] + 1, *RECORDS[5]["ids"][1:]]}
    Path("other.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in other))
    done = typed("lod diff tokens.jsonl::ids other.jsonl::ids", 1)
    length = LENGTHS[3]
    assert done.stdout == f"ids: level 0 item 3: length: {length} against {length + 1}\n"
    assert typed("lod diff tokens.jsonl tokens.jsonl").stdout == ""


def test_two_tensors_over_one_index_go_into_one_file() -> None:
    masks = [{"mask": [n % 2 for n in record["ids"]]} for record in RECORDS]
    Path("masks.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in masks))
    typed("lod merge -q tokens.jsonl masks.jsonl -o both.lod.h5")
    found = lines_of(typed("lod head both.lod.h5 -q -n 60 --to jsonl").stdout)
    wanted = [{**one, **two} for one, two in zip(RECORDS, masks, strict=True)]
    assert [dict(sorted(one.items())) for one in found] == [
        dict(sorted(one.items())) for one in wanted
    ]


def test_the_longest_sequences_are_shown() -> None:
    line = "lod sort -q tokens.jsonl --by '-length(ids)' | lod head - -q -n 3 --to jsonl"
    longest = sorted(RECORDS, key=lambda one: -len(one["ids"]))[:3]
    assert lines_of(typed(line).stdout) == longest


def test_unsorted_events_become_a_table_with_the_names_of_users() -> None:
    pd = pytest.importorskip("pandas")
    users = np.array(["ann", "bob", "zoë", "li, jr"])[RNG.integers(0, 4, 200)]
    frame = pd.DataFrame({"user": users, "value": RNG.normal(size=200).round(3)})
    frame.to_csv("events.csv", index=False)
    typed(
        "lod group -q events.csv --by user | lod apply 'mean(value)' - -q --into mean"
        " | lod apply 'softmax(value)' - -q --into weight -o users.parquet"
    )
    found = pd.read_parquet("users.parquet")
    groups = frame.groupby("user")["value"]
    assert found["user"].tolist() == sorted(set(users), key=str.encode)
    for user, mean, weight in zip(found["user"], found["mean"], found["weight"], strict=True):
        values = groups.get_group(user).to_numpy()
        assert mean == pytest.approx(values.mean())
        np.testing.assert_allclose(weight, np.exp(values) / np.exp(values).sum())


@pytest.mark.slow
def test_a_trained_lstm_of_torch_gives_a_csv_row_a_sequence() -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    torch.manual_seed(1)
    model = torch.nn.LSTM(2, 4, batch_first=True)
    save_file(model.state_dict(), "model.safetensors")
    sequences = [RNG.normal(size=(steps, 2)).astype("f") for steps in (3, 1, 5)]
    lodcli.write("steps.npz", lodcli.LoDTensor(np.concatenate(sequences), [[3, 1, 5]]))
    line = "lod run-rnn -q steps.npz --weights model.safetensors --emit last"
    typed(f"{line} | lod convert - -q --to csv --wide > states.csv")
    found = np.loadtxt("states.csv", delimiter=",", skiprows=1)
    assert found.shape == (3, 4)
    for row, sequence in zip(found, sequences, strict=True):
        with torch.no_grad():
            _, (state, _) = model(torch.from_numpy(sequence)[None])
        np.testing.assert_allclose(row, state[0, 0].numpy(), atol=1e-5)  # float32


def test_a_makefile_builds_what_changed_and_stops_at_damage() -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    Path("Makefile").write_text(
        "all: tokens.lod.h5 broken.lod.h5\n%.lod.h5: %.jsonl\n\tlod convert -q $< -f -o $@\n"
    )
    Path("broken.jsonl").write_text('{"ids": [1]}\n{"ids": [1, "x"]}\n')
    failed = typed("make", 2)
    assert "lod convert: broken.jsonl: line 2" in failed.stderr
    assert Path("tokens.lod.h5").exists()
    assert not Path("broken.lod.h5").exists()
    Path("broken.jsonl").write_text('{"ids": [1]}\n')
    assert "tokens" not in typed("make").stdout
    typed("ls *.lod.h5 | xargs -n 1 -P 2 lod verify -q")


def test_a_pipeline_fails_if_any_stage_does() -> None:
    Path("cut.jsonl").write_text('{"ids": [1]}\n{"ids": [1\n')
    done = typed("lod filter -q cut.jsonl 'length(ids) > 0' | lod convert - out.parquet -q", 1)
    assert "lod filter: cut.jsonl: line 2" in done.stderr
    assert not Path("out.parquet").exists()


def test_from_python_into_numpy_and_awkward() -> None:
    ak = pytest.importorskip("awkward")
    ids = lodcli.read("tokens.jsonl::ids")
    assert isinstance(ids, lodcli.LoDTensor)
    wanted = [record["ids"] for record in RECORDS]
    assert [one.tolist() for one in ids.to_arrays()] == wanted
    assert ak.to_list(ids.to_awkward()) == wanted
    padded, lengths = ids.to_padded()
    assert lengths.tolist() == LENGTHS
    assert padded[2, : LENGTHS[2]].tolist() == wanted[2]


def test_from_python_into_torch() -> None:
    torch = pytest.importorskip("torch")
    ids = lodcli.read("tokens.jsonl::ids")
    assert isinstance(ids, lodcli.LoDTensor)
    nested = ids.to_torch()
    assert torch.equal(nested[4], torch.tensor(RECORDS[4]["ids"]))


def test_a_nightly_job_fails_loudly_and_leaves_the_old_file() -> None:
    Path("nightly.sh").write_text(
        "set -e\nlod convert -q tokens.jsonl out.lod.h5 --force\nlod verify -q out.lod.h5\n"
    )
    typed("bash nightly.sh")
    before = Path("out.lod.h5").read_bytes()
    whole = Path("tokens.jsonl").read_text()
    Path("tokens.jsonl").write_text(whole[: len(whole) // 2])
    done = typed("bash nightly.sh", 1)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("lod convert: tokens.jsonl: line ")
    assert Path("out.lod.h5").read_bytes() == before
    Path("out.lod.h5").write_bytes(before[:-200] + bytes(100) + before[-100:])
    assert "out.lod.h5" in typed("lod verify -q out.lod.h5", 1).stderr


@pytest.mark.parametrize("source", ["yes '[1, 2]' |", "(echo a,b; yes 1,2) |"])
def test_a_quick_look_reads_no_more_than_it_shows(source: str) -> None:
    kind = "jsonl" if "[" in source else "csv"
    done = typed(f"({source} lod head - --from {kind} -q -n 2 --to jsonl) || test $? = 141")
    assert len(lines_of(done.stdout)) == 2


def test_a_quick_look_at_a_url_fetches_no_more_than_it_shows(tmp_path: Path) -> None:
    pytest.importorskip("urllib3")
    lengths = [40] * 5000
    tensor = lodcli.LoDTensor(np.zeros((200_000, 8), np.float32), [lengths])
    lodcli.write(tmp_path / "t.lod.h5", tensor)
    whole = (tmp_path / "t.lod.h5").read_bytes()
    with serving(**{"t.lod.h5": whole}) as server:
        done = typed(f"lod head {server.url}/t.lod.h5 -q -n 2 --to jsonl")
    assert len(lines_of(done.stdout)) == 2
    assert server.sent < len(whole) / 8
