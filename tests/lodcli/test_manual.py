"""Man pages are made of the commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from lodcli import commands
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.platform.environment import VARIABLES
from lodcli.manual.pages import pages
from lodcli.manual.roff import escaped, prose
from lodcli.shell.group import group
from tests.lodcli.conftest import environment
from tests.lodcli.test_all_commands import leaves

PAGES = pages("1.2.3")


def test_every_command_has_a_page() -> None:
    assert {"lod.1", *(f"lod-{name}.1" for name in commands.TABLE)} <= set(PAGES)
    assert {"lod-bench-kernels.1", "lod-bench-padding.1"} <= set(PAGES)


def plain(page: str) -> str:
    """Return a page without what is roff."""
    return page.replace("\\-", "-").replace("\\&", "").replace("\\fB", "").replace("\\fR", "")


def test_a_page_holds_every_option_and_example_of_its_command() -> None:
    for name, command in [("", group), *leaves(group)]:
        if name.startswith("apply "):
            continue
        page = plain(PAGES["-".join(["lod", *name.split()]) + ".1"])
        for param in command.params:
            if isinstance(param, click.Option):
                assert all(option in page for option in param.opts), (name, param.opts)
        assert "-h, --help" in page
        examples = (command.help or "").partition("Examples:\n")[2].partition("\n\n")[0]
        for line in examples.splitlines():
            assert line.strip().replace("'", "\\(aq") in page, (name, line)


def test_the_page_of_lod_lists_commands_variables_and_exit_codes() -> None:
    page = plain(PAGES["lod.1"])
    for name, (_, summary) in commands.TABLE.items():
        assert f"lod-{name}(1)\n{summary}" in page.replace("\\(aq", "'")
    assert all(name in page for name in VARIABLES)
    assert "Ctrl-C is 130, kill 143" in page
    assert all(f"\n{op}\n" in plain(PAGES["lod-apply.1"]) for op in OPS)


def test_the_page_of_a_group_says_what_its_commands_do() -> None:
    assert "\\fBlod\\-bench\\-kernels(1)\\fR\nTime the sequence ops.\n" in PAGES["lod-bench.1"]
    assert ".SH COMMANDS" not in PAGES["lod-slice.1"]


@pytest.mark.parametrize("name", ["lod.1", "lod-apply.1", "lod-slice.1", "lod-bench.1"])
def test_man_shows_a_page_without_a_warning(name: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("needs the program groff")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-rLL=80n"],
        input=PAGES[name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert "SYNOPSIS" in re.sub(".\x08", "", done.stdout)  # bold is printed twice


def test_text_is_not_taken_for_roff() -> None:
    assert escaped(".TH x") == "\\&.TH x"
    assert escaped("a\\b 'c' -d") == "a\\eb \\(aqc\\(aq \\-d"
    assert prose("One\ntwo.\n\n\b\na\n  b") == [".PP", "One two.", ".PP", ".nf", "a", "  b", ".fi"]


def test_pages_are_written_without_numpy(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(['numpy', 'h5py', 'rich', 'pyarrow'])\n"
        f"from lodcli.manual.pages import main; main({str(tmp_path)!r}, '1')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
    assert {path.name for path in tmp_path.iterdir()} == set(PAGES)
