"""Damaged files of every base, in short, and that the fuzzer finds planted faults.

`python -m tests.reliability --fuzz` tries all of it at length.
"""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.core.table import TABLE
from lodcli.formats.stream import frames
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.reliability.fuzz import campaign, known, reading, watchdog
from tests.reliability.fuzz.bases import BASES
from tests.reliability.mutators import hdf5
from tests.reliability.mutators.table import FIELDS, REPAIRED
from tests.sampling import many

NEEDS = {
    "tfrecord, theirs": "tfrecord",
    "zarr": "zarr",
    "torch": "torch",
    "weights, torch": "torch",
    "weights, onnx": "onnx",
}
QUICK = ("lod.stream", "lod.h5", "megatron", "weights, safetensors")
FILES = many(100)


def _require(name: str) -> None:
    if name.endswith((".zst", "zst", "mds, streaming zstd")):
        pytest.importorskip("zstandard")
    if any(codec in name for codec in ("lz4", "zstd", "blosc")):
        pytest.importorskip("hdf5plugin")
    for start, module in NEEDS.items():
        if name.startswith(start) or (module == "onnx" and name.endswith(".onnx")):
            pytest.importorskip(module)


def _check(name: str, count: int) -> None:
    _require(name)
    tally = campaign.run(name, count)
    assert tally.tried == count
    assert not tally.faults, "\n".join(map(str, tally.faults))


