"""Objects behind http and https, by urllib3."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from http import HTTPStatus
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from lodcli.formats.catalogue.packages import Package
from lodcli.formats.remote.objects import BLOCK_BYTES, CONNECTIONS, HEAD_BYTES, failed, replaced
from lodcli.kernels.errors import UnsupportedError

if TYPE_CHECKING:
    import urllib3

PACKAGE = Package("urllib3", "lodcli[remote]", "URLs of http and https")
CONNECT_SECONDS, READ_SECONDS = 10, 30
TRIES = 5
# Pause before the second try; it doubles before each further one.
FIRST_PAUSE_SECONDS = 0.25
# Limit of pauses, also of those that a server asks for.
LONGEST_PAUSE_SECONDS = 30.0
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18})")


class Urllib3Object:
    """An object behind http or https: see RemoteObject.

    Every response must be from the object that was opened: with the same size and ETag or, without
    one, the same time of the last change. Temporary failures are retried, up to TRIES tries.

    Args:
        url: of the object; a user and password in it are sent as basic authentication.
    """

    size_bytes: int | None = None

    def __init__(self, url: str) -> None:
        try:
            import urllib3
        except ModuleNotFoundError:
            raise PACKAGE.missing("a URL of http or https") from None
        self._url = url
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        self._plain = urlunsplit((parts.scheme, host, parts.path or "/", parts.query, ""))
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "lod"}
        if parts.username is not None:
            said = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers |= urllib3.make_headers(basic_auth=said)
        self._timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        self._pool = _pool(parts.scheme, parts.hostname or "")
        self._version: tuple[str | None, ...] | None = None
        self._ranges = True
        self.head = b"".join(takewhile(lambda _: self._ranges, self.read(0, HEAD_BYTES)))

    def read(self, start: int, stop: int | None) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError

        position, pause = start, FIRST_PAUSE_SECONDS
        for tries in range(1, TRIES + 1):
            try:
                response = self._asked(position, stop)
                try:
                    if response.status in _AGAIN:
                        problem = f"the server answered {_status(response.status)}"
                        pause = max(pause, _asked_pause(response))
                    else:
                        stop = self._checked(response, position, stop)
                        for block in response.stream(BLOCK_BYTES):
                            position += len(block)
                            yield block
                        if stop is None or position == stop:
                            return
                        problem = f"it ended at byte {position} of {stop}"
                finally:
                    response.close()  # a connection not read to the end is not reused
            except HTTPError as error:
                problem = _line(error)
            if tries == TRIES or (not self._ranges and position > start):
                break  # without ranges, reading would start again at 0
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        times = "once" if tries == 1 else f"{tries} times"
        raise failed(self._url, f"cannot be read: {problem} (tried {times})")

    def close(self) -> None:
        self._pool.clear()

    def _asked(self, start: int, stop: int | None) -> urllib3.BaseHTTPResponse:
        headers = dict(self._headers)
        if self._ranges:
            headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        response: urllib3.BaseHTTPResponse = self._pool.request(
            "GET",
            self._plain,
            headers=headers,
            preload_content=False,
            decode_content=False,
            timeout=self._timeout,
            retries=_redirects(),
        )
        return response

    def _checked(
        self, response: urllib3.BaseHTTPResponse, start: int, stop: int | None
    ) -> int | None:
        """Check a response, and return the position where it ends; None if unknown.

        Raises:
            OSError: it is not this range of this object.
        """
        status, headers = response.status, response.headers
        place = _RANGE.fullmatch(headers.get("Content-Range", ""))
        if status in (404, 410):
            raise failed(self._url, os.strerror(errno.ENOENT), errno.ENOENT)
        if status in (401, 403):
            raise failed(self._url, f"the server answered {_status(status)}", errno.EKEYREJECTED)
        if status == 416 and place and self.size_bytes in (None, int(place[3])):
            total, first, end = int(place[3]), start, start
        elif status == 206 and place and place[1]:
            first, end, total = int(place[1]), int(place[2]) + 1, int(place[3])
        elif status == 200 and self.size_bytes is None:
            self._ranges = False
            length = headers.get("Content-Length", "")
            return int(length) if length.isdecimal() else None
        else:
            what = f"the server answered {_status(status)}"
            raise failed(self._url, f"{what} to a request for a range of bytes")
        version = (headers.get("ETag"), headers.get("Last-Modified"), str(total))
        if version[0]:
            version = (version[0], None, version[2])
        if self._version is not None and version != self._version:
            raise replaced(self._url)
        self._version, self.size_bytes = version, total
        wanted = total if stop is None else min(stop, total)
        if (first, end) != (start, wanted) and status != 416:
            found = f"expected bytes {start} to {wanted}, found {first} to {end}"
            raise failed(self._url, f"the server answered another range: {found}")
        return end


def _asked_pause(response: urllib3.BaseHTTPResponse) -> float:
    asked = response.headers.get("Retry-After", "")
    return min(float(asked), LONGEST_PAUSE_SECONDS) if asked.isdecimal() else 0


def _pool(scheme: str, host: str) -> Any:
    import urllib3

    proxy = None if proxy_bypass(host) else getproxies().get(scheme)
    if proxy is None:
        return urllib3.PoolManager(maxsize=CONNECTIONS)
    if "://" not in proxy:
        proxy = f"http://{proxy}"  # as curl reads it
    try:
        return urllib3.ProxyManager(proxy, maxsize=CONNECTIONS)
    except urllib3.exceptions.ProxySchemeUnknown:
        found = proxy.partition("://")[0]
        raise UnsupportedError(
            f"the proxy that {scheme}_proxy names: expected one of http or https, found {found}"
        ) from None


def _redirects() -> Any:
    """Return the retries of urllib3: only redirects, because `read` counts other tries."""
    import urllib3

    return urllib3.Retry(total=None, connect=0, read=0, redirect=5, status=0, other=0)


def _status(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _line(error: Exception) -> str:
    """Return the message of an error of urllib3, without its description of the connection."""
    cause = getattr(error, "reason", None) or error
    if isinstance(cause, Exception) and len(cause.args) > 1:
        cause = cause.args[-1]
    return " ".join(str(cause).rpartition(": ")[2].split())[:300] or type(error).__name__
