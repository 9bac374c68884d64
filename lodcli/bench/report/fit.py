"""Scaling of time with size: the exponent of a power law fitted to a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lodcli.kernels.errors import InvalidDataError


@dataclass(frozen=True)
class Curve:
    """The times of one candidate for every value of the swept parameter.

    Attributes:
        name: the candidate, and the number of threads.
        values: of the parameter, ascending.
        seconds: medians.
    """

    op: str
    name: str
    values: Sequence[float]
    seconds: Sequence[float]

    @property
    def exponent(self) -> float | None:
        """The k of seconds ~ value**k, by least squares of the logarithms."""
        points = [
            (math.log(v), math.log(s)) for v, s in zip(self.values, self.seconds, strict=True) if v
        ]
        if len({x for x, _ in points}) < 2:
            return None
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        above = sum((x - mean_x) * (y - mean_y) for x, y in points)
        return above / sum((x - mean_x) ** 2 for x, _ in points)

    @property
    def label(self) -> str:
        """The name and, if there is one, the exponent."""
        found = self.exponent
        return self.name if found is None else f"{self.name} ^{found:.2f}"


def is_swept(case: str) -> bool:
    """Return whether a case is one of a sweep, such as "rows=1000"."""
    return "=" in case


def curves_of(report: Mapping[str, Any]) -> tuple[str, list[Curve]]:
    """Return the name of the swept parameter, and a curve for each op and candidate.

    Raises:
        InvalidDataError: the report is not of a sweep.
    """
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    swept = ""
    for row in report["results"]:
        swept, _, value = str(row["case"]).partition("=")
        if not is_swept(str(row["case"])):
            raise InvalidDataError("nothing to draw: measure with --sweep WHAT=N,N,..")
        name = f"{row['library']} {row['label']}".strip()
        name += f", {row['threads']} thread{'s' * (row['threads'] > 1)}"
        points.setdefault((row["op"], name), []).append((float(value), float(row["median"])))
    found = []
    for (op, name), pairs in points.items():
        values, seconds = zip(*sorted(pairs), strict=True)
        found.append(Curve(op, name, values, seconds))
    return swept, found
