"""The Pointwise attack: noise that fools the defender, taken back pixel by pixel.

Schott, Rauber, Bethge & Brendel, "Towards the First Adversarially Robust Neural Network Model on MNIST" (ICLR 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.judge import Judge, changed

NOISE_LEVELS, TRIES = 50, 10


@dataclass(frozen=True)
class Pointwise(Attack):
    """Starts from the least salt-and-pepper noise that fools the defender, then sets pixels back one at a time, in
    random order, wherever that still fools it, in passes until one changes nothing. The best of `restarts` is kept.

    The published attack ends there (`rounds=0`). This one then adds as much noise again to each, elsewhere, and takes
    the old noise back before the new; it goes on from the outcome where that has no more pixels, `rounds` times. All
    images and restarts go side by side: a query of each is one batch.
    """

    restarts: int = 10
    rounds: int = 20

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        """See the class."""
        which = which.repeat(self.restarts)
        starts, found = salted(judge, which, generator)
        current, which, slots = starts[found], which[found], found.nonzero()[:, 0]
        take_back(judge, current, which, generator, slots)
        for _ in range(self.rounds if len(which) else 0):
            renew(judge, current, which, generator, slots)


def salted(
    judge: Judge, which: torch.Tensor, generator: torch.Generator, tries: int = TRIES
) -> tuple[torch.Tensor, torch.Tensor]:
    """For each of `which`, its image with noise that fools the defender; and whether any of so many tries did."""
    result, found = judge.images[which], torch.zeros(len(which), dtype=torch.bool)
    for _ in range(tries):
        left = (~found).nonzero()[:, 0]
        if not len(left):
            break
        result[left], found[left] = _salted_once(judge, which[left], left, generator)
    return result, found


def _salted_once(
    judge: Judge, which: torch.Tensor, slots: torch.Tensor, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """The least noise of a rising series: pixels set to one of the bounds, each channel by itself; each level adds."""
    images = judge.images[which]
    noise = corners(judge, images, generator)
    turn = torch.rand(len(which), judge.pixels, generator=generator)
    result, found = images.clone(), torch.zeros(len(which), dtype=torch.bool)
    for level in range(1, NOISE_LEVELS + 1):
        left = (~found).nonzero()[:, 0]
        if not len(left):
            break
        attempts = mixed(images[left], noise[left], turn[left] < level / NOISE_LEVELS)
        fooled = judge.fooled(attempts, which[left], slots[left], onward=True)
        result[left[fooled]], found[left[fooled]] = attempts[fooled], True
    return result, found


def corners(judge: Judge, images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Images of the same shape and dtype, every value at one of the bounds at random."""
    low, high = (torch.tensor(bound, dtype=images.dtype) for bound in judge.bounds)
    return torch.where(torch.rand(images.shape, generator=generator) < 0.5, low, high)


def mixed(images: torch.Tensor, others: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    """`images` with the pixels (Bool[b, pixels]) of `others`."""
    places = images.shape[2:] if images.ndim > 2 else images.shape[1:]
    chosen = pixels.view(len(images), *([1] if images.ndim > 2 else []), *places)
    return torch.where(chosen, others, images)


def take_back(
    judge: Judge,
    current: torch.Tensor,
    which: torch.Tensor,
    generator: torch.Generator,
    slots: torch.Tensor | None = None,
    last: torch.Tensor | None = None,
) -> None:
    """Sets pixels of each adversarial image back to the original's while it stays adversarial, in passes.

    The pixels `last` (Bool[b, pixels]) are tried after the others.
    """
    going = torch.arange(len(current))
    slots = going if slots is None else slots
    last = torch.zeros(len(current), judge.pixels, dtype=torch.bool) if last is None else last
    while len(going):
        kept = _one_pass(judge, current, which, going, slots, last[going], generator)
        going = going[kept]


def renew(
    judge: Judge, current: torch.Tensor, which: torch.Tensor, generator: torch.Generator, slots: torch.Tensor
) -> None:
    """Doubles the noise of each adversarial image and takes it back, the old first; kept where it is no more."""
    images = judge.images[which]
    old, noise = changed(current, images), corners(judge, images, generator)
    free = changed(noise, images) & ~old
    turn = torch.where(free, torch.rand(free.shape, generator=generator), 2.0).argsort(dim=1).argsort(dim=1)
    added = free & (turn < old.sum(dim=1, keepdim=True))
    attempts = mixed(current, noise, added)
    fooled = judge.fooled(attempts, which, slots).nonzero()[:, 0]
    attempts = attempts[fooled]
    take_back(judge, attempts, which[fooled], generator, slots[fooled], added[fooled])
    fewer = changed(attempts, images[fooled]).sum(dim=1) <= old[fooled].sum(dim=1)
    current[fooled[fewer]] = attempts[fewer]


def _one_pass(
    judge: Judge,
    current: torch.Tensor,
    which: torch.Tensor,
    going: torch.Tensor,
    slots: torch.Tensor,
    last: torch.Tensor,
    generator: torch.Generator,
) -> torch.Tensor:
    """Tries every changed pixel of the images `going` once, each in its own order; Bool: whether any was set back."""
    originals = judge.images[which[going]]
    differs = changed(current[going], originals)
    order = torch.where(differs, torch.rand(differs.shape, generator=generator) + last, 3.0).argsort(dim=1)
    counts, gained = differs.sum(dim=1), torch.zeros(len(going), dtype=torch.bool)
    for turn in range(int(counts.max())):
        live = (counts > turn).nonzero()[:, 0]
        pixel = torch.zeros(len(live), judge.pixels, dtype=torch.bool)
        pixel[torch.arange(len(live)), order[live, turn]] = True
        attempts = mixed(current[going[live]], originals[live], pixel)
        fooled = judge.fooled(attempts, which[going[live]], slots[going[live]])
        current[going[live[fooled]]] = attempts[fooled]
        gained[live[fooled]] = True
    return gained
