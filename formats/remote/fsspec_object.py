"""Objects behind other URLs, such as s3 and gs, by fsspec."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

from lodcli.formats.catalogue.packages import Package
from lodcli.formats.remote.objects import BLOCK_BYTES, failed, replaced
from lodcli.kernels.errors import UnsupportedError

PACKAGE = Package("fsspec", "lodcli[remote]", "other URLs, such as s3:// and gs://")


class FsspecObject:
    """An object of a file system of fsspec: see RemoteObject.

    Args:
        url: of the object; settings and credentials come from the package for its scheme.
    """

    size_bytes: int | None
    head = b""

    def __init__(self, url: str) -> None:
        self._url = url
        scheme = url.partition("://")[0]
        try:
            import fsspec
        except ModuleNotFoundError:
            raise PACKAGE.missing(f"a URL of {scheme}") from None
        try:
            self._system, self._path = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise UnsupportedError(f"{scheme}://: {' '.join(str(error).split())}") from None
        info = self._info()
        if info.get("type", "file") != "file":
            raise failed(url, os.strerror(errno.EISDIR), errno.EISDIR)
        self.size_bytes = info["size"]
        self._version = self._version_of(info)

    def read(self, start: int, stop: int | None) -> Iterator[bytes]:
        end = self.size_bytes if stop is None else stop
        assert end is not None
        for low in range(start, end, 8 * BLOCK_BYTES):
            high = min(low + 8 * BLOCK_BYTES, end)
            try:
                found = self._system.cat_file(self._path, start=low, end=high)
            except Exception as error:  # of any package that fsspec uses
                raise self._failed(error) from error
            if self._version_of(self._info()) != self._version:
                raise replaced(self._url)
            if len(found) != high - low:
                what = f"expected bytes {low} to {high}, found {len(found)} of them"
                raise failed(self._url, f"cannot be read: {what}")
            yield found

    def close(self) -> None:
        """See RemoteObject."""

    def _info(self) -> dict[str, Any]:
        try:
            self._system.invalidate_cache()
            found: dict[str, Any] = self._system.info(self._path)
        except Exception as error:  # of any package that fsspec uses
            raise self._failed(error) from error
        return found

    def _version_of(self, info: dict[str, Any]) -> tuple[Any, ...]:
        named = {key.lower().replace("-", ""): value for key, value in info.items()}
        keys = ("etag", "versionid", "generation", "lastmodified", "mtime", "created", "size")
        return tuple(str(named.get(key)) for key in keys)

    def _failed(self, error: Exception) -> OSError:
        if isinstance(error, FileNotFoundError):
            return failed(self._url, os.strerror(errno.ENOENT), errno.ENOENT)
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return failed(self._url, f"cannot be read: {what}")
