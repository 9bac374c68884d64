"""`lod` itself: help, versions, exit codes, loaded modules, and the public Python names."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from click.testing import CliRunner

import lodcli
from lodcli import commands
from lodcli.formats.container.chunks import CODECS
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.table import TABLE
from lodcli.formats.storage.interrupts import Interrupted
from lodcli.formats.storage.outputs import TargetExistsError
from lodcli.formats.weights import write_weights
from lodcli.formats.weights.model_file import write_model
from lodcli.kernels.errors import (
    EmptySequenceError,
    InvalidDataError,
    SelectionError,
    UnsupportedError,
)
from lodcli.kernels.rnn.stack.stack import seeded_weights
from lodcli.kernels.rnn.stack.state_dict import state_dict
from lodcli.kernels.rnn.training.classifier import seeded_classifier
from lodcli.kernels.runtime.threads import BLAS_WAIT
from lodcli.main import main
from lodcli.shell import command, failures, options
from lodcli.shell.group import group
from tests.console import plain_words
from tests.lodcli.conftest import Lod, environment, in_bash, tensor
from tests.slow import slow

ROOT = Path(__file__).parent.parent.parent


def python(code: str, **more: str) -> str:
    """Run Python and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(**more),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def loaded_by(*args: str) -> list[str]:
    """Return the words that a command prints, and the names of the modules that it loads."""
    return python(
        "import sys; from lodcli.shell.failures import run; from lodcli.shell.group import group\n"
        f"run(group, {[*args]!r}); print('LOADED', *sys.modules)"
    ).split()


def test_help_lists_every_command_and_loads_none(lod: Lod) -> None:
    done = lod("--help")
    assert done.code == 0
    for name, (_, help_line) in commands.TABLE.items():
        assert re.search(rf"^  {name} +{re.escape(help_line)}$", done.stdout, re.MULTILINE)
    loaded = loaded_by("--help")
    for name in ("numpy", "h5py", "rich", "lodcli.commands.slice", "importlib.metadata"):
        assert name not in loaded


def test_the_help_of_commands_loads_no_numpy() -> None:
    shown = python(
        "import sys; from lodcli.shell.failures import run; from lodcli.shell.group import group\n"
        f"for name in {list(commands.TABLE)}:\n"
        "    run(group, [name, '--help'])\n"
        "    found = {module.partition('.')[0] for module in sys.modules}\n"
        "    print('LOADED', name, *{'numpy', 'h5py', 'numba', 'rich', 'pyarrow'} & found)"
    )
    lines = [line for line in shown.splitlines() if line.startswith("LOADED")]
    assert lines == [f"LOADED {name}" for name in commands.TABLE]


