"""Weights files: there and back, what a kind cannot hold, and what is not a weights file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.weights import KINDS, read_rnns, read_weights, write_weights
from lodcli.formats.weights.model_file import about_of
from lodcli.kernels.errors import (
    InvalidDataError,
    LodError,
    NotDefinedError,
    OptionError,
    SelectionError,
    UnsupportedError,
)
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.stack.state_dict import StateDict, state_dict, weights_from_state_dict
from lodcli.kernels.rnn.training.classifier import classifier_from_arrays, seeded_classifier
from tests.formats.cases.damage import changed, cut, read_each
from tests.formats.weights.weights_cases import CELLS, PUBLISHED_CELLS, SHAPES, outputs, rnn, rows
from tests.slow import slow, slow_except

EXACT = 1e-12  # float64: the two biases are added before the rows instead of behind
PACKAGE = {"onnx": "onnx", "torch": "torch"}


def need(kind: str) -> None:
    if kind in PACKAGE:
        pytest.importorskip(PACKAGE[kind])


def weights_in(path: Path) -> RNNWeights:
    return weights_from_state_dict(read_weights(path))


def again(folder: Path, weights: RNNWeights, kind: str) -> RNNWeights:
    need(kind)
    write_weights(folder / "w", weights, kind=kind, overwrite=True)
    return weights_in(folder / "w")


def held(kind: str, cell: str) -> bool:
    return {"torch": cell != "gru_paddle", "paddle": cell in ("lstm", "gru_paddle")}.get(kind, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, slow(False)])
def test_weights_that_are_read_compute_the_same(
    tmp_path: Path, kind: str, cell: str, shape: str, bias: bool
) -> None:
    weights = rnn(cell, bias=bias, **SHAPES[shape])
    if not held(kind, cell):
        need(kind)
        with pytest.raises(UnsupportedError, match=r"reset|elman|torch's GRU"):
            write_weights(tmp_path / "w", weights, kind=kind)
        assert not list(tmp_path.iterdir())
        return
    if kind == "keras-h5" and cell in ("gru", "gru_paddle") and not bias:
        with pytest.raises(UnsupportedError, match="does not store whether its reset"):
            write_weights(tmp_path / "w", weights, kind=kind)
        assert not list(tmp_path.iterdir())
        return
    found = again(tmp_path, weights, kind)
    assert (found.cell, len(found.layers), found.directions) == (
        cell, len(weights.layers), weights.directions,
    )  # fmt: skip
    np.testing.assert_allclose(outputs(found), outputs(weights), rtol=0, atol=EXACT)


@pytest.mark.parametrize("kind", ["safetensors", "onnx", "keras", "paddle", "keras-h5"])
def test_a_gru_of_either_meaning_of_its_update_gate(tmp_path: Path, kind: str) -> None:
    for origin_mode in (False, True):
        weights = rnn("gru_paddle").with_options(origin_mode=origin_mode)
        found = again(tmp_path, weights, kind)
        if kind == "paddle":  # which keeps no options
            found = found.with_options(origin_mode=origin_mode)
        np.testing.assert_allclose(outputs(found), outputs(weights), rtol=0, atol=EXACT)


@pytest.mark.parametrize(
    ("kind", "cell", "options"),
    [
        ("safetensors", "elman", {"nonlinearity": "sigmoid"}),
        ("safetensors", "lstm", {"gate_activation": "relu", "coupled": True}),
        ("onnx", "elman", {"nonlinearity": "relu"}),
        ("onnx", "lstm", {"cell_activation": "relu", "coupled": True}),
        ("onnx", "gru_paddle", {"candidate_activation": "relu"}),
        ("keras", "elman", {"nonlinearity": "identity"}),
        ("keras", "lstm", {"cell_activation": "relu", "candidate_activation": "relu"}),
        ("keras", "gru_paddle", {"candidate_activation": "identity", "origin_mode": True}),
    ],
)
def test_options_come_along(tmp_path: Path, kind: str, cell: str, options: dict[str, Any]) -> None:
    weights = rnn(cell).with_options(**options)
    found = again(tmp_path, weights, kind)
    np.testing.assert_allclose(outputs(found), outputs(weights), rtol=0, atol=EXACT)
    assert not np.allclose(outputs(rnn(cell)), outputs(weights), rtol=0, atol=1e-3)


@pytest.mark.parametrize("kind", ["safetensors", "onnx", "paddle"])
def test_peepholes_come_along(tmp_path: Path, kind: str) -> None:
    weights = rnn("lstm", peepholes=True, bidirectional=True)
    found = again(tmp_path, weights, kind)
    np.testing.assert_allclose(outputs(found), outputs(weights), rtol=0, atol=EXACT)


@pytest.mark.parametrize("kind", ["safetensors", "torch"])
def test_a_projection_comes_along(tmp_path: Path, kind: str) -> None:
    weights = rnn("lstm", projection_size=2, layers=2)
    found = again(tmp_path, weights, kind)
    np.testing.assert_array_equal(outputs(found), outputs(weights))


REFUSED: list[tuple[str, str, dict[str, Any], dict[str, Any], str]] = [
    ("torch", "lstm", {"peepholes": True}, {}, "torch's LSTM has no peepholes"),
    ("torch", "lstm", {}, {"coupled": True}, "torch has no lstm with coupled=True"),
    ("torch", "lstm", {"projection_size": 4}, {}, "projects only to less than its hidden size, 4"),
    ("torch", "elman", {}, {"nonlinearity": "sigmoid"}, "no elman with nonlinearity=sigmoid"),
    ("onnx", "lstm", {"projection_size": 2}, {}, "ONNX's LSTM has no projection"),
    ("onnx", "elman", {}, {"nonlinearity": "identity"}, "ONNX has no activation identity"),
    ("onnx", "gru_paddle", {}, {"gate_activation": "relu"}, "without origin_mode"),
    ("keras", "lstm", {"peepholes": True}, {}, "no projection, peepholes or coupled"),
    ("keras", "lstm", {}, {"coupled": True}, "no projection, peepholes or coupled"),
    ("keras", "lstm", {}, {"cell_activation": "relu"}, "one activation for candidate and cell"),
    ("paddle", "lstm", {"projection_size": 2}, {}, "Paddle's lstm has no projection"),
    ("paddle", "lstm", {}, {"coupled": True}, "Paddle's lstm has no coupled gates"),
    ("paddle", "elman", {}, {}, "elman is none"),
]


@pytest.mark.parametrize(("kind", "cell", "shape", "options", "message"), REFUSED)
def test_weights_that_a_kind_cannot_hold_are_refused(
    tmp_path: Path,
    kind: str,
    cell: str,
    shape: dict[str, Any],
    options: dict[str, Any],
    message: str,
) -> None:
    need(kind)
    weights = rnn(cell, **shape).with_options(**options)
    with pytest.raises(UnsupportedError, match=message):
        write_weights(tmp_path / "w", weights, kind=kind)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["safetensors", "torch", "paddle"])
def test_biases_that_some_cells_lack_are_zeros(tmp_path: Path, kind: str) -> None:
    drawn = rnn("lstm", layers=2)
    without = dataclasses.replace(drawn.layers[1][0], bias_ih=None, bias_hh=None)  # type: ignore[call-arg]
    weights = RNNWeights((drawn.layers[0], (without,)))
    found = again(tmp_path, weights, kind)
    np.testing.assert_allclose(outputs(found), outputs(weights), rtol=0, atol=EXACT)
    assert all("bias_ih" in layer[0].arrays() for layer in found.layers)


def test_a_gru_of_one_input_without_biases_is_read_from_a_paddle_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = seeded_weights("gru_paddle", 1, 4, bias=False, rng=rng, dtype="float64")
    found = again(tmp_path, weights, "paddle")
    np.testing.assert_allclose(outputs(found, rows(1)), outputs(weights, rows(1)), 0, EXACT)


def test_two_cells_of_one_shape_have_no_place_in_a_paddle_file(tmp_path: Path) -> None:
    square = seeded_weights("lstm", 4, 4, layers=2, rng=np.random.default_rng(0))
    with pytest.raises(UnsupportedError, match="layers or directions"):
        write_weights(tmp_path / "w.lodt", square)


def test_the_ending_tells_the_kind_and_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_weights(path, rnn("lstm"))
    with pytest.raises(LodError, match="exists already"):
        write_weights(path, rnn("gru"))
    assert weights_in(path).cell == "lstm"
    with pytest.raises(SelectionError, match="unknown file extension for weights"):
        write_weights(tmp_path / "w.bin", rnn("lstm"))
    with pytest.raises(SelectionError, match="unknown file extension for weights"):
        write_weights(tmp_path / "w.lod.h5", rnn("lstm"))
    with pytest.raises(SelectionError, match="no kind of weights 'x'"):
        write_weights(tmp_path / "w.bin", rnn("lstm"), kind="x")


# -- what is said beside the arrays --------------------------------------------------


def test_a_state_dict_says_cell_and_options() -> None:
    weights = rnn("gru_paddle").with_options(origin_mode=True)
    said = state_dict(weights).said
    assert said == {"": {"cell": "gru_paddle", "origin_mode": True}}
    assert weights_from_state_dict(StateDict(state_dict(weights), said)).cell == "gru_paddle"
    assert weights_from_state_dict(dict(state_dict(weights))).cell == "gru"
    with pytest.raises(InvalidDataError, match="it names the cell gru_paddle, not gru"):
        weights_from_state_dict(state_dict(weights), "gru")


def test_layers_of_unlike_options_are_refused() -> None:
    one, other = (rnn("elman").with_options(nonlinearity=n).layers[0] for n in ("tanh", "relu"))
    with pytest.raises(InvalidDataError, match="expected the same options in all layers"):
        state_dict(RNNWeights(((one[0], other[0]),)))


@pytest.mark.parametrize("said", ["7", "[]", '{"": 3}', '{"": {"cell": 1}}', "{", "null"])
def test_a_description_that_is_none_is_damage(tmp_path: Path, said: str) -> None:
    path = tmp_path / "w.safetensors"
    header = json.dumps({"__metadata__": {"lod.rnn": said}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(DamagedFileError, match="is not a description of RNNs"):
        read_weights(path)


def test_unknown_options_are_named(tmp_path: Path) -> None:
    entries = StateDict(state_dict(rnn("lstm")), {"": {"cell": "lstm", "flavour": "sweet"}})
    with pytest.raises(UnsupportedError, match="no option 'flavour'"):
        weights_from_state_dict(entries)
    with pytest.raises(UnsupportedError, match="cell: expected one of"):
        weights_from_state_dict(StateDict(state_dict(rnn("lstm")), {"": {"cell": "x"}}))


def test_safetensors_whose_length_begins_as_a_pickle_are_read(tmp_path: Path) -> None:
    path = tmp_path / "w"
    write_weights(path, rnn("elman", bias=False, **SHAPES["one"]), kind="safetensors")
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].ljust(0x380)
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    assert path.read_bytes().startswith(b"\x80\x03")
    assert "weight_ih_l0" in read_weights(path)


@pytest.mark.parametrize("read", [read_weights, read_rnns])
def test_complex_weights_are_invalid_unless_they_are_of_another_rnn(
    tmp_path: Path, read: Callable[[Path], StateDict]
) -> None:
    path = tmp_path / "w.safetensors"
    arrays = state_dict(seeded_weights("lstm", 2, 3, rng=np.random.default_rng(0)))
    others = {f"b.{name}": array.astype(np.complex64) for name, array in arrays.items()}
    save_file({**{f"a.{name}": array for name, array in arrays.items()}, **others}, path)
    entries = read(path)
    assert weights_from_state_dict(entries, prefix="a").cell == "lstm"
    match = "b.bias_hh_l0: expected real numbers, found complex64"
    with pytest.raises(InvalidDataError, match=match) as caught:
        weights_from_state_dict(entries, prefix="b")
    assert not isinstance(caught.value, NotDefinedError)  # wrong usage in a command


# -- what is none --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", NotThisFormatError, "is empty"),
        (b"hello world", NotThisFormatError, "is not a weights file"),
        (b"\x80\x04 a pickle", UnsupportedError, "runs the code in it"),
        (b"PK\x03\x04" + bytes(40), DamagedFileError, "the zip directory"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), LodError, "rewrite it with h5repack"),
        (bytes(4) + b"\1" * 30, DamagedFileError, "tensor 0: claims"),
        (b"\x02\0\0\0\0\0\0\0{}", InvalidDataError, "no RNN weights"),
    ],
)
def test_files_that_are_no_weights_are_reported(
    tmp_path: Path, content: bytes, error: type[LodError], message: str
) -> None:
    path = tmp_path / "w"
    path.write_bytes(content)
    with pytest.raises(error, match=message):
        weights_in(path)


@pytest.mark.parametrize(("name", "library"), [("w.pdparams", "paddle"), ("w.pt", "torch")])
def test_a_pickle_is_saved_with_its_own_library(tmp_path: Path, name: str, library: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04 a pickle")
    with pytest.raises(UnsupportedError, match=rf"safetensors\.{library}\.save_file\(model"):
        read_weights(tmp_path / name)


def test_the_state_of_an_optimizer_is_no_weights(tmp_path: Path) -> None:
    (tmp_path / "w.pdopt").write_bytes(b"\x80\x04 a pickle")
    said = r"is the state of an optimizer, not a model; .* safetensors\.paddle\.save_file\(model"
    with pytest.raises(UnsupportedError, match=said):
        read_weights(tmp_path / "w.pdopt")


# Keras' files are HDF5, of whose library a process is forked for each.
CHANGED = slow_except([kind for kind in KINDS if kind != "keras-h5"], KINDS)


@pytest.mark.parametrize("kind", CHANGED)
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, kind: str) -> None:
    need(kind)
    cell = "gru_paddle" if kind == "paddle" else "elman"
    path = tmp_path / "w"
    write_weights(path, rnn(cell, "float32"), kind=kind)
    whole = path.read_bytes()
    expected = outputs(weights_in(path))
    for found in read_each(cut(whole, max(1, len(whole) // 200)), path, weights_in):
        # An ONNX file says nowhere how long it is: what follows the weights may be gone.
        # A Paddle file without its bias is one.
        assert found is None or kind in ("onnx", "paddle")
        if found is not None and kind == "onnx":
            np.testing.assert_array_equal(outputs(found), expected)


@pytest.mark.parametrize("kind", CHANGED)
def test_changed_bytes_never_crash(tmp_path: Path, kind: str) -> None:
    need(kind)
    cell = "gru_paddle" if kind == "paddle" else "lstm"
    path = tmp_path / "w"
    write_weights(path, rnn(cell, "float32"), kind=kind)
    whole = path.read_bytes()
    found = read_each(changed(whole, 150, 9, most=8), path, weights_in)
    assert sum(one is None for one in found) > 5


# -- Paddle's own files --------------------------------------------------------------

MADE = Path(__file__).parents[1] / "made"


@pytest.mark.parametrize("case", ["rnn003", "rnn018", "rnn031"])
def test_weights_saved_by_paddle_give_what_paddle_computes(case: str) -> None:
    from lodcli.kernels.rnn.stack.stack import stack_forward
    from tests.golden_data import golden_cases

    (golden,) = (one for one in golden_cases("lstm", "gru", "fusion_lstm") if one.id == case)
    weights = weights_in(MADE / f"{case}.pdiparams")
    if golden.attrs.get("origin_mode"):
        weights = weights.with_options(origin_mode=True)
    data = golden.inputs["X" if "X" in golden.inputs else "Input"]
    states = [golden.array(slot) for slot in ("H0", "C0")]
    found = stack_forward(
        data.data,
        np.array(data.lod[-1]),
        weights,
        initial_hidden=states[0],
        initial_cell=states[1],
        reverse=bool(golden.attrs["is_reverse"]),
    )
    # float32, a few dozen operations deep
    np.testing.assert_allclose(found.outputs, golden.outputs["Hidden"].data, rtol=0, atol=2e-6)


def test_paddle_weights_of_another_order_or_shape_are_reported(tmp_path: Path) -> None:
    from lodcli.formats.core import io
    from lodcli.kernels.tensor.lod_tensor import LoDTensor

    def read(*shapes: tuple[int, ...]) -> RNNWeights:
        tensors = {str(n): LoDTensor(np.ones(s, np.float32)) for n, s in enumerate(shapes)}
        io.write(tmp_path / "w.lodt", tensors, overwrite=True)
        return weights_in(tmp_path / "w.lodt")

    assert read((1, 16), (3, 16), (4, 16)).input_size == 3
    assert read((1, 16), (4, 16), (3, 16)).input_size == 3
    assert read((3, 16), (4, 16), (1, 16), (3, 16), (4, 16), (1, 16)).directions == 2
    assert len(read((3, 16), (4, 16), (1, 16), (4, 16), (4, 16), (1, 16)).layers) == 2
    for shapes, message in (
        (((1, 16), (4, 16), (4, 16)), "after Bias their order is unknown"),
        (((4, 16), (4, 16), (1, 16)) * 2, "whether they are layers or directions"),
        (((3, 16), (4, 16), (1, 16), (9, 16), (4, 16), (1, 16)), "neither layers nor directions"),
        (((5, 7),), "no weights of Paddle's lstm or gru"),
        (((3, 12), (4, 16), (1, 16)), "no weights of Paddle's lstm or gru"),
        (((4, 16), (1, 15)), "no weights of Paddle's lstm or gru"),
        (((4,),), r"expected matrices without levels, .* found shape \(4,\); .*lstm_from_paddle"),
        (((12, 32), (1, 32), (8, 32)), r"found \(12, 32\), .*lstm_from_paddle"),
    ):
        with pytest.raises(InvalidDataError, match=message):
            read(*shapes)


def test_projected_data_of_paddle_stay_as_they_are(tmp_path: Path) -> None:
    """The lstm op takes data projected already: its file comes back without a WeightX."""
    weights = weights_in(MADE / "rnn003.pdiparams")
    write_weights(tmp_path / "w.lodt", weights)
    from lodcli.formats.core import io

    assert len(io.read_all(tmp_path / "w.lodt")) == 2
    assert rows().shape == (9, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", PUBLISHED_CELLS)
def test_linear_cells_are_held_by_what_holds_any_arrays(
    tmp_path: Path, kind: str, cell: str
) -> None:
    weights = rnn(cell, layers=2, bidirectional=True)
    if kind in ("safetensors", "torch"):
        found = again(tmp_path, weights, kind)
        assert found.cell == cell
        np.testing.assert_array_equal(outputs(found), outputs(weights))
        return
    need(kind)
    with pytest.raises(UnsupportedError, match=f"cannot hold a {cell}; safetensors and torch ho"):
        write_weights(tmp_path / "w", weights, kind=kind)
    assert not list(tmp_path.iterdir())


def test_metadata_of_a_model_that_is_nested_deeply_is_damage(tmp_path: Path) -> None:
    rows = {"x": np.zeros(1, np.float32)}
    save_file(rows, tmp_path / "m.safetensors", metadata={"lod.classifier": "[" * 100_000})
    with pytest.raises(DamagedFileError, match=r"metadata lod.classifier: is not a JSON object"):
        about_of(read_weights(tmp_path / "m.safetensors"))


@pytest.mark.parametrize("classes", ["[1, 2]", '[["a"]]', '"ab"', "null"])
def test_metadata_of_a_model_whose_classes_are_not_words_is_damage(
    tmp_path: Path, classes: str
) -> None:
    path, about = tmp_path / "m.safetensors", {"lod.classifier": f'{{"classes": {classes}}}'}
    save_file({"x": np.zeros(1, np.float32)}, path, metadata=about)
    with pytest.raises(DamagedFileError, match="classes are not a list of words"):
        about_of(read_weights(path))


@pytest.mark.parametrize("pool", ["last", "mean"])
def test_a_classifier_is_written_and_read_with_its_pool(tmp_path: Path, pool: str) -> None:
    path = tmp_path / "model.safetensors"
    made = seeded_classifier("gru_paddle", 3, 4, 2, pool=pool, rng=np.random.default_rng(0))
    write_weights(path, made, classes=("no", "yes"))
    read = read_weights(path)
    found = classifier_from_arrays(read)
    assert (found.pool, found.rnn.cell) == (pool, "gru_paddle")
    for name, array in made.arrays().items():
        np.testing.assert_array_equal(found.arrays()[name], array, strict=True)
    assert about_of(read) == {"classes": ["no", "yes"], "pool": pool}
    assert classifier_from_arrays(read, pool="last").pool == "last"


def test_invalid_classifiers_and_class_names_are_errors(tmp_path: Path) -> None:
    made = seeded_classifier("gru", 3, 4, 2, rng=np.random.default_rng(0))
    with pytest.raises(UnsupportedError, match="keras holds no classifier"):
        write_weights(tmp_path / "m.keras", made)
    with pytest.raises(OptionError, match="classes: expected 2 names, found 1"):
        write_weights(tmp_path / "m.safetensors", made, classes=["no"])
    for names, said in (
        (["a", 3], "classes: expected text for each name, found 3"),
        (["a", "a"], "classes: several are named 'a'"),
        ("ab", "classes: expected a list of names, found 'ab'"),
    ):
        with pytest.raises(OptionError, match=said):
            write_weights(tmp_path / "m.safetensors", made, classes=names)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="the weights of an RNN have none"):
        write_weights(tmp_path / "m.safetensors", made.rnn, classes=["no", "yes"])
    assert not list(tmp_path.iterdir())
    damaged = StateDict(made.arrays(), metadata={"lod.classifier": "[]"})
    with pytest.raises(InvalidDataError, match=r"lod\.classifier: is not a JSON object"):
        classifier_from_arrays(damaged)
