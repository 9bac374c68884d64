"""torch: segment_reduce, embedding_bag, CSR products, scatter and index ops, nested tensors."""

from __future__ import annotations

import itertools
import logging
import warnings
from typing import Any

import torch

# A warning for developers about future changes, which does not concern measurements.
logging.getLogger("torch.fx._symbolic_trace").setLevel(logging.ERROR)
# Maximum sequences of a nested tensor on a CPU, which torch processes one by one: the sum of 2,000
# sequences of 50 rows took 40 s.
MOST_NESTED = 500
# Maximum size of a padded batch for attention, which allocates a mask and scores as well.
MOST_PADDED_BYTES = 1 << 30


def version() -> str:
    """Return the measured version."""
    return str(torch.__version__)


def threads(count: int) -> None:
    """Set the number of threads of torch."""
    torch.set_num_threads(count)


def require_gpu() -> None:
    """Raise RuntimeError if torch cannot compute on a GPU."""
    if not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no GPU; pip install one built for it")
    # Products in full precision, as in lod, without rounding to tf32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op with torch."""
    return _OPS[op](_Tensors(inputs)) if op in _OPS else {}


class _Tensors:
    """The inputs as torch tensors, without copies of rows, and the row numbers that ops need."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self.inputs = inputs
        self.device = inputs.get("device", "cpu")
        self.x = self.given("data")
        # Row numbers are computed in main memory, and then moved.
        self.bounds = torch.from_numpy(inputs["offsets"])
        self.counts = torch.diff(self.bounds)
        self.count = len(self.counts)
        self.offsets, self.lengths = self.there(self.bounds), self.there(self.counts)
        self.ids = self.there(torch.repeat_interleave(torch.arange(self.count), self.counts))
        self.full = inputs["full"]

    def given(self, name: str) -> Any:
        return torch.as_tensor(self.inputs[name], device=self.device)

    def there(self, tensor: Any) -> Any:
        return tensor.to(self.device)

    def wide_ids(self) -> Any:
        return self.ids[:, None].expand(self.x.shape)

    def pooled(self) -> Any:
        return torch.zeros(self.count, self.x.shape[1], device=self.device)

    def padded(self, x: Any) -> Any:
        parts = list(torch.split(x, self.counts.tolist()))
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)

    def nested_way(self, call: Any, arrays: Any, x: Any = None) -> dict[str, Any]:
        """Return the implementation with a nested jagged tensor, unless it would take too long."""
        if self.count > MOST_NESTED and self.device == "cpu":
            return {}
        nested = torch.nested.nested_tensor_from_jagged(self.x if x is None else x, self.offsets)
        return {"nested jagged": (lambda: call(nested), arrays)}

    def of_full(self, rows: Any) -> list[Any]:
        return [rows.cpu().numpy()[self.full]]


def _numpy(rows: Any) -> list[Any]:
    return [rows.cpu().numpy()]


def _sum(t: _Tensors) -> dict[str, Any]:
    target, wide = t.pooled(), t.wide_ids()
    return {
        "segment_reduce": (lambda: _segment_reduce(t, "sum"), t.of_full),
        "index_add": (lambda: t.pooled().index_add_(0, t.ids, t.x), t.of_full),
        "index_add out=": (lambda: target.zero_().index_add_(0, t.ids, t.x), t.of_full),
        "scatter_add": (lambda: t.pooled().scatter_add_(0, wide, t.x), t.of_full),
        **_bags(t, "sum"),
        "csr product": (_product(t, torch.ones(len(t.x))), t.of_full),
        **t.nested_way(lambda nested: nested.sum(dim=1), t.of_full),
    }


def _bags(t: _Tensors, mode: str) -> dict[str, Any]:
    """Return the implementation with embedding_bag: rows are the table, sequences the bags."""
    rows = t.there(torch.arange(len(t.x)))

    def call() -> Any:
        return torch.nn.functional.embedding_bag(
            rows, t.x, t.offsets, mode=mode, include_last_offset=True
        )

    return {"embedding_bag": (call, t.of_full)}


def _product(t: _Tensors, weights: Any) -> Any:
    """Return a function that multiplies a CSR matrix, one row per sequence, with the rows."""
    columns = torch.arange(len(t.x))
    with warnings.catch_warnings():
        # It warns that support of CSR is in beta state.
        warnings.simplefilter("ignore")
        matrix = torch.sparse_csr_tensor(t.bounds, columns, weights, (t.count, len(t.x)))
    matrix = t.there(matrix)
    return lambda: matrix @ t.x


def _segment_reduce(t: _Tensors, kind: str) -> Any:
    return torch.segment_reduce(t.x, kind, offsets=t.offsets, axis=0)


def _mean(t: _Tensors) -> dict[str, Any]:
    target = t.pooled()
    counts = t.lengths.clamp(min=1)[:, None].to(t.x.dtype)
    return {
        "segment_reduce": (lambda: _segment_reduce(t, "mean"), t.of_full),
        "index_add": (lambda: t.pooled().index_add_(0, t.ids, t.x).div_(counts), t.of_full),
        "index_add out=": (
            lambda: target.zero_().index_add_(0, t.ids, t.x).div_(counts),
            t.of_full,
        ),
        **_bags(t, "mean"),
        "csr product": (
            _product(t, torch.repeat_interleave(1 / t.counts.float(), t.counts)),
            t.of_full,
        ),
        **t.nested_way(lambda nested: nested.mean(dim=1), t.of_full),
    }


def _extreme(t: _Tensors, kind: str) -> dict[str, Any]:
    wide, worst = t.wide_ids(), float("-inf" if kind == "max" else "inf")
    target = t.pooled()
    return {
        "segment_reduce": (lambda: _segment_reduce(t, kind), t.of_full),
        "scatter_reduce": (
            lambda: t.pooled().fill_(worst).scatter_reduce_(0, wide, t.x, "a" + kind),
            t.of_full,
        ),
        "scatter_reduce out=": (
            lambda: target.fill_(worst).scatter_reduce_(0, wide, t.x, "a" + kind),
            t.of_full,
        ),
        **(_bags(t, "max") if kind == "max" else {}),
    }


def _softmax(t: _Tensors, log: bool = False) -> dict[str, Any]:
    def call() -> Any:
        shifted = t.x - _segment_reduce(t, "max")[t.ids]
        powers = shifted.exp()
        totals = torch.segment_reduce(powers, "sum", offsets=t.offsets, axis=0)
        return shifted.sub_(totals.log_()[t.ids]) if log else powers.div_(totals[t.ids])

    ways = {"composed": (call, _numpy)}
    if not log:
        ways |= t.nested_way(
            lambda nested: torch.softmax(nested, dim=1),
            lambda found: [found.values().cpu().numpy()],
        )
    return ways


def _attention(t: _Tensors, dtype: Any = torch.float32) -> dict[str, Any]:
    attend = torch.nn.functional.scaled_dot_product_attention
    x = t.x.to(dtype)

    def call(nested: Any) -> Any:
        heads = nested.unsqueeze(2).transpose(1, 2)
        return attend(heads, heads, heads)

    ways = t.nested_way(call, lambda found: _numpy(found.transpose(1, 2).values()[:, 0].float()), x)
    if _fits_padded(t):
        seen, mask = _seen(t)
        box = t.padded(x)
        ways["padded"] = (
            lambda: attend(box[:, None], box[:, None], box[:, None], attn_mask=mask),
            lambda found: _numpy(found[:, 0][seen].float()),
        )
    if t.device == "cpu":
        parts = [(int(a), int(b)) for a, b in itertools.pairwise(t.bounds.tolist()) if a < b]
        out = torch.empty_like(x)

        def by_sequence() -> Any:
            for start, stop in parts:
                rows = x[None, None, start:stop]
                out[start:stop] = attend(rows, rows, rows)[0, 0]
            return out

        ways["by sequence"] = (by_sequence, lambda found: [found.numpy()])
    return ways


def _attention_grad(t: _Tensors, dtype: Any) -> dict[str, Any]:
    """Return the implementations of attention with its gradients, since lod computes both."""
    attend: Any = torch.nn.functional.scaled_dot_product_attention
    x, upstream = t.x.to(dtype), t.given("addend").to(dtype)
    leaves = [x.clone().requires_grad_(True) for _ in range(3)]
    longest, shortest = int(t.counts.max()), int(t.counts.min())

    def jagged() -> Any:
        nested = (
            torch.nested.nested_tensor_from_jagged(
                one, t.offsets, min_seqlen=shortest, max_seqlen=longest
            )
            for one in leaves
        )
        found = attend(*(one.unsqueeze(2).transpose(1, 2) for one in nested))
        rows = found.transpose(1, 2).values()[:, 0]
        return torch.autograd.grad(rows, leaves, upstream)

    ways = {
        "nested jagged": (jagged, lambda found: [one.float().cpu().numpy() for one in found]),
    }
    if _fits_padded(t):
        seen, mask = _seen(t)
        boxes = [t.padded(x)[:, None].requires_grad_(True) for _ in range(3)]
        flow = t.padded(upstream)[:, None]
        ways["padded"] = (
            lambda: torch.autograd.grad(attend(*boxes, attn_mask=mask), boxes, flow),
            lambda found: [one[:, 0][seen].float().cpu().numpy() for one in found],
        )
    return ways


def _fits_padded(t: _Tensors) -> bool:
    return bool(t.count * int(t.counts.max()) * t.x.shape[1] * 4 <= MOST_PADDED_BYTES)


def _seen(t: _Tensors) -> tuple[Any, Any]:
    """Return the mask of valid rows of a padded batch, and the mask of the scores."""
    seen = t.there(torch.arange(int(t.counts.max())) < t.counts[:, None])
    return seen, seen[:, None, None]


def _taken(t: _Tensors, x: Any, full: Any = None) -> dict[str, Any]:
    rows = t.given("rows")
    target = torch.zeros(len(rows), x.shape[1], device=x.device)

    def arrays(found: Any) -> list[Any]:
        return [found.cpu().numpy() if full is None else found.cpu().numpy()[full]]

    return {
        "index_select": (lambda: torch.index_select(x, 0, rows), arrays),
        "index_select out=": (lambda: torch.index_select(x, 0, rows, out=target), arrays),
    }


def _picked(t: _Tensors) -> dict[str, Any]:
    return _taken(t, t.x, t.full)


def _moved(t: _Tensors) -> dict[str, Any]:
    return _taken(t, t.x)


def _concat(t: _Tensors) -> dict[str, Any]:
    other = t.given("other")
    rows, n, m = t.given("rows"), len(t.x), len(other)
    both, target = torch.cat([t.x, other]), t.x.new_zeros(n + m, t.x.shape[1])

    def into() -> Any:
        torch.cat([t.x, other], out=both)
        return torch.index_select(both, 0, rows, out=target)

    return {
        "cat, index_select": (
            lambda: torch.index_select(torch.cat([t.x, other]), 0, rows),
            _numpy,
        ),
        "cat, index_select out=": (into, _numpy),
    }


def _pad(t: _Tensors) -> dict[str, Any]:
    maxlen, kept = t.inputs["maxlen"], torch.from_numpy(t.inputs["kept"])
    parts = [part[:maxlen] for part in torch.split(t.x, t.counts.tolist())]
    ways = {}
    if int(kept.max()) == maxlen:
        ways["pad_sequence"] = (
            lambda: torch.nn.utils.rnn.pad_sequence(parts, batch_first=True),
            _numpy,
        )
    if int(t.counts.max()) <= maxlen:
        size = (t.count, maxlen, t.x.shape[1])
        ways |= t.nested_way(
            lambda nested: torch.nested.to_padded_tensor(nested, 0.0, output_size=size), _numpy
        )
    return ways


def _unpad(t: _Tensors) -> dict[str, Any]:
    box, kept = t.given("box"), torch.from_numpy(t.inputs["kept"])
    mask = t.there(torch.arange(t.inputs["maxlen"]) < kept[:, None])
    return {"mask": (lambda: box[mask], _numpy), **_taken(t, box.flatten(0, 1))}


def _expand(t: _Tensors) -> dict[str, Any]:
    values, total = t.given("values"), len(t.x)
    return {
        "repeat_interleave": (
            lambda: torch.repeat_interleave(values, t.lengths, dim=0, output_size=total),
            _numpy,
        ),
        **_taken(t, values),
    }


def _add(t: _Tensors) -> dict[str, Any]:
    other, target = t.given("addend"), torch.zeros_like(t.x)
    return {
        "add": (lambda: t.x + other, _numpy),
        "add out=": (lambda: torch.add(t.x, other, out=target), _numpy),
    }


def _conv(t: _Tensors) -> dict[str, Any]:
    """Return the implementations of conv: one product of contexts, or one for each neighbour."""
    rows, weight = t.given("rows"), t.given("weight")
    count, width, made = len(t.x), t.x.shape[1], weight.shape[1]
    context = rows.shape[1]
    flat = rows.flatten()
    zero = t.x.new_zeros(1, width)
    columns, target = t.x.new_zeros(count * context, width), t.x.new_zeros(count, made)
    padded = torch.cat([t.x, zero])
    before, at, behind = weight.split(width)
    has_before, has_behind = rows[1:, :1] < count, rows[:-1, 2:] < count

    def fresh() -> Any:
        taken = torch.index_select(torch.cat([t.x, zero]), 0, flat)
        return taken.view(count, context * width) @ weight

    def into() -> Any:
        padded[:count] = t.x
        torch.index_select(padded, 0, flat, out=columns)
        return torch.mm(columns.view(count, context * width), weight, out=target)

    def products() -> Any:
        torch.mm(t.x, at, out=target)
        target[1:].addmm_(t.x[:-1] * has_before, before)
        target[:-1].addmm_(t.x[1:] * has_behind, behind)
        return target

    return {
        "im2col, mm": (fresh, _numpy),
        "im2col, mm out=": (into, _numpy),
        "3 mm out=": (products, _numpy),
    }


_OPS = {
    "sum": _sum,
    "mean": _mean,
    "max": lambda t: _extreme(t, "max"),
    "min": lambda t: _extreme(t, "min"),
    "softmax": _softmax,
    "attention": _attention,
    "attention_float16": lambda t: _attention(t, torch.float16),
    "attention_bfloat16": lambda t: _attention(t, torch.bfloat16),
    "attention_grad_float16": lambda t: _attention_grad(t, torch.float16),
    "attention_grad_bfloat16": lambda t: _attention_grad(t, torch.bfloat16),
    "log_softmax": lambda t: _softmax(t, log=True),
    "pad": _pad,
    "unpad": _unpad,
    "expand": _expand,
    "concat": _concat,
    "reverse": _moved,
    "first": _picked,
    "last": _picked,
    "slice": _moved,
    "sort_by_length": _moved,
    "pick": _moved,
    "conv": _conv,
    "add": _add,
}