def test_every_command_is_in_one_group_of_the_help() -> None:
    grouped = [name for names in commands.GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(commands.TABLE)


@pytest.mark.parametrize("name", commands.TABLE)
def test_every_command_has_help_with_examples(lod: Lod, name: str) -> None:
    done = lod(name, "--help")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: lod {name} ")
    assert examples(done.stdout)
    assert lod(name, "-h").stdout == done.stdout
    assert not re.search(r"<=x<=\d{10}", done.stdout), "a range that helps nobody"
    assert not re.search(r"^  \w.*\.\.\.$", done.stdout, re.MULTILINE), "a summary that is cut"


@pytest.mark.parametrize("command", ["", "inspect", "bench kernels", "apply sum"])
def test_python_that_strips_docstrings_shows_the_same_help(shell: Lod, command: str) -> None:
    whole = shell(f"lod {command} --help")
    assert whole.code == 0
    assert shell(f"lod {command} --help", PYTHONOPTIMIZE="2") == whole


def examples(help_text: str) -> list[str]:
    """Return the command lines below "Examples:"."""
    part = help_text.partition("Examples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in part.splitlines()]


def all_examples() -> list[str]:
    texts = [
        CliRunner().invoke(group, [*name, "--help"]).stdout
        for name in ([], *([name] for name in commands.TABLE))
    ]
    return [line for text in texts for line in examples(text)]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the examples speak of: the samples, and what is made of them."""
    folder = tmp_path_factory.mktemp("examples")
    for name, sample in (
        ("articles.txt", "articles.txt"),
        ("events.jsonl", "events.jsonl"),
        ("vowels.ts", "japanese_vowels.ts"),
        ("more.ts", "japanese_vowels_test.ts"),
    ):
        shutil.copy(ROOT / "samples" / sample, folder / name)
    lines = (
        "lod convert articles.txt articles.lod.h5",
        "lod convert events.jsonl events.lod.h5 --levels day,hour",
        "lod convert events.jsonl events.jsonl.gz",
        "lod verify --write-sums events.jsonl",
        "lod convert vowels.ts vowels.lod.h5",
        "lod convert more.ts more.lod.h5",
        "lod shard vowels.lod.h5 shards --shards 4",
        "lod unpack vowels.lod.h5 -o steps.lod.h5",
        "lod convert vowels.ts::data packed.npz --name frames --cu-seqlens cu_seqlens",
        "lod convert chat.jsonl chat.parquet",
        "lod cast events.csv 'time=timestamp[us]' -o clicks.parquet",
    )
    (folder / "chat.jsonl").write_text('{"ids":[1,2],"text":"hi","day":1}\n')
    (folder / "visits.csv").write_text("user,visit,value\na,1,5\na,2,7\nb,1,8\n")
    (folder / "clicks.csv").write_text("user,day,value\nbob,2,1.5\nann,1,2\nbob,1,8\n")
    (folder / "users.csv").write_text("user,born\nann,1912\nbob,1936\ncid,1815\n")
    (folder / "people.csv").write_text("id,born\nann,1912\nbob,1936\n")
    (folder / "events.csv").write_text(
        "user,time,day,price\nann,2024-05-01T12:00:00Z,2024-05-01,12.5\n"
    )
    (folder / "numbers.txt").write_text("0\n2\n")
    (folder / "users.txt").write_text("ann\nbob\n")
    words = sorted(set((ROOT / "samples" / "articles.txt").read_text().split()))
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words))
    with contextlib.chdir(folder):
        for line in lines:
            assert CliRunner().invoke(group, plain_words(line)).exit_code == 0, line
    weights = seeded_weights("lstm", 12, 8, rng=np.random.default_rng(0))
    safetensors.numpy.save_file(state_dict(weights), folder / "model.safetensors")
    speakers = seeded_classifier("lstm", 12, 8, 9, rng=np.random.default_rng(0))
    write_model(folder / "speakers.safetensors", speakers.arrays(), {})
    reviews = [{"text": "good", "label": 1}, {"text": "bad", "label": 0}]
    (folder / "reviews.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in reviews))
    of_text = seeded_classifier("gru", 4, 8, 2, vocabulary=256, rng=np.random.default_rng(0))
    write_model(folder / "text.safetensors", of_text.arrays(), {})
    (folder / "model.py").write_text("def step(inputs, memory):\n    return inputs, inputs\n")
    gru = seeded_weights("gru_paddle", 12, 8, bias=False, rng=np.random.default_rng(1))
    write_weights(folder / "gru.lodt", gru)
    return folder


def code_of(line: str, printed: str) -> int:
    """Return the exit code of an example: 1 for differences that `lod diff` found, else 0."""
    return int(line.startswith("lod diff") and printed != "")


def takes_long(line: str) -> bool:
    """Return whether an example measures or trains: other tests do so with less."""
    return line.startswith(("lod bench", "lod train"))


@pytest.mark.parametrize(
    "line", [slow(line) if takes_long(line) else line for line in all_examples()]
)
def test_the_examples_of_the_help_run(
    prepared: Path, tmp_path: Path, line: str, lod: Lod, monkeypatch: pytest.MonkeyPatch
) -> None:
    if line.startswith("lod plot"):
        pytest.importorskip("matplotlib")
    if "--scheduler" in line:
        pytest.importorskip("distributed")
    for path in prepared.iterdir():
        # What the example makes must not be there; what another made must not help it.
        if not re.search(rf"(-o |> ?|convert \S+ |shard \S+ ){re.escape(path.name)}\b", line):
            (tmp_path / path.name).symlink_to(path)
    if not takes_long(line) and (words := plain_words(line)):
        monkeypatch.chdir(tmp_path)
        here = lod(*words)
        assert here.complaints == ""
        assert here.code == code_of(line, here.stdout)
        return
    done = in_bash(tmp_path, line)
    assert (done.code, done.complaints) == (code_of(line, done.stdout), "")


def test_versions_are_reported(lod: Lod) -> None:
    done = lod("--version")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"lod {lodcli.__version__}\n")
    assert re.search(r"Python 3\.\d+\.\d+.*, NumPy \d.*, h5py \d.*, HDF5 \d", done.stdout)
    assert "GPU: " in done.stdout


def test_a_mistyped_command_gets_a_hint(lod: Lod) -> None:
    done = lod("slcie")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == "lod: no command 'slcie'; did you mean slice?; see lod --help\n"


def test_without_a_command_the_help_goes_to_standard_error(lod: Lod) -> None:
    done = lod()
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == lod("--help").stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--nonsense"], "lod: no option '--nonsense'; see lod --help\n"),
        (["verify"], "lod verify: missing argument 'SOURCE...'; see lod verify --help\n"),
        (["slice", ""], "lod slice: invalid value for 'SOURCE': is empty"),
    ],
)
def test_wrong_usage_is_one_line_that_leads_to_the_help(
    lod: Lod, args: list[str], said: str
) -> None:
    done = lod(*args)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InvalidDataError("bad"), 1, "lod: bad\n"),
        (DamagedFileError("broken"), 1, "lod: broken\n"),
        (EmptySequenceError("empty"), 1, "lod: empty\n"),
        (SelectionError("no item 7"), 2, "lod: no item 7\n"),
        (TargetExistsError("x: exists already"), 3, "lod: x: exists already\n"),
        (UnsupportedError("not held"), 4, "lod: not held\n"),
        (ModuleNotFoundError("No module", name="hdf5plugin"), 4, "lod: needs the package hdf5"),
        (FileNotFoundError(2, "No such file or directory", "a\tb"), 3, "lod: a\\tb: no such file"),
        (PermissionError(13, "Permission denied", "a"), 3, "lod: a: permission denied\n"),
        (OSError("HDF5 says\nmany lines"), 3, "lod: HDF5 says\n"),
        (OSError(71, "Protocol error", "a"), 3, "lod: a: Protocol error\n"),
        (MemoryError(), 3, "lod: not enough memory"),
        (np.exceptions.AxisError("axis"), 1, "lod: internal error: AxisError: axis"),
        (
            ZeroDivisionError("a\nb"),
            1,
            "lod: internal error: ZeroDivisionError: a b; run",
        ),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (KeyboardInterrupt(), 130, ""),
        (Interrupted(2), 130, ""),
        (Interrupted(15), 143, ""),
        (Interrupted(1), 129, ""),
        (Interrupted(24), 152, "lod: the limit on processor time is reached; allow more with"),
        (click.exceptions.Exit(7), 7, ""),
        (SystemExit(5), 5, ""),
        (SystemExit(), 0, ""),
    ],
)
def test_every_error_has_its_exit_code_and_one_line(
    error: BaseException,
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LOD_DEBUG", raising=False)
    assert failures.report(error, "lod") == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(said)
    assert printed.err.count("\n") == bool(said)
    failures.report(error, "lod", as_json=True)
    printed = capsys.readouterr()
    assert printed.err == "" or json.loads(printed.err)["error"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_interrupt_while_a_class_is_made_ends_silently(
    capsys: pytest.CaptureFixture[str], wrapped: bool
) -> None:
    class Field:
        def __set_name__(self, owner: type, name: str) -> None:
            raise Interrupted(15)

    @click.command("import")
    def importing() -> None:
        try:
            type("Record", (), {"field": Field()})
        except BaseException as error:
            if wrapped:  # as by a library that reports errors of its imports
                raise ImportError("no record") from error
            raise

    assert failures.run(click.Group(commands=[importing]), ["import"]) == 143
    assert capsys.readouterr().err == ""


def test_a_traceback_is_shown_only_on_request(shell: Lod) -> None:
    quiet = shell("lod slice nowhere 0 -o out.npz")
    assert "Traceback" not in quiet.stderr
    loud = shell("lod slice nowhere 0 -o out.npz", LOD_DEBUG="1")
    assert loud.stderr.startswith("Traceback")
    assert loud.stderr.endswith(quiet.stderr)
    assert loud.code == quiet.code == 3


def test_a_bug_in_a_command_is_no_traceback(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOD_DEBUG", raising=False)
    monkeypatch.setattr("lodcli.commands.slice.parse_branch", lambda text: 1 / 0)
    done = lod("slice", "words.lod.h5", "0", "-o", "out.npz")
    assert done.code == 1
    assert done.stderr == (
        "lod slice: internal error: ZeroDivisionError: division by zero; "
        "run with LOD_DEBUG=1 and report it\n"
    )


def test_the_choices_are_those_of_the_tables() -> None:
    assert tuple(TABLE) == options.FORMATS
    assert tuple(CODECS) == command.CODECS


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("convert altered.lod.h5 -", 1),  # fails behind the header of its stream
        ("convert missing.npz -", 3),
        ("slice words.lod.h5 999", 2),
    ],
)
def test_only_the_failing_stage_of_a_pipe_prints_an_error(
    shell: Lod, folder: Path, first: str, code: int
) -> None:
    raw = (folder / "words.lod.h5").read_bytes()
    row = np.array([22, 23], np.float32).tobytes()
    assert raw.count(row) == 1
    (folder / "altered.lod.h5").write_bytes(raw.replace(row, row[:-1] + b"?"))
    behind = "lod sort - --by length | lod convert - out.npz"
    done = shell(f"lod {first} | {behind}; echo ${{PIPESTATUS[@]}}")
    assert done.stdout == f"{code} 1 1\n"
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"lod {first.split()[0]}: ")
    assert not (folder / "out.npz").exists()
    # In a file it is an error like others.
    shell(f"lod {first} > cut.lods")
    assert (
        "cut.lods: ends early: the command that wrote it failed"
        in shell("lod inspect cut.lods").stderr
    )


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(lod: Lod, shell_name: str) -> None:
    done = lod("completion", shell_name)
    assert (done.code, done.stderr) == (0, "")
    assert "_LOD_COMPLETE" in done.stdout


def test_completion_knows_commands_and_options(shell: Lod) -> None:
    asked = {"_LOD_COMPLETE": "bash_complete", "COMP_WORDS": "lod un"}
    assert shell("lod", **asked).stdout.split() == ["plain,pack"]  # what follows "un"
    asked = {"_LOD_COMPLETE": "bash_complete", "COMP_WORDS": "lod unpack --no"}
    assert shell("lod", **asked).stdout.split() == ["plain,-sort"]


def test_python_m_is_the_same_command(shell: Lod) -> None:
    assert shell(f"{sys.executable} -m lodcli --version").stdout == shell("lod --version").stdout


@pytest.mark.parametrize("name", lodcli.__all__)
def test_a_public_name_is_there_and_itself(name: str) -> None:
    value = getattr(lodcli, name)
    if isinstance(value, type):
        assert value.__name__ == name
        if name.endswith("Error"):
            assert issubclass(value, lodcli.LodError)
    assert name in dir(lodcli)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = lodcli.nonsense  # type: ignore[attr-defined]


def test_importing_the_package_loads_nothing() -> None:
    bare = set(python("import sys; print(*sys.modules)").split())
    loaded = set(python("import sys, lodcli; print(*sys.modules)").split())
    # That of an editable installation, which is a finder of modules, has loaded __future__.
    ours = {"lodcli", "lodcli.kernels", "lodcli.kernels.lazy_names"}
    assert loaded - bare - {"__future__"} == ours


def test_a_command_loads_only_the_packages_that_its_files_need(folder: Path) -> None:
    written = loaded_by("slice", "words.lod.h5", "0", "-o", "s.npz")
    loaded = loaded_by("inspect", "words.lod.h5", "--json") + written
    for name in ("h5py", "pyarrow", "torch", "numba", "cupy", "zstandard", "hdf5plugin"):
        assert name not in loaded
    verified = loaded_by("verify", "words.lod.h5")
    assert verified[:2] == ["words.lod.h5:", "ok"]
    for name in (
        "h5py",
        "multiprocessing",
        "lodcli.formats.storage.sums",
        "lodcli.commands.verify.shards",
    ):
        assert name not in verified
    assert "pyarrow" in loaded_by("slice", "words.lod.h5", "0", "-o", "s.parquet")
    # Importing its functions takes as long as a fifth of the command.
    read = loaded_by("convert", "s.parquet", "t.lod.h5")
    assert "pyarrow.parquet" in read
    assert "pyarrow.compute" not in read
    words = [*(f"word {n}" for n in range(30_000)), None]
    columns = {"x": list(range(30_001)), "t": words, "l": [[n] for n in range(30_001)]}
    pq.write_table(pa.table(columns), "u.parquet")
    assert "pyarrow.compute" not in loaded_by("filter", "u.parquet", "x > 0", "-o", "v.parquet")


def test_inspect_loads_nothing_for_what_was_not_asked(folder: Path) -> None:
    loaded = loaded_by("inspect", "words.lod.h5")
    parts = {one.rpartition(".")[2] for one in loaded if one.startswith("lodcli.commands.inspect.")}
    assert parts == {"command", "drawing", "examined", "statistics", "summary"}
    assert "lodcli.formats.several.many_files" not in loaded  # the path is one file
    # tempfile imports the other three.
    assert not {"tempfile", "shutil", "lzma", "random"}.intersection(loaded)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("x.csv", {"lodcli.formats.csv", "lodcli.formats.text"}), ("x.unknown", set())],
)
def test_detection_loads_no_format_whose_marks_the_file_lacks(
    folder: Path, name: str, expected: set[str]
) -> None:
    (folder / name).write_text("a\nname@example.org\n")
    loaded = loaded_by("inspect", name)
    packages = {".".join(one.split(".")[:3]) for one in loaded if one.startswith("lodcli.formats.")}
    of_formats = {".".join(entry.module.split(".")[:3]) for entry in TABLE.values()}
    assert packages & of_formats == expected


def test_a_command_between_two_pipes_loads_nothing_for_files(folder: Path) -> None:
    io.write("words.lods", tensor("words.lod.h5"))
    loaded = loaded_by("apply", "reverse", "words.lods", "-o", "reversed.lods")
    assert "lodcli.formats.stream.reader" in loaded
    for name in ("h5py", "lodcli.formats.container.reader", "ml_dtypes", "concurrent.futures"):
        assert name not in loaded


def test_a_small_command_looks_for_garbage_at_no_time(folder: Path) -> None:
    shown = python(
        "import gc, sys; from lodcli.main import main\n"
        "found = []; gc.collect()\n"
        "gc.callbacks.append(lambda phase, info: found.append(phase))\n"
        "sys.argv = ['lod', 'apply', 'reverse', 'words.lod.h5', '-o', 'reversed.lod.h5']\n"
        "code = main(); gc.callbacks.clear(); print(code, found)"
    )
    assert shown == "0 []\n"


@pytest.mark.parametrize(("given", "kept"), [({}, "18"), ({BLAS_WAIT: "26"}, "26")])
def test_idle_threads_of_blas_soon_sleep_unless_the_user_says_when(
    given: dict[str, str], kept: str, folder: Path
) -> None:
    shown = python(
        "import os, sys; from lodcli.main import main; before = set(sys.modules)\n"
        "sys.argv = ['lod', 'slice', 'words.lod.h5', '0', '-o', 's.npz']\n"
        f"print(main(), os.environ[{BLAS_WAIT!r}], 'numpy' in before, 'numpy' in sys.modules)",
        **given,
    )
    assert shown == f"0 {kept} False True\n"


def test_the_public_functions_read_and_write(folder: Path) -> None:
    found = lodcli.read("words.lod.h5")
    assert isinstance(found, lodcli.LoDTensor)
    lodcli.write("copy.npz", found)
    assert set(lodcli.read_all("many.lod.h5")) == {"vectors", "tags", "other"}
    with lodcli.open("copy.npz") as source:
        assert source.schema[0].rows == 15
    with pytest.raises(lodcli.TargetExistsError):
        lodcli.write("copy.npz", found)


def test_progress_is_for_terminals_and_not_with_quiet(folder: Path) -> None:
    from tests.lodcli.test_bad_input import on_a_terminal

    if shutil.which("script") is None:
        pytest.skip("needs the program script, for a terminal")
    io.write("big.npz", tensor("words.lod.h5"))
    slow = (
        "import sys, time, lodcli.shell.output, lodcli.shell.progress\n"
        "from lodcli.shell.failures import run; from lodcli.shell.group import group\n"
        "lodcli.shell.progress.PATIENCE_SECONDS = 0\n"
        "sys.exit(run(group, sys.argv[1:]))\n"
    )
    Path("slow.py").write_text(slow)
    line = f"{sys.executable} slow.py convert big.npz out.lod.h5 -f"
    code, shown = on_a_terminal(line)
    assert code == 0
    assert "15 rows" in shown
    assert on_a_terminal(line + " -q") == (0, "")
    assert on_a_terminal(f"TERM=dumb {line}") == (0, "")
    assert "rows" not in on_a_terminal(f"{line} 2>err; cat err")[1]


@pytest.mark.parametrize(
    ("variables", "terminal", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"CLICOLOR": "0"}, True, False),
        ({"CLICOLOR": "1"}, True, True),
        ({"CLICOLOR": "1"}, False, False),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"CLICOLOR_FORCE": "0"}, False, False),
        ({"CLICOLOR_FORCE": "1", "CLICOLOR": "0"}, False, True),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour_follows_the_environment(
    variables: dict[str, str], terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.shell import output

    class Stream:
        def isatty(self) -> bool:
            return terminal

    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert output.colours(Stream()) is expected  # type: ignore[arg-type]


def test_too_little_memory_to_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise MemoryError

    monkeypatch.setattr("lodcli.shell.standard_streams.prepare_streams", fail)
    monkeypatch.setattr("lodcli.formats.storage.interrupts.install", lambda: None)
    monkeypatch.setattr("lodcli.main.signal.signal", lambda *_: None)
    assert main() == 3
    assert capfd.readouterr().err == "lod: not enough memory\n"


def test_objects_left_by_a_lack_of_memory_are_released_silently() -> None:
    code = """
import sys, warnings
import click
from lodcli.shell.failures import run

class Broken:
    def __del__(self):
        warnings.warn("never awaited", RuntimeWarning)
        raise AttributeError("a field is not there yet")

@click.group()
def group(): pass

@group.command()
def fail():
    broken = Broken()
    raise MemoryError

sys.exit(run(group, ["fail"]))
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True)
    assert done.returncode == 3
    assert done.stderr.startswith(b"lod fail: not enough memory;")
    assert done.stderr.count(b"\n") == 1
