"""setuptools as the build backend, with click for the man pages and numba for the kernels.

An editable installation builds neither, and so does not download them.
"""

import os

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

_MANUAL = ["click>=8.4.2"]
_COMPILER = ["numba>=0.62", "numpy>=2.0", "ml_dtypes>=0.5"]


def get_requires_for_build_wheel(config_settings: dict[str, str] | None = None) -> list[str]:
    """Return what a wheel needs to be built."""
    found: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    needed = [] if os.environ.get("LOD_BUILD_LEVELS") == "none" else _COMPILER
    return [*found, *_MANUAL, *needed]
