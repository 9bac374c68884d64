"""Ops of plug-in packages: found by their entry points, and checked when loaded and called."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, get_origin, get_type_hints

from lodcli.kernels import plugins
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.ops.registry import OPS, OpEntry
from lodcli.kernels.options import to_main_memory
from lodcli.kernels.plugins import Plugin

# Names that lod apply uses for its own options and parameters.
RESERVED = frozenset(
    {
        *("as_json", "color", "compress", "decimal_comma", "device", "encoding", "float_dtype"),
        *("float_decimals", "force", "from"),
        *("from_format", "inputs", "into", "isolate", "jobs", "json", "max_bytes", "memory"),
        *("nulls", "output", "quiet", "scheduler", "separator", "skip_partitions"),
        *("skip_unsupported", "steps", "strict", "text_columns", "to", "to_format", "verbose"),
        "writing",
    }
)


@dataclass(frozen=True)
class Op:
    """An op of a plug-in: what its entry point refers to.

    Attributes:
        function: takes one LoDTensor or several, then options by name, and returns a LoDTensor, or
            a tuple of them if `results` names several. It must not modify its arguments.
        summary: what it returns, in one line.
        equation: the same as a formula; x the rows, y the result, n the length of a sequence.
        itemwise: whether batches of whole outermost items can be computed separately, and their
            results concatenated. Only for functions of one tensor.
        results: names of its results, if there are several.
        gradient: takes `upstream`, rows or a LoDTensor, then the arguments of `function`, by name;
            returns the gradient of each argument in `tracked`, of its type. None if there is none.
        tracked: its differentiable arguments; by default the first.
        keeps: its argument whose index the result has.
        pools: its argument with one sequence per row of the result.
        gpu: whether it computes on a GPU, with CuPy. If not, rows on a GPU are an error.

    >>> Op(lambda tensor: tensor, "the same rows", "y = x").itemwise
    False
    """

    function: Callable[..., Any]
    summary: str
    equation: str
    itemwise: bool = False
    results: tuple[str, ...] = ()
    gradient: Callable[..., Any] | None = None
    tracked: tuple[str, ...] = ()
    keeps: str = ""
    pools: str = ""
    gpu: bool = False


@dataclass(frozen=True, kw_only=True)
class PluginEntry(OpEntry):
    """The op of a plug-in as an entry of the registry; errors of its functions name the plug-in.

    Attributes:
        plugin: the plug-in that it is from.
        op: the object that its entry point refers to.
    """

    plugin: Plugin
    op: Op

    @property
    def package(self) -> str:
        """The name and version of its package."""
        return self.plugin.package

    @property
    def gpu(self) -> bool:
        """Whether it computes on a GPU."""
        return self.op.gpu

    def load(self) -> Callable[..., Any]:
        """Return its function; unexpected exceptions become errors that name the package."""
        return _guarded(self.op.function, self, results=True)

    def load_gradient(self) -> Callable[..., Any] | None:
        """Return its gradient function in the same way, if there is one."""
        return None if self.op.gradient is None else _guarded(self.op.gradient, self)


def op_names() -> list[str]:
    """Return the names of all ops, including plug-ins, without importing any."""
    return sorted({*OPS, *(one.name for one in plugins.plugins(plugins.OPS))})


def find_op(name: str) -> OpEntry | None:
    """Return the op of that name, from lod or a plug-in; None if there is none.

    Raises:
        UnsupportedError: its plug-in cannot be loaded or is invalid; names its package.

    >>> find_op("softmax").load().__name__
    'sequence_softmax'
    """
    if name in OPS:
        return OPS[name]
    found = plugins.named(plugins.OPS, name)
    return None if found is None else _loaded(found)


def working() -> tuple[list[PluginEntry], list[UnsupportedError]]:
    """Load all plug-ins; return the valid ops, and the errors of the others."""
    ops, broken = list[PluginEntry](), list[UnsupportedError]()
    for one in plugins.plugins(plugins.OPS):
        try:
            ops.append(_loaded(one))
        except UnsupportedError as error:
            broken.append(error)
    return ops, broken


def entry_of(plugin: Plugin, op: Op) -> PluginEntry:
    """Return the registry entry for an op of a plug-in.

    Raises:
        UnsupportedError: the op is invalid: see `misfit`.
    """
    why = misfit(plugin.name, op)
    if why is not None:
        raise plugin.refused(why)
    return PluginEntry(
        plugin.name,
        "",
        op.summary,
        op.equation,
        itemwise=op.itemwise,
        results=op.results,
        keeps=op.keeps,
        pools=op.pools,
        tracked=op.tracked,
        plugin=plugin,
        op=op,
    )


@cache
def _loaded(plugin: Plugin) -> PluginEntry:
    return entry_of(plugin, plugin.load())


def misfit(name: str, op: object) -> str | None:
    """Return why an object is not a valid op of the plug-in `name`; None if it is."""
    from lodcli.kernels.ops.kinds import FILES, kind_of

    if not isinstance(op, Op):
        return f"expected a lodcli.ops.Op, found {op!r}"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        return f"expected a name of small letters, digits and _, found {name!r}"
    if name in OPS:
        return "lod has an op of this name"
    for what, text in (("summary", op.summary), ("equation", op.equation)):
        if not isinstance(text, str) or not text.strip() or "\n" in text:
            return f"expected one line as its {what}, found {text!r}"
    try:
        hints = get_type_hints(op.function)
        parameters = inspect.signature(op.function).parameters
    except Exception as error:
        return f"its annotations cannot be read: {type(error).__name__}: {error}"
    kinds = {each: kind_of(hints.get(each)) for each in parameters}
    wrong = [each for each, kind in kinds.items() if kind == "unknown" and each != "out"]
    if wrong:
        return (
            f"parameter {wrong[0]} of its function: expected an annotation such as LoDTensor, int, "
            f"float, bool, str, Literal or int | str, found {hints.get(wrong[0])}"
        )
    taken = sorted(RESERVED & parameters.keys())
    if taken:
        return f"its function has a parameter {taken[0]}, which lod apply uses itself"
    files = [
        each
        for each, own in parameters.items()
        if own.default is own.empty and kinds[each] in FILES
    ]
    if (
        not files
        or next(iter(parameters)) != files[0]
        or kinds[files[0]] not in ("tensor", "tensors")
    ):
        return "the first parameter of its function must be a LoDTensor, or a Sequence of them"
    if op.itemwise and (kinds[files[0]] == "tensors" or len(files) > 1):
        return "only a function of one LoDTensor can be itemwise"
    if (get_origin(hints.get("return")) in (tuple, list)) != bool(op.results):
        return "its function must be annotated with a tuple where `results` names several, else not"
    named = (("keeps", op.keeps), ("pools", op.pools), *(("tracked", each) for each in op.tracked))
    for what, each in named:
        if each and each not in parameters:
            return f"{what}: its function has no parameter {each!r}"
    return None


def _guarded(
    function: Callable[..., Any], entry: PluginEntry, *, results: bool = False
) -> Callable[..., Any]:
    """Return a function whose unexpected exceptions become errors that name the plug-in.

    Args:
        function: of the plug-in.
        entry: the op.
        results: whether the function is the op itself, whose results are checked.
    """

    @functools.wraps(function)
    def call(*args: Any, **rest: Any) -> Any:
        if not entry.gpu:
            _refuse_gpu(entry, (*args, *rest.values()))
        try:
            found = function(*args, **rest)
        except (LodError, OSError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise entry.plugin.broken(error, "failed") from error
        if results:
            _check_results(entry, found)
        return found

    return call


def _refuse_gpu(entry: PluginEntry, values: tuple[Any, ...]) -> None:
    from lodcli.kernels.runtime.arrays import is_on_device
    from lodcli.kernels.tensor.lod_tensor import LoDTensor

    for value in values:
        for one in value if isinstance(value, list | tuple) else (value,):
            if is_on_device(one.values if isinstance(one, LoDTensor) else one):
                raise no_gpu(entry)


def no_gpu(entry: OpEntry) -> UnsupportedError:
    """Return the error for rows on a GPU given to an op that computes in main memory only."""
    return UnsupportedError(
        f"{entry.name} of {entry.package} computes in main memory only; "
        f"{to_main_memory('the rows')}"
    )


def _check_results(entry: PluginEntry, found: Any) -> None:
    from lodcli.kernels.tensor.lod_tensor import LoDTensor

    several = found if isinstance(found, tuple | list) else (found,)
    wrong = [type(one).__name__ for one in several if not isinstance(one, LoDTensor)]
    if wrong:
        error = TypeError(f"expected a LoDTensor as its result, found {wrong[0]}")
        raise entry.plugin.broken(error, "failed")
    if isinstance(found, tuple | list) != bool(entry.results) or len(several) != max(
        1, len(entry.results)
    ):
        wanted = ", ".join(entry.results) or "one"
        error = TypeError(f"expected as results: {wanted}; found {len(several)}")
        raise entry.plugin.broken(error, "failed")
