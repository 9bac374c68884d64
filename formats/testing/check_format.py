"""Checks of a format: round trips, damage, limits."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lodcli.formats.catalogue import plugins
from lodcli.formats.core import io, registry
from lodcli.formats.core.errors import TooLargeError
from lodcli.formats.core.format import Format
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.losses import losses
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Item, schema_of
from lodcli.formats.core.table import TABLE
from lodcli.formats.loading.file import open_source
from lodcli.formats.testing.comparing import difference
from lodcli.formats.testing.shapes import Content, by_dtype, shapes
from lodcli.kernels.errors import LodError
from lodcli.kernels.platform import processes
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Options = Callable[[Mapping[str, Item]], Mapping[str, Any]]
# Numbers of truncated and altered copies of each file, and their maximum decompressed size.
TRUNCATIONS, FLIPS = 60, 200
MOST_BYTES = 64 << 20


@dataclass
class FormatReport:
    """The result of `check_format`.

    Attributes:
        held: names of test cases that were read back unchanged, except for declared losses.
        refused: the other test cases, each with the error of the format.
    """

    held: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def check_format(
    kind: type[Format],
    *,
    examples: Mapping[str, Content] | None = None,
    files: Iterable[PathLike] = (),
    read_options: Options = lambda content: {},
    write_options: Options = lambda content: {},
) -> FormatReport:
    """Check a format as lod checks its own: tensors are read back unchanged, or are an error.

    Test cases are no rows, one row, empty items at each of up to five levels, levels that are equal
    or shared, Unicode names, text, times, nulls and every dtype that the format declares. A written
    file is then truncated and altered: reading it must raise an error of lod or return tensors, and
    with `checksums` never other tensors. A file that expands to more than `max_bytes` must be an
    error.

    Args:
        kind: the class; it need not be installed as a plug-in.
        examples: more test cases, by name: tensors by name, which must be read back unchanged.
        files: files of this format, to damage; the only ones for a format without a writer.
        read_options: returns the keywords of `lodcli.read_all` for tensors that were written.
        write_options: returns the keywords of `lodcli.write` for tensors to write.

    Returns:
        The test cases that were read back, and those with an error; check these.

    Raises:
        AssertionError: the format breaks a rule; names the test case.

    >>> from lodcli.formats.npz.npy import Npy
    >>> check_format(Npy).refused["no items of two levels"]
    't.npy: npy holds 0 levels, data has 2'
    """
    name = getattr(kind, "name", "")
    if name not in TABLE or not isinstance(kind, type):
        why = plugins.misfit(name, kind)
        assert why is None, f"{name}: {why}".removeprefix(": ")
    with plugins.trying(kind), tempfile.TemporaryDirectory() as folder:
        run = _Run(Path(folder), registry.get(kind.name), read_options, write_options)
        for path in files:
            run.check_file(Path(path))
        if not kind.read_only:
            run.check_content(examples or {})
    return run.report


class _Run:
    def __init__(self, folder: Path, kind: Format, reading: Options, writing: Options) -> None:
        self.report = FormatReport()
        self._folder = folder
        self._kind = kind
        self._reading = reading
        self._writing = writing
        endings = kind.endings or (TABLE[kind.name].endings if kind.name in TABLE else ())
        self._name = f"t{endings[0] if endings else ''}"

    def check_content(self, examples: Mapping[str, Content]) -> None:
        plain = min(self._kind.dtypes, key=lambda name: (name != "int64", name != "uint8", name))
        largest: tuple[int, Path, Content] | None = None
        for number, (what, content) in enumerate(
            {**shapes(plain), **by_dtype(self._kind), **examples}.items()
        ):
            place = self._folder / str(number)
            place.mkdir()
            path = place / self._name
            if not self._comes_back(what, content, path):
                assert what not in examples, f"{what}: is refused: {self.report.refused[what]}"
                continue
            if path.is_file() and (largest is None or path.stat().st_size > largest[0]):
                largest = (path.stat().st_size, path, content)
            else:
                shutil.rmtree(place)
        assert self.report.held, f"{self._kind.name} refuses every test file: {self.report.refused}"
        if largest is not None:
            _, path, content = largest
            self._check_limits(path, content)
            self._check_damage(path, content)
            if self._kind.file_attributes:
                self._check_attributes(path, content)

    def check_file(self, path: Path) -> None:
        self._check_damage(path, self._read(path, {}))

    def _comes_back(self, what: str, content: Content, path: Path) -> bool:
        options = dict(self._writing(content))
        try:
            io.write(path, content, format_name=self._kind.name, **options)
        except LodError as error:
            self._check_refusal(what, content, error, path)
            self.report.refused[what] = str(error).replace(str(path), path.name)
            return False
        except Exception as error:
            raise AssertionError(f"{what}: writing: {type(error).__name__}: {error}") from error
        try:
            found = self._read(path, content)
        except Exception as error:
            raise AssertionError(f"{what}: reading: {type(error).__name__}: {error}") from error
        lost = losses(self._kind, schema_of(content), WriteOptions(**options))
        wrong = difference(content, found, lost)
        assert wrong is None, f"{what}: {wrong}"
        self.report.held.append(what)
        return True

    def _check_refusal(self, what: str, content: Content, error: LodError, path: Path) -> None:
        said = str(error)
        assert any(name in said for name in (self._kind.name, *content)), (
            f"{what}: an error that names neither the format nor a tensor: {said}"
        )
        left = os.listdir(path.parent)
        assert not left, f"{what}: refused, and left {', '.join(left)}"

    def _read(
        self, path: Path, content: Mapping[str, Item], limits: Limits | None = None
    ) -> dict[str, Item]:
        options = self._reading(content)
        return io.read_all(path, format_name=self._kind.name, limits=limits, **options)

    def _check_limits(self, path: Path, content: Content) -> None:
        try:
            self._read(path, content, Limits(max_bytes=1))
        except TooLargeError:
            pass
        else:
            raise AssertionError("a file that comes to more than max_bytes is read")
        if processes.CAN_ISOLATE:
            try:
                found = self._read(path, content, Limits(isolate=True))
            except LodError as error:
                raise AssertionError(
                    f"{path.name}: cannot be read in the sandbox: {error}; what reading imports "
                    "late belongs into `modules`"
                ) from error
            wrong = difference(content, found, losses(self._kind, schema_of(content), _NONE))
            assert wrong is None, f"read in the sandbox: {wrong}"

    def _check_attributes(self, path: Path, content: Content) -> None:
        """Write attributes of the file, and check that they are read back."""
        given = {"license": "MIT", "of": {"years": [2019, None]}}
        options = {"overwrite": True, "attributes": given, **self._writing(content)}
        io.write(path, content, format_name=self._kind.name, **options)
        reading = self._reading(content)
        with open_source(path, format_name=self._kind.name, **reading) as file:
            found = file.attributes
        assert found == given, f"attributes of the file: {given} came back as {dict(found)}"

    def _check_damage(self, path: Path, content: Mapping[str, Item]) -> None:
        """Read truncated and altered copies of a file: an error of lod, or tensors."""
        expected = self._read(path, content)
        tensors = {name: one for name, one in expected.items() if isinstance(one, LoDTensor)}
        target = self._folder / f"damaged-{path.name}"
        for what, image in _damaged(path.read_bytes()):
            target.write_bytes(image)
            try:
                found = self._read(target, content, Limits(max_bytes=MOST_BYTES))
            except LodError:
                pass
            except Exception as error:
                raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
            else:
                wrong = difference(tensors, found) if self._kind.checksums else None
                assert wrong is None, f"{what}: is read, with other content: {wrong}"


def _damaged(whole: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield truncated copies of a file, and copies with one bit changed; always the same ones."""
    rng = random.Random(0)
    for cut in sorted({rng.randrange(len(whole)) for _ in range(TRUNCATIONS if whole else 0)}):
        yield f"cut off after {cut} bytes", whole[:cut]
    for _ in range(FLIPS if whole else 0):
        place, bit = rng.randrange(len(whole)), rng.randrange(8)
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        yield f"with bit {bit} of byte {place} changed", bytes(damaged)


_NONE = WriteOptions()
