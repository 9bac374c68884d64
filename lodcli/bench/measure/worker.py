"""Worker side of paired.py: loads a peer's file and executes commands, line by line.

Run by the peer's own interpreter, which has NumPy and the peer but not lod. If one of them is
missing, the error is an answer like others.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def main(platform: str, file: str, threads: int) -> None:
    """Execute commands from standard input until it closes."""
    processes = load(platform, "lod_bench_platform")
    processes.end_with_parent()
    answer = answering()
    try:
        peer = load(file, "lod_bench_peer")
        if hasattr(peer, "threads"):
            peer.threads(threads)
        answer(version=peer.version())
    except Exception as error:
        answer(error=error_text(error))
        return
    ways: dict[str, Any] = {}
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if question["do"] == "load":
                ways.clear()
                ways.update(_ways(peer, question))
                answer(labels=list(ways))
            elif question["do"] == "result":
                answer(arrays=_save(ways[question["label"]], question["folder"]))
            else:
                answer(**_sample(ways[question["label"]][0], question["calls"], processes.usage))
        except Exception as error:
            answer(error=error_text(error))


def answering() -> Callable[..., None]:
    """Return a function that prints its arguments as JSON; other output goes to standard error."""
    # Output of a library must not be mixed with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**content: Any) -> None:
        try:
            answers.write(json.dumps(content) + "\n")
            answers.flush()
        except BrokenPipeError:  # the process that asked was killed
            os._exit(1)

    return answer


def load(file: str, name: str) -> Any:
    """Return the module in a file, in any folder."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _ways(peer: Any, question: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    inputs = dict(question["plain"])
    for name in question["arrays"]:
        inputs[name] = np.load(os.path.join(question["folder"], name + ".npy"))
    found: dict[str, Any] = getattr(peer, question["suite"])(question["op"], inputs)
    return found


def _save(way: Any, folder: str) -> int:
    import numpy as np

    call, arrays = way
    found = arrays(call())
    for number, array in enumerate(found):
        np.save(os.path.join(folder, f"result-{number}.npy"), array)
    return len(found)


def _sample(call: Any, calls: int, usage: Any) -> dict[str, float]:
    before = usage()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    seconds = time.perf_counter() - start
    after = usage()
    return {
        "seconds": seconds / calls,
        "user": (after.user - before.user) / calls,
        "system": (after.system - before.system) / calls,
        "preemptions": after.preemptions - before.preemptions,
    }


def error_text(error: Exception) -> str:
    """Return the class of an error and the first line of its message, at most 200 characters."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3], int(sys.argv[4]))
