"""Our Pointwise attack compared with Foolbox's, on one plain network and the same images.

Trains the paper's MNIST network, without ablation, or takes one from a file (`sparsecert train --data mnist --plain
abs`), and attacks it. Both attacks have equally many restarts and keep the best. Foolbox starts each from its own
salt-and-pepper noise, the least of a thousand draws. Ours is measured as published, with a start of that kind, and with
the additional rounds of noise that the published attack lacks. Prints the median and mean number of changed pixels,
failures, and queries. For images of one channel: Foolbox counts values that differ, which are then the pixels.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sparsecert import datasets, models
from sparsecert.adapters.libraries import import_foolbox
from sparsecert.attacks import NOT_FOUND, Network, Outcome, Pointwise
from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.errors import InputError
from sparsecert.plain.defenders import defender_for

Scores = Callable[[torch.Tensor], torch.Tensor]

BATCH, RATE = 128, 1e-3
ROUNDS = 0, 20  # as published, and by default


@dataclass(frozen=True)
class AttackResult:
    """Changed pixels, float[images], infinite where the attack failed; queries; time."""

    distances: NDArray[np.float64]
    queries: int
    seconds: float

    def line(self, name: str) -> str:
        reached = self.distances[np.isfinite(self.distances)]
        failed = len(self.distances) - len(reached)
        mean = f"mean {reached.mean():.2f}" if len(reached) else "no mean"
        each = f"{self.queries / len(self.distances):,.0f} queries an image"
        return f"{name}: median {np.median(self.distances):g}, {mean}, {failed} failures, {each}, {self.seconds:.0f} s"


class CountingNetwork(nn.Module):
    """A network that counts its queries."""

    def __init__(self, model: Scores) -> None:
        super().__init__()
        self.model, self.queries = model, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.queries += len(images)
        scores: torch.Tensor = self.model(images)
        return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50, help="evenly spaced test images")
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--model", help="a plain model's file or run folder, in place of training one")
    parser.add_argument("--rounds", type=int, nargs="+", default=ROUNDS, help="of our attack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    try:
        train, test = (datasets.load("mnist", split) for split in ("train", "test"))
        import_foolbox()
    except InputError as error:
        parser.exit(2, f"error: {error}\n")
    device = torch.device(options.device)
    gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if gpu else f"{platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, seed {options.seed}, {options.restarts} restarts")
    if options.model is None:
        model = trained(train, models.build("mnist-cnn", 1, 10), options.epochs, options.seed, device)
        defender, of = Network(model, device), f"plain MNIST network, {options.epochs} epochs"
    else:
        defender, of = defender_for(options.model, test, device), options.model
    images, labels = part(test, test.spaced_indices(options.images))
    everything, true = part(test, np.arange(len(test))) if options.model is None else (images, labels)
    right = (defender.answers(everything).labels == true).double().mean()
    print(f"{of}: clean accuracy {right:.2%} of {len(true):,} images")
    print(f"n = {len(images)} evenly spaced test images; one already misclassified is at distance 0", flush=True)
    compare(defender, images, labels, options.restarts, options.rounds, options.seed)


def compare(
    defender: Network, images: torch.Tensor, labels: torch.Tensor, restarts: int, every: Sequence[int], seed: int
) -> None:
    """Prints both, ours with each number of rounds."""
    together = len(images) if defender.device.type == "cuda" else 1
    theirs = by_foolbox(defender.model, images, labels, restarts, seed, defender.device, together)
    print(theirs.line("Foolbox PointwiseAttack"), flush=True)
    for rounds in every:
        ours = by_us(defender, images, labels, restarts, rounds, seed)
        print(ours.line(f"sparsecert Pointwise, {rounds} rounds"))
        no_worse, better = (ours.distances <= theirs.distances).mean(), (ours.distances < theirs.distances).mean()
        print(f"  no worse for {no_worse:.0%} of the images, better for {better:.0%}")
        met = np.median(ours.distances) <= np.median(theirs.distances)
        print(f"  bar, our median no larger than Foolbox's: {'met' if met else 'MISSED'}", flush=True)


def by_us(
    defender: Network, images: torch.Tensor, labels: torch.Tensor, restarts: int, rounds: int, seed: int
) -> AttackResult:
    """All images and restarts side by side."""
    began = time.perf_counter()
    found: Outcome = Pointwise(restarts=restarts, rounds=rounds)(defender, images, labels, seed=seed)
    distances = torch.where(found.distances == NOT_FOUND, torch.inf, found.distances.double()).numpy()
    return AttackResult(distances, int(found.queries.sum()), time.perf_counter() - began)


def by_foolbox(
    model: Scores,
    images: torch.Tensor,
    labels: torch.Tensor,
    restarts: int,
    seed: int,
    device: torch.device,
    together: int,
) -> AttackResult:
    """So many images together, all their restarts side by side, each from Foolbox's salt-and-pepper noise.

    Restarts that no noise was found for are left out, since Foolbox gives up a whole batch where one has no start. Its
    second stage is off: it makes changes smaller in the sense of squares, not fewer.
    """
    foolbox = import_foolbox()
    np.random.seed(seed)  # noqa: NPY002, Foolbox draws from NumPy's and torch's global generators
    torch.manual_seed(seed)
    began, counting = time.perf_counter(), CountingNetwork(model).eval()
    foolbox_model = foolbox.PyTorchModel(counting, bounds=(0, 1), device=device)
    distances = [
        _nearest(
            foolbox,
            foolbox_model,
            images[start : start + together].to(device),
            labels[start : start + together],
            restarts,
        )
        for start in range(0, len(images), together)
    ]
    return AttackResult(torch.cat(distances).numpy(), counting.queries, time.perf_counter() - began)


def _nearest(
    foolbox: Any, foolbox_model: Any, images: torch.Tensor, labels: torch.Tensor, restarts: int
) -> torch.Tensor:
    """Float[b]: the fewest changed pixels of any restart, 0 for a misclassified image, infinite without a start."""
    distances = torch.where(foolbox_model(images).argmax(dim=1).cpu() == labels, torch.inf, 0.0).double()
    which = (distances > 0).nonzero()[:, 0].repeat(restarts)
    if not len(which):
        return distances
    copies, wanted = images[which.to(images.device)], labels[which].to(images.device)
    starts = foolbox.attacks.SaltAndPepperNoiseAttack().run(foolbox_model, copies, foolbox.Misclassification(wanted))
    fooled = foolbox_model(starts).argmax(dim=1) != wanted
    if not fooled.any():
        return distances
    copies, wanted, which = copies[fooled], wanted[fooled], which[fooled.cpu()]
    attack = foolbox.attacks.PointwiseAttack(l2_binary_search=False)
    found = attack.run(foolbox_model, copies, foolbox.Misclassification(wanted), starting_points=starts[fooled])
    assert (foolbox_model(found).argmax(dim=1) != wanted).all()
    changed = (found != copies).flatten(1).sum(dim=1).double().cpu()
    return distances.scatter_reduce(0, which, changed, "amin")


def trained(data: Dataset, model: nn.Module, epochs: int, seed: int, device: torch.device) -> nn.Module:
    """The network with fresh weights, trained on whole images by Adam, one cosine of learning rates."""
    torch.manual_seed(seed)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.reset_parameters()
    images, labels = (tensor.to(device) for tensor in part(data, np.arange(len(data))))
    model = model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-len(images) // BATCH))
    for _ in range(epochs):
        order = torch.randperm(len(images)).to(device)
        for start in range(0, len(images), BATCH):
            rows = order[start : start + BATCH]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return model.eval()


def part(data: Dataset, which: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    """Float[b, c, h, w] from 0 to 1, and int64[b]."""
    assert isinstance(data.images, ArrayImages)
    return torch.from_numpy(data.images.batch(which)).float() / 255, torch.from_numpy(data.labels[which])


if __name__ == "__main__":
    main()
