"""The public modules: complete, derived from the registries, cheap to import, and typed."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import assert_type

import numpy as np
import pytest

import lodcli
from lodcli.formats.core.options import ReadKeywords, WriteKeywords
from lodcli.formats.core.table import TABLE
from lodcli.kernels.ops.registry import OPS, OpEntry
from lodcli.kernels.rnn.cells.registry import CELLS, CellEntry
from tests.make_stubs import ROOT, STUBS, homes_of, stub
from tests.test_imports import parsed

# Public modules that need a package.
OPTIONAL = {"lodcli.dask": "dask", "lodcli.torch": "torch"}


@pytest.mark.parametrize("module", STUBS)
def test_type_checkers_read_the_names_there_are(module: str) -> None:
    path = Path(str(importlib.import_module(module).__file__)).with_suffix(".pyi")
    text = path.read_text("utf-8")
    assert text == stub(module), "run python -m tests.make_stubs"


@pytest.mark.parametrize("module", STUBS)
def test_a_name_is_what_its_home_defines(module: str) -> None:
    if module in OPTIONAL:
        pytest.importorskip(OPTIONAL[module])
    loaded = importlib.import_module(module)
    for name, (home, attribute) in homes_of(module).items():
        found = importlib.import_module(home)
        assert getattr(loaded, name) is (getattr(found, attribute) if attribute else found)
        assert name in dir(loaded)


@pytest.mark.parametrize("module", STUBS)
def test_an_unknown_name_is_an_attribute_error(module: str) -> None:
    with pytest.raises(AttributeError, match=f"'{module}' has no attribute 'nonsense'"):
        getattr(importlib.import_module(module), "nonsense")  # noqa: B009


@pytest.mark.parametrize(
    ("function", "keywords"), [(lodcli.open, ReadKeywords), (lodcli.write, WriteKeywords)]
)
def test_help_lists_every_option_of_files(function: object, keywords: type) -> None:
    listed = re.findall(r"^ *- ([a-z_, ]+):", inspect.getdoc(function) or "", re.MULTILINE)
    assert {name for names in listed for name in names.split(", ")} == set(keywords.__annotations__)


def test_a_misspelt_name_is_answered_with_a_similar_one() -> None:
    code = "import lodcli; lodcli.ops.softmx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("has no attribute 'softmx'. Did you mean: 'softmax'?\n")


@pytest.mark.parametrize(("name", "here"), [("load", "read"), ("save", "write")])
def test_names_of_numpy_are_answered_with_those_of_lod(name: str, here: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; lodcli.{here} {here}s files"):
        getattr(lodcli, name)
    assert callable(getattr(lodcli, here))


def test_every_op_has_its_short_name_and_its_gradient() -> None:
    for op in OPS.values():
        assert getattr(lodcli.ops, op.name) is getattr(lodcli.ops, op.function) is op.load()
        if op.gradient is not None:
            long, short = (getattr(lodcli.ops, f"{one}_grad") for one in (op.function, op.name))
            assert long is short is op.load_gradient()


def test_a_new_line_in_a_table_is_a_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toys of test_registries.py: what is there already under another name."""
    monkeypatch.setitem(OPS, "new", OpEntry("new", "softmax.softmax", "", ""))
    monkeypatch.setitem(CELLS, "new", CellEntry("lstm.lstm", "New"))
    assert {"new", "sequence_new"} <= set(dir(lodcli.ops))
    assert {"NewCell", "NewWeights"} <= set(dir(lodcli.rnn))


@pytest.mark.parametrize(
    ("module", "there"),
    [("lodcli", "LoDTensor"), ("lodcli.ops", "sequence_sum"), ("lodcli.torch", "")],
)
def test_a_star_import_hides_no_builtin_and_no_package(module: str, there: str) -> None:
    names: dict[str, object] = {}
    if module == "lodcli.torch":
        pytest.importorskip("torch")
    exec(f"from {module} import *", names)
    assert there in names or not there
    assert not names.keys() & {*dir(builtins), "torch", "numpy", "pyarrow", "dask"}


def test_type_checkers_accept_results_as_they_nearly_always_are(tmp_path: Path) -> None:
    """A tensor, a tape: mypy, which checks these lines, asks for no isinstance first."""
    words = lodcli.LoDTensor([1.0, 2.0, 3.0], [[2, 1]])
    path = tmp_path / "words.lod.h5"
    lodcli.write(path, {"words": words})
    assert lodcli.read(path).to_list() == lodcli.read_all(path)["words"].to_list()
    with lodcli.open(path) as file:
        assert file.read()["words"].rows == 3
        assert [batch["words"].lod.count(0) for batch in file.batches()] == [2]
    weights = lodcli.rnn.seeded_weights("gru", 1, 2, rng=np.random.default_rng(0))
    run = lodcli.rnn.stack_forward(words.data[:, None], words.lod.levels[0], weights, keep=True)
    assert lodcli.rnn.stack_backward(run.tape, grad_outputs=run.outputs).input.shape == (3, 1)
    without = lodcli.rnn.stack_backward(run.tape, input_gradient=False)
    assert assert_type(without.input, None) is None
    one = lodcli.rnn.rnn_forward(
        words.data[:, None], words.lod.levels[0], weights.layers[0][0], keep=True
    )
    assert lodcli.rnn.rnn_backward(one.tape).input.shape == (3, 1)
    left_out = lodcli.rnn.rnn_backward(one.tape, input_gradient=False)
    assert assert_type(left_out.input, None) is None
    assert lodcli.rnn.run_rnn(words, weights, keep=True).tape.weights is weights
    assert lodcli.DynamicRNN(lambda inputs, _: (inputs, inputs))(words).last.shape == (2,)


