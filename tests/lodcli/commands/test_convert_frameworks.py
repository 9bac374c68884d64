"""`lod convert` to and from the files of frameworks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lodcli.conftest import Lod


def test_packed_batches_go_both_ways(lod: Lod, folder: Path) -> None:
    done = lod(
        "convert", "-q", "words.lod.h5", "x.safetensors", "--cu-seqlens", "articles,sentences",
        "--name", "words",
    )  # fmt: skip
    assert (done.code, done.stderr) == (0, "")
    index = ("--offsets", "articles", "--offsets", "sentences")
    assert lod("convert", "-q", "x.safetensors", "y.jsonl", "--data", "words", *index).clean
    done = lod("convert", "words.lod.h5", "z.jsonl")
    assert Path("y.jsonl").read_text() == Path("z.jsonl").read_text()
    assert lod("convert", "words.lod.h5", "a.lodt", "--cu-seqlens", "a,b").code == 4


def test_torch_goes_both_ways(lod: Lod, folder: Path) -> None:
    torch = pytest.importorskip("torch")
    assert lod("convert", "many.lod.h5::other", "x.pt", "--form", "padded").code == 0
    assert lod("convert", "x.pt", "y.jsonl").code == 0
    assert Path("y.jsonl").read_text() == "[0]\n[]\n[1,2,3]\n"
    done = lod("convert", "words.lod.h5", "z.pt", "--form", "nested")
    assert done.code == 4
    assert "choose --form list or flat" in done.stderr
    assert lod("slice", "x.pt", "::0", "-o", "some.lod.h5").code == 2
    assert lod("slice", "x.pt", "2:", "-o", "some.lod.h5").code == 0
    assert lod("unpack", "some.lod.h5", "-o", "p.pt", "--sort-by-length").code == 0
    found = torch.load("p.pt", weights_only=True)
    assert found["other"]["batch_sizes"].tolist() == [1, 1, 1]
    assert lod("pack", "p.pt", "-o", "q.jsonl").code == 0
    assert Path("q.jsonl").read_text() == "[1,2,3]\n"


def test_the_commands_of_the_documentation_do_what_they_say(lod: Lod, folder: Path) -> None:
    torch = pytest.importorskip("torch")
    vowels = Path(__file__).parents[3] / "samples" / "japanese_vowels.ts"
    assert lod("convert", f"{vowels}::data", "vowels.pt", "--form", "packed").code == 0
    assert lod("pack", "vowels.pt", "-o", "packed.lods").code == 0
    assert lod("convert", "packed.lods", "flat.pt").code == 0
    found = torch.load("flat.pt", weights_only=True)
    assert torch.nested.nested_tensor_from_jagged(*found.values())[1].shape == (26, 12)


@pytest.mark.slow
def test_torch_is_quiet_about_its_prototypes(shell: Lod) -> None:
    pytest.importorskip("torch")
    done = shell("lod convert many.lod.h5::other x.pt && lod convert x.pt y.jsonl")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
