"""Independent readers of the same files, without lod's code.

With repaired checksums, a changed file is a valid file with other content. Each function takes the
path of a file and returns its content, or raises any exception if the file is invalid.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np

from tests.reliability.fuzz.known import Content, Known, known

# What they import, by oracle: memory is limited afterwards.
NEEDS = {"torch_file": ("torch",)}

Pairs = list[tuple[str, Any]]


def _unique(pairs: Pairs) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), "a member comes twice"
    return dict(pairs)


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _checked(offsets: list[list[int]], rows: int) -> list[list[int]]:
    """Return the lengths of nested offsets, outermost first."""
    for level, below in zip(
        offsets, [*(len(one) - 1 for one in offsets[1:]), rows], strict=bool(offsets)
    ):
        assert level[0] == 0
        assert level[-1] == below
        assert sorted(level) == level
    return [[after - at for at, after in pairwise(one)] for one in offsets]


def _nulls(masks: dict[int, list[int]]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return, by level, the items that are null: of the places of zeros."""
    return tuple((level, tuple(places)) for level, places in sorted(masks.items()) if places)


def _zeros(bits: bytes, count: int) -> list[int]:
    """Return which of `count` bits are 0, the lowest of a byte first."""
    assert len(bits) == (count + 7) // 8
    return [place for place in range(count) if not bits[place // 8] >> place % 8 & 1]


def container(path: Path) -> Content:
    """Read a lod container as docs/format.md says, with h5py alone."""
    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401 - the codecs register themselves

    with h5py.File(path) as file:
        header = json.loads(file["header"][()], object_pairs_hook=_unique)
        datasets = header["datasets"]

        def array(name: str) -> np.ndarray[Any, Any]:
            dataset, entry = file[name], datasets[name]
            assert isinstance(file.get(name, getlink=True), h5py.HardLink)
            data = dataset[()]
            if entry["dtype"] == "bfloat16":
                data = data.view(ml_dtypes.bfloat16) if data.dtype.itemsize == 2 else data
            assert list(data.shape) == entry["shape"]
            return np.asarray(data, _dtype(entry["dtype"]))

        def offsets(levels: list[Any]) -> list[list[int]]:
            return [array(level["offsets"]).tolist() for level in levels]

        found = {}
        for name, entry in header["tensors"].items():
            rows = array(entry["data"])
            lengths = _checked(offsets(entry["levels"]), len(rows))
            one = known(rows, lengths, [level["name"] for level in entry["levels"]])
            if entry["kind"] == "array":
                outer = offsets(entry["outer"])
                order = tuple(array(entry["order"]).tolist())
                told = tuple(map(tuple, _checked(outer, outer[-1][-1])))
                one = replace(one, names=None, order=order, outer=told)
            masks = {}
            for level in entry.get("marks", {}).get("nulls", ()):
                rest = level if level < len(lengths) else "rows"
                bits = array(f"{entry['data'].removesuffix('data')}valid/{rest}")
                count = len(lengths[level]) if level < len(lengths) else len(rows)
                masks[level] = _zeros(bits.tobytes(), count)
            found[name] = replace(one, nulls=_nulls(masks))
        return found


def stream(path: Path) -> Content:
    """Read a lod stream as docs/stream.md says."""
    raw, at = path.read_bytes(), 8
    assert raw[:8] in (b"\x89LODS\r\n\x01", b"\x89LODS\r\n\x02")
    frames = []
    while at < len(raw):
        kind, _, _, _, part, size, _, _ = struct.unpack_from("<BBBBIQII", raw, at)
        payload = raw[at + 24 : at + 24 + size]
        assert len(payload) == size
        frames.append((kind, part, payload))
        at += 24 + size
    header = json.loads(frames[0][2], object_pairs_hook=_unique)
    assert [kind for kind, _, _ in frames].count(6) == 1
    assert frames[-1][0] == 6
    offsets = [[0] for _ in header["levels"]]
    rows = [b"" for _ in header["tensors"]]
    order: dict[int, tuple[int, ...]] = {}
    base = [0] * len(offsets)
    masks: dict[tuple[int, int, int], bytes] = {}
    starts: list[tuple[list[int], list[int]]] = []
    for kind, part, payload in frames[1:-1]:
        if kind == 2:
            base = [level[-1] for level in offsets]
            starts.append(([len(level) - 1 for level in offsets], list(map(len, rows))))
        elif kind == 3:
            offsets[part] += [base[part] + one for (one,) in struct.iter_unpack("<q", payload)]
        elif kind == 4:
            rows[part] += payload
        elif kind == 5:
            order[part] = order.get(part, ()) + tuple(
                one for (one,) in struct.iter_unpack("<q", payload)
            )
        elif kind == 7:
            mask = len(starts) - 1, *divmod(part, 256)
            masks[mask] = masks.get(mask, b"") + payload
    starts.append(([len(level) - 1 for level in offsets], list(map(len, rows))))
    found = {}
    for number, entry in enumerate(header["tensors"]):
        dtype, row_shape = _dtype(entry["dtype"]), entry["row_shape"]
        row_bytes = dtype.itemsize * int(np.prod(row_shape, dtype=np.int64))
        names = tuple(header["levels"][level]["name"] for level in entry["levels"])
        levels = [offsets[level] for level in entry["levels"]]
        count = (
            len(rows[number]) // row_bytes
            if row_bytes
            else json.loads(frames[-1][2])["tensors"][number]
        )
        assert count * row_bytes == len(rows[number])
        lengths = tuple(map(tuple, _checked(levels, count)))
        one = Known(entry["dtype"], (count, *row_shape), rows[number], lengths, names)
        if entry["array"]:
            outer = [offsets[level] for level in entry["array"]["outer"]]
            told = tuple(map(tuple, _checked(outer, outer[-1][-1])))
            one = replace(one, names=None, order=order.get(number, ()), outer=told)
        missing: dict[int, list[int]] = {}
        for (batch, tensor, level), bits in masks.items():
            if tensor == number:
                start, stop = (
                    items[entry["levels"][level]]
                    if level < len(levels)
                    else size[number] // row_bytes
                    for items, size in starts[batch : batch + 2]
                )
                zeros = [start + place for place in _zeros(bits, stop - start)]
                missing[level] = missing.get(level, []) + zeros
        found[entry["name"]] = replace(one, nulls=_nulls(missing))
    return found


def npz(path: Path) -> Content:
    """Read an archive with NumPy, named as docs/formats/npz.md says."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    assert len(arrays) == len(file.files)
    found = {}
    for name, array in arrays.items():
        owner, slash, part = name.rpartition("/")
        ours = (owner != "" or not slash) and "/" not in owner
        if ours and re.fullmatch(r"lod\.(0|[1-9][0-9]?)", part):
            continue
        ours = ours and part == "data"
        called = (owner.removeprefix("::") or "data") if ours else name
        levels: list[list[int]] = []
        while ours and (level := f"{owner}{slash}lod.{len(levels)}") in arrays:
            levels.append(arrays[level].tolist())
        native = array.astype(array.dtype.newbyteorder("="))
        lengths = _checked(levels, len(array))
        found[_tensor_name(called)] = known(native, lengths)
    return found


def _tensor_name(text: str) -> str:
    """Return the name of a tensor that is called so in a file: docs/formats.md."""
    return re.sub(r"[\0-\x1f\x7f-\x9f/]|(?<=:):", _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


_PACKED = ("batch_sizes", "sorted_indices", "unsorted_indices")


def torch_file(path: Path) -> Content:
    """Read a .pt file with torch: tensors, lists of them, and dicts of those."""
    import torch
    import torch._dynamo  # without which it loads no nested tensor

    with torch.serialization.safe_globals([torch.nn.utils.rnn.PackedSequence]):
        value = torch.load(path, weights_only=True)
    if isinstance(value, dict) and set(value) == {"data", *_PACKED}:
        value = torch.nn.utils.rnn.PackedSequence(value["data"], *(value[name] for name in _PACKED))
    if not isinstance(value, dict):
        return {"data": _torch(value)}
    if set(value) == {"padded", "lengths"}:
        return {"data": _torch((value["padded"], value["lengths"]))}
    found = {}
    for name, one in value.items():
        if name.startswith("lod."):
            continue
        if name == "data" and "lod.0" in value:
            keys = sorted(key for key in value if key.startswith("lod."))
            levels = [value[key].tolist() for key in keys]
            found[name] = known(one.numpy(), _checked(levels, len(one)))
        else:
            found[_tensor_name(name)] = _torch(one)
    return found


def _torch(value: Any) -> Known:
    import torch

    if isinstance(value, torch.Tensor) and value.is_nested:
        value = list(value.unbind())
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.bfloat16:
            bits = value.view(torch.uint16).numpy()
            return replace(known(bits), dtype="bfloat16")
        return known(value.numpy())
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return _packed(value)
    if isinstance(value, tuple) and value[0].ndim > 1:
        value = [rows[:count] for rows, count in zip(value[0], value[1].tolist(), strict=True)]
    levels: list[list[int]] = []
    while not all(isinstance(one, torch.Tensor) for one in value):
        levels.append([len(one) for one in value])
        value = [inner for one in value for inner in one]
    levels.append([len(one) for one in value])
    assert len({(one.dtype, one.shape[1:]) for one in value}) == 1
    return known(np.concatenate([one.numpy() for one in value]), levels)


def _packed(value: Any) -> Known:
    sizes = value.batch_sizes.tolist()
    order = tuple(range(sizes[0])) if value.sorted_indices is None else None
    order = order or tuple(value.sorted_indices.tolist())
    lengths = [0] * sizes[0]
    for place, one in enumerate(order):
        lengths[one] = sum(size > place for size in sizes)
    assert sorted(sizes, reverse=True) == sizes
    assert sorted(order) == list(range(sizes[0]))
    if value.unsorted_indices is not None:
        assert [order[one] for one in value.unsorted_indices.tolist()] == list(range(sizes[0]))
    return replace(known(value.data.numpy(), [sizes]), order=order, outer=(tuple(lengths),))
