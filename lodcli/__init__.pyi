# The public names, and where each lives: type checkers read this, and so does __init__.py.
from lodcli.formats.core.errors import DamagedFileError as DamagedFileError
from lodcli.formats.core.errors import NotThisFormatError as NotThisFormatError
from lodcli.formats.core.io import open_source as open
from lodcli.formats.core.io import read as read
from lodcli.formats.core.io import read_all as read_all
from lodcli.formats.core.io import write as write
from lodcli.formats.core.schema import StoredArray as StoredArray
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
from lodcli.kernels.tensor.tensor_array import TensorArray as TensorArray
from lodcli.kernels.tensor.time_steps import IndexMap as IndexMap

__version__: str
# A name that differs from the one it is imported by must be listed; the others need not.
__all__ = ["open"]
