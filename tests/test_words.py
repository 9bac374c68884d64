"""Docs, docstrings and messages are plain technical English, without the phrases of a table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Phrase: replacement. Phrases are regular expressions; case and line breaks are ignored.
PLAIN = {
    r"(no|some)body|whoever": "name the thread, process, program or measurement",
    r"told (apart|from)": "distinguished",
    r"(given|dealt|shared) out": "assigned, divided",
    r"without a word": "silently",
    r"behind each other": "one after another",
    r"TMPDIR says": "in the folder TMPDIR",
    r"at (its|the) door": "argument checks",
    r"heeds? no|do(es)? not heed": "does not handle",
    r"is deceived": "name the wrong result",
    r"bearable": "give the limit",
    r"has been seen to": "state the measurement",
    r"what is told apart": "name the distinction",
    r"tells? (them|it|the classes) apart": "distinguishes, classifies",
    r"of strangers|strangers' files": "untrusted files",
    r"behind (your|its) back": "without notice",
    r"(no|a) mark of (its|their) own": "magic number",
    r"content and names? tells?|its content says": "detected from the content and the name",
    r"ending names no": "unknown file extension",
    r"a child process that can do nothing else": "a sandboxed child process",
    r"of all chance": "random seed",
    r"what --emit says": "the emitted outputs",
    r"at most so many": "maximum number of",
    r"must fit its": "must match",
    r"unpacks? to more": "maximum decompressed size",
    r"refused by name": "an error that names it",
    r"before a byte is written": "before writing anything",
    r"(all|what|it) (is|are) kept in memory all the same": "is held in memory",
    r"padded box": "padded batch",
    r"as fast as it takes": "name the limit",
    r"a count stands above": "numbers are lengths",
    r"only the last op may": "must be last in the chain",
    r"what boots from": "boot",
    r"no tensor can be told": "cannot infer the dtype",
    r"(its|their) last words": "last output",
    r"sent nonsense": "sent invalid data",
    r"is there twice": "appears twice",
    r"names? nothing": "has no names",
    r"goes round in a circle": "loop",
    r"gone from our hands": "lod has no control over",
    r"stays? what it was": "is unchanged",
    r"(of|by) our own\b": "lod's, a separate",
    r"who is told": "callback",
    r"what decides when": "dispatcher",
    r"weights here run": "backward-only layers are not supported",
    r"raised here, in its place": "exceptions propagate to the caller",
    r"what the items are called": "key columns",
    r"takes? its values from": "indices that sort",
    r"\d+; 0 scores": "number of epochs; 0 only evaluates",
    r"tells? \d+ % of [\w ]+ apart": "test accuracy",
    r"(GPU|CUDA), it is said": "fails before reading input",
    r"kinds? of numbers?": "dtype",
    r"see_what_they_wrote": "acquire_fence",
    r"is no (?:JSON|HDF5|whole pickle|regular file|safetensors file|level name)": "is not ..",
    r"were announced,\s+\S+ came|announced and did not come": "expected .., found ..",
    r"with others in between": "again after other values",
    r"leads back to itself": "refers to itself",
    r"how tensors lie in": "how this format stores tensors",
    r"with which options it is read": "which options apply",
    r"so that it happens once": "cached",
    r"where (?:`?OUT`?|`?LOD_CACHE`?) says": "in the folder ..",
    r"dawdles?": "is slow",
    r"lie in each other|lists? in each other": "nested",
    r"a sequence a (?:user|key)": "one sequence per user",
}
# Spaces in a phrase also match a line break, in a comment followed by the comment sign.
_PATTERNS = {
    re.compile(rf"\b(?:{phrase})\b".replace(" ", r"\s+(?:(?:#|//)\s+)?"), re.IGNORECASE): plain
    for phrase, plain in PLAIN.items()
}
# A single regular expression for all takes a tenth of the time: most files have no match.
_ANY = re.compile("|".join(pattern.pattern for pattern in _PATTERNS), re.IGNORECASE)


def pages() -> list[Path]:
    """Return the files that are checked: pages, and sources with their messages."""
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    for folder, endings in {
        "docs": (".md",),
        "changes": (".md",),
        "samples": (".md",),
        "kernels": (".py", ".cu", ".cuh"),
        "formats": (".py",),
        "lodcli": (".py",),
    }.items():
        texts += [path for path in (ROOT / folder).rglob("*") if path.suffix in endings]
    return texts


def riddles(text: str) -> list[str]:
    """Return the phrases of the table in a text: line, phrase, replacement."""
    if not _ANY.search(text):
        return []
    return [
        f"line {text.count(chr(10), 0, found.start()) + 1}: {found.group()!r}; say: {plain}"
        for pattern, plain in _PATTERNS.items()
        for found in pattern.finditer(text)
    ]


@pytest.mark.slow
def test_pages_sources_and_messages_are_plain_english() -> None:
    faults = [
        f"{path.relative_to(ROOT)}, {riddle}"
        for path in pages()
        for riddle in riddles(path.read_text("utf-8"))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "text",
    [
        "# Threads of our own, whose work\n# shares itself out",
        "a producer inside a library that heeds no signal",
        "x.foo: its ending\n    # names no format",
    ],
)
def test_a_riddle_is_found(text: str) -> None:
    assert len(riddles(text)) == 1


# The column "not" of the table in the project's style guide.
@pytest.mark.parametrize(
    "text",
    [
        "Who is told when a kernel has to be compiled",
        "Return what decides when it is called",
        "gives several tensors; only the last op may",
        "Refuse input that unpacks to more",
        "a child process that can do nothing else",
        "The gradient by what --emit says",
        "without rows no tensor can be told",
        "runs backwards only; weights here run forward",
        "What it raises is raised here, in its place",
        "needs at its door",
        "What a file is, its content says, then its name",
        "is refused by name",
        "Lost when reading: what the items are called",
        "Such files have no mark of their own",
        "The places every sorted column takes its values from",
        "Of all chance; 0.",
        "30; 0 scores.",
        "A count stands above the first of its items",
        "tells 96 % of 370 utterances apart",
        "Where there is no GPU, it is said before anything is read",
        "What boots from a bidirectional RNN is refused",
        "nobody waits for lengths of an index made on a GPU",
        "float32, or another kind of number",
    ],
)
def test_every_pair_of_the_style_is_in_the_table(text: str) -> None:
    assert len(riddles(text)) == 1


def test_plain_english_is_no_riddle() -> None:
    assert not riddles("x.foo: unknown file extension; choose a format with --to")


def test_the_glossary_is_short() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = page.partition("\n## Words\n")[2].partition("\n## ")[0]
    words = [row for row in table.splitlines() if row.startswith("| ")][1:]
    assert 10 < len(words) <= 40
