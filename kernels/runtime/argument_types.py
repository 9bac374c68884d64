"""Error messages for arguments whose type differs from the annotation of a function.

NumPy numbers are converted to Python numbers, and other values than booleans are an error where a
boolean is expected. Nothing else is checked before a call. Only if the function fails, the types
of its arguments are checked, and their sizes if NumPy or C reports a number that is too large.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, update_wrapper
from itertools import islice
from pathlib import PurePath
from types import FunctionType, NoneType, UnionType
from typing import (
    Any,
    Literal,
    NoReturn,
    Self,
    SupportsIndex,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from lodcli.kernels.errors import InvalidDataError, LodError, OptionError
from lodcli.kernels.runtime.forwarding import forwarding

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_NUMBERS: dict[type, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
}
# Origins of annotations of several items.
SEQUENCES = (get_origin(Sequence[int]), get_origin(Iterable[int]), list, tuple)
# Advice for the message, by the name of the expected class.
_REMEDIES = {
    "LoDTensor": "lodcli.LoDTensor(rows, lengths) makes one",
    "LoD": "lodcli.LoD.from_lengths(lengths) makes one",
    "TensorArray": "lodcli.TensorArray(values=..) makes one",
    "IndexMap": "lodcli.TensorArray.unpack(tensor) returns one",
    "RNNWeights": "lodcli.rnn.seeded_weights or read_weights returns them",
    "StackTape": "stack_forward(.., keep=True) records one",
    "RNNTape": "rnn_forward(.., keep=True) records one",
    "NestedTape": "nested_forward(.., keep=True) records one",
    "Generator": "numpy.random.default_rng(seed) makes one",
}
_WORDS = {
    "ndarray": "array",
    "SupportsIndex": "int",
    "Callable": "function",
    "Mapping": "dict",
    "HasIndex": "LoDTensor",
}
# Messages of NumPy for sizes that no array can have; C code raises OverflowError.
_TOO_LARGE = ("array is too big", "Maximum allowed", "must be of integral type")
_LARGE = 1 << 31
# An array may have so many items that checking all of them takes seconds.
_CHECKED_ITEMS = 1 << 10
_BODY = """
    try:{plain}
        return _function({{passed}})
    except Exception as error:
        _explain(error, {{values}})
        raise
