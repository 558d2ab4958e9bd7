"""One training run: its settings, its state and its training step."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from sparsecert import devices, modelfile, models
from sparsecert.datasets import Dataset
from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.stream import Request
from sparsecert.datasets.views import RandomCrop
from sparsecert.encodings import ENCODINGS, Encoding
from sparsecert.errors import InputError
from sparsecert.files import write_atomically
from sparsecert.modelfile import MODEL_NAME
from sparsecert.procedures.exact import require_fixed_masks
from sparsecert.schemes import TRAINING, Scheme
from sparsecert.smoothed import Smoothed
from sparsecert.training.batch_norm import split_batch_norm, synchronise_batch_norm
from sparsecert.training.batches import Batches
from sparsecert.training.distributed import ProcessGroup
from sparsecert.training.independent import check_independent
from sparsecert.training.initial import initialise
from sparsecert.training.objective import Scorer, objective
from sparsecert.training.optimizers import complete_state, load_state_tensors, optimizer_of, state_tensors
from sparsecert.training.prefetch import Prefetcher
from sparsecert.training.recipes import Recipe
from sparsecert.training.schedule import Run
from sparsecert.votes.precision import PRECISIONS
from sparsecert.votes.probe import probe

CHECKPOINT_NAME = "checkpoint.safetensors"
LOG_NAME = "training.jsonl"
MASKS_AHEAD = 64  # minibatch masks drawn at once: on a GPU drawing 64 takes no longer than drawing one


def default_encoding(data: Dataset, recipe: Recipe, name: str = "null-channels") -> Encoding:
    """The encoding of that name, with the data set's own statistics."""
    return ENCODINGS[name].for_training(data, recipe)


