"""text: articles of lines of words, and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import NotThisFormatError, TooLargeError
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.text.text import Text
from lodcli.kernels.errors import InvalidDataError, OptionError, UnsupportedError
from lodcli.kernels.runtime.memory_budget import within_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import batches_of, content, content_of, nested, pipe
from tests.growth import peak_bytes_of

ARTICLES = Path(__file__).parents[3] / "samples" / "articles.txt"


def words(tensor: LoDTensor) -> Any:
    """Return nested lists with the bytes of the finest level joined."""

    def joined(tree: Any) -> Any:
        if all(isinstance(part, int) for part in tree) and tree:
            return bytes(tree)
        return [joined(part) for part in tree]

    return joined(nested(tensor))


def given_text(folder: Path, data: bytes, **options: Any) -> Any:
    return words(content_of(folder, ".txt", data, **options)["data"])


# -- reading by hand -----------------------------------------------------------------


def test_blank_lines_part_articles_and_lines_sentences(tmp_path: Path) -> None:
    data = b"a bc\nd\n\ne\n"
    found = content_of(tmp_path, ".txt", data)["data"]
    assert found.recursive_sequence_lengths() == [[2, 1], [2, 1, 1], [1, 2, 1, 1]]
    assert found.data.tobytes() == b"abcde"
    assert found.lod.names == ("article", "sentence", "word")
    assert found.dtype == np.uint8


@pytest.mark.parametrize(
    "data",
    [
        b"\n\na b\nc\n\n\n\nd\n\n",
        b"a  b\nc\n \t\nd",
        b"a b\r\nc\r\n\r\nd\r\n",
        b"\xef\xbb\xbfa b\nc\n\nd\n",
        b"  a\tb \nc\v\n\f\nd",
    ],
)
def test_kinds_of_white_space_are_equivalent(tmp_path: Path, data: bytes) -> None:
    assert given_text(tmp_path, data) == [[[b"a", b"b"], [b"c"]], [[b"d"]]]


def test_bytes_are_kept_whatever_they_encode(tmp_path: Path) -> None:
    data = "größe\u00a0x".encode() + b" \xff\xfe\x80"
    assert given_text(tmp_path, data) == [[["größe\u00a0x".encode(), b"\xff\xfe\x80"]]]


def test_two_names_make_every_line_an_item(tmp_path: Path) -> None:
    found = content_of(tmp_path, ".txt", b"a bc\n\n \nd", levels=("line", "token"))["data"]
    assert found.recursive_sequence_lengths() == [[2, 0, 0, 1], [1, 2, 1]]
    assert found.lod.names == ("line", "token")


def test_one_name_keeps_every_byte_of_a_line(tmp_path: Path) -> None:
    found = content_of(tmp_path, ".txt", b" a b\r\n\n\rc\t", levels=("line",))["data"]
    assert found.recursive_sequence_lengths() == [[4, 0, 3]]
    assert found.data.tobytes() == b" a b\rc\t"


@pytest.mark.parametrize("levels", [(), ("a", "b", "c", "d")])
def test_other_numbers_of_names_are_refused(tmp_path: Path, levels: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError, match=f"text has 1 to 3 levels here, found {len(levels)}"):
        given_text(tmp_path, b"a", levels=levels)


def test_a_bad_level_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'1' is not a valid level name"):
        given_text(tmp_path, b"a", levels=("1",))


def test_text_without_words_has_no_items(tmp_path: Path) -> None:
    found = content_of(tmp_path, ".txt", b"\n \n")["data"]
    assert found.recursive_sequence_lengths() == [[], [], []]
    assert found.lod.names == ("article", "sentence", "word")


def test_nul_at_the_head_is_refused_when_opened(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"abc\0d")
    with (
        pytest.raises(NotThisFormatError, match=r"byte 3 is NUL: .* binary"),
        lodcli.open(path),
    ):
        pass


@pytest.mark.parametrize("limit_bytes", [100, 1 << 20])
def test_nul_further_on_is_refused_with_its_place(tmp_path: Path, limit_bytes: int) -> None:
    (tmp_path / "x.txt").write_bytes(b"\xef\xbb\xbf" + b"word\n" * 1700 + b"\0")
    with pytest.raises(NotThisFormatError, match="byte 8503 is NUL"):
        batches_of(tmp_path / "x.txt", limit_bytes, levels=("line",))


def test_the_constitution_has_the_counts_of_its_description() -> None:
    found = content(ARTICLES)["data"]
    assert [found.lod.count(level) for level in range(3)] == [35, 172, 7296]
    split = [
        [line.split() for line in article.split(b"\n") if line]
        for article in ARTICLES.read_bytes().split(b"\n\n")
    ]
    assert words(found) == split


@pytest.mark.parametrize("limit_bytes", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("levels", [None, ("a", "b"), ("a",)])
def test_batches_of_any_size_give_the_same_content(
    levels: tuple[str, ...] | None, limit_bytes: int
) -> None:
    whole = content(ARTICLES, levels=levels)["data"]
    batches = batches_of(ARTICLES, limit_bytes, levels=levels)
    assert all(len(batch["data"]) for batch in batches)
    assert (len(batches) > 1) == (limit_bytes <= 1000)
    assert LoDTensor.concatenate([batch["data"] for batch in batches]).identical(whole)


@pytest.mark.parametrize("data", [b"a\n \n\nb\n \t\nc c\n\nd", b"\n\na\n\n\n", b"a\r\n\r\nb\r\n"])
def test_blocks_may_end_anywhere(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    whole = content(path)["data"]
    for limit_bytes in range(1, len(data) + 1):
        parts = [batch["data"] for batch in batches_of(path, limit_bytes)]
        assert all(map(len, parts))
        assert LoDTensor.concatenate(parts).identical(whole)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n\n\n", b"a\n"])
def test_a_pipe_gives_what_the_file_gives(tmp_path: Path, start: bytes) -> None:
    data = start + ARTICLES.read_bytes()
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    with pipe(tmp_path, ".txt", data) as name:
        assert content(name)["data"].identical(content(path)["data"])


def test_a_file_can_be_read_again_and_a_pipe_cannot(tmp_path: Path) -> None:
    with lodcli.open(ARTICLES) as source:
        first, again = source.read()["data"], source.read()["data"]
        assert isinstance(first, LoDTensor)
        assert isinstance(again, LoDTensor)
        assert first.identical(again)
    with pipe(tmp_path, ".txt", b"a b") as name, lodcli.open(name) as source:
        source.read()
        with pytest.raises(UnsupportedError, match="a pipe can be read only once"):
            source.read()


def test_text_is_never_taken_for_text_by_its_content() -> None:
    assert not Text().sniff(ARTICLES.read_bytes()[:4096])


@pytest.mark.parametrize("levels", [None, ("line", "token"), ("line",)])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, levels: tuple[str, ...] | None) -> None:
    path, copy = tmp_path / "large.txt", tmp_path / "copy.txt"
    piece = (ARTICLES.read_bytes() + b"\n") * 100
    with open(path, "wb") as file:
        while file.tell() < 24 << 20:
            file.write(piece)
    options = ReadOptions(levels=levels)

    def converted() -> None:
        with lodcli.open(path, options=options) as source:
            io.write_batches(copy, source.schema, source.batches(), overwrite=True)

    peak_bytes = peak_bytes_of(converted)
    assert peak_bytes < 32 << 20  # blocks are 2 MiB, and their offsets eight times that
    assert abs(os.path.getsize(copy) - os.path.getsize(path)) <= 1


def test_a_large_line_takes_a_few_times_its_size(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_bytes(b"word " * (1 << 20) + b"\n")
    options = ReadOptions(levels=("line", "word"))

    def read() -> None:
        with lodcli.open(path, options=options) as source:
            for batch in source.batches():
                assert batch["data"].lod.count(-1) == 1 << 20

    # The letters and the offsets of the words alone take 2.4 times the size.
    assert peak_bytes_of(read) < 7 * path.stat().st_size


# -- a vocabulary --------------------------------------------------------------------


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(b"the\r\ncat\nsat")
    return path


def test_words_become_their_numbers(tmp_path: Path, vocabulary: Path) -> None:
    data = b"the cat\nsat\n\nsat the\n"
    found = content_of(tmp_path, ".txt", data, vocabulary=vocabulary)["data"]
    assert found.data.tolist() == [0, 1, 2, 2, 0]
    assert found.dtype == np.int64
    assert found.recursive_sequence_lengths() == [[2, 1], [2, 1, 2]]
    assert found.lod.names == ("article", "sentence")


def test_with_one_name_every_line_is_an_item_of_numbers(tmp_path: Path, vocabulary: Path) -> None:
    found = content_of(tmp_path, ".txt", b"the\n\ncat the", vocabulary=vocabulary, levels=("l",))
    assert nested(found["data"]) == [[0], [], [1, 0]]


def test_three_names_leave_no_place_for_numbers(tmp_path: Path, vocabulary: Path) -> None:
    with pytest.raises(UnsupportedError, match="1 to 2 levels here, found 3 names"):
        given_text(tmp_path, b"the", vocabulary=vocabulary, levels=("a", "b", "c"))


@pytest.mark.parametrize("limit_bytes", [1, 1000])
def test_an_unknown_word_is_named_with_its_line(
    tmp_path: Path, vocabulary: Path, limit_bytes: int
) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"the\n\n\nthe cat\nsat dog the\n\ncat\n")
    with pytest.raises(
        InvalidDataError, match="line 5: 'dog' is not in the vocabulary; add the line <unk>"
    ):
        batches_of(path, limit_bytes, vocabulary=vocabulary)


def test_unk_stands_for_unknown_words(tmp_path: Path, vocabulary: Path) -> None:
    vocabulary.write_bytes(b"the\n<unk>\ncat\n")
    found = content_of(tmp_path, ".txt", b"the dog cat cow", vocabulary=vocabulary)["data"]
    assert found.data.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (b"a\nb\na\n", "line 3: 'a' is also on line 1"),
        (b"a\n\nb\n", "line 2: '' is not a token"),
        (b"a\nb c\n", "line 2: 'b c' is not a token"),
        (b"a\0\n", r"line 1: 'a\\x00' is not a token"),
    ],
)
def test_a_bad_vocabulary_is_refused(
    tmp_path: Path, vocabulary: Path, tokens: bytes, message: str
) -> None:
    vocabulary.write_bytes(tokens)
    with pytest.raises(InvalidDataError, match=message) as caught:
        given_text(tmp_path, b"a", vocabulary=vocabulary)
    assert str(vocabulary) in str(caught.value)


def test_an_endless_vocabulary_is_refused(tmp_path: Path, vocabulary: Path) -> None:
    with pytest.raises(InvalidDataError, match=r"/dev/zero: line 1: .* of less than 2097152 bytes"):
        given_text(tmp_path, b"a", vocabulary=Path("/dev/zero"))
    vocabulary.write_text("".join(f"{number}\n" for number in range(20_000)))
    found = content_of(tmp_path, ".txt", b"19999 7", vocabulary=vocabulary)["data"]
    assert found.data.tolist() == [19999, 7]
    with within_budget(1 << 20), pytest.raises(TooLargeError, match="line 12701: 2097256"):
        given_text(tmp_path, b"a", vocabulary=vocabulary)


def test_numbers_are_written_as_words(tmp_path: Path, vocabulary: Path) -> None:
    path = tmp_path / "out.txt"
    options = WriteOptions(vocabulary=vocabulary)
    ids = LoDTensor(np.array([0, 1, 2, 2, 0], np.uint16), [[2, 1], [2, 1, 2]])
    io.write(path, ids, options=options)
    assert path.read_bytes() == b"the cat\nsat\n\nsat the\n"
    io.write(path, LoDTensor(np.array([0, 1]), [[1, 0, 1]]), options=options, overwrite=True)
    assert path.read_bytes() == b"the\n\ncat\n"


@pytest.mark.parametrize("number", [-1, 3, 2**64 - 1])
def test_a_number_beyond_the_vocabulary_is_refused(
    tmp_path: Path, vocabulary: Path, number: int
) -> None:
    path = tmp_path / "out.txt"
    ids = LoDTensor(np.array([number]), [[1], [1]])
    with pytest.raises(InvalidDataError, match=rf"token {number} is not .* \(0 to 2\)"):
        io.write(path, ids, options=WriteOptions(vocabulary=vocabulary))
    assert not path.exists()


def test_a_vocabulary_leaves_no_place_for_a_third_level(tmp_path: Path, vocabulary: Path) -> None:
    ids = LoDTensor(np.array([0]), [[1], [1], [1]])
    with pytest.raises(UnsupportedError, match="holds 2 levels, data has 3"):
        io.write(tmp_path / "out.txt", ids, options=WriteOptions(vocabulary=vocabulary))
