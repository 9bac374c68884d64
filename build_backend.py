"""setuptools as the build backend, with numba for what compiles the kernels.

An editable installation compiles nothing, and so does not download numba into a build environment.
"""

import os

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

_COMPILER = ["numba>=0.61", "numpy>=2.0", "ml_dtypes>=0.5"]


def get_requires_for_build_wheel(config_settings: dict[str, str] | None = None) -> list[str]:
    """Return what a wheel needs to be built."""
    found: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    return found if os.environ.get("LOD_BUILD_LEVELS") == "none" else [*found, *_COMPILER]
