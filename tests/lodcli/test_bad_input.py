"""Every command on input that is no good: one line, the right exit code, nothing left behind."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.hanging import HANG_SECONDS
from tests.lodcli.conftest import Done, Lod, environment, tensor
from tests.slow import one_in, slow

RNN = ["--cell", "gru", "--hidden", "2", "--seed", "1"]
# {} is replaced by the source. Commands that write also get "-o out.lod.h5".
WRITING = {
    "slice": ["slice", "{}", "0"],
    "convert": ["convert", "{}"],
    "concat": ["concat", "{}", "{}"],
    "unpack": ["unpack", "{}"],
    "pack": ["pack", "{}"],
    "run-rnn": ["run-rnn", "{}", *RNN],
}
READING = {"inspect": ["inspect", "{}"], "verify": ["verify", "{}"]}
COMMANDS = {**{name: [*args, "-o", "out.lod.h5"] for name, args in WRITING.items()}, **READING}


def make_directory(path: Path) -> None:
    path.mkdir()


def make_nothing(path: Path) -> None:
    pass


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


def make_text(path: Path) -> None:
    path.write_text("this is no container\n")


def make_truncated(path: Path) -> None:
    path.write_bytes(Path("words.lod.h5").read_bytes()[:-40])


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


SOURCES = {
    "missing": (make_nothing, 3, "no such file; check the path"),
    "a directory": (make_directory, 3, "is a folder, not a file, and empty"),
    "empty": (make_empty, 1, "is empty"),
    "text": (make_text, 1, "does not begin like it"),
    "truncated": (make_truncated, 1, "bad.lod.h5"),
    "a loop": (make_loop, 3, "symbolic links form a loop"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_bad_source_is_one_line_that_names_it(
    lod: Lod, folder: Path, command: str, kind: str
) -> None:
    make, code, said = SOURCES[kind]
    make(folder / "bad.lod.h5")
    before = sorted(os.listdir("."))
    done = lod(*(arg.replace("{}", "bad.lod.h5") for arg in COMMANDS[command]))
    assert done.code == code
    assert done.stderr.startswith(f"lod {command}: bad.lod.h5: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("\n")
    assert sorted(os.listdir(".")) == before


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("verify", "concat")])
def test_an_unknown_tensor_is_a_usage_error(lod: Lod, folder: Path, command: str) -> None:
    done = lod(*(arg.replace("{}", "many.lod.h5::nobody") for arg in COMMANDS[command]))
    assert done.code == 2
    assert "no tensor named 'nobody'; there are: vectors, tags, other" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("out.lod.h5").exists()


@pytest.mark.parametrize("command", ["slice", "unpack", "run-rnn", "inspect"])
@pytest.mark.parametrize("level", ["9", "-3", "word"])
def test_an_unknown_level_is_a_usage_error(
    lod: Lod, folder: Path, command: str, level: str
) -> None:
    args = [arg.replace("{}", "words.lod.h5") for arg in COMMANDS[command]]
    done = lod(*args, "--level", level)
    assert done.code == 2
    assert done.stderr.startswith(f"lod {command}: words.lod.h5: ")
    assert "level" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("out.lod.h5").exists()


def arguments(command: str, out: str) -> list[str]:
    """Return a good command line of a command that writes, to `out`."""
    source = "steps.lod.h5" if command == "pack" else "words.lod.h5"
    return [*(arg.replace("{}", source) for arg in WRITING[command]), "-o", out]


@pytest.fixture
def steps(lod: Lod, folder: Path) -> Path:
    assert lod("unpack", "words.lod.h5", "-o", "steps.lod.h5").code == 0
    return folder


@pytest.mark.parametrize("command", WRITING)
def test_an_existing_output_stays_without_force(lod: Lod, steps: Path, command: str) -> None:
    Path("out.lod.h5").write_text("precious")
    done = lod(*arguments(command, "out.lod.h5"))
    assert done.code == 3
    assert done.stderr == (
        f"lod {command}: out.lod.h5: exists already; use --force to replace it\n"
    )
    assert Path("out.lod.h5").read_text() == "precious"
    assert lod(*arguments(command, "out.lod.h5"), "--force").code == 0
    assert lod("verify", "out.lod.h5").code == 0


@pytest.mark.parametrize("command", WRITING)
def test_an_input_is_not_its_own_output_without_force(lod: Lod, steps: Path, command: str) -> None:
    same = "steps.lod.h5" if command == "pack" else "words.lod.h5"
    before = Path(same).read_bytes()
    done = lod(*arguments(command, same))
    assert done.code == 3
    assert "exists already" in done.stderr
    assert Path(same).read_bytes() == before
    assert lod(*arguments(command, same), "-f").code == 0
    assert lod("verify", same).code == 0


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("nowhere/out.lod.h5", "its folder does not exist"),
        ("words.lod.h5/out.lod.h5", "not a folder"),
        ("/proc/out.lod.h5", "cannot be written"),
        ("folder.lod.h5", "folder"),
    ],
)
def test_an_output_that_cannot_be_is_an_io_failure(
    lod: Lod, steps: Path, command: str, out: str, said: str
) -> None:
    Path("folder.lod.h5").mkdir()
    before = sorted(os.listdir("."))
    done = lod(*arguments(command, out), "-f")
    assert done.code == 3
    assert done.stderr.startswith(f"lod {command}: {out}: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(".")) == before


@pytest.mark.parametrize("command", WRITING)
def test_a_full_device_is_an_io_failure(shell: Lod, steps: Path, command: str) -> None:
    line = " ".join(arguments(command, "-"))
    done = shell(f"lod {line} > /dev/full")
    assert done.code == 3
    full, _, told = done.stderr.partition("; ")
    assert full == f"lod {command}: standard output: no space left on the device"
    assert re.fullmatch(r"rows and offsets take [0-9]+ bytes\n", told)


@pytest.mark.parametrize("command", READING)
def test_results_that_cannot_be_printed_are_an_io_failure(
    shell: Lod, folder: Path, command: str
) -> None:
    done = shell(f"lod {command} words.lod.h5 > /dev/full")
    assert done.code == 3
    assert done.stderr == f"lod {command}: standard output: no space left on the device\n"
    done = shell(f"lod {command} words.lod.h5 >&-")
    assert done.code == 3
    assert done.stderr == f"lod {command}: standard output: is closed\n"


@pytest.mark.parametrize("line", ["lod --help", "lod --version", "lod slice -h", "lod help slice"])
def test_help_that_cannot_be_printed_is_an_io_failure(shell: Lod, line: str) -> None:
    label = " ".join(word for word in line.split() if word != "help" and not word.startswith("-"))
    done = shell(f"{line} > /dev/full")
    said = "standard output: no space left on the device"
    assert (done.code, done.stderr) == (3, f"{label}: {said}\n")
    assert shell(f"{line} >&-").stderr == f"{label}: standard output: is closed\n"


@pytest.mark.parametrize(
    "command", ["inspect --json --values --head 999", "convert --to jsonl -o -"]
)
def test_a_full_pipe_that_does_not_block_loses_nothing(folder: Path, command: str) -> None:
    Path("lines.jsonl").write_text(f"{[1] * 50}\n" * 1000)
    args = ["lod", *command.split(), "lines.jsonl"]
    source, target = os.pipe()
    os.set_blocking(target, False)
    process = subprocess.Popen(args, stdout=target, env=environment())
    while select.select([], [target], [], 0)[1] and process.poll() is None:
        time.sleep(0.01)
    os.close(target)
    with open(source, "rb") as file:
        shown = file.read()
    assert process.wait(HANG_SECONDS) == 0
    assert shown == subprocess.run(args, capture_output=True, env=environment()).stdout


def test_an_empty_pipe_that_does_not_block_is_read_to_its_end(folder: Path) -> None:
    source, target = os.pipe()
    os.set_blocking(source, False)
    args = ["lod", "convert", "-", "out.jsonl", "--from", "jsonl"]
    process = subprocess.Popen(args, stdin=source, env=environment())
    os.write(target, b"[1,2]\n")
    while select.select([source], [], [], 0)[0] and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.1)  # it reads again, and finds nothing
    os.close(target)
    os.close(source)
    assert process.wait(HANG_SECONDS) == 0
    assert Path("out.jsonl").read_bytes() == b"[1,2]\n"


@pytest.mark.parametrize("option", ["", "-v"])
def test_notes_that_cannot_be_printed_do_not_end_a_command(
    shell: Lod, folder: Path, option: str
) -> None:
    line = f"lod convert many.lod.h5::tags {option} --to jsonl"
    expected = shell(f"{line} -q").stdout
    assert "level" in shell(line).stderr  # a note: jsonl has no names of levels
    assert shell(f"{line} 2> /dev/full") == Done(0, expected, "")


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("lines.jsonl", "lines.jsonl"),
        ("- --from jsonl < lines.jsonl", "standard input"),
        ("'lin*.jsonl'", "lines.jsonl"),
        ("$PWD/only", "$PWD/only/more.jsonl"),
    ],
)
def test_a_file_is_not_read_while_the_output_is_appended_to_it(
    shell: Lod, folder: Path, source: str, label: str
) -> None:
    (folder / "lines.jsonl").write_text("[1]\n" * 300_000)
    (folder / "only").mkdir()
    os.link(folder / "lines.jsonl", folder / "only" / "more.jsonl")
    # Without the limit a failing test would fill the disk.
    done = shell(f"ulimit -f 4000; lod convert --to jsonl {source} >> lines.jsonl")
    label = label.replace("$PWD", str(folder))
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        f"lod convert: {label}: is also the file that standard output goes to; redirect that to "
        "another file\n"
    )
    assert (folder / "lines.jsonl").read_text() == "[1]\n" * 300_000


def test_a_command_that_fails_appends_nothing_to_a_file(shell: Lod, folder: Path) -> None:
    before = (folder / "words.lod.h5").read_bytes()
    assert shell("lod slice words.lod.h5 0 >> words.lod.h5").code == 2
    assert shell("lod slice many.lod.h5 999 >> words.lod.h5").code == 2
    assert (folder / "words.lod.h5").read_bytes() == before


@pytest.mark.parametrize(
    ("skipped", "write"),
    [
        ("read -r line", "printf '[1]\\n[2]\\n[3]\\n' > in"),
        ("read -r line", "(echo title; printf '[2]\\n[3]\\n' | gzip) > in"),
        ("dd bs=1 count=3 of=/dev/null status=none", "(printf abc; cat two.lod.h5) > in"),
        ("dd bs=1 count=3 of=/dev/null status=none", "(printf abc; cat two.npz) > in"),
        ("dd bs=1 count=3 of=/dev/null status=none", "(printf abc; cat two.lods) > in"),
    ],
)
@pytest.mark.parametrize("isolate", ["", slow("--isolate")])
def test_bytes_of_standard_input_that_others_read_are_not_read_again(
    shell: Lod, folder: Path, skipped: str, write: str, isolate: str
) -> None:
    two = LoDTensor([2, 3], LoD.from_lengths([[1, 1]]))
    for ending in ("lod.h5", "npz", "lods"):
        io.write(folder / f"two.{ending}", two)
    assert shell(write).code == 0
    kind = "--from jsonl" if skipped.startswith("read") else ""
    done = shell(f"{{ {skipped}; lod convert - {kind} --to jsonl {isolate}; }} < in")
    assert (done.code, done.stdout, done.complaints) == (0, "[2]\n[3]\n", "")


@pytest.mark.parametrize(
    "line",
    [
        "train - --test - -o m",
        "train - --weights - -o m",
        "run-rnn - --cell gru --hidden 2 --seed 1 --h0 -",
        "run-rnn words.lod.h5 --weights - --h0 - -o m.npz",
    ],
)
def test_standard_input_is_one_file_only(lod: Lod, folder: Path, line: str) -> None:
    done = lod(*line.split())
    assert (done.code, done.stdout) == (2, "")
    assert "- is given twice, but there is one standard input" in done.stderr
    assert not Path("m").exists()


@pytest.mark.parametrize("command", WRITING)
def test_a_closed_pipe_ends_in_silence(shell: Lod, steps: Path, command: str) -> None:
    line = " ".join(arguments(command, "-"))
    # The reader is gone before the first byte: `lod` waits for a file it makes.
    done = shell(
        f"{{ while [ ! -e gone ]; do sleep 0.01; done; lod {line}; echo $? >code; }} "
        "| { exec <&-; touch gone; }"
    )
    assert done.stderr == ""
    assert Path("code").read_text() == "141\n"


@pytest.mark.parametrize("command", ["inspect words.lod.h5", "verify words.lod.h5", "--help"])
def test_a_closed_pipe_ends_printing_in_silence(shell: Lod, folder: Path, command: str) -> None:
    done = shell(
        f"{{ while [ ! -e gone ]; do sleep 0.01; done; lod {command}; echo $? >code; }} "
        "| { exec <&-; touch gone; }"
    )
    assert done.stderr == ""
    assert Path("code").read_text() == "141\n"


@pytest.mark.parametrize("command", WRITING)
def test_binary_data_do_not_go_to_a_terminal(steps: Path, command: str) -> None:
    if shutil.which("script") is None:
        pytest.skip("needs the program script, for a terminal")
    code, shown = on_a_terminal(f"lod {' '.join(arguments(command, '-'))}")
    assert code == 2
    assert "cannot be printed to a terminal; write it to a file with -o FILE" in shown
    assert shown.isprintable() or "\x1b" not in shown


def on_a_terminal(line: str) -> tuple[int, str]:
    """Run a command line with a terminal for all three streams; returns code and screen."""
    done = subprocess.run(
        ["script", "-qec", line, "/dev/null"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("command", one_in(3, COMMANDS))
def test_a_closed_standard_input_is_an_io_failure(shell: Lod, folder: Path, command: str) -> None:
    args = COMMANDS[command]
    if command == "concat":
        args = ["concat", "{}", "-o", "out.lod.h5"]
    done = shell("lod " + " ".join(arg.replace("{}", "-") for arg in args) + " <&-")
    assert done.code == 3
    assert done.stderr == f"lod {command}: standard input: is closed\n"


def test_a_folder_of_folders_comes_with_a_pattern(lod: Lod, folder: Path) -> None:
    Path("parts/inner").mkdir(parents=True)
    assert lod("inspect", "parts").stderr.endswith("; name a file in it\n")
    Path("parts/inner/0.jsonl").write_text("[1]\n")
    assert lod("inspect", "parts").stderr.endswith(
        "; name a file in it, or a pattern for those in its folders: 'parts/*/*'\n"
    )
    assert lod("inspect", "parts/*/*").code == 0
    done = lod("convert", "words.lod.h5", "parts", "--to", "npz")
    assert done.stderr == "lod convert: parts: is a folder, not a file; name a file in it\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("word.lod.h5", "no such file; did you mean words.lod.h5?"),
        ("gone/deep/words.lod.h5", "no such file: there is no folder gone"),
        ("made/lonly.npz", "made/lonly.npz: no such file; did you mean made/lonely.npz?\n"),
        ("made/gone/deep/x", "made/gone/deep/x: no such file: there is no folder made/gone\n"),
        ("gone.lod.h5::tags", "gone.lod.h5: no such file; check the path, relative to /"),
        ("/gone.lod.h5", "/gone.lod.h5: no such file; check the path\n"),
        ("link.lod.h5", "no such file: it is a link to nowhere, which is not there"),
    ],
)
def test_a_missing_file_comes_with_what_to_do(lod: Lod, folder: Path, name: str, said: str) -> None:
    Path("link.lod.h5").symlink_to("nowhere")
    Path("made").mkdir()
    for other in ("wordss.lod.h5", "made/lonely.npz"):
        Path(other).touch()
    for command in ("verify", "inspect"):
        done = lod(command, name)
        assert done.code == 3
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("verify words.lod.h5", "words.lod.h5"),
        ("verify ../words.lod.h5", "../words.lod.h5"),
        ("convert FOLDER/words.lod.h5 out.npz", "out.npz"),
        ("split FOLDER/words.lod.h5 --by count 3 -o out-{}.npz", "out-0.npz"),
        ("train FOLDER/words.lod.h5 -o model", "model"),
    ],
)
def test_a_deleted_current_folder_is_named_as_the_reason(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, name: str
) -> None:
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    (folder / "sub").rmdir()
    done = lod(*line.replace("FOLDER", str(folder)).split())
    said = f"{name}: no such file: the current folder was deleted; change to another one\n"
    assert (done.code, done.stderr) == (3, f"lod {line.split()[0]}: {said}")


@pytest.mark.parametrize(
    "line",
    [
        "verify FOLDER/ds --jobs 2",
        "apply sum FOLDER/ds --jobs 2 -o FOLDER/sums",
        "run-rnn FOLDER/words.lod.h5 --step m:f -o FOLDER/o.npz",
    ],
)
def test_a_deleted_current_folder_is_not_the_fault_of_the_source(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    assert lod("shard", "words.lod.h5", "ds", "--shards", "2").code == 0
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    (folder / "sub").rmdir()
    done = lod(*line.replace("FOLDER", str(folder)).split())
    said = "no such file: the current folder was deleted; change to another one\n"
    assert (done.code, done.stdout) == (3, "")
    assert done.stderr == f"lod {line.split()[0]}: {said}"


def test_no_process_complains_that_the_current_folder_was_deleted(shell: Lod) -> None:
    deleted = "mkdir sub && cd sub && rmdir ../sub"
    done = shell(
        f"lod shard words.lod.h5 ds && {deleted} && lod apply sum $OLDPWD/ds --jobs 2 -o $OLDPWD/x"
    )
    said = "lod apply: no such file: the current folder was deleted; change to another one\n"
    assert (done.code, done.stderr) == (3, said)


def test_a_name_cannot_steer_the_terminal(lod: Lod, folder: Path) -> None:
    done = lod("inspect", "\x1b[2J\nnone\u202e.npz")
    assert done.code == 3
    assert done.stderr.startswith("lod inspect: \\x1b[2J\\nnone\\u202e.npz: no such file; ")


@pytest.mark.parametrize(
    "line",
    [
        "inspect t.npz",
        "inspect t.npz::a\u202eb",
        "inspect t.npz --form absolute",
        "plan t.npz --tokens 9",
        "convert t.npz x.paddle --to paddle --dry-run",
        "convert t.npz x.ts --dry-run",
        "diff t.npz t.npz --stat",
        "weights w.safetensors",
        "verify t.npz",
    ],
)
def test_the_name_of_a_tensor_cannot_steer_the_terminal(lod: Lod, folder: Path, line: str) -> None:
    rows, offsets = np.arange(3, dtype=np.float16), np.array([0, 2, 3])
    names = ("a\u202eb", "b")
    parts: dict[str, Any] = {"data": rows, "lod.0": offsets}
    np.savez("t.npz", **{f"{name}/{part}": parts[part] for name in names for part in parts})
    shapes = {"weight_ih_l0": (8, 3), "weight_hh_l0": (8, 2)}
    weights = {f"{rnn}.{name}": np.ones(shapes[name]) for rnn in names for name in shapes}
    save_file(weights, "w.safetensors")
    done = lod(*line.split())
    assert "\u202e" not in done.stdout + done.stderr
    assert r"a\u202eb" in done.stdout + done.stderr or line.startswith("verify")


def test_a_name_that_is_no_text_can_be_shown(shell: Lod, folder: Path) -> None:
    done = shell("lod inspect $'\\xff.npz'")
    assert done.code == 3
    assert done.stderr.startswith("lod inspect: \\udcff.npz: no such file; ")


def test_rows_without_values_may_be_many(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header of npy can declare 2^45 of them; nothing loops over them."""
    monkeypatch.chdir(tmp_path)
    with open("many.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**45, 0)}
        np.lib.format.write_array_header_1_0(file, header)
    Path("numbers.txt").write_text("5\n")
    allowed = "--max-bytes", str(2**45)
    done = lod("diff", "many.npy", "many.npy")
    assert (done.code, done.stdout) == (1, "")
    assert "declares (a row without values counts as one) 35184372088832 bytes" in done.stderr
    done = lod("diff", "many.npy", "many.npy", *allowed)
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    for choice in (["1 > 0"], ["--indices", "numbers.txt"]):
        done = lod("filter", "many.npy", *choice, *allowed, "-qo", "out.npz")
        assert (done.code, done.stdout) == (1, "")
        assert "data: 35184372088832 rows without values: 703687441776640 bytes" in done.stderr
    np.save("few.npy", np.zeros((9, 0)))
    assert lod("filter", "few.npy", "--indices", "numbers.txt", "-qo", "out.npz").code == 0
    assert tensor("out.npz").rows == 1
