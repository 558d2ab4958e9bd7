"""Trains a plain network in a run folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.files import sole_writer
from sparsecert.modelfile import MODEL_NAME
from sparsecert.plain.evaluation import evaluate
from sparsecert.plain.files import save
from sparsecert.plain.recipes import PlainRecipe
from sparsecert.plain.run import PlainRun
from sparsecert.progress import OnProgress, ignore
from sparsecert.training import Stop
from sparsecert.training.cuda_graph import GraphedSteps, step_each
from sparsecert.training.multi_run import PROGRESS_SECONDS
from sparsecert.training.run import CHECKPOINT_NAME, is_finished
from sparsecert.training.schedule import check_checkpoint_seconds


def train_plain(
    data: Dataset,
    test: Dataset,
    recipe: PlainRecipe,
    out: str | Path,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    checkpoint_seconds: float = 60.0,
    on_progress: OnProgress = ignore,
) -> Path:
    """Trains a plain network on `data` and writes OUT/model.safetensors; returns its path.

    The file records the accuracy on `test`. A stopped run resumes from its checkpoint, on the CPU to the same weights;
    a finished one is left as it is; a folder with another run is refused.
    """
    check_checkpoint_seconds(checkpoint_seconds)
    if data.images.shape != test.images.shape or data.classes != test.classes:
        raise InputError(f"{test.name} has other images or classes than {data.name}, on which the network is trained")
    run, out = PlainRun(data, recipe, seed, torch.device(device)), Path(out)
    with sole_writer(out, (MODEL_NAME, CHECKPOINT_NAME)):
        if not is_finished(out / MODEL_NAME, run.settings(), half=False):
            run.resume(out / CHECKPOINT_NAME)
            _take_all_steps(run, out, checkpoint_seconds, on_progress)
            _save(run, test, out / MODEL_NAME)
            (out / CHECKPOINT_NAME).unlink(missing_ok=True)
    return out / MODEL_NAME


def _save(run: PlainRun, test: Dataset, path: Path) -> None:
    facts = {
        "data": run.data.name,
        "shape": list(run.data.images.shape),
        "class_names": list(run.data.classes),
        "test": evaluate(run.model, test, run.recipe, run.device, run.seed),
        "training": {"settings": run.settings()},
    }
    save(path, run.model, run.architecture, facts)


def _take_all_steps(run: PlainRun, out: Path, checkpoint_seconds: float, on_progress: OnProgress) -> None:
    saved = time.monotonic()
    for epoch, loss, accuracy in _steps(run):
        try:
            on_progress(run.step, run.steps, epoch=epoch, loss=loss, accuracy=accuracy)
        except Stop:
            run.save_checkpoint(out / CHECKPOINT_NAME)
            raise
        if time.monotonic() - saved >= checkpoint_seconds:
            run.save_checkpoint(out / CHECKPOINT_NAME)
            saved = time.monotonic()


def _steps(run: PlainRun) -> Iterator[tuple[int, float, float]]:
    """Takes all remaining steps; yields (epoch, loss, accuracy) at intervals and after each epoch."""
    take_step = Stepper(run.device)
    run.model.train()
    reported = time.monotonic()
    while run.step < run.steps:
        take_step(run)
        if run.step % run.epoch_steps == 0 or time.monotonic() - reported >= PROGRESS_SECONDS:
            yield (run.step - 1) // run.epoch_steps + 1, *run.metrics()
            reported = time.monotonic()


class Stepper:
    """Takes the steps of a run: on a GPU as a CUDA graph, elsewhere, and where capture fails, eagerly."""

    def __init__(self, device: torch.device) -> None:
        self.captured = GraphedSteps(device) if device.type == "cuda" else None

    def __call__(self, run: PlainRun) -> None:
        if self.captured is not None:
            try:
                self.captured([run])
                return
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                reason = (str(error).splitlines() or [""])[0]
                warnings.warn(f"a step cannot be captured here ({reason}); training is slower", stacklevel=2)
                self.captured = None
        step_each([run])
