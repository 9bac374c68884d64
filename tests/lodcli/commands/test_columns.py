"""`lod convert --columns` and `--rename`."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor

RECORDS = '{"ids":[1,2],"turns":[{"role":"u","n":1}],"odd":1}\n{"ids":[],"turns":[],"odd":"x"}\n'


@pytest.mark.usefixtures("folder")
def test_convert_takes_columns_and_new_names_also_from_a_pipe(lod: Lod, shell: Lod) -> None:
    Path("x.jsonl").write_text(RECORDS)
    Path("good.jsonl").write_text(RECORDS.replace('"x"', "2"))
    assert lod("convert", "good.jsonl", "x.lods").code == 0
    options = "-q --to jsonl --columns turns,ids --rename ids=tokens --rename turns=t"
    want = '{"t":[{"role":"u","n":1}],"tokens":[1,2]}\n{"t":[],"tokens":[]}\n'
    for source in ("x.jsonl", "- --from jsonl < x.jsonl", "- < x.lods"):
        done = shell(f"lod convert {source} {options}")
        assert (done.code, done.stdout) == (0, want), done.stderr


@pytest.mark.parametrize("name", ["t", "a-b", "t.u", "is"])
def test_nulls_of_text_are_filled_by_the_expression_that_the_error_names(
    name: str, lod: Lod, folder: Path
) -> None:
    text = "it's \"\\ é"
    nulls = LoDTensor.from_lists(["a", None])
    io.write("t.lod.h5", {"n": LoDTensor(np.zeros(2)), name: nulls})
    done = lod("convert", "t.lod.h5", "--nulls", f"fill={text}", "-o", "out.jsonl")
    assert done.code == 2
    before, _, remedy = done.stderr.rstrip("\n").partition("; for text, lod ")
    assert before.endswith("true, false or a word of categories")
    args = [{"FILE": "t.lod.h5"}.get(one, one) for one in shlex.split(remedy)]
    assert lod(*args, "-o", "filled.lod.h5").stderr == ""
    filled = tensor("filled.lod.h5", name)
    assert filled.to_list() == ["a", text]


def test_numbers_in_place_of_nulls_make_texts_empty(lod: Lod, folder: Path) -> None:
    Path("t.jsonl").write_text('{"t": "a", "n": null}\n{"t": null, "n": 1.5}\n')
    for how in ("fill=5", "nan", "zero"):  # numbers
        assert lod("convert", "t.jsonl", "--nulls", how, "-fqo", "out.lod.h5").clean
        text = tensor("out.lod.h5", "t")
        assert text.to_list() == ["a", ""]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("x.jsonl --columns ids,turn", 2, "no field 'turn'; there are: ids, turns"),
        ("x.jsonl --columns turns.role,name", 2, "no field 'name'; there are: ids, turns"),
        ("x.jsonl --columns ids,turns.rol", 2, "no field 'turns.rol'; there are: ids, turns"),
        ("x.jsonl --columns ids --rename turns=t", 2, "no tensor named 'turns'; there are: ids"),
        ("x.jsonl --columns odd", 1, "line 2: field odd"),
        ("x.jsonl::ids --columns ids", 2, "give a tensor as FILE::NAME or with --columns"),
        ("x.jsonl --rename ids", 2, "'ids' renames nothing; write OLD=NEW"),
        ("x.jsonl --columns ids --rename ids=a/b", 2, "cannot name a tensor: it holds '/'"),
        ("x.jsonl --names a", 4, "no option --names; --rename gives other names"),
        ("x.npz --field ids", 4, "no option --field; --columns chooses tensors"),
        ("x.jsonl --levels a/b", 2, "--levels: 'a/b' is not a valid level name: use letters"),
        ("x.jsonl --levels ,", 2, "--levels: '' is not a valid level name"),
        (
            "x.jsonl --nulls fill=abc",
            2,
            "--nulls: fill=abc: expected a number, a date, a time",
        ),
        ("x.jsonl::ids --rename ids=t", 0, ""),
        ("x.jsonl::ids --text-levels text", 4, "ids: text is uint8"),
    ],
)
def test_impossible_names_are_refused(line: str, code: int, message: str, lod: Lod) -> None:
    Path("x.jsonl").write_text(RECORDS)
    np.savez("x.npz", ids=[1])
    done = lod("convert", *line.split(), "-q", "-o", "out.jsonl")
    assert done.code == code, done.stderr
    assert message in done.stderr
