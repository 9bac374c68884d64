"""Files behind URLs: the same content, few requests, and clear errors."""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.remote import urllib3_object
from lodcli.formats.remote.fetched import GRAIN_BYTES
from lodcli.formats.remote.urls import is_url, shown
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import (
    KINDS,
    Content,
    check_same,
    read_back,
    require,
    sparse,
    written,
)
from tests.formats.cases.opening import tensors_of
from tests.formats.cases.processes import lod
from tests.formats.cases.range_server import Reply, Server, serving
from tests.formats.core.test_round_trips import PLAIN

LENGTHS = np.random.default_rng(7).integers(0, 90, 4000)
LARGE = LoDTensor(
    np.arange(int(LENGTHS.sum()) * 16, dtype=np.float32).reshape(-1, 16),
    LoD.from_lengths([LENGTHS.tolist()]),
)
LINES = b"".join(b'{"ids":[%d,%d]}\n' % (number, number + 1) for number in range(120_000))


def _whole(url: str | Path, **options: Any) -> LoDTensor:
    return lodcli.read(url, **options)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("urllib3")
    monkeypatch.setattr(urllib3_object, "FIRST_PAUSE_SECONDS", 0)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("large") / "t.lod.h5"
    io.write(path, LARGE)
    return path.read_bytes()


@pytest.fixture
def server(large: bytes) -> Iterator[Server]:
    with serving(large=large, lines=LINES, empty=b"") as found:
        yield found


@pytest.mark.parametrize("name", [name for name in KINDS if table.get(name).layout == "file"])
def test_every_format_of_one_file_is_read_from_a_url(name: str, tmp_path: Path) -> None:
    require(name)
    content: Content = {"data": PLAIN[name]}
    content = sparse(content) if name == "h5ad" else content
    path = written(str(tmp_path), name, content)
    with serving(**{path.name: path.read_bytes()}) as server:
        found = read_back(f"{server.url}/{path.name}", name, content)
    check_same(name, content, found)


def test_formats_of_several_files_are_errors_behind_urls(tmp_path: Path) -> None:
    written(str(tmp_path), "megatron", {"data": PLAIN["megatron"]})
    objects = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with (
        serving(**objects) as server,
        pytest.raises(UnsupportedError, match="one of several files"),
    ):
        lodcli.read(f"{server.url}/t.idx")


def test_a_sequence_costs_few_requests(server: Server, large: bytes) -> None:
    assert len(large) > 40 * GRAIN_BYTES
    with lodcli.open(f"{server.url}/large") as source:
        opening, before = len(server.ranges), server.sent
        found = source.slice("data", (2000,))
        assert len(server.ranges) == opening + 1
        assert server.sent - before < 10 * GRAIN_BYTES
        source.slice("data", (2000,))
        assert len(server.ranges) == opening + 1  # nothing is fetched twice
    assert opening <= 3
    assert found.identical(LARGE.select(2000))


def test_a_large_index_is_not_fetched(tmp_path: Path) -> None:
    """Of 8 MB of offsets, two blocks; of the rows one."""
    rows = np.arange(1_000_000, dtype=np.int32)
    io.write(tmp_path / "t.lod.h5", LoDTensor(rows, LoD.from_lengths([np.ones(rows.size, int)])))
    with serving(t=(tmp_path / "t.lod.h5").read_bytes()) as server:
        with lodcli.open(f"{server.url}/t") as source:
            opening = len(server.ranges)
            assert source.slice("data", (500_000,)).data.tolist() == [500_000]
        assert (opening, len(server.ranges) - opening) == (2, 2)
        assert server.sent < 1_500_000


def test_structures_that_end_in_a_short_block_take_one_request(tmp_path: Path) -> None:
    def written(size: int) -> bytes:
        path = tmp_path / "t.lod.h5"
        io.write(path, LoDTensor(np.zeros(size, np.int8)), overwrite=True)
        return path.read_bytes()

    size = 20 * GRAIN_BYTES
    content = written(2 * size - len(written(size)) + 128)
    assert 0 < len(content) - size < 256
    with serving(t=content) as server, lodcli.open(f"{server.url}/t"):
        assert len(server.ranges) == 2  # and one of the beginning