def test_every_error_of_kernels_and_formats_is_public() -> None:
    ours = {"LodError"}
    classes = [
        (node.name, {ast.unparse(base) for base in node.bases})
        for floor in ("kernels", "formats")
        for path in Path(lodcli.__file__).parent.joinpath(floor).rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    ]
    while found := {name for name, bases in classes if bases & ours} - ours:
        ours |= found
    assert ours == set(lodcli.errors.__all__)


def test_every_format_is_in_the_table_that_users_see() -> None:
    found = lodcli.formats.formats()
    assert [each.name for each in found] == list(TABLE)
    assert all("levels" in each.read_options for each in found)


def test_every_public_name_is_on_the_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    derived = {entry.name for entry in OPS.values()}
    for module in STUBS:
        for name in homes_of(module):
            of_an_op = name.removeprefix("sequence_").removesuffix("_grad") in derived
            assert f"`{name}`" in page or f"`lodcli.{name}`" in page or of_an_op, name


def test_every_public_function_has_an_example_that_runs() -> None:
    """In its docstring, or in a block of Python of a page; test_docs.py and others run both.

    A gradient has those of its op: it takes what the op gave, and the upstream gradient.
    """
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    called = set(re.findall(r"\b(\w+)\(", "\n".join(blocks)))
    without = [
        f"{module}.{name}"
        for module in STUBS
        if module not in OPTIONAL or find_spec(OPTIONAL[module])
        for name in homes_of(module)
        if inspect.isfunction(value := getattr(importlib.import_module(module), name))
        if ">>>" not in (inspect.getdoc(value) or "")
        if name not in called and not name.endswith("_grad")
    ]
    assert not without


