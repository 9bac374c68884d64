"""Keys of levels: which levels of one file are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lodcli.formats.core.schema import rekeyed, schema_of
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def test_levels_get_keys_as_they_come_and_those_that_are_shared_one() -> None:
    lod = LoD.from_lengths([[1, 1], [2, 1]])
    other = LoD.from_lengths([[3]])
    schema = schema_of(
        {
            name: LoDTensor(np.zeros(3), index)
            for name, index in zip("abc", (lod, other, lod), strict=True)
        }
    )
    paths = {"0": "/a/0", "1": "/a/1", "2": "/b"}
    renamed = tuple(
        replace(spec, levels=tuple(replace(one, key=paths[one.key]) for one in spec.levels))
        for spec in schema
    )
    found = rekeyed(renamed)
    assert [[level.key for level in spec.levels] for spec in found] == [
        ["0", "1"],
        ["2"],
        ["0", "1"],
    ]
    assert found == schema


def test_specs_whose_keys_follow_the_rule_are_returned_as_they_are() -> None:
    schema = schema_of({"a": LoDTensor(np.zeros(3), [[2, 1]]), "b": LoDTensor(np.zeros(2), [[2]])})
    for spec, same in zip(schema, rekeyed(schema), strict=True):
        assert same is spec
