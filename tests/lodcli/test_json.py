"""The --json output of every command matches its JSON Schema; errors are JSON too."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from lodcli import commands
from lodcli.formats.core import io
from lodcli.reports import table
from lodcli.shell.group import group
from tests.lodcli.conftest import Lod, tensor
from tests.lodcli.test_all_commands import leaves
from tests.slow import slow

SAMPLES = Path(__file__).parent.parent.parent / "samples"

# Each command: lines that between them print every kind of object that it has.
LINES = {
    "inspect": [
        "words.lod.h5",
        "many.lod.h5",
        "steps.lod.h5",
        "text.lod.h5 --level 0",
        "many.lod.h5 --form starts",
        "words.lod.h5 --stats --duplicates --head 1 --values --top 2",
    ],
    "view": ["words.lod.h5 --at 0,2", "many.lod.h5::other"],
    "plot": ["words.lod.h5 -o out.svg"],
    "slice": ["many.lod.h5::tags 1:3 -o out.npz"],
    "head": ["words.lod.h5 -n 1 -o out.lods"],
    "tail": ["words.lod.h5 -n 1 -o out.jsonl --to jsonl"],
    "filter": ["words.lod.h5 'length() > 1' -o out.lod.h5"],
    "sample": ["words.lod.h5 2 -o out.lod.h5"],
    "shuffle": ["words.lod.h5 -o out.lod.h5"],
    "sort": ["words.lod.h5 --by length -o out.lod.h5"],
    "select": ["many.lod.h5 tags -o out.lod.h5"],
    "drop": ["many.lod.h5 tags -o out.lod.h5"],
    "rename": ["many.lod.h5 tags=t -o out.lod.h5"],
    "cast": ["words.lod.h5 float64 -o out.lod.h5"],
    "convert": [
        "--formats",
        "text.lod.h5 out.jsonl --dry-run",
        "words.lod.h5 saved --to datasets",
        "text.lod.h5 out.jsonl",
    ],
    "concat": ["words.lod.h5 words.lod.h5 -o out.lod.h5"],
    "merge": ["words.lod.h5 many.lod.h5::tags -o out.lod.h5"],
    "join": ["clicks.csv clicks.csv --on user --how semi -o out.lod.h5"],
    "group": ["clicks.csv --by user -o out.lod.h5"],
    "explode": ["words.lod.h5 -o out.lod.h5"],
    "split": ["words.lod.h5 --by count 2 -o 'p-{}.lod.h5'"],
    "shard": ["words.lod.h5 shards --shards 2"],
    "diff": ["words.lod.h5 many.lod.h5", "words.lod.h5 words.lod.h5", "many.lod.h5 tags.lod.h5"],
    "plan": ["words.lod.h5 --tokens 10", "words.lod.h5 --tokens 10 --write out.lod.h5"],
    "unpack": ["words.lod.h5 -o out.lod.h5"],
    "pack": ["steps.lod.h5 -o out.lod.h5"],
    "apply": [
        "--list",
        "sum words.lod.h5 --then sum -o out.lod.h5",
        "'data * 2' words.lod.h5 -o x.npz",
    ],
    "run-rnn": ["words.lod.h5 --cell gru --hidden 2 --seed 1 --stats -o out.lod.h5"],
    "bench": [
        "kernels --op sum --rows 1000 --against none --threads 1 --rounds 2 -o new.json",
        "--compare old.json new.json",
    ],
    "train": [f"{SAMPLES / 'japanese_vowels.ts'} --epochs 1 --hidden 2 -o model.safetensors"],
    "weights": ["w.safetensors", "w.safetensors -o w.keras"],
    "verify": ["words.lod.h5 text.lod.h5", "words.lod.h5 broken.lod.h5", "many.lod.h5 nowhere"],
    "completion": ["bash"],
    "schema": [""],
    "env": [""],
}
# These measure.
SLOW = ("bench", "train")


@pytest.fixture
def prepared(folder: Path, lod: Lod) -> Path:
    """The folder with files for every line above."""
    import numpy as np
    import safetensors.numpy

    from lodcli.kernels.rnn.stack.stack import seeded_weights
    from lodcli.kernels.rnn.stack.state_dict import state_dict

    io.write("text.lod.h5", io.read(SAMPLES / "events.jsonl", levels=["day", "hour"]))
    io.write("tags.lod.h5", {"vectors": io.read("many.lod.h5", "vectors")})
    assert lod("unpack", "words.lod.h5", "-o", "steps.lod.h5").code == 0
    Path("clicks.csv").write_text("user,day\na,1\nb,2\na,3\n")
    damaged = bytearray(Path("words.lod.h5").read_bytes())
    damaged[damaged.index(np.float32(7).tobytes())] ^= 255
    Path("broken.lod.h5").write_bytes(damaged)
    weights = seeded_weights("lstm", 3, 2, rng=np.random.default_rng(0))
    safetensors.numpy.save_file(state_dict(weights), "w.safetensors")
    return folder


def closed(schema: Any) -> Any:
    """Return a schema that allows no keys but those it lists."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    return found | {"additionalProperties": False} if "properties" in schema else found


