"""The dtypes of rows, by NumPy's names."""

INTEGERS = frozenset(f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64))
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
COMPLEX = frozenset({"complex64", "complex128"})
# What files can hold and every op is tested with; complex numbers count each part.
ALL_DTYPES = frozenset({"bool"}) | INTEGERS | FLOATS | COMPLEX