"""
_PLAIN = """
        if type({name}) is not {kind} and {name} is not None and type({name}) is not int:
            {name} = _plain_{kind}({name})"""


def types_explained(function: F) -> F:
    """Return the function with errors that name an argument of the wrong type, if it fails.

    For parameters of type int, bool or float, NumPy numbers and 0-dimensional arrays are converted
    to Python numbers: an int8 would overflow, and a kernel would be passed the address of an array.

    Raises:
        InvalidDataError: an argument does not have the annotated type. Other errors of lod are
            passed on.
        OptionError: a number is too large for the size of an array, or for 64 bits.

    >>> @types_explained
    ... def halved(number: float) -> float:
    ...     return number / 2
    >>> halved("4")
    Traceback (most recent call last):
    lodcli.kernels.errors.InvalidDataError: halved: number: expected a float, found '4'
    """
    assert isinstance(function, FunctionType)
    plain = "".join(
        _PLAIN.format(name=name, kind=kind)
        for name, hint in function.__annotations__.items()
        if name != "return" and (kind := str(hint).removesuffix(" | None")) in _PLAIN_KINDS
    )
    call: F = forwarding(
        function,
        _BODY.format(plain=plain),
        _function=function,
        _explain=_explainer(function),
        **{f"_plain_{kind}": convert for kind, convert in _PLAIN_KINDS.items()},
    )
    update_wrapper(call, function)
    return call


def _plain_int(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("an array of several numbers")
    try:
        return operator.index(value)
    except TypeError:
        return value


def _plain_bool(value: Any) -> Any:
    scalar = isinstance(value, np.ndarray) and not value.ndim and value.dtype.kind == "b"
    if not scalar and not isinstance(value, np.bool_ | np.integer):
        raise TypeError("no boolean")  # "no" would count as true
    return bool(value)


def _plain_float(value: Any) -> Any:
    number = isinstance(value, np.generic | np.ndarray) and not value.ndim
    return value.item() if number and value.dtype.kind in "iuf" else value


_PLAIN_KINDS = {"int": _plain_int, "bool": _plain_bool, "float": _plain_float}


def construction_explained(kind: type[T]) -> type[T]:
    """Return the class, a dataclass, with a constructor that is `types_explained`.

    >>> from dataclasses import dataclass
    >>> @construction_explained
    ... @dataclass(frozen=True)
    ... class Half:
    ...     of: float
    ...
    ...     def __post_init__(self) -> None:
    ...         self.of / 2
    >>> Half("4")
    Traceback (most recent call last):
    lodcli.kernels.errors.InvalidDataError: Half: of: expected a float, found '4'
    """
    setattr(kind, "__init__", types_explained(kind.__init__))  # noqa: B010 - mypy allows no other
    return kind


class CheckedFields:
    """Base of dataclasses whose fields are used only later: the constructor checks their types.

    Raises:
        InvalidDataError: a field does not have the annotated type.
    """

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, hint, plain in _field_types(kind):
            value = getattr(self, name)
            if type(value) not in plain and not _fits(value, hint):
                _refuse(f"{kind.__name__}: {name}", value, hint)


@cache
def _field_types(kind: Any) -> tuple[tuple[str, Any, frozenset[Any]], ...]:
    """Return the name and the type of each field, and classes that certainly fit."""
    hints = get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        one_of = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        found.append((field.name, hint, frozenset({get_origin(one) or one for one in one_of})))
    return tuple(found)


def _explainer(function: FunctionType) -> Callable[..., None]:
    called = function.__qualname__.removesuffix(".__init__")

    def explain(error: Exception, *values: Any) -> None:
        hints = get_type_hints(function)
        given = dict(zip(inspect.signature(function).parameters, values, strict=True))
        named = called
        if "." in called and (owner := given.get("cls", type(given.get("self")))) is not NoneType:
            named = f"{owner.__name__}.{function.__name__}"  # may be defined in a base class
        for name, value in given.items():
            hint = hints.get(name, Any)
            if hint is Self:
                hint = type(values[0])
            if (not isinstance(error, LodError) or _is_ours(hint)) and not _fits(value, hint):
                _refuse(f"{named}: {name}", value, hint)
        if isinstance(error, OverflowError) or any(said in str(error) for said in _TOO_LARGE):
            _refuse_largest(named, given)

    return explain


def _refuse_largest(called: str, given: Mapping[str, Any]) -> None:
    """Raise OptionError for the largest number among the arguments if it is at least _LARGE."""
    numbers = [
        (abs(each), each, name)
        for name, value in given.items()
        for each in (value if isinstance(value, list | tuple) else (value,))
        if type(each) is int
    ]
    size, number, name = max(numbers, default=(0, 0, ""))
    if size >= _LARGE:
        raise OptionError(
            f"{called}: {name}: {number} is out of range: no array holds as many values"
        ) from None


def _refuse(what: str, value: Any, hint: Any) -> NoReturn:
    """Raise InvalidDataError for an argument that is not of this type."""
    for each in value if isinstance(value, list | tuple) and _is_sequence(hint) else ():
        if not _fits(each, get_args(hint)[0]):
            value, hint = each, get_args(hint)[0]
            what += ", an item"
            break
    remedies = [_REMEDIES[one] for one in map(_name, _members(hint)) if one in _REMEDIES]
    if isinstance(value, str | PurePath) and "LoDTensor" in map(_name, _members(hint)):
        remedies = ["lodcli.read(path) returns one"]
    if type(value).__name__ == "StoredTensor":  # of an open file
        remedies = ["its read() returns one"]
    advice = f"; {remedies[0]}" if remedies else ""
    shown = repr(value) if isinstance(value, str) and len(value) < 40 else type(value).__name__
    found = "None" if value is None else shown
    raise InvalidDataError(f"{what}: expected {_described(hint)}, found {found}{advice}") from None


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value fits an annotated type; checks only its class and its items."""
    hint = resolved(hint)
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(hint))
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint]) and (hint is bool or not isinstance(value, bool))
    if hint is SupportsIndex:
        return isinstance(value, bool) or _is_index(value)
    if origin is Mapping:
        return isinstance(value, Mapping)
    if origin is Callable:
        return callable(value)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__")
    if origin in SEQUENCES:
        (item, *rest) = get_args(hint)
        if isinstance(value, list | tuple):
            each_differs = origin is tuple and rest != [...]
            return each_differs or all(_fits(each, item) for each in value)
        is_array = hasattr(value, "dtype")
        no_list = is_array and (_is_ours(item) or not getattr(value, "ndim", 1))
        wrong = isinstance(value, str | bytes) or no_list
        if origin is get_origin(Iterable[int]):
            return isinstance(value, Iterable) and not wrong
        # An iterator is not a sequence: it has no length. Nor are sets, dicts and their views.
        wrong = wrong or isinstance(value, Mapping) or not hasattr(value, "__getitem__")
        if wrong or not isinstance(value, Collection):
            return False
        items = islice(value, _CHECKED_ITEMS)
        if is_array and not isinstance(value, np.ndarray):
            # Tensors and arrays of other libraries have items of their own types.
            return item is not int or all(map(_is_index, items))
        return all(_fits(each, item) for each in items)
    if getattr(hint, "_is_protocol", False):
        named = (*vars(hint), *getattr(hint, "__annotations__", ()))
        own = [name for name in named if not name.startswith("_")]
        return not _is_ours(hint) or all(hasattr(value, name) for name in own)
    kind = origin if origin is not None and _is_ours(hint) else hint  # a generic class of ours
    return not isinstance(kind, type) or isinstance(value, kind)


