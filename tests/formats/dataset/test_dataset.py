"""Datasets: reading shards returns the same as reading one file."""

from __future__ import annotations

import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import schema_of
from lodcli.formats.dataset import manifest as manifests
from lodcli.formats.dataset.manifest import Manifest, shard_name
from lodcli.formats.dataset.source import DatasetSource
from lodcli.formats.dataset.writer import together, write_manifest
from lodcli.formats.items.indexed_copy import copied
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import OptionError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls
from tests.formats.cases.processes import python
from tests.growth import calls_of, lines_of
from tests.hanging import HANG_SECONDS
from tests.sampling import many
from tests.strategies import tensors

EXAMPLES = settings(
    max_examples=many(40, share=4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
KEYS = st.integers(-4, 4) | st.builds(
    slice, st.none() | st.integers(-4, 4), st.none() | st.integers(-4, 4)
)
DIVIDED: st.SearchStrategy[dict[str, int]] = st.builds(dict, shards=st.integers(1, 5)) | st.builds(
    dict, shard_bytes=st.integers(1, 90)
)


def sharded(folder: Path, content: Any, **how: Any) -> Path:
    path = folder / "ds"
    io.write(path, content, format_name="lod.dataset", overwrite=True, **how)
    return path


def articles() -> dict[str, LoDTensor]:
    """Articles of sentences of words, their tags, a label beside each article, and 3 names."""
    rng = np.random.default_rng(7)
    sentences = rng.integers(0, 4, 12)
    words = rng.integers(0, 5, sentences.sum())
    lod = LoD.from_lengths([sentences, words], ["article", "sentence"])
    ids = LoDTensor(np.arange(words.sum()), lod)
    tags = LoDTensor(rng.random(words.sum()), lod)
    nulls = Nulls.of([rng.random(12) < 0.7])
    label = LoDTensor(np.arange(12, dtype=np.int8), nulls=nulls)
    return {"ids": ids, "tags": tags, "label": label, "names": LoDTensor(np.array([4, 5, 6]))}


@EXAMPLES
@given(tensor=tensors(max_levels=3), how=DIVIDED, branch=st.lists(KEYS, max_size=3), data=st.data())
def test_a_slice_of_shards_is_that_of_one_file(
    tmp_path: Path, tensor: LoDTensor, how: dict[str, Any], branch: list[Key], data: st.DataObject
) -> None:
    level = data.draw(st.integers(-tensor.lod.n_levels, max(0, tensor.lod.n_levels - 1)))
    path = sharded(tmp_path, tensor, **how)
    io.write(tmp_path / "t.lod.h5", tensor, overwrite=True)
    with lodcli.open(path) as shards, lodcli.open(tmp_path / "t.lod.h5") as one:
        whole = shards.read()["data"]
        assert whole.identical(tensor)
        assert shards.read_index("data") == tensor.lod
        assert LoD.concatenate(list(shards.index_parts("data"))) == tensor.lod
        try:
            expected = one.slice("data", tuple(branch), level)
        except SelectionError as error:
            said = str(error).removeprefix(f"{tmp_path}/t.lod.h5: ")
            with pytest.raises(SelectionError, match=re.escape(said)):
                shards.slice("data", tuple(branch), level)
            return
        assert shards.slice("data", tuple(branch), level).identical(expected)


@pytest.mark.parametrize("how", [{"shards": 5}, {"shard_bytes": 100}, {}], ids=str)
@pytest.mark.parametrize("streamed", [False, True])
def test_all_tensors_of_a_file_are_kept(
    tmp_path: Path, how: dict[str, Any], streamed: bool
) -> None:
    content = articles()
    path = sharded(tmp_path, content, **how)
    if streamed:  # in batches of tensors that come apart, one after another
        shutil.rmtree(path)
        with copied(schema_of(content), [content]) as source:
            options = WriteOptions(**how)
            io.write_batches(
                path, source.schema, source.batches(64), format_name="lod.dataset", options=options
            )
    found = io.read_all(path)
    assert list(found) == list(content)
    for name, item in found.items():
        assert item.identical(content[name]), name
    assert found["ids"].lod is found["tags"].lod
    # What belongs together is in one shard.
    for shard in sorted(path.glob("data-*")):
        one = io.read_all(shard)
        assert len(one["ids"]) == len(one["tags"]) == len(one["label"])


def test_shards_are_about_equal_and_no_larger_than_asked(tmp_path: Path) -> None:
    tensor = LoDTensor(np.zeros(100_000, np.uint8), [[100] * 1000])
    path = sharded(tmp_path, tensor, shards=8)
    sizes = [len(io.read(one)) for one in sorted(path.glob("data-*"))]
    assert sum(sizes) == 1000
    assert max(sizes) - min(sizes) <= 1
    path = sharded(tmp_path, tensor, shard_bytes=108 * 300)
    sizes = [len(io.read(one)) for one in sorted(path.glob("data-*"))]
    assert sizes == [300, 300, 300, 100]


def test_a_slice_opens_one_shard_and_opening_none(tmp_path: Path) -> None:
    path = sharded(tmp_path, articles(), shards=4)
    opened: list[int] = []
    original = DatasetSource._opened

    def counting(self: DatasetSource, number: int) -> Any:
        opened.append(number)
        return original(self, number)

    with mock.patch.object(DatasetSource, "_opened", counting), lodcli.open(path) as source:
        assert not opened
        source.slice("ids", (5,))
        source.slice("ids", (7,), level="sentence")
        assert len(opened) == len(set(opened)) <= 2
        for empty in (slice(0, 0), slice(12, None)):
            assert source.slice("ids", (empty,)).identical(articles()["ids"][empty])
    for name in sorted(path.glob("data-*"))[1:]:
        name.unlink()  # others need not even be there
    with lodcli.open(path) as source:
        assert source.slice("ids", (0,)).identical(articles()["ids"][0])


def test_the_index_is_read_with_one_opening_of_each_shard(tmp_path: Path) -> None:
    path = sharded(tmp_path, articles(), shards=4)
    opened: list[str] = []
    original = Input.inside

    def counting(self: Input, name: str) -> Input:
        opened.append(name)
        return original(self, name)

    with lodcli.open(path) as source, mock.patch.object(Input, "inside", counting):
        assert source.read_index("ids") == articles()["ids"].lod
        assert source.read_index("label") == articles()["label"].lod
    assert opened == [shard_name(number, 4) for number in range(4)]


def test_tensors_of_unequal_lengths_are_divided_in_linear_work() -> None:
    def divide(count: int) -> int:
        schema = schema_of({f"x{n}": LoDTensor(np.zeros(n)) for n in range(count)})
        return lines_of(lambda: together(schema))

    few, more, most = map(divide, (50, 100, 200))
    assert most - more < 2.05 * (more - few)


MANY = """
import re, sys
import lodcli
def most_kib():
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
with lodcli.open(sys.argv[1]) as source:
    assert source.slice("data", (int(sys.argv[3]),)).data.tolist() == [0]
before = most_kib()
with lodcli.open(sys.argv[2]) as source:
    assert source.slice("data", (int(sys.argv[4]),)).data.tolist() == [1, 2]
print(most_kib() - before)
"""


def test_a_slice_of_a_hundred_thousand_shards_takes_little_memory(tmp_path: Path) -> None:
    """All but the one that is asked for are missing."""
    count, item = 100_000, 123_456
    tensor = LoDTensor(np.array([0, 1, 2], np.int32), [[1, 2]])
    (tmp_path / "small").mkdir()
    small, path = (sharded(folder, tensor, shards=1) for folder in (tmp_path / "small", tmp_path))
    with Input(path / manifests.NAME) as file:
        one = Manifest.read(ContainerSource(file.make_seekable().fileno(), "one"))
    (path / shard_name(0, 1)).rename(path / shard_name(item // 2, count))
    many = Manifest.of(
        one.schema, [[2, 3]] * count, one.sizes.tolist() * count, np.repeat(one.sums, count)
    )
    with Output(path / manifests.NAME, overwrite=True, seekable=True) as output:
        write_manifest(output, many)
    done = python(MANY, small, path, 0, item + 1)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 50_000  # KiB


REFUSALS = (DamagedFileError, NotThisFormatError)
PAGE = "begins like HTML or XML; if a server sent it in place of the file, fetch the file again"


def missing(path: Path) -> None:
    path.unlink()


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def foreign(path: Path) -> None:
    """A shard of another dataset with the same sizes."""
    other = path.parent.parent / "other"
    content = {name: tensor for name, tensor in articles().items()}
    content["ids"] = LoDTensor(content["ids"].data + 1, content["ids"].lod)
    io.write(other, content, format_name="lod.dataset", shards=4)
    shutil.copy(other / path.name, path)


def a_page(path: Path, size_bytes: int = 2_000) -> None:
    """An error page, by default larger than any pointer of Git LFS."""
    path.write_text("<!DOCTYPE html><html><body>Not found</body></html>".ljust(size_bytes))


def a_page_of_its_size(path: Path) -> None:
    a_page(path, path.stat().st_size)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            missing,
            "is missing; the manifest names 4 shards; restore it from a copy .*, or lod shard "
            r".*/data-\*.lod.h5' NEW makes a dataset of the others, without its items$",
        ),
        (longer, "expected [0-9]+ bytes as in the manifest, found [0-9]+; .*; restore it from a"),
        (foreign, "/header: expected CRC32C [0-9a-f]{8} as in the manifest, found .*; restore it"),
        (a_page, f"expected [0-9]+ bytes as in the manifest, found 2000; it {PAGE}$"),
        (a_page_of_its_size, f"is not an HDF5 file; it {PAGE}$"),
        (a_folder, "is not a regular file"),
    ],
)
def test_a_shard_that_is_not_the_one_meant_is_named_before_any_work(
    tmp_path: Path, change: Any, said: str
) -> None:
    path = sharded(tmp_path, articles(), shards=4)
    shard = shard_name(2, 4)
    change(path / shard)
    with lodcli.open(path) as source:
        for work in (source.batches, lambda: iter([source.read_index("ids")])):
            with pytest.raises(
                (DamagedFileError, NotThisFormatError), match=f"^{path}: {shard}: {said}"
            ):
                next(iter(work()))  # not only when it is its turn
        with pytest.raises(REFUSALS, match=shard):
            source.slice("ids", (slice(None),))
        assert source.slice("ids", (0,)).identical(articles()["ids"][0])


def test_a_page_in_place_of_the_manifest_is_named(tmp_path: Path) -> None:
    path = sharded(tmp_path, articles(), shards=1)
    a_page(path / manifests.NAME)
    said = f"{manifests.NAME}: is not an HDF5 file; it {PAGE}$"
    with pytest.raises(NotThisFormatError, match=said):
        io.read_all(path)


def test_a_shard_that_no_manifest_names_is_named(tmp_path: Path) -> None:
    path = sharded(tmp_path, articles(), shards=4)
    shutil.copy(path / shard_name(0, 4), path / shard_name(0, 5))
    said = r"00005\.lod\.h5: the manifest, of 4"
    with pytest.raises(DamagedFileError, match=said):
        io.read_all(path)
    with lodcli.open(path) as source, pytest.raises(DamagedFileError, match=said):
        list(source.index_parts("ids"))


def test_shards_without_a_manifest_are_read_as_files_and_say_so(tmp_path: Path) -> None:
    path = sharded(tmp_path, articles(), shards=2)
    whole = io.read_all(path)
    (path / manifests.NAME).unlink()
    with lodcli.open(path) as file:
        assert any("2 files without a manifest" in note for note in file.notes)
        found = file.read()
    for name, item in found.items():
        assert item.identical(whole[name])


def test_content_and_options_that_do_not_fit_a_dataset_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no tensor called shard-bytes"):
        sharded(tmp_path, {"shard-bytes": LoDTensor(np.arange(3))})
    with pytest.raises(OptionError, match="exclude each other"):
        sharded(tmp_path, articles(), shards=2, shard_bytes=5)
    with pytest.raises(OptionError, match="shards: expected a whole number from 1, found 0"):
        sharded(tmp_path, articles(), shards=0)
    assert not (tmp_path / "ds").exists()


def test_the_last_reader_removes_a_folder_that_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "d"
    old, new = (LoDTensor(np.arange(n), [[1] * n]) for n in (3, 5))
    lodcli.write(path, old, format_name="lod.dataset")
    with lodcli.open(path) as last:
        with lodcli.open(path):
            lodcli.write(path, new, format_name="lod.dataset", overwrite=True)
        assert len(os.listdir(tmp_path)) == 2
        assert last.slice("data", (slice(0, 3),)).identical(old)
    assert os.listdir(tmp_path) == ["d"]
    assert lodcli.read(path).identical(new)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    path = sharded(tmp_path, articles(), shards=12)
    before = len(os.listdir("/proc/self/fd"))
    with lodcli.open(path) as source:
        source.read_index("ids")
        assert len(os.listdir("/proc/self/fd")) < before + 12
        next(iter(source.batches()))
    assert len(os.listdir("/proc/self/fd")) == before


def test_another_program_reads_the_manifest(tmp_path: Path) -> None:
    """As docs/formats/lod.dataset.md describes it, with h5py alone."""
    path = sharded(tmp_path, articles(), shards=4)
    rows = []
    with h5py.File(path / manifests.NAME) as manifest:
        totals = manifest["shard-totals/data"][:]
        for number, size in enumerate(manifest["shard-bytes/data"][:]):
            shard = path / f"data-{number:05d}-of-00004.lod.h5"
            assert shard.stat().st_size == size
            with h5py.File(shard) as file:
                rows.append(file["ids/data"][:])
                assert totals[number + 1, 2] - totals[number, 2] == len(rows[-1])
    assert np.concatenate(rows).tolist() == articles()["ids"].data.tolist()


def reading(source: DatasetSource, release: threading.Event) -> threading.Thread:
    """Return a thread that reads a shard until it is released."""
    begun = threading.Event()

    def read() -> None:
        with source._shard(0) as shard:
            begun.set()
            release.wait(HANG_SECONDS)
            found.append(shard.read_rows("ids", 0, 1).size)

    found: list[int] = []
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    assert begun.wait(HANG_SECONDS)
    return thread


def test_closing_waits_for_no_reader_which_closes_the_shards(tmp_path: Path) -> None:
    with Input(sharded(tmp_path, articles(), shards=2)) as folder:
        source, release = DatasetSource(folder), threading.Event()
        thread = reading(source, release)
        closing = threading.Thread(target=source.close, daemon=True)
        closing.start()
        closing.join(5)
        waited = closing.is_alive()
        kept = len(source._open)
        release.set()
        thread.join(HANG_SECONDS)
        closing.join(HANG_SECONDS)
        assert (waited, kept, len(source._open)) == (False, 1, 0)


def test_a_reader_that_is_closed_by_a_garbage_collector_reads_on(tmp_path: Path) -> None:
    with Input(sharded(tmp_path, articles(), shards=2)) as folder:
        source = DatasetSource(folder)
        with source._shard(0) as shard:
            source.close()  # in the same thread
            assert shard.read_rows("ids", 0, 1).tolist() == [0]
        assert not source._open


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_reads_a_dataset_that_a_thread_was_reading(tmp_path: Path) -> None:
    path = sharded(tmp_path, articles(), shards=2)
    code = f"""
import os, signal, threading
from lodcli.formats.dataset.source import DatasetSource
from lodcli.formats.storage.inputs import Input
source = DatasetSource(Input({str(path)!r}))
begun = threading.Event()
def hold():
    with source._shard(0):
        begun.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)  # ends a child that waits for the lock
    source.read_rows(source.schema[0].name, 0, 1)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert python(code, check=True).stdout == "7\n"


def test_the_indexes_of_several_tensors_are_read_shard_by_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = calls_of(monkeypatch, DatasetSource, "_file")
    content = {name: LoDTensor(np.zeros(12 * n), [[n] * 12]) for n, name in enumerate("abc", 1)}
    with Input(sharded(tmp_path, content, shards=12)) as folder:
        source = DatasetSource(folder)
        parts = list(source.index_parts_of("ac"))
        source.close()
    assert [number for _, number, _ in opened] == list(range(12))
    for name in "ac":
        whole = LoD.concatenate([part for called, part in parts if called == name])
        assert whole == content[name].lod
