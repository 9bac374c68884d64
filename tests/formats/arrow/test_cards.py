"""Features of ten public dataset cards, with synthetic rows, go in and out as they were."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lodcli
from lodcli.formats.core import io

Card = tuple[Callable[[Any], dict[str, Any]], list[dict[str, Any]]]
_TAGS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]


CARDS: dict[str, Card] = {
    # Text classification: stanfordnlp/imdb.
    "imdb": (
        lambda d: {"text": d.Value("string"), "label": d.ClassLabel(names=["neg", "pos"])},
        [{"text": "Grüße 👋", "label": 1}, {"text": "", "label": 0}, {"text": "so so", "label": 0}],
    ),
    # Question answering with nested answers: rajpurkar/squad.
    "squad": (
        lambda d: {
            **{name: d.Value("string") for name in ("id", "title", "context", "question")},
            "answers": {
                "text": d.List(d.Value("string")),
                "answer_start": d.List(d.Value("int32")),
            },
        },
        [
            {
                "id": "5733",
                "title": "Notre Dame",
                "context": "To whom?",
                "question": "Who?",
                "answers": {"text": ["Saint", "Bernadette"], "answer_start": [515, 3]},
            },
            {
                "id": "5734",
                "title": "",
                "context": "c",
                "question": "q",
                "answers": {"text": [], "answer_start": []},
            },
        ],
    ),
    # Named entities, sequences of class labels: eriktks/conll2003.
    "conll2003": (
        lambda d: {
            "id": d.Value("string"),
            "tokens": d.List(d.Value("string")),
            "pos_tags": d.List(d.ClassLabel(names=['"', "''", "#", "NN", "VB"])),
            "ner_tags": d.List(d.ClassLabel(names=_TAGS)),
        },
        [
            {"id": "0", "tokens": ["EU", "rejects"], "pos_tags": [3, 4], "ner_tags": [3, 0]},
            {"id": "1", "tokens": [], "pos_tags": [], "ner_tags": []},
            {"id": "2", "tokens": ["Peter"], "pos_tags": [3], "ner_tags": [1]},
        ],
    ),
    # Translation: wmt/wmt16.
    "wmt16": (
        lambda d: {"translation": d.Translation(languages=["de", "en"])},
        [{"translation": {"de": "Straße", "en": "street"}}, {"translation": {"de": "", "en": "x"}}],
    ),
    # Messages of a chat, a list of records: HuggingFaceH4/ultrachat_200k.
    "ultrachat": (
        lambda d: {
            "prompt": d.Value("string"),
            "prompt_id": d.Value("string"),
            "messages": d.List({"content": d.Value("string"), "role": d.Value("string")}),
        },
        [
            {
                "prompt": "Hi",
                "prompt_id": "a1",
                "messages": [
                    {"content": "Hi", "role": "user"},
                    {"content": "Hello!", "role": "assistant"},
                ],
            },
            {"prompt": "", "prompt_id": "a2", "messages": []},
            {"prompt": "?", "prompt_id": "a3", "messages": [{"content": None, "role": "user"}]},
        ],
    ),
    # Arrays of audio: openslr/librispeech_asr, and a decoded array.
    "librispeech": (
        lambda d: {
            "file": d.Value("string"),
            "audio": d.Audio(sampling_rate=16_000, decode=False),
            "array": d.List(d.Value("float32")),
            "speaker_id": d.Value("int64"),
        },
        [
            {
                "file": "a.flac",
                "audio": {"bytes": b"fLaC\0\xff", "path": "a.flac"},
                "array": [0.5, -0.25],
                "speaker_id": 374,
            },
            {"file": "b", "audio": {"bytes": b"", "path": "b"}, "array": [], "speaker_id": -1},
        ],
    ),
    # Summarisation: abisee/cnn_dailymail.
    "cnn_dailymail": (
        lambda d: {name: d.Value("string") for name in ("article", "highlights", "id")},
        [
            {"article": "LONDON --\n", "highlights": "A.\nB.", "id": "42"},
            dict.fromkeys(("article", "highlights", "id")),
        ],
    ),
    # Multiple choice: tau/commonsense_qa.
    "commonsense_qa": (
        lambda d: {
            "id": d.Value("string"),
            "choices": d.List({"label": d.Value("string"), "text": d.Value("string")}),
            "answerKey": d.Value("string"),
        },
        [
            {
                "id": "1",
                "choices": [{"label": "A", "text": "bank"}, {"label": "B", "text": "library"}],
                "answerKey": "A",
            },
            {"id": "2", "choices": [], "answerKey": ""},
        ],
    ),
    # Images with captions: nlphuji/flickr30k.
    "flickr30k": (
        lambda d: {
            "image": d.Image(decode=False),
            "caption": d.List(d.Value("string")),
            "boxes": d.List(d.List(d.Value("int16"), length=4)),
        },
        [
            {
                "image": {"bytes": b"\x89PNG\r\n", "path": None},
                "caption": ["a dog", "ein Hund"],
                "boxes": [[1, 2, 3, 4]],
            },
            {"image": None, "caption": [], "boxes": []},
        ],
    ),
    # Scores and times, of many types: a card of events.
    "events": (
        lambda d: {
            "at": d.Value("timestamp[ms, tz=UTC]"),
            "day": d.Value("date32"),
            "price": d.Value("decimal128(10, 2)"),
            "flag": d.Value("bool"),
            "score": d.Value("float16"),
            "vector": d.List(d.Value("float64"), length=2),
            "matrix": d.Array2D((2, 2), "float32"),
            "raw": d.Value("large_binary"),
            "ids": d.LargeList(d.Value("uint16")),
        },
        [
            {
                "at": 1_600_000_000_000,
                "day": 18_500,
                "price": "12.50",
                "flag": True,
                "score": 0.5,
                "vector": [1.0, -0.0],
                "matrix": [[1.0, 2.0], [3.0, 4.0]],
                "raw": b"\0\1",
                "ids": [1, 65535],
            },
        ],
    ),
    # JSON and further kinds of files, of datasets 5.
    "documents": (
        lambda d: {
            "json": d.Json(),
            "list": d.List(d.Json()),
            "inside": {"json": d.Json(), "name": d.Value("string")},
            "mesh": d.Mesh(decode=False),
            "sequence": d.BioSequence(decode=False),
            "structure": d.BioStructure(decode=False),
        },
        [
            {
                "json": {"a": [1, "x"]},
                "list": [{"b": None}, 1],
                "inside": {"json": [1.5], "name": "n"},
                "mesh": {"bytes": b"v", "path": None},
                "sequence": {"bytes": b">a", "path": None},
                "structure": None,
            },
            {"json": None, "list": [], "inside": {"json": None, "name": "m"}},
        ],
    ),
}


def made(name: str, folder: Path) -> Any:
    """Save the data set of a card, and return it."""
    datasets = pytest.importorskip("datasets")
    if name == "documents" and not hasattr(datasets, "BioStructure"):
        pytest.skip("datasets is too old")
    described, rows = CARDS[name]
    features = datasets.Features(described(datasets))
    if name == "librispeech":  # encoding takes a package
        saved = datasets.Dataset(pa.Table.from_pylist(rows, schema=features.arrow_schema))
    else:
        found = [_event(row) if name == "events" else dict(row) for row in rows]
        saved = datasets.Dataset.from_list(found, features=features)
    saved.save_to_disk(folder)
    return saved


def _event(row: dict[str, Any]) -> dict[str, Any]:
    at = datetime.datetime.fromtimestamp(row["at"] / 1000, datetime.UTC)
    day = datetime.date(1970, 1, 1) + datetime.timedelta(row["day"])
    return {**row, "at": at, "day": day, "price": decimal.Decimal(row["price"])}


@pytest.mark.parametrize("between", ["lod.h5", "lods", "parquet"])
@pytest.mark.parametrize("name", CARDS)
def test_a_card_comes_back_as_it_was(name: str, between: str, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    before = made(name, tmp_path / "given")
    path: Path = tmp_path / "given"
    for target, kind in ((tmp_path / f"x.{between}", None), (tmp_path / "back", "datasets")):
        with lodcli.open(path) as file:
            io.write_batches(target, file.schema, file.batches(), format_name=kind, strict=True)
        path = target
    after = datasets.load_from_disk(path)
    assert after.features == before.features
    assert list(after.features) == list(before.features)
    one, two = before.data.table, after.data.table
    assert two.schema.types == one.schema.types
    assert [two[column].to_pylist() for column in one.column_names] == [
        one[column].to_pylist() for column in one.column_names
    ]
