"""Everything that can be compiled ahead, by name; and the folder where it is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from lodcli.formats.storage.interrupts import checked
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.runtime.compile_events import when_compiling
from lodcli.shell import output


def jobs(names: Sequence[str]) -> dict[str, Callable[[], object]]:
    """Return what compiles each of `names`, everything if there are none."""
    try:
        from lodcli.formats.json.scan_native import is_available as warm_up_json
        from lodcli.kernels.runtime.numba_warm_up import jobs as of_kernels
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        raise UnsupportedError("nothing to compile without numba; pip install numba") from None
    known: dict[str, Callable[[], object]] = {**of_kernels(), "jsonl": warm_up_json}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"{unknown[0]!r} is not compiled; there are: {', '.join(known)}")
    return {name: known[name] for name in names} if names else known


def compiled(names: Sequence[str]) -> list[dict[str, Any]]:
    """Compile these, or all, and return for each how long it took; progress on a terminal."""
    chosen = jobs(names)
    when_compiling(None)  # the progress says it
    results = []
    with output.progress_line() as show:
        for number, (name, job) in enumerate(checked(chosen.items()), 1):
            show(f"compiling {name}, {number} of {len(chosen)}")
            started = time.perf_counter()
            job()
            results.append({"name": name, "seconds": round(time.perf_counter() - started, 3)})
    return results
