# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from lodcli import dask as dask
from lodcli import errors as errors
from lodcli import formats as formats
from lodcli import ops as ops
from lodcli import rnn as rnn
from lodcli import testing as testing
from lodcli import torch as torch
from lodcli.formats.core.errors import DamagedFileError as DamagedFileError
from lodcli.formats.core.errors import NotThisFormatError as NotThisFormatError
from lodcli.formats.core.io import read as read
from lodcli.formats.core.io import read_all as read_all
from lodcli.formats.core.io import write as write
from lodcli.formats.core.schema import StoredArray as StoredArray
from lodcli.formats.loading.file import open_source as _open_source
from lodcli.formats.storage.outputs import TargetExistsError as TargetExistsError
from lodcli.kernels.errors import EmptySequenceError as EmptySequenceError
from lodcli.kernels.errors import InvalidDataError as InvalidDataError
from lodcli.kernels.errors import InvalidLoDError as InvalidLoDError
from lodcli.kernels.errors import LodError as LodError
from lodcli.kernels.errors import SelectionError as SelectionError
from lodcli.kernels.errors import ShapeMismatchError as ShapeMismatchError
from lodcli.kernels.errors import UnsupportedError as UnsupportedError
from lodcli.kernels.index.lod import LoD as LoD
from lodcli.kernels.rnn.loops.dynamic_rnn import DynamicRNN as DynamicRNN
from lodcli.kernels.rnn.loops.while_loop import Var as Var
from lodcli.kernels.rnn.loops.while_loop import while_loop as while_loop
from lodcli.kernels.runtime.precision import float32_products as float32_products
from lodcli.kernels.tensor.lod_tensor import LoDTensor as LoDTensor
from lodcli.kernels.tensor.marks import Categories as Categories
from lodcli.kernels.tensor.marks import Decimals as Decimals
from lodcli.kernels.tensor.marks import Marks as Marks
from lodcli.kernels.tensor.marks import Times as Times
from lodcli.kernels.tensor.nulls import Nulls as Nulls
from lodcli.kernels.tensor.plot import plot as plot
from lodcli.kernels.tensor.tensor_array import TensorArray as TensorArray
from lodcli.kernels.tensor.time_steps import IndexMap as IndexMap

open = _open_source

__version__: str

__all__ = [
    "Categories",
    "DamagedFileError",
    "Decimals",
    "DynamicRNN",
    "EmptySequenceError",
    "IndexMap",
    "InvalidDataError",
    "InvalidLoDError",
    "LoD",
    "LoDTensor",
    "LodError",
    "Marks",
    "NotThisFormatError",
    "Nulls",
    "SelectionError",
    "ShapeMismatchError",
    "StoredArray",
    "TargetExistsError",
    "TensorArray",
    "Times",
    "UnsupportedError",
    "Var",
    "__version__",
    "errors",
    "float32_products",
    "formats",
    "ops",
    "plot",
    "read",
    "read_all",
    "rnn",
    "testing",
    "while_loop",
    "write",
]
