"""Certifies a PyTorch network of one's own: trained on ablated copies in a loop of one's own, saved, loaded, certified.

python examples/pytorch_model.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn

import sparsecert as sc
from sparsecert import datasets

KEEP = 12  # of 64 pixels
SCHEME = sc.Uniform(units=64, keep=KEEP)
ENCODING = sc.NullChannels()


class DigitNet(nn.Module):
    """Any architecture will do; this one is small. It sees the channels that the encoding makes of one."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(ENCODING.channels(1), 32, kernel_size=3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 32, kernel_size=4, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(32 * 4 * 4, 10)

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores Float[rows, 10] of ablated copies Float[rows, 2, 8, 8]."""
        return self.head(self.features(copies).flatten(1))


def digits(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Handwritten digits Float[n, 1, 8, 8] with values in [0, 1], and their labels."""
    data = datasets.load("digits", split)
    images = data.images.batch(range(len(data.images)))
    return torch.from_numpy(images).float() / 255, torch.from_numpy(data.labels)


def train(net: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int = 15, batch: int = 64) -> None:
    """An ordinary loop; only the line with `masks` is new: the network learns from ablated copies."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    step = 0
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=torch.Generator().manual_seed(step)).split(batch):
            masks = SCHEME.masks(0, range(len(rows)), [sc.TRAINING + step])[:, 0]
            loss = nn.functional.cross_entropy(net(ENCODING(images[rows], masks)), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1


def main() -> None:
    """Trains, saves, loads and certifies, and prints what is proved about the first held-out digits."""
    torch.manual_seed(0)
    net = DigitNet()
    train(net, *digits("train"))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.safetensors"
        sc.Smoothed(net, SCHEME, ENCODING, classes=10).save(path)
        g = sc.Smoothed.load(path, model=DigitNet())

    images, labels = digits("test")
    images, labels = images[:20], labels[:20].numpy()
    c = g.certify(images, n0=100, n=2_000, alpha=0.05, seed=0)
    for row, (label, radius) in enumerate(zip(c.labels, c.radii, strict=True)):
        said = "no certificate" if label < 0 else f"says {label}, whichever {radius} pixels are perturbed"
        print(f"digit {row:2}, a {labels[row]}: {said}")
    certified = (c.labels == labels) & (c.radii >= 2)
    print(f"right, and proved to stay so whichever 2 pixels are perturbed: {certified.sum()} of {len(labels)}")


if __name__ == "__main__":
    main()
