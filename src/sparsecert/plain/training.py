"""Trains a plain network in a run folder."""

from __future__ import annotations

from pathlib import Path

import torch

from sparsecert.datasets import Dataset
from sparsecert.plain.autoencoder_run import AutoencoderRun
from sparsecert.plain.recipes import AutoencoderRecipe, PlainRecipe
from sparsecert.plain.run import PlainRun
from sparsecert.progress import OnProgress, ignore
from sparsecert.training import train_many


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
    kind = AutoencoderRun if isinstance(recipe, AutoencoderRecipe) else PlainRun
    run = kind(data, recipe, seed, torch.device(device), test)
    return train_many([(run, out)], checkpoint_seconds=checkpoint_seconds, on_progress=on_progress)[0]
