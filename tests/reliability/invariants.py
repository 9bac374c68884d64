"""Offsets that are not a valid index: the error names the first fault."""

from __future__ import annotations

import random

import numpy as np

from lodcli.kernels.errors import InvalidLoDError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.reliability.outcome import Outcome

EXTREMES = (-(2**63), -1, 0, 1, 2**31, 2**53, 2**63 - 1)


def trees(count: int, seed: int = 1) -> Outcome:
    """Make trees, good and with one offset changed, and check them as a reader does.

    Holds: a good one is taken and its lengths come back; of a broken one the first fault is
    named by level and position, as a plain loop finds it.
    """
    outcome = Outcome("offsets that break a rule of the index")
    chance = random.Random(seed)
    for _ in range(count):
        lengths = _lengths(chance)
        levels = [_offsets(level) for level in lengths]
        rows = levels[-1][-1]
        outcome.tried += 1
        good = LoD(levels)
        outcome.expect(
            good.recursive_sequence_lengths() == lengths, f"{lengths}: comes back as another"
        )
        number = chance.randrange(len(levels))
        place = chance.randrange(len(levels[number]))
        value = chance.choice([*EXTREMES, chance.randrange(-3, rows + 3)])
        levels[number][place] = value
        expected = _first_fault(levels, rows)
        found = _found_fault(levels, rows)
        outcome.expect(found == expected, f"{levels}, {rows} rows: {found}, expected {expected}")
    return outcome


def _lengths(chance: random.Random) -> list[list[int]]:
    count, levels = chance.randrange(4), []
    for _ in range(chance.randrange(1, 5)):
        levels.append([chance.choice((0, 0, 1, 1, 2, 3, 5)) for _ in range(count)])
        count = sum(levels[-1])
    return levels


def _offsets(lengths: list[int]) -> list[int]:
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return offsets


def _first_fault(levels: list[list[int]], rows: int) -> tuple[int, int] | None:
    """Return level and position of the first fault, level by level, front to back."""
    for number, level in enumerate(levels):
        if level[0] != 0:
            return number, 0
        for place in range(1, len(level)):
            if level[place] < level[place - 1]:
                return number, place
        below = rows if number + 1 == len(levels) else len(levels[number + 1]) - 1
        if level[-1] != below:
            return number, len(level) - 1
    return None


def _found_fault(levels: list[list[int]], rows: int) -> tuple[int | None, int | None] | None:
    try:
        LoDTensor(np.empty(rows, np.uint8), LoD(levels))
    except InvalidLoDError as error:
        return error.level, error.position
    return None
