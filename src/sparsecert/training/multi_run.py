"""Training runs from start to end, one or several at once, each in a folder of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch

from sparsecert.datasets import Dataset
from sparsecert.encodings import Encoding
from sparsecert.errors import InputError
from sparsecert.files import sole_writer
from sparsecert.modelfile import MODEL_NAME
from sparsecert.schemes import Scheme, Uniform
from sparsecert.schemes.philox import key_of
from sparsecert.training.cuda_graph import stepper
from sparsecert.training.distributed import Team
from sparsecert.training.recipes import Recipe
from sparsecert.training.run import CHECKPOINT_NAME, LOG_NAME, Run, default_encoding, finished
from sparsecert.training.schedule import check_between

TOLD_EVERY = 0.2  # seconds between progress reports; each one waits for the device


class Stop(Exception):
    """Raised by `on_progress` to end a run between two steps: a checkpoint is written, and `train` raises it on."""


@dataclass(frozen=True)
class Progress:
    """Where training is: steps done of all, the epoch, and its mean loss and accuracy on ablated inputs.

    Of several runs at once, the one that is furthest behind, and the mean over those that are there with it.
    """

    step: int
    steps: int
    epoch: int
    loss: float
    accuracy: float


OnProgress = Callable[[Progress], None]


def train(
    data: Dataset,
    recipe: Recipe,
    out: str | Path,
    *,
    scheme: Scheme | None = None,
    encoding: Encoding | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
    checkpoint_seconds: float = 60.0,
    half: bool = False,
    team: Team | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> Path:
    """Trains a base classifier and writes OUT/model.safetensors; returns its path.

    A run that was stopped resumes from its checkpoint; a finished one is left as it is; a folder that holds another run
    is refused. `half` stores the weights in half precision. Processes of a `team` (see `training.team.joined`) all call
    this and share each batch; the leading one alone reads and writes OUT. `workers` processes decode the photographs of
    an image folder (default: as many as there are CPUs, at most 16).
    """
    key_of(seed)
    encoding = encoding or default_encoding(data, recipe)
    if scheme is None and recipe.scheme != "uniform":
        raise InputError(f"the recipe names the scheme {recipe.scheme}; pass the scheme itself too, as scheme=")
    scheme = scheme or Uniform(units=encoding.units(data.images.shape), keep=recipe.keep)
    run = Run(data, recipe, scheme, encoding, seed, torch.device(device), team=team or Team(), workers=workers)
    return train_together([(run, out)], checkpoint_seconds=checkpoint_seconds, half=half, on_progress=on_progress)[0]


def train_together(
    runs: Sequence[tuple[Run, str | Path]],
    *,
    checkpoint_seconds: float = 60.0,
    half: bool = False,
    on_progress: OnProgress | None = None,
) -> list[Path]:
    """Trains several runs step by step side by side, each into its folder: what `train` would do one by one.

    On the CPU the weights are the same to the bit. On a GPU, where one run's small kernels leave most of the card idle,
    this takes far less time.
    """
    check_between(checkpoint_seconds)
    for run, _ in runs:
        run.check_fit()
        run.team.check_same(run.settings())
        run.team.check_batch(len(run.data) % run.recipe.batch or run.recipe.batch)
    outs = [Path(out) for _, out in runs]
    with ExitStack() as held:
        for (run, _), out in zip(runs, outs, strict=True):
            if run.team.leads:
                held.enter_context(sole_writer(out, (MODEL_NAME, CHECKPOINT_NAME, LOG_NAME)))
        open_runs = {
            out: run
            for (run, _), out in zip(runs, outs, strict=True)
            if not run.team.on_progress(run.team.leads and finished(out / MODEL_NAME, run.settings(), half))
        }
        for out, run in open_runs.items():
            held.enter_context(closing(run))
            if run.team.leads:
                run.resume(out / CHECKPOINT_NAME)
            run.follow_leader()
        _take_all_steps(open_runs, checkpoint_seconds, on_progress)
        for out, run in open_runs.items():
            if run.team.leads:
                run.save_model(out, half)
                (out / CHECKPOINT_NAME).unlink(missing_ok=True)
    return [out / MODEL_NAME for out in outs]


def _take_all_steps(runs: dict[Path, Run], checkpoint_seconds: float, on_progress: OnProgress | None) -> None:
    def checkpoint() -> None:
        for out, run in runs.items():
            if run.team.leads:
                run.save_checkpoint(out)

    saved = time.monotonic()
    for progress in _steps(list(runs.values())):
        try:
            if on_progress is not None:
                on_progress(progress)
        except Stop:
            checkpoint()
            raise
        if time.monotonic() - saved >= checkpoint_seconds:
            checkpoint()
            saved = time.monotonic()


def _steps(runs: list[Run]) -> Iterator[Progress]:
    """Takes every remaining step, those furthest behind first; yields now and then, and at the end of each epoch."""
    take_step = stepper(runs)
    for run in runs:
        run.model.train()
    on_progress = time.monotonic()
    while behind := _furthest_behind(runs):
        take_step(behind)
        first = behind[0]
        ended = first.step % first.epoch_steps == 0
        if ended or time.monotonic() - on_progress >= TOLD_EVERY:
            seen = [run.end_epoch() if ended else run.seen() for run in behind]
            losses, accuracies = zip(*seen, strict=True)
            epoch = (first.step - 1) // first.epoch_steps + 1
            yield Progress(first.step, first.steps, epoch, fmean(losses), fmean(accuracies))
            on_progress = time.monotonic()


def _furthest_behind(runs: list[Run]) -> list[Run]:
    """The unfinished runs that have taken the fewest steps, as many as have the same number left."""
    unfinished = [run for run in runs if run.step < run.steps]
    least = min(((run.step, run.steps, run.epoch_steps) for run in unfinished), default=None)
    return [run for run in unfinished if (run.step, run.steps, run.epoch_steps) == least]
