"""URLs given instead of paths."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

# At least two letters: a scheme of one letter is a drive of Windows.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://.")


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether this is a URL.

    >>> is_url("https://example.org/words.lod.h5"), is_url("words.lod.h5"), is_url("-")
    (True, False, False)
    """
    return isinstance(path, str) and _URL.match(path) is not None


def shown(url: str) -> str:
    """Return a URL without parts that may be secret: user, password, query, fragment.

    Any other path is returned unchanged.

    >>> shown("https://me:secret@example.org/words.lod.h5?signature=1f")
    'https://example.org/words.lod.h5'
    """
    if not is_url(url):
        return url
    scheme, _, rest = url.partition("://")
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def file_name(url: str) -> str:
    """Return the last part of the path of a URL, whose extension determines some formats.

    >>> file_name("https://example.org/a/my%20words.jsonl.gz?version=3")
    'my words.jsonl.gz'
    """
    return PurePosixPath(unquote(urlsplit(url).path)).name
