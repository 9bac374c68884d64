"""Ops of other packages: found, used like ours, and named where they do not work."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pytest

import lodcli
from lodcli.commands.apply.command import op_command
from lodcli.formats.core import io
from lodcli.kernels.errors import NotFloatingError, UnsupportedError
from lodcli.kernels.ops.plugins import RESERVED, misfit, working
from lodcli.kernels.plugins import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.ops import Op, find_op
from lodcli.testing import check_op
from tests.formats.catalogue.test_plugins import TELLING, Install, add_package, installer, lod_with
from tests.lodcli.conftest import Lod

SAMPLE = Path(__file__).parents[3] / "samples" / "plugin_ema"


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample plug-in, and one that cannot be imported."""
    site = tmp_path_factory.mktemp("site")
    shutil.copy(SAMPLE / "lod_ema.py", site)
    add_package(site, "lod-ema", "1.0", "lodcli.ops", "ema = lod_ema:EMA")
    add_package(site, "broken", "1.0", "lodcli.ops", "broken = broken:OP")
    (site / "broken.py").write_text(f"{TELLING}import no_such_package\n")
    return site


@pytest.mark.slow
def test_pip_installs_the_sample(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    source = shutil.copytree(SAMPLE, tmp_path / "source")
    command = "-m pip install -q --no-deps --no-build-isolation --no-index --target"
    subprocess.run(
        [sys.executable, *command.split(), str(tmp_path / "site"), str(source)],
        check=True,
        capture_output=True,
    )
    lod = lod_with(tmp_path / "site", tmp_path)
    x = LoDTensor(np.array([1.0, 3.0, 5.0]), [[2, 1]])
    io.write(tmp_path / "x.lod.h5", x)
    lod("apply", "ema", "x.lod.h5", "--decay", "0.5", "--then", "last", "-o", "t.jsonl")
    assert (tmp_path / "t.jsonl").read_text() == "2.0\n5.0\n"
    done = lod("apply", "data - ema(data, decay=0.5)", "x.lod.h5", "--to", "jsonl")
    assert done.stdout == "[0.0,1.0]\n[0.0]\n"
    assert "--decay FLOAT" in lod("apply", "ema", "--help").stdout


@pytest.mark.slow
def test_plugins_are_imported_only_when_needed(site: Path, tmp_path: Path) -> None:
    lod = lod_with(site, tmp_path)
    io.write(tmp_path / "x.lod.h5", LoDTensor(np.array([1.0, 3.0, 5.0]), [[2, 1]]))
    ours = ("--help", "apply --help", "apply sum --help", "apply sum x.lod.h5 -o s.lods")
    for line in (*ours, "apply ema x.lod.h5 -o t.lods"):
        assert lod(*line.split()).stderr == ""
    assert ", ema, " in lod("apply", "--help").stdout.replace("\n", " ").replace("  ", " ")
    assert not (site / "broken.imported").exists()
    said = (
        "the plug-in broken of broken 1.0 cannot be loaded: ModuleNotFoundError: No module named "
        "'no_such_package'"
    )
    done = lod("apply", "broken", "x.lod.h5", "-o", "t.lods", code=4)
    assert done.stderr == f"lod apply: {said}\n"
    done = lod("apply", "--list")
    assert done.stderr == f"lod apply: {said}\n"
    assert "ema" in done.stdout
    found = json.loads(lod("apply", "--list", "--json").stdout)["ops"]
    assert {one["name"]: one["package"] for one in found if one["package"]} == {
        "ema": "lod-ema 1.0"
    }


# -- in this process ---------------------------------------------------------------


def sequence_twice(tensor: LoDTensor, *, times: int = 2) -> LoDTensor:
    """Return the rows some times."""
    return tensor.with_data(tensor.data * times)


def sequence_last_args(tensor: LoDTensor, *, by: float = 0.0, times: int = 2) -> LoDTensor:
    """Return the rows, changed.

    Args:
        by: what is added.
        times: the factor,
            a whole number.
    """
    return tensor.with_data(tensor.data * times + by)


TWICE = Op(sequence_twice, "the rows some times", "y = n x", itemwise=True, keeps="tensor")


def of(function: Callable[..., Any], **more: Any) -> Op:
    return Op(function, "something", "y = x", **more)


def applied(lod: Lod, *words: str) -> str:
    """Return what `lod apply` writes as jsonl."""
    assert lod("apply", *words, "-o", "out.jsonl", "--force").code == 0
    return Path("out.jsonl").read_text("utf-8")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(monkeypatch, OPS)


def test_an_op_of_a_plugin_is_one_of_ours(install: Install, lod: Lod, folder: Path) -> None:
    install(("twice", TWICE))
    io.write(folder / "x.lod.h5", LoDTensor([1, 2, 3], [[2, 1]]))
    words = ("sort", "x.lod.h5", "--then", "twice", "--times", "3")
    assert applied(lod, *words) == "[3,6]\n[9]\n"
    assert applied(lod, "twice(data) + 1", "x.lod.h5") == "[3,5]\n[7]\n"
    done = lod("apply", "twise", "x.lod.h5")
    assert "no op 'twise'; did you mean twice?" in done.stderr
    done = lod("apply", "twise(data)", "x.lod.h5", "-o", "t.lods")
    assert "no function 'twise'; did you mean twice or time?" in done.stderr
    entry = find_op("twice")
    assert entry is not None
    assert entry.package == "twice-0 1.0"
    assert entry.load()(LoDTensor([1, 2])).data.tolist() == [2, 4]
    assert find_op("thrice") is None


def test_arguments_at_the_end_of_the_docstring_are_the_help(install: Install) -> None:
    install(("changed", of(sequence_last_args)))
    entry = find_op("changed")
    assert entry is not None
    helps = {one.name: getattr(one, "help", None) for one in op_command(entry).params}
    assert helps["by"] == "What is added. [default: 0.0]"
    assert helps["times"] == "The factor, a whole number. [default: 2]"


def sequence_of_two(a: LoDTensor, b: LoDTensor) -> LoDTensor:
    return a


def sequence_untyped(tensor, factor):  # type: ignore[no-untyped-def]
    return tensor


def sequence_of_a_set(tensor: LoDTensor, names: set[str]) -> LoDTensor:
    return tensor


def sequence_of_what(tensor: LoDTensor, x: Missing) -> LoDTensor:  # type: ignore[name-defined]  # noqa: F821
    return tensor


def sequence_into(tensor: LoDTensor, into: str = "") -> LoDTensor:
    return tensor


def sequence_number(count: int) -> int:
    return count


def sequence_pair(tensor: LoDTensor) -> tuple[LoDTensor, LoDTensor]:
    return tensor, tensor


REFUSED: dict[str, tuple[str, object, str]] = {
    "no op": ("twice", 3, "expected a lodcli.ops.Op, found 3"),
    "a bare function": ("twice", sequence_twice, "expected a lodcli.ops.Op"),
    "a name of ours": ("sum", TWICE, "lod has an op of this name"),
    "an odd name": ("My-Op", TWICE, "expected a name of small letters, digits and _"),
    "no summary": ("t", Op(sequence_twice, "", "y"), "expected one line as its summary"),
    "two lines": ("t", Op(sequence_twice, "s", "y\n"), "expected one line as its equation"),
    "no types": ("t", of(sequence_untyped), "parameter tensor of its function: expected an annot"),
    "a set": ("t", of(sequence_of_a_set), "parameter names of its function: expected an annot"),
    "an unknown type": ("t", of(sequence_of_what), "its annotations cannot be read: NameError"),
    "an option of lod": ("t", of(sequence_into), "a parameter into, which lod apply uses itself"),
    "no tensor": ("t", of(sequence_number), "the first parameter of its function must be a LoD"),
    "two by parts": ("t", of(sequence_of_two, itemwise=True), "of one LoDTensor can be itemwise"),
    "nameless results": ("t", of(sequence_pair), "must be annotated with a tuple where"),
    "one of two results": (
        "t",
        of(sequence_twice, results=("a", "b")),
        "must be annotated with a tuple",
    ),
    "keeps what": ("t", of(sequence_twice, keeps="x"), "keeps: its function has no parameter 'x'"),
    "tracks what": ("t", of(sequence_twice, tracked=("x",)), "tracked: its function has no par"),
}


@pytest.mark.parametrize(("name", "op", "why"), REFUSED.values(), ids=REFUSED)
def test_a_plugin_that_breaks_a_rule_is_not_used(
    name: str, op: object, why: str, install: Install, lod: Lod, folder: Path
) -> None:
    install((name, op), ("twice2", TWICE))
    ((other,), (broken,)) = working()
    assert other.name == "twice2"
    assert str(broken).startswith(f"the plug-in {name} of {name}-0 1.0 is not used: ")
    assert why in str(broken)
    # Ours work as before, and so do other plug-ins.
    io.write(folder / "x.lod.h5", LoDTensor([1, 2, 3], [[2, 1]]))
    assert applied(lod, "sum", "x.lod.h5") == "3\n3\n"
    assert applied(lod, "twice2", "x.lod.h5") == "[2,4]\n[6]\n"
    if name == "t":
        done = lod("apply", "t", "x.lod.h5", "-o", "t.lods")
        assert (done.code, done.stdout) == (4, "")
        assert why in done.stderr
        assert not (folder / "t.lods").exists()


def test_the_reserved_names_are_those_of_the_command() -> None:
    params = op_command(lodcli.ops.OPS["reverse"]).params
    names = {one.name for one in params}
    for one in params:
        long = [text for text in (*one.opts, *one.secondary_opts) if text.startswith("--")]
        names |= {text[2:].replace("-", "_") for text in long}
    # What an op may have itself.
    assert names - {"backend", "dtype", "items", "level", "no_items", "out"} == RESERVED - {
        *("steps", "writing")
    }


def test_two_plugins_of_one_name_are_reported(install: Install) -> None:
    install(("twice", TWICE), ("twice", TWICE))
    with pytest.raises(
        UnsupportedError, match=r"twice-0 1\.0 and twice-1 1\.0 both have a plug-in"
    ):
        find_op("twice")


def sequence_fails(
    tensor: LoDTensor, *, how: Literal["key", "value", "exit", "none", "type", "two"]
) -> LoDTensor:
    """Fail in some way."""
    if how == "exit":
        raise SystemExit(0)
    if how == "none":
        return None  # type: ignore[return-value]
    if how == "key":
        raise KeyError("two\nlines")
    if how == "value":
        raise ValueError("no")
    return (tensor, tensor) if how == "two" else 3  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("key", r"failed: KeyError: 'two\nlines'"),
        ("value", "failed: ValueError: no"),
        ("exit", "failed: SystemExit: 0"),
        ("none", "failed: TypeError: expected a LoDTensor as its result, found NoneType"),
        ("type", "failed: TypeError: expected a LoDTensor as its result, found int"),
        ("two", "failed: TypeError: expected as results: one; found 2"),
    ],
)
def test_a_fault_of_a_plugin_is_one_line(
    how: str, said: str, install: Install, lod: Lod, folder: Path
) -> None:
    install(("fails", of(sequence_fails)))
    io.write(folder / "x.lod.h5", LoDTensor([1, 2, 3], [[2, 1]]))
    done = lod("apply", "fails", "x.lod.h5", "--how", how, "-o", "t.lods")
    assert done.code == 4
    assert done.stderr.endswith(f"the plug-in fails of fails-0 1.0 {said}\n")
    assert done.stderr.count("\n") == 1
    assert not (folder / "t.lods").exists()


