"""CUDA graphs of many steps, captured when the same launches recur.

A launch from Python takes some microseconds, longer than a small step takes on the GPU. A graph of
all steps is one launch. The launches depend on the cell and on the number of active sequences at
each step, not on addresses of arrays: see table.py. Capturing pays from the second run on, so the
first run only records its key.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
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
    refusable: bool = False,
) -> None:
    """Run all launches of some steps on the current stream, in order.

    Args:
        words: the table with the addresses of arrays, in main memory.
        steps: their numbers.
        launches: returns the launches of steps; called only if no graph is cached.
        key: cache key of the launches; None if they cannot be captured.
        refusable: cupy may refuse to capture them; then they are launched one by one.
    """
    if not steps:
        return
    if key is None:
        _each(launches(steps), cupy.asarray(words))
        return
    # A graph writes to the arrays in its table, so streams cannot share one.
    stream = cupy.cuda.get_current_stream()
    key = (cupy.cuda.runtime.getDevice(), stream.ptr, key)
    with _lock:
        held = _graphs.get(key)
        if held is None and key in _notes:
            held = _capture(launches(steps), len(words), refusable)
            if held is not None:
                _graphs[key] = held
                _keep_at_most(MOST_GRAPHS, _graphs)
        if held is None:
            _notes[key] = None
            _keep_at_most(MOST_NOTES, _notes)
            _each(launches(steps), cupy.asarray(words))
            return
        _graphs.move_to_end(key)
        # Both on the current stream: a previous replay has read the table by then.
        held.table[...] = cupy.asarray(words)
        held.graph.launch(stream)


def _capture(launches: Iterable[Launch], words: int, refusable: bool) -> _Captured | None:
    # Kernels are compiled and loaded in the first run. No memory is allocated meanwhile.
    table = cupy.empty(words, "int64")

    def run() -> None:
        _each(launches, table)

    graph = captured(run) if refusable else _recorded(run)
    return None if graph is None else _Captured(graph, table)


def captured(run: Callable[[], object]) -> Any:
    """Return the graph of the work a call queues; None if it cannot be captured."""
    # CuPy raises the first for calls of cuBLAS, and the driver the second for other uncapturable
    # work.
    with suppress(NotImplementedError, RuntimeError):
        return _recorded(run)
    return None


def _recorded(run: Callable[[], object]) -> Any:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            run()
        except BaseException:
            with suppress(RuntimeError):  # the failed capture is invalid
                stream.end_capture()
            raise
        return stream.end_capture()


def _each(launches: Iterable[Launch], table: Array) -> None:
    for launch in launches:
        launch(table)


def _keep_at_most(count: int, entries: OrderedDict[Hashable, Any]) -> None:
    while len(entries) > count:
        entries.popitem(last=False)