def test_plain_hdf5_is_not_fetched_to_list_its_datasets(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        file["x"] = np.zeros(1_000_000)
    message = "an HDF5 file, .*; name its datasets with data= and offsets=$"
    with serving(x=(tmp_path / "theirs.h5").read_bytes()) as server:
        with pytest.raises(NotThisFormatError, match=message):
            io.read(f"{server.url}/x")
        assert server.sent < 1_000_000


def test_sequences_are_read_by_several_threads(server: Server) -> None:
    places = np.random.default_rng(1).integers(0, len(LARGE), 60).tolist()
    with lodcli.open(f"{server.url}/large") as source, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda place: source.slice("data", (place,)), places))
    assert all(one.identical(LARGE.select(place)) for place, one in zip(places, found, strict=True))


def test_reading_on_fetches_more_at_a_time(server: Server) -> None:
    with lodcli.open(f"{server.url}/lines", format_name="jsonl") as source:
        items = sum(len(tensors_of(dict(batch))["ids"]) for batch in source.batches(1 << 16))
    assert items == 120_000
    assert len(server.ranges) <= 10
    assert server.sent == len(LINES)


def test_an_empty_object_is_an_empty_file(server: Server) -> None:
    with pytest.raises(lodcli.errors.LodError, match=f"^{server.url}/empty: is empty"):
        lodcli.read(f"{server.url}/empty")


@pytest.mark.parametrize("announced", [True, False])
def test_a_server_without_ranges_is_read_whole(server: Server, announced: bool) -> None:
    def change(number: int, reply: Reply) -> Reply:
        return Reply(200, {}, server.objects["/large"], announced=announced)

    server.change = change
    assert _whole(f"{server.url}/large").identical(LARGE)
    assert len(server.ranges) == 2


def test_a_redirect_is_followed(server: Server) -> None:
    server.objects["/here"] = b""

    def change(number: int, reply: Reply) -> Reply:
        return reply if reply.body else Reply(302, {"Location": f"{server.url}/lines"}, b"")

    server.change = change
    assert _whole(f"{server.url}/here", format_name="jsonl").rows == 240_000


# -- what goes wrong -----------------------------------------------------------------


def _again(status: int) -> Any:
    return lambda number, reply: reply if number % 3 == 0 else Reply(status, {}, b"busy")


def _cut(number: int, reply: Reply) -> Reply:
    return replace(reply, cut=len(reply.body) // 2) if number % 3 else reply


@pytest.mark.parametrize("change", [_again(503), _again(429), _cut])
def test_temporary_failures_are_retried(server: Server, change: Any) -> None:
    server.change = change
    assert _whole(f"{server.url}/large").identical(LARGE)


def _other(number: int, reply: Reply) -> Reply:
    return replace(reply, headers={**reply.headers, "ETag": f'"{number}"'})


def _grown(number: int, reply: Reply) -> Reply:
    place = re.sub(r"/\d+", f"/{10**7 + number}", reply.headers.get("Content-Range", ""))
    return replace(reply, headers={"Content-Range": place})


def _huge(number: int, reply: Reply) -> Reply:
    place = re.sub(r"/\d+", f"/{10**17}", reply.headers["Content-Range"])
    return replace(reply, headers={"Content-Range": place})


def _elsewhere(number: int, reply: Reply) -> Reply:
    place = reply.headers["Content-Range"].replace("bytes ", "bytes 1")
    return replace(reply, headers={**reply.headers, "Content-Range": place})


def _status(status: int) -> Any:
    return lambda number, reply: Reply(status, {}, b"<html>secret page</html>")


def _later(change: Any) -> Any:
    return lambda number, reply: reply if number == 1 else change(number, reply)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (_status(404), FileNotFoundError, "No such file or directory"),
        (_status(403), OSError, "the server answered 403 Forbidden"),
        (_status(401), OSError, "the server answered 401 Unauthorized"),
        (_status(500), OSError, "answered 500 Internal Server Error (tried 5 times)"),
        (_status(418), OSError, "answered 418 I'm a Teapot to a request for a range"),
        (_status(299), OSError, "answered 299 to a request for a range"),
        (_later(_status(200)), OSError, "answered 200 OK to a request for a range"),
        (_later(_other), OSError, "was replaced by another object"),
        (_later(_grown), OSError, "was replaced by another object"),
        (_elsewhere, OSError, "another range: expected bytes 0 to 65536, found 10 to 65536"),
        (_huge, OSError, "says that it has 100000000000000000 bytes; lod fetches at most"),
        (_later(_status(404)), FileNotFoundError, "No such file or directory"),
        (lambda number, reply: replace(reply, cut=0), OSError, "cannot be read: "),
    ],
)
def test_a_failure_is_reported_with_the_url(
    server: Server, change: Any, error: type[OSError], message: str
) -> None:
    server.change = change
    with pytest.raises(error) as caught:
        lodcli.read(f"{server.url}/large")
    assert caught.value.filename == f"{server.url}/large"
    assert message in str(caught.value.strerror)
    assert "secret" not in str(caught.value)


