"""A folder behind a URL: files in it are opened by name, since they cannot be listed."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from lodcli.formats.remote.fetched import FetchedFile


class RemoteFolder:
    """The files below a URL that ends in a slash.

    Args:
        url: of the folder; its query, if any, is used for each file.
    """

    descriptors: tuple[int, ...] = ()

    def __init__(self, url: str) -> None:
        self._url = url

    def fetched(self, name: str) -> FetchedFile:
        """Open one of its files.

        Raises:
            OSError: there is none of that name, or it cannot be read; names its URL.
        """
        return FetchedFile(self.url_of(name))

    def url_of(self, name: str) -> str:
        """Return the URL of one of its files.

        >>> RemoteFolder("https://me@example.org/a%20b/?key=1").url_of("c d.lod.h5")
        'https://me@example.org/a%20b/c%20d.lod.h5?key=1'
        """
        parts = urlsplit(self._url)
        return parts._replace(path=parts.path + quote(name), fragment="").geturl()

    def close(self) -> None:
        """Do nothing: each file closes its connections."""


def is_folder_url(url: str) -> bool:
    """Return whether a URL names a folder: its path ends in a slash.

    >>> is_folder_url("https://example.org/words/?key=1"), is_folder_url("https://example.org/w")
    (True, False)
    """
    return urlsplit(url).path.endswith("/")
