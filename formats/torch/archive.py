"""The zip archive of a .pt file: a pickle, and the storages it refers to."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError, naming
from lodcli.formats.storage.zip_archive import open_archive, shown
from lodcli.formats.torch.calls import Calls, Storage
from lodcli.formats.torch.pickle import Interpreter
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array

MOST_PICKLE_BYTES = 256 << 20
# First bytes of files from torch.save 1.0 to 1.5, and of bare pickles.
OLD = (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", b"\x80\x02", b"\x80\x03", b"\x80\x04")
_LOCAL_BYTES = 30  # of the local header before a member, without its name and extra field


@dataclass(frozen=True)
class Loaded:
    """Content of a .pt file, and the size of its pickle."""

    value: Any
    pickle_bytes: int


def load(file: BinaryIO) -> Loaded:
    """Return the content of a .pt file: only tensors, plain values and containers.

    A `Refused` is the placeholder for every other object.

    Raises:
        NotThisFormatError: it is not a file of torch.save.
        UnsupportedError: it is from an old torch, or holds a program instead of tensors.
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
        raise NotThisFormatError("is not a file of torch.save: it does not begin like a zip file")
    members = _Members(file)
    pickles = [name for name in members.by_name if name.endswith("/data.pkl")]
    if not pickles:
        raise NotThisFormatError("is not a file of torch.save: it has no data.pkl")
    if len(pickles) > 1:
        raise DamagedFileError(f"has {len(pickles)} members called data.pkl")
    folder = pickles[0].removesuffix("data.pkl")
    size = members.by_name[pickles[0]].file_size
    if size > MOST_PICKLE_BYTES:
        raise UnsupportedError(
            f"{shown(pickles[0])}: has {size} bytes; at most {MOST_PICKLE_BYTES} are read"
        )
    order = f"{folder}byteorder"
    big = order in members.by_name and members.read(order).tobytes() == b"big"
    raw = members.read(pickles[0]).tobytes()
    with naming(shown(pickles[0])):
        calls = Calls(lambda storage: members.storage(folder, storage), big_endian=big)
        value = Interpreter(calls).value(raw)
    members.check_others()
    return Loaded(value, size)


class _Members:
    """The members of an archive, each read and checked once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        infos = open_archive(file).infolist()
        self.by_name = {info.filename: info for info in infos}
        # torch can omit checksums; then all are 0.
        self._checked = any(info.CRC for info in infos)
        self._read: dict[str, Array] = {}
        if any(name.endswith("/constants.pkl") for name in self.by_name):
            raise UnsupportedError(
                "is a TorchScript program, not tensors of torch.save; save its tensors with "
                "torch.save(torch.jit.load(FILE).state_dict(), 'tensors.pt')"
            )
        if any(name.endswith("/models/model.json") for name in self.by_name):
            raise UnsupportedError(
                "is a program of torch.export, not tensors of torch.save; save its tensors with "
                "torch.save(torch.export.load(FILE).state_dict, 'tensors.pt')"
            )
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED:
                raise UnsupportedError(f"{shown(info.filename)}: is compressed, as torch never is")

    def read(self, name: str) -> Array:
        """Return the bytes of a member, (bytes,) uint8."""
        if name not in self._read:
            with naming(shown(name)):
                self._read[name] = self._bytes(self.by_name[name])
        return self._read[name]

    def storage(self, folder: str, storage: Storage) -> Array:
        """Return the bytes of a storage, (bytes,) uint8."""
        name = f"{folder}data/{storage.key}"
        if name not in self.by_name:
            raise DamagedFileError(f"refers to {ascii(name)[1:-1][:100]}, which is missing")
        size = self.by_name[name].file_size
        if size != storage.count * storage.dtype.itemsize:
            raise DamagedFileError(
                f"expects {storage.count} values of {storage.dtype} in {shown(name)[:100]}, which "
                f"has {size} bytes"
            )
        return self.read(name)

    def check_others(self) -> None:
        """Read and check the members that the pickle does not refer to."""
        for name in self.by_name.keys() - self._read.keys():
            self.read(name)
            del self._read[name]

    def _bytes(self, info: zipfile.ZipInfo) -> Array:
        self._file.seek(info.header_offset)
        head = self._file.read(_LOCAL_BYTES)
        name, extra = (int.from_bytes(head[at : at + 2], "little") for at in (26, 28))
        self._file.seek(info.header_offset + _LOCAL_BYTES + name + extra)
        content = np.empty(info.file_size, np.uint8)
        left = content.data
        while len(left):
            count = self._file.readinto(left)  # type: ignore[attr-defined]
            if not count:
                raise DamagedFileError(f"ends {len(left)} bytes early")
            left = left[count:]
        if self._checked and zlib.crc32(content.data) != info.CRC:
            raise DamagedFileError("is damaged: its checksum does not match")
        return content
