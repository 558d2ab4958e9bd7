"""Steps, epochs and batch sizes of a run, all derived from the index of its next step."""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol

from sparsecert.errors import InputError


class RunLength(Protocol):
    """The part of a recipe that decides the length of a run."""

    @property
    def epochs(self) -> int: ...

    @property
    def batch(self) -> int: ...


class StepSchedule:
    """A run over `data` by `recipe`, `epoch_steps` steps per epoch, whose next step is number `step`."""

    data: Sized
    recipe: RunLength
    step: int
    epoch_steps: int

    @property
    def steps(self) -> int:
        """The number of steps in the whole run."""
        return self.recipe.epochs * self.epoch_steps

    @property
    def epoch(self) -> int:
        """The epoch of the next step, counted from 0."""
        return self.step // self.epoch_steps

    @property
    def batch(self) -> int:
        """The batch size of the next step; the last of an epoch takes what is left."""
        return min(self.recipe.batch, len(self.data) - self.step % self.epoch_steps * self.recipe.batch)


def check_checkpoint_seconds(checkpoint_seconds: float) -> None:
    """Refuses a negative or NaN interval; with NaN there would never be a checkpoint."""
    if not checkpoint_seconds >= 0:
        raise InputError(f"checkpoint_seconds must be a number of at least 0, got {checkpoint_seconds}")