@dataclass(eq=False)
class TrainingRun(Run):
    """A run on ablated inputs, from random weights or those of the file `init`.

    `workers` processes decode the images of a folder.
    """

    data: Dataset
    recipe: Recipe
    scheme: Scheme
    encoding: Encoding
    seed: int
    device: torch.device
    shared_batches: Batches | None = None
    processes: ProcessGroup = field(default_factory=ProcessGroup)
    workers: int | None = None
    init: str | Path | None = None
    own: Mapping[str, str] = field(default_factory=dict)  # the bound or rule of the model's certificates
    step: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        cuda, channels = self.device.type == "cuda", self.data.images.shape[0]
        self.model = self._build(self.encoding.channels(channels))
        self.init_sha256: str | None = None
        if self.init is not None:
            if self.recipe.independent:
                raise InputError("independent training starts from random weights, else the parts mix; leave out init")
            self.init_sha256 = initialise(self.model, self._build(channels), self.encoding, self.init)
        if self.recipe.independent:
            check_independent(self.model, self.encoding)
        self.model = self.model.to(self.device)
        if cuda:
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.processes.size > 1:
            if self.recipe.norm_rows is not None:
                raise InputError("norm_rows is for one process; leave it out, and batch norm spans all processes")
            self.model = synchronise_batch_norm(self.model)
        elif self.recipe.norm_rows is not None:
            self.model = split_batch_norm(self.model, self.recipe.norm_rows)
        self.optimizer = optimizer_of(self.recipe, self.model, self.device)
        devices.check_precision(self.recipe.precision, PRECISIONS[self.recipe.precision], self.device)
        self.copies = self.recipe.copies
        if self.recipe.masks == "all":
            self.copies = len(require_fixed_masks(self.scheme).table)
        self.objectives = [
            objective(
                self.device, self.recipe.precision, self.copies, self.recipe.consistency, self.processes.size == 1, vote
            )
            for vote in (None, self.recipe.vote)
        ]
        self.batches = self.shared_batches or Batches(self.data, self.recipe, self.seed, self.device)
        self.epoch_steps = -(-len(self.data) // self.recipe.batch)
        self.device_step = torch.zeros(1, dtype=torch.int64, device=self.device)  # `step`, on the device
        self.order = torch.zeros(len(self.data), dtype=torch.int64, device=self.device)  # of this epoch
        self.shifts = self.batches.shifts(0)  # of this epoch
        images = self.data.images
        self.prefetcher = (
            Prefetcher(images, self.recipe.batch, self.device, self._requests, self.workers)
            if isinstance(images, FolderImages)
            else None
        )
        self.masks = self._masks_of_steps(0)
        exact = torch.float32 if self.device.type == "mps" else torch.float64  # MPS has no float64
        self.sums = torch.zeros(3, dtype=exact, device=self.device)  # loss, correct, inputs of this epoch
        self._prepared: tuple[int, int] | None = None  # epoch of the order, first step of the masks
        self._epoch_start, self._earlier = time.monotonic(), 0.0  # and this epoch's seconds in an earlier process

    def _build(self, channels: int) -> torch.nn.Module:
        """The recipe's network for so many channels."""
        return models.build_named(self.recipe.model, channels, len(self.data.classes), self.seed, self.scheme)

    @property
    def phase(self) -> int:  # type: ignore[override]
        """0, or 1 in the epochs of the vote objective."""
        return int(self.recipe.vote is not None and self.epoch >= self.recipe.epochs - self.recipe.vote.epochs)

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return self.recipe.rate(self.epoch + 1, (self.step % self.epoch_steps + 0.5) / self.epoch_steps)

    def check_fit(self) -> None:
        """Refuses a model that cannot take the data's images, before writing anything."""
        first = torch.zeros(1, *self.data.images.shape, device=self.device)
        probe(self.model, self.scheme, self.encoding, first, classes=len(self.data.classes))

    def settings(self) -> dict[str, Any]:
        """Everything that determines the weights."""
        return {
            "recipe": self.recipe.to_dict(),
            "scheme": self.scheme.config(),
            "encoding": self.encoding.config(),
            "seed": self.seed,
            **({} if self.init_sha256 is None else {"init": self.init_sha256}),
            "data": self.data.identity(),
        }

    def prepare(self) -> None:
        """Copies to the device what the next step reads: order, augmentation, images, masks, learning rate."""
        first = self.step - self.step % MASKS_AHEAD
        epoch, masks = self._prepared or (None, None)
        if epoch != self.epoch:
            self._begin_epoch()
        if self.prefetcher is not None:
            self.prefetcher.load_next()
        if masks != first and self.recipe.masks == "minibatch":
            self.masks.copy_(self._masks_of_steps(first))
        self._prepared = self.epoch, first
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(self.rate)
            else:
                group["lr"] = self.rate

    def _masks_of_steps(self, first: int) -> torch.Tensor:
        """The minibatch masks of this step and the next ones."""
        steps = torch.arange(first, first + MASKS_AHEAD, device=self.device)
        if self.recipe.repeat_masks and self.recipe.repeat is not None:
            steps = steps % (self.recipe.repeat * self.epoch_steps)
        return self.scheme.masks_at(self.seed, torch.zeros_like(steps), TRAINING + steps)

    def _requests(self) -> Iterator[Request]:
        """This process's images for every remaining step."""
        for epoch in range(self.epoch, self.recipe.epochs):
            order = self.batches.order(epoch).numpy()
            view = RandomCrop(self.seed, self.recipe.data_epoch(epoch))
            for step in range(max(self.step, epoch * self.epoch_steps), (epoch + 1) * self.epoch_steps):
                batch = order[step % self.epoch_steps * self.recipe.batch :][: self.recipe.batch]
                shard = self.processes.shard(len(batch))
                yield batch[shard.start : shard.stop], view

    def close(self) -> None:
        """Ends the decoding workers, if any."""
        if self.prefetcher is not None:
            self.prefetcher.close()

    def _begin_epoch(self) -> None:
        self.order.copy_(self.batches.order(self.epoch))
        shifts = self.batches.shifts(self.epoch)
        if self.shifts is not None and shifts is not None:
            self.shifts.copy_(shifts)

    def train_step(self, batch: int) -> None:
        """One step on `batch` inputs, of which this process takes its shard."""
        chosen = self._chosen(batch)
        labels = self.batches.labels[chosen]
        loss, correct = self.objectives[self.phase](self._scorer, self._copies(chosen), labels)
        self.optimizer.zero_grad(set_to_none=True)
        (loss / batch).backward()  # type: ignore[no-untyped-call]
        totals = torch.stack((loss.detach(), correct, torch.full_like(loss, len(chosen))))
        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        self.processes.all_reduce([*gradients, totals])
        self.optimizer.step()
        self.sums += totals.to(self.sums.dtype)
        self.device_step += 1

    def _chosen(self, batch: int) -> torch.Tensor:
        """The indices of this process's inputs in the step."""
        first, shard = self.device_step % self.epoch_steps * self.recipe.batch, self.processes.shard(batch)
        return self.order[first + torch.arange(shard.start, shard.stop, device=self.device)]

    def _copies(self, chosen: torch.Tensor) -> torch.Tensor:
        """The step's inputs, augmented, ablated and encoded: one copy of each, then a second of each, and so on."""
        if self.prefetcher is None:
            images = self.batches.augmented(chosen, self.shifts)
        else:
            images = self.prefetcher.pixels[: len(chosen)]
        inputs = images.float() / 255
        if self._scorer is not self.model:
            copies = self.encoding(inputs, torch.ones(1, self.scheme.units, dtype=torch.bool, device=self.device))
        else:
            inputs = inputs.repeat(self.copies, 1, 1, 1) if self.copies > 1 else inputs
            copies = self.encoding(inputs, self._masks(chosen))
        if self.device.type == "cuda" and copies.ndim == 4:
            copies = copies.to(memory_format=torch.channels_last)
        return copies.bfloat16() if self.recipe.precision == "bf16" else copies

    @property
    def _scorer(self) -> Scorer:
        """The model; where all masks vote, its own way to score all copies of whole inputs, if it has one."""
        return getattr(self.model, "score_all", self.model) if self.recipe.masks == "all" else self.model

    def _masks(self, chosen: torch.Tensor) -> torch.Tensor:
        """One mask for the minibatch, drawn per step; one per copy, drawn per epoch; or all of a fixed set."""
        if self.recipe.masks == "all":
            return require_fixed_masks(self.scheme).all_masks(self.device).repeat_interleave(len(chosen), dim=0)
        if self.recipe.masks == "sample":
            copies = torch.arange(self.copies, device=self.device).repeat_interleave(len(chosen))
            draws = TRAINING + self.device_step // self.epoch_steps * self.copies + copies
            return self.scheme.masks_at(self.seed, chosen.repeat(self.copies), draws)
        return self.masks[self.device_step % MASKS_AHEAD]

    def metrics(self) -> tuple[float, float]:
        """Mean loss and accuracy of this epoch so far; synchronises with the device."""
        loss, correct, inputs = self.sums.tolist()
        if not math.isfinite(loss):
            epoch = (self.step - 1) // self.epoch_steps + 1
            raise InputError(
                f"training diverged in epoch {epoch}: the loss is {loss}; lower the learning rate ({self.scheme})"
            )
        return loss / inputs, correct / inputs

    def end_epoch(self) -> tuple[float, float]:
        """Logs the epoch that the last step ended; returns its mean loss and accuracy."""
        loss, accuracy = self.metrics()
        if int(self.device_step) != self.step:
            raise RuntimeError(f"{int(self.device_step)} steps were taken on {self.device}, not {self.step}")
        epoch = self.step // self.epoch_steps
        line = {"epoch": epoch, "rate": self.recipe.rate(epoch, 0.5), "loss": loss, "accuracy": accuracy}
        self.log.append({**line, "seconds": round(self._seconds(), 3)})
        self._epoch_start, self._earlier = time.monotonic(), 0.0
        self.sums.zero_()
        return loss, accuracy

    def _seconds(self) -> float:
        """The time spent on this epoch, not counting interruptions."""
        return self._earlier + time.monotonic() - self._epoch_start

    def save_checkpoint(self, out: Path) -> None:
        """Writes all that `resume` needs, atomically, and the log so far."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= state_tensors(self.optimizer, self.model)
        header = {
            "settings": self.settings(),
            "step": self.step,
            "sums": self.sums.tolist(),
            "seconds": self._seconds(),
            "log": self.log,
        }
        modelfile.write(out / CHECKPOINT_NAME, tensors, header)
        self._write_log(out)

    def resume(self, path: Path) -> None:
        """Restores the state of a checkpoint, if there is one; refuses that of another run."""
        if not path.exists():
            return
        tensors, header = modelfile.read(path)
        if not {"settings", "step", "log", "sums"} <= header.keys():
            raise InputError(f"{path} is not a checkpoint; delete it or use another --out folder")
        check_same_run(path, header["settings"], self.settings())
        self.model.load_state_dict({k.removeprefix("model."): t for k, t in tensors.items() if k.startswith("model.")})
        load_state_tensors(self.optimizer, self.model, tensors)
        self.step, self.log = header["step"], header["log"]
        self._epoch_start, self._earlier = time.monotonic(), header.get("seconds", 0.0)
        self.device_step.fill_(self.step)
        self.sums += torch.tensor(header["sums"], dtype=self.sums.dtype, device=self.device)

    def sync_with_main(self) -> None:
        """Copies the state of the main process, which alone has read the checkpoint, to all others."""
        if self.processes.size == 1:
            return
        self.step, self.log, self._earlier = self.processes.broadcast((self.step, self.log, self._earlier))
        self.device_step.fill_(self.step)
        state = complete_state(self.optimizer, self.model) if self.step else []
        self.processes.broadcast_tensors([*self.model.state_dict().values(), *state, self.sums])

    def save_model(self, out: Path, half: bool = False) -> None:
        """Writes the finished model, with its settings and last losses in the header.

        Times go to the log alone, so that equal weights give equal files.
        """
        last = {name: value for name, value in self.log[-1].items() if name != "seconds"}
        metadata = {
            **self.data.metadata(),
            "training": {"settings": self.settings(), "last_epoch": last},
            **({"independent": True} if self.recipe.independent else {}),
            **self.own,
        }
        smoothed = Smoothed(self.model, self.scheme, self.encoding, classes=len(self.data.classes), metadata=metadata)
        self._write_log(out)  # first: a finished model is never resumed, so the log could not be completed
        smoothed.save(out / MODEL_NAME, half=half)

    def _write_log(self, out: Path) -> None:
        write_atomically(out / LOG_NAME, "".join(json.dumps(line) + "\n" for line in self.log).encode())


def is_finished(path: Path, settings: dict[str, Any], half: bool) -> bool:
    """Whether the model with these settings exists; refuses one with others."""
    if not path.exists():
        return False
    header = modelfile.read_header(path)
    found = header.get("facts", {}).get("training", {}).get("settings", {})
    check_same_run(path, {**found, "half": header.get("half", False)}, {**settings, "half": half})
    return True


def check_same_run(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuses a file of another run and names the first setting that differs."""
    plain = json.loads(json.dumps(wanted))
    for key in (*plain, "init"):
        if found.get(key) != plain.get(key):
            raise InputError(
                f"{path} belongs to another run ({key} differs); use another --out folder, or delete that one"
            )