def test_an_archive_whose_end_cannot_be_fetched_is_not_called_damaged(
    server: Server, tmp_path: Path
) -> None:
    io.write(tmp_path / "t.npz", LARGE)
    server.objects["/t.npz"] = (tmp_path / "t.npz").read_bytes()
    server.change = _later(_status(503))
    with pytest.raises(OSError, match="503 Service Unavailable") as caught:
        lodcli.read(f"{server.url}/t.npz")
    assert caught.value.filename == f"{server.url}/t.npz"


def test_a_proxy_needs_no_scheme(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.url.removeprefix("http://"))
    server.objects["http://elsewhere.test/large"] = server.objects["/large"]
    assert _whole("http://elsewhere.test/large").identical(LARGE)


def test_a_proxy_of_another_scheme_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "socks5://user:secret@127.0.0.1:1")
    with pytest.raises(UnsupportedError, match=r"http_proxy .* found socks5$"):
        lodcli.read("http://elsewhere.test/large")


def test_a_full_disk_is_reported(server: Server) -> None:
    with lodcli.open(f"{server.url}/large") as source:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (GRAIN_BYTES, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large") as caught:
                source.slice("data", (2000,))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert caught.value.filename.startswith(f"{server.url}/large, fetched to ")
        assert source.slice("data", (2000,)).identical(LARGE.select(2000))


def test_a_server_that_is_not_there_is_reported() -> None:
    with serving() as server:
        gone = server.url
    with pytest.raises(OSError, match="Connection refused") as caught:
        lodcli.read(f"{gone}/x.lod.h5")
    assert caught.value.filename == f"{gone}/x.lod.h5"


def test_secrets_are_sent_and_not_shown(server: Server) -> None:
    url = server.url.replace("http://", "http://me:pass%20word@")
    with lodcli.open(f"{url}/large?signature=abc") as source:
        assert source.schema[0].rows == LARGE.rows
    assert server.headers["authorization"] == "Basic bWU6cGFzcyB3b3Jk"
    with pytest.raises(OSError, match="No such file") as caught:
        lodcli.read(f"{url}/none?signature=abc#part")
    assert caught.value.filename == f"{server.url}/none"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://h/a@b", "https://h/a@b"),
        ("https://u:p@h:1/a?b@c", "https://h:1/a"),
        ("https://u:p/w@h", "https://u:p/w@h"),
        ("s3://bucket/key#x", "s3://bucket/key"),
    ],
)
def test_messages_show_urls_without_passwords_and_queries(text: str, expected: str) -> None:
    assert is_url(text)
    assert shown(text) == expected


def test_a_path_is_no_url(tmp_path: Path) -> None:
    assert not any(map(is_url, ("C:/x", "C://x", "a:b", "-", "http:/x", "x/http://y", "://x")))
    assert not is_url(tmp_path)


# -- other schemes -------------------------------------------------------------------


