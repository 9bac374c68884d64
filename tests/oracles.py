"""Reference results of the kernels, in plain loops over lists. Shares no code with them.

A tensor is written as a tree: nested lists with the row numbers as leaves. Three
articles of 3, 1, 2 sentences are `[[[0, 1, 2], [3, 4], [5, 6, 7, 8]], [[9]], ...]`.
Slicing is then list indexing, and moving a sequence moves a list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Tree = list[Any]


def tree_of(lengths: list[list[int]], rows: int) -> Tree:
    """Return the tree of these item counts per level, outermost first."""
    items: Tree = list(range(rows))
    for counts in reversed(lengths):
        left = iter(items)
        items = [[next(left) for _ in range(count)] for count in counts]
        assert not list(left), "the lengths do not use up the items below"
    return items


def sequences_of(tree: Tree, level: int) -> Tree:
    """Return all items of a level, in order; those below the finest are rows."""
    items = tree
    for _ in range(level):
        items = [inner for outer in items for inner in outer]
    return items


def rows_of(tree: Any) -> list[int]:
    """Return the row numbers under a tree, in order."""
    if isinstance(tree, int):
        return [tree]
    return [row for part in tree for row in rows_of(part)]


def lengths_of(tree: Tree, levels: int) -> list[list[int]]:
    """Return the item counts of the levels of a tree, outermost first."""
    return [[len(item) for item in sequences_of(tree, level)] for level in range(levels)]


def steps_of(sequences: Tree, order: list[int]) -> list[Tree]:
    """Return for each step the next item of every sequence that still has one."""
    steps = []
    for step in range(max((len(items) for items in sequences), default=0)):
        steps.append([sequences[i][step] for i in order if len(sequences[i]) > step])
    return steps


def by_length(sequences: Tree) -> list[int]:
    """Return the numbers of the sequences, longest first; stable."""
    order: list[int] = []
    for number, items in enumerate(sequences):
        place = 0
        while place < len(order) and len(sequences[order[place]]) >= len(items):
            place += 1
        order.insert(place, number)
    return order


def gathered(data: Array, rows: list[int]) -> Array:
    """Return these rows of `data`, bit for bit."""
    result = np.zeros((len(rows), *data.shape[1:]), data.dtype)
    for place, row in enumerate(rows):
        result[place] = data[row]
    return result


def elman(rows: Array, state: Array, weight: Array, recurrent: Array) -> Array:
    """Return the states of sigmoid(x W + h U) over the rows of one sequence."""
    states = np.zeros((len(rows), len(state)))
    for step, row in enumerate(rows):
        state = 1 / (1 + np.exp(-(row @ weight + state @ recurrent)))
        states[step] = state
    return states
