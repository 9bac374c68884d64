"""Design questions for ragged data, answered by the measurements.

Padding or not, offsets or lengths, sorted or not, absolute offsets or sums: one sentence generated
from the figures and one table each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.benchmarks.verdicts import THREADS, Between, Row, time_of

# Smaller ratios are reported as equal.
NOTABLE = 1.1


@dataclass(frozen=True)
class Cell:
    """One op at one skew.

    Attributes:
        skew: of the lengths.
        padding: rows of a padded box over rows, where that was noted.
        ratios: another way's time over ours, by its name.
    """

    op: str
    skew: float
    padding: float | None
    ratios: dict[str, Between]


def cells_of(bench: str, rows: Sequence[Row]) -> list[Cell]:
    """Return the measurements for a question, in the order of the reports."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if (row["bench"], row["threads"]) == (bench, THREADS) and row["case"].startswith("skew "):
            found.setdefault((row["op"], row["case"]), []).append(row)
    cells = []
    for (op, case), each in found.items():
        ours = next(row for row in each if row["ours"])
        ratios = {
            row["library"]: time_of(row).over(time_of(ours)) for row in each if not row["ours"]
        }
        padding = ours["parameters"].get("padding_ratio")
        skew = float(case.split()[-1])
        cells.append(Cell(op, skew, None if padding is None else float(padding), ratios))
    return cells


def span(cells: Sequence[Cell], way: str) -> Between | None:
    """Return between which ratios another way lies."""
    found = [cell.ratios[way] for cell in cells if way in cell.ratios]
    if not found:
        return None
    return Between(min(one.low for one in found), max(one.high for one in found))


def in_words(ratio: Between | None) -> str:
    """Return in words how much longer another way takes."""
    if ratio is None:
        return "was not measured"
    if ratio.low >= 1 / NOTABLE and ratio.high <= NOTABLE:
        return "takes as long"
    digits = 0 if ratio.low >= 10 else 1
    return f"takes {ratio.text(digits=digits)} times as long"


def _of(cells: Sequence[Cell], op: str) -> list[Cell]:
    return [cell for cell in cells if cell.op == op]


def _padding(cells: Sequence[Cell]) -> str:
    level = [cell for cell in cells if cell.skew == 0]
    skewed = [cell for cell in cells if cell.skew == 0.8]
    ratio = next((cell.padding for cell in skewed if cell.padding), None)
    box = "" if ratio is None else f", where padding gives {ratio:.1f} times the rows"
    return (
        f"With equal lengths, summing a padded batch {in_words(span(_of(level, 'sum'), 'padded'))} "
        f"as summing unpadded rows. With lengths of skew 0.8{box}, summing the padded batch "
        f"{in_words(span(_of(skewed, 'sum'), 'padded'))}, and an LSTM on it "
        f"{in_words(span(_of(skewed, 'lstm'), 'padded'))}."
    )


def _offsets(cells: Sequence[Cell]) -> str:
    kernels = [cell for cell in cells if cell.op != "access"]
    return (
        f"Random access to sequences by lengths "
        f"{in_words(span(_of(cells, 'access'), 'lengths'))} as by offsets, because it must sum all "
        f"lengths before; a kernel that first converts lengths to offsets "
        f"{in_words(span(kernels, 'lengths'))} as with offsets."
    )


def _sorting(cells: Sequence[Cell]) -> str:
    others = [cell for cell in cells if cell.op != "steps"]
    return (
        f"For RNN steps, unsorted sequences "
        f"{in_words(span(_of(cells, 'steps'), 'unsorted')).replace('takes', 'take')} as sorted "
        f"ones; other ops do not benefit: with the sorting included, sum, max and last together "
        f"{in_words(span(others, 'sorting_included')).replace('takes', 'take')}."
    )


def _levels(cells: Sequence[Cell]) -> str:
    return (
        f"Finding the rows of an upper item by absolute offsets "
        f"{in_words(span(cells, 'absolute'))} as by nested offsets, which need a second lookup; by "
        f"sums of lengths it {in_words(span(cells, 'summed'))}."
    )


# bench: (the question, its answer)
QUESTIONS: dict[str, tuple[str, Callable[[Sequence[Cell]], str]]] = {
    "padding": ("Padding or not?", _padding),
    "offsets": ("Offsets or lengths?", _offsets),
    "sorting": ("Sorted by length or not?", _sorting),
    "levels": ("Upper levels by absolute offsets, nested ones, or sums?", _levels),
}


def answers(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each question that was measured."""
    found = {bench: cells_of(bench, rows) for bench in QUESTIONS}
    if any(found.values()):
        yield "Measurements behind the design of lod (tables [below](#padding-or-not)):"
        yield ""
        for bench, (question, answer) in QUESTIONS.items():
            if found[bench]:
                yield f"- **{question}** {answer(found[bench])}"
        yield ""


def questions(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table for each question: the other ways' times over ours, by skew."""
    for bench, (question, _) in QUESTIONS.items():
        cells = cells_of(bench, rows)
        if not cells:
            continue
        skews = sorted({cell.skew for cell in cells})
        yield f"## {question}"
        yield ""
        yield (
            f"`lod bench {bench}`, {THREADS} threads: the time of each way over ours, by the skew "
            "of the lengths (sigma of a lognormal distribution; 0: all equal). Not measured on a "
            "GPU."
        )
        yield ""
        yield f"| work | way | {' | '.join(f'skew {skew:g}' for skew in skews)} |"
        yield f"|---|---|{'---|' * len(skews)}"
        for op in dict.fromkeys(cell.op for cell in cells):
            by_skew = {cell.skew: cell for cell in _of(cells, op)}
            for way in dict.fromkeys(way for cell in by_skew.values() for way in cell.ratios):
                found = [by_skew[skew].ratios.get(way) for skew in skews if skew in by_skew]
                texts = ["" if one is None else one.text() for one in found]
                yield f"| {op} | {way.replace('_', ' ')} | {' | '.join(texts)} |"
            padding = [cell.padding for cell in by_skew.values()]
            if all(padding):
                texts = [f"{one:.2f}" for one in padding if one]
                yield f"| {op} | (padded rows over rows) | {' | '.join(texts)} |"
        yield ""
