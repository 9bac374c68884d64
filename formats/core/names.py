"""Valid names of tensors, and encoding of other names in files.

A name is any text without `/`, `::`, control characters and lone surrogates: `/` separates the
parts of names in files, and `FILE::NAME` selects a tensor.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable
from keyword import iskeyword

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.suggestions import did_you_mean

MOST_CHARS = 255
MOST_LISTED = 20
# The name of a column or field without a name.
UNNAMED = "unnamed"
# Control characters and surrogates, "/", and the second of two colons.
_FORBIDDEN = re.compile(r"[\0-\x1f\x7f-\x9f\ud800-\udfff/]|(?<=:):")
_DIGITS = re.compile(r"([0-9]+)")
_FOLDERS = frozenset({".", ".."})
_MARK = "::"


def check_name(name: str) -> None:
    """Raise InvalidDataError unless `name` may name a tensor."""
    if not name:
        raise InvalidDataError("'' cannot name a tensor: it is empty")
    if len(name) > MOST_CHARS:
        raise InvalidDataError(
            f"{name[:40]!r}.. cannot name a tensor: it has {len(name)} characters, at most "
            f"{MOST_CHARS}"
        )
    if found := _FORBIDDEN.search(name):
        what = {"/": "'/'", ":": "'::'"}.get(found[0], f"{found[0]!a}, a control character")
        raise InvalidDataError(f"{name!r} cannot name a tensor: it holds {what}")


def split_reference(text: str) -> tuple[str, str | None]:
    """Return the file and the tensor of a reference, FILE or FILE::NAME.

    If there is a file of the whole name, it is that file. Both parts may be empty.

    >>> split_reference("words.lod.h5::tags")
    ('words.lod.h5', 'tags')
    """
    path, mark, name = text.rpartition(_MARK)
    if mark and path.endswith(":") and not os.path.lexists(path):
        path, name = path[:-1], f":{name}"  # the name of a tensor may begin with a colon
    if not mark or "/" in name or os.path.lexists(text):
        return text, None
    return path, name


def name_of(text: str) -> str:
    """Return the name of a tensor for the name that a column, a field or an array has in a file.

    Characters that names may not have are percent-encoded, as in URLs. A name that is too long is
    cut, and ends with a checksum of the whole.

    >>> name_of("c_customer_sk:"), name_of("a/b"), name_of("")
    ('c_customer_sk:', 'a%2Fb', 'unnamed')
    """
    name = _FORBIDDEN.sub(_encoded, text) or UNNAMED
    if len(name) > MOST_CHARS:
        name = f"{name[: MOST_CHARS - 9]}~{zlib.crc32(name.encode()):08x}"
    return name


def _encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def natural_key(name: str) -> list[tuple[int, str, str]]:
    """Return a key that sorts names in natural order: numbers in them are compared by value.

    >>> sorted(["demo_10", "demo_2"], key=natural_key)
    ['demo_2', 'demo_10']
    """
    # Numbers by their count of digits and then as texts: int refuses those of thousands of digits.
    result = []
    for place, one in enumerate(_DIGITS.split(name)):
        digits = one.lstrip("0")
        if place % 2:
            result.append((len(digits), digits, one))
        elif one:
            result.append((sys.maxsize, "", one))
    return result


def repeated(names: Iterable[str]) -> dict[str, int]:
    """Return the names that occur more than once, in order, and how often.

    >>> repeated(["a", "b", "a"])
    {'a': 2}
    """
    return {name: count for name, count in Counter(names).items() if count > 1}


def undotted(name: str) -> str:
    """Return a name with its dots escaped, since a dot separates records from their fields.

    >>> undotted("s.x")
    's%2Ex'
    """
    return name.replace(".", "%2E")


def component(name: str, reserved: frozenset[str] = _FOLDERS) -> str:
    """Return a name escaped as one part of a path in a file.

    >>> component("words"), component("..")
    ('words', '::..')
    """
    return _MARK + name if name in _FOLDERS | reserved else name


def named(part: str) -> str:
    """Return the name from an escaped part of a path: the inverse of `component`."""
    return part.removeprefix(_MARK)


def presence_name(fields: Iterable[str]) -> str:
    """Return a name, other than those of the fields, for the validity mask of records.

    >>> presence_name(["x", "present"])
    'present_'
    """
    known, found = set(fields), "present"
    while found in known:
        found += "_"
    return found


def listing(names: Iterable[str], most: int = MOST_LISTED) -> str:
    """Return names for a message: the first `most`, and how many more there are.

    >>> listing(["words", "tags"])
    'words, tags'
    """
    known = list(names)
    more = len(known) - most
    return ", ".join(known[:most]) + (f" and {more} more" if more > 0 else "")


def there_are(names: Iterable[str], wanted: str) -> str:
    """Return the known names, for the error about another one; of many names, similar ones first.

    >>> there_are(["words", "tags"], "word")
    'there are: words, tags'
    >>> there_are([f"x{number}" for number in range(100)], "x_57")[:22]
    'did you mean x57 or x7'
    """
    known = list(names)
    hint = ""
    if len(known) > MOST_LISTED:
        near = did_you_mean(wanted, known, 2)
        hint = f"{near} " if near else ""
    return f"{hint}there are: {listing(known) or 'none'}"


def is_plain(name: str) -> bool:
    """Return whether expressions refer to a tensor by its name alone, without tensor('NAME').

    >>> is_plain("turns.ids"), is_plain("a-b"), is_plain("in")
    (True, False, False)
    """
    return all(one.isidentifier() and not iskeyword(one) for one in name.split("."))


def shown(text: bytes | str) -> str:
    """Return a piece of a file for a message: short, quoted, in one line."""
    cut = text[:100].decode("utf-8", "replace") if isinstance(text, bytes) else text[:100]
    return repr(cut) if cut.isprintable() else ascii(cut)