def check(name: str, content: object, lod: Lod) -> None:
    """Fail unless an object is what `lod schema NAME` says, and no more."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(lod("schema", name).stdout)
    kind = jsonschema.Draft202012Validator
    kind.check_schema(schema)
    kind(closed(schema)).validate(content)


def test_every_command_has_lines_to_run_here() -> None:
    assert set(LINES) == set(commands.TABLE)


@pytest.mark.parametrize("name", [slow(name) if name in SLOW else name for name in commands.TABLE])
def test_json_is_what_the_schema_says(prepared: Path, lod: Lod, name: str) -> None:
    if name == "plot":
        pytest.importorskip("matplotlib")
    for line in LINES[name]:
        done = lod(name, *shlex.split(line), "--json", *(["-f"] if " -o out" in line else []))
        assert done.code <= 1 or "nowhere" in line, done
        (content,) = [json.loads(one) for one in done.stdout.splitlines()]
        assert content["schema_version"] == 1
        check(name, content, lod)
        for one in done.stderr.splitlines():
            check("error", json.loads(one), lod)
        if name == "bench" and "-o" in line:
            Path("new.json").rename("old.json")
            lod(name, *shlex.split(line))


def test_every_command_takes_json() -> None:
    for name, command in leaves(group):
        assert "--json" in {option for param in command.params for option in param.opts}, name


def test_commands_that_print_no_object_of_their_own_write_files() -> None:
    for name, command in leaves(group):
        named = {option for param in command.params for option in param.opts}
        assert name.split()[0] in table.TABLE or "--strict" in named, name


def test_schemas_are_listed_and_every_key_is_described(lod: Lod) -> None:
    names = lod("schema").stdout.split()
    assert names == [*commands.TABLE, "error"]
    for name in names:
        schema = json.loads(lod("schema", name).stdout)
        assert schema["title"] == f"lod {name} --json"
        for path, one in properties(schema):
            assert "description" in one or path.rpartition(".")[2] in OBVIOUS, f"{name}: {path}"


# Keys that need no words.
OBVIOUS = {"dtype", "shape", "low", "high"}


def properties(schema: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return all properties below a schema."""
    if isinstance(schema, list):
        return [found for one in schema for found in properties(one, path)]
    if not isinstance(schema, dict):
        return []
    found = []
    for key, value in schema.items():
        if key == "properties":
            found += [(f"{path}.{name}", one) for name, one in value.items()]
            found += [
                more for name, one in value.items() for more in properties(one, f"{path}.{name}")
            ]
        else:
            found += properties(value, path)
    return found


def test_the_written_files_are_described(folder: Path, lod: Lod) -> None:
    done = lod("slice", "many.lod.h5", "1:3", "-q", "--json", "-o", "out.npz")
    (file,) = json.loads(done.stdout)["files"]
    assert (file["file"], file["format"]) == ("out.npz", "npz")
    assert file["bytes"] == Path("out.npz").stat().st_size
    # Articles 1 and 2 of the example: 1 and 2 sentences, of 1 and of 2 and 3 words.
    found = {
        one["name"]: (one["rows"], [level["items"] for level in one["levels"]])
        for one in file["tensors"]
    }
    stored = {name: tensor("out.npz", name) for name in found}
    assert found == {
        name: (item.rows, [item.lod.count(n) for n in range(item.lod.n_levels)])
        for name, item in stored.items()
    }


