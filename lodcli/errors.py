"""All public errors; each derives from LodError."""

from __future__ import annotations

from lodcli.kernels.lazy_names import by_module, lazy_names

_HOMES = by_module(
    {
        "lodcli.formats.core.errors": (
            "DamagedFileError NotThisFormatError ProducerFailedError TooLargeError"
        ),
        "lodcli.formats.storage.output_set": "TooManyFilesError",
        "lodcli.formats.storage.outputs": "MissingFolderError TargetExistsError",
        "lodcli.formats.storage.set_commit": "UnfinishedError",
        "lodcli.formats.storage.sums": "NoSumsError",
        "lodcli.kernels.errors": (
            "EmptySequenceError InvalidDataError InvalidLoDError LaunchRefusedError LodError "
            "NotDefinedError NotFloatingError NullError OptionError SelectionError "
            "ShapeMismatchError UnsupportedError"
        ),
        "lodcli.kernels.native.cache": "NotBuiltError",
        "lodcli.kernels.native.linking.library": "LibraryError",
        "lodcli.kernels.native.load": "NativeUnavailableError",
    }
)
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, lambda: _HOMES)
