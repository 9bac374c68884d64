# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from lodcli.formats.core.errors import DamagedFileError as DamagedFileError
from lodcli.formats.core.errors import NotThisFormatError as NotThisFormatError
from lodcli.formats.core.errors import ProducerFailedError as ProducerFailedError
from lodcli.formats.core.errors import TooLargeError as TooLargeError
from lodcli.formats.storage.output_set import TooManyFilesError as TooManyFilesError
from lodcli.formats.storage.outputs import MissingFolderError as MissingFolderError
from lodcli.formats.storage.outputs import TargetExistsError as TargetExistsError
from lodcli.formats.storage.set_commit import UnfinishedError as UnfinishedError
from lodcli.formats.storage.sums import NoSumsError as NoSumsError
from lodcli.kernels.errors import EmptySequenceError as EmptySequenceError
from lodcli.kernels.errors import InvalidDataError as InvalidDataError
from lodcli.kernels.errors import InvalidLoDError as InvalidLoDError
from lodcli.kernels.errors import LaunchRefusedError as LaunchRefusedError
from lodcli.kernels.errors import LodError as LodError
from lodcli.kernels.errors import NotDefinedError as NotDefinedError
from lodcli.kernels.errors import NotFloatingError as NotFloatingError
from lodcli.kernels.errors import NullError as NullError
from lodcli.kernels.errors import OptionError as OptionError
from lodcli.kernels.errors import SelectionError as SelectionError
from lodcli.kernels.errors import ShapeMismatchError as ShapeMismatchError
from lodcli.kernels.errors import UnsupportedError as UnsupportedError
from lodcli.kernels.native.cache import NotBuiltError as NotBuiltError
from lodcli.kernels.native.linking.library import LibraryError as LibraryError
from lodcli.kernels.native.load import NativeUnavailableError as NativeUnavailableError

__all__ = [
    "DamagedFileError",
    "EmptySequenceError",
    "InvalidDataError",
    "InvalidLoDError",
    "LaunchRefusedError",
    "LibraryError",
    "LodError",
    "MissingFolderError",
    "NativeUnavailableError",
    "NoSumsError",
    "NotBuiltError",
    "NotDefinedError",
    "NotFloatingError",
    "NotThisFormatError",
    "NullError",
    "OptionError",
    "ProducerFailedError",
    "SelectionError",
    "ShapeMismatchError",
    "TargetExistsError",
    "TooLargeError",
    "TooManyFilesError",
    "UnfinishedError",
    "UnsupportedError",
]
