"""Messages of kernels and formats name options with lodcli.kernels.options, when they are made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lodcli.kernels import options
from lodcli.shell.group import group

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path.relative_to(ROOT)
    for folder in ("kernels", "formats")
    for path in (ROOT / folder).rglob("*.py")
    if path.name != "options.py" or path.parent.name != "kernels"
)
# Texts that only people at a shell read, or of other programs.
OF_SHELL = {
    "formats/catalogue/description.py": "the table of `lod convert --formats`",
    "formats/core/registry.py": "a dataset that a command with --jobs did not finish",
    "formats/records/tar_stream.py": "options of tar",
    "formats/records/webdataset.py": "options of tar",
    "formats/storage/sums.py": "files of sums, which lod verify writes",
    "formats/tokens/megatron_index.py": "options of fairseq-preprocess",
    "formats/weights/onnx_weights.py": "weights, which lod weights reads",
    "kernels/cuda/compiling.py": "options of a compiler",
    "kernels/native/build.py": "a program of its own",
    "kernels/native/cache.py": "options of that program",
    "kernels/ops/registry.py": "examples of lod apply",
    "kernels/platform/environment.py": "the help of lod",
    "kernels/runtime/worker_processes.py": "processes of --jobs",
}
NAMES = {"option", "option_name", "together", "by_reader", "to_main_memory"}
_COMMAND = re.compile(r"\blod [a-z][a-z-]*[^;`]*")


def _flags() -> set[str]:
    context = click.Context(group)
    commands = [group.get_command(context, name) for name in group.list_commands(context)]
    return {
        flag
        for command in commands
        if command is not None
        for parameter in command.params
        for flag in parameter.opts
        if flag.startswith("--")
    }


FLAGS = _flags()


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that may be parts of messages, with their lines.

    Not docstrings, nor what `by_reader` says to people at a shell.
    """
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "by_reader":
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.Constant) else "\0" for one in node.values]
        text = "".join(map(str, parts))
        yield node.lineno, text
        for one in node.values:
            if isinstance(one, ast.FormattedValue):
                yield from _texts(one)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_text_has_an_option_of_a_command(path: Path) -> None:
    if str(path) in OF_SHELL:
        return
    for line, text in _texts(ast.parse((ROOT / path).read_text())):
        found = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", _COMMAND.sub("", text)))
        assert not found & FLAGS, f"{path}:{line}: use lodcli.kernels.options"
        assert "--\0" not in text, f"{path}:{line}: use lodcli.kernels.options"


def _called_on_import(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that are made when a module is imported."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            yield from _called_on_import(default)
        return
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _called_on_import(child)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_text_with_an_option_is_made_once_for_all(path: Path) -> None:
    source = (ROOT / path).read_text()
    if not re.search(rf"\b({'|'.join(NAMES)}|choose_others|without_nulls)\b", source):
        return
    for call in _called_on_import(ast.parse(source)):
        name = getattr(call.func, "id", "")
        assert name not in {*NAMES, "choose_others", "without_nulls"}, f"{path}:{call.lineno}"


def test_options_with_other_names_are_options() -> None:
    assert {f"--{name}" for name in options.ARGUMENTS} <= FLAGS
