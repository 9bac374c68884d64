"""Differences as text, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from lodcli.commands.diff.comparing import Comparison, TensorComparison
from lodcli.commands.inspect.sequences import plain
from lodcli.kernels.index.places import named_branch
from lodcli.kernels.tensor.exchange.units import texts
from lodcli.kernels.tensor.marks import Categories, Decimals
from lodcli.reports.comparison import Difference
from lodcli.shell.output import plural, table
from lodcli.shell.printable import printable


def as_text(result: Comparison, *, stat: bool) -> str:
    """Return the differences, one per line; with `stat`, their number. "" if there are none."""
    if stat:
        return _statistics(result)
    lines = [
        f"attribute {name} of the file: {_shown(left)} against {_shown(right)}"
        for name, (left, right) in result.attributes.items()
    ]
    for tensor in result.tensors:
        lines += [_line(tensor, one) for one in tensor.differences]
        if tensor.different_values:
            apart = _apart(tensor)
            by = "" if apart is None else f", by at most {apart}"
            lines.append(
                f"{tensor.name}: {plural(tensor.different_values, 'value')} in "
                f"{tensor.different_rows:,} of {plural(tensor.rows or 0, 'row')} differ{by}"
            )
    return "\n".join(map(printable, lines))


def _shown(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def _apart(tensor: TensorComparison) -> str | None:
    """Return the greatest difference, with its unit; None if no difference is a number."""
    found, unit = tensor.max_abs, tensor.unit
    if found is None or isinstance(unit, Categories):
        return None
    if isinstance(unit, Decimals):
        return f"{found * 10.0**-unit.scale:g}"
    return f"{found:g}" if unit is None else f"{found:g} {unit.unit}"


def _line(tensor: TensorComparison, one: Difference) -> str:
    if one.what == "tensor":
        return f"{tensor.name}: only in the {'second' if one.left is None else 'first'} file"
    left, right = one.left, one.right
    if one.what == "value" and tensor.unit is not None:
        left, right = texts(np.array([left, right]), tensor.unit)
    what = f"{tensor.name}: {_place(tensor, one)}"
    return f"{what}: {_or_nothing(left)} against {_or_nothing(right)}"


def _or_nothing(value: object) -> object:
    return "nothing" if value is None or value == "" else value


def _place(tensor: TensorComparison, one: Difference) -> str:
    if one.what == "length":
        return f"{named_branch(tensor.level_names, one.branch)}: length"
    if one.what in ("value", "null"):
        return named_branch(tensor.level_names, one.branch, one.column)
    if one.what == "word":
        return f"word {one.branch[0]}"
    if one.level is not None:
        what = "name" if one.what == "level_name" else "number of sequences"
        return f"level {one.level}: {what}"
    return {"row_shape": "shape of a row", "levels": "number of levels"}.get(one.what, one.what)


def _statistics(result: Comparison) -> str:
    rows = []
    for tensor in result.tensors:
        if tensor.rows is None:
            cells = ["index" if tensor.differences else "-", "-", "-", "-"]
        else:
            cells = [
                f"{tensor.rows:,}",
                f"{tensor.different_rows:,}",
                f"{tensor.different_values:,}",
                _apart(tensor) or "-",
            ]
        rows.append([tensor.name, "equal" if tensor.equal else "differs", *cells])
    if result.attributes:
        rows.append(["(attributes of the file)", "differs", *["-"] * 4])
    return table(["tensor", "is", "rows", "different rows", "values", "by at most"], rows)


def as_object(result: Comparison, paths: Sequence[str]) -> dict[str, Any]:
    """Return the result for scripts."""
    tensors = [
        {**asdict(tensor), "equal": tensor.equal, "level_names": list(tensor.level_names)}
        for tensor in result.tensors
    ]
    for tensor in tensors:
        del tensor["unit"]
        tensor["max_abs"] = plain(tensor["max_abs"])
        for one in tensor["differences"]:
            one["left"], one["right"] = plain(one["left"]), plain(one["right"])
    attributes = [
        {"name": name, "left": left, "right": right}
        for name, (left, right) in result.attributes.items()
    ]
    return {
        "files": list(paths),
        "equal": result.equal,
        "attributes": attributes,
        "tensors": tensors,
    }
