"""Curves: their exponents, and the two ways to draw them."""

from __future__ import annotations

import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

from lodcli.bench.report.fit import Curve, curves_of
from lodcli.bench.report.plot import draw, require_drawing, terminal_plot
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from tests.lodcli.conftest import Lod


def report(power: float) -> dict[str, Any]:
    rows = [
        {
            "op": "sum",
            "case": f"rows={n}",
            "library": "lod",
            "label": "",
            "threads": 2,
            "median": 1e-6 * n**power,
        }
        for n in (1000, 10, 100)
    ]
    return {"results": rows}


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    swept, (curve,) = curves_of(report(power))
    assert swept == "rows"
    assert curve.values == (10, 100, 1000)
    assert curve.exponent == pytest.approx(power)
    assert curve.label == f"lod, 2 threads ^{power:.2f}"


def test_one_point_and_a_skew_of_0_have_no_exponent_of_their_own() -> None:
    assert Curve("sum", "lod", [5], [1.0]).exponent is None
    assert Curve("sum", "lod", [0, 1, 2], [9.0, 1.0, 2.0]).exponent == pytest.approx(1.0)


def test_a_report_without_a_sweep_cannot_be_drawn() -> None:
    found = report(1)
    found["results"][0]["case"] = "B1"
    with pytest.raises(InvalidDataError, match="--sweep"):
        curves_of(found)


def test_marks_on_the_terminal_rise_along_a_power() -> None:
    lines = terminal_plot("rows", [Curve("sum", "lod", [1, 10, 100], [1e-3, 1e-2, 0.1])], 60)
    found = [
        (y, line.index("o", 9))
        for y, line in enumerate(lines.splitlines()[1:17])
        if "o" in line[9:]
    ]
    assert len(found) == 3
    assert [y for y, _ in found] == [0, 8, 15] or [y for y, _ in found] == [0, 7, 15]
    columns = [x for _, x in found]
    assert columns == sorted(columns, reverse=True)
    assert columns[0] - columns[1] == pytest.approx(columns[1] - columns[2], abs=1)
    assert max(map(len, lines.splitlines())) <= 62


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_picture_is_drawn(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve.{kind}"
    draw(report(1), str(path), force=False)
    if kind == "svg":
        text = "".join(xml.etree.ElementTree.parse(path).getroot().itertext())
        assert "lod, 2 threads ^1.00" in text
    else:
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_without_matplotlib_the_terminal_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError) as caught:
        require_drawing("curve.svg", ["rows=10"])
    assert str(caught.value) == (
        "--plot curve.svg needs the package matplotlib; pip install 'lodcli[plot]', or draw on the "
        "terminal with --plot -"
    )


def test_other_kinds_of_picture_are_refused_first(lod: Lod) -> None:
    with pytest.raises(SelectionError, match=r"\.svg or \.png"):
        require_drawing("curve.pdf", ["rows=10"])
    done = lod("bench", "kernels", "--op", "sum", "--plot", "curve.pdf")
    assert (done.code, done.stdout) == (2, "")


def test_a_picture_of_nothing_or_nowhere_is_refused_first(lod: Lod) -> None:
    done = lod("bench", "kernels", "--op", "sum", "--plot", "-")
    assert (done.code, done.stdout) == (2, "")
    assert "--sweep" in done.stderr
    pytest.importorskip("matplotlib")
    sweep = ("--sweep", "rows=10,20", "--plot", "nowhere/curve.svg")
    done = lod("bench", "kernels", "--op", "sum", *sweep)
    assert (done.code, done.stdout) == (3, "")
    assert "nowhere/curve.svg: cannot be written" in done.stderr


def test_a_sweep_is_drawn_by_the_command(shell: Lod) -> None:
    done = shell(
        "lod bench kernels --op sum --sweep rows=100,1000 --features 2 --against none "
        "--rounds 1 --budget 0 --threads 1 --plot -"
    )
    assert (done.code, done.stderr) == (0, "")
    assert "sum: time against rows" in done.stdout
    assert "o lod, 1 thread ^" in done.stdout
