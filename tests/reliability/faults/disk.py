"""A simulated disk that keeps synced data, and any part of the rest.

It simulates the behaviour of file systems at a power cut that ALICE (Pillai et al., OSDI 2014) and
CrashMonkey (Mohan et al., OSDI 2018) found: changes of names that were not synced with their folder
persist or not, in any combination, each atomically; data that was not synced with its file
persists, is lost, partial or garbage, independent of its name.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations

Inode = int
# Up to this many unsynced changes of names, every combination is tried.
MOST_ALL = 6
SOME = 40


@dataclass(frozen=True)
class Data:
    """Bytes written to a file."""

    inode: Inode
    position: int
    data: bytes


@dataclass(frozen=True)
class Size:
    """The size of a file set."""

    inode: Inode
    size: int


@dataclass(frozen=True)
class Names:
    """Names that are linked to other inodes, or removed, atomically.

    Attributes:
        changes: the inode of each name in a folder.
        folders: the inodes that are new folders.
    """

    changes: dict[tuple[Inode, str], Inode | None]
    folders: frozenset[Inode] = frozenset()


@dataclass(frozen=True)
class Sync:
    """A file or folder synced."""

    inode: Inode


Step = Data | Size | Names | Sync
Tree = dict[str, "tuple[Inode, bytes | None]"]  # by path: its content, None of a folder
MODES = ("all", "none", "half", "zeros", "garbage")


@dataclass
class Disk:
    """The initial content of a disk, and the operations on it.

    Attributes:
        root: the folder with all files.
        names: the initial inodes of the names.
        files: the initial content of the files.
        folders: the inodes that are folders.
        steps: the operations.
    """

    root: Inode
    names: dict[tuple[Inode, str], Inode]
    files: dict[Inode, bytes]
    folders: set[Inode]
    steps: list[Step] = field(default_factory=list)

    def after_a_power_cut(self, step: int, chance: random.Random) -> Iterator[Tree]:
        """Yield the possible contents if the power fails after this many steps."""
        done = self.steps[:step]
        synced: set[Inode] = set()
        loose_names: list[int] = []
        loose_data: set[int] = set()
        for place in range(step - 1, -1, -1):
            one = done[place]
            if isinstance(one, Sync):
                synced.add(one.inode)
            elif isinstance(one, Names):
                if not all(folder in synced for folder, _ in one.changes):
                    loose_names.append(place)
            elif one.inode not in synced:
                loose_data.add(place)
        modes = MODES if loose_data else ("all",)
        for dropped in _subsets(sorted(loose_names), chance):
            for mode in modes:
                yield self._tree(done, dropped, loose_data, mode)

    def _tree(self, done: list[Step], dropped: frozenset[int], loose: set[int], mode: str) -> Tree:
        names, folders = dict(self.names), set(self.folders)
        files = {inode: bytearray(data) for inode, data in self.files.items()}
        kept = len(loose) // 2
        for place, one in enumerate(done):
            if isinstance(one, Names):
                folders |= one.folders
                if place not in dropped:
                    for name, inode in one.changes.items():
                        names.pop(name, None)
                        if inode is not None:
                            names[name] = inode
            elif isinstance(one, Data | Size):
                how = "all"
                if place in loose:
                    how = mode if mode != "half" else "all" if kept > 0 else "none"
                    kept -= 1
                _change(files.setdefault(one.inode, bytearray()), one, how)
        tree: Tree = {}
        self._walk(self.root, "", names, folders, files, tree)
        return tree

    def _walk(
        self,
        folder: Inode,
        path: str,
        names: dict[tuple[Inode, str], Inode],
        folders: set[Inode],
        files: dict[Inode, bytearray],
        tree: Tree,
    ) -> None:
        for (parent, name), inode in names.items():
            if parent == folder:
                if inode in folders:
                    tree[path + name] = inode, None
                    self._walk(inode, f"{path}{name}/", names, folders, files, tree)
                else:
                    tree[path + name] = inode, bytes(files.get(inode, b""))


def _change(content: bytearray, one: Data | Size, how: str) -> None:
    if how == "none":
        return
    if isinstance(one, Size):
        content[one.size :] = b""
        content.extend(bytes(one.size - len(content)))
        return
    end = one.position + len(one.data)
    content.extend(bytes(max(0, end - len(content))))
    data = {"all": one.data, "zeros": bytes(len(one.data))}.get(how)
    content[one.position : end] = data if data is not None else b"\xaa" * len(one.data)


def _subsets(places: list[int], chance: random.Random) -> Iterator[frozenset[int]]:
    """Yield the sets of changes that are lost: all combinations, or the likeliest and some more."""
    if len(places) <= MOST_ALL:
        sizes = range(len(places) + 1)
        yield from map(frozenset, chain.from_iterable(combinations(places, n) for n in sizes))
        return
    whole = frozenset(places)
    yield from (frozenset(), whole)
    for place in places:
        yield frozenset({place})
        yield whole - {place}
        yield frozenset(one for one in places if one > place)
    for _ in range(SOME):
        yield frozenset(one for one in places if chance.random() < 0.5)
