"""Completion of names in files, in the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lodcli.commands import TABLE
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.complete import names
from tests.hanging import HANG_SECONDS
from tests.lodcli.conftest import Lod, environment
from tests.slow import one_in

# What `lod completion SHELL` says is in $SAID.
BASH = """
eval "$SAID"
compopt() { :; }
COMP_LINE="$1"
COMP_POINT=${#COMP_LINE}
word=${COMP_LINE##*[[:space:]]}
_lod_completion lod "${word##*[:=]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
# Without a terminal there is no completion in zsh: the words are those that it would set.
ZSH = """
autoload -Uz compinit && compinit -u -D
eval "$SAID"
compadd() { print -l -- $completions }
_describe() { print -l -- ${completions_with_descriptions%%:*} }
_path_files() { : }
words=(${(z)1})
[[ $1 == *' ' ]] && words+=('')
CURRENT=$#words
compset() { [[ $words[CURRENT] == ${~2}* ]] }
_lod_completion
"""
FISH = "printf %s $SAID | source; complete -C $argv[1] | string split -f1 \\t"


@cache
def said(shell_name: str) -> str:
    """Return the script that `lod completion` prints."""
    return subprocess.check_output(
        ["lod", "completion", shell_name], env=environment(), text=True, timeout=HANG_SECONDS
    )


def completed(shell_name: str, line: str) -> list[str]:
    """Return the completions of a shell at the end of a line."""
    if shutil.which(shell_name) is None:
        pytest.skip(f"needs the program {shell_name}")
    script = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell_name]
    quiet = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell_name]
    name = [] if shell_name == "fish" else [shell_name]
    done = subprocess.run(
        [shell_name, *quiet, "-c", script, *name, line],
        env=environment(SAID=said(shell_name)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.stderr == ""
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "expected"),
    one_in(
        3,
        [
            ("lod slice many.lod.h5::", ["vectors", "tags", "other"]),
            ("lod slice many.lod.h5::ta", ["tags"]),
            ("lod slice words.lod.h5 0 --level ", ["article", "sentence"]),
            ("lod slice words.lod.h5 0 --level s", ["sentence"]),
            ("lod apply sum words.lod.h5 --level a", ["article"]),
            ("lod slice words.lod.h5 0 --level=s", ["sentence"]),
            (r"lod slice a\ b.lod.h5::ta", ["tags"]),
            ("lod select many.lod.h5 t", ["tags"]),
            ("lod unp", ["unpack"]),
        ],
    ),
)
def test_names_of_the_file_are_offered(
    folder: Path, shell_name: str, line: str, expected: list[str]
) -> None:
    shutil.copy("many.lod.h5", "a b.lod.h5")
    # Bash and zsh replace what follows the colons, bash also what follows =; fish the whole word.
    head = ""
    if "::" in line and shell_name == "fish":
        head = "a b.lod.h5::" if "a\\ b" in line else "many.lod.h5::"
    elif "=" in line and shell_name != "bash":
        head = "--level="
    assert completed(shell_name, line) == [head + name for name in sorted(expected)]


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_an_unknown_command_completes_without_an_error(folder: Path, shell_name: str) -> None:
    assert "slice" in completed(shell_name, "lod xyz ")


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_the_names_after_a_comma_are_offered(folder: Path, shell_name: str) -> None:
    assert completed(shell_name, "lod group many.lod.h5 --by tags,") == [
        "tags,other",
        "tags,vectors",
    ]


def test_files_are_left_to_the_shell(folder: Path) -> None:
    assert "words.lod.h5" in completed("fish", "lod inspect wor")


Offered = Callable[[str], list[str]]


@pytest.fixture
def offered(shell: Lod) -> Offered:
    """What lod answers to fish."""

    def ask(line: str) -> list[str]:
        word = line.rpartition(" ")[2]
        done = shell("lod", _LOD_COMPLETE="fish_complete", COMP_WORDS=line, COMP_CWORD=word)
        assert (done.code, done.stderr) == (0, "")
        return [one.removeprefix("plain,") for one in done.stdout.split()]

    return ask


def test_keys_and_labels_are_completed_with_names_of_tensors(
    folder: Path, offered: Offered
) -> None:
    assert offered("lod group many.lod.h5 --by t") == ["tags"]
    assert offered("lod group many.lod.h5 --by tags,o") == ["tags,other"]
    assert offered("lod sort many.lod.h5 --by v") == ["vectors"]
    assert offered("lod join many.lod.h5 words.lod.h5 --on ") == ["vectors", "tags", "other"]
    assert offered("lod train many.lod.h5 --labels ot") == ["other"]


def test_commands_with_a_schema_are_completed(offered: Offered) -> None:
    assert set(offered("lod schema sh")) == {"shard", "shuffle"}
    assert offered("lod schema err") == ["error"]


def test_levels_without_names_have_numbers(folder: Path, offered: Offered) -> None:
    assert offered("lod slice many.lod.h5::other 0 --level ") == ["0"]
    assert offered("lod slice many.lod.h5 0 --level ") == ["article", "sentence", "0"]


@pytest.mark.parametrize("name", ["other.npz", "other.jsonl", "other.lods", "other.parquet"])
def test_tensors_of_other_formats_are_completed(folder: Path, offered: Offered, name: str) -> None:
    io.write(name, {"data": LoDTensor(np.arange(3), LoD.from_lengths([[1, 2]]))})
    assert offered(f"lod inspect {name}::") == [f"{name}::data"]


def test_only_the_header_of_a_container_is_read(folder: Path, offered: Offered, lod: Lod) -> None:
    raw = bytearray(Path("words.lod.h5").read_bytes())
    index = raw.index(np.array([0, 3, 4, 6]).tobytes())
    raw[index + 8] ^= 1
    Path("words.lod.h5").write_bytes(raw)
    assert lod("inspect", "words.lod.h5").code == 1
    assert offered("lod slice words.lod.h5 0 --level ") == ["article", "sentence"]


@pytest.mark.parametrize(
    "line", ["lod slice nowhere::", "lod slice broken::", "lod inspect / --level "]
)
def test_unreadable_files_offer_no_completions(folder: Path, offered: Offered, line: str) -> None:
    Path("broken").write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    assert offered(line) == []


def test_names_that_a_shell_would_act_on_are_not_offered(folder: Path, offered: Offered) -> None:
    names = ["good", "$(touch x)", "a;b", "`c`", "d'e"]
    io.write("evil.lod.h5", {name: LoDTensor(np.arange(1)) for name in names})
    assert offered("lod slice evil.lod.h5::") == ["evil.lod.h5::good"]
    assert offered("lod select evil.lod.h5 ") == ["good"]


def test_a_pipe_is_not_opened_to_complete_a_line(folder: Path) -> None:
    """That would wait for its writer, or end it."""
    os.mkfifo("pipe.lods")
    assert names.references("pipe.lods::") == []


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("lod ", f"inspect\t{TABLE['inspect'][1]}"),
        ("lod apply ", f"add\t{OPS['add'].summary}"),
        ("lod apply soft", f"softmax\t{OPS['softmax'].summary}"),
    ],
)
def test_commands_and_ops_are_completed_without_loading_them(line: str, first: str) -> None:
    *_, word = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-v", "-m", "lodcli"],
        env=environment(_LOD_COMPLETE="fish_complete", COMP_WORDS=line, COMP_CWORD=word),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    assert done.stdout.splitlines()[0] == f"plain,{first}"
    for name in ("numpy", "lodcli.commands.inspect.command", "lodcli.kernels.ops.joining"):
        assert f"import '{name}'" not in done.stderr
