"""Names that a mistyped one may mean."""

from __future__ import annotations

from collections.abc import Iterable

# How similar names must be, from 0 to 1, as difflib measures it.
_CUTOFF = 0.6


def did_you_mean(name: str, known: Iterable[str], most: int = 3, *, cutoff: float = _CUTOFF) -> str:
    """Return the known names close to a mistyped one, as a question; "" if none is.

    Args:
        name: the mistyped one.
        known: the names that there are.
        most: how many are returned.
        cutoff: how similar they must be, from 0 to 1.

    >>> did_you_mean("sofmax", ["softmax", "sum"])
    'did you mean softmax?'
    """
    import difflib  # takes milliseconds

    # By their letters: the dashes of options make all of them similar.
    by_letters = {one.lstrip("-").lower(): one for one in known}
    close = difflib.get_close_matches(name.lstrip("-").lower(), by_letters, most, cutoff)
    return f"did you mean {' or '.join(by_letters[one] for one in close)}?" if close else ""


def or_near(name: object, known: Iterable[str], *, cutoff: float = _CUTOFF) -> str:
    """Return `did_you_mean` of one name, to append to a message; "" if none is close.

    >>> "no dtype 'flaot32'" + or_near("flaot32", ["float32", "int8"])
    "no dtype 'flaot32'; did you mean float32?"
    """
    near = did_you_mean(name, known, 1, cutoff=cutoff) if isinstance(name, str) else ""
    return f"; {near}" if near else ""
