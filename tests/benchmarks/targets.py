"""Targets for the speed of lod, one a line; verdicts.py compares measurements with them.

A ratio is the best peer's time over ours, a fraction ours of what the machine could do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """The least that one measurement has to reach, with two threads.

    Attributes:
        bench, op, case: which measurement; the case of a sweep is what it varies.
        ratio: the best peer's time over ours; None if that does not matter.
        fraction: of the machine's limit; None if that does not matter.
        peer: the library it is compared with; None: the best of all.
        padded: instead, our own engine on padded input (on a GPU, cuDNN on it) over ours, as a
            fraction of the padding ratio.
        spread: instead, the slowest over the fastest time a byte of a sweep, at most.
        most: instead, ours over the peer's time, at most: what startup.py measures.
        device: "cpu" or "cuda".
    """

    bench: str
    op: str
    case: str
    ratio: float | None = None
    fraction: float | None = None
    peer: str | None = None
    padded: float | None = None
    spread: float | None = None
    most: float | None = None
    device: str = "cpu"

    @property
    def group(self) -> str:
        """The heading it stands under."""
        if self.device != "cpu":
            return "On a GPU"
        return GROUPS["linear" if self.spread else self.bench]


GROUPS = {
    "kernels": "Sequence ops",
    "linear": "Cost against size",
    "rnn": "RNNs",
    "convert": "Conversions",
    **dict.fromkeys(("io", "slice"), "Files"),
    "startup": "Start-up",
}

# op: (ratio, fraction) for B1, B2, B3
_POOL = ((2.5, 0.90), (3.5, None), (1.1, 0.85))
_INDEX = ((10.0, 0.80), (2.0, None), (5.0, None))
_KERNELS: dict[str, tuple[tuple[float, float | None], ...]] = {
    **dict.fromkeys(("sum", "mean", "max", "min"), _POOL),
    "max_index": _INDEX,
    **dict.fromkeys(("softmax", "log_softmax"), ((15.0, None), (4.5, None), (25.0, None))),
    "pad": ((2.7, None), (10.0, None), (1.2, None)),
    "unpad": ((3.5, None), (2.5, None), (2.0, None)),
    "expand": ((1.6, None), (1.3, None), (3.0, None)),
    "concat": ((8.0, None), (1.2, None), (9.0, None)),
    **dict.fromkeys(("reverse", "last", "slice"), ((1.1, None), (1.1, None), (1.0, None))),
}
# op: for B1, B2, B3
_MORE = {"first": (1.1, 1.1, 1.0), "cumsum": (1.5, 1.5, 1.5), "add": (1.0, 1.0, 1.0)}
_MORE |= {"sort_by_length": (1.2, 1.2, 1.0), "pick": (1.0, 1.0, 1.0), "conv": (1.2, 1.2, 1.0)}
# Rows of odd widths: of 64 bytes and less, and of more.
_NARROW, _WIDE = ("W3", "W5", "W7"), ("W48", "W100", "W300")
_ODD = {
    **dict.fromkeys(("sum", "max"), (1.1, 1.1)),
    **dict.fromkeys(("expand", "reverse", "last", "sort_by_length", "conv"), (1.2, 1.0)),
    "add": (1.0, 1.0),
}
LINEAR_OPS = ("sum", "softmax", "reverse")
SWEEPS = ("rows", "sequences", "skew")
# op: for a, b, c, d
_RNN: dict[str, tuple[tuple[float, float | None], ...]] = {
    "lstm forward": ((2.5, None), (3.0, 0.75), (3.0, 0.75), (1.5, None)),
    "lstm training": ((5.0, None), (6.0, 0.75), (4.5, 0.75), (1.2, None)),
    "gru forward": ((4.0, None), (2.7, 0.75), (3.0, 0.75), (1.2, None)),
    "elman forward": ((5.0, None), (2.8, None), (3.0, None), (3.0, None)),
    "gru training": ((4.0, None), (5.0, 0.75), (4.0, 0.75), (1.2, None)),
    "elman training": ((4.0, None), (5.0, None), (4.0, None), (1.2, None)),
}
# op: case: ratio
_FEW = {
    "lstm forward": {"1x200": 1.3, "1x512": 1.3, "8x200": 1.8},
    "gru forward": {"8x200": 1.8},
    "lstm training": {"64x200": 3.0},
}
# At most 1.3 times what Arrow takes to read or write the bytes, 1.5 times what cp takes.
_ARROW, _CP = 1 / 1.3, 1 / 1.5
# command / peer: at most.
STARTUP = {
    "lod --help / import click": 2.0,
    "lod inspect 2 MB / import h5py": 1.5,
    "lod inspect 2 GB / import h5py": 1.5,
    "lod slice 2 GB / of 2 MB": 1.3,
    "3 lod apply in a pipe, 1 GB / one with --then": 1.11,
}
_GPU_OPS = (
    *("sum", "mean", "max", "min", "softmax", "log_softmax"),
    *("reverse", "expand", "concat", "pad", "unpad"),
)
# Skewed lengths: of a box of G2 no GPU has the memory.
_GPU_SKEWED = {"pad": "G3", "unpad": "G3"}

_GPU_PRECISIONS = ("", "tf32", "float16", "bfloat16")


def targets() -> Iterator[Target]:
    """Yield all targets, in the order of the page."""
    for op, lines in _KERNELS.items():
        for case, (ratio, fraction) in zip(("B1", "B2", "B3"), lines, strict=True):
            yield Target("kernels", op, case, ratio, fraction)
    for op, ratios in _MORE.items():
        for case, ratio in zip(("B1", "B2", "B3"), ratios, strict=True):
            yield Target("kernels", op, case, ratio)
    for case in ("B1", "B3"):
        yield Target("kernels", "attention", case, 1.0)
    for op, (narrow, wide) in _ODD.items():
        yield from (Target("kernels", op, case, narrow) for case in _NARROW)
        yield from (Target("kernels", op, case, wide) for case in _WIDE)
    for swept in SWEEPS:
        for op in LINEAR_OPS:
            yield Target("kernels", op, swept, spread=1.5)
    for op, lines in _RNN.items():
        for case, (ratio, fraction) in zip("abcd", lines, strict=True):
            yield Target("rnn", op, case, ratio, fraction)
    for op, by_case in _FEW.items():
        yield from (Target("rnn", op, case, ratio) for case, ratio in by_case.items())
    for case in "abc":
        yield Target("rnn", "lstm forward", case, padded=0.9)
    for op in ("jsonl_to_lod", "lod_to_jsonl"):
        yield Target("convert", op, "lines", 1.0)
        yield Target("convert", op, "lines", 5.0, peer="json")
    for name in ("arrow", "parquet"):
        for op in (f"{name}_to_lod", f"lod_to_{name}"):
            yield Target("convert", op, "lines", _ARROW, peer="arrow")
    for name in ("megatron", "paddle"):
        for op in (f"{name}_to_lod", f"lod_to_{name}"):
            yield Target("convert", op, "lines", fraction=_CP)
    # As fast as cp at least 0.7 times: what is checked on the way is read once and written once.
    yield Target("convert", "lod_to_lod", "lines", fraction=0.7)
    for op in ("write", "read", "sequence"):
        yield Target("io", op, "rows", 1.0)
    yield Target("io", "write_synced", "rows", 1.0, peer="h5py")
    yield Target("io", "verify", "rows", 0.9, peer="crc32c")
    for rows in ("10000", "100000", "1e+06"):
        yield Target("slice", "open_and_sequence", f"rows={rows}", 1.0, peer="h5py")
    for name, most in STARTUP.items():
        yield Target("startup", name, "", most=most)
    yield from _gpu_targets()


def _gpu_targets() -> Iterator[Target]:
    for op in _GPU_OPS:
        yield Target("kernels", op, "G1", 1.0, 0.85, device="cuda")
        yield Target("kernels", op, _GPU_SKEWED.get(op, "G2"), 1.5, 0.85, device="cuda")
    for op in ("lstm forward", "lstm training", "gru forward", "gru training"):
        for case in ("b", "c", "e"):
            yield Target("rnn", op, f"{case}-equal", 1.0, device="cuda")
            yield Target("rnn", op, case, 1.5, device="cuda")
            yield Target("rnn", op, case, padded=1.0, device="cuda")
        yield Target("rnn", op, "d", 2.0, device="cuda")
        for precision in _GPU_PRECISIONS:
            for case in ("h64", "h128", "h192", "e-equal"):
                # e-equal in float32 is above.
                if precision or case != "e-equal":
                    name = f"{case} {precision}".strip()
                    yield Target("rnn", op, name, 1.0, peer="torch", device="cuda")
