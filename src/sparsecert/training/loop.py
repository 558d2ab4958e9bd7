"""Training from start to end, one run or several at once, each in its own folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import fmean

import torch

from sparsecert.datasets import Dataset
from sparsecert.encodings import Encoding
from sparsecert.files import sole_writer
from sparsecert.modelfile import MODEL_NAME
from sparsecert.procedures.procedure import bound_of_trained
from sparsecert.progress import OnProgress, ignore
from sparsecert.schemes import Scheme, SchemeSpec, Uniform
from sparsecert.schemes.philox import key_of
from sparsecert.training.cuda_graph import step_function
from sparsecert.training.distributed import ProcessGroup
from sparsecert.training.recipes import Recipe
from sparsecert.training.run import CHECKPOINT_NAME, LOG_NAME, TrainingRun, default_encoding, is_finished
from sparsecert.training.schedule import Run, check_checkpoint_seconds

PROGRESS_SECONDS = 0.2  # between progress reports; each one waits for the device


class Stop(Exception):
    """Raise this in `on_progress` to end a run between two steps; `train` writes a checkpoint and re-raises it."""


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
    processes: ProcessGroup | None = None,
    workers: int | None = None,
    init: str | Path | None = None,
    own: Mapping[str, str] | None = None,
    on_progress: OnProgress = ignore,
) -> Path:
    """Trains a base classifier and writes OUT/model.safetensors; returns its path.

    A stopped run resumes from its checkpoint; a finished one is left alone; a folder that holds another run is refused.
    `half` stores the weights in half precision. In distributed training (see `join_process_group`) every process calls
    this and takes its shard of each batch; only the main one reads and writes OUT. `workers` processes decode the
    images of a folder (default: one per CPU, at most 16). `init` is a file of weights to start from: a model file, or
    the state dict of the recipe's network for whole inputs (`training.initial`). `own` is the bound or rule that the
    file names for the model's certificates (default: `bound_of_trained`; {}: none). `on_progress(steps_done,
    steps, epoch=, epochs=, loss=, accuracy=)` gets the epoch's mean loss and accuracy on ablated inputs.
    """
    key_of(seed)
    encoding = encoding or default_encoding(data, recipe)
    if scheme is None and recipe.scheme == "uniform":
        scheme = Uniform(units=encoding.units(data.images.shape).count, keep=recipe.keep)
    elif scheme is None:
        channels, height, width = data.images.shape
        scheme = SchemeSpec.parse(recipe.scheme).of(height, width, channels)
    group = processes or ProcessGroup()
    own = bound_of_trained(scheme) if own is None else own
    run = TrainingRun(
        data, recipe, scheme, encoding, seed, torch.device(device), processes=group, workers=workers, init=init, own=own
    )
    return train_many([(run, out)], checkpoint_seconds=checkpoint_seconds, half=half, on_progress=on_progress)[0]


def train_many(
    runs: Sequence[tuple[Run, str | Path]],
    *,
    checkpoint_seconds: float = 60.0,
    half: bool = False,
    on_progress: OnProgress = ignore,
) -> list[Path]:
    """Trains several runs in lockstep, each into its own folder, as `train` would one by one.

    On the CPU the weights are bit-identical. On a GPU, where the small kernels of a single run leave most of the device
    idle, this takes far less time. `on_progress` describes the runs that are furthest behind, with their mean loss and
    accuracy.
    """
    check_checkpoint_seconds(checkpoint_seconds)
    for run, _ in runs:
        run.check_fit()
        run.processes.check_same(run.settings())
        run.processes.check_batch(len(run.data) % run.recipe.batch or run.recipe.batch)
    outs = [Path(out) for _, out in runs]
    with ExitStack() as held:
        for (run, _), out in zip(runs, outs, strict=True):
            if run.processes.is_main:
                held.enter_context(sole_writer(out, (MODEL_NAME, CHECKPOINT_NAME, LOG_NAME)))
        open_runs = {
            out: run
            for (run, _), out in zip(runs, outs, strict=True)
            if not run.processes.broadcast(
                run.processes.is_main and is_finished(out / MODEL_NAME, run.settings(), half)
            )
        }
        for out, run in open_runs.items():
            held.enter_context(closing(run))
            if run.processes.is_main:
                run.resume(out / CHECKPOINT_NAME)
            run.sync_with_main()
        _take_all_steps(open_runs, checkpoint_seconds, on_progress)
        for out, run in open_runs.items():
            if run.processes.is_main:
                run.save_model(out, half)
                (out / CHECKPOINT_NAME).unlink(missing_ok=True)
    return [out / MODEL_NAME for out in outs]


def _take_all_steps(runs: dict[Path, Run], checkpoint_seconds: float, on_progress: OnProgress) -> None:
    def checkpoint() -> None:
        for out, run in runs.items():
            if run.processes.is_main:
                run.save_checkpoint(out)

    saved = time.monotonic()
    for steps_done, steps, metrics in _steps(list(runs.values())):
        try:
            on_progress(steps_done, steps, **metrics)
        except Stop:
            checkpoint()
            raise
        if time.monotonic() - saved >= checkpoint_seconds:
            checkpoint()
            saved = time.monotonic()


def _steps(runs: list[Run]) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Takes all remaining steps, of the runs furthest behind first; yields at intervals and after each epoch.

    Yields steps done, steps in total and the epoch's metrics.
    """
    take_step = step_function(runs)
    for run in runs:
        run.model.train()
    reported = time.monotonic()
    while behind := _furthest_behind(runs):
        take_step(behind)
        first = behind[0]
        ended = first.step % first.epoch_steps == 0
        if ended or time.monotonic() - reported >= PROGRESS_SECONDS:
            metrics = [run.end_epoch() if ended else run.metrics() for run in behind]
            losses, accuracies = zip(*metrics, strict=True)
            epoch = (first.step - 1) // first.epoch_steps + 1
            epochs = first.recipe.epochs
            found = {"epoch": epoch, "epochs": epochs, "loss": fmean(losses), "accuracy": fmean(accuracies)}
            yield first.step, first.steps, found
            reported = time.monotonic()


def _furthest_behind(runs: list[Run]) -> list[Run]:
    """The unfinished runs that have taken the fewest steps and have equally many left."""
    unfinished = [run for run in runs if run.step < run.steps]
    least = min(((run.step, run.steps, run.epoch_steps) for run in unfinished), default=None)
    return [run for run in unfinished if (run.step, run.steps, run.epoch_steps) == least]
