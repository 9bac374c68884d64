"""Gather the notes of changes/ into CHANGELOG.md for a release, and set the version.

    python .ci/notes.py VERSION DATE [FOLDER]    FOLDER: the repository [default: here]

What CHANGELOG.md says under "Unreleased" becomes the introduction of the release. Prints the notes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# The kind of a note, in its file name, and the heading over such notes.
KINDS = {
    "security": "Security",
    "removed": "Removed",
    "changed": "Changed",
    "added": "Added",
    "fixed": "Fixed",
}
_UNRELEASED = "## Unreleased\n"
_EMPTY = (
    "\nNotes on changes since the last release are kept one per file in [changes/](changes/), and\n"
    "are gathered here when a release is made.\n"
)


def notes(folder: Path) -> dict[Path, str]:
    """Return the notes of changes/ by kind and name.

    Raises:
        SystemExit: a file there is not a note.
    """
    found = {}
    for path in sorted(folder.glob("*")):
        if path.name == "README.md":
            continue
        kind = path.name.split(".")[-2] if path.name.count(".") >= 2 else ""
        text = " ".join(path.read_text("utf-8").split())
        if kind not in KINDS or path.suffix != ".md" or not text:
            raise SystemExit(f"{path}: expected text in WHAT.KIND.md; KIND is one of {[*KINDS]}")
        found[path] = text
    return found


def section(found: dict[Path, str]) -> str:
    """Return the lists of notes, under a heading for each kind."""
    lists = []
    for kind, title in KINDS.items():
        items = [f"- {text}" for path, text in found.items() if path.name.endswith(f".{kind}.md")]
        if items:
            lists.append(f"### {title}\n\n" + "\n".join(items) + "\n")
    return "\n".join(lists)


def release(version: str, date: str, root: Path) -> str:
    """Move the notes into CHANGELOG.md, set the version, and return the notes.

    Raises:
        SystemExit: the version is not a later one, or there are no notes.
    """
    project = root / "pyproject.toml"
    text = project.read_text("utf-8")
    now = re.search(r'^version = "(.*)"$', text, re.MULTILINE)
    assert now is not None
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or _numbers(version) <= _numbers(now[1]):
        raise SystemExit(f"expected a version later than {now[1]}, such as 1.2.3, found {version}")
    found = notes(root / "changes")
    if not found:
        raise SystemExit("changes/ holds no notes: nothing to release")
    changelog = root / "CHANGELOG.md"
    head, _, rest = changelog.read_text("utf-8").partition(_UNRELEASED)
    introduction, *older = re.split(r"(?=^## )", rest, maxsplit=1, flags=re.MULTILINE)
    introduction = introduction.replace(_EMPTY.strip(), "").strip()
    said = "\n\n".join(part for part in (introduction, section(found)) if part).rstrip() + "\n"
    titled = f"## {version} ({date})\n\n{said}"
    changelog.write_text(
        "\n".join([head + _UNRELEASED + _EMPTY, titled, *older]).rstrip() + "\n", "utf-8"
    )
    project.write_text(text.replace(now[0], f'version = "{version}"', 1), "utf-8")
    for path in found:
        path.unlink()
    return said


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


if __name__ == "__main__":
    print(release(sys.argv[1], sys.argv[2], Path(sys.argv[3] if sys.argv[3:] else ".")), end="")
