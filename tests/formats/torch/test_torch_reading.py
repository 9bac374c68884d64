"""torch: storages, views and dtypes of .pt files are read as torch has them."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lodcli.kernels.errors import UnsupportedError
from tests.formats.cases.opening import content
from tests.formats.cases.writing import saved

torch = pytest.importorskip("torch")


def test_a_checkpoint_of_dicts_in_dicts_is_named_by_both(tmp_path: Path) -> None:
    value = {"model": torch.nn.Linear(2, 3).state_dict(), "lists": {"x": [torch.ones(2)]}}
    found = content(saved(tmp_path, value))
    assert set(found) == {"model.weight", "model.bias", "lists.x"}
    assert found["model.weight"].data.tolist() == value["model"]["weight"].tolist()


@pytest.mark.parametrize(
    "dtype",
    [
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    ],
)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3,), (2, 0), (2, 3)])
def test_every_dtype_and_shape_comes_as_torch_has_it(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    tensor = torch.arange(int(np.prod(shape))).reshape(shape).to(getattr(torch, dtype))
    path = saved(
        tmp_path, {"a": tensor, "b": tensor.T.contiguous().T if len(shape) > 1 else tensor}
    )
    for item in content(path).values():
        assert item.dtype.name == dtype
        assert item.data.shape == shape
        assert item.data.tolist() == tensor.tolist()


def test_one_file_of_a_distributed_checkpoint_names_its_folder(tmp_path: Path) -> None:
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there is one process
        checkpoint.save({"x": torch.ones(2), "n": 3}, checkpoint_id=tmp_path / "saved")
    with pytest.raises(UnsupportedError, match=r"0\.distcp: is one file of .*; convert its folder"):
        content(tmp_path / "saved" / "__0_0.distcp")


def test_views_of_one_storage_are_read_from_it(tmp_path: Path) -> None:
    whole = torch.arange(24).reshape(4, 6)
    value = {
        "whole": whole,
        "column": whole[:, 2],
        "turned": whole.T[1:4:2],
        "window": whole.unfold(1, 3, 1),
        "wide": whole[:, :1].expand(4, 5),
    }
    found = content(saved(tmp_path, value))
    for name, tensor in value.items():
        assert found[name].data.tolist() == tensor.tolist()
    half = torch.arange(4.0).to(torch.complex64)
    value = {"neg": half.imag.neg(), "conj": torch.view_as_complex(torch.ones(2, 2)).conj()}
    value["negative bit"] = torch._neg_view(half.real)
    found = content(saved(tmp_path, {key.replace(" ", "_"): one for key, one in value.items()}))
    for name, tensor in value.items():
        assert found[name.replace(" ", "_")].data.tolist() == tensor.tolist()


def test_storages_of_the_other_byte_order_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({"a": torch.arange(5), "b": torch.ones(3, 2)}, path)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in members.items():
            width = {"0": ">i8", "1": ">f4"}.get(name.rpartition("/data/")[2])
            if width:
                raw = np.frombuffer(raw, width.replace(">", "<")).astype(width).tobytes()
            archive.writestr(name, b"big" if name.endswith("/byteorder") else raw)
    found = content(path)
    assert found["a"].data.tolist() == [0, 1, 2, 3, 4]
    assert found["b"].data.tolist() == [[1, 1]] * 3
    assert found["a"].dtype.isnative


def test_a_pair_is_read_as_padded_only_if_the_rest_is_padding(tmp_path: Path) -> None:
    rows = [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])]
    packed = torch.nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
    for value in (0.0, -1.0, float("nan")):
        padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed, True, padding_value=value)
        for dtype in (torch.float32, torch.bfloat16):
            torch.save((padded.to(dtype), lengths), tmp_path / "x.pt")
            assert len(content(tmp_path / "x.pt")["data"]) == 2
        torch.save((padded, lengths), tmp_path / "x.pt")
        assert content(tmp_path / "x.pt")["data"].to_list() == [one.tolist() for one in rows]
    samples, labels = torch.arange(24.0).reshape(3, 8), torch.tensor([5, 0, 4])
    torch.save((samples, labels), tmp_path / "x.pt")
    with pytest.raises(
        UnsupportedError, match=r"not the lengths of padded.*save a dict that names both"
    ):
        content(tmp_path / "x.pt")
    torch.save({"samples": samples, "labels": labels}, tmp_path / "x.pt")
    assert content(tmp_path / "x.pt")["samples"].to_list() == samples.tolist()
    torch.save({"padded": samples, "lengths": labels}, tmp_path / "x.pt")
    assert content(tmp_path / "x.pt")["data"].to_list() == [[0, 1, 2, 3, 4], [], [16, 17, 18, 19]]
