"""Trains a restorer, which fills what is NULL, on ablated copies of images without labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from sparsecert import models
from sparsecert.datasets import Dataset
from sparsecert.encodings import Encoding, Grouped, NullChannels
from sparsecert.errors import InputError, check_int
from sparsecert.modelfile import MODEL_NAME
from sparsecert.models.restoring import Restorer, Restoring
from sparsecert.procedures.procedure import bound_of_trained
from sparsecert.progress import OnProgress, ignore
from sparsecert.runs.groups import load_batch
from sparsecert.schemes import TRAINING, Scheme
from sparsecert.smoothed import Smoothed
from sparsecert.training.batches import generator
from sparsecert.training.initial import initialise
from sparsecert.training.run import is_finished
from sparsecert.votes.eval_mode import in_eval_mode

STEPS, BATCH = 2_000, 128
MOST_STEPS, MOST_BYTES = 1 << 32, 2 << 30  # MOST_BYTES: of images held in memory


def train_frozen(
    data: Dataset,
    model: str,
    init: str | Path,
    out: str | Path,
    *,
    scheme: Scheme,
    encoding: Encoding,
    own: Mapping[str, str] | None = None,
    steps: int = STEPS,
    batch: int = BATCH,
    seed: int = 0,
    device: str | torch.device = "cpu",
    on_progress: OnProgress = ignore,
) -> Path:
    """Trains a restorer for a network of whole images, and writes both as one model, OUT/model.safetensors.

    `model` names the network, and the file `init` has its weights, which stay as they are. The restorer is trained on
    evenly spaced images of `data`, as many as fit into 2 GiB. `own` is as in `training.train`. A finished run is left
    as it is; a stopped one begins anew, and a folder with another run is refused.
    """
    _require_null_channels(encoding)
    path, (channels, classes) = Path(out) / MODEL_NAME, (data.shape[0], len(data.classes))
    joined = models.build_named(model, encoding.channels(channels), classes, seed, scheme, restored=True)
    assert isinstance(joined, Restoring)
    settings = {
        "restorer": {"model": model, "steps": steps, "batch": batch},
        "scheme": scheme.config(),
        "encoding": encoding.config(),
        "seed": seed,
        "init": initialise(joined.net, joined.net, encoding, init, new_head=False),
        "data": data.identity(),
    }
    if is_finished(path, settings, half=False):
        return path
    joined = joined.to(device)
    images = load_batch(data, data.spaced_indices(max(1, MOST_BYTES // (4 * math.prod(data.shape)))).tolist())
    train_restorer(
        images, scheme, encoding, joined.net, restorer=joined.restorer, steps=steps, batch=batch, seed=seed,
        device=device, on_progress=on_progress,
    )  # fmt: skip
    metadata = {
        **data.metadata(),
        "training": {"settings": settings},
        **(bound_of_trained(scheme) if own is None else own),
    }
    Smoothed(joined, scheme, encoding, classes=classes, metadata=metadata).save(path)
    return path


def train_restorer(
    images: torch.Tensor,
    scheme: Scheme,
    encoding: Encoding | None = None,
    net: nn.Module | None = None,
    *,
    restorer: nn.Module | None = None,
    steps: int = STEPS,
    batch: int = BATCH,
    rate: float = 0.002,
    seed: int = 0,
    device: str | torch.device = "cpu",
    on_progress: OnProgress = ignore,
) -> nn.Module:
    """A network for `restoring` that has learned to predict hidden pixels from retained ones.

    `images` are Float[n, channels, height, width] in [0, 1], without labels: training images, never those to be
    certified. The loss is the squared error of the filled copies. With `net`, the network of whole images that will see
    them, the cross-entropy between its answers to the filled copy and to the whole image is added: what matters to this
    network is filled best. `net`, on the same device, is left as it is. AdamW over one cycle with the peak `rate`;
    masks are those of training (`schemes.TRAINING`). A `restorer` of your own is trained in place of a new `Restorer`.

    `on_progress(steps_done, steps, loss=)` is called after each step.
    """
    if images.ndim != 4 or not images.is_floating_point():
        raise InputError(f"images must be floats [n, channels, height, width], got {images.dtype} {images.shape}")
    check_int("steps", steps, 1, MOST_STEPS)
    encoding = encoding or NullChannels()
    _require_null_channels(encoding)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        restorer = restorer or Restorer(images.shape[1])
    filling = Restoring(restorer.to(device).train(), nn.Identity())
    optimizer = torch.optim.AdamW(restorer.parameters(), lr=rate)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.2)
    drawing = generator(seed, "restorer", 0)
    everything = torch.ones(1, scheme.units, dtype=torch.bool, device=device)
    with in_eval_mode(net):
        for step in range(steps):
            rows = torch.randint(len(images), (batch,), generator=drawing)
            inputs = images[rows].to(device)
            masks = scheme.masks(seed, range(batch), [TRAINING + step], device)[:, 0]
            whole = encoding(inputs, everything)[:, : inputs.shape[1]]
            filled = filling(encoding(inputs, masks))
            loss = nn.functional.mse_loss(filled, whole)
            if net is not None:
                with torch.no_grad():
                    answers = net(whole).softmax(dim=1)
                loss = loss + nn.functional.cross_entropy(net(filled), answers)
            optimizer.zero_grad()
            loss.backward(inputs=list(restorer.parameters()))  # type: ignore[no-untyped-call]
            optimizer.step()
            cycle.step()
            on_progress(step + 1, steps, loss=float(loss.detach()))
    return restorer.train(False)


def _require_null_channels(encoding: Encoding) -> None:
    if not isinstance(encoding.encoding if isinstance(encoding, Grouped) else encoding, NullChannels):
        raise InputError(f"restoring needs NullChannels, which shows where NULL is, got {encoding}")
