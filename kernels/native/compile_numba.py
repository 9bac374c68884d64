"""Compiles kernels to object files: numba to LLVM IR, LLVM to machine code.

Numba by default optimises and emits every function separately, and again where it is inlined. Here
a kernel and everything it calls are linked into one module first, which is then optimised once, by
the passes of numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numpy as np
from numba import types
from numba.core import codegen, compiler, dispatcher, registry
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu_options import FastMathOptions
from numba.np.numpy_support import from_dtype

from lodcli.kernels.native.declare import Declared, Group, Parameter, flat
from lodcli.kernels.native.language_numba import CHECKED, PointerType
from lodcli.kernels.native.linking.library import RAISED
from lodcli.kernels.native.processor import Level
from lodcli.kernels.native.target import compile_for

_SYMBOL_PREFIX = "lod."
_RAISES = "lod.raises"  # placeholder for forbidden calls; never linked
# C library functions that kernels may call. Any other undefined symbol belongs to numba or CPython,
# which are not available at run time.
_MATHS = ("exp", "log", "log1p", "expm1", "pow", "tanh", "sin", "cos", "tan", "fmod", "sqrt")
CALLED = frozenset(
    (
        *_MATHS,
        *(f"{name}f" for name in _MATHS),
        *("memcpy", "memmove", "memset", "memcmp"),
        *("syscall", "clock_gettime", "sched_yield", "sched_getcpu"),
        *("sched_getaffinity", "sched_setaffinity"),
    )
)
# numba.core is only partly annotated.
_codegen: Any = codegen
_cpu_target: Any = registry.cpu_target
_dispatcher: Any = dispatcher
_compiler: Any = compiler


class _Library(_codegen.CPUCodeLibrary):  # type: ignore[misc]
    """Unoptimised code of one function and its callees."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_specific(self) -> None:
        pass


class _Codegen(_codegen.AOTCPUCodegen):  # type: ignore[misc]
    _library_class = _Library


class CompileError(TypeError):
    """Raised when a kernel uses something that kernels must not; the message says what."""


def symbol_of(module: str, name: str, build: tuple[str, ...]) -> str:
    """Return the symbol of a kernel's entry point, unique among all object files."""
    return ".".join([_SYMBOL_PREFIX + module, name, *build])


class Compiler:
    """Compiles kernels for one processor level.

    It changes numba's global state: a process that created one cannot run other numba code.
    """

    def __init__(self, level: Level) -> None:
        compile_for(level)
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        self._level = level
        self._machine = _target_machine(level)
        # Numba would reuse code compiled elsewhere, and cache this code.
        _dispatcher.Dispatcher.enable_caching = lambda self: None
        self._typing, self._target = _cpu_target.typing_context, _cpu_target.target_context
        self._target._internal_codegen = _Codegen("lod")
        # Nothing runs here. Numba requires a builtin, and a new one each time.
        self._target.get_executable = lambda *_: [].append

    @global_compiler_lock  # type: ignore[untyped-decorator]
    def compile(self, declared: Declared, build: tuple[str, ...]) -> bytes:
        """Return the object file of a kernel for the given dtypes of its type variables."""
        module = self.optimised(declared, build, symbol_of(declared.module, declared.name, build))
        code: bytes = self._machine.emit_object(module)
        return code

    def optimised(self, declared: Declared, build: tuple[str, ...], symbol: str) -> Any:
        """Return the LLVM module of a kernel, with all symbols but the entry point internal."""
        module = self._lowered(declared, build, symbol)
        for each in [*module.functions, *module.global_variables]:
            if not each.is_declaration and each.name != symbol:
                each.linkage = llvm.Linkage.internal
        module.triple = self._level.triple
        module.data_layout = str(self._machine.target_data)
        _optimise(module, self._machine)
        _require_plain(module, symbol)
        return module

    def _lowered(self, declared: Declared, build: tuple[str, ...], symbol: str) -> Any:
        """Return numba's code for a kernel and its callees, with an entry point."""
        chosen = dict(zip(declared.variables, build, strict=True))
        arguments = [_numba_type(each, chosen) for each in declared.parameters]
        if declared.ranged:
            arguments += [types.int64, types.int64]
        flags = _compiler.Flags()
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        flags.nrt = False
        flags.release_gil = True
        flags.error_model = "numpy"
        flags.boundscheck = CHECKED
        flags.fastmath = FastMathOptions(set(declared.fastmath) or False)
        made = _compiler.compile_extra(
            self._typing, self._target, declared.function, tuple(arguments), types.int64,
            flags, locals={},
        )  # fmt: skip
        made.library._ensure_finalized()
        module = made.library._final_module.clone()
        entry = llvm.parse_assembly(_entry(declared, chosen, made.fndesc.llvm_func_name, symbol))
        entry.data_layout, entry.triple = module.data_layout, module.triple
        module.link_in(entry)
        return module