def test_ops_load_numpy_and_nothing_else() -> None:
    code = (
        "import sys; before = {*sys.modules}\n"  # what the environment loads at every start
        "import lodcli\n"
        "words = lodcli.LoDTensor([1.0, 2.0, 3.0], [[2, 1]])\n"
        "lodcli.ops.softmax(words)\n"
        "print(*{name.partition('.')[0] for name in {*sys.modules} - before}"
        " - sys.stdlib_module_names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == {"lodcli", "numpy"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch.LSTM", "lodcli.torch needs the package torch; pip install 'lodcli[torch]'"),
        ("torch.Dataset", "lodcli.torch needs the package torch; pip install 'lodcli[torch]'"),
        ("dask.from_dataset", "lodcli.dask needs the package dask; pip install 'lodcli[dask]'"),
    ],
)
def test_without_a_package_its_names_say_what_to_install(name: str, said: str) -> None:
    code = (
        f"import importlib.util as util, lodcli.{name.partition('.')[0]}\n"
        "util.find_spec = lambda name: None\n"
        f"try: lodcli.{name}\n"
        "except lodcli.UnsupportedError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said


@pytest.mark.parametrize("call", ["([1, 2], [[2]]).to_torch()", ".from_torch(1)"])
def test_a_conversion_of_torch_says_what_to_install(call: str) -> None:
    code = (
        "import importlib.util as util, lodcli\n"
        "util.find_spec = lambda name: None\n"
        f"try: lodcli.LoDTensor{call}\n"
        "except lodcli.UnsupportedError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "lodcli.torch needs the package torch; pip install 'lodcli[torch]'\n"


# What a user's project may look like: it passes the strict checks, and what is wrong is found.
PROJECT = """
import numpy as np

import lodcli
from lodcli.errors import SelectionError
from lodcli.formats import Limits, formats
from lodcli.ops import sequence_sum, softmax
from lodcli.rnn import RNNWeights, run_rnn, seeded_weights


def scores(words: lodcli.LoDTensor) -> lodcli.LoDTensor:
    return lodcli.ops.mul(softmax(words), sequence_sum(words), level=-1)


def first(path: str) -> lodcli.LoDTensor | None:
    with lodcli.open(path, levels=["day"], dtype="int16", limits=Limits(isolate=True)) as file:
        names: list[str] = [spec.name for spec in file.schema]
    try:
        found = lodcli.read(path, names[0], mmap=True)
    except SelectionError:
        return None
    return found[0:1] if isinstance(found, lodcli.LoDTensor) else None


weights: RNNWeights = seeded_weights("lstm", 3, 8, rng=np.random.default_rng(0))
states: lodcli.LoDTensor = run_rnn(lodcli.LoDTensor(np.ones((6, 3)), [[6]]), weights).all
lodcli.write("states.lod.h5", states, overwrite=True, compression="zstd")
by_arrays: lodcli.LoDTensor = lodcli.LoDTensor(states.data, [states.lod.lengths()])
loud: lodcli.LoDTensor = (-states * 2 > 1) | (1 - states >= 0)
endings: list[str] = [ending for each in formats() for ending in each.endings]
"""
TRAINING = """
from typing import assert_type

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data import DataLoader

import lodcli
from lodcli.torch import (
    LSTM, BatchSampler, Dataset, Varlen, collate, concat, dot, expand, max_index, mean,
    merge_by_mask, pad, replace, scatter, softmax, topk, truncate
)


def best(words: lodcli.LoDTensor) -> torch.Tensor:
    padded, lengths = words.to_torch("padded")
    assert len(padded) == len(lengths) == len(words.to_torch("packed").batch_sizes)
    values, places = topk(truncate(words.to_torch(), 3), 1)
    assert places.values().shape[0] == words.to_torch("varlen").cu_seqlens[-1]
    return concat([values, words.to_torch("jagged")])


def forms(words: lodcli.LoDTensor, packed: PackedSequence, varlen: Varlen) -> None:
    assert_type(mean(words, level=0), lodcli.LoDTensor)
    assert_type(mean(packed), torch.Tensor)
    assert_type(max_index(varlen), tuple[torch.Tensor, torch.Tensor])
    assert_type(max_index(words), tuple[lodcli.LoDTensor, lodcli.LoDTensor])
    padded, lengths = pad(packed)
    assert_type(padded, torch.Tensor)
    assert_type(lengths, torch.Tensor)
    assert pad(words)[0].shape[0] == len(pad(words)[1])
    assert_type(dot(varlen, varlen), torch.Tensor)
    assert_type(expand(mean(packed), packed), torch.Tensor)
    assert_type(merge_by_mask(varlen, varlen, [True]), Varlen)
    assert_type(scatter(mean(packed), packed, packed), torch.Tensor)
    assert_type(softmax(torch.nn.Parameter(torch.ones(2))), torch.Tensor)


def of_any_form(one: torch.Tensor | lodcli.LoDTensor, other: Varlen | PackedSequence) -> None:
    assert_type(expand(one, other), torch.Tensor | lodcli.LoDTensor)
    assert_type(softmax(one), torch.Tensor | lodcli.LoDTensor)
    assert merge_by_mask(other, one, [True]) is not scatter(other, other, one)


def losses(path: str, layer: LSTM) -> list[torch.Tensor]:
    dataset = Dataset(path, "words", level=0, in_memory=True)
    sampler = BatchSampler(dataset, rows=4096, buckets=4, seed=0)
    found: list[torch.Tensor] = []
    for batch in DataLoader(dataset, batch_sampler=sampler, collate_fn=collate("jagged")):
        outputs: torch.Tensor = layer(softmax(batch))[0]
        found.append(mean(outputs).square().sum())
    return found


model: torch.nn.Sequential = replace(torch.nn.Sequential(torch.nn.GRU(8, 8)))
"""
WRONG = """
import lodcli

lodcli.nonsense
lodcli.ops.nonsense
lodcli.ops.softmax("text")
lodcli.read("words.jsonl", no_such_option=1)
"""


def checked(folder: Path, *command: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "good.py").write_text(PROJECT)
    (tmp_path / "wrong.py").write_text(WRONG)
    paths = [str(ROOT)]
    torch = find_spec("torch")
    if torch is not None and torch.origin is not None:
        (tmp_path / "training.py").write_text(TRAINING)
        paths.append(str(Path(torch.origin).parents[1]))
    # As the package installed: its own modules are not the user's to check.
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nmypy_path = {ROOT}\n[mypy-lodcli.*]\nfollow_imports = silent\n"
    )
    settings = {"typeCheckingMode": "strict", "extraPaths": paths}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    return tmp_path


def good(project: Path) -> list[str]:
    return sorted(path.name for path in project.glob("*.py") if path.name != "wrong.py")


@pytest.mark.slow
def test_a_project_passes_mypy_strict(project: Path) -> None:
    pytest.importorskip("mypy")
    # All at once: what they import is read once.
    code, said = checked(project, "mypy", *good(project), "wrong.py")
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert code == 1, said
    assert len(errors) == 4, said
    assert all(line.startswith("wrong.py:") for line in errors), said


@pytest.mark.slow
def test_a_project_passes_pyright_strict(project: Path) -> None:
    pytest.importorskip("basedpyright")
    code, said = checked(project, "basedpyright", *good(project), "wrong.py")
    assert code == 1, said
    assert all(f"wrong.py:{line}:" in said for line in (4, 5, 6, 7)), said
    assert not [line for line in said.splitlines() if re.search(r"(good|training)\.py:\d+:", line)]
