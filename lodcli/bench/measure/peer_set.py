"""The peers of a run: finding, loading and configuring their threads."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from lodcli.bench.measure.harness import Timer, by_the_clock
from lodcli.bench.measure.paired import PairedPeer
from lodcli.bench.measure.tasks import Candidate, in_this_process
from lodcli.bench.measure.worker import error_text
from lodcli.bench.peers import PEERS
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.suggestions import or_near

FOLDER = Path(__file__).parents[1] / "peers"
# Benchmarks with a separate process for each peer: threads that synchronize at every step of a
# sequence cannot share two processors with threads of another library that spin while waiting.
_APART = ("rnn", "linear")


class PeerSet:
    """Peers of one benchmark, used as a context manager: it ends paired processes.

    Attributes:
        device: "cpu", or "cuda" if all compute on a GPU, in this process.
        versions: of the peers that take part.
        missing: the reason why each of the others does not.
    """

    def __init__(
        self,
        suite: str,
        names: Sequence[str],
        threads: int,
        pythons: Mapping[str, str],
        device: str = "cpu",
    ) -> None:
        self.device = device
        self.versions: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self._here: dict[str, ModuleType] = {}
        self._paired: dict[str, PairedPeer] = {}
        for name in names:
            try:
                self._load(suite, name, threads, pythons.get(name))
            except Exception as error:
                # Such as a build for another library or GPU: not an error of the benchmark.
                self.missing[name] = " ".join(f"{error}".split())[:200]

    def _load(self, suite: str, name: str, threads: int, python: str | None) -> None:
        entry = PEERS[name]
        file, on_gpu = entry.files[suite], self.device == "cuda"
        if python is None or on_gpu:
            if importlib.util.find_spec(entry.package) is None:
                where = f", and --peer-python {name}=PYTHON" if entry.apart else ""
                apart = " in a separate environment" * entry.apart
                what = entry.gpu_install or entry.install if on_gpu else entry.install
                raise ImportError(f"not installed; pip install {what}{apart}{where}")
            python = sys.executable if suite in _APART and not on_gpu else None
        if python is not None:
            peer = PairedPeer(name, python, FOLDER / f"{file}.py", threads)
            self._paired[name] = peer
            self.versions[name] = peer.version
            return
        module = importlib.import_module(f"lodcli.bench.peers.{file}")
        if hasattr(module, "threads"):
            module.threads(threads)
        if on_gpu:
            module.require_gpu()
        self._here[name] = module
        self.versions[name] = module.version()

    def candidates(
        self, suite: str, op: str, inputs: dict[str, Any]
    ) -> tuple[list[Candidate], dict[str, str]]:
        """Return the candidates of an op, and the reasons why other peers have none.

        Args:
            inputs: for a GPU, rows are in its memory, and arrays of an index in main memory.
        """
        found: list[Candidate] = []
        skipped: dict[str, str] = {}
        inputs = {**inputs, "device": self.device}
        for name, module in self._here.items():
            try:
                found += in_this_process(name, getattr(module, suite)(op, inputs), self.timed)
            except Exception as error:
                skipped[name] = error_text(error)
        for name, peer in self._paired.items():
            try:
                found += peer.candidates(suite, op, inputs)
            except RuntimeError as error:
                skipped[name] = str(error)[:200]
        return found, skipped

    @property
    def timed(self) -> Timer:
        """The timer for calls of this process: events for a GPU."""
        if self.device == "cpu":
            return by_the_clock
        from lodcli.bench.measure import gpu_cupy

        return gpu_cupy.by_events

    def __enter__(self) -> PeerSet:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._paired.values():
            peer.close()


def chosen_peers(suite: str, against: str | None, device: str = "cpu") -> list[str]:
    """Return the names of the peers in `against`, or all of a benchmark on a device.

    Args:
        against: names of peers; "none": no peers; None: all.

    Raises:
        SelectionError: no such peer in this benchmark.
    """
    there = [
        name for name, entry in PEERS.items() if suite in entry.files and device in entry.devices
    ]
    if against is None:
        return there
    wanted = [name.strip() for name in against.split(",") if name.strip()]
    if not wanted:
        raise SelectionError("--against is empty; name peers, or none")
    if wanted == ["none"]:
        return []
    for name in wanted:
        if name not in there:
            raise SelectionError(
                f"--against {name}: no such peer of {suite}{' on a GPU' * (device != 'cpu')}; "
                f"there are: {', '.join(there)}{or_near(name, there)}"
            )
    return wanted
