"""The examples and the page of the ops: every one runs, and all are there."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from lodcli.commands.apply.arguments import described, example
from lodcli.commands.apply.command import command as apply_command
from lodcli.commands.apply.op_page import page
from lodcli.formats.core import io
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", OPS)
def test_every_op_is_described_and_its_example_is_understood(lod: Lod, name: str) -> None:
    own = described(OPS[name])
    assert own.inputs
    unknown = [one.name for one in (*own.inputs, *own.options) if one.kind == "unknown"]
    assert not unknown, "the shell cannot give these"
    line = example(OPS[name], own)
    told = lod("apply", name, "--help").stdout
    assert OPS[name].equation in told
    assert line in told
    for one in own.options:
        assert one.option in told
    above = click.Context(apply_command, info_name="apply")
    inner = apply_command.get_command(above, name)
    assert inner is not None
    context = inner.make_context(name, line.split()[3:], parent=above)
    assert [step.name for step in context.params["steps"]] == [name]


@pytest.mark.parametrize("name", OPS)
def test_every_option_of_an_op_has_a_help_in_words_of_the_shell(name: str) -> None:
    own = described(OPS[name])
    python = {f"`{one.name}`" for one in (*own.inputs, *own.options)} | {"None", "False", "True"}
    for one in own.options:
        assert one.text[:1] not in ("", *"abcdefghijklmnopqrstuvwxyz"), one.option
        assert not [word for word in python if word in one.text], one.option
        assert "`sequence_" not in one.text, one.option


def test_only_the_help_of_an_expression_has_a_dtype_of_the_result(lod: Lod) -> None:
    told = [lod("apply", what, "--help").stdout for what in ("windows", "x + 1")]
    assert ["floats of the result" in one for one in told] == [False, True]
    assert all("may be inf." in " ".join(one.split()) for one in told)


def test_the_help_of_an_op_explains_the_letters_of_its_equation(lod: Lod) -> None:
    told = " ".join(lod("apply", "first", "--help").stdout.split())
    assert "y[s] = x[lo] x are the rows, y is the result, s a sequence, lo to hi-1 its" in told


FLOATS = LoDTensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[2, 1]])
COLUMN = LoDTensor([1, 2, 1], [[2, 1]])
# What the files of an example hold: by the op and the name, else by the name.
EXAMPLES: dict[str, LoDTensor] = {
    **dict.fromkeys(("tensor", "other", "a", "b", "q", "k", "v", "one", "two", "y", "lod"), FLOATS),
    **dict.fromkeys(("true", "false"), LoDTensor([[1.0], [2.0]], [[2]])),
    **dict.fromkeys(("hyps", "refs", "ids", "values"), COLUMN),
    **{
        f"{op} tensor": COLUMN
        for op in ("ctc_align", "enumerate", "erase", "histogram", "searchsorted", "unique",
                   "unique_counts")
    },
    "deinterleave tensor": COLUMN,
    "topk_avg_pooling tensor": LoDTensor([1.0, 5.0, 3.0], [[2, 1]]),
    "lod_append tensor": LoDTensor([1.0, 5.0, 3.0], [[3]]),
    "row": LoDTensor([0.0, 0.0], [[1, 1]]),
    "column": LoDTensor([0.0, 0.0, 0.0], [[2, 1]]),
    "conv weight": LoDTensor([[1.0]] * 6),
    "row_conv weight": LoDTensor([[1.0, 1.0], [1.0, 1.0]]),
    "updates": LoDTensor([1.0, 2.0, 3.0], [[2, 1]]),
    "x": LoDTensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    "table": LoDTensor([[0, 2], [1, 1]]),
    "array": LoDTensor([[1.0], [2.0], [3.0]], [[2, 1]]),
    "images": LoDTensor([[[[1.0, 2.0], [3.0, 4.0]]]]),
    "padded": LoDTensor([[1, 2], [3, 0]]),
    "lengths": LoDTensor([2, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_every_example_runs(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = example(OPS[name], described(OPS[name])).split()
    assert words[:3] == ["lod", "apply", name]
    assert words[-2:] == ["-o", "out.lod.h5"]
    for word in words[3:-2]:
        file = word.removesuffix(".lod.h5")
        if file != word:
            io.write(
                tmp_path / word, EXAMPLES[key if (key := f"{name} {file}") in EXAMPLES else file]
            )
    done = lod(*words[1:])
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert io.read_all("out.lod.h5")


def test_the_page_of_the_ops_is_that_of_the_table() -> None:
    found = (ROOT / "docs" / "ops.md").read_text()
    assert found == page() + "\n", "python -m lodcli.commands.apply.op_page > docs/ops.md"
