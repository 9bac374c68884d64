"""torch: tensors in a .pt file, as `torch.save` writes it, read with weights_only=True."""

from __future__ import annotations

import importlib
import logging
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from lodcli.formats.base import ALL_DTYPES, Format, ReadOptions, Source, WriteOptions, joined
from lodcli.formats.errors import DamagedFileError, NotThisFormatError, naming
from lodcli.formats.flat import FLAT_OPTIONS, FLAT_WRITE_OPTIONS
from lodcli.formats.inputs import Input
from lodcli.formats.npz_members import COPY_BYTES
from lodcli.formats.outputs import Output
from lodcli.formats.schema import Batch, Schema
from lodcli.formats.sink import Sink
from lodcli.formats.zip_archive import damage, first_name, open_archive, shown
from lodcli.kernels.errors import SelectionError, UnsupportedError

FORMS = ("nested", "packed", "padded", "list", "flat")
MOST_PICKLE_BYTES = 256 << 20
# What torch.save of 1.0 to 1.5 begins with, and a bare pickle.
OLD = (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", b"\x80\x02", b"\x80\x03", b"\x80\x04")
# All that a pickle of tensors and of the containers read here refers to. torch's own list,
# which weights_only takes, is longer: it holds what can be made to allocate at will.
_CALLED = re.compile(
    r"torch\._utils _rebuild_(tensor_v2|tensor_v3|parameter|nested_tensor)"
    r"|torch\._tensor _rebuild_from_type_v2"
    r"|torch\.nested\._internal\.nested_tensor (_rebuild_njt|NestedTensor)"
    r"|torch\._dynamo\.decorators _DimRange"
    r"|torch\.nn\.utils\.rnn PackedSequence"
    r"|torch\.storage (UntypedStorage|TypedStorage)"
    r"|torch (Tensor|Size|[A-Z][A-Za-z0-9]*Storage|u?int\d+|bfloat16|float\w+|complex\d+|bool)"
    r"|torch\.nn\.parameter Parameter"
    r"|(__builtin__|builtins) set"
    r"|collections OrderedDict"
)


class Torch(Format):
    """What `torch.save` wrote of tensors, and of lists, tuples and dicts of them.

    Reading: a jagged nested tensor, a list of tensors, or a padded tensor with its lengths is
    a tensor of one level, a list of lists of more; a PackedSequence is a TensorArray; a dict
    is several tensors, its plain ones named as in npz. Both ways all is in memory.
    """

    name = "torch"
    suffixes = (".pt", ".pth")
    dtypes = ALL_DTYPES
    many = True
    arrays = True
    options = FLAT_OPTIONS
    write_options = FLAT_WRITE_OPTIONS | {"form"}
    modules = (
        "lodcli.formats.memory",
        "lodcli.formats.torch_values",
        "torch",
        "torch.nested._internal.nested_tensor",
        "torch._dynamo",
        "torch.nested._internal.ops",
        "torch.nested._internal.sdpa",
        "torch.utils.serialization.config",
        "encodings.cp437",
    )

    def sniff(self, head: bytes) -> bool:
        return first_name(head).endswith(b"/data.pkl")

    def open(self, source: Input, options: ReadOptions) -> Source:
        file = source.make_seekable()
        loaded = load(file)
        from lodcli.formats.memory import MemorySource
        from lodcli.formats.torch_values import items_of

        with silent():
            items = items_of(
                loaded.value,
                options,
                most_bytes=source.bounds.growth(file.seek(0, 2)),
                pickle_bytes=loaded.pickle_bytes,
            )
        return MemorySource(items)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        if options.form is not None and options.form not in FORMS:
            raise SelectionError(f"no form {options.form!r}; there are: {', '.join(FORMS)}")
        torch()
        from lodcli.formats.torch_forms import value_of

        with silent():
            value = value_of(schema, joined(schema, batches), options)
        save(value, output)


def save(value: object, output: Output) -> None:
    """Write any value of tensors, lists and dicts."""
    package = torch()
    sink = Sink(output)
    with silent(), sink.raising():
        package.save(value, sink)


@contextmanager
def silent() -> Iterator[None]:
    """Keep torch's warnings of its own prototypes to itself: nobody here can act on them."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def torch() -> Any:
    """Return the package.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import torch as package
    except ImportError:
        raise UnsupportedError(".pt files need the package torch; install lodcli[torch]") from None
    return package


@dataclass(frozen=True)
class Loaded:
    """What a .pt file holds, and the size of the pickle that says how it hangs together."""

    value: Any
    pickle_bytes: int


def load(file: BinaryIO) -> Loaded:
    """Return what a .pt file holds: only tensors, plain values and containers of them.

    Raises:
        NotThisFormatError: no file of torch.save.
        UnsupportedError: it holds objects of other classes, or is of an old torch.
        DamagedFileError: it contradicts itself.
    """
    file.seek(0)
    head = file.read(16)
    if head.startswith(OLD):
        raise UnsupportedError(
            "is a pickle, and reading one runs the code in it; save it with torch 1.6 or later, "
            "or the weights with safetensors"
        )
    if not head.startswith(b"PK\x03\x04"):
        raise NotThisFormatError("is no file of torch.save: it does not begin like a zip file")
    package = torch()
    modules, pickle_bytes = _check_archive(file)
    if "torch._dynamo" in modules:
        importlib.import_module("torch._dynamo")  # slow; nested tensors refer to it
    file.seek(0)
    try:
        known = package.serialization.safe_globals([package.nn.utils.rnn.PackedSequence])
        with silent(), known:
            value = package.load(file, map_location="cpu", weights_only=True)
    # It raises whatever the code it calls does: AttributeError, KeyError, AssertionError, ..
    except Exception as error:
        raise DamagedFileError(f"torch cannot load it ({_brief(error)})") from None
    return Loaded(value, pickle_bytes)


def _check_archive(file: BinaryIO) -> tuple[set[str], int]:
    """Check sizes, checksums, and what the pickle refers to, before torch sees the file.

    Returns:
        The packages that it refers to, two names deep, and the size of the pickle.
    """
    archive = open_archive(file)
    members = archive.infolist()
    pickles = [info for info in members if info.filename.endswith("/data.pkl")]
    if not pickles:
        raise NotThisFormatError("is no file of torch.save: it has no data.pkl")
    if any(info.filename.endswith("/constants.pkl") for info in members):
        raise UnsupportedError("is a TorchScript program, not tensors of torch.save")
    # torch can be told not to make checksums; then there is none at all.
    checked = any(info.CRC for info in members)
    for info in members:
        if info.compress_type != zipfile.ZIP_STORED:
            raise UnsupportedError(f"{shown(info.filename)}: is compressed, as torch never is")
        if checked:
            with naming(shown(info.filename)), damage("is damaged"), archive.open(info) as stream:
                while stream.read(COPY_BYTES):
                    pass
    modules: set[str] = set()
    for info in pickles:
        with naming(shown(info.filename)):
            if info.file_size > MOST_PICKLE_BYTES:
                raise UnsupportedError(
                    f"has {info.file_size} bytes; at most {MOST_PICKLE_BYTES} are read"
                )
            start = _data_position(file, info)
            file.seek(start)
            modules |= _check_pickle(file.read(info.file_size))
    return modules, sum(info.file_size for info in pickles)


def _data_position(file: BinaryIO, info: zipfile.ZipInfo) -> int:
    """Return where the bytes of a stored member are; its own checksum may be missing."""
    file.seek(info.header_offset)
    head = file.read(30)
    if len(head) < 30 or not head.startswith(b"PK\x03\x04"):
        raise DamagedFileError("its zip entry is damaged")
    name, extra = (int.from_bytes(head[at : at + 2], "little") for at in (26, 28))
    return info.header_offset + 30 + name + extra


def _check_pickle(raw: bytes) -> set[str]:
    """Return the packages a pickle refers to; for nothing but tensors and containers."""
    modules: set[str] = set()
    try:
        for code, argument, _ in pickletools.genops(raw):
            if code.name == "PROTO" and argument != 2:
                raise UnsupportedError(f"is a pickle of protocol {argument}; torch.save writes 2")
            if code.name != "GLOBAL":
                continue
            modules.add(".".join(str(argument).partition(" ")[0].split(".")[:2]))
            if not _CALLED.fullmatch(str(argument)):
                raise UnsupportedError(
                    f"refers to {ascii(argument)[1:-1][:100].replace(' ', '.')}; only tensors, "
                    "lists, tuples and dicts are read"
                )
    except UnsupportedError:
        raise
    except Exception as error:  # pickletools raises what int(), codecs and struct do
        raise DamagedFileError(f"is no whole pickle ({_brief(error)})") from None
    return modules


def _brief(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", lines[0]).split())[:160]
