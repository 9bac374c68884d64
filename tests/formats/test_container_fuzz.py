"""Random damage: an error of ours, or the very same content; never anything else.

LOD_FUZZ=20000 tries that many places instead of the usual number.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lodcli.formats import io
from lodcli.formats.schema import Item
from lodcli.kernels.errors import LodError
from lodcli.kernels.tensor import LoDTensor
from tests.formats.crafted import good

PLACES = int(os.environ.get("LOD_FUZZ", "2000"))
# Per file; a good one takes a few milliseconds.
LIMIT_SECONDS = 10
BASES = ("articles", "compressed", "shared", "array", "latest")
# What damage likes to be: counts, sizes and flags at their limits.
BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)


def _damaged(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one or a few bytes changed at random."""
    changed = bytearray(content)
    kind = chance.randrange(6)
    place = chance.randrange(len(changed))
    if kind == 0:
        changed[place] ^= 1 << chance.randrange(8)
    elif kind == 1:
        changed[place] = chance.choice(BYTES)
    elif kind == 2:
        size = chance.choice((2, 4, 8))
        changed[place : place + size] = chance.randbytes(size)
    elif kind == 3:
        other = chance.randrange(len(changed))
        changed[place : place + 16] = changed[other : other + 16]
    elif kind == 4:
        # One address, size or count in the place of another: what makes loops.
        words = [at for at in range(0, len(changed) - 8, 8) if any(changed[at : at + 8])]
        here, there = chance.choice(words), chance.choice(words)
        word = chance.choice([changed[there : there + 8], there.to_bytes(8, "little")])
        changed[here : here + 8] = word
    else:
        for _ in range(chance.randrange(2, 20)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _places(content: bytes) -> list[int]:
    """Return where a file is not empty: most of a small one is what HDF5 keeps for later."""
    return [place for place, byte in enumerate(content) if byte]


def _same(found: dict[str, Item], expected: dict[str, Item]) -> bool:
    if found.keys() != expected.keys():
        return False
    for name, item in expected.items():
        other = found[name]
        if isinstance(item, LoDTensor) or isinstance(other, LoDTensor):
            if not (
                isinstance(item, LoDTensor)
                and isinstance(other, LoDTensor)
                and item.identical(other)
            ):
                return False
        elif not (item.array.identical(other.array) and item.index_map == other.index_map):
            return False
    return True


def _attempts(base: str, seed: int, count: int) -> Iterator[tuple[int, bytes]]:
    content = good(base)
    for number in range(count):
        chance = random.Random(f"{base} {seed} {number}")
        changed = _damaged(content, chance)
        if number % 2:
            # Every second time where something is; a random place is mostly padding.
            place = chance.choice(_places(content))
            piece = bytearray(content)
            piece[place] = chance.choice(BYTES) if chance.random() < 0.5 else chance.randrange(256)
            changed = bytes(piece)
        yield number, changed


def _try_all(base: str, seed: int, count: int, path: Path) -> str | None:
    """Return what went wrong, in words; None if nothing did."""
    path.write_bytes(good(base))
    expected = io.read_all(path, format_name="lod.h5")
    read = {name: _in_memory(item) for name, item in expected.items()}
    for number, changed in _attempts(base, seed, count):
        path.unlink()  # not in place: what was read before may be mapped
        path.write_bytes(changed)
        # Ends the process with a trace, whatever C code it hangs in.
        faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
        try:
            found = io.read_all(path, format_name="lod.h5")
        except LodError as error:
            if str(path) not in str(error):
                return f"{base} {seed} {number}: names no file: {error}"
        except Exception as error:
            return f"{base} {seed} {number}: {type(error).__name__}: {error}"
        else:
            if not _same(found, read):
                return f"{base} {seed} {number}: wrong content"
        finally:
            faulthandler.cancel_dump_traceback_later()
    return None


def _in_memory(item: Item) -> Item:
    return item.copy() if isinstance(item, LoDTensor) else item


def _child(base: str, seed: int, count: int, path: Path) -> None:
    wrong = _try_all(base, seed, count, path)
    if wrong:
        raise SystemExit(wrong)


@pytest.mark.parametrize("base", BASES)
def test_random_damage_is_found_or_harmless(base: str, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    seed = int(os.environ.get("LOD_FUZZ_SEED", "1"))
    # A child: damage that crashes or hangs HDF5 must fail this test, and not end the tests.
    path = tmp_path / "fuzz.lod.h5"
    child = context.Process(target=_child, args=(base, seed, PLACES // len(BASES), path))
    child.start()
    child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("base", BASES)
def test_a_file_cut_at_any_length_is_refused(base: str, tmp_path: Path) -> None:
    content, path = good(base), tmp_path / "cut.lod.h5"
    for size in range(0, len(content), 1 if base == "articles" else 37):
        path.write_bytes(content[:size])
        with pytest.raises(LodError):
            io.read_all(path, format_name="lod.h5")


def test_a_damaged_header_is_never_trusted(tmp_path: Path) -> None:
    """Every bit of the superblock and of the header, one by one."""
    content, path = good("articles"), tmp_path / "bit.lod.h5"
    path.write_bytes(content)
    expected = {name: _in_memory(item) for name, item in io.read_all(path).items()}
    text = content.index(b'{"format"')
    for place in [*range(96), *range(text, content.rindex(b'"}') + 2)]:
        for bit in (0, 3, 7):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            path.unlink()
            path.write_bytes(changed)
            with contextlib.suppress(LodError):
                assert _same(io.read_all(path, format_name="lod.h5"), expected)
                assert place < 96  # unused bytes of the superblock are harmless
