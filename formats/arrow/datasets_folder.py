"""datasets: a folder of Arrow IPC streams, as `Dataset.save_to_disk` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lodcli.formats.arrow.formats import Columns
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.format import Source
from lodcli.formats.core.names import shown
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.values.file_attributes import fitting, parsed, texts_and_others
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.tensor.marks import attributes_text

if TYPE_CHECKING:
    from lodcli.formats.arrow.files import Records

STATE = "state.json"
SPLITS = "dataset_dict.json"
INFO = "dataset_info.json"
DATA = "data-00000-of-00001.arrow"
MOST_JSON_BYTES = 64 << 20

# Without features: the library datasets infers them from the columns.
_INFO: dict[str, Any] = {"citation": "", "description": "", "homepage": "", "license": ""}
# Without a fingerprint: datasets then computes it from the files. With a constant one, its cache
# would return results for other rows.
_STATE: dict[str, Any] = {
    "_data_files": [{"filename": DATA}],
    "_fingerprint": None,
    "_format_columns": None,
    "_format_kwargs": {},
    "_format_type": None,
    "_output_all_columns": False,
    "_split": None,
}


class Datasets(Columns):
    """A folder of `Dataset.save_to_disk`, or of one split of a DatasetDict. See ArrowFile.

    The rows are those of the streams that state.json names, in its order; all of equal
    columns. What dataset_info.json says of them (class names, images) is read only where there
    is no stream, of a dataset without rows; how they were to be formatted is not. Its description,
    citation, homepage and license are attributes of the file. Written is one stream, which
    `load_from_disk` maps.
    """

    name = "datasets"
    layout = "folder"
    folder_files = r"data-[0-9]{5}-of-[0-9]{5}\.arrow|dataset_info\.json|state\.json"

    def _records(self, source: Input) -> tuple[Records, bool]:
        if not source.is_folder:
            raise UnsupportedError(f"datasets is a folder with a {STATE}; name the folder")
        if not source.has_beside(STATE) and source.has_beside(SPLITS):
            raise _split_wanted(source)
        names = _data_files(source)
        if not names:
            from lodcli.formats.arrow.no_records import NoRecords

            features = _json(source, INFO).get("features")
            with naming(INFO):
                return NoRecords(features if isinstance(features, dict) else {}), True
        from lodcli.formats.arrow.shards import Shards

        return Shards(source, names), True

    def open(self, source: Input, options: ReadOptions) -> Source:
        found = super().open(source, options)
        said = _json(source, INFO) if source.has_beside(INFO) else {}
        texts = {name: said[name] for name in _INFO if isinstance(said.get(name), str)}
        attributes, notes = fitting(
            {name: text for name, text in texts.items() if text} | dict(found.attributes)
        )
        found.attributes = attributes
        if notes:
            found.notes = [*found.notes, *notes]
        return found

    def keeps_dtype(self, spec: TensorSpec, options: WriteOptions) -> bool:
        coded = spec.marks.categories is not None
        return super().keeps_dtype(spec, options) and (not coded or spec.dtype == "int64")

    def keeps_marks(self, spec: TensorSpec) -> bool:
        words = spec.marks.categories
        return super().keeps_marks(spec) and (words is None or not words.ordered)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.arrow.writer import arrow_schema, or_empty, record_batches, write_ipc

        attributes = parsed(options.attributes)
        texts, _ = texts_and_others(attributes, attributes.keys() - _INFO.keys())
        others = {name: one for name, one in attributes.items() if name not in texts}
        rest = replace(options, attributes=attributes_text(others))
        columns, items = arrow_schema(schema, rest, labels=True), dict[str, int]()
        records = record_batches(schema, batches, items, labels=True)
        with output.part(DATA) as part:
            # The library datasets cannot load columns that it casts from no batches at all.
            write_ipc(part, columns, or_empty(records, columns), stream=True)
        self.require_equal(items)
        for name, said in ((INFO, {**_INFO, **texts}), (STATE, _STATE)):
            with output.part(name) as part:
                part.write(json.dumps(said, indent=2).encode() + b"\n")


def _data_files(folder: Input) -> list[str]:
    """Return the names of the streams; none if it was saved without rows.

    Raises:
        DamagedFileError: state.json is invalid.
        UnsupportedError: it selects only some of the rows.
    """
    said = _json(folder, STATE)
    if said.get("_indices_data_files"):
        raise UnsupportedError(
            f"{STATE}: chooses some of its rows by an index, as datasets 1 did; save it again "
            "with datasets 2 or later"
        )
    found = said.get("_data_files")
    if not isinstance(found, list):
        raise DamagedFileError(f"{STATE}: has no list of data files")
    names = []
    for number, one in enumerate(found):
        name = one.get("filename") if isinstance(one, dict) else None
        if not isinstance(name, str):
            raise DamagedFileError(f"{STATE}: data file {number} has no name")
        names.append(name)
    return names


def _split_wanted(folder: Input) -> Exception:
    splits = _json(folder, SPLITS).get("splits")
    if (
        not isinstance(splits, list)
        or not all(isinstance(one, str) for one in splits)
        or not splits
    ):
        return DamagedFileError(f"{SPLITS}: has no list of splits")
    assert folder.path is not None
    return SelectionError(
        f"is a DatasetDict with the splits {', '.join(map(shown, splits[:20]))}; name the folder "
        f"of one: {Path(folder.label, splits[0])}"
    )


def _json(folder: Input, name: str) -> dict[str, Any]:
    said = folder.json_beside(name, MOST_JSON_BYTES)
    if not isinstance(said, dict):
        raise DamagedFileError(f"{name}: is not a JSON object")
    return said
