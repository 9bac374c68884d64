"""The dtypes of rows, by NumPy's names."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lodcli.kernels.errors import OptionError
from lodcli.kernels.suggestions import or_near

# Imported only when a dtype is used: --help does not need it.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

INTEGERS = frozenset(f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64))
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
COMPLEX = frozenset({"complex64", "complex128"})
# The dtypes that files can hold, with which every op is tested.
ALL_DTYPES = frozenset({"bool"}) | INTEGERS | FLOATS | COMPLEX


def dtype_of_rows(given: npt.DTypeLike) -> np.dtype[Any]:
    """Return a dtype of rows, in native byte order; also that of "bfloat16".

    Raises:
        OptionError: the dtype is not one of ALL_DTYPES.

    >>> dtype_of_rows(">f4")
    dtype('float32')
    """
    import numpy as np

    dtype: np.dtype[Any] | None
    try:
        if isinstance(given, str) and given == "bfloat16":
            import ml_dtypes

            given = ml_dtypes.bfloat16
        dtype = np.dtype(given)
    except (TypeError, ValueError):
        dtype = None
    # NumPy takes long to compute the names of dtypes.
    if dtype is None or (dtype.char not in "?bBhHiIlLqQefdFD" and dtype.name not in ALL_DTYPES):
        raise OptionError(
            f"dtype: no dtype {given!r}; there are: {', '.join(sorted(ALL_DTYPES))}"
            f"{or_near(given, ALL_DTYPES)}"
        )
    return dtype if dtype.isnative else dtype.newbyteorder("=")


@lru_cache(64)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, from a cache: NumPy takes 3 us to compute one.

    >>> import numpy as np
    >>> dtype_name(np.dtype(">i8"))
    'int64'
    """
    return str(dtype.name)


def has_nan(dtype: np.dtype[Any]) -> bool:
    """Return whether values of this dtype may be nan: floats and complex numbers."""
    return dtype.kind == "c" or is_float(dtype)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether this is a real floating-point dtype, such as bfloat16."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype_name(dtype) == "bfloat16")
