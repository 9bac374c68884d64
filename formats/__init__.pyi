# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from lodcli.formats.arrays.in_memory import MemorySource as MemorySource
from lodcli.formats.catalogue.description import FormatInfo as FormatInfo
from lodcli.formats.catalogue.description import formats as formats
from lodcli.formats.catalogue.packages import Package as Package
from lodcli.formats.core.format import Format as Format
from lodcli.formats.core.format import Source as Source
from lodcli.formats.core.format import joined as joined
from lodcli.formats.core.limits import Limits as Limits
from lodcli.formats.core.options import ReadKeywords as ReadKeywords
from lodcli.formats.core.options import ReadOptions as ReadOptions
from lodcli.formats.core.options import WriteKeywords as WriteKeywords
from lodcli.formats.core.options import WriteOptions as WriteOptions
from lodcli.formats.core.schema import Batch as Batch
from lodcli.formats.core.schema import Item as Item
from lodcli.formats.core.schema import LevelSpec as LevelSpec
from lodcli.formats.core.schema import Schema as Schema
from lodcli.formats.core.schema import StoredArray as StoredArray
from lodcli.formats.core.schema import TensorSpec as TensorSpec
from lodcli.formats.loading.file import File as File
from lodcli.formats.loading.stored_tensor import StoredTensor as StoredTensor
from lodcli.formats.storage.inputs import Input as Input
from lodcli.formats.storage.outputs import Output as Output

__all__ = [
    "Batch",
    "File",
    "Format",
    "FormatInfo",
    "Input",
    "Item",
    "LevelSpec",
    "Limits",
    "MemorySource",
    "Output",
    "Package",
    "ReadKeywords",
    "ReadOptions",
    "Schema",
    "Source",
    "StoredArray",
    "StoredTensor",
    "TensorSpec",
    "WriteKeywords",
    "WriteOptions",
    "formats",
    "joined",
]