class OnDevice(np.ndarray[Any, Any]):
    """An array that says that it lies on a GPU."""

    __cuda_array_interface__: ClassVar[dict[str, Any]] = {}


@pytest.mark.parametrize("gpu", [False, True])
def test_rows_on_a_gpu_are_refused_unless_the_op_computes_there(
    gpu: bool, install: Install
) -> None:
    def sequence_any(tensor: LoDTensor, *, weight: Any = None) -> LoDTensor:
        return tensor

    sequence_any.__annotations__ = {
        "tensor": LoDTensor,
        "weight": npt.ArrayLike,
        "return": LoDTensor,
    }
    install(("any", of(sequence_any, gpu=gpu)))
    entry = find_op("any")
    assert entry is not None
    there = np.zeros(2).view(OnDevice)
    here = LoDTensor([1, 2])
    if gpu:
        assert entry.load()(here, weight=there) is here
        return
    with pytest.raises(UnsupportedError, match=r"any of any-0 1\.0 computes in main memory only"):
        entry.load()(here, weight=there)


def test_the_command_refuses_a_gpu_before_it_reads(
    install: Install, lod: Lod, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    install(("twice", TWICE))
    monkeypatch.setattr("lodcli.shell.device.computing_on", nullcontext)
    (folder / "x.lod.h5").write_bytes(b"no container")
    done = lod("apply", "twice", "x.lod.h5", "--device", "cuda", "-o", "t.lods")
    assert done.code == 4
    assert "main memory only; move the rows to main memory with --device cpu\n" in done.stderr


# -- the test kit ------------------------------------------------------------------


@pytest.fixture
def ema(monkeypatch: pytest.MonkeyPatch) -> Iterator[Op]:
    monkeypatch.syspath_prepend(SAMPLE)
    found: Op = importlib.import_module("lod_ema").EMA
    yield found
    del sys.modules["lod_ema"]


def test_the_sample_passes_the_kit(ema: Op) -> None:
    x = LoDTensor(np.array([1.0, 3.0, 5.0]), [[2, 1]])
    by_hand = LoDTensor(np.array([1.0, 2.0, 5.0]), [[2, 1]])
    report = check_op(
        ema, name="ema", arguments=lambda tensor: {"decay": 0.5}, examples={"by hand": (x, by_hand)}
    )
    assert "empties at each of five levels of rows of 3" in report.differentiated
    assert report.refused["numbers of int8"] == "ema: expected floating numbers, found int8"
    assert "no levels" in report.refused
    assert misfit("ema", ema) is None


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("softmax", {"itemwise": True, "keeps": "tensor"}),
        ("sum", {"itemwise": True, "pools": "tensor"}),
        ("sort", {"itemwise": True, "keeps": "tensor"}),
        ("cumsum", {"itemwise": True, "keeps": "tensor"}),
    ],
)
def test_ours_pass_the_kit(name: str, more: dict[str, Any]) -> None:
    entry = lodcli.ops.OPS[name]
    op = Op(entry.load(), entry.summary, entry.equation, gradient=entry.load_gradient(), **more)
    report = check_op(op)
    assert "empties at each of five levels of rows of 2 x 2" in report.computed
    assert len(report.differentiated) > 10


