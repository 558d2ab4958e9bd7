"""A training run: how far it has come, from the index of its next step, and what `train_many` asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sized
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from sparsecert.errors import InputError
from sparsecert.training.distributed import ProcessGroup


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


class Run(StepSchedule, ABC):
    """A training run: its settings, its steps, and its state, which a checkpoint holds.

    `prepare` is the host's part of a step. `train_step` is the device's part: it reads what differs from step to step
    from the device, so that a GPU can capture it once and replay it.
    """

    model: nn.Module
    device: torch.device
    phase: int = 0  # steps of different phases compute different things
    processes: ProcessGroup = ProcessGroup()

    @abstractmethod
    def check_fit(self) -> None:
        """Refuses a model that cannot take the data's images."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What decides the weights."""

    @abstractmethod
    def prepare(self) -> None:
        """Copies to the device what the next step reads."""

    @abstractmethod
    def train_step(self, batch: int) -> None:
        """One step on `batch` inputs."""

    @abstractmethod
    def metrics(self) -> tuple[float, float]:
        """Mean loss and accuracy of this epoch so far; waits for the device."""

    def end_epoch(self) -> tuple[float, float]:
        """The metrics of the epoch that the last step ended."""
        return self.metrics()

    @abstractmethod
    def save_checkpoint(self, out: Path) -> None:
        """Writes all that `resume` needs to the run's folder, atomically."""

    @abstractmethod
    def resume(self, path: Path) -> None:
        """Restores the state of a checkpoint, if there is one; refuses that of another run."""

    @abstractmethod
    def save_model(self, out: Path, half: bool = False) -> None:
        """Writes the finished model to the run's folder."""

    def sync_with_main(self) -> None:
        """Copies the state of the main process, which alone has read the checkpoint, to all others."""

    def close(self) -> None:
        """Ends what the run has started, such as worker processes."""


def check_checkpoint_seconds(checkpoint_seconds: float) -> None:
    """Refuses a negative or NaN interval; with NaN there would never be a checkpoint."""
    if not checkpoint_seconds >= 0:
        raise InputError(f"checkpoint_seconds must be a number of at least 0, got {checkpoint_seconds}")
