"""Finds files for found/: `python -m tests.corpus.find` damages a good file of each format.

Of all that is tried, files are kept whose errors differ. Those that are there already stay;
a format that has enough is left alone.
"""

from __future__ import annotations

import json
import lzma
import re
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tests.corpus.make import FOLDER, FOUND, Entry, entry_of
from tests.corpus.sources import Crafted
from tests.reliability.fuzz.bases import BASES
from tests.reliability.mutators.generic import ANY

# Binary formats of one file that nothing is crafted for, and how many of each are kept.
FORMATS = (
    *("safetensors", "paddle", "torch", "arrow", "arrow-stream", "parquet"),
    *("awkward", "h5ad", "vtkhdf", "llmc", "webdataset"),
)
ENDINGS = {"arrow-stream": "arrows", "awkward": "npz", "llmc": "bin", "paddle": "lodt"}
ENDINGS |= {"torch": "pt", "webdataset": "tar"}
EACH, TRIES, SLOW_SECONDS = 24, 20_000, 0.5


def _told(entry: Entry) -> str:
    """Return an error without numbers and quotations, to group errors by kind."""
    return re.sub(r"'[^']*'|\d+", "", entry.message)[:50]


def find(format_name: str) -> list[tuple[Entry, bytes]]:
    """Return damaged files of a format, each refused at once; as many kinds as there are."""
    base = BASES[format_name]()
    content = base.files[base.main]
    ending = ENDINGS.get(format_name, format_name)
    kinds: dict[str, int] = {}
    found: list[tuple[Entry, bytes]] = []
    # First one of each kind of error, then two, until there are enough.
    for most in (1, 2, 4, EACH):
        for number in range(TRIES if most == 1 else TRIES // 10):
            if len(found) == EACH:
                return found
            rng = np.random.default_rng([most, number, *format_name.encode()])
            changed = ANY[int(rng.integers(len(ANY)))](content, rng)
            name = f"found/{format_name}-{len(found) + 1:02}.{ending}"
            begun = time.monotonic()
            try:
                entry = entry_of(Crafted(name, format_name, changed))
            except AssertionError:
                continue  # it is read: this damage does no harm
            if not entry.message.isprintable():
                continue  # quotes what JSON cannot hold
            told = _told(entry)
            if kinds.get(told, 0) < most and time.monotonic() - begun < SLOW_SECONDS:
                kinds[told] = kinds.get(told, 0) + 1
                found.append((entry, changed))
            if most == 1 and number > 400:
                break
    return found


def main() -> None:
    """Add what is missing."""
    kept = json.loads(FOUND.read_text("utf-8"))
    (FOLDER / "found").mkdir(exist_ok=True)
    for name in FORMATS:
        if any(each["format"] == name for each in kept):
            continue
        for entry, content in find(name):
            packed = lzma.compress(content, preset=9) if entry.file.endswith(".xz") else content
            Path(FOLDER, entry.file).write_bytes(packed)
            kept.append(asdict(entry))
        print(name, sum(each["format"] == name for each in kept), flush=True)
    FOUND.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
