"""Print docs/ops.md from the op registry: python -m lodcli.commands.apply.op_page."""

from __future__ import annotations

import importlib.util
import textwrap

from lodcli.commands.apply.arguments import Described, described, example
from lodcli.kernels.ops.registry import OPS, OpEntry

_HEAD = """\
# Sequence ops

*For* people who look for an op. *Afterwards* you know its equation, the levels and dtypes it
takes, and its options.

Generated from the registry `kernels/ops/registry.py` by
`python -m lodcli.commands.apply.op_page > docs/ops.md`; a test checks that it is up to date.

Every op is a Python function and a command, `lod apply OP`; `lod apply OP --help` lists
its options. In the equations, x are the rows, y is the result, s a sequence, lo to hi-1 its
rows, and n its number of rows. The docstring of the function gives shapes, dtypes, errors and an
example.

- *Level*: the level whose sequences an op works on, 0 or a name for the outermost; -1 is the
  finest. The default is the finest; the outermost for ops that rearrange whole sequences (and for
  ctc_align, as in PaddlePaddle); the only level for ops that take a single level in PaddlePaddle,
  so a tensor with several levels needs the option.
- *Gradient*: the function that computes the gradient. It takes the arguments of the op, with the
  upstream gradient before the inputs, and returns what the inputs are:
  `sequence_sum_grad(upstream, tensor)` is a LoDTensor with the index of `tensor`.
- *Twins*: compiled kernels besides the NumPy reference, for `--backend`.
- *In parts*: `lod apply` reads and writes in batches, so a file may be larger than memory; the
  other ops need the whole input at once.
- *Units*: ops that only move or pick values keep times, decimals and categories (of several
  results, the first does), and text where whole texts move, such as the words of `--level 0`. Other
  ops return numbers; of decimals `lod apply` computes with the values, as float64, and add, sub,
  mul, div, sum, mean, cumsum and diff of times as [expressions](choosing.md) do: differences are
  durations.
  What has no time as its result, such as the sum of dates, `lod apply` refuses, and so it refuses
  to compute with the codes of categories. In Python, ops compute with the numbers.
"""


def page() -> str:
    """Return the text of docs/ops.md."""
    links = ", ".join(f"[{name}](#{name})" for name in OPS)
    links = textwrap.fill(links, 97, break_on_hyphens=False)
    return "\n".join([_HEAD, links, *(_section(name) for name in OPS)])


def twins_of(entry: OpEntry, own: Described) -> list[str]:
    """Return the backends beside NumPy that an op has a kernel for."""
    if not own.has_backend:
        return []
    module = f"lodcli.kernels.ops.{entry.module}"
    # --backend numba runs the compiled kernels.
    files = {"numba": f"{module}_native", "cupy": f"{module}_cupy"}
    return [name for name, file in files.items() if importlib.util.find_spec(file)]


def _section(name: str) -> str:
    entry = OPS[name]
    own = described(entry)
    gradient, twins = entry.gradient, twins_of(entry, own)
    lines = [
        f"\n## {name}\n",
        f"{entry.summary[0].upper()}{entry.summary[1:]}: `{entry.function}`.\n",
        f"    {entry.equation}\n",
        f"- Level: {_levels(own)}",
        "- Gradient: " + (f"yes, `kernels.ops.{gradient}`" if gradient else "no"),
        f"- Twins: {', '.join(twins) or 'none'}",
        f"- In parts: {'yes' if entry.itemwise else 'no'}",
        f"- Units: {'kept' if entry.marks else 'dropped'}",
    ]
    if entry.results:
        lines.append(f"- Writes: {', '.join(f'`{one}`' for one in entry.results)}")
    return "\n".join([*lines, f"\n```sh\n{example(entry, own)}\n```"])


def _levels(own: Described) -> str:
    chosen = [one for one in own.options if one.kind == "level"]
    if not chosen:
        return "no choice"
    default = {-1: "-1, the finest", 0: "0, the outermost", None: "the only one"}
    return f"any, `{chosen[0].option}` (default {default[chosen[0].default]})"


if __name__ == "__main__":
    print(page())
