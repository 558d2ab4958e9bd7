"""Projected gradient descent (PGD): adversarial images within an L-infinity ball.

Madry, Makelov, Schmidt, Tsipras & Vladu, "Towards Deep Learning Models Resistant to Adversarial Attacks" (ICLR 2018).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from sparsecert.schemes import AUGMENTATION
from sparsecert.schemes.philox import words
from sparsecert.votes.precision import PRECISIONS

Scores = Callable[[torch.Tensor], torch.Tensor]


def projected_gradient(
    model: Scores,
    images: torch.Tensor,
    labels: torch.Tensor,
    starts: torch.Tensor,
    eps: torch.Tensor | float,
    step: torch.Tensor | float,
    steps: int,
    precision: str = "fp32",
) -> torch.Tensor:
    """Images within `eps` of the given ones in L-infinity and within [0, 1], after `steps` signed-gradient steps of
    size `step` that increase the cross-entropy.

    starts: in [-1, 1], the relative start within the ball. `eps` and `step` may be tensors, which a captured CUDA graph
    can follow. precision: of the forward and backward passes.
    """
    low, high = (images - eps).clamp(min=0), (images + eps).clamp(max=1)
    moved = (images + eps * starts).clamp(low, high)
    for _ in range(steps):
        gradient = _gradient(model, moved, labels, PRECISIONS[precision])
        moved = (moved + step * gradient.sign()).clamp(low, high)
    return moved


def _gradient(model: Scores, images: torch.Tensor, labels: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    images = images.detach().requires_grad_()
    with torch.enable_grad(), torch.autocast(images.device.type, dtype=dtype, enabled=dtype is not None):
        loss = cross_entropy(model(images).float(), labels, reduction="sum")
    return torch.autograd.grad(loss, images)[0]


def random_starts(seed: int, examples: torch.Tensor, epoch: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Float[b, *shape], uniform in [-1, 1): a pure function of seed, image and epoch, the same on every device.

    They use the random words of augmentations, which plain training has none of.
    """
    values = torch.Size(shape).numel()
    halves = words(seed, examples, (AUGMENTATION + epoch).expand(len(examples)), (values + 1) // 2)
    drawn = torch.cat(halves, dim=1)[:, :values]
    return ((drawn >> 8).float() / (1 << 23) - 1).view(len(examples), *shape)
