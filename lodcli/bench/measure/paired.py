"""A peer in a separate process with a separate interpreter.

For a library that cannot be imported together with the others, such as one that needs an older
NumPy. The process is stopped except while it is sampled, so its threads do not disturb others.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lodcli.bench.measure.checks import Result
from lodcli.bench.measure.errors import WorkerError
from lodcli.bench.measure.harness import Sampler
from lodcli.bench.measure.samples import Sample
from lodcli.bench.measure.tasks import Candidate
from lodcli.kernels.platform import processes

WORKER = Path(__file__).with_name("worker.py")
# Not run by its path: its folder has files with the names of libraries.
_START = (
    "import sys; path = sys.argv[1]; sys.path[:] = [p for p in sys.path if p]; "
    "exec(compile(open(path).read(), path, 'exec'), {'__name__': '__main__'})"
)


class PairedPeer:
    """The process of a peer."""

    def __init__(self, name: str, python: str, file: Path, threads: int) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory(prefix="lod-bench-")
        self._process = subprocess.Popen(
            [python, "-c", _START, str(WORKER), processes.__file__, str(file), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")},
            text=True,
            process_group=0,
        )
        try:
            self.version = str(self._answer()["version"])
        except WorkerError as error:
            self.close()
            raise RuntimeError(f"{python}: {error}") from None
        self._pause()

    def candidates(self, suite: str, op: str, inputs: dict[str, Any]) -> list[Candidate]:
        """Return the candidates of the peer for an op.

        Raises:
            RuntimeError: the peer failed to prepare it.
        """
        plain = {}
        for key, value in inputs.items():
            if isinstance(value, np.ndarray):
                np.save(self._path(key), value)
            else:
                plain[key] = value
        arrays = [key for key, value in inputs.items() if isinstance(value, np.ndarray)]
        try:
            labels = self._ask(
                do="load", suite=suite, op=op, folder=self._folder.name, arrays=arrays, plain=plain
            )["labels"]
        except WorkerError as error:
            raise RuntimeError(str(error)) from None
        return [
            Candidate(self.name, label, self._sampler(label), self._result(label))
            for label in labels
        ]

    def _sampler(self, label: str) -> Sampler:
        def sample(calls: int) -> Sample:
            found = self._ask(do="sample", label=label, calls=calls)
            return Sample(
                found["seconds"], found["user"], found["system"], found["preemptions"], calls
            )

        return sample

    def _result(self, label: str) -> Any:
        def result() -> Result:
            count = self._ask(do="result", label=label, folder=self._folder.name)["arrays"]
            return [np.load(self._path(f"result-{number}")) for number in range(count)]

        return result

    def _path(self, name: str) -> str:
        return str(Path(self._folder.name) / f"{name}.npy")

    def _ask(self, **question: Any) -> dict[str, Any]:
        processes.suspend(self._process, resume=True)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(f"{self.name}: its process ended") from None
        answer = self._answer()
        self._pause()
        return answer

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"its process ended with code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(str(answer["error"]))
        return answer

    def _pause(self) -> None:
        processes.suspend(self._process)

    def close(self) -> None:
        """End the process."""
        processes.suspend(self._process, resume=True)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()