@pytest.mark.parametrize("name", QUICK)
def test_a_few_damaged_files_are_refused_or_read_right(name: str) -> None:
    _check(name, FILES // 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_damaged_files_are_refused_or_read_right(name: str) -> None:
    _check(name, FILES)


def test_every_format_is_damaged() -> None:
    assert {name.partition(",")[0] for name in BASES} == {*TABLE, "weights"}


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_the_content_of_a_base_is_what_is_read(name: str, tmp_path: Path) -> None:
    _require(name)
    base = BASES[name]()
    assert name.partition(",")[0] == base.format
    for file, content in base.files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    target = reading.Target.of(base)
    for number, operation in enumerate(dict.fromkeys(reading.operations(target))):
        assert reading.read(target, tmp_path, operation, number).outcome == reading.SAME
    if base.oracle:
        assert reading.judge(target, tmp_path).outcome == reading.CHANGED  # which agrees


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_mutators_change_files_and_repeat_themselves(name: str) -> None:
    _require(name)
    base = BASES[name]()
    for file, content in base.files.items():
        for mutator in (*REPAIRED.get(base.kind(file), ()), *FIELDS.get(base.kind(file), ())):
            made = [mutator(content, np.random.default_rng(seed)) for seed in range(20)]
            assert made == [mutator(content, np.random.default_rng(seed)) for seed in range(20)]
    files = [campaign.damaged(name, 1, number).files for number in range(40)]
    assert sum(one != base.files for one in files) > 30


@pytest.mark.slow
def test_checksums_of_hdf5_are_right_after_damage() -> None:
    (raw,) = BASES["hdf5, latest chunks"]().files.values()
    blocks = hdf5.sealed_blocks(raw)
    # By HDF5 itself: the superblock, the object headers, the index of the chunks.
    assert {raw[start : start + 4] for start, _ in blocks} == {
        b"\x89HDF",
        b"OHDR",
        b"EAHD",
        b"EAIB",
    }
    assert len(hdf5.sealed_chunks(raw)) == 4
    assert all(
        int.from_bytes(raw[end : end + 4], "little") == hdf5.fletcher32(raw[start:end])
        for start, end in hdf5.sealed_chunks(raw)
    )
    for seed in range(20):
        changed = hdf5.exchange_sealed_structures(raw, np.random.default_rng(seed))
        assert len(hdf5.sealed_blocks(changed)) >= len(blocks) - 1
        changed = hdf5.change_a_chunk(raw, np.random.default_rng(seed))
        for start, end in hdf5.sealed_chunks(raw):
            there = int.from_bytes(changed[end : end + 4], "little")
            assert there == hdf5.fletcher32(changed[start:end])


# -- planted faults: the fuzzer can fail -------------------------------------------------


def _in_read(fault: Callable[[], object]) -> None:
    """Let reading fail in some way wherever it would refuse a file."""
    before = lodcli.open

    def opened(*args: object, **options: object) -> object:
        path = args[0]
        try:
            with before(*args, **options) as source:  # type: ignore[arg-type]
                source.read()
        except InvalidDataError:
            fault()
        return before(path, **options)  # type: ignore[arg-type]

    lodcli.open = opened  # type: ignore[assignment]


def _crash() -> None:
    _in_read(os.abort)


def _hang() -> None:
    def loop() -> None:
        while True:
            pass

    _in_read(loop)


def _sleep() -> None:
    _in_read(lambda: time.sleep(3600))


def _memory() -> None:
    _in_read(lambda: np.ones(2 << 30, np.uint8))


def _traceback() -> None:
    _in_read(lambda: dict[str, int]()["x"])


def _mute() -> None:
    def fail() -> None:
        raise InvalidDataError("something is wrong")

    _in_read(fail)


def _noise() -> None:
    _in_read(lambda: os.write(1, b"oops"))


def _no_checksum_of_frames() -> None:
    frames._check_payload = lambda frame, crc: None


def _no_checksum_of_members() -> None:
    zipfile.ZipExtFile._update_crc = lambda self, data: None  # type: ignore[attr-defined]


PLANTED = {
    "crash": (_crash, "npz", reading.CRASH),
    "hang": (_hang, "npz", reading.HANG),
    "sleep": (_sleep, "npz", reading.HANG),
    "memory": (_memory, "npz", reading.MEMORY),
    "traceback": (_traceback, "npz", reading.INTERNAL),
    "names no file": (_mute, "npz", reading.UNCLEAR),
    "noise": (_noise, "npz", reading.UNCLEAR),
    "stream without checksums": (_no_checksum_of_frames, "lod.stream", reading.SILENT),
    "zip without checksums": (_no_checksum_of_members, "npz, several", reading.SILENT),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, base, outcome = PLANTED[name]
    monkeypatch.setattr(watchdog, "CPU_SECONDS", 1.0)
    monkeypatch.setattr(watchdog, "WALL_SECONDS", 10.0 if name == "sleep" else 600.0)
    count = 1 if name == "sleep" else 600 if outcome == reading.SILENT else 3
    tally = campaign.run(base, count, plant=plant)
    assert outcome in {fault.answer.outcome for fault in tally.faults}


def test_content_that_differs_is_reported() -> None:
    one = known.known(np.arange(6.0), [[1, 2], [3, 0, 3]], ["a", "b"])
    others = [
        replace(one, dtype="int64"),
        replace(one, shape=(3, 2)),
        replace(one, rows=bytes(len(one.rows))),
        replace(one, lengths=((1, 2), (3, 1, 2))),
        replace(one, names=("a", None)),
        replace(one, order=(0, 1)),
    ]
    assert known.difference({"x": one}, {"x": one}) is None
    assert known.difference({"x": one}, {"x": replace(one, names=None)}) is None
    assert known.difference({"x": one}, {"y": one})
    for other in others:
        assert known.difference({"x": other}, {"x": one})


def test_an_index_that_breaks_a_rule_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = LoDTensor(np.arange(3.0), LoD.from_lengths([[2], [1, 2]]))
    assert known.seen({"x": tensor})["x"].lengths == ((2,), (1, 2))
    for broken in (
        [[1, 2], [0, 1, 3]],
        [[0, 2], [0, 4, 3]],
        [[0, 1], [0, 1, 3]],
        [[0, 2], [0, 1, 2]],
    ):
        levels = tuple(map(np.array, broken))
        monkeypatch.setattr(LoD, "levels", levels)
        with pytest.raises(known.UnsoundError):
            known.seen({"x": tensor})


def test_a_slice_of_known_content_is_what_plain_lists_say() -> None:
    whole = {"x": known.ragged([[[1, 2], [3]], [], [[4], []]], 2, "int64")}
    assert known.items_of(whole, 1, 3) == {"x": known.ragged([[], [[4], []]], 2, "int64")}
