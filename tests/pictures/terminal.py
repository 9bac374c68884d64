"""A terminal session as SVG: commands and their output in colour."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tests.console import on_terminal
from tests.pictures.svg import CHARACTER_WIDTH, Drawing

_STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d1d7e0 }
.screen { fill: #151b23 } .prompt { fill: #57ab5a } .command { fill: #ffffff; font-weight: 600 }
.bold { font-weight: 600; fill: #ffffff }
"""
_COLUMNS = 80  # of `on_terminal`
_LINE = 18.0
_EDGE = 16.0
_CODE = re.compile(r"\x1b\[([0-9;]*)m")


def run(command: str, folder: Path) -> str:
    """Return what a command prints on a terminal of 80 columns with colours."""
    done = on_terminal(command, folder, colours=True)
    done.check_returncode()
    return done.stdout


def session(title: str, commands: Sequence[str], folder: Path) -> str:
    """Return the picture of commands run one after the other in a folder."""
    lines: list[list[tuple[str, str]]] = []
    for command in commands:
        first, *more = command.split("\n")
        lines.append([("prompt", "$ "), ("command", first)])
        lines += [[("prompt", "> "), ("command", line)] for line in more]
        lines += [_parts(line) for line in run(command, folder).splitlines()]
    drawing = Drawing(title, _STYLE)
    height = 2 * _EDGE + _LINE * len(lines)
    drawing.box(0, 0, 2 * _EDGE + _COLUMNS * CHARACTER_WIDTH, height, "screen")
    drawing.elements[-1] = drawing.elements[-1].replace("<rect", '<rect rx="8"')
    for number, parts in enumerate(lines):
        length = sum(len(text) for _, text in parts)
        assert length <= _COLUMNS, f"a line of {length} characters: {parts}"
        spans = "".join(
            f'<tspan class="{kind}">{escape(text)}</tspan>' if kind else escape(text)
            for kind, text in parts
        )
        if length:
            drawing.elements.append(
                f'<text x="{_EDGE:g}" y="{_EDGE + _LINE * (number + 0.75):g}" '
                f'textLength="{length * CHARACTER_WIDTH:g}" xml:space="preserve">{spans}</text>'
            )
    return drawing.text(margin=0)


def _parts(line: str) -> list[tuple[str, str]]:
    """Return the pieces of a line that are printed alike: class and text."""
    kind, parts = "", []
    for number, piece in enumerate(_CODE.split(line)):
        if number % 2:
            kind = "bold" if piece == "1" else ""
        elif piece:
            parts.append((kind, piece))
    return parts