def faulty(ema: Op, fault: str) -> Op:
    """Return the sample with a fault."""
    from dataclasses import replace

    def function(tensor: LoDTensor, *, decay: float = 0.9) -> LoDTensor:
        found = ema.function(tensor, decay=decay)
        data = found.data
        if fault == "modifies" and tensor.rows:
            tensor.data[...] = 0
        if fault == "strided" and not tensor.data.flags.c_contiguous:
            data = data + 1
        if fault == "empty" and not tensor.rows:
            raise IndexError("no rows")
        if fault == "parts":
            data = data + len(tensor)
        if fault == "index":
            return LoDTensor(data, [[1] * tensor.rows])
        if fault == "nothing":
            raise NotFloatingError("never")
        return tensor.with_data(data)

    def gradient(upstream: Any, tensor: LoDTensor, *, decay: float = 0.9) -> Any:
        assert ema.gradient is not None
        found = ema.gradient(upstream, tensor, decay=decay)
        if fault == "gradient":
            return tensor.with_data(found.data * 1.01)
        if fault == "gradient's type":
            return found.data
        if fault == "two gradients":
            return found, found
        return found.with_data(found.data[:-1]) if fault == "gradient's shape" else found

    return replace(ema, function=function, gradient=gradient)


FAULTS = {
    "modifies": "failed: ValueError: assignment destination is read-only",
    "strided": "strided: expected",
    "empty": "failed: IndexError: no rows",
    "parts": "by parts: expected",
    "index": "the result does not have the index",
    "nothing": "refuses every test tensor",
    "gradient": r"the gradient of tensor at \(.*by finite differences",
    "gradient's type": "has another type than the argument: ndarray",
    "two gradients": "expected a gradient of tensor, found 2",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_kit_finds_faults(fault: str, ema: Op) -> None:
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        check_op(faulty(ema, fault))


def test_the_kit_passes_what_has_no_fault(ema: Op) -> None:
    check_op(faulty(ema, ""))
