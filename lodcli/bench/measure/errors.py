"""Errors that stop a benchmark."""

from __future__ import annotations

from lodcli.kernels.errors import LodError


class DisagreementError(LodError):
    """Candidates for the same task returned different results: times are not comparable."""


class RegressionError(LodError):
    """A measurement is slower than the one it was compared with."""


class WorkerError(LodError):
    """A measuring process, of lod or a peer, ended or failed."""


class WorkerMemoryError(WorkerError, OSError):
    """A measuring process ran out of memory."""
