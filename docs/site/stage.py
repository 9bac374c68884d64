"""Hook of mkdocs: collects the pages of the site, and makes the references of commands and Python.

Pages keep their places in the repository, so that the same links work there and on the site.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from docs.site.commands import command_pages  # noqa: E402
from docs.site.python import python_pages  # noqa: E402

SOURCES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
    *("changes/README.md", "samples/README.md", "docs/**/*.md", "docs/**/*.svg"),
    _WORKER := "docs/site/frame_worker.js",
)
_ELSEWHERE = "https://unpkg.com/iframe-worker/shim"  # the address that mkdocs-material writes
_LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]*\bsrc=.?(?:https?:)?//|<link[^>]*stylesheet[^>]*//"
)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^):#]+)\)")

Nav = list[dict[str, object]]


def on_config(config: Any) -> Any:
    """Write all pages into the folder that mkdocs builds from, and complete its navigation."""
    folder = Path(config["docs_dir"])
    pages = dict(sources())
    commands, python = command_pages(), python_pages()
    written = {**pages, **commands, **python}
    for path, text in written.items():
        write(folder / path, text)
    for old in folder.rglob("*"):
        if old.is_file() and old.relative_to(folder).as_posix() not in written:
            old.unlink()
    decisions = [path for path in pages if path.startswith("docs/decisions/")]
    groups = {"COMMANDS": commands, "PYTHON": python, "DECISIONS": decisions}
    config["nav"] = completed(config["nav"], groups)
    return config


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Return a page that loads nothing from elsewhere; warn if it does."""
    up = "../" * page.url.count("/")
    output = output.replace(_ELSEWHERE, up + _WORKER)
    if found := _LOADED.search(output):
        logging.getLogger("mkdocs").warning("%s loads from elsewhere: %s", page.url, found[0])
    return output


def on_post_template(output_content: str, *, template_name: str, config: Any) -> str:
    """Return the page for wrong addresses, likewise."""
    return output_content.replace(_ELSEWHERE, "/" + _WORKER)


def sources() -> Iterable[tuple[str, str]]:
    """Yield each page and picture of the repository: its path and text."""
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text("utf-8")
            if path.suffix == ".md":
                text = without_folders(text, path.parent)
            yield path.relative_to(ROOT).as_posix(), text


def without_folders(text: str, folder: Path) -> str:
    """Return a page whose links to folders and sources are text: the site holds none of these."""

    def replaced(link: re.Match[str]) -> str:
        return link[0] if (folder / link[2]).suffix in (".md", ".svg") else link[1]

    return _LINK.sub(replaced, text)


def completed(nav: Nav, groups: Mapping[str, Iterable[str]]) -> Nav:
    """Return a navigation whose words in capitals are replaced by the pages of these groups."""
    return [
        {
            title: list(groups[str(below)])
            if str(below) in groups
            else completed(below, groups)
            if isinstance(below, list)
            else below
            for title, below in entry.items()
        }
        for entry in nav
    ]


def write(path: Path, text: str) -> None:
    """Write a file unless it holds the text already: mkdocs then has nothing to do."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
