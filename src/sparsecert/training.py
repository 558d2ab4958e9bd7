"""Training base classifiers on ablated inputs, with the scheme and encoding of test time.

Everything random in step t (order, augmentation, masks) is a pure function of the seed and t, so a run's state is its
weights, its momentum and t: a run that is killed and started again ends, on the CPU, in the same weights.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from sparsecert import modelfile, models
from sparsecert.augment import crop_flip
from sparsecert.datasets import Dataset
from sparsecert.datasets.dataset import ArrayImages
from sparsecert.datasets.folder import FolderImages
from sparsecert.encodings import Encoding, MeanFill, NullChannels
from sparsecert.errors import InputError
from sparsecert.files import sole_writer, write_atomically
from sparsecert.modelfile import MODEL_NAME
from sparsecert.recipes import Recipe
from sparsecert.schemes import TRAINING, Scheme, Uniform
from sparsecert.schemes.philox import key_of
from sparsecert.smoothed import Smoothed
from sparsecert.votes import Ablation, probe

CHECKPOINT_NAME = "checkpoint.safetensors"
LOG_NAME = "training.jsonl"
MASKS_AHEAD = 64  # minibatch masks drawn at once: on a GPU drawing 64 takes no longer than drawing one
TOLD_EVERY = 0.2  # seconds between progress reports; each one waits for the device


class Stop(Exception):
    """Raised by `told` to end a run between two steps: a checkpoint is written, and `train` raises it on."""


@dataclass(frozen=True)
class Progress:
    """Where a training run is: steps done of all, the epoch, and its mean loss and accuracy on ablated inputs."""

    step: int
    steps: int
    epoch: int
    loss: float
    accuracy: float


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
    told: Callable[[Progress], None] | None = None,
) -> Path:
    """Trains a base classifier and writes OUT/model.safetensors; returns its path.

    A run that was stopped resumes from its checkpoint; a finished one is left as it is; a folder that holds another run
    is refused.
    """
    out = Path(out)
    key_of(seed)
    encoding = encoding or default_encoding(data, recipe)
    scheme = scheme or Uniform(units=encoding.units(data.images.shape), keep=recipe.keep)
    run = Run(data, recipe, scheme, encoding, seed, torch.device(device))
    run.check_fit()
    with sole_writer(out, (MODEL_NAME, CHECKPOINT_NAME, LOG_NAME)):
        if _finished(out / MODEL_NAME, run.settings()):
            return out / MODEL_NAME
        run.resume(out / CHECKPOINT_NAME)
        saved = time.monotonic()
        for progress in run.steps():
            try:
                if told is not None:
                    told(progress)
            except Stop:
                run.save_checkpoint(out)
                raise
            if time.monotonic() - saved >= checkpoint_seconds:
                run.save_checkpoint(out)
                saved = time.monotonic()
        run.save_model(out)
        (out / CHECKPOINT_NAME).unlink(missing_ok=True)
    return out / MODEL_NAME


def default_encoding(data: Dataset, recipe: Recipe, name: str = "null-channels") -> Encoding:
    """The encoding of that name with the data set's own constants."""
    if name == "mean-fill":
        return MeanFill(data.mean)
    return NullChannels(data.mean, data.std) if recipe.normalise else NullChannels()


