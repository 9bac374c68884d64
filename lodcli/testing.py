"""Test kit for plug-ins; see docs/plugins.md."""

from __future__ import annotations

from lodcli.kernels.lazy_names import by_module, lazy_names

_HOMES = by_module(
    {
        "lodcli.formats.testing.check_format": "FormatReport check_format",
        "lodcli.kernels.testing.check_op": "OpReport check_op",
    }
)
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, lambda: _HOMES)