def test_other_schemes_are_read_by_fsspec(large: bytes) -> None:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.pipe("/words/large", large)
    try:
        url = "memory://words/large"
        assert _whole(url).identical(LARGE)
        with lodcli.open(url) as source:
            source.slice("data", (0,))
            system.pipe("/words/large", large[:-1] + b"\0")
            with pytest.raises(OSError, match="was replaced by another object") as caught:
                source.slice("data", (2000,))
        assert caught.value.filename == url
        with pytest.raises(FileNotFoundError):
            lodcli.read("memory://words/none")
        with pytest.raises(IsADirectoryError):
            lodcli.read("memory://words")
        with pytest.raises(UnsupportedError, match=r"^nowhere://: "):
            lodcli.read("nowhere://words")
    finally:
        system.rm("/words", recursive=True)


def test_the_package_that_fsspec_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    said = r"^s3://: Install s3fs to access S3$"
    with pytest.raises(UnsupportedError, match=said):
        lodcli.read("s3://bucket/words.csv")


@pytest.mark.parametrize(("package", "url"), [("urllib3", "https://h/x"), ("fsspec", "s3://b/x")])
def test_a_missing_package_is_reported(
    package: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError, match=rf"{package}; pip install 'lodcli\[remote\]'"):
        lodcli.read(url)


# -- commands ------------------------------------------------------------------------


def test_commands_read_urls(server: Server, tmp_path: Path) -> None:
    url = f"{server.url}/large"
    assert lod("inspect", url).stdout.startswith(f"{url}: lod.h5, 1 tensor")
    out = tmp_path / "t.lod.h5"
    assert lod("slice", f"{url}::data", "7:9", "-o", out).returncode == 0
    assert _whole(out).identical(LARGE[7:9])
    assert lod("diff", url, url).returncode == 0
    done = lod("verify", "-q", url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_commands_tell_what_is_wrong_with_a_url(server: Server) -> None:
    done = lod("inspect", f"{server.url}/none.lod.h5")
    assert done.returncode == 3
    assert done.stderr == f"lod inspect: {server.url}/none.lod.h5: no such file\n"
    done = lod("convert", f"{server.url}/large", f"{server.url}/copy.lod.h5")
    assert done.stderr == (
        f"lod convert: {server.url}/copy.lod.h5: lod writes no URLs; write a file, and copy it "
        "there\n"
    )
    done = lod("verify", "--sums", f"{server.url}/large")
    assert done.returncode == 2
    assert done.stderr.startswith("lod verify: a URL has no file with sums beside it")


@pytest.mark.parametrize(
    "args",
    [
        ("convert", "-", "URL"),
        ("convert", "-", "URL.lod.h5"),
        ("convert", "-", "URL", "--to", "npz"),
        ("split", "-", "--by", "count", "1", "-o", "URL-{}.lod.h5"),
        ("inspect", "URL"),
        ("inspect", "URL", "--json"),
        ("verify", "URL"),
        ("verify", "URL", "--json"),
        ("diff", "URL", "URL", "--json"),
        ("head", "URL", "--to", "jsonl"),
    ],
)
def test_commands_show_no_secret_of_a_url(server: Server, args: tuple[str, ...]) -> None:
    url = server.url.replace("http://", "http://me:hidden@") + "/none?sig=hidden"
    done = lod(*(each.replace("URL", url) for each in args))
    assert done.returncode > 0
    assert "hidden" not in done.stdout + done.stderr
    assert f"{server.url}/none" in done.stdout + done.stderr


def test_reports_show_no_secret_of_a_url(server: Server) -> None:
    url = server.url.replace("http://", "http://me:hidden@") + "/large"
    for args in (["inspect", url, "--json"], ["verify", url], ["verify", url, "--json"]):
        done = lod(*args)
        assert (done.returncode, "hidden" in done.stdout + done.stderr) == (0, False)
    assert "hidden" not in lod("diff", url, url, "--json").stdout


def test_options_go_with_a_url(server: Server) -> None:
    options = ReadOptions(dtype=np.dtype(np.int16))
    with (
        pytest.raises(lodcli.errors.LodError, match=f"^{server.url}/lines: line "),
        lodcli.open(f"{server.url}/lines", format_name="jsonl", options=options) as source,
    ):
        source.read()
