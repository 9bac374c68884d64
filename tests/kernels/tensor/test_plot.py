"""Tables of an index for notebooks, and plots of lengths and padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LoD, LoDTensor
from lodcli.errors import InvalidDataError, SelectionError, UnsupportedError

WORDS = LoD.from_lengths([[2, 1], [3, 0, 2]], ["article", "sentence"])


@pytest.fixture
def pyplot() -> Any:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    found = pytest.importorskip("matplotlib.pyplot")
    yield found
    found.close("all")


def test_an_index_is_a_table_of_its_levels() -> None:
    shown = WORDS._repr_html_()
    # sequences, empty ones, shortest, mean, longest, padding: 1 - 5 / 9
    cells = "".join(f"<td>{each}</td>" for each in (1, "sentence", 3, 1, 0, "1.67", 3, "44 %"))
    assert cells in shown
    assert "0 levels" in LoD()._repr_html_()
    assert "<td>0</td>" in LoD.from_lengths([[]])._repr_html_()


def test_an_open_file_is_a_table_of_its_tensors(tmp_path: Path) -> None:
    path = tmp_path / "two.lod.h5"
    words = LoDTensor(np.zeros((5, 3), np.float32), WORDS)
    lodcli.write(path, {"words": words, "label": LoDTensor(np.arange(2))})
    with lodcli.open(path) as file:
        shown = file._repr_html_()
    assert "2 tensors" in shown
    assert (
        "<td>words</td><td>float32</td><td>3</td><td>5</td><td>article: 2, sentence: 3</td>"
        in shown
    )
    assert "label" in shown


def test_formats_are_a_table_of_what_they_hold() -> None:
    found = lodcli.formats.formats()
    shown = found._repr_html_()
    assert f"<b>formats</b> {len(found)}" in shown
    assert shown.count("<tr>") == len(found) + 1
    assert (
        "<tr><td>lod.stream</td><td>.lods</td><td>yes</td><td>yes</td><td>yes</td><td>any</td>"
        in shown
    )


def test_a_plot_has_the_lengths_and_the_padding_of_each_level(pyplot: Any) -> None:
    axes = LoDTensor(np.zeros(5), WORDS).plot()
    assert axes.shape == (2, 2)
    counts = [patch.get_height() for patch in axes[1, 0].patches]
    assert sum(counts) == 3
    assert "sentence: 3 sequences" in axes[1, 0].get_title(loc="left")
    assert axes[1, 1].get_title(loc="left") == "padding: 44%"
    assert lodcli.plot(WORDS, "sentence").shape == (1, 2)


@pytest.mark.parametrize("lengths", [[], [0, 0], [5], [1] * 5000, list(range(3000))])
def test_any_lengths_can_be_plotted(pyplot: Any, lengths: list[int]) -> None:
    axes = lodcli.plot(LoD.from_lengths([lengths]))
    axes[0, 0].figure.canvas.draw()
    assert sum(patch.get_height() for patch in axes[0, 0].patches) == len(lengths)


def test_invalid_plots_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidDataError, match="at least 1 level"):
        LoDTensor(np.zeros(3)).plot()
    with pytest.raises(SelectionError):
        lodcli.plot(WORDS, 5)
    with pytest.raises(InvalidDataError, match="expected a LoDTensor or a LoD, found int; "):
        lodcli.plot(5)  # type: ignore[arg-type]
    monkeypatch.setattr("lodcli.kernels.tensor.plot.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"plot needs the package matplotlib; pip install "):
        lodcli.plot(WORDS)
