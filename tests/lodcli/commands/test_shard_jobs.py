"""`--jobs` of commands that write: shards of a dataset, computed in several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.dataset.manifest import shard_name
from lodcli.formats.storage import journal
from lodcli.formats.storage.partials import partials_in
from lodcli.kernels.runtime import worker_processes
from lodcli.shell.jobs import by_shards
from tests.hanging import HANG_SECONDS, wait_for
from tests.lodcli.conftest import Lod, tensor
from tests.lodcli.shard_cases import (
    RUN,
    SHARDS,
    STEP,
    Content,
    assert_same,
    check_continuing,
    check_kills,
    content,
    flip_a_row,
    hold,
    inodes,
    make_dataset,
    model,
    needs_proc,
    running,
    spawned_by,
    wait_until_gone,
)
from tests.reliability.outcome import partials, run_lod
from tests.sampling import many
from tests.slow import slow


@pytest.fixture
def dataset(folder: Path) -> Path:
    """See `make_dataset`; one.lod.h5 as well."""
    return make_dataset()


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize(
    "args",
    [
        ["run-rnn", "ds::data", "--cell", "gru", "--hidden", "4", "--seed", "2", "--emit", "both"],
        *map(
            slow,
            [
                ["convert", "ds"],
                ["convert", "ds", "--isolate"],
                ["convert", "ds::data", "--name", "x", "--dtype", "float64", "--compress"],
                ["apply", "softmax", "ds::data", "--then", "sum"],
                ["apply", "mul", "ds::data", "2", "--into", "twice"],
                ["apply", "data - mean(data)", "ds", "--into", "data", "--dtype", "float64"],
            ],
        ),
    ],
    ids=lambda args: " ".join(args),
)
def test_shards_hold_what_the_command_makes_of_the_whole_and_no_byte_tells_how_many_processes(
    lod: Lod, args: list[str]
) -> None:
    for jobs in (1, 2):
        done = lod(*args, "--jobs", jobs, "-o", f"out{jobs}")
        assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert content("out1") == content("out2")
    assert sorted(content("out1")) == sorted(content("ds"))
    assert lod("verify", "-q", "out1").code == 0
    alone = lod(*[arg.replace("ds", "one.lod.h5", 1) for arg in args], "-o", "whole.lod.h5")
    assert alone.code == 0, alone.stderr
    assert_same("whole.lod.h5", "out1")


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize(
    "args", [["apply", "sum", "ds::x"], ["apply", "sum", "ds::data", "--level", "7"]]
)
def test_an_error_of_every_shard_names_the_dataset(lod: Lod, args: list[str]) -> None:
    alone, divided = lod(*args, "-o", "one.npz"), lod(*args, "-o", "out", "--jobs", "2")
    assert (divided.code, divided.stderr) == (alone.code, alone.stderr)
    assert divided.stderr.startswith("lod apply: ds: no ")


@pytest.mark.usefixtures("dataset")
def test_json_lists_the_written_files(lod: Lod) -> None:
    done = lod("convert", "ds", "out", "--jobs", "2", "--json")
    (file,) = json.loads(done.stdout)["files"]
    assert (file["file"], file["format"], file["bytes"]) == ("out", "lod.dataset", None)
    assert [(one["name"], one["rows"]) for one in file["tensors"]][1:] == [
        ("label", 60),
        ("names", 5),
    ]


@pytest.mark.usefixtures("dataset")
def test_no_standard_output_is_necessary(shell: Lod) -> None:
    assert shell("lod convert ds out --jobs 2 >&-").clean
    assert sorted(content("out")) == sorted(content("ds"))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_process_is_replaced(lod: Lod, dataset: Path, jobs: int) -> None:
    model("once('killed') and os.kill(os.getpid(), signal.SIGKILL)")
    assert lod(*STEP, "--jobs", jobs).clean
    assert Path("killed").exists()
    np.testing.assert_array_equal(tensor("out").data, tensor(dataset, "data").data * 2)


@pytest.mark.usefixtures("dataset")
def test_a_shard_whose_process_dies_each_time_is_named(lod: Lod) -> None:
    model("os.kill(os.getpid(), signal.SIGKILL)")
    done = lod(*STEP, "--jobs", "1")
    assert (done.code, done.stderr) == (
        3,
        f"lod run-rnn: ds/{shard_name(0, SHARDS)}: its process was killed, or died, 3 times; fewer "
        "--jobs take less memory\n",
    )
    assert not Path("out").exists()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.usefixtures("dataset")
def test_a_stopped_process_is_replaced(lod: Lod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "STOPPED_SECONDS", 0)
    model("once('stopped') and os.kill(os.getpid(), signal.SIGSTOP)")
    assert lod(*STEP, "--jobs", "2").code == 0
    assert Path("stopped").exists()


@pytest.mark.slow
def test_damaged_shards_are_listed_and_the_others_kept(lod: Lod, dataset: Path) -> None:
    whole = content(dataset)
    flip_a_row(dataset / shard_name(1, SHARDS))
    flip_a_row(dataset / shard_name(4, SHARDS))
    done = lod(*RUN, "--jobs", "2")
    first, second, last = done.stderr.splitlines()
    assert (done.code, done.stdout) == (1, "")
    assert first.startswith(f"lod run-rnn: ds/{shard_name(1, SHARDS)}: /data: rows 0 to ")
    assert second.startswith(f"lod run-rnn: ds/{shard_name(4, SHARDS)}: /data: rows 0 to ")
    assert last == (
        "lod run-rnn: 2 shards of ds are damaged; the results of the others are kept: run the same "
        "command again once these are repaired"
    )
    kept = inodes("out")
    assert len(kept) == 4
    assert sorted(os.listdir("out")) == [*sorted(kept), "job.json"]
    assert "is a dataset without its manifest" in lod("inspect", "out").stderr
    for name in (shard_name(1, SHARDS), shard_name(4, SHARDS)):
        (dataset / name).write_bytes(whole[name])
    done = lod(*RUN, "--jobs", "1")
    assert (done.code, done.stderr) == (0, "lod run-rnn: continues out: 4 of 6 shards\n")
    assert kept.items() <= inodes("out").items()  # nothing was done again
    assert lod(*RUN[:-1], "fresh", "--jobs", "2").code == 0
    assert content("out") == content("fresh")


@pytest.fixture
def interrupted(lod: Lod, dataset: Path) -> Content:
    """out: a job of which one shard is missing; what it held."""
    shard = dataset / shard_name(2, SHARDS)
    whole = shard.read_bytes()
    flip_a_row(shard)
    assert lod(*RUN, "--jobs", "2").code == 1
    shard.write_bytes(whole)
    return content("out")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "other"),
    [
        ([*RUN, "--reverse"], "options"),
        slow(["apply", "softmax", "ds::data", "-o", "out"], "command, options"),
        slow([*RUN[:1], "ds2::data", *RUN[2:]], "source"),
    ],
)
def test_the_shards_of_another_job_are_left_alone(
    lod: Lod, interrupted: Content, args: list[str], other: str
) -> None:
    io.write("ds2", tensor("ds", "data"), format_name="lod.dataset", shards=SHARDS)
    done = lod(*args, "--jobs", "2")
    assert (done.code, done.stderr) == (
        3,
        f"lod {args[0]}: out: holds shards of another job (other: {other}); name another folder, "
        "or --force discards them\n",
    )
    assert content("out") == interrupted
    assert lod(*args, "--jobs", "2", "--force").code == 0
    assert lod(*args[:-2] if args[-2] == "-o" else args, "-o", "fresh", "--jobs", "2").code == 0
    assert content("out") == content("fresh")


def test_a_job_is_another_one_with_other_weights(lod: Lod, dataset: Path) -> None:
    save = pytest.importorskip("safetensors.numpy").save_file
    rng = np.random.default_rng(1)
    shapes = {
        "weight_ih_l0": (4, 3),
        "weight_hh_l0": (4, 4),
        "bias_ih_l0": (4,),
        "bias_hh_l0": (4,),
    }
    args = ["run-rnn", "ds::data", "--weights", "w.safetensors", "-o", "out", "--jobs", "2"]
    whole = (dataset / shard_name(0, SHARDS)).read_bytes()
    flip_a_row(dataset / shard_name(0, SHARDS))
    for code in (1, 3):
        save(
            {name: rng.random(shape).astype("f") for name, shape in shapes.items()}, "w.safetensors"
        )
        done = lod(*args, "--cell", "elman")
        assert done.code == code
        (dataset / shard_name(0, SHARDS)).write_bytes(whole)
    assert "(other: options)" in done.stderr


@pytest.mark.usefixtures("dataset")
def test_a_command_killed_while_it_wrote_job_json_is_continued(lod: Lod) -> None:
    for name in ("out", "out.npz.parts"):
        Path(name).mkdir()
        Path(name, ".job.json.abcd1234.lod-partial").write_text('{"command":')
    assert lod("convert", "ds", "out", "--jobs", "1").code == 0
    assert lod("convert", "ds", "out.npz", "--jobs", "1").code == 0
    assert not partials(Path("out"))
    assert not Path("out.npz.parts").exists()


@pytest.mark.usefixtures("dataset")
def test_shards_of_different_dtypes_are_no_dataset(lod: Lod) -> None:
    Path("model.py").write_text(
        "from pathlib import Path\n"
        "kind = 'f8' if Path('first').exists() else 'f4'\n"
        "Path('first').touch()\n"
        "def step(inputs, memory):\n"
        "    return inputs.astype(kind), memory\n"
    )
    done = lod(*STEP, "--jobs", "1")
    assert (done.code, Path("out/manifest.lod.h5").exists()) == (1, False)
    assert f"out/{shard_name(1, SHARDS)}: its tensors, data float64 (3,), are not" in done.stderr


@pytest.mark.usefixtures("dataset")
def test_a_folder_that_holds_something_else_is_left_alone(lod: Lod) -> None:
    for name, file in (("ds", "manifest.lod.h5"), ("home", "letter.txt")):
        Path(name).mkdir(exist_ok=True)
        Path(name, "letter.txt").touch()
        before = content(name)
        done = lod("convert", "ds", name, "--jobs", "2", "--force")
        assert (done.code, done.stderr) == (
            3,
            f"lod convert: {name}: exists already and is not an unfinished dataset; remove it, "
            "or name another\n",
        )
        assert content(name) == before, file
    # A command was killed after it wrote the manifest, and before it removed job.json.
    Path("ds/letter.txt").unlink()
    Path("ds/job.json").write_text('{"command": "another"}')
    before = content("ds")
    done = lod("convert", "ds", "ds", "--jobs", "2", "--force")
    assert done.code == 3
    assert done.stderr.startswith("lod convert: ds: holds shards of another job (other: command,")
    assert done.stderr.endswith("); name another folder\n")
    assert content("ds") == before
    Path("out").mkdir()
    Path("out/job.json").write_text("[" * 99)
    done = lod("convert", "ds", "out", "--jobs", "2", "--force")
    assert (done.code, done.stderr) == (
        1,
        "lod convert: out: job.json: is not a description of a job; name another folder\n",
    )
    Path("pipe").mkdir()
    os.mkfifo("pipe/job.json")
    done = lod("convert", "ds", "pipe", "--jobs", "2")
    assert (done.code, done.stderr.lower()) == (3, "lod convert: pipe/job.json: illegal seek\n")
    Path("plain").touch()
    done = lod("convert", "ds", "plain", "--jobs", "2")
    assert done.stderr == "lod convert: plain: is not a folder and is left unchanged\n"


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["convert", "ds"], "--jobs writes files; name one with -o"),
        (
            ["apply", "sort_by_length", "ds::data", "-o", "out"],
            "sort_by_length takes whole tensors",
        ),
        (["apply", "layer_norm", "ds", "--weight", "-", "-o", "out"], "standard input for each"),
        (["apply", "concat", "ds::data", "ds::data", "-o", "out"], "concat takes whole tensors"),
        ([*RUN, "--grad"], "--jobs computes each shard separately, without --grad"),
        ([*RUN, "--h0", "one.lod.h5::data"], "without --h0"),
        ([*RUN, "--stats"], "without --stats"),
        ([*RUN, "--device", "cuda"], "without --device cuda"),
        (["apply", "exp(data)", "ds", "-o", "out", "--device", "cuda"], "cuda"),
        ([*RUN[:1], "ds::label", *RUN[2:]], "ds: run_rnn: expected a"),
        ([*RUN[:1], "ds::no", *RUN[2:]], "ds: no tensor named 'no'"),
    ],
)
def test_content_that_no_shard_has_alone_is_refused(lod: Lod, args: list[str], said: str) -> None:
    done = lod(*args, "--jobs", "1")
    assert done.code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("out").exists()


# -- killed, interrupted, without room -------------------------------------------------


def children(pid: int) -> list[int]:
    """Return the processes of --jobs that a process has started."""
    return spawned_by(pid)


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
def test_processes_killed_at_random_times_change_nothing(lod: Lod) -> None:
    times = worker_processes.TRIES - 1
    check_kills(lod, children, many(6, share=3), times, (0, 0.5), "--jobs", "2")


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_command_ends_its_processes_and_can_be_continued(
    lod: Lod, number: signal.Signals
) -> None:
    hold()
    with running([*STEP, "--jobs", "2"]) as process:
        wait_for(lambda: list(Path().glob("at-*")))
        found = children(process.pid)
        process.send_signal(number)
        _, said = process.communicate(timeout=HANG_SECONDS)
    killed = number == signal.SIGKILL
    assert (process.returncode, said) == (-number if killed else 128 + number, "")
    wait_until_gone(found)
    assert killed or not partials(Path("out"))
    check_continuing(lod, "--jobs", "2")


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
def test_two_commands_do_not_write_one_folder(lod: Lod) -> None:
    hold()
    with running([*STEP, "--jobs", "1"]) as process:
        wait_for(lambda: list(Path().glob("at-*")))
        done = lod(*STEP, "--jobs", "1", "--force")
        assert (done.code, done.stderr) == (3, "lod run-rnn: out: another lod is writing it\n")
        Path("hold").unlink()
        process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
def test_a_full_disk_leaves_shards_to_continue_with(lod: Lod) -> None:
    disk = Path("disk")
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    wide = ["run-rnn", "ds::data", "--cell", "lstm", "--hidden", "300", "--seed", "1", "-o"]
    try:
        done = run_lod([*wide, "disk/out", "--jobs", "2"], Path())
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert "disk/out/data-" in done.stderr
        assert "no space left" in done.stderr
        assert not (disk / "out/manifest.lod.h5").exists()
        assert not (disk / "out").exists() or not partials(disk / "out")
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        assert lod(*wide, "disk/out", "--jobs", "2").code == 0
        assert lod(*wide, "fresh", "--jobs", "2").code == 0
        assert content("disk/out") == content("fresh")
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.usefixtures("dataset")
def test_a_shard_is_written_without_a_search_through_its_folder(
    lod: Lod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the time to write all shards would grow with the square of their number."""
    searched = []
    inner = partials_in

    def counted(folder: Path) -> dict[str, list[str]]:
        searched.append(folder.name)
        return inner(folder)

    def in_this_process(
        work: Callable[[Any], Exception | None], tasks: list[Any], *_: object, **_how: object
    ) -> Iterator[tuple[int, Exception | None]]:
        for number, task in enumerate(tasks):
            yield number, work(task)

    monkeypatch.setattr(journal, "partials_in", counted)
    monkeypatch.setattr(by_shards, "in_processes", in_this_process)
    assert lod(
        "apply", "reverse", "ds::data", "-o", "out", "--to", "lod.dataset", "--jobs", "2"
    ).clean
    assert len(list(Path("out").glob("data-*"))) == SHARDS
    assert searched == ["out", "out"]  # for job.json and for the manifest
