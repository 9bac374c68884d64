"""Gives torch a GPU in every process, sessions of `lod bench` among them: see torch_on_gpu.py.

Only if HOST_CUDA_TORCH=1: for most tests torch is an independent reference, on the CPU.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any


class _AfterTorch(importlib.machinery.PathFinder):
    """Import hook that loads torch normally, and then installs the simulated GPU."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "torch":
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            import torch_on_gpu

            torch_on_gpu.install()

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("HOST_CUDA_TORCH") == "1":
    sys.meta_path.insert(0, _AfterTorch())
