"""The files that commands write for a seed, byte for byte."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import click
import pytest

from lodcli.commands import TABLE
from lodcli.formats.core import io
from lodcli.shell.group import group
from lodcli.shell.options import WholeNumber
from tests.formats.items.test_reordering import WAYS, choose, content
from tests.lodcli.conftest import Lod

# The beginning of the SHA-256 of all files that a command writes.
WRITTEN = {
    "shuffle in.lod.h5 --seed 1 -o out.safetensors": "36e468e8e961070b",
    "shuffle in.lod.h5 --seed 2 -o out.jsonl": "6db2b26df459fecd",
    "split in.lod.h5 --by fractions 0.8,0.1,0.1 --seed 7 -o out-{}.safetensors": "2f8b3f23d6f04175",
    "split in.lod.h5 --by count 7 --seed 8 -o out-{}.jsonl": "b9ae8c140a0ec49a",
    # As libhdf5 lays it out: the same for all ways, not for all its versions.
    "split in.lod.h5 --by fractions 0.5,0.5 --seed 9 -o out-{}.lod.h5": None,
}


@pytest.mark.parametrize("command", WRITTEN)
def test_the_bytes_of_a_seed_are_always_the_same(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    io.write(folder / "in.lod.h5", content([[n % 4, n % 3] for n in range(20)]))
    sums = set()
    for way in WAYS:
        choose(monkeypatch, way)
        assert lod(*shlex.split(command), "--force").code == 0
        found = hashlib.sha256()
        for path in sorted(folder.glob("out*")):
            found.update(path.read_bytes())
        sums.add(found.hexdigest()[:16])
    assert len(sums) == 1
    assert WRITTEN[command] in (None, *sums)


def test_every_seed_has_the_same_bounds() -> None:
    context, found = click.Context(group), {}
    commands = [(name, group.get_command(context, name)) for name in TABLE]
    bench = dict(commands)["bench"]
    assert isinstance(bench, click.Group)
    for name, command in [*commands, *bench.commands.items()]:
        assert command is not None
        for one in command.params:
            if "--seed" in one.opts:
                assert one.type.convert(str(2**64 - 1), one, context) == 2**64 - 1
                for text in ("-1", str(2**64)):
                    with pytest.raises(click.BadParameter):
                        one.type.convert(text, one, context)
                found[name] = type(one.type)
    assert {*found} >= {"kernels", "plan", "run-rnn", "sample", "shuffle", "split", "train"}
    assert set(found.values()) == {WholeNumber}
