"""Every console block of the documentation runs, and prints the shown output."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest
from click.testing import CliRunner

from lodcli import commands
from lodcli.formats.core.table import SUFFIXES, TABLE
from lodcli.shell.group import group
from tests.console import on_terminal, plain_words
from tests.lodcli.test_all_commands import leaves
from tests.slow import slow_except

ROOT = Path(__file__).parent.parent
FORMATS = sorted((ROOT / "docs" / "formats").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *FORMATS]
# Words in commands, and the additional package that such a command needs.
_NEEDED = {"awkward": "awkward", "lod plot": "matplotlib", "polars": "polars", "zarr": "zarr"}
# Tools that are not packages.
_TOOLS = ("make",)
# Blocks of Python that import one of these packages are skipped if it is missing.
_IMPORTED = ("torch", "matplotlib", "dask")
# A comment that shows the value of the line, and may explain it: `words[2]  # [[2, 3]]: article 2`.
_VALUE = re.compile(r"True|False|-?\d|[\[({']|LoDTensor\(|array\(")
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def steps(page: Path) -> list[tuple[str, str]]:
    """Return each `$ command` of a page's console blocks with the output below it."""
    found = []
    for block in _BLOCK.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            while output.startswith(">"):  # the prompt of a shell for the rest of a command
                more, _, output = output.partition("\n")
                command += "\n" + more[2:]
            found.append((command, output))
    return found


def is_expression(line: str) -> bool:
    """Return whether a line is an expression at the top level of its block."""
    try:
        compile(line, "", "eval")
    except SyntaxError:
        return False
    return not line.startswith(" ")


def matches(expected: str, found: str) -> bool:
    """Return whether the output is as expected; a line of `...` matches any lines."""
    pattern = "".join(
        "(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + "\n"
        for line in expected.splitlines()
    )
    return re.fullmatch(pattern, found) is not None


@pytest.mark.parametrize(
    "page",
    slow_except([ROOT / "README.md"], [page for page in PAGES if steps(page)]),
    ids=lambda page: page.name,
)
def test_console_blocks_print_what_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that need a shell run in bash, and so do all commands of README."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    left_out = []
    for command, expected in steps(page):
        missing = [
            name for words, name in _NEEDED.items() if words in command and not find_spec(name)
        ]
        missing += [tool for tool in _TOOLS if command.startswith(tool) and not which(tool)]
        if missing:
            left_out += missing
            continue
        words = plain_words(command) if page.stem != "README" else None
        if words is None:
            printed = on_terminal(command, tmp_path, colours=False).stdout
        else:
            terminal = {"COLUMNS": "80", "NO_COLOR": "1"}
            printed = CliRunner().invoke(group, words, env=terminal).output
        assert matches(expected, printed), f"$ {command}\nprints\n{printed}"
    if left_out:  # all other commands had the expected output
        pytest.importorskip(left_out[0])


def test_python_blocks_run_and_give_what_their_comments_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = 0
    for page in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
            missing = [name for name in _IMPORTED if find_spec(name) is None]
            if any(re.search(rf"(\b|_){name}\b", block) for name in missing):
                continue
            names: dict[str, object] = {}
            exec(block, names)
            for line in block.splitlines():
                expression, _, comment = line.partition("  # ")
                if _VALUE.match(comment) and is_expression(expression):
                    said += 1
                    value = repr(eval(expression, names))
                    assert re.match(rf"{re.escape(value)}([:,;] |$)", comment), f"{line}: {value}"
    assert said > 80  # more with all optional packages


def test_a_page_with_wrong_output_is_found() -> None:
    assert matches("a\n...\nc\n", "a\nb\nb\nc\n")
    assert not matches("a\nc\n", "a\nb\nc\n")
    assert not matches("a.c\n", "abc\n")


@pytest.mark.parametrize("page", sorted({*PAGES} - {*FORMATS}), ids=lambda page: page.stem)
def test_a_page_names_its_readers_and_what_they_can_do_afterwards(page: Path) -> None:
    head = page.read_text("utf-8")[:600]
    assert page.stem == "README" or re.search(r"\*For\* .*\*Afterwards\*\s+you", head, re.DOTALL)


def prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_blank_line_precedes_each_table(page: Path) -> None:
    # Without one, the site prints the source of the table.
    assert not re.findall(r"^[^|\n].*\n\|.*$", prose(page), re.MULTILINE)


def flags_of_commands() -> dict[str, set[str]]:
    """Return the options of each command by its words; of a group those of all its commands."""
    flags: dict[str, set[str]] = {"": {"--help", "--version"}}
    for words, command in leaves(group):
        own = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
        for name in {words, words.partition(" ")[0]}:
            flags.setdefault(name, {"--help", "--then", "--list", "--compare"}).update(own)
    return flags | {"convert": flags["convert"] | {"--formats"}}


def test_commands_within_the_text_exist_and_have_the_options() -> None:
    flags = flags_of_commands()
    named = set()
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "internals").glob("*.md")):
        for code in re.findall(r"`(lod [a-z-][^`]*)`", prose(page)):
            for words in re.findall(r"\blod ([^|&]+)", code):
                first, *rest = words.split()
                name = f"{first} {rest[0]}" if rest and f"{first} {rest[0]}" in flags else first
                name = "" if first.startswith("-") else name
                assert name in flags, f"{page.name}: {code}"
                given = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", words))
                assert given <= flags[name], f"{page.name}: {code}"
                named.add((page.stem, first))
    assert {first for stem, first in named if stem == "tasks"} == set(commands.TABLE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and mkdocs make them."""
    heads = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    words = [re.sub(r"[^\w\s-]", "", head).strip().lower() for head in heads]
    return {re.sub(r"[-\s]+", "-", head) for head in words}


def test_links_between_pages_lead_somewhere() -> None:
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*/*.md")):
        text = re.sub(r"`[^`]*`", "", prose(page))
        links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text)
        for target, anchor in links:
            if "://" not in target:
                there = page.parent / target if target else page
                assert there.exists(), f"{page.name}: {target}"
                assert not anchor or anchor in anchors(there), f"{page.name}: {target}#{anchor}"


def test_the_list_of_decisions_has_the_question_of_each() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    listed = (pages[0].parent / "README.md").read_text("utf-8")
    for page in pages:
        number, _, question = page.read_text("utf-8").partition("\n")[0][2:].partition(" ")
        assert f"| [{number}]({page.name}) | {question}" in listed, page.name


def test_every_format_is_described() -> None:
    page = (ROOT / "docs" / "formats.md").read_text()
    assert {path.stem for path in FORMATS} == set(TABLE)
    for name in TABLE:
        assert f"| [`{name}`](formats/{name}.md) |" in page, name
    for suffix in SUFFIXES:
        assert f"`{suffix}`" in page, suffix


@pytest.mark.parametrize(
    "page",
    [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "internals").glob("*.md"))],
    ids=lambda page: page.name,
)
def test_pages_for_developers_name_what_is_there(page: Path) -> None:
    """Paths with capitals, such as FILE_cupy.py, are placeholders."""
    if not (ROOT / "kernels").exists():
        pytest.skip("the sources are not here: INSTALLED in tests/run.sh")
    there = [
        path.relative_to(ROOT).as_posix() + "/" * path.is_dir()
        for top in ("kernels", "formats", "lodcli", "tests", "docs", "changes", ".ci")
        for path in (ROOT / top).rglob("*")
    ]
    named = {
        name
        for quoted in re.findall(r"`([^`\n]+)`", page.read_text("utf-8"))
        for name in quoted.split()
        if re.fullmatch(r"[a-z0-9_./]*(/|\.py|\.pyi|\.md)", name)
    }
    tops = ("kernels/", "formats/", "lodcli/", "tests/", "docs/", "changes/", "samples/")
    missing = [
        name
        for name in sorted(named)
        if name not in tops and not any(f"/{path}".endswith(f"/{name}") for path in there)
    ]
    assert not missing


def test_the_map_names_every_folder_of_the_floors() -> None:
    page = (ROOT / "docs" / "internals" / "map.md").read_text("utf-8")
    for floor in ("kernels", "formats", "lodcli"):
        for path in sorted((ROOT / floor).glob("*/__init__.py")):
            assert re.search(rf"[` ]{path.parent.name}/", page), path.parent
