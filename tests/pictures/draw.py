"""The pictures by name, and the source of each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import lodcli
from lodcli import LoDTensor
from tests.pictures.concepts import concepts
from tests.pictures.ragged import ragged
from tests.pictures.terminal import run, session

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "pictures"


def _sentences(folder: Path) -> str:
    run("lod convert -q samples/articles.txt a.lod.h5", folder)
    run("lod slice -q a.lod.h5 --level sentence 12:20 -o batch.lod.h5", folder)
    batch = lodcli.read(folder / "batch.lod.h5")
    assert isinstance(batch, LoDTensor)
    return ragged([int(length) for length in batch.lod.lengths(0)])


def _tour(folder: Path) -> str:
    return session(
        "A terminal session: convert a text, look at it, take one sentence, run an LSTM",
        [
            "lod convert samples/articles.txt articles.lod.h5",
            "lod inspect articles.lod.h5",
            "lod slice articles.lod.h5 2,0 | lod convert - -q --to text | head -3 | xargs",
            "lod convert -q samples/japanese_vowels.ts vowels.lod.h5",
            "lod run-rnn vowels.lod.h5 -o out.lod.h5 --cell lstm --hidden 64 --seed 1",
            "lod inspect out.lod.h5 | head -3",
        ],
        folder,
    )


def _concept(name: str) -> Callable[[Path], str]:
    return lambda _: concepts()[name]


def _plot(file: str, *options: str) -> Callable[[Path], str]:
    def draw(folder: Path) -> str:
        run("lod convert samples/japanese_vowels.ts vowels.lod.h5", folder)
        run(f"lod plot vowels.lod.h5::data {' '.join(options)} -o {file}.svg", folder)
        return (folder / f"{file}.svg").read_text("utf-8")

    return draw


# name: function that draws it, in a folder that holds a link to samples/.
PICTURES: dict[str, Callable[[Path], str]] = {
    "ragged": _sentences,
    "session": _tour,
    **{name: _concept(name) for name in concepts()},
}
# Likewise, by a version of matplotlib: another one draws them otherwise.
PLOTS = {
    "plot-lengths": _plot("plot-lengths"),
    "plot-values": _plot("plot-values", "--kind values --item 3"),
}


def drawn(name: str) -> str:
    """Return a picture, drawn in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "samples").symlink_to(ROOT / "samples")
        return {**PICTURES, **PLOTS}[name](Path(folder))
