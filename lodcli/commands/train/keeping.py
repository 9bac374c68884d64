"""The best model of a training so far, in memory and in its file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from lodcli.formats.storage import interrupts
from lodcli.formats.weights.model_file import write_model
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.rnn.training.train import Epoch, Evaluation

# Minimum interval between saves of a better model; the best one is also saved at the end.
SAVING_SECONDS = 2.0


class Best(NamedTuple):
    """The best epoch so far, and its loss on the validation set, if there is one, else its own."""

    epoch: Epoch
    loss: float


class Keeper:
    """Keeps the best model so far, the one with the lowest loss, in memory and in a file.

    The files are complete at any time: they are replaced atomically.

    Args:
        path: of the model; None: none is written.
        about: the classes and the ids: their names, for the file.
        overwrite: whether an existing model may be replaced.
        save_state: writes the state after the last epoch, given that and the best one.
        last, best: of the epochs before, if the training continues.
    """

    def __init__(
        self,
        path: str | None,
        about: dict[str, list[str]],
        overwrite: bool,
        save_state: Callable[[Epoch, Best], None] | None = None,
        last: Epoch | None = None,
        best: Best | None = None,
    ) -> None:
        self.best = best
        self._last = last
        self._path = path
        self._about = about
        self._overwrite = overwrite
        self._save_state = save_state
        self._saved: tuple[Best | None, Epoch | None] = None, last
        self._at = time.monotonic()

    def offer(self, epoch: Epoch, validation: Evaluation | None) -> None:
        """Keep an epoch's model if its loss is the lowest: on the validation set, if there is one.

        Raises:
            InvalidDataError: the loss on the validation set is not finite.
        """
        loss = epoch.loss if validation is None else validation.loss
        if not math.isfinite(loss):
            raise InvalidDataError(
                f"epoch {epoch.number}: the loss on the validation set is {loss}; check its data "
                "for values that are too large"
            )
        self._last = epoch
        if self.best is None or loss < self.best.loss:
            self.best = Best(epoch, loss)
        # Standard output can be written once only: at the end.
        if self._path != "-" and time.monotonic() - self._at > SAVING_SECONDS:
            self.save()

    @property
    def last(self) -> int | None:
        """Number of the last epoch."""
        return None if self._last is None else self._last.number

    def stalled(self, patience: int | None) -> bool:
        """Return whether this many epochs have passed since the best one."""
        if patience is None or self._last is None or self.best is None:
            return False
        return self._last.number - self.best.epoch.number >= patience

    def save(self) -> None:
        """Write the best model and the state, unless the files have them already."""
        if self._path is None or self.best is None:
            return
        interrupts.handled()  # writing a large model may take longer than the watchdog's limit
        with interrupts.shielded():
            best, last = self._saved
            if self._save_state and self._last and self._last is not last:
                self._save_state(self._last, self.best)
            if self.best is not best:
                model = self.best.epoch.model
                about = {**self._about, "pool": model.pool}
                write_model(self._path, model.arrays(), about, overwrite=self._overwrite)
                self._overwrite = True
            self._saved, self._at = (self.best, self._last), time.monotonic()


@contextmanager
def saving(keeper: Keeper) -> Iterator[None]:
    """Save the best model at the end of the block, however it ends."""
    try:
        yield
    finally:
        keeper.save()