@dataclass
class Run:
    """A training run: its settings, and the state that a checkpoint holds."""

    data: Dataset
    recipe: Recipe
    scheme: Scheme
    encoding: Encoding
    seed: int
    device: torch.device
    step: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        channels = self.encoding.channels(self.data.images.shape[0])
        self.model = models.build(self.recipe.model, channels, len(self.data.classes), self.seed).to(self.device)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=self.recipe.rate(1),
            momentum=self.recipe.momentum,
            weight_decay=self.recipe.weight_decay,
        )
        self.labels = torch.from_numpy(self.data.labels).to(self.device)
        self.batches = Batches(self.data, self.recipe, self.seed, self.device)
        self.epoch_steps = -(-len(self.data) // self.recipe.batch)
        self._ahead: tuple[int, torch.Tensor] | None = None
        self.sums = torch.zeros(3, dtype=torch.float64, device=self.device)  # loss, correct, inputs of this epoch

    def check_fit(self) -> None:
        """Refuses a model that cannot take the data's images, before anything is written."""
        ablation = Ablation(self.model, self.scheme, self.encoding, self.device)
        probe(ablation, torch.zeros(1, *self.data.images.shape, device=self.device), len(self.data.classes))

    def settings(self) -> dict[str, Any]:
        """What decides the weights."""
        return {
            "recipe": self.recipe.to_dict(),
            "scheme": self.scheme.config(),
            "encoding": self.encoding.config(),
            "seed": self.seed,
            "data": {"name": self.data.name, "split": self.data.split, "fingerprint": self.data.fingerprint()},
        }

    def steps(self) -> Iterator[Progress]:
        """Takes every remaining step; yields now and then, and at the end of each epoch."""
        total = self.recipe.epochs * self.epoch_steps
        self.model.train()
        told = time.monotonic()
        while self.step < total:
            self._take_step()
            ended = self.step % self.epoch_steps == 0
            if ended or time.monotonic() - told >= TOLD_EVERY:
                loss, correct, inputs = self.sums.tolist()
                epoch = (self.step - 1) // self.epoch_steps + 1
                progress = Progress(self.step, total, epoch, loss / inputs, correct / inputs)
                if not torch.isfinite(self.sums).all():
                    raise InputError(f"training diverged in epoch {epoch}: the loss is {loss}; lower the learning rate")
                if ended:
                    self._end_epoch(progress)
                yield progress
                told = time.monotonic()

    def _take_step(self) -> None:
        epoch, position = divmod(self.step, self.epoch_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(epoch + 1)
        chosen = self.batches.order(epoch)[position * self.recipe.batch :][: self.recipe.batch]
        inputs, labels = self.batches.inputs(chosen, epoch, self.step), self.labels[chosen]
        scores = self.model(self.encoding(inputs, self._masks(chosen, epoch)))
        loss = cross_entropy(scores, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        correct = (scores.detach().argmax(1) == labels).sum()
        self.sums += torch.stack((loss.detach() * len(labels), correct, torch.full_like(correct, len(labels)))).double()
        self.step += 1

    def _masks(self, chosen: torch.Tensor, epoch: int) -> torch.Tensor:
        """One mask for the minibatch, of its step's own draw, or one per input, of its epoch's draw."""
        if self.recipe.masks == "sample":
            return self.scheme.masks_at(self.seed, chosen, torch.full_like(chosen, TRAINING + epoch))
        ahead, place = divmod(self.step, MASKS_AHEAD)
        if self._ahead is None or self._ahead[0] != ahead:
            steps = torch.arange(ahead * MASKS_AHEAD, (ahead + 1) * MASKS_AHEAD, device=self.device)
            self._ahead = ahead, self.scheme.masks_at(self.seed, torch.zeros_like(steps), TRAINING + steps)
        return self._ahead[1][place : place + 1]

    def _end_epoch(self, progress: Progress) -> None:
        rate = self.recipe.rate(progress.epoch)
        self.log.append({"epoch": progress.epoch, "rate": rate, "loss": progress.loss, "accuracy": progress.accuracy})
        self.sums.zero_()

    def save_checkpoint(self, out: Path) -> None:
        """Writes everything `resume` needs, whole or not at all, and the log so far."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for number, parameter in enumerate(self.model.parameters()):
            buffer = self.optimizer.state[parameter].get("momentum_buffer")
            if buffer is not None:
                tensors[f"momentum.{number}"] = buffer
        header = {"settings": self.settings(), "step": self.step, "sums": self.sums.tolist(), "log": self.log}
        modelfile.write(out / CHECKPOINT_NAME, tensors, header)
        self._write_log(out)

    def resume(self, path: Path) -> None:
        """Takes up the state of a checkpoint, if there is one; refuses that of another run."""
        if not path.exists():
            return
        tensors, header = modelfile.read(path)
        if not {"settings", "step", "log", "sums"} <= header.keys():
            raise InputError(f"{path} is not a checkpoint; delete it or use another --out folder")
        _check_same(path, header["settings"], self.settings())
        self.model.load_state_dict({k.removeprefix("model."): t for k, t in tensors.items() if k.startswith("model.")})
        for number, parameter in enumerate(self.model.parameters()):
            buffer = tensors.get(f"momentum.{number}")
            if buffer is not None:
                self.optimizer.state[parameter]["momentum_buffer"] = buffer.to(self.device)
        self.step, self.log = header["step"], header["log"]
        self.sums += torch.tensor(header["sums"], dtype=torch.float64, device=self.device)

    def save_model(self, out: Path) -> None:
        """Writes the finished model, with its settings and last losses in the header."""
        facts = {
            "data": self.data.name,
            "shape": list(self.data.images.shape),
            "class_names": list(self.data.classes),
            "training": {"settings": self.settings(), "last_epoch": self.log[-1]},
        }
        smoothed = Smoothed(self.model, self.scheme, self.encoding, classes=len(self.data.classes), facts=facts)
        smoothed.save(out / MODEL_NAME)
        self._write_log(out)

    def _write_log(self, out: Path) -> None:
        write_atomically(out / LOG_NAME, "".join(json.dumps(line) + "\n" for line in self.log).encode())


class Batches:
    """The inputs of each step, as a pure function of seed, epoch and step; a data set in memory moves to the device."""

    def __init__(self, data: Dataset, recipe: Recipe, seed: int, device: torch.device) -> None:
        self.images, self.recipe, self.seed, self.device = data.images, recipe, seed, device
        folder = isinstance(data.images, FolderImages)
        if folder != (recipe.augment == "resized-crop-flip"):
            kind = "a data set in memory" if folder else "an image folder"
            raise InputError(f"recipe {recipe.name!r} (augment={recipe.augment}) needs {kind}, {data.name} is not one")
        pixels = data.images.pixels if isinstance(data.images, ArrayImages) else None
        self.pixels = None if pixels is None else torch.from_numpy(pixels).to(device)
        self._order: tuple[int, torch.Tensor] | None = None

    def order(self, epoch: int) -> torch.Tensor:
        """A permutation of the inputs, drawn on the CPU so that it is the same for every device."""
        if self._order is None or self._order[0] != epoch:
            order = torch.randperm(len(self.images), generator=generator(self.seed, "order", epoch))
            self._order = epoch, order.to(self.device)
        return self._order[1]

    def inputs(self, chosen: torch.Tensor, epoch: int, step: int) -> torch.Tensor:
        """Float[b, c, h, w] in [0, 1], augmented."""
        if isinstance(self.images, FolderImages):
            crops = self.images.random_crops(chosen.tolist(), self.seed, epoch)
            return torch.from_numpy(crops).to(self.device).float() / 255
        assert self.pixels is not None
        inputs = self.pixels[chosen].float() / 255
        if self.recipe.augment == "crop-flip":
            inputs = crop_flip(inputs, generator(self.seed, "augment", step))
        return inputs


def generator(seed: int, purpose: str, number: int) -> torch.Generator:
    """A CPU generator that depends on these three alone."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def _finished(path: Path, settings: dict[str, Any]) -> bool:
    """Whether the folder already holds the model of these settings."""
    if not path.exists():
        return False
    _check_same(path, modelfile.read_header(path).get("facts", {}).get("training", {}).get("settings", {}), settings)
    return True


def _check_same(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key, value in json.loads(json.dumps(wanted)).items():
        if found.get(key) != value:
            raise InputError(f"{path} is of another run ({key} differs); use another --out folder, or delete that one")
