"""Drawings of boxes, lines and text as SVG, dark and light, with the reader's own fonts."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

# A picture follows the dark or light setting of the reader's system.
STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328 }
.note { fill: #59636e }
.row { fill: #4c8ed9; stroke: #ffffff } .row2 { fill: #e0903c; stroke: #ffffff }
.row3 { fill: #55a868; stroke: #ffffff }
.padding { fill: #e4e7eb; stroke: #ffffff }
.line { stroke: #59636e; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .note { fill: #9198a1 } .line { stroke: #9198a1 }
  .row, .row2, .row3, .padding { stroke: #0d1117 } .padding { fill: #30363d }
}
"""
ROW_CLASSES = ("row", "row2", "row3")
CHARACTER_WIDTH = 7.8  # of a monospace font of 13 px


@dataclass
class Drawing:
    """Collects the elements of a picture; `text` of it is the SVG file.

    Attributes:
        title: what the picture shows, for readers who cannot see it.
        style: CSS for the classes of the elements.
        width: in px; grows with what is drawn.
        height: in px; grows with what is drawn.
    """

    title: str
    style: str = STYLE
    width: float = 0.0
    height: float = 0.0
    elements: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        self._reach(x + width, y + height)
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self.elements.append(f'<rect {place} class="{kind}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self._reach(max(x1, x2), max(y1, y2))
        place = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
        self.elements.append(f'<line {place} class="line"/>')

    def write(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """Add text whose baseline is at y; each character gets the same width."""
        width = len(text) * CHARACTER_WIDTH
        left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
        self._reach(left + width, y + 4)
        kinds = f' class="{kind}"' if kind else ""
        self.elements.append(
            f'<text x="{left:g}" y="{y:g}" textLength="{width:g}" xml:space="preserve"{kinds}>'
            f"{escape(text)}</text>"
        )

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(self, margin: float = 12.0) -> str:
        """Return the SVG file."""
        width, height = self.width + margin, self.height + margin
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
                f'width="{width:g}" height="{height:g}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{self.style}</style>",
                *self.elements,
                "</svg>\n",
            ]
        )
