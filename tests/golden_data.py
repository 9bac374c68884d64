"""The golden cases: inputs and outputs computed with PaddlePaddle 2.6.2.

golden/README.md says what each op means and where the files come from.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Array = npt.NDArray[Any]


HERE = Path(__file__).parent / "golden"


def golden_dir() -> Path:
    """Return the folder of the golden files: $LOD_GOLDEN, by default the one beside this file.

    make_golden.py (see golden/README.md) writes other sets, with other seeds and sizes;
    LOD_GOLDEN=DIR runs the same tests on such a set.
    """
    named = os.environ.get("LOD_GOLDEN")
    return Path(named) if named else HERE


def is_another_set() -> bool:
    """Return whether the cases are from another set, whose number of cases may differ."""
    return golden_dir() != HERE


@dataclass(frozen=True)
class GoldenSlot:
    """One tensor of a case.

    Attributes:
        data: the rows.
        lod: nested offsets, outermost first; [] without levels.
    """

    data: Array
    lod: list[list[int]]


def tensor_of(slot: GoldenSlot) -> LoDTensor:
    return LoDTensor(slot.data, LoD(slot.lod))


@dataclass(frozen=True)
class GoldenCase:
    """One call of an op. A slot with several tensors is a list of them.

    Attributes:
        upstream: the upstream gradients of outputs; {} if the case has none.
        grads: the resulting gradients of inputs.
    """

    id: str
    op: str
    attrs: dict[str, Any]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    upstream: dict[str, Any]
    grads: dict[str, Any]
    note: str

    def tensor(self, slot: str) -> LoDTensor:
        """Return an input of one tensor."""
        return tensor_of(self.inputs[slot])

    def array(self, slot: str) -> Array | None:
        """Return the data of an input of one tensor; None if it is not given."""
        return self.inputs[slot].data if slot in self.inputs else None


@functools.cache
def _entries(file: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((golden_dir() / file).read_text())["cases"]
    return cases


@functools.cache
def golden_arrays(file: str) -> dict[str, Array]:
    """Return all arrays of a golden file; read-only, since they are cached for all tests."""
    with np.load(golden_dir() / file, allow_pickle=False) as archive:
        arrays = dict(archive)
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def golden_cases(*ops: str) -> list[GoldenCase]:
    """Return all cases of these ops, in the manifest's order."""
    return [_case(entry) for entry in _entries("manifest.json") if entry["op"] in ops]


def rejected_cases(*ops: str) -> dict[str, GoldenCase]:
    """Return by id the cases that PaddlePaddle rejects; the note is "reject" if an op must too."""
    entries = [entry for entry in _entries("rejects.json") if entry["op"] in ops]
    return {entry["id"]: _case(entry | {"note": entry["should"]}) for entry in entries}


def _case(entry: dict[str, Any]) -> GoldenCase:
    arrays = golden_arrays(entry["file"])

    def slot(described: Any) -> Any:
        if isinstance(described, list):
            return [slot(one) for one in described]
        return GoldenSlot(arrays[described["array"]], described["lod"])

    groups = {
        group: {name: slot(described) for name, described in entry.get(group, {}).items()}
        for group in ("inputs", "outputs", "upstream", "grads")
    }
    return GoldenCase(
        id=entry["id"], op=entry["op"], attrs=entry["attrs"], note=entry.get("note") or "", **groups
    )
