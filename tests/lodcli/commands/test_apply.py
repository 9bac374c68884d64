"""`lod apply`: every op from the shell, one after another, and the page of the ops."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply import results, running
from lodcli.commands.apply.arguments import described
from lodcli.commands.apply.expression import OWN
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.plugins import find_op
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.output import is_quiet
from lodcli.shell.targets import Target
from tests.lodcli.conftest import Lod, articles, tensor

ROOT = Path(__file__).parents[3]


INPUTS = {
    "x": LoDTensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[2, 1]]),
    "zeros": LoDTensor([[0.0], [0.0], [0.0]], [[2, 1]]),
    "ids": LoDTensor([2, 7, 2, 5], [[2, 1, 1]]),
    "refs": LoDTensor([7, 2, 5, 5], [[1, 1, 2]]),
    "path": LoDTensor([1, 1, 0, 2, 0], [[4, 1]]),
    "three": LoDTensor([10, 20, 30]),
    "images": LoDTensor([[[[1.0, 2.0], [3.0, 4.0]]]]),
    "column": LoDTensor([[1.0], [1.0]]),
    "double": LoDTensor([[2.0, 3.0]]),
    "box": LoDTensor([[0.0, 0.0], [0.0, 0.0]]),
    "places": LoDTensor([1, 0, 1], [[2, 1]]),
    "updates": LoDTensor([5.0, 6.0, 7.0], [[2, 1]]),
    "values": LoDTensor([[1.0], [5.0], [3.0]], [[3]]),
    "one": LoDTensor([[0.0]], [[1]]),
    "padded": LoDTensor([[1, 2], [3, 0]]),
}

NOT_FLOATING = "expected floating numbers, found int64"

# The command line, and the lengths and rows of its result, computed by hand.
CASES: list[tuple[str, list[list[int]], Any]] = [
    ("sum x", [], [[4, 6], [5, 6]]),
    ("sum --level 0 --backend numba x", [], [[4, 6], [5, 6]]),
    ("max --level -1 x", [], [[3, 4], [5, 6]]),
    ("softmax zeros", [[2, 1]], [[0.5], [0.5], [1]]),
    ("mul x x", [[2, 1]], [[1, 4], [9, 16], [25, 36]]),
    ("attention zeros zeros x", [[2, 1]], [[2, 3], [2, 3], [5, 6]]),
    ("concat ids ids", [[4, 2, 2]], [2, 7, 2, 7, 2, 2, 5, 5]),
    ("conv x --weight column --context-length 1 --context-start 0", [[2, 1]], [[3], [7], [11]]),
    ("row-conv x --weight double", [[2, 1]], [[2, 6], [6, 12], [10, 18]]),
    ("ctc_align path", [[2, 0]], [1, 2]),
    ("edit_distance ids refs --no-normalized", [], [[1], [0], [1]]),
    ("windows ids --length 2 --tail drop", [[1, 0, 0], [2]], [2, 7]),
    ("enumerate ids --win-size 2 --pad-value -1", [[2, 1, 1]], [[2, 7], [7, -1], [2, -1], [5, -1]]),
    ("erase ids --tokens 2,5", [[1, 0, 0]], [7]),
    ("expand_as three ids", [[2, 1, 1]], [10, 10, 20, 30]),
    ("rank_table refs", [], [[2, 2], [0, 1], [1, 1]]),
    ("max_sequence_len ranks", [], [3]),
    ("shrink_memory three --table ranks --step 2", [], [10]),
    ("im2sequence images --kernels 1,2", [[2]], [[1, 2], [3, 4]]),
    ("lod_reset ids --lengths 1,1/3,1", [[1, 1], [3, 1]], [2, 7, 2, 5]),
    ("lod_reset ids --like path", [], "error"),
    ("mask three --maxlen 2 --dtype int8", [], [[1, 1], [1, 1], [1, 1]]),
    ("unpad padded --lengths 2,1", [[2, 1]], [1, 2, 3]),
    ("merge_by_mask refs path --mask 1,", [], "error"),
    ("reshape x --new-dim 1", [[4, 2]], [[1], [2], [3], [4], [5], [6]]),
    ("reverse ids", [[2, 1, 1]], [7, 2, 2, 5]),
    ("rms_norm values --epsilon 1e-300", [[3]], [[1], [1], [1]]),
    ("cumsum x", [[2, 1]], [[1, 2], [4, 6], [5, 6]]),
    ("sort ids --descending", [[2, 1, 1]], [7, 2, 2, 5]),
    ("histogram ids --edges 0,3,8", [], [[1, 1], [1, 0], [0, 1]]),
    ("scatter box places updates", [], [[6, 5], [0, 7]]),
    ("slice ids --offset 1,0,0 --length 1,1,0", [[1, 1, 0]], [7, 2]),
    ("topk_avg_pooling values one values --topks 1,2 --channel-num 1", [[1]], [[5, 4]]),
    ("reverse x --then mul x --then sum", [], [[6, 16], [25, 36]]),
    ("first x --then concat --then last", [], "error"),
    ("mean x --then expand_as x --then reverse --level 0", [[2, 1]], [[2, 3], [2, 3], [5, 6]]),
    ("rank_table ids --then max-sequence-len", [], [2]),
]


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, made current, with a file for each of INPUTS."""
    for name, content in INPUTS.items():
        io.write(tmp_path / f"{name}.lod.h5", content)
    io.write(tmp_path / "ranks.lod.h5", LoDTensor([[1, 3], [0, 2], [2, 2]]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(line: str) -> list[str]:
    """Return the words of a line, files with their endings."""
    known = {*INPUTS, "ranks"}
    return [f"{word}.lod.h5" if word in known else word for word in line.split()]


@pytest.mark.parametrize(("line", "lengths", "rows"), CASES, ids=[case[0] for case in CASES])
def test_an_op_gives_these_lengths_and_rows(
    lod: Lod, inputs: Path, line: str, lengths: list[list[int]], rows: Any
) -> None:
    done = lod("apply", *typed(line), "-o", "out.lod.h5")
    if rows == "error":  # an error of the data, found by the op itself
        assert (done.code, done.stderr.count("\n")) in ((1, 1), (2, 1))
        assert not Path("out.lod.h5").exists()
        return
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    found = tensor("out.lod.h5")
    assert found.recursive_sequence_lengths() == lengths
    np.testing.assert_array_equal(found.data, rows)


@pytest.mark.parametrize(
    ("line", "names", "first", "second"),
    [
        ("max_index x", ["values", "rows"], [[3, 4], [5, 6]], [[1, 1], [2, 2]]),
        ("pad ids", ["padded", "lengths"], [[2, 7], [2, 0], [5, 0]], [2, 1, 1]),
        ("split_by_mask ids --mask true,false,true", ["true", "false"], [2, 7, 5], [2]),
        ("reverse ids --then pad", ["padded", "lengths"], [[7, 2], [2, 0], [5, 0]], [2, 1, 1]),
        ("deinterleave path --count 2", ["data_0", "data_1"], [1, 1, 0, 2], [0]),
    ],
)
def test_several_results_become_named_tensors(
    lod: Lod, inputs: Path, line: str, names: list[str], first: Any, second: Any
) -> None:
    assert lod("apply", *typed(line), "-o", "out.lod.h5").code == 0
    found = io.read_all("out.lod.h5")
    assert list(found) == names
    for name, rows in zip(names, (first, second), strict=True):
        np.testing.assert_array_equal(tensor("out.lod.h5", name).data, rows)


def test_a_tensor_keeps_its_name_and_is_chosen_by_name(lod: Lod, folder: Path) -> None:
    done = lod("apply", "mul", "many.lod.h5::tags", "many.lod.h5::tags", "-o", "out.lod.h5")
    assert done.code == 0
    assert tensor("out.lod.h5", "tags").data.tolist() == [n * n for n in range(15)]


def test_a_level_goes_by_name_too(lod: Lod, folder: Path) -> None:
    assert lod("apply", "last", "words.lod.h5", "--level", "article", "-o", "a.lod.h5").code == 0
    assert lod("apply", "last", "words.lod.h5", "--level", "0", "-o", "b.lod.h5").code == 0
    for path in ("a.lod.h5", "b.lod.h5"):
        np.testing.assert_array_equal(tensor(path).data, articles().data[[8, 9, 14]])


def test_numbers_of_64_bits_keep_their_digits(lod: Lod, folder: Path) -> None:
    ids = LoDTensor(np.array([1, 2**63 + 1, 2**64 - 1], np.uint64), [[3]])
    io.write("ids.lod.h5", ids)
    edges = f"0,{2**63 + 1},{2**64 - 1}"
    assert lod("apply", "histogram", "ids.lod.h5", "--edges", edges, "-o", "a.lod.h5").code == 0
    assert tensor("a.lod.h5").data.tolist() == [[1, 2]]
    tokens = f"1,{2**64 - 1}"
    assert lod("apply", "erase", "ids.lod.h5", "--tokens", tokens, "-o", "b.lod.h5").code == 0
    assert tensor("b.lod.h5").data.tolist() == [2**63 + 1]


def test_complex_numbers_get_no_advice_that_does_not_help(lod: Lod, folder: Path) -> None:
    io.write("complex.lod.h5", LoDTensor(np.array([1j, 2]), [[2]]))
    io.write("table.lod.h5", LoDTensor(np.array([[1j], [2]]), [[2]]))
    io.write("weight.lod.h5", LoDTensor([[1.0]]))
    for line in (
        "softmax complex",
        "softmax(data) complex",
        "row_conv table --weight weight.lod.h5",
        "conv table --weight weight.lod.h5 --context-length 1 --context-start 0",
        "attention table table table",
        "topk_avg_pooling complex complex complex --topks 1 --channel-num 1",
    ):
        words = line.replace("complex", "complex.lod.h5").replace("table", "table.lod.h5")
        done = lod("apply", *words.split(), "-o", "out.lod.h5")
        assert done.code == 2
        assert done.stderr.endswith(": expected floating numbers, found complex128\n")


@pytest.mark.parametrize("op", ["max", "sort", "topk --k 1", "max_index", "max(data)"])
def test_ops_that_order_are_not_defined_for_complex_numbers(
    lod: Lod, folder: Path, op: str
) -> None:
    io.write("complex.lod.h5", LoDTensor(np.array([1j, 2]), [[2]]))
    done = lod("apply", *op.split(), "complex.lod.h5", "-o", "out.lod.h5")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.endswith(": complex128 has no order\n")


def test_sub_is_not_defined_for_booleans(lod: Lod, folder: Path) -> None:
    io.write("bools.lod.h5", LoDTensor(np.array([True, False]), [[2]]))
    io.write("numbers.lod.h5", LoDTensor(np.array([1, 2]), [[2]]))
    said = "sequence_sub needs numbers, found bool; make numbers of it with lod cast"
    for first, second in (("bools", "bools"), ("bools", "numbers"), ("numbers", "bools")):
        names = f"{first}.lod.h5", f"{second}.lod.h5"
        done = lod("apply", "sub", *names, "-o", "out.lod.h5", "--json")
        assert (done.code, done.stdout) == (2, "")
        error = json.loads(done.stderr)["error"]
        assert error["message"] == f"bools.lod.h5: {said}"
        assert error["file"] == "bools.lod.h5"
        assert error["remedy"] == "make numbers of it with lod cast"


def test_steps_of_a_table_become_sequences_again(lod: Lod, folder: Path) -> None:
    for line in (
        "rank_table words.lod.h5 -o ranks.lod.h5",
        "to_steps words.lod.h5 --table ranks.lod.h5 -o steps.lod.h5",
        "from_steps steps.lod.h5 --table ranks.lod.h5 -o back.lod.h5",
    ):
        assert lod("apply", *line.split()).code == 0
    np.testing.assert_array_equal(tensor("back.lod.h5").data, articles().data)
    assert tensor("back.lod.h5").lod == articles().lod.with_names([None, "sentence"])


def test_a_target_may_stand_before_or_behind_then(lod: Lod, inputs: Path) -> None:
    x = "x.lod.h5"
    assert lod("apply", "sum", x, "-o", "a.lod.h5", "--then", "concat").code != 0
    assert lod("apply", "reverse", x, "-qo", "a.lod.h5", "--then", "sum").code == 0
    assert lod("apply", "reverse", x, "-o", "a.lod.h5", "--then", "sum", "--force").code == 0
    assert tensor("a.lod.h5").data.tolist() == [[4, 6], [5, 6]]


def test_an_error_of_a_chained_op_names_it(lod: Lod, inputs: Path) -> None:
    done = lod("apply", "reverse", "x.lod.h5", "--then", "softmax", "--level", "1")
    assert done.stderr == "lod apply: x.lod.h5: softmax: no level 1: there is 1 level\n"
    done = lod("apply", "sum", "x.lod.h5", "--then", "softmax")  # once, if it names itself
    assert ": x.lod.h5: sequence_softmax: the tensor has no levels" in done.stderr


def test_pipes_come_in_and_go_out(shell: Lod) -> None:
    line = "cat words.lod.h5 | lod apply sum - | lod apply mean - | lod convert - out.lod.h5"
    assert shell(line).clean
    # Sentence sums of the first article: 6 9, 14 16, 52 56.
    np.testing.assert_array_equal(tensor("out.lod.h5").data, [[24, 27], [18, 19], [60, 62.5]])


@pytest.mark.parametrize(
    "line",
    [
        "sum words.lod.h5",
        "softmax words.lod.h5 --then reverse",
        "windows words.lod.h5 --length 2 --then first",
        "max_index words.lod.h5",
        "reverse words.lod.h5 --level 0 --then sum --then last",
    ],
)
def test_batches_give_what_the_whole_gives(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    words = line.split()
    assert lod("apply", *words, "-o", "whole.lod.h5").code == 0
    sizes = []
    run = running._run

    def counted(steps: Any, values: Any, *rest: Any) -> Any:
        sizes.append(len(values[0]))
        return run(steps, values, *rest)

    monkeypatch.setattr(running, "_run", counted)
    monkeypatch.setattr(results, "COMPUTED_BYTES", 1)
    assert lod("apply", *words, "-o", "parts.lod.h5").code == 0
    assert sizes == ([3] if "max_index" in line else [1, 1, 1])
    whole, parts = io.read_all("whole.lod.h5"), io.read_all("parts.lod.h5")
    assert list(whole) == list(parts)
    for name in whole:
        assert tensor("parts.lod.h5", name).identical(tensor("whole.lod.h5", name))


# What an op that works in parts needs beside its tensor.
OPTIONS: dict[str, dict[str, Any]] = {
    "conv": {"weight": np.ones((4, 1)), "context_length": 2, "context_start": -1, "level": -1},
    "row_conv": {"weight": np.ones((2, 2))},
    "enumerate": {"win_size": 2},
    "erase": {"tokens": [3]},
    "histogram": {"edges": [0, 2, 5]},
    "reshape": {"new_dim": 1, "level": -1},
    "truncate": {"length": 1},
    "windows": {"length": 2},
}
IDS = ("ctc_align", "enumerate", "erase", "histogram", "unique")


@pytest.mark.parametrize("name", [name for name in OPS if OPS[name].itemwise])
def test_ops_declared_to_work_in_parts_do(name: str) -> None:
    """The parts are joined by hand: rows and lengths, one after another."""
    own = described(OPS[name])
    needed = {one.name for one in own.options if one.required}
    assert needed <= OPTIONS.get(name, {}).keys(), "give them in OPTIONS"
    assert [one.kind for one in own.inputs] == ["tensor"]
    assert not own.several
    lod = LoD.from_lengths([[2, 1, 0, 1], [2, 0, 3, 1]])
    rows = np.array([0, 3, 5, 5, 1, 2]) if name in IDS else np.arange(12.0).reshape(6, 2) ** 2
    whole = LoDTensor(rows, lod)
    more: dict[str, Any] = {**OPTIONS.get(name, {})}
    if own.has_backend:
        more["backend"] = "numpy"
    expected = own.function(whole, **more)
    parts = [own.function(whole[n : n + 1], **more) for n in range(4)]
    np.testing.assert_array_equal(np.concatenate([one.data for one in parts]), expected.data)
    lengths = [one.recursive_sequence_lengths() for one in parts]
    joined = [list(chain(*level)) for level in zip(*lengths, strict=True)]
    assert joined == expected.recursive_sequence_lengths()


def test_an_empty_file_is_no_trouble(lod: Lod, tmp_path: Path) -> None:
    source, out = tmp_path / "none.lod.h5", tmp_path / "out.lod.h5"
    empty = LoDTensor(np.zeros((0, 2)), LoD.from_lengths([[]]))
    io.write(source, empty)
    assert lod("apply", "sum", source, "-o", out).code == 0
    assert tensor(out).data.shape == (0, 2)


def test_quiet_anywhere_is_quiet_everywhere(lod: Lod, inputs: Path) -> None:
    heard: list[bool] = []
    original = Target.write

    def write(target: Target, *args: Any) -> None:
        heard.append(is_quiet())
        original(target, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Target, "write", write)
        x = "x.lod.h5"
        for line in (
            f"reverse {x} -q --then sum -o a.lod.h5",
            f"reverse {x} --then sum -qo b.lod.h5",
            f"reverse {x} --then sum -o c.lod.h5",
        ):
            assert lod("apply", *line.split()).code == 0
    assert heard == [True, True, False]


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("sumn x", 2, "no op 'sumn'; did you mean sum"),
        ("softmx x", 2, "did you mean softmax or log_softmax"),
        ("qqqq x", 2, "no op 'qqqq'; lod apply --list shows all"),
        ("lower x", 2, "no op 'lower'; in an expression it is a function, as in 'lower(x)'"),
        ("sum x --then sumn", 2, "no op 'sumn'; did you mean sum"),
        ("sum x --then", 2, "--then needs an op"),
        ("sum x --then -o out.lod.h5", 2, "expected an op, found the option '-o'"),
        ("sum", 2, "missing argument 'TENSOR'"),
        ("add x", 2, "missing argument 'OTHER'"),
        ("concat", 2, "missing argument 'TENSORS...'"),
        ("sum x --then add", 2, "missing argument 'OTHER'"),
        ("sum x x", 2, "sum takes 1 (TENSOR); found 2"),
        ("sum x --then sum x", 2, "the first of them the result before it; found 2"),
        ("enumerate ids", 2, "missing option '--win-size'"),
        ("enumerate ids --win-size two", 2, "'two' is not a whole number"),
        ("enumerate ids --win-size 1e3", 2, "'1e3' is not a whole number"),
        ("erase ids --tokens 1,b", 1, "tokens must be whole numbers, found 'b'"),
        ("erase ids --tokens 1,18446744073709551616", 1, "must be whole numbers, found 1.8446744"),
        ("histogram ids --edges=-1,9223372036854775808", 2, "no dtype holds negative numbers and"),
        ("windows ids --length 1 --tail off", 2, "'off' is not one of 'drop', 'keep'"),
        ("sum x --level 7", 2, "no level 7"),
        ("sum x --backend abacus", 2, "'abacus' is not one of 'auto', 'numpy', 'numba'"),
        ("reshape x --new-dim 1 --backend numba", 4, "no numba kernel for reshape; use --backend"),
        ("add - -", 2, "- is given twice"),
        (
            "max_index x --then sum",
            2,
            "max_index returns several tensors, so it must be last in the chain",
        ),
        ("mul x values", 1, "sequence_mul"),
        ("softmax ids", 2, "sequence_softmax: expected floating numbers, found int64"),
        ("row_conv ranks --weight double", 2, f"row_conv: {NOT_FLOATING}; --dtype float32"),
        ("row_conv x --weight ids", 2, f"the weight of row_conv: {NOT_FLOATING}; lod cast"),
        (
            "conv ids --weight column --context-length 1 --context-start 0",
            2,
            f"sequence_conv: {NOT_FLOATING}; --dtype float32",
        ),
        ("attention ids ids ids", 2, f"sequence_attention: {NOT_FLOATING}; --dtype float32"),
        (
            "topk_avg_pooling ids ids ids --topks 1 --channel-num 1",
            2,
            f"topk_avg_pooling: {NOT_FLOATING}; --dtype float32",
        ),
        ("slice ids --offset 1 --length 1", 1, "one number for each of 3 sequences"),
        ("sum ids --pad-value 0.5", 1, "int64 cannot hold the pad_value 0.5"),
        ("unpad padded --lengths 9,9", 1, "the length of sequence 0 must be 0 to 2, found 9"),
        ("windows ids --length 0", 2, "length must be at least 1, found 0"),
        ("truncate ids --length -1", 2, "length must be at least 0, found -1"),
        ("topk ids --k -1", 2, "k must be at least 0, found -1"),
        ("histogram ids --edges 2,1", 2, "edges must ascend, found 2 and then 1"),
        ("layer_norm x --epsilon 0", 2, "epsilon must be above 0, found 0.0"),
        ("pad ids --maxlen -2", 2, "maxlen must be -1 or more"),
        ("lod_reset ids --offsets 0,4 --lengths 4", 2, "needs one of lod, offsets, lengths"),
        ("expand x x --ref-level -3", 2, "no level -3"),
        ("reshape x --new-dim 0", 2, "new_dim must be at least 1, found 0"),
        ("conv x --weight gone --context-length 1 --context-start 0", 3, "gone: no such file"),
        ("sum gone.lod.h5", 3, "gone.lod.h5: no such file"),
        ("--json", 2, "--json needs --list"),
        ("--list sum x", 2, "--list takes no op"),
        ("--json sum x", 2, "--json goes after the op"),
        ("x-y x", 2, "if this is an expression, write 'x - y'"),
    ],
)
def test_wrong_usage_is_one_line(lod: Lod, inputs: Path, line: str, code: int, said: str) -> None:
    where = [] if line.startswith("-") or line.endswith("--then") else ["-o", "new.lod.h5"]
    done = lod("apply", *typed(line), *where)
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("new.lod.h5").exists()


@pytest.mark.parametrize("name", ["-q", "--quiet", "-v"])
def test_options_of_messages_may_come_before_the_op(lod: Lod, inputs: Path, name: str) -> None:
    after = lod("apply", "sum", name, "x.lod.h5", "-o", "after.jsonl")
    before = lod("apply", name, "sum", "x.lod.h5", "-o", "before.jsonl")
    assert (before.code, after.code) == (0, 0)
    assert bool(before.stderr) == bool(after.stderr) == (name == "-v")
    assert Path("before.jsonl").read_bytes() == Path("after.jsonl").read_bytes()
    assert lod("apply", "--list", name).code == 0


def test_an_array_too_large_is_no_internal_error(lod: Lod, inputs: Path) -> None:
    done = lod("apply", "pad", "ids.lod.h5", "--maxlen", "9" * 18, "-o", "out.lod.h5")
    assert done.code == 2
    assert "maxlen: 999999999999999999 is out of range" in done.stderr


def test_a_file_is_replaced_only_with_force(lod: Lod, inputs: Path) -> None:
    done = lod("apply", "sum", "x.lod.h5", "-o", "ids.lod.h5")
    assert (done.code, "exists already" in done.stderr) == (3, True)
    assert lod("apply", "sum", "x.lod.h5", "-fo", "ids.lod.h5").code == 0


def test_the_list_holds_every_op(lod: Lod) -> None:
    shown = lod("apply", "--list").stdout.splitlines()
    assert [line.split()[0] for line in shown[1:]] == list(OPS)
    told = json.loads(lod("apply", "--list", "--json").stdout)
    assert told["schema_version"] == 1
    assert [one["name"] for one in told["ops"]] == list(OPS)
    for one in told["ops"]:
        assert one["summary"] == OPS[one["name"]].summary
        assert one["equation"] == OPS[one["name"]].equation


def test_a_gpu_that_cannot_be_used_is_unsupported(lod: Lod, folder: Path) -> None:
    done = lod("apply", "sum", folder / "articles.lod.h5", "--device", "cuda:7", "-o", "-")
    assert done.code == 4
    assert "--device " in done.stderr
    assert "use --device cpu" in done.stderr
    assert lod("apply", "sum", folder / "articles.lod.h5", "--device", "tpu").code == 2


NOON = datetime(2024, 5, 1, 12)


@pytest.mark.parametrize("name", sorted(name for name in OWN if find_op(name) is None))
def test_the_example_of_a_function_that_is_no_op_works(lod: Lod, folder: Path, name: str) -> None:
    done = lod("apply", name, "x.lod.h5")
    assert f"no op {name!r}; in an expression it is a function, as in '" in done.stderr
    example = done.stderr.split("as in '")[1].partition("'; see")[0]
    lists = LoDTensor(np.array([1.0, 2.0, 3.0]), [[2, 1]])
    texts, times = LoDTensor.from_lists(["a,b", "c"]), LoDTensor.from_lists([NOON] * 2)
    codes = []
    for one in (lists, texts, times):
        io.write("x.lod.h5", {"x": one, "y": one}, overwrite=True)
        codes.append(lod("apply", example, "x.lod.h5", "-fo", "o.lods").code)
    assert 0 in codes
