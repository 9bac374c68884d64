"""Layers and ops for torch that run lod's kernels; importing it needs torch."""

from __future__ import annotations

from importlib.util import find_spec

from lodcli.kernels.errors import UnsupportedError

if find_spec("torch") is None:
    raise UnsupportedError("lodcli.torch needs the package torch; pip install 'lodcli[torch]'")
