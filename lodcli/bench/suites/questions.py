"""Design alternatives for ragged data, measured against each other.

    padding   unpadded rows, or a padded batch: the savings, by the skew of the lengths
    offsets   an index of offsets, or of lengths that need a prefix sum first
    sorting   sequences in input order, or the longest first
    levels    an upper level through absolute offsets, nested offsets or sums of lengths

The alternative that lod uses is called lod; the others have names and are listed as peers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lodcli.bench.measure.machine import require_memory
from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.tasks import Candidate, Task, Way, Work, in_this_process
from lodcli.bench.suites import rnn
from lodcli.bench.suites.cases import Case
from lodcli.bench.suites.ops import make_inputs, sizes_of, tolerance_of, work_of
from lodcli.bench.suites.plan import Plan
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.ranking.rank_table import sequence_rank_table, sequence_reorder_by_rank
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor

LOOK_UPS = 1000
HIDDEN = 64


@dataclass(frozen=True)
class QuestionPlan(Plan):
    """The ops and cases to measure for a question."""

    question: str

    def check(self, devices: Sequence[str]) -> None:
        """Raise NotEnoughMemoryError if a case would not fit."""
        for case in self.cases:
            lengths = case.draw_lengths(self.question, 4)
            sizes = sizes_of(case, lengths)
            longest = int(lengths.max(initial=0))
            box = longest * sizes.sequences * sizes.row_bytes
            # The rows, their gradient and the results; for padding also the batch and its mask.
            needed = 4 * sizes.data + (5 * box if self.question == "padding" else 0)
            require_memory(needed, f"{self.question} {case.name}")

    def task(self, op: str, case: Case, peers: PeerSet, opened: ExitStack) -> Task:
        """See Plan."""
        return QUESTIONS[self.question][op](op, case)


def _task(
    question: str,
    op: str,
    case: Case,
    candidates: Sequence[Candidate],
    work: Work,
    tolerance: float = 0.0,
    **more: Any,
) -> Task:
    return Task(question, op, {**case.parameters(), **more}, candidates, work, tolerance)


def _ways(**ways: Callable[[], Any]) -> list[Candidate]:
    """Return one candidate per alternative, lod's first. Results are arrays, or lists of them."""

    def arrays(found: Any) -> list[Array]:
        if isinstance(found, LoDTensor):
            return [found.data]
        return list(found) if isinstance(found, list | tuple) else [np.asarray(found)]

    made: dict[str, Way] = {name: (call, arrays) for name, call in ways.items()}
    return [one for name, way in made.items() for one in in_this_process(name, {"": way})]


# -- padding ---------------------------------------------------------------------------


def _padded_sum(op: str, case: Case) -> Task:
    sizes = sizes_of(case, case.draw_lengths())
    inputs = make_inputs(op, case, sizes)
    lengths, data = np.diff(inputs["offsets"]), inputs["data"]
    steps = int(lengths.max(initial=0))
    box = np.zeros((lengths.size * steps, case.features), np.float32)
    box[rnn.box_places(lengths)] = data
    even = LoD([np.arange(lengths.size + 1) * steps])
    ragged = LoDTensor(data, LoD([inputs["offsets"]]))
    function = OPS[op].load()
    return _task(
        *("padding", op, case),
        _ways(
            lod=lambda: function(ragged).data, padded=lambda: function(LoDTensor(box, even)).data
        ),
        work_of(op, sizes),
        tolerance_of(op, lengths),
        padding_ratio=round(len(box) / max(1, len(data)), 3),
    )


def _padded_lstm(op: str, case: Case) -> Task:
    task = rnn.rnn_task(op, "forward", case, PeerSet("rnn", [], 1, {}))
    candidates = [
        replace(one, library="padded", label="") if one.label == rnn.ON_PADDED else one
        for one in task.candidates
    ]
    return replace(task, bench="padding", op=op, candidates=candidates)


# -- offsets or lengths ----------------------------------------------------------------


def _random_access(op: str, case: Case) -> Task:
    sizes = sizes_of(case, case.draw_lengths())
    inputs = make_inputs("sum", case, sizes)
    data, offsets = inputs["data"], inputs["offsets"]
    lengths = np.diff(offsets)
    wanted = np.random.default_rng(case.seed).integers(0, lengths.size, LOOK_UPS).tolist()

    def first_values(pick: Callable[[int], Array]) -> Array:
        return np.array([pick(number)[:1].sum() for number in wanted])

    def by_length(number: int) -> Array:
        start = int(lengths[:number].sum())
        found: Array = data[start : start + lengths[number]]
        return found

    return _task(
        *("offsets", op, case),
        _ways(
            lod=lambda: first_values(lambda n: data[offsets[n] : offsets[n + 1]]),
            lengths=lambda: first_values(by_length),
        ),
        Work(8.0 * LOOK_UPS * 2, "B", 8.0 * LOOK_UPS * 2, None),
        look_ups=LOOK_UPS,
    )