@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        ("slice nope.lod.h5 0", 3, {"kind": "FileNotFoundError", "file": "nope.lod.h5"}),
        ("slcie", 2, {"remedy": "did you mean slice?; see lod --help"}),
        ("slice words.lod.h5", 2, {"command": "lod slice", "remedy": "see lod slice --help"}),
        (
            "inspect gaps.jsonl",
            1,
            {
                "remedy": "--nulls keep reads it as a null; or choose others with --columns, or "
                "the rest with --skip-unsupported (lod convert has --columns)"
            },
        ),
        (
            "slice words.lod.h5 99",
            2,
            {"kind": "SelectionError", "file": "words.lod.h5", "level": 0},
        ),
        ("slice words.lod.h5 99 --isolate", 2, {"level": 0}),
        ("slice words.lod.h5 0:2,99", 2, {"level": 0}),
        ("slice words.lod.h5 0:99 --strict", 2, {"level": 0}),
        ("filter words.lod.h5 --indices 99.txt", 2, {"level": 0}),
        ("filter level.jsonl --level 1 --indices 99.txt -fo x.lod.h5", 2, {"level": 1}),
        ("slice level.jsonl --level 1 9", 2, {"level": 1, "position": None}),
        ("slice level.jsonl 0,0,2", 2, {"level": 2}),
        ("slice 'level 7: x.npz' 0", 3, {"level": None}),
        ("inspect bad.safetensors", 1, {"file": "bad.safetensors", "level": 0, "position": 2}),
        ("verify broken.lod.h5", 1, {"kind": "DamagedFileError", "dataset": "/data"}),
        ("head words.lod.h5 -o words.lod.h5", 3, {"kind": "TargetExistsError"}),
        ("inspect cut.lod.h5", 1, {"remedy": "fetch or copy it again"}),
        ("apply nonsense words.lod.h5", 2, {"command": "lod apply"}),
        ("select verbs.jsonl nope -o z.jsonl", 2, {"remedy": None}),
        ("nonsense", 2, {"remedy": "see lod --help"}),
        (
            "plan words.lod.h5 --tokens 9 -o x.xyz",
            2,
            {"remedy": "name the format by the extension, such as .lod.h5"},
        ),
    ],
)
def test_errors_are_json_too(
    prepared: Path, lod: Lod, line: str, code: int, expected: dict[str, object]
) -> None:
    import numpy as np
    import safetensors.numpy

    offsets = np.array([0, 2, 1, 3])  # these decrease
    safetensors.numpy.save_file({"data": np.zeros(3), "lod.0": offsets}, "bad.safetensors")
    Path("gaps.jsonl").write_text('{"a":1,"b":2}\n{"a":1}\n')
    Path("99.txt").write_text("99\n")
    Path("verbs.jsonl").write_text('{"add":1,"ids":1,"mask":2,"split":3,"use":4}\n')
    Path("cut.lod.h5").write_bytes(Path("words.lod.h5").read_bytes()[:-9])
    Path("level.jsonl").write_text("[[1,2],[3]]\n")
    done = lod(*shlex.split(line), "--json")
    assert done.code == code
    (content,) = [json.loads(one) for one in done.stderr.splitlines()]
    check("error", content, lod)
    error = content["error"]
    assert {key: error[key] for key in expected} == expected
    assert error["code"] == code
    in_words = lod(*shlex.split(line)).stderr
    assert in_words.rstrip().endswith(error["message"])


def test_where_data_goes_to_standard_output_the_report_does_not(
    prepared: Path, lod: Lod, shell: Lod
) -> None:
    done = shell("lod slice words.lod.h5 0 --to jsonl --json -q")
    assert done.stdout == shell("lod slice words.lod.h5 0 --to jsonl -q").stdout != ""
    content = json.loads(done.stderr)
    assert content["files"][0]["file"] == "-"
    check("slice", content, lod)


def test_notes_are_json_too(folder: Path, lod: Lod) -> None:
    done = lod("slice", "words.lod.h5", "1:3", "--json", "-o", "out.npz")
    (note,) = [json.loads(one) for one in done.stderr.splitlines()]
    assert note["note"].startswith("npz does not keep these level names")
    check("error", note, lod)
