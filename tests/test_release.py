"""Notes of changes/ become the section of a release in CHANGELOG.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "notes.py"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository with two notes, an introduction and an older release."""
    (tmp_path / "changes").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\nx = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\nA word first.\n\n## 0.1.0 (2020-01-01)\n\nOld.\n"
    )
    (tmp_path / "changes" / "README.md").write_text("How notes are written.\n")
    (tmp_path / "changes" / "numpy-2.5.fixed.md").write_text("A fault\nis gone.\n")
    (tmp_path / "changes" / "head.added.md").write_text("`lod head` is new.\n")
    return tmp_path


def test_notes_move_into_the_changelog(tree: Path) -> None:
    done = run("0.2.0", "2021-02-03", tree)
    assert done.returncode == 0, done.stderr
    said = "A word first.\n\n### Added\n\n- `lod head` is new.\n\n### Fixed\n\n- A fault is gone.\n"
    assert done.stdout == said
    text = (tree / "CHANGELOG.md").read_text()
    assert f"## 0.2.0 (2021-02-03)\n\n{said}\n## 0.1.0 (2020-01-01)\n\nOld.\n" in text
    assert text.count("A word first.") == 1
    assert text.startswith("# Changelog\n\n## Unreleased\n\nNotes on changes since")
    assert [path.name for path in (tree / "changes").iterdir()] == ["README.md"]
    assert (tree / "pyproject.toml").read_text() == '[project]\nversion = "0.2.0"\nx = "0.1.0"\n'


def test_the_next_release_does_not_repeat_the_first(tree: Path) -> None:
    run("0.2.0", "2021-02-03", tree)
    (tree / "changes" / "tail.added.md").write_text("`lod tail` is new.\n")
    assert run("0.3.0", "2021-03-04", tree).stdout == "### Added\n\n- `lod tail` is new.\n"


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "1.0", "v2"])
def test_only_a_later_version_is_released(version: str, tree: Path) -> None:
    done = run(version, "2021-02-03", tree)
    assert done.returncode == 1
    assert "later than 0.1.0" in done.stderr
    assert len(list((tree / "changes").iterdir())) == 3


@pytest.mark.parametrize(
    ("name", "text"), [("a.new.md", "x"), ("b.md", "x"), ("c.fixed.txt", "x"), ("d.fixed.md", "\n")]
)
def test_a_file_that_is_no_note_is_an_error(name: str, text: str, tree: Path) -> None:
    (tree / "changes" / name).write_text(text)
    done = run("0.2.0", "2021-02-03", tree)
    assert done.returncode == 1
    assert name in done.stderr
    assert "0.2.0" not in (tree / "CHANGELOG.md").read_text()


def test_nothing_is_released_without_notes(tree: Path) -> None:
    for path in (tree / "changes").glob("*.*.md"):
        path.unlink()
    assert run("0.2.0", "2021-02-03", tree).returncode == 1


def test_the_notes_of_this_repository_can_be_gathered(tree: Path) -> None:
    for path in (ROOT / "changes").iterdir():
        (tree / "changes" / path.name).write_text(path.read_text("utf-8"), "utf-8")
    done = run("0.2.0", "2021-02-03", tree)
    assert done.returncode == 0, done.stderr
