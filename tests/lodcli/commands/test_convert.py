"""`lod convert`: from format to format, streaming."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from lodcli.formats.core import io
from tests.lodcli.conftest import Lod, articles, tensor


@pytest.mark.parametrize("suffix", ["npz", "lods", "lod.h5"])
def test_there_and_back_changes_no_bit(lod: Lod, folder: Path, suffix: str) -> None:
    assert lod("convert", "words.lod.h5", f"there.{suffix}").code == 0
    assert lod("convert", f"there.{suffix}", "-o", "back.lod.h5").code == 0
    found = tensor("back.lod.h5")
    assert found.recursive_sequence_lengths() == articles().recursive_sequence_lengths()
    np.testing.assert_array_equal(found.data, articles().data)
    assert found.dtype == articles().dtype


def test_json_lines_become_a_container_with_named_levels(lod: Lod, folder: Path) -> None:
    Path("in.jsonl").write_text("[[1, 2], [3]]\n[[4, 5, 6]]\n")
    assert lod(
        "convert", "in.jsonl", "out.lod.h5", "--levels", "day, hour", "--dtype", "int16"
    ).clean
    found = tensor("out.lod.h5")
    assert found.lod.names == ("day", "hour")
    assert found.dtype == np.int16
    assert found.recursive_sequence_lengths() == [[2, 1], [2, 1, 3]]


@pytest.mark.parametrize("name", ["x.h5", "x.npz"])
def test_each_level_of_an_index_has_an_option(lod: Lod, folder: Path, name: str) -> None:
    rows, outer, inner = np.arange(3.0), np.array([2, 0]), np.array([1, 2])
    if name == "x.npz":
        np.savez(name, rows=rows, outer=outer, inner=inner)
    else:
        with h5py.File(name, "w") as file:
            file["rows"], file["outer"], file["inner"] = rows, outer, inner
    command = ("convert", name, "out.lod.h5", "--data", "rows")
    done = lod(*command, "--lengths", "outer,inner")
    each = "--lengths outer --lengths inner"
    assert done.code == 2
    assert done.stderr.endswith(f"--lengths outer,inner: names several levels; give {each}\n")
    assert lod(*command, *each.split()).code == 0
    assert tensor("out.lod.h5").recursive_sequence_lengths() == [[2, 0], [1, 2]]
    done = lod(*command, "--lengths", "inner", "--offsets", "inner", "--force")
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith("give --offsets or --lengths, not both\n")


def test_several_datasets_are_converted_one_by_one_and_merged(lod: Lod, folder: Path) -> None:
    with h5py.File("ragged.h5", "w") as file:
        file["lat"], file["lon"], file["n"] = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [1, 2]
    hdf5 = ("--from", "hdf5", "--lengths", "n")
    done = lod("convert", "ragged.h5", "both.lod.h5", *hdf5, "--data", "lat,lon")
    remedy = "convert them one by one, each with --name, and join them with lod merge"
    assert done.code == 2
    assert done.stderr.endswith(f"--data lat,lon: names several datasets; {remedy}\n")
    for name in ("lat", "lon"):
        assert lod(
            "convert", "ragged.h5", f"{name}.lod.h5", *hdf5, "--data", name, "--name", name
        ).clean
    assert lod("merge", "lat.lod.h5", "lon.lod.h5", "-o", "both.lod.h5").code == 0
    found = io.read_all("both.lod.h5")
    assert {name: found[name].to_list() for name in found} == {
        "lat": [[1], [2, 3]],
        "lon": [[4], [5, 6]],
    }


def test_levels_can_be_named_whatever_the_format(lod: Lod, folder: Path) -> None:
    assert lod("convert", "words.lod.h5", "out.lod.h5", "--levels", "a,b").code == 0
    assert tensor("out.lod.h5").lod.names == ("a", "b")


def test_too_many_level_names_are_a_usage_error(lod: Lod, folder: Path) -> None:
    done = lod("convert", "words.lod.h5", "out.lod.h5", "--levels", "a,b,c")
    assert done.code == 2
    assert "3 level names are given, data has 2 levels" in done.stderr


def test_too_few_level_names_need_a_rectangle(lod: Lod, folder: Path) -> None:
    done = lod("convert", "words.lod.h5", "out.lod.h5", "--levels", "a")
    assert (done.code, Path("out.lod.h5").exists()) == (1, False)
    said = "words.lod.h5: data: item <0,1> has length 2, unlike others: levels without a name"
    assert said in done.stderr


def test_all_tensors_come_along_and_one_if_it_is_named(lod: Lod, folder: Path) -> None:
    assert lod("convert", "many.lod.h5", "all.npz").code == 0
    assert set(io.read_all("all.npz")) == {"vectors", "tags", "other"}
    assert lod("convert", "many.lod.h5::other", "one.lod.h5", "--name", "alone").code == 0
    assert set(io.read_all("one.lod.h5")) == {"alone"}


def test_a_new_name_needs_a_single_tensor(lod: Lod, folder: Path) -> None:
    done = lod("convert", "many.lod.h5", "out.npz", "--name", "one")
    assert done.code == 2
    assert "found 3" in done.stderr


def test_tensors_that_the_format_cannot_hold_are_refused(lod: Lod, folder: Path) -> None:
    done = lod("convert", "many.lod.h5", "out.ts")
    assert done.code == 4
    assert "out.ts: ts holds 1 level, vectors has 2" in done.stderr
    assert not Path("out.ts").exists()


@pytest.mark.parametrize("name", ["", "a/b", "a\udcff"])
def test_a_new_name_can_name_a_tensor(lod: Lod, folder: Path, name: str) -> None:
    done = lod("convert", "words.lod.h5", "out.npz", "--name", name)
    assert (done.code, done.stdout) == (2, "")
    assert "'--name': " in done.stderr
    assert "cannot name a tensor: it " in done.stderr
    assert not Path("out.npz").exists()


def test_an_option_of_another_format_is_refused_by_name(lod: Lod, folder: Path) -> None:
    done = lod("convert", "words.lod.h5", "out.npz", "--field", "x")
    assert done.code == 4
    assert "field" in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["in.npz", "out.lod.h5", "--compress"],
        ["in.npz", "--compress", "out.lod.h5"],
        ["--compress", "in.npz", "out.lod.h5"],
        ["in.npz", "--compress", "deflate", "out.lod.h5"],
        ["in.npz", "--compress=deflate", "out.lod.h5"],
    ],
)
def test_compress_needs_no_codec_and_eats_no_file(lod: Lod, folder: Path, args: list[str]) -> None:
    io.write("in.npz", io.read("words.lod.h5"))
    assert lod("convert", *args).clean
    assert tensor("out.lod.h5").identical(tensor("in.npz"))


def test_a_vocabulary_goes_both_ways(lod: Lod, folder: Path) -> None:
    Path("in.txt").write_text("to be\nor not to be\n")
    Path("vocabulary.txt").write_text("be\nnot\nor\nto\n")
    vocabulary = ["--vocab", "vocabulary.txt", "--levels", "article,sentence"]
    assert lod("convert", "in.txt", "numbers.npz", *vocabulary).code == 0
    assert tensor("numbers.npz").data.tolist() == [3, 0, 2, 1, 3, 0]
    assert lod("convert", "numbers.npz", "out.txt", *vocabulary[:2]).clean
    assert Path("out.txt").read_text() == Path("in.txt").read_text()
    done = lod("convert", "numbers.npz", "out.lod.h5", *vocabulary[:2])
    assert done.code == 4
    assert done.stderr.endswith(
        "npz has no option --vocab; it is for text; lod cast TENSOR=category numbers words\n"
    )


def test_out_twice_is_a_usage_error(lod: Lod, folder: Path) -> None:
    done = lod("convert", "words.lod.h5", "a.npz", "-o", "b.npz")
    assert done.code == 2
    assert "given twice" in done.stderr


def test_an_ending_that_names_no_format_is_a_usage_error(lod: Lod, folder: Path) -> None:
    done = lod("convert", "words.lod.h5", "out.xyz")
    assert done.code == 2
    assert "--to" in done.stderr
    assert lod("convert", "words.lod.h5", "out.xyz", "--to", "npz").code == 0
    np.testing.assert_array_equal(tensor("out.xyz").data, articles().data)


def test_a_file_can_replace_itself_with_force(lod: Lod, folder: Path) -> None:
    assert lod("convert", "words.lod.h5", "words.lod.h5", "--levels", "a,b").code == 3
    assert lod("convert", "words.lod.h5", "words.lod.h5", "--levels", "a,b", "-f").code == 0
    assert tensor("words.lod.h5").lod.names == ("a", "b")


def test_text_formats_go_to_standard_output(shell: Lod) -> None:
    done = shell("lod convert many.lod.h5::other --to jsonl")
    assert (done.code, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[0], [], [1, 2, 3]]


def test_a_pipe_carries_every_tensor(shell: Lod, folder: Path) -> None:
    done = shell("cat many.lod.h5 | lod convert - | lod convert - out.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    before, after = io.read_all("many.lod.h5"), io.read_all("out.lod.h5")
    assert list(before) == list(after)
    for name in before:
        assert tensor("many.lod.h5", name).identical(tensor("out.lod.h5", name))


def test_the_name_of_a_format_as_target_is_answered_with_a_file(lod: Lod, folder: Path) -> None:
    done = lod("convert", "many.lod.h5", "safetensors")
    assert (done.code, done.stdout) == (2, "")
    assert "unknown file extension; did you mean NAME.safetensors?" in done.stderr
    assert lod("convert", "many.lod.h5", "NAME.safetensors").code == 0
