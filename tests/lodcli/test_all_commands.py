"""Rules for all commands and their options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lodcli.manual.pages import pages
from lodcli.shell.command import grouped
from lodcli.shell.group import CONTEXT, group
from tests.lodcli.conftest import Lod


def leaves(command: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that do something, with their names."""
    if not isinstance(command, click.Group):
        yield " ".join(names), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below, *names, name)


def test_help_and_man_pages_show_the_options_of_the_command_first() -> None:
    for name, command in leaves(group):
        context = click.Context(command, info_name=name, **CONTEXT)
        groups = grouped(command, context)
        titles = re.findall(r"(?m)^(\S.*):$", command.get_help(context))
        assert titles == [*groups], name
        if name == "slice":
            assert [*groups] == ["Options", "Output", "Input", "Messages"]
            assert [option.split()[0] for option, _ in groups["Options"]] == ["--level"]
    page = pages("1")["lod-slice.1"]
    assert page.index("\\-\\-level") < page.index(".SS Output") < page.index(".SS Input")


def test_help_shows_every_default_in_the_same_words() -> None:
    shown = 0
    for name, command in leaves(group):
        context = click.Context(command, info_name=name, **CONTEXT)
        for option in command.params:
            if not isinstance(option, click.Option) or option.hidden:
                continue
            _, text = option.get_help_record(context) or ("", "")
            assert "(default" not in text, (name, option.opts)
            default = option.get_default(context)
            if "--level" in option.opts:
                assert "default" in text, name
            if not (option.is_flag or option.multiple) and isinstance(default, int | float | str):
                assert "[default: " in text, (name, option.opts, default)
                shown += 1
    assert shown > 100


def test_the_examples_of_a_help_follow_its_summary() -> None:
    for name, command in leaves(group):
        parts = re.split(r"\n\s*\n", command.help or "")
        if found := [place for place, part in enumerate(parts) if "Examples:" in part]:
            # Before those of an op are its equation and what the letters in it are.
            assert found == [1 + 2 * name.startswith("apply ")], name


def test_an_output_file_has_the_same_options_everywhere() -> None:
    for name, command in leaves(group):
        for option in command.params:
            if "-o" in option.opts:
                assert "--output" in option.opts, name


def test_no_file_or_folder_has_an_empty_name() -> None:
    checked = 0
    for _, command in leaves(group):
        for param in command.params:
            if isinstance(param.type, click.Path):
                with pytest.raises(click.BadParameter):
                    param.type.convert("", param, None)
                checked += 1
    assert checked > 150


@pytest.mark.parametrize(
    "words",
    ["bench kernels --output", "bench kernels --plot", "weights w.npz -o", "filter a --indices",
     "train a -o m --weights", "convert a b --vocab", "shard a", "run-rnn a --weights",
     "run-rnn a --nested", "run-rnn a --step"],
)  # fmt: skip
def test_an_empty_name_is_a_usage_error(lod: Lod, words: str) -> None:
    done = lod(*words.split(), "")
    assert (done.code, done.stdout) == (2, "")
    assert "is empty; " in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "apply pad words.lod.h5 --level 0 --maxlen 999999999999999999",
            "maxlen: 999999999999999999 is out",
        ),
        ("apply pad words.lod.h5 --maxlen 1180591620717411303424", "more than 64 bits"),
        (
            "run-rnn words.lod.h5 --cell gru --hidden 2 --seed 1 --layers 2147483648",
            "at most 10000",
        ),
        ("slice words.lod.h5 1180591620717411303424", ""),
        ("slice words.lod.h5 -- -1180591620717411303424:", ""),
        ("head words.lod.h5 -n 1180591620717411303424", "is not in the range"),
        ("shuffle words.lod.h5 --seed 1180591620717411303424", "is not in the range"),
        ("split words.lod.h5 -o out-{}.npz --by count 1180591620717411303424", ""),
        ("shard words.lod.h5 out --shards 1180591620717411303424", "is not in the range"),
        ("inspect words.lod.h5 --memory 1180591620717411303424", "is not a size"),
    ],
)
def test_a_huge_number_is_a_usage_error(lod: Lod, folder: Path, words: str, said: str) -> None:
    done = lod(*words.split())
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
