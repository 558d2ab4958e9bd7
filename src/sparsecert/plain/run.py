"""One training run of a plain network: settings, state and step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from sparsecert import devices, modelfile
from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.errors import InputError
from sparsecert.plain.evaluation import evaluate
from sparsecert.plain.files import save
from sparsecert.plain.networks import build
from sparsecert.plain.projected_gradient import projected_gradient, random_starts
from sparsecert.plain.recipes import PlainRecipe
from sparsecert.schemes.philox import key_of
from sparsecert.training import generator
from sparsecert.training.run import CHECKPOINT_NAME, check_same_run
from sparsecert.training.schedule import Run
from sparsecert.votes.eval_mode import in_eval_mode
from sparsecert.votes.precision import PRECISIONS

ADAM_STATE = "exp_avg", "exp_avg_sq", "step"


@dataclass(eq=False)
class PlainRun(Run):
    """A run on images as they are; its file records the accuracy on `test`.

    The order of an epoch and the starts of PGD depend on seed and epoch alone. A captured step includes PGD.
    """

    data: Dataset
    recipe: PlainRecipe
    seed: int
    device: torch.device
    test: Dataset
    step: int = 0

    def __post_init__(self) -> None:
        key_of(self.seed)
        if not isinstance(self.data.images, ArrayImages):
            raise InputError(f"plain networks are trained on data in memory, {self.data.name} is an image folder")
        if self.data.shape != self.test.shape or self.data.classes != self.test.classes:
            names = f"{self.test.name} has other images or classes than {self.data.name}"
            raise InputError(f"{names}, on which the network is trained")
        self.architecture = self.recipe.architecture(self.data.shape[0], len(self.data.classes))
        self.model = build(**self.architecture, seed=self.seed).to(self.device)
        cuda = self.device.type == "cuda"
        if cuda:
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.rate = torch.zeros((), device=self.device)  # on the device, for captured steps
        self.eps = torch.zeros((), device=self.device)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=self.rate if cuda else 0.0, fused=cuda, capturable=cuda
        )
        devices.check_precision(self.recipe.precision, PRECISIONS[self.recipe.precision], self.device)
        self.pixels = torch.from_numpy(self.data.images.pixels).to(self.device)
        self.labels = torch.from_numpy(self.data.labels).to(self.device)
        self.order = torch.zeros(len(self.data), dtype=torch.int64, device=self.device)  # of this epoch
        self.device_step = torch.zeros(1, dtype=torch.int64, device=self.device)  # `step` on the device
        self.sums = torch.zeros(3, device=self.device)  # loss, correct, inputs of this epoch
        self.epoch_steps = -(-len(self.data) // self.recipe.batch)
        self._ordered: int | None = None  # the epoch of the order

    def check_fit(self) -> None:
        """Refuses a network that does not take the data's images."""
        shape = self.data.shape
        try:
            with torch.no_grad(), in_eval_mode(self.model):
                scores = self.model(torch.zeros(1, *shape, device=self.device))
            fits = scores.shape == (1, len(self.data.classes))
        except RuntimeError:
            fits = False
        if not fits:
            name = self.recipe.network
            raise InputError(f"the network {name} does not take images of shape {shape}; it is for another data set")

    def settings(self) -> dict[str, Any]:
        """Everything that decides the weights."""
        return {
            "kind": modelfile.PLAIN,
            "recipe": self.recipe.to_dict(),
            "seed": self.seed,
            "data": self.data.identity(),
        }

    def epoch_order(self) -> torch.Tensor:
        """int64: the images of this epoch, in the order in which they are trained on."""
        return torch.randperm(len(self.data), generator=generator(self.seed, "order", self.epoch))

    def prepare(self) -> None:
        """Copies order, rate and eps of the next step to the device."""
        if self._ordered != self.epoch:
            self.order.copy_(self.epoch_order())
            self.sums.zero_()
            self._ordered = self.epoch
        done = (self.step + 0.5) / self.steps
        self.eps.fill_(self.recipe.eps_at(done))
        self.rate.fill_(self.recipe.rate_at(done))
        for group in self.optimizer.param_groups:
            if not isinstance(group["lr"], torch.Tensor):
                group["lr"] = self.recipe.rate_at(done)

    def train_step(self, batch: int) -> None:
        """One step on `batch` images."""
        first = self.device_step % self.epoch_steps * self.recipe.batch
        chosen = self.order[first + torch.arange(batch, device=self.device)]
        labels = self.labels[chosen]
        scores = self.model(self._training_images(chosen, labels))
        loss = cross_entropy(scores, labels, reduction="sum")
        self.optimizer.zero_grad(set_to_none=True)
        (loss / batch).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        correct = (scores.detach().argmax(dim=1) == labels).sum()
        self.sums += torch.stack((loss.detach(), correct, torch.full_like(loss, batch)))
        self.device_step += 1

    def _training_images(self, chosen: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The images to train on, adversarial where the recipe says so."""
        images = self.pixels[chosen].float() / 255
        if self.device.type == "cuda":
            images = images.to(memory_format=torch.channels_last)
        if not self.recipe.adversarial:
            return images
        starts = random_starts(self.seed, chosen, self.device_step // self.epoch_steps, self.data.images.shape)
        step = self.eps * (self.recipe.ascent_step / self.recipe.eps)
        return projected_gradient(
            self.model, images, labels, starts, self.eps, step, self.recipe.ascent_steps, self.recipe.precision
        )

    def metrics(self) -> tuple[float, float]:
        """Mean training loss and accuracy of this epoch so far; waits for the device."""
        loss, correct, inputs = self.sums.tolist()
        if not math.isfinite(loss):
            raise InputError(f"training diverged in epoch {self.epoch + 1}: the loss is {loss}; lower the rate")
        return loss / inputs, correct / inputs

    def save_checkpoint(self, out: Path) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for number, parameter in enumerate(self.model.parameters()):
            for name, tensor in self.optimizer.state[parameter].items():
                tensors[f"adam.{number}.{name}"] = tensor
        header = {"settings": self.settings(), "step": self.step}
        modelfile.write(out / CHECKPOINT_NAME, {**tensors, "sums": self.sums}, header)

    def save_model(self, out: Path, half: bool = False) -> None:
        """Writes the finished network, in full precision, and its accuracy."""
        test = evaluate(self.model, self.test, self.recipe, self.device, self.seed)
        save(out / modelfile.MODEL_NAME, self.model, self.architecture, self.facts(test))

    def facts(self, test: dict[str, Any]) -> dict[str, Any]:
        """The metadata of the finished network, with what was measured on the test set."""
        return {
            "data": self.data.name,
            "shape": list(self.data.shape),
            "class_names": list(self.data.classes),
            "test": test,
            "training": {"settings": self.settings()},
        }

    def resume(self, path: Path) -> None:
        """Restores a checkpoint, if there is one; refuses that of another run."""
        if not path.exists():
            return
        tensors, header = modelfile.read(path)
        if not {"settings", "step"} <= header.keys() or "sums" not in tensors:
            raise InputError(f"{path} is not a checkpoint of a plain network; delete it or use another --out folder")
        check_same_run(path, header["settings"], self.settings())
        self.model.load_state_dict({k.removeprefix("model."): t for k, t in tensors.items() if k.startswith("model.")})
        for number, parameter in enumerate(self.model.parameters()):
            state = {name: tensors.get(f"adam.{number}.{name}") for name in ADAM_STATE}
            for name, tensor in state.items():
                if tensor is not None:
                    self.optimizer.state[parameter][name] = self._restore_state(name, tensor, parameter)
        self.step = header["step"]
        self.device_step.fill_(self.step)
        if self.step % self.epoch_steps:  # in the middle of an epoch
            self.prepare()
            self.sums.copy_(tensors["sums"])

    def _restore_state(self, name: str, tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
        """Adam's state where Adam keeps it: in the parameter's memory format, step counts on a GPU or the CPU."""
        if name == "step":
            return tensor.to(self.device) if self.device.type == "cuda" else tensor
        return torch.empty_like(parameter).copy_(tensor)
