"""The packages, and the files generated from the sources: man pages and kernels
(docs/decisions/0042-compiled-ahead.md).

Everything else is in pyproject.toml. LOD_BUILD_LEVELS lists the processor levels, "v2 v3 v4
aarch64" for wheels to distribute; the default is the level of this machine, and "none" compiles
nothing. An editable installation does not use this: its kernels are compiled on first use.
"""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

# The kernels link no C library, so the oldest platform tag of each machine is correct.
_TAGS = {"x86_64": "manylinux_2_17_x86_64", "aarch64": "manylinux_2_17_aarch64"}


_ROOTS = {"lodcli": "lodcli", "formats": "lodcli.formats", "kernels": "lodcli.kernels"}


def packages() -> list[str]:
    """Return every folder with an __init__.py, by the name it is installed under.

    The folders kernels/ and formats/ are installed inside lodcli, because both bare names belong to
    other projects. The links lodcli/kernels and lodcli/formats are only for static tools.
    """
    root, found = Path(__file__).parent, []
    for top, name in _ROOTS.items():
        for parent, _, files in os.walk(root / top):  # does not follow links
            if "__init__.py" in files:
                found.append(".".join([name, *Path(parent).relative_to(root / top).parts]))
    return sorted(found)


class BuildWithKernels(build_py):
    """Copies the modules; then writes the man pages, and compiles the kernels, from the copies."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        pages = Path(self.build_lib).absolute().parent / "man"
        self._python("lodcli.manual.pages", str(pages), self.distribution.get_version())
        self.distribution.data_files = [("share/man/man1", sorted(map(str, pages.glob("*.1"))))]
        wanted = os.environ.get("LOD_BUILD_LEVELS", "here")
        if wanted != "none":
            folder = Path(self.build_lib).absolute() / "lodcli" / "kernels" / "native" / "lib"
            levels = [word for level in wanted.split() for word in ("--level", level)]
            self._python("lodcli.kernels.native.build", "--into", str(folder), *levels)

    def _python(self, module: str, *words: str) -> None:
        """Run a copied module; its bytecode is written elsewhere, because wheels contain none."""
        root = Path(self.build_lib).absolute()
        subprocess.run(
            [sys.executable, "-W", "error::UserWarning:lodcli", "-m", module, *words],
            cwd=root,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)]),
                "PYTHONPYCACHEPREFIX": str(root.parent / "bytecode"),
            },
            check=True,
        )


class WheelWithKernels(bdist_wheel):
    """A wheel for any Python, and the machine its kernels are for."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        wanted = os.environ.get("LOD_BUILD_LEVELS", "here")
        if wanted == "none":
            return "py3", "none", "any"
        platform: str = super().get_tag()[2]
        if wanted != "here":
            platform = _TAGS["aarch64" if "aarch64" in wanted else "x86_64"]
        return "py3", "none", platform


class WithBinaries(Distribution):
    """A distribution with files that depend on the platform."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    packages=packages(),
    cmdclass={"build_py": BuildWithKernels, "bdist_wheel": WheelWithKernels},
    distclass=WithBinaries,
)
