"""Registry of peers: other libraries for the same tasks, one file each.

A peer's file imports only its library and NumPy, nothing of lod, so that another interpreter can
run it too (see worker.py). It offers

    version()         the measured version
    threads(count)    set its number of threads; only if it can be set once it is loaded
    require_gpu()     raises RuntimeError if it cannot compute on a GPU; only if it supports GPUs
    kernels(op, inputs), rnn(task, inputs), io(..), ..   its implementations: label to
                      (call, arrays), a function to time and one that converts its result to
                      NumPy arrays

A label names the function of the library, and ends with "out=" if the result is written to a
preallocated array. Work that can be done once, such as an index of rows, is done outside the call,
in favour of the peer. `inputs["device"]` is "cpu" or "cuda"; with "cuda", arrays of rows are cupy
arrays on the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PeerEntry:
    """One library.

    Attributes:
        package: the name of the package to import.
        install: its name for pip.
        apart: whether it cannot share an interpreter with the others.
        files: its module in this folder for each benchmark it takes part in.
        devices: the devices that it computes on.
        gpu_install: its name for pip with support of GPUs, if another.
    """

    package: str
    install: str
    files: dict[str, str]
    apart: bool = False
    devices: tuple[str, ...] = ("cpu",)
    gpu_install: str = ""


_BOTH = ("cpu", "cuda")

PEERS: dict[str, PeerEntry] = {
    "numpy": PeerEntry("numpy", "numpy", {"kernels": "numpy", "io": "numpy_io"}),
    "torch": PeerEntry(
        "torch",
        "torch",
        {"kernels": "torch", "rnn": "torch_rnn", "linear": "torch_linear"},
        devices=_BOTH,
    ),
    "torch_scatter": PeerEntry(
        "torch_scatter", "torch-scatter", {"kernels": "torch_scatter"}, devices=_BOTH
    ),
    "flashrnn": PeerEntry("flashrnn", "flashrnn", {"rnn": "torch_flashrnn"}, devices=("cuda",)),
    "flash_attn": PeerEntry(
        "flash_attn", "flash-attn", {"kernels": "torch_flash_attn"}, devices=("cuda",)
    ),
    "fbgemm": PeerEntry(
        "fbgemm_gpu",
        "fbgemm-gpu-cpu",
        {"kernels": "torch_fbgemm"},
        devices=_BOTH,
        gpu_install="fbgemm-gpu",
    ),
    "scipy": PeerEntry("scipy", "scipy", {"kernels": "scipy"}),
    "numba": PeerEntry("numba", "numba", {"kernels": "numba"}),
    "jax": PeerEntry("jax", "jax", {"kernels": "jax"}),
    "cupy": PeerEntry("cupy", "cupy-cuda12x", {"kernels": "cupy"}, devices=("cuda",)),
    "awkward": PeerEntry("awkward", "awkward", {"kernels": "awkward"}),
    "polars": PeerEntry("polars", "polars", {"kernels": "polars", "convert": "polars_convert"}),
    "arrow": PeerEntry(
        "pyarrow",
        "pyarrow",
        {"kernels": "pyarrow", "convert": "pyarrow_convert", "io": "pyarrow_io"},
    ),
    "h5py": PeerEntry("h5py", "h5py", {"io": "h5py_io"}),
    "safetensors": PeerEntry("safetensors", "safetensors", {"io": "safetensors_io"}),
    "crc32c": PeerEntry("google_crc32c", "google-crc32c", {"io": "crc32c_io"}),
    "webdataset": PeerEntry("webdataset", "webdataset", {"load": "webdataset_load"}),
    "datasets": PeerEntry("datasets", "datasets", {"load": "datasets_load_pyarrow"}),
    # It needs an older huggingface-hub than datasets may have.
    "streaming": PeerEntry(
        "streaming", "mosaicml-streaming", {"load": "streaming_load"}, apart=True
    ),
    "json": PeerEntry("json", "python", {"convert": "stdlib_json"}),
    "orjson": PeerEntry("orjson", "orjson", {"convert": "orjson"}),
    "onnxruntime": PeerEntry("onnxruntime", "onnx onnxruntime", {"rnn": "onnxruntime"}),
    "paddle": PeerEntry(
        "paddle",
        "paddlepaddle==2.6.2 'numpy<2'",
        {"kernels": "paddle", "rnn": "paddle_rnn"},
        apart=True,
    ),
}