def whole(value: Any) -> int:
    """Return a whole number of any type as an int.

    Raises:
        TypeError: it is not a whole number, or is a boolean, also one of NumPy or torch.
    """
    if isinstance(value, bool) or "bool" in str(getattr(value, "dtype", "")):
        raise TypeError("a boolean")
    return operator.index(value)


def _is_index(value: Any) -> bool:
    try:
        whole(value)
    except Exception:  # what other libraries raise, also for an array of one float
        return False
    return True


def _is_ours(hint: Any) -> bool:
    """Return whether a hint names only classes of lodcli."""
    modules = [getattr(one, "__module__", "") for one in _members(hint) if one is not NoneType]
    return all(module.startswith("lodcli.") for module in modules)


def _members(hint: Any) -> Iterator[Any]:
    """Yield the types of a union and those of the items of a sequence, or the type alone."""
    hint = resolved(hint)
    if get_origin(hint) in (Union, UnionType) or _is_sequence(hint):
        for one in get_args(hint):
            yield from _members(one)
    else:
        yield hint


def _is_sequence(hint: Any) -> bool:
    return get_origin(resolved(hint)) in SEQUENCES


def resolved(hint: Any) -> Any:
    """Return the type behind a `type` alias, which NumPy uses from 2.5 on, or a type variable."""
    if isinstance(hint, TypeVar):
        hint = hint.__bound__ or Any
    while hasattr(hint, "__value__"):
        hint = hint.__value__
    return hint


def _name(hint: Any) -> str:
    return getattr(get_origin(hint) or hint, "__name__", str(hint))


def _described(hint: Any) -> str:
    """Return a type in words."""
    hint = resolved(hint)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_described, get_args(hint))))
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if hint is NoneType:
        return "None"
    if _is_sequence(hint):
        item = resolved(get_args(hint)[0])
        while get_origin(item) in (Union, UnionType):
            item = resolved(get_args(item)[0])
        # NumPy's ArrayLike begins with Buffer, a protocol or, from Python 3.12 on, a class.
        if item is Any or getattr(item, "_is_protocol", False) or _name(item) == "Buffer":
            return "a sequence"
        return f"a sequence of {_name(item)}"
    name = _WORDS.get(_name(hint), _name(hint))
    # "RNN" and "LSTM" are spoken letter by letter.
    vowel = name[0] in "aeiouAEIO" or (name[:2].isupper() and name[0] in "FLMNRSX")
    return f"{'an' if vowel else 'a'} {name}"
