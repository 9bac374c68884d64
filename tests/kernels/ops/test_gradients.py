"""The gradient of every differentiable op: finite differences, torch's autograd, determinism."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from tests.cases_ops import Array, check_gradient
from tests.kernels.ops.gradient_cases import CASES, WITHOUT
from tests.kernels.ops.gradient_parts import Setting

LODS = {
    "some": LoD.from_lengths([[2, 0, 3], [3, 0, 1, 4, 2]]),
    "one long": LoD.from_lengths([[1], [17]]),
    "no rows": LoD.from_lengths([[1, 2], [0, 0, 0]]),
}
ALL = [
    pytest.param(name, level, backend, lod, id=f"{name}-{level}-{backend}-{key}")
    for name, case in CASES.items()
    for level in case.levels
    for backend in case.backends
    for key, lod in LODS.items()
]


def arrays_of(name: str, setting: Setting) -> list[Array]:
    """Return the arrays of a case: all values differ, and by more than finite differences move."""
    generator, arrays = np.random.default_rng(5), []
    for shape in CASES[name].inputs(setting):
        values = generator.permutation(int(np.prod(shape))).reshape(shape)
        arrays.append(values / 20 - 0.8 + generator.uniform(0, 0.01, shape))
    return arrays


def run(name: str, setting: Setting) -> tuple[list[Array], Array, list[Array]]:
    """Return the arrays of a case, the gradient that flows in, and those that come out."""
    arrays = arrays_of(name, setting)
    result = CASES[name].forward(setting, arrays)
    upstream = np.random.default_rng(6).normal(size=result.shape)
    return arrays, upstream, CASES[name].backward(setting, upstream, arrays)


def test_every_op_has_a_gradient_or_none_to_have() -> None:
    tested = {case.op for case in CASES.values()}
    assert tested | WITHOUT == OPS.keys()
    assert not tested & WITHOUT
    for name, entry in OPS.items():
        assert (entry.gradient is None) == (name in WITHOUT), name


@pytest.mark.parametrize(("name", "level", "backend", "lod"), ALL)
def test_gradients_are_those_of_finite_differences(
    name: str, level: int, backend: str, lod: LoD
) -> None:
    setting = Setting(lod, level, backend)
    arrays, upstream, gradients = run(name, setting)
    assert len(gradients) == len(arrays)
    for place, gradient in enumerate(gradients):

        def moved(at: Array, place: int = place) -> Array:
            result: Array = CASES[name].forward(
                setting, [*arrays[:place], at, *arrays[place + 1 :]]
            )
            return result

        check_gradient(moved, arrays[place], upstream, gradient)
    again = run(name, setting)[2]
    assert [one.tobytes() for one in again] == [one.tobytes() for one in gradients]


@pytest.mark.parametrize(
    ("name", "level", "backend", "lod"),
    [one for one in ALL if CASES[str(one.values[0])].torch is not None],
)
def test_gradients_are_those_of_torch(name: str, level: int, backend: str, lod: LoD) -> None:
    torch: Any = pytest.importorskip("torch")
    case, setting = CASES[name], Setting(lod, level, backend)
    assert case.torch is not None
    arrays, upstream, gradients = run(name, setting)
    tensors = [torch.tensor(one, requires_grad=True) for one in arrays]
    result = case.torch(setting, torch, tensors)
    np.testing.assert_allclose(
        result.detach().numpy(), case.forward(setting, arrays), rtol=1e-12, atol=1e-12
    )
    # Without rows torch's result may depend on nothing.
    if result.requires_grad:
        result.backward(torch.tensor(upstream))
    for tensor, gradient in zip(tensors, gradients, strict=True):
        wanted = np.zeros(gradient.shape) if tensor.grad is None else tensor.grad.numpy()
        np.testing.assert_allclose(gradient, wanted, rtol=1e-10, atol=1e-10)