def _kernel_from_lengths(op: str, case: Case) -> Task:
    lengths = case.draw_lengths()
    sizes = sizes_of(case, lengths)
    inputs = make_inputs(op, case, sizes)
    data, offsets = inputs["data"], inputs["offsets"]
    function = OPS[op].load()
    known = LoD([offsets])

    def from_lengths() -> Any:
        found = LoD([lengths_to_offsets(lengths, level=0)])
        return function(LoDTensor(data, found)).data

    return _task(
        *("offsets", op, case),
        _ways(lod=lambda: function(LoDTensor(data, known)).data, lengths=from_lengths),
        work_of(op, sizes),
        tolerance_of(op, lengths),
    )


# -- sorted by length or not -----------------------------------------------------------


def _steps(op: str, case: Case) -> Task:
    """An Elman cell step by step: active sequences are a prefix, or must be searched."""
    rng = np.random.default_rng(case.seed + 1)
    lengths = case.draw_lengths()
    offsets = lengths_to_offsets(lengths, level=0)
    projected = rng.standard_normal((int(offsets[-1]), HIDDEN), np.float32)
    recurrent = rng.standard_normal((HIDDEN, HIDDEN), np.float32) / np.float32(np.sqrt(HIDDEN))
    order = np.argsort(-lengths, kind="stable")
    longest = int(lengths.max(initial=0))

    def by_prefix() -> Array:
        starts, state = offsets[:-1][order], np.zeros((lengths.size, HIDDEN), np.float32)
        alive = np.searchsorted(-lengths[order], -np.arange(longest), side="left")
        for step in range(longest):
            n = alive[step]
            state[:n] = np.tanh(projected[starts[:n] + step] + state[:n] @ recurrent)
        result = np.empty_like(state)
        result[order] = state
        return result

    def by_mask() -> Array:
        state = np.zeros((lengths.size, HIDDEN), np.float32)
        for step in range(longest):
            alive = np.flatnonzero(lengths > step)
            rows = projected[offsets[alive] + step]
            state[alive] = np.tanh(rows + state[alive] @ recurrent)
        return state

    operations = 2.0 * float(offsets[-1]) * HIDDEN * HIDDEN
    return _task(
        *("sorting", op, case),
        _ways(lod=by_prefix, unsorted=by_mask),
        Work(operations, "FLOP", operations, None),
        3e-5,
        hidden=HIDDEN,
    )


def _sorted_before(op: str, case: Case) -> Task:
    """An op on sequences in input order, on sorted ones, and including the time for sorting."""
    lengths = case.draw_lengths()
    sizes = sizes_of(case, lengths)
    inputs = make_inputs(op, case, sizes)
    tensor = LoDTensor(inputs["data"], LoD([inputs["offsets"]]))
    function = OPS[op].load()
    table = sequence_rank_table(tensor.lod)
    back = np.argsort(np.argsort(-lengths, kind="stable"), kind="stable")
    ready = sequence_reorder_by_rank(tensor, table)

    def with_sorting() -> Array:
        found = function(sequence_reorder_by_rank(tensor, sequence_rank_table(tensor.lod)))
        rows: Array = found.data[back]
        return rows

    return _task(
        *("sorting", op, case),
        _ways(
            lod=lambda: function(tensor).data,
            sorted_before=lambda: function(ready).data[back],
            sorting_included=with_sorting,
        ),
        work_of(op, sizes),
        tolerance_of(op, lengths),
    )


# -- upper levels ----------------------------------------------------------------------


def _rows_of_articles(op: str, case: Case) -> Task:
    """The rows of items of an upper level, of about eight sequences each."""
    lengths = case.draw_lengths()
    finest = lengths_to_offsets(lengths, level=1)
    rng = np.random.default_rng(case.seed)
    bounds = np.unique(rng.integers(0, lengths.size + 1, max(1, lengths.size // 8)))
    upper = np.unique(np.concatenate([[0], bounds, [lengths.size]])).astype(np.int64)
    counts, absolute = np.diff(upper), finest[upper]
    wanted = rng.integers(0, counts.size, LOOK_UPS).tolist()

    def found(look_up: Callable[[int], tuple[int, int]]) -> Offsets:
        return np.array([look_up(number) for number in wanted], np.int64)

    def summed(number: int) -> tuple[int, int]:
        first = int(counts[:number].sum())
        start = int(lengths[:first].sum())
        return start, start + int(lengths[first : first + counts[number]].sum())

    return _task(
        *("levels", op, case),
        _ways(
            lod=lambda: found(lambda n: (finest[upper[n]], finest[upper[n + 1]])),
            absolute=lambda: found(lambda n: (absolute[n], absolute[n + 1])),
            summed=lambda: found(summed),
        ),
        Work(16.0 * LOOK_UPS, "B", 16.0 * LOOK_UPS, None),
        look_ups=LOOK_UPS,
    )


Maker = Callable[[str, Case], Task]
_REDUCED = ("sum", "max", "last")

QUESTIONS: dict[str, dict[str, Maker]] = {
    "padding": {"sum": _padded_sum, "lstm": _padded_lstm},
    "offsets": {
        "access": _random_access,
        **dict.fromkeys([*_REDUCED, "softmax", "reverse"], _kernel_from_lengths),
    },
    "sorting": {"steps": _steps, **dict.fromkeys(_REDUCED, _sorted_before)},
    "levels": {"access": _rows_of_articles},
}
