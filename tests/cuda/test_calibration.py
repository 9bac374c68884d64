"""Costs of a GPU: measured with a clock that the test controls, and stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

cupy: Any = pytest.importorskip("cupy")
from lodcli.kernels.cuda.device_limits import DeviceLimits  # noqa: E402
from lodcli.kernels.cuda.launch import limits  # noqa: E402
from lodcli.kernels.errors import OptionError  # noqa: E402
from lodcli.kernels.rnn.engine.cupy import calibration  # noqa: E402
from lodcli.kernels.rnn.engine.cupy.costs import Costs, estimated  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the simulated GPU, a product of the measured size takes up to a minute."""
    made = calibration._products
    if hasattr(cupy, "device"):
        monkeypatch.setattr(
            calibration,
            "_products",
            lambda dtype, *shape: made(dtype, *(min(n, 64) for n in shape)),
        )


def clock_of(*times: float) -> Callable[[Callable[[], object]], float]:
    """Return a clock that calls the function it is given, and returns these times."""
    told: Iterator[float] = iter(times)

    def clock(run: Callable[[], object]) -> float:
        run()
        return next(told)

    return clock


@pytest.mark.parametrize("kind", ["float32", "float64", "tf32"])
def test_costs_are_what_the_clock_tells(kind: str) -> None:
    guess = estimated(kind, limits())
    products = [1024 * 2048 * 1024 / guess.cublas_rate / 2, 256 * 2048 * 512 / guess.tiles_rate]
    # A launch of 20 and of 2; cuBLAS twice as quick as estimated; a step of 1 and of 2.5 with more
    # rows, and of 2 with a meeting; of 0.5 where states stay in a block, and of 0.75 in a cluster.
    times = [2000, 200, products[0] + guess.cublas_start, products[1] * 2 + 2]
    times += [128 * step for step in (1.0, 2.5, 2.0, 0.5, 0.75)]
    found = calibration.measured(kind, limits(), clock_of(*times))
    assert found.python_launch == 20
    assert found.graph_launch == 2
    assert found.cublas_rate == pytest.approx(2 * guess.cublas_rate)
    assert found.tiles_rate == pytest.approx(guess.tiles_rate / 2)
    assert found.step == 1
    assert found.meeting == pytest.approx(1 - 4 * guess.arrival)
    assert found.near_step == 0.5
    assert found.near_meeting == 0.25
    size = 32 if kind == "float64" else 64
    rows = 16 if kind == "tf32" else 28  # of 32 and of 1, rounded up
    assert found.block_rate == pytest.approx(rows * size * size / 1.5)
    assert found.measured
    assert found.captured is getattr(cupy.cuda.cublas, "PERMITTED", found.captured)


def test_implausible_measurements_are_limited() -> None:
    guess = estimated("float32", limits())
    found = calibration.measured("float32", limits(), clock_of(1e9, *[0] * 8))
    assert found.python_launch == guess.python_launch * calibration.TRUSTED
    assert found.graph_launch == guess.graph_launch / calibration.TRUSTED
    assert found.block_rate == guess.block_rate * calibration.TRUSTED


def test_a_device_without_cooperation_is_measured_without_it() -> None:
    alone = limits()._replace(together=False)
    found = calibration.measured("float32", alone, clock_of(1300, 150, 1000, 1000))
    assert found.step == estimated("float32", alone).step


def test_a_device_without_clusters_is_measured_without_them() -> None:
    old = limits()._replace(capability=(8, 0))
    guess = estimated("float32", old)
    found = calibration.measured("float32", old, clock_of(1300, 150, *[1000] * 5, 64))
    assert found.near_step == 0.5
    assert found.near_meeting == pytest.approx(guess.near_step + guess.near_meeting - 0.5)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of cached costs, which does not exist yet."""
    monkeypatch.setenv("LOD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def counted() -> tuple[list[str], Callable[[str, DeviceLimits], Costs]]:
    calls: list[str] = []

    def measure(kind: str, device: DeviceLimits) -> Costs:
        calls.append(kind)
        return estimated(kind, device)

    return calls, measure


def test_a_device_is_measured_once_for_each_kind_of_products(kept: Path) -> None:
    calls, measure = counted()

    def ask(kind: str, *marks: Any) -> Costs:
        return calibration.kept_or_measured(kind, limits(), marks, measure)

    assert ask("float32", "a GPU") == ask("float32", "a GPU") == estimated("float32", limits())
    ask("tf32", "a GPU")
    ask("float32", "another")
    ask("float32", "another")
    assert calls == ["float32", "tf32", "float32"]
    assert len(list(kept.glob("cuda.*.costs"))) == 3


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"step": 1}', "null", "1", '{"other": 2}', "huge"]
)
def test_a_damaged_file_is_written_anew(content: str, kept: Path) -> None:
    calls, measure = counted()
    calibration.kept_or_measured("float32", limits(), (), measure)
    (file,) = kept.iterdir()
    good = file.read_text()
    bad = good.replace("13.0", "1e300") if content == "huge" else content
    assert bad != good
    file.write_text(bad)
    calibration.kept_or_measured("float32", limits(), (), measure)
    assert file.read_text() == good
    assert len(calls) == 2


def test_a_folder_that_cannot_be_made_costs_a_measurement(kept: Path) -> None:
    kept.parent.write_text("in the way")
    calls, measure = counted()
    for _ in range(2):
        calibration.kept_or_measured("float32", limits(), (), measure)
    assert len(calls) == 2


def test_the_setting_estimated_uses_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOD_GPU_COSTS", "estimated")
    monkeypatch.setattr(calibration, "_costs", None)
    assert calibration.costs_here("tf32") == estimated("tf32", limits())


def test_another_setting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOD_GPU_COSTS", "guessed")
    with pytest.raises(OptionError, match=r"expected measured or estimated, found 'guessed'"):
        calibration.costs_here("float32")


def test_a_device_is_measured_by_default(monkeypatch: pytest.MonkeyPatch, kept: Path) -> None:
    monkeypatch.delenv("LOD_GPU_COSTS", raising=False)
    calibration._costs.cache_clear()
    try:
        found = calibration.costs_here("float32")
    finally:
        calibration._costs.cache_clear()
    assert found.measured
    assert len(list(kept.glob("cuda.*.costs"))) == 1
