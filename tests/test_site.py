"""The site has every page, command and public name. docs/build.sh checks links and more."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path

import click

from docs.site.commands import command_pages
from docs.site.python import MODULES, ROOT, names, python_pages
from docs.site.stage import completed, sources, without_folders
from lodcli.shell.group import group
from tests.lodcli.test_all_commands import leaves


def test_every_page_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text("utf-8").split()
    pages = [path for path, _ in sources() if path.endswith(".md")]
    assert len(pages) > 20
    missing = [path for path in pages if path not in listed and "decisions" not in path]
    assert not missing


def test_every_command_has_a_page_with_its_options() -> None:
    pages = command_pages()
    for words, command in leaves(group):
        if words.startswith("apply "):  # docs/ops.md has all ops
            continue
        text = pages[f"docs/commands/lod-{words.replace(' ', '-')}.md"]
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in text, (words, option.opts)


def test_every_public_name_has_a_place_in_the_python_reference() -> None:
    pages = python_pages()
    for module, (stub, _) in MODULES.items():
        if module == "lodcli.torch" and not find_spec("torch"):
            continue
        found = dict(names((ROOT / stub).read_text("utf-8"), module))
        public = set(getattr(importlib.import_module(module), "__all__", ())) | {"open"}
        assert public - {"__version__", *(one.rpartition(".")[2] for one in MODULES)} <= {
            *found,
            "open",
        }, module
        for name in found:
            text = pages[f"docs/python/{module}.md"]
            assert f"\n## {name}\n" in text or f"Also called `{name}`." in text


def test_an_object_is_described_once() -> None:
    homes = [
        line for text in python_pages().values() for line in text.splitlines() if line[:4] == "::: "
    ]
    assert len(homes) == len(set(homes)) > 100


def test_links_to_folders_become_text() -> None:
    text = without_folders("[a](b/) [c](d.md#e) [f](https://g.h) ![i](j.svg)", Path("docs"))
    assert text == "a [c](d.md#e) [f](https://g.h) ![i](j.svg)"


def test_words_in_capitals_are_replaced_by_pages() -> None:
    nav: list[dict[str, object]] = [{"A": "a.md"}, {"B": [{"C": "PAGES"}]}]
    assert completed(nav, {"PAGES": ["c.md"]}) == [{"A": "a.md"}, {"B": [{"C": ["c.md"]}]}]
