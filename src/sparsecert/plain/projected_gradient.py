"""Projected gradient ascent: nearly the worst images within a distance of given ones in L-infinity.

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
    """Images that differ from the given ones by at most `eps` in each value, stay within [0, 1], and at which the
    cross-entropy is as large as `steps` steps of size `step` along its gradient's signs make it.

    starts: in [-1, 1], where in the ball the ascent begins. `eps` and `step` may be tensors, so that a captured graph
    can follow them. precision: of the network's products here.
    """
    low, high = (images - eps).clamp(min=0), (images + eps).clamp(max=1)
    moved = (images + eps * starts).clamp(low, high)
    for _ in range(steps):
        slopes = _slopes(model, moved, labels, PRECISIONS[precision])
        moved = (moved + step * slopes.sign()).clamp(low, high)
    return moved


def _slopes(model: Scores, images: torch.Tensor, labels: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    images = images.detach().requires_grad_()
    with torch.enable_grad(), torch.autocast(images.device.type, dtype=dtype, enabled=dtype is not None):
        loss = cross_entropy(model(images).float(), labels, reduction="sum")
    return torch.autograd.grad(loss, images)[0]


def random_starts(seed: int, examples: torch.Tensor, epoch: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Float[b, *shape], uniform in [-1, 1): a pure function of seed, image and epoch, the same on every device.

    They are drawn as augmentations are, of which plain training has no other.
    """
    values = torch.Size(shape).numel()
    halves = words(seed, examples, (AUGMENTATION + epoch).expand(len(examples)), (values + 1) // 2)
    drawn = torch.cat(halves, dim=1)[:, :values]
    return ((drawn >> 8).float() / (1 << 23) - 1).view(len(examples), *shape)
