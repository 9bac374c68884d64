"""Print docs/ops.md from the op registry: python -m lodcli.commands.apply.op_page."""

from __future__ import annotations

import importlib.util

from lodcli.commands.apply.arguments import Described, click_option, described, example
from lodcli.kernels.ops.registry import OPS, OpEntry

_HEAD = """\
# Sequence ops

*For* people who look for an op. *Afterwards* you know its equation, its level, its gradient and
its options.

```console
$ printf '[1,2,6]\\n[4]\\n' > x.jsonl
$ lod apply max x.jsonl -q --to jsonl
6
4
```

```python
import lodcli

x = lodcli.LoDTensor.from_lists([[1, 2, 6], [4]])
lodcli.ops.max(x).to_list()  # [6, 4]
lodcli.ops.max_grad([1.0, 1.0], x).to_list()  # [[0.0, 0.0, 1.0], [1.0]]
```

Every op is a command, `lod apply OP`, and a function of Python, whose docstring gives shapes,
dtypes, errors and an example. In the equations, x are the rows, y is the result, s a sequence, lo
to hi-1 its rows, and n its number of rows. Below each equation:

- *level*: the default of `--level`, whose sequences the op works on: a number or a name, 0 the
  outermost, -1 the finest. If it is the only level, a tensor with several levels needs the option,
  as in PaddlePaddle.
- *gradient*: its function. It takes the upstream gradient, then the arguments of the op, and
  returns what the inputs are: `lodcli.ops.sum_grad(upstream, tensor)` is a LoDTensor with the index
  of `tensor`.
- *numba*, *cupy*: compiled kernels besides the NumPy reference, for `--backend`, and on a GPU.
- *in parts*: `lod apply` reads and writes batches, so a file may be larger than memory; the other
  ops need the whole input at once.
- *units kept*: it only moves or picks values, so times, decimals and categories stay (of several
  results, in the first), and text where whole texts move, such as the words of `--level 0`. Other
  ops return numbers; `lod apply` computes with decimals and times as in
  [expressions](expressions.md): sums and products of decimals are exact, other results are
  float64; differences of times are durations, and the sum of dates is an error.
  In Python, ops compute with the numbers.
- *nulls kept*: those of the first tensor; other ops refuse nulls.

An op without an example takes one tensor: `lod apply OP tensor.lod.h5 -o out.lod.h5`.
This page is generated: `python -m lodcli.commands.apply.op_page > docs/ops.md`.
"""

_EXAMPLE = "lod apply {} tensor.lod.h5 -o out.lod.h5"


def page() -> str:
    """Return the text of docs/ops.md."""
    families: dict[str, list[str]] = {}
    for name, entry in OPS.items():
        families.setdefault(entry.module.partition(".")[0], []).append(f"[{name}](#{name})")
    rows = [f"| {family} | {', '.join(names)} |" for family, names in sorted(families.items())]
    table = ["| family | ops |", "|---|---|", *rows]
    return "\n".join([_HEAD, *table, *(_section(name) for name in OPS)])


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
    properties = [
        _level(own),
        f"gradient `{entry.gradient.rpartition('.')[2].removeprefix('sequence_')}`"
        if entry.gradient
        else "no gradient",
        *twins_of(entry, own),
        *["in parts"] * entry.itemwise,
        *["units kept"] * entry.marks,
        *["nulls kept"] * entry.nulls,
    ]
    lines = [
        f"\n## {name}\n",
        f"{entry.summary[0].upper()}{entry.summary[1:]}.\n",
        f"    {entry.equation}\n",
        ", ".join(properties) + ".",
    ]
    if entry.results:
        lines.append(f"Writes {' and '.join(f'`{one}`' for one in entry.results)}.")
    rows = [
        f"| `{one.option}` | {click_option(one).help} |"
        for one in own.options
        if one.kind != "level"
    ]
    if rows:
        lines += ["", "| option | |", "|---|---|", *rows]
    line = example(entry, own)
    if line != _EXAMPLE.format(name):
        lines.append(f"\n```sh\n{line}\n```")
    return "\n".join(lines)


def _level(own: Described) -> str:
    chosen = [one for one in own.options if one.kind == "level"]
    if not chosen:
        return "No choice of level"
    default = {-1: "the finest", 0: "the outermost", None: "the only one"}
    return f"Level: {default[chosen[0].default]}"


if __name__ == "__main__":
    print(page())
