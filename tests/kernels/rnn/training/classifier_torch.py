"""Classifiers as modules of torch, and their gradients and training compared with torch's."""

from __future__ import annotations

from typing import Any

import pytest

from lodcli.kernels.rnn.training.classifier import Classifier, classifier_gradients, classify
from lodcli.kernels.rnn.training.loss import softmax_cross_entropy
from lodcli.kernels.rnn.training.train import Labelled, Recipe, train
from tests.oracles_rnn import Array, close, cut


def torch_model(made: Classifier) -> Any:
    """Return a torch module of the same weights; its names are the classifier's."""
    torch, rnn = pytest.importorskip("torch"), made.rnn
    kinds = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "elman": torch.nn.RNN}
    module = torch.nn.Module()
    if made.embedding is not None:
        module.embedding = torch.nn.Embedding(*made.embedding.shape, dtype=torch.float64)
    shape = {"num_layers": len(rnn.layers), "bidirectional": rnn.directions == 2}
    sizes = rnn.input_size, rnn.hidden_size
    module.rnn = kinds[rnn.cell](*sizes, dtype=torch.float64, **shape)
    module.out = torch.nn.Linear(rnn.output_size, made.classes, dtype=torch.float64)
    module.load_state_dict({name: torch.from_numpy(a) for name, a in made.arrays().items()})
    return module


def torch_scores(module: Any, given: Labelled, pool: str = "last") -> Any:
    """Return the scores, one sequence at a time."""
    torch, vectors = pytest.importorskip("torch"), []
    for part in cut(given.sequences.data, given.sequences.lod.levels[0].tolist()):
        rows = torch.from_numpy(part)
        if hasattr(module, "embedding"):
            rows = module.embedding(rows.long())
        outputs, states = module.rnn(rows)
        hidden = states[0] if isinstance(states, tuple) else states
        last = hidden[-2 if module.rnn.bidirectional else -1 :].reshape(-1)
        vectors.append(outputs.mean(dim=0) if pool == "mean" else last)
    return module.out(torch.stack(vectors))


def torch_loss(scores: Any, given: Labelled) -> Any:
    torch = pytest.importorskip("torch")
    return torch.nn.functional.cross_entropy(scores, torch.from_numpy(given.labels.astype(int)))


def check_gradients(made: Classifier, given: Labelled, data: Any) -> dict[str, Array]:
    """Compare scores, loss and gradients, in float64; return the gradients."""
    tolerance = 1e-12  # some dozen products
    scored = classify(made, data, given.sequences.lod.levels[0], keep=True)
    loss = softmax_cross_entropy(scored.scores, given.labels)
    found, module = classifier_gradients(made, scored, loss.grad), torch_model(made)
    scores = torch_scores(module, given, made.pool)
    close(scored.scores, scores.detach().numpy(), tolerance)
    wanted = torch_loss(scores, given)
    wanted.backward()
    close(loss.value, wanted.item(), tolerance)
    parameters = dict(module.named_parameters())
    assert found.keys() == parameters.keys() == made.arrays().keys()
    for name, gradient in found.items():
        close(gradient, parameters[name].grad.numpy(), tolerance, name)
    return found


def check_training(made: Classifier, given: Labelled) -> None:
    """Compare a whole training with one by torch, an epoch a step, with Adam and a cosine."""
    epochs, rate = 6, 0.05
    # One batch an epoch, so that the order in it does not matter; clipping far away.
    *_, last = train(made, given, Recipe(epochs=epochs, batch=100, rate=rate, clip=1e9))
    module, torch = torch_model(made), pytest.importorskip("torch")
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = torch_loss(torch_scores(module, given), given)
        loss.backward()
        optimizer.step()
        schedule.step()
    close(last.loss, loss.item(), 1e-8)
    for name, parameter in module.named_parameters():
        close(last.model.arrays()[name], parameter.detach().numpy(), 1e-7, name)