def _require_plain(module: Any, symbol: str) -> None:
    """Raise CompileError if a kernel calls functions missing at run time, or may raise."""
    outside = {each.name for each in module.functions if each.is_declaration}
    # The entry point calls it, unless LLVM proves that nothing raises.
    if _RAISES in outside and not CHECKED:
        raise CompileError(
            f"kernel {symbol}: may raise an exception; it has to return a status instead"
        )
    odd = sorted(name for name in outside - CALLED if not name.startswith("llvm."))
    if odd:
        raise CompileError(
            f"kernel {symbol}: calls {', '.join(odd)}: kernels make no arrays, lists or texts, "
            "and assign no slices"
        )


def _target_machine(level: Level) -> Any:
    return llvm.Target.from_triple(level.triple).create_target_machine(
        cpu=level.cpu, features=",".join(level.features), opt=3, reloc="pic", codemodel="small"
    )


def _optimise(module: Any, machine: Any) -> None:
    """Run numba's passes on the code of a function."""
    cheap = llvm.create_pipeline_tuning_options(speed_level=0)
    cheap.loop_vectorization = cheap.slp_vectorization = False
    first = llvm.create_pass_builder(machine, cheap)
    passes = first.getModulePassManager()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_jump_threading_pass()
    passes.run(module, first)
    # Checked kernels are only for tests: higher optimisation levels would dominate the compile
    # time.
    full = llvm.create_pipeline_tuning_options(speed_level=1 if CHECKED else 3)
    full.loop_vectorization, full.slp_vectorization = True, False
    second = llvm.create_pass_builder(machine, full)
    second.getModulePassManager().run(module, second)
    if any(each.name == _RAISES for each in module.functions):
        # LLVM proves that a large function never raises only after its callers are optimised.
        passes = first.getModulePassManager()
        passes.add_ipsccp_pass()
        passes.add_simplify_cfg_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_strip_dead_prototype_pass()
        passes.run(module, first)


def _element(name: str, chosen: dict[str, str]) -> Any:
    return from_dtype(np.dtype(chosen.get(name, name)))


def _numba_type(parameter: Parameter | Group, chosen: dict[str, str]) -> Any:
    if isinstance(parameter, Group):
        fields = [_numba_type(each, chosen) for each in parameter.fields]
        return types.BaseTuple.from_types(fields, parameter.structure)
    if parameter.kind == "p":
        return PointerType(_element(parameter.element, chosen))
    if parameter.kind == "t":
        return types.NumberClass(_element(parameter.element, chosen))
    return {"a": types.int64, "q": types.int64, "b": types.boolean, "d": types.float64}[
        parameter.kind
    ]


def _entry(declared: Declared, chosen: dict[str, str], native: str, symbol: str) -> str:
    """Return LLVM code of the entry point: int64 (address of the arguments, first, last).

    Arguments are consecutive 8-byte words. It returns the kernel's result.
    """
    loads, passed = list(_loads(declared)), ["ptr %returned", "ptr %raised"]
    lines = []
    for number, (load, how) in enumerate(loads):
        lines += [line.replace("$", str(number)) for line in load]
        passed.append(how.replace("$", str(number)))
    if declared.ranged:
        passed += ["i64 %first", "i64 %last"]
    kinds = ", ".join(each.split(" ")[0] for each in passed)
    body = "\n  ".join(lines)
    raises = "" if CHECKED else f"call void @{_RAISES}()"
    return f"""
declare void @{_RAISES}()
declare i32 @"{native}"({kinds})
define i64 @"{symbol}"(i64 %arguments, i64 %first, i64 %last) {{
  %returned = alloca i64
  %raised = alloca ptr
  store i64 0, ptr %returned
  store ptr null, ptr %raised
  %words = inttoptr i64 %arguments to ptr
  {body}
  %status = call i32 @"{native}"({", ".join(passed)})
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %returns, label %raises
raises:
  {raises}
  ret i64 {RAISED}
returns:
  %value = load i64, ptr %returned
  ret i64 %value
}}
"""


def _loads(declared: Declared) -> Iterator[tuple[list[str], str]]:
    """Yield the code that loads each argument, with $ for its number, and the form in which it is
    passed."""
    word = 0
    for each in flat(declared.parameters):
        if each.kind == "t":
            yield [], "ptr null"
            continue
        if each.kind == "a":
            yield [], "i64 %arguments"
            continue
        place = f"%at$ = getelementptr i64, ptr %words, i64 {word}"
        word += 1
        if each.kind == "d":
            yield [place, "%v$ = load double, ptr %at$"], "double %v$"
        elif each.kind == "q":
            yield [place, "%v$ = load i64, ptr %at$"], "i64 %v$"
        elif each.kind == "b":
            load = "%w$ = load i64, ptr %at$"
            yield [place, load, "%t$ = icmp ne i64 %w$, 0", "%v$ = zext i1 %t$ to i8"], "i8 %v$"
        else:
            yield [place, "%v$ = load ptr, ptr %at$"], "ptr %v$"
            if CHECKED:
                count = f"%at$ = getelementptr i64, ptr %words, i64 {word}"
                word += 1
                yield [count, "%v$ = load i64, ptr %at$"], "i64 %v$"
