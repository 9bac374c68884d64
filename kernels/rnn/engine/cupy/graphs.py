"""CUDA graphs of many steps, captured when the same launches recur.

A launch from Python takes some microseconds, longer than a small step takes the GPU. A graph of
all steps is one launch. What launches there are depends on the cell and on how many sequences
are alive at each step, not on where the arrays lie: see table.py. Capturing pays from the
second time on, so that the first time only leaves a note.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import cupy

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.rnn.engine.cupy.table import Launch

MOST_GRAPHS = 64
MOST_NOTES = 1024


class _Captured(NamedTuple):
    graph: Any
    table: Array


_lock = threading.Lock()
_graphs: OrderedDict[Hashable, _Captured] = OrderedDict()
_notes: OrderedDict[Hashable, None] = OrderedDict()


def play(
    words: Offsets,
    steps: range,
    launches: Callable[[range], Iterable[Launch]],
    *,
    key: Hashable | None,
) -> None:
    """Do all launches of some steps on the current stream, in order.

    Args:
        words: the table they find their arrays in, in main memory.
        steps: their numbers.
        launches: gives those of steps; asked only if there is no graph of them yet.
        key: equal keys are equal launches; None: they cannot be captured.
    """
    if not steps:
        return
    if key is None:
        _each(launches(steps), cupy.asarray(words))
        return
    # A graph writes to arrays that its table names, so that no two streams may share one.
    stream = cupy.cuda.get_current_stream()
    key = (cupy.cuda.runtime.getDevice(), stream.ptr, key)
    with _lock:
        captured = _graphs.get(key)
        if captured is None and key in _notes:
            captured = _graphs[key] = _capture(launches(steps), len(words))
            _keep_at_most(MOST_GRAPHS, _graphs)
        if captured is None:
            _notes[key] = None
            _keep_at_most(MOST_NOTES, _notes)
            _each(launches(steps), cupy.asarray(words))
            return
        _graphs.move_to_end(key)
        # Both on the current stream: a replay before this one has read the table by then.
        captured.table[...] = cupy.asarray(words)
        captured.graph.launch(stream)


def _capture(launches: Iterable[Launch], words: int) -> _Captured:
    # Kernels are compiled and loaded by the first time. Nothing is allocated meanwhile.
    table = cupy.empty(words, "int64")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            _each(launches, table)
        finally:
            graph = stream.end_capture()
    return _Captured(graph, table)


def _each(launches: Iterable[Launch], table: Array) -> None:
    for launch in launches:
        launch(table)


def _keep_at_most(count: int, entries: OrderedDict[Hashable, Any]) -> None:
    while len(entries) > count:
        entries.popitem(last=False)
