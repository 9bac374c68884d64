"""`lod inspect`: its output as text and JSON, and the amount of data it reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.commands.inspect import summary
from lodcli.commands.inspect.examined import Wanted
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.dataset import source
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.opened import opened
from lodcli.shell.output import size_text, table
from lodcli.shell.references import Reference
from tests.lodcli.conftest import Lod, tensor

# By hand, from the worked example: 3 articles, 6 sentences, 15 words of two float32.
WORDS = """\
words.lod.h5: lod.h5, 1 tensor, SIZE

data: float32, 15 x 2, 120 bytes

level  name      items  min  median  mean  p95  max  lengths
    0  article       3    1     2.0   2.0    3    3  ###
    1  sentence      6    1     2.5   2.5    4    4  -##-

padded to one rectangle: 36 rows, 58.3 % of them padding; saved: 168 bytes

article   3           1  2
sentence  3   2  4    1  2  3
          ||| || |||| |  || |||
"""


def words(size_bytes: int) -> str:
    return WORDS.replace("SIZE", size_text(size_bytes))


def test_one_tensor_is_shown_whole(lod: Lod, folder: Path) -> None:
    done = lod("inspect", "words.lod.h5", "--ascii")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == words(Path("words.lod.h5").stat().st_size)


def test_a_pipe_shows_the_same(shell: Lod, folder: Path) -> None:
    done = shell("lod convert words.lod.h5 | lod inspect - --ascii")
    assert (done.code, done.stderr) == (0, "")
    _, _, below = done.stdout.partition("\n")
    assert below == words(0).partition("\n")[2]
    assert done.stdout.startswith("standard input: lod.stream, 1 tensor\n")


def test_several_tensors_get_a_line_each(lod: Lod, folder: Path) -> None:
    done = lod("inspect", "many.lod.h5")
    assert done.code == 0
    assert [line.split() for line in done.stdout.splitlines()[2:]] == [
        ["tensor", "dtype", "shape", "size", "levels"],
        ["vectors", "float32", "15", "x", "2", "120", "bytes", "3", "article,", "6", "sentence"],
        ["tags", "int16", "15", "30", "bytes", "3", "article,", "6", "sentence"],
        ["other", "int64", "4", "32", "bytes", "3", "(level", "0)"],
    ]


def test_a_level_that_one_of_several_lacks_is_a_usage_error(lod: Lod, folder: Path) -> None:
    done = lod("inspect", "many.lod.h5", "--level", "1")
    assert done.code == 2
    assert "no level 1: there is 1 level" in done.stderr


def test_one_of_several_is_shown_whole(lod: Lod, folder: Path) -> None:
    done = lod("inspect", "many.lod.h5::other", "--ascii")
    assert "other: int64, 4, 32 bytes" in done.stdout
    assert done.stdout.endswith("\n1 0 3\n|   |||\n")


@pytest.mark.parametrize("level", ["1", "-1", "sentence"])
def test_a_level_can_be_chosen(lod: Lod, folder: Path, level: str) -> None:
    done = lod("inspect", "words.lod.h5", "--level", level)
    assert "sentence  3   2  4    1 2  3\n" in done.stdout
    assert "article" not in done.stdout
    found = json.loads(lod("inspect", "words.lod.h5", "--level", level, "--json").stdout)
    assert [one["name"] for one in found["tensors"][0]["levels"]] == ["sentence"]
    io.write("both.lod.h5", {**io.read_all("words.lod.h5"), "label": LoDTensor(np.arange(3))})
    both = json.loads(lod("inspect", "both.lod.h5", "--level", level, "--json").stdout)["tensors"]
    assert [len(one["levels"]) for one in both] == [1, 0]  # as text, which shows data in full


def test_head_draws_the_first_items(lod: Lod, folder: Path) -> None:
    done = lod("inspect", "words.lod.h5", "--head", "1")
    assert "article   3\nsentence  3   2  4\n          ||| || ||||\n" in done.stdout
    assert "|" not in lod("inspect", "words.lod.h5", "--head", "0").stdout
    assert lod("inspect", "words.lod.h5", "--head", "99").code == 0


@pytest.mark.parametrize("suffix", ["lod.h5", "npz", "lods"])
def test_json_has_the_size_rows_levels_and_padding(lod: Lod, folder: Path, suffix: str) -> None:
    path = f"copy.{suffix}"
    io.write(path, tensor("words.lod.h5"))
    done = lod("inspect", path, "--json")
    assert (done.code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["schema_version"] == 1
    assert found["file"] == path
    assert found["bytes"] == Path(path).stat().st_size
    (one,) = found["tensors"]
    assert (one["rows"], one["row_shape"], one["dtype"]) == (15, [2], "float32")
    assert [level["items"] for level in one["levels"]] == [3, 6]
    assert [level["max"] for level in one["levels"]] == [3, 4]
    assert one["padding"] == {
        "rows": 15,
        "padded_rows": 36,
        "fraction": pytest.approx(21 / 36),
        "saved_bytes": 168,
    }
    assert one["tensor_array"] is False


def test_a_tensor_array_shows_its_steps(lod: Lod, folder: Path) -> None:
    assert lod("unpack", "words.lod.h5", "-o", "steps.lod.h5").code == 0
    done = lod("inspect", "steps.lod.h5")
    assert "TensorArray of 4 steps, sizes 6 5 3 1\n" in done.stdout
    assert "unpacked from 3 article, 6 sentence\n" in done.stdout
    (one,) = json.loads(lod("inspect", "steps.lod.h5", "--json").stdout)["tensors"]
    assert one["tensor_array"] is True
    assert one["step_sizes"] == [6, 5, 3, 1]
    assert [outer["items"] for outer in one["outer"]] == [3, 6]


@pytest.mark.parametrize("suffix", ["lod.h5", "npz"])
def test_text_is_shown_as_text(lod: Lod, folder: Path, suffix: str) -> None:
    letters = np.frombuffer(b"tobe\x1b]0;x", np.uint8)
    io.write(f"text.{suffix}", LoDTensor(letters, LoD.from_lengths([[2, 7]])))
    io.write(f"plain.{suffix}", LoDTensor(letters[:4], LoD.from_lengths([[2, 2]])))
    assert lod("inspect", f"plain.{suffix}").stdout.endswith('\n"to" "be"\n')
    assert "\x1b" not in lod("inspect", f"text.{suffix}").stdout


def test_long_text_is_only_looked_into(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "PREVIEW_BYTES", 5)
    letters = np.frombuffer(b"tobeornot", np.uint8)
    io.write("text.lod.h5", LoDTensor(letters, LoD.from_lengths([[2, 2, 5]])))
    assert lod("inspect", "text.lod.h5").stdout.rstrip().endswith('"to" "be"')
    io.write("long.lod.h5", LoDTensor(letters, LoD.from_lengths([[9]])))
    assert '"' not in lod("inspect", "long.lod.h5").stdout


@pytest.mark.parametrize("lengths", [[[]], [[0, 0]], [[2, 0], [0, 0]], []])
def test_a_file_without_rows_can_be_inspected(
    lod: Lod, folder: Path, lengths: list[list[int]]
) -> None:
    io.write("none.lod.h5", LoDTensor(np.zeros((0, 3)), LoD.from_lengths(lengths)))
    done = lod("inspect", "none.lod.h5")
    assert (done.code, done.stderr) == (0, "")
    assert "0 x 3" in done.stdout
    assert lod("inspect", "none.lod.h5", "--json").code == 0


def test_names_of_wide_and_combining_characters_keep_columns_aligned(
    lod: Lod, folder: Path
) -> None:
    # 国 takes two columns of a terminal; U+0301, and U+FE0F of combining class 0, take none.
    Path("wide.csv").write_text("国,e\u0301\ufe0f\n1,2\n", encoding="utf-8")
    assert lod("inspect", "wide.csv").stdout.splitlines()[2:] == [
        "tensor  dtype  shape  size     levels",
        "国      int64      1  8 bytes",
        "e\u0301\ufe0f       int64      1  8 bytes",
    ]


def test_the_width_is_the_one_asked_for(shell: Lod, folder: Path) -> None:
    many = LoDTensor(np.zeros(4000), LoD.from_lengths([[40] * 100]))
    io.write("wide.lod.h5", many)
    for width in (40, 80, 120):
        done = shell("lod inspect wide.lod.h5", COLUMNS=str(width))
        drawing = done.stdout.splitlines()[-2:]
        assert max(map(len, drawing)) <= width
        assert max(map(len, drawing)) > width - 45


def test_colour_only_adds_escape_sequences(shell: Lod, folder: Path) -> None:
    plain = shell("lod inspect words.lod.h5")
    coloured = shell("lod inspect words.lod.h5", FORCE_COLOR="1")
    assert "\x1b" not in plain.stdout
    assert "\x1b[1m" in coloured.stdout
    stripped = coloured.stdout.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert stripped == plain.stdout


def test_a_stream_that_cannot_show_blocks_gets_ascii(shell: Lod, folder: Path) -> None:
    done = shell("lod inspect words.lod.h5", PYTHONIOENCODING="ascii")
    assert done.code == 0
    assert done.stdout == words(Path("words.lod.h5").stat().st_size)


def test_names_out_of_a_file_cannot_steer_the_terminal(lod: Lod, folder: Path) -> None:
    shutil.copy("words.lod.h5", "\x1b[31mred.lod.h5")
    done = lod("inspect", "\x1b[31mred.lod.h5")
    assert done.code == 0
    assert done.stdout.startswith("\\x1b[31mred.lod.h5: ")


def test_only_header_and_index_of_a_container_are_read(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lodcli.open("words.lod.h5") as source:
        kind = type(source)

    def refuse(*args: object, **more: object) -> None:
        raise AssertionError("rows were read")

    for name in ("batches", "read", "slice"):
        monkeypatch.setattr(kind, name, refuse)
    assert lod("inspect", "words.lod.h5").code == 0


def test_the_drawing_holds_only_the_beginning_of_an_index(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.lod.h5")
    index = LoD.from_lengths([[0] * 60 + [3, 1, 1] * 100, [1] * 500])
    lodcli.write(path, {"a": LoDTensor(np.ones(500), index)})
    whole = lod("inspect", path, "--level", "1").stdout
    monkeypatch.setattr(summary, "HEAD_ITEMS", 50)
    assert lod("inspect", path, "--level", "1").stdout == whole
    with opened(Reference(path)) as file:
        [found], _ = summary.summaries(file, Wanted())
    # 50 items of level 0 have none of level 1, 100 items have more than 50.
    assert [level.size for level in found.head.levels] == [101, 69]
    assert found.statistics.levels[0].items == 360


def test_an_index_that_tensors_share_is_read_once(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, index = str(tmp_path / "a.lod.h5"), LoD.from_lengths([[2, 0, 1]])
    lodcli.write(path, {name: LoDTensor(np.ones((3, k)), index) for k, name in enumerate("xyz")})
    read, index_parts = [], ContainerSource.index_parts

    def counted(source: ContainerSource, name: str) -> Iterator[LoD]:
        read.append(name)
        return index_parts(source, name)

    monkeypatch.setattr(ContainerSource, "index_parts", counted)
    shown = json.loads(lod("inspect", path, "--json").stdout)["tensors"]
    assert read == ["x"]
    assert [one["bytes"] for one in shown] == [0, 24, 48]
    assert [one["padding"]["saved_bytes"] for one in shown] == [0, 24, 48]


def test_each_shard_of_a_dataset_is_opened_once(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {name: LoDTensor(np.zeros(12 * n), [[n] * 12]) for n, name in enumerate("abc", 1)}
    lodcli.write(tmp_path / "ds", content, format_name="lod.dataset", shards=12)
    numbers, inner = [], source.DatasetSource._file

    def counted(dataset: source.DatasetSource, number: int, name: str) -> Any:
        numbers.append(number)
        return inner(dataset, number, name)

    monkeypatch.setattr(source.DatasetSource, "_file", counted)
    shown = json.loads(lod("inspect", str(tmp_path / "ds"), "--json").stdout)["tensors"]
    assert numbers == list(range(12))
    assert [one["levels"][0]["max"] for one in shown] == [1, 2, 3]


def test_numbers_stand_to_the_right_and_names_to_the_left() -> None:
    shown = table(("name", "size"), [("a\x1b", "1,000"), ("bcd", "-")])
    lines = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert lines == ["name    size", "a\\x1b  1,000", "bcd        -"]


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 KB"),
        (999_949, "999.9 KB"),
        (999_950, "1.0 MB"),
        (5_200_000_000, "5.2 GB"),
    ],
)
def test_sizes_are_printed_in_decimal_units(size_bytes: int, shown: str) -> None:
    assert size_text(size_bytes) == shown


def test_rows_that_only_reading_counts_are_shown(lod: Lod, tmp_path: Path) -> None:
    path = tmp_path / "x.ts"
    path.write_text("@univariate true\n@classLabel true a b\n@data\n1,2:a\n3:b\n4:a\n")
    done = lod("inspect", str(path), "--json")
    found = {one["name"]: one["rows"] for one in json.loads(done.stdout)["tensors"]}
    assert found == {"data": 4, "label": 3, "label_names": 2}


# -- the forms of an index -------------------------------------------------------------

# The example of docs/format.md: three articles of six sentences.
FORMS = {
    "lengths": "3,1,2/3,2,4,1,2,3",
    "offsets": "0,3,4,6/0,3,5,9,10,12,15",
    "absolute": "0,9,10,15/0,3,5,9,10,12,15",
    "starts": "0,9,10/0,3,5,9,10,12",
    "row-lengths": "9,1,5/3,2,4,1,2,3",
}
# How `lod apply lod_reset` takes what is printed.
TAKEN = {
    "lengths": "--lengths",
    "absolute": "--absolute",
    "starts": "--absolute",
    "row-lengths": "--row-lengths",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("turned", [False, True])
def test_an_index_is_printed_in_every_form_and_taken_back(
    lod: Lod, tmp_path: Path, form: str, turned: bool
) -> None:
    index = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]])
    source, out = tmp_path / "words.lod.h5", tmp_path / "again.lod.h5"
    io.write(source, LoDTensor(np.arange(15), index))
    flag = ["--fine-to-coarse"] if turned else []
    levels = FORMS[form].split("/")
    expected = "/".join(reversed(levels) if turned else levels)
    done = lod("inspect", source, "--form", form, *flag)
    assert (done.code, done.stdout, done.stderr) == (0, expected + "\n", "")
    found = json.loads(lod("inspect", source, "--form", form, *flag, "--json").stdout)
    assert "/".join(",".join(map(str, level)) for level in found["tensors"]["data"]) == expected
    if form in TAKEN:
        order = ["--order", "fine-to-coarse"] if turned else []
        assert lod("apply", "lod_reset", source, TAKEN[form], expected, *order, "-o", out).clean
        again = tensor(out)
        assert again.lod == index


def test_forms_of_several_tensors_are_distinguished(lod: Lod, tmp_path: Path) -> None:
    path = tmp_path / "two.lod.h5"
    io.write(path, {"a": LoDTensor([1, 2], [[1, 1]]), "b": LoDTensor([1, 2], [[2]])})
    assert lod("inspect", path, "--form", "lengths").stdout == "a: 1,1\nb: 2\n"


def test_a_level_of_ones_is_named_and_dropped_when_asked(lod: Lod, tmp_path: Path) -> None:
    path, out = tmp_path / "ones.lod.h5", tmp_path / "less.lod.h5"
    index = LoD.from_lengths([[1, 1], [2, 1]], ["page", "line"])
    io.write(path, LoDTensor(np.arange(3), index))
    shown = lod("inspect", path).stdout
    assert "page: every length is 1" in shown
    assert "line: every length is 1" not in shown
    assert lod("apply", "lod_reset", path, "--drop-ones", "-o", out).code == 0
    less = tensor(out)
    assert (less.recursive_sequence_lengths(), less.lod.names) == ([[2, 1]], ("line",))


@pytest.mark.parametrize("extra", [["--fine-to-coarse"], ["--form", "lengths", "--level", "0"]])
def test_options_that_do_not_go_together_are_refused(
    lod: Lod, folder: Path, extra: list[str]
) -> None:
    done = lod("inspect", "words.lod.h5", *extra)
    assert done.code == 2
    assert "--form" in done.stderr
