"""Lengths that are drawn, and cases made of them."""

from __future__ import annotations

import numpy as np
import pytest

from lodcli.bench.measure.machine import NotEnoughMemoryError, require_memory
from lodcli.bench.suites.cases import KERNEL_CASES, RNN_CASES, custom_case
from lodcli.bench.suites.lengths import LengthsError, parse_lengths
from lodcli.bench.suites.ops import BENCH_OPS, make_inputs, needed_bytes, sizes_of
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.platform.machine import available_bytes, left_in_group


@pytest.mark.parametrize(
    "text", ["lognormal:50,0.9", "lognormal:8,1,0.2", "uniform:1,99", "fixed:7"]
)
def test_drawn_lengths_add_up_and_are_the_same_again(text: str) -> None:
    lengths = parse_lengths(text)
    drawn = lengths.draw(300, 5000, np.random.default_rng(3))
    assert drawn.shape == (300,)
    assert drawn.sum() == 5000
    assert drawn.min() >= 0
    np.testing.assert_array_equal(drawn, lengths.draw(300, 5000, np.random.default_rng(3)))


def test_a_share_of_lognormal_lengths_is_empty_and_the_skew_is_as_asked() -> None:
    drawn = parse_lengths("lognormal:1000,0.9,0.1").draw(
        20_000, 20_000_000, np.random.default_rng(0)
    )
    assert 0.09 < (drawn == 0).mean() < 0.11
    assert np.log(drawn[drawn > 0]).std() == pytest.approx(0.9, abs=0.02)


def test_uniform_lengths_lie_between_their_bounds_where_the_rows_allow_it() -> None:
    drawn = parse_lengths("uniform:20,40").draw(1000, 30_000, np.random.default_rng(0))
    assert 18 <= drawn.min() <= 21
    assert 39 <= drawn.max() <= 42


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gauss:1,2",
        "lognormal",
        "lognormal:50",
        "lognormal:a,b",
        "lognormal:0,1",
        "lognormal:5,9",
        "lognormal:5,1,1",
        "uniform:9,1",
        "uniform:1.5,2",
        "fixed:-1",
        "fixed:nan",
    ],
)
def test_lengths_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(LengthsError, match="--lengths"):
        parse_lengths(text)


@pytest.mark.parametrize("text", ["fixed:0", "uniform:0,0"])
def test_rows_of_empty_sequences_are_refused(text: str) -> None:
    with pytest.raises(LengthsError, match=f"--lengths {text}: no number of empty sequences has"):
        custom_case(
            KERNEL_CASES["B1"],
            rows=100,
            features=None,
            sequences=None,
            hidden=None,
            lengths=parse_lengths(text),
            seed=0,
        )


def test_lengths_of_a_file_are_taken_as_they_are() -> None:
    given = np.array([3, 0, 2])
    lengths = parse_lengths("words.lod.h5", lambda name: given)
    case = custom_case(
        KERNEL_CASES["B1"],
        rows=None,
        features=4,
        sequences=None,
        hidden=None,
        lengths=lengths,
        seed=0,
    )
    assert (case.rows, case.sequences, case.features) == (5, 3, 4)
    np.testing.assert_array_equal(case.offsets(), [0, 3, 3, 5])


@pytest.mark.parametrize("option", ["rows", "sequences"])
def test_sizes_that_contradict_the_lengths_of_a_file_are_refused(option: str) -> None:
    lengths = parse_lengths("words.lod.h5", lambda name: np.array([3, 0, 2]))
    sizes = dict.fromkeys(("rows", "features", "sequences", "hidden"))
    message = rf"--{option}: the file words\.lod\.h5 of --lengths determines rows and sequences"
    with pytest.raises(LengthsError, match=message):
        custom_case(KERNEL_CASES["B1"], lengths=lengths, seed=0, **{**sizes, option: 7})
    case = custom_case(KERNEL_CASES["B1"], lengths=lengths, seed=0, **sizes)
    with pytest.raises(LengthsError, match=f"--sweep {message[2:]}"):
        case.with_value(option, 7)
    assert case.with_value("features", 2).features == 2


def test_two_of_rows_sequences_and_mean_length_settle_the_third() -> None:
    def made(**given: int) -> tuple[int, int]:
        whole = {"rows": None, "features": None, "sequences": None, "hidden": None, **given}
        case = custom_case(KERNEL_CASES["B1"], lengths=parse_lengths("fixed:10"), seed=0, **whole)
        return case.rows, case.sequences

    assert made(rows=1000) == (1000, 100)
    assert made(sequences=7) == (70, 7)
    assert made(rows=50, sequences=7) == (50, 7)


def test_sweeps_change_one_parameter() -> None:
    base = KERNEL_CASES["B1"]
    assert base.with_value("rows", 1e4).sequences == 200
    assert base.with_value("skew", 2).lengths.text == "lognormal:50,2,0.03"
    assert RNN_CASES["a"].with_value("hidden", 32).features == 32
    with pytest.raises(SelectionError, match="rows, sequences"):
        base.with_value("colour", 1)
    with pytest.raises(LengthsError, match="skew"):
        RNN_CASES["d"].with_value("skew", 1)


@pytest.mark.parametrize("op", BENCH_OPS)
def test_the_memory_said_to_be_needed_covers_inputs_and_result(op: str) -> None:
    case = KERNEL_CASES["B1"].with_value("rows", 20_000)
    sizes = sizes_of(case, case.draw_lengths())
    inputs = make_inputs(op, case, sizes)
    held = sum(value.nbytes for value in inputs.values() if isinstance(value, np.ndarray))
    assert needed_bytes(op, sizes) > 2 * held


def test_a_huge_padded_batch_is_cut_at_a_quantile_of_the_lengths() -> None:
    case = KERNEL_CASES["B1"]
    sizes = sizes_of(case, case.draw_lengths())
    assert sizes.longest == int(np.quantile(case.draw_lengths(), 0.99))
    assert sizes.kept_rows < sizes.rows


def test_too_little_memory_is_reported_with_the_remedy() -> None:
    there = available_bytes()
    assert there is not None
    require_memory(1, "kernels sum")
    with pytest.raises(NotEnoughMemoryError, match=r"kernels sum needs about .* --rows"):
        require_memory(there * 2, "kernels sum")


def test_the_limit_of_a_control_group_counts(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    assert left_in_group(folder) is None
    (folder / "memory.current").write_text("100\n")
    (folder / "memory.max").write_text("max\n")
    assert left_in_group(folder) is None
    (folder / "memory.max").write_text("1100\n")
    assert left_in_group(folder) == 1000
