"""torch's RNN, GRU and LSTM: on a PackedSequence, packing included, on a padded batch, and on
several batches, each padded, of sequences of similar lengths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence, pad_sequence

from lodcli.bench.peers.torch import require_gpu, threads, version

__all__ = ["require_gpu", "rnn", "threads", "version"]

# Numbers of batches of similar lengths to try: which is fastest depends on the lengths.
BUCKETS = (4, 16)
CLASSES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "elman": torch.nn.RNN}
# Maximum for backward through a PackedSequence on a CPU: it took 7 s for 15,000 rows, and 35 s for
# 12,800 wider ones.
MOST_PACKED_ROWS = 5000


def rnn(which: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an RNN with torch."""
    # The same precision as lod. By default cuDNN rounds to tf32, and other products do not.
    rounded = inputs["precision"] == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = rounded
    torch.backends.cudnn.allow_tf32 = rounded
    model = _model(inputs)
    return _forward(model, inputs) if which == "forward" else _training(model, inputs)


def _model(inputs: dict[str, Any]) -> Any:
    hidden = inputs["weight_hh"].shape[1]
    model = CLASSES[inputs["cell"]](inputs["data"].shape[1], hidden)
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(model, name + "_l0").copy_(torch.as_tensor(inputs[name]))
    # Moving the model makes its weights contiguous, as cuDNN requires.
    return model.to(_device(inputs), _dtype(inputs))


def _dtype(inputs: dict[str, Any]) -> Any:
    """Return the dtype for torch, which supports two-byte products only for two-byte rows."""
    if inputs["precision"] in ("float16", "bfloat16"):
        return getattr(torch, inputs["precision"])
    return torch.float64 if inputs["data"].dtype == "float64" else torch.float32


def _there(rows: Any, inputs: dict[str, Any]) -> Any:
    return torch.as_tensor(rows, device=_device(inputs)).to(_dtype(inputs))


def _device(inputs: dict[str, Any]) -> str:
    return str(inputs.get("device", "cpu"))


def _sequences(inputs: dict[str, Any]) -> list[Any]:
    return list(torch.split(_there(inputs["data"], inputs), inputs["lengths"].tolist()))


def _rows(box: Any, places: Any) -> Any:
    """Return the rows of a time-major padded batch in the order of the input."""
    return _numpy(box.transpose(0, 1).flatten(0, 1))[places]


def _numpy(found: Any) -> Any:
    """Return a NumPy array; float16 and bfloat16 are converted to float32."""
    half = found.dtype in (torch.float16, torch.bfloat16)
    return (found.float() if half else found).detach().cpu().numpy()


def _unpacked(packed: Any, places: Any) -> Any:
    return _rows(pad_packed_sequence(packed)[0], places)


def _forward(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    sequences, places = _sequences(inputs), inputs["places"]
    packed, box = pack_sequence(sequences, enforce_sorted=False), pad_sequence(sequences)

    def run(rows: Any) -> Any:
        with torch.no_grad():
            return model(rows)[0]

    def unpacked(found: Any) -> list[Any]:
        return [_unpacked(found, places)]

    return {
        "packed": (lambda: run(packed), unpacked),
        "packing included": (
            lambda: run(pack_sequence(sequences, enforce_sorted=False)),
            unpacked,
        ),
        "padded": (lambda: run(box), lambda found: [_rows(found, places)]),
        **_bucket_ways(inputs, sequences, lambda boxes: [run(box) for box in boxes]),
    }


def _bucket_ways(inputs: dict[str, Any], sequences: Any, run: Any) -> dict[str, Any]:
    """Return implementations that pad sequences of similar lengths together."""
    ways = {}
    for count in BUCKETS:
        if count < len(sequences):
            buckets = _buckets(inputs, count)
            boxes = [pad_sequence([sequences[n] for n in bucket]) for bucket in buckets]
            ways[f"{count} buckets"] = (
                lambda boxes=boxes: run(boxes),
                lambda found, buckets=buckets: [_in_order(inputs, buckets, found)],
            )
    return ways


def _buckets(inputs: dict[str, Any], count: int) -> list[Any]:
    """Return the sequence numbers of each batch."""
    return np.array_split(np.argsort(-inputs["lengths"], kind="stable"), count)


def _in_order(inputs: dict[str, Any], buckets: list[Any], boxes: Any) -> Any:
    """Return the rows of all padded batches in the order of the input."""
    offsets = inputs["offsets"]
    arrays = [_numpy(box) for box in boxes]
    rows = np.empty((offsets[-1], arrays[0].shape[2]), arrays[0].dtype)
    for bucket, found in zip(buckets, arrays, strict=True):
        for place, number in enumerate(bucket):
            first, end = offsets[number : number + 2]
            rows[first:end] = found[: end - first, place]
    return rows


def _training(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    sequences, places = _sequences(inputs), inputs["places"]
    lengths = inputs["lengths"].tolist()
    box = pad_sequence(sequences)
    flows = list(torch.split(_there(inputs["upstream"], inputs), lengths))
    upstream = pad_sequence(flows)

    def padded() -> Any:
        model.zero_grad(set_to_none=True)
        rows = box.detach().requires_grad_(True)
        found = model(rows)[0]
        found.backward(upstream)
        return found, rows.grad

    ways = {
        "padded": (
            padded,
            lambda found: [
                *(_rows(part, places) for part in found),
                _numpy(model.weight_hh_l0.grad).copy(),
            ],
        )
    }
    for count in BUCKETS:
        if count < len(sequences):
            ways[f"{count} buckets"] = _bucket_training(model, inputs, sequences, flows, count)
    if len(inputs["data"]) <= MOST_PACKED_ROWS or _device(inputs) != "cpu":
        ways["packed"] = _packed_training(model, inputs, sequences, flows)
    return ways


def _bucket_training(
    model: Any, inputs: dict[str, Any], sequences: Any, flows: Any, count: int
) -> Any:
    buckets = _buckets(inputs, count)
    boxes, upstream = (
        [pad_sequence([parts[n] for n in bucket]) for bucket in buckets]
        for parts in (sequences, flows)
    )

    def call() -> Any:
        model.zero_grad(set_to_none=True)
        rows = [box.detach().requires_grad_(True) for box in boxes]
        found = [model(one)[0] for one in rows]
        for one, flow in zip(found, upstream, strict=True):
            one.backward(flow)
        return found, [one.grad for one in rows]

    def arrays(found: Any) -> list[Any]:
        rows = [_in_order(inputs, buckets, part) for part in found]
        return [*rows, _numpy(model.weight_hh_l0.grad).copy()]

    return call, arrays


def _packed_training(model: Any, inputs: dict[str, Any], sequences: Any, flows: Any) -> Any:
    packed = pack_sequence(sequences, enforce_sorted=False)
    upstream = pack_sequence(flows, enforce_sorted=False).data
    order = (packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)

    def call() -> Any:
        model.zero_grad(set_to_none=True)
        rows = packed.data.detach().requires_grad_(True)
        found = model(PackedSequence(rows, *order))[0]
        found.data.backward(upstream)
        return found, rows.grad

    def arrays(found: Any) -> list[Any]:
        parts = found[0], PackedSequence(found[1], *order)
        rows = [_unpacked(part, inputs["places"]) for part in parts]
        return [*rows, _numpy(model.weight_hh_l0.grad).copy()]

    return call, arrays
