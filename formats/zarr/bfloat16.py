"""bfloat16 in Zarr, which the zarr package does not know: read as its bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import ml_dtypes
import numpy as np
from zarr.dtype import DataTypeValidationError, UInt16, data_type_registry

NAME = "bfloat16"
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Bits(UInt16):
    """bfloat16 as other programs write it; zarr decodes it as uint16."""

    _zarr_v3_name: ClassVar[Any] = NAME
    _zarr_v2_names: ClassVar[Any] = (NAME,)

    @classmethod
    def from_native_dtype(cls, dtype: Any) -> Self:
        """See zarr. An array of uint16 is not stored as this."""
        raise DataTypeValidationError(f"{dtype} is not {NAME}")

    @classmethod
    def _from_json_v2(cls, data: Any) -> Self:
        if cls._check_json_v2(data):
            return cls()
        raise DataTypeValidationError(f"{data} is not {NAME}")

    def from_json_scalar(self, data: Any, *, zarr_format: int) -> Any:
        """Return the bits of a fill value: a number, "NaN", "Infinity" or "0x7fc0"."""
        if isinstance(data, str) and data.startswith("0x"):
            return np.uint16(int(data, 16))
        return np.array(float(data)).astype(BFLOAT16).view(np.uint16)[()]


data_type_registry.register(NAME, Bits)
