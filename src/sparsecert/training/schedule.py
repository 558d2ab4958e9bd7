"""How far a run has come: steps, epochs and batches, all from the number of its next step."""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol

from sparsecert.errors import InputError


class Length(Protocol):
    """What a recipe of any kind says of the length of a run."""

    @property
    def epochs(self) -> int:
        """Passes over the data."""

    @property
    def batch(self) -> int:
        """Inputs of a step."""


class Paced:
    """A run over `data` by `recipe`, `epoch_steps` steps an epoch, whose next step is number `step`."""

    data: Sized
    recipe: Length
    step: int
    epoch_steps: int

    @property
    def steps(self) -> int:
        """How many steps the whole run takes."""
        return self.recipe.epochs * self.epoch_steps

    @property
    def epoch(self) -> int:
        """The epoch of the next step, counted from 0."""
        return self.step // self.epoch_steps

    @property
    def batch(self) -> int:
        """How many inputs the next step takes: the last of an epoch takes what is left."""
        return min(self.recipe.batch, len(self.data) - self.step % self.epoch_steps * self.recipe.batch)


def check_between(checkpoint_seconds: float) -> None:
    """Refuses a time between checkpoints that is none; with "not a number" there would never be a checkpoint."""
    if not checkpoint_seconds >= 0:
        raise InputError(f"checkpoint_seconds must be a number of at least 0, got {checkpoint_seconds}")
