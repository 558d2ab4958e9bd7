"""Certifies an image model in the style of Hugging Face: it takes `pixel_values` and returns an object with `.logits`.

`ImageClassifier` stands in for such a model (`AutoModelForImageClassification.from_pretrained(...)`), so that the
script needs no download. NULL is shown as the mean colour, so that the model sees three channels as it was made to, and
it is tuned on ablated copies for a few epochs, without which its votes would be worth little.

python examples/hugging_face_image_model.py
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

import sparsecert as sc
from sparsecert import datasets

KEEP = 16  # of 64 pixels
MEAN, STD = 0.306, 0.375  # of the training set, as an image processor has them: constants, not of the image at hand
SCHEME = sc.Uniform(units=64, keep=KEEP)
ENCODING = sc.MeanFill([MEAN] * 3)


@dataclass
class ImageClassifierOutput:
    """What such models return."""

    logits: torch.Tensor
    loss: torch.Tensor | None = None


class ImageClassifier(nn.Module):
    """A model with the interface of Hugging Face's: keyword `pixel_values`, an output object, a loss where asked."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 32, kernel_size=3, padding=1), nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1),
        )  # fmt: skip
        self.classifier = nn.Linear(64 * 4 * 4, classes)

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor | None = None) -> ImageClassifierOutput:
        """Logits Float[rows, classes] of standardised images Float[rows, 3, 8, 8]."""
        logits = self.classifier(self.backbone(pixel_values))
        return ImageClassifierOutput(logits, None if labels is None else nn.functional.cross_entropy(logits, labels))


@dataclass
class Logits:
    """The model as what `Smoothed` asks for, a function from ablated copies to scores.

    A function is not put into eval mode by anyone: that is done here, once.
    """

    model: ImageClassifier

    def __post_init__(self) -> None:
        self.model.eval()

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores Float[rows, classes]; standardised as the processor would, by constants."""
        return self.model(pixel_values=standardised(copies)).logits


def standardised(images: torch.Tensor) -> torch.Tensor:
    """What an image processor does. The mean, which stands for NULL, becomes 0."""
    return (images - MEAN) / STD


def digits(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Handwritten digits as colour images Float[n, 3, 8, 8] with values in [0, 1], and their labels."""
    data = datasets.load("digits", split)
    images = torch.from_numpy(data.images.batch(range(len(data.images)))).float() / 255
    return images.expand(-1, 3, -1, -1), torch.from_numpy(data.labels)


def tune(model: ImageClassifier, images: torch.Tensor, labels: torch.Tensor, epochs: int = 10) -> None:
    """Trains on ablated copies, a mask for each."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    step = 0
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=torch.Generator().manual_seed(step)).split(64):
            masks = SCHEME.masks(0, range(len(rows)), [sc.TRAINING + step])[:, 0]
            batch = {"pixel_values": standardised(ENCODING(images[rows], masks)), "labels": labels[rows]}
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
            step += 1


def main() -> None:
    """Tunes, certifies, and prints the certified accuracy on held-out images."""
    torch.manual_seed(0)
    model = ImageClassifier()
    tune(model, *digits("train"))

    images, labels = digits("test")
    g = sc.Smoothed(Logits(model), SCHEME, ENCODING)
    c = g.certify(images[:20], n0=100, n=1_000, alpha=0.05, seed=0)
    right = c.labels == labels[:20].numpy()
    for rho in range(c.radii.max() + 1):
        print(f"right whichever {rho} pixels are perturbed: {(right & (c.radii >= rho)).mean():.0%}")


if __name__ == "__main__":
    main()
