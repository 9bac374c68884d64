"""Errors that stop a benchmark."""

from __future__ import annotations

from lodcli.kernels.errors import LodError


class DisagreementError(LodError):
    """Candidates for the same task gave different results, so that no time is comparable."""


class RegressionError(LodError):
    """A measurement is slower than the one it was compared with."""


class WorkerError(LodError):
    """A process that measures, ours or a peer's, ended or failed."""


class WorkerMemoryError(WorkerError, OSError):
    """A process that measures ran out of memory."""
