"""The Pointwise attack: salt-and-pepper noise that fools the defender, reverted pixel by pixel.

Schott, Rauber, Bethge & Brendel, "Towards the First Adversarially Robust Neural Network Model on MNIST" (ICLR 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from sparsecert.attacks.attack import RESTARTS, Attack
from sparsecert.attacks.judge import NOT_FOUND, Judge, changed_pixels
from sparsecert.registry import ATTACKS, Option

LEVELS, FEW_LEVELS = 100, 20  # noise levels tried
REPETITIONS, SLACK = 10, 1.2
LEVEL, REVERTING = 0.08, 2.0  # the time of a noise level and of reverting the start, in rounds, about
NEXT_PASSES = 0.7  # the time of all passes to come, in passes like this one, about
ROUNDS = Option(
    "--rounds", int, "Times to add noise to what was found and revert it; 0: as published.", least=0, default=20
)


@ATTACKS.register("pointwise")
@dataclass(frozen=True)
class Pointwise(Attack):
    """Starts from the least salt-and-pepper noise found to fool the defender, then reverts pixels one at a time, in
    random order, wherever the image stays adversarial, in passes until one changes nothing. The best of `restarts` is
    kept.

    The published attack ends there (`rounds=0`). This one then, `rounds` times, adds as much noise again elsewhere and
    reverts the old noise before the new; it continues from the result unless that has more pixels. It searches for a
    start with fewer noise levels in exchange. All images and restarts are batched: one query of each is one batch.
    """

    options: ClassVar[tuple[Option, ...]] = (RESTARTS, ROUNDS)

    restarts: int = 10
    rounds: int = 20

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        which = which.repeat(self.restarts)
        levels = FEW_LEVELS if self.rounds else LEVELS
        with judge.part(LEVEL * levels, REVERTING + self.rounds):
            starts, found = salt_and_pepper(judge, which, generator, levels)
        current, which, slots = starts[found], which[found], found.nonzero()[:, 0]
        with judge.part(REVERTING, self.rounds):
            revert_pixels(judge, current, which, generator, slots)
        add_and_revert(judge, current, which, generator, slots, self.rounds)


def salt_and_pepper(
    judge: Judge, which: torch.Tensor, generator: torch.Generator, levels: int = FEW_LEVELS
) -> tuple[torch.Tensor, torch.Tensor]:
    """For each of `which`, its image with the least noise found to fool the defender, and whether any did.

    The share of pixels set to one of the bounds, each channel by itself, rises in `levels` steps, with fresh noise at
    each, until the defender is fooled; then again from 0.5 to 1.2 times that share, as a larger share may change fewer
    pixels. Foolbox starts likewise, from the least of a thousand draws.
    """
    images, slots = judge.images[which], torch.arange(len(which))
    result, fewest = images.clone(), torch.full((len(which),), judge.pixels + 1)
    least, most = torch.zeros(len(which)), torch.ones(len(which))  # the range of shares
    for repetition in range(REPETITIONS):
        left = slots
        for level in range(1, levels + 1):
            judge.did((repetition + (level - 1) / levels) / REPETITIONS)
            share = least[left] + (most - least)[left] * level / levels
            chosen = torch.rand(len(left), judge.pixels, generator=generator) < share[:, None]
            attempts = replace_pixels(images[left], random_extremes(judge, images[left], generator), chosen)
            count = changed_pixels(attempts, images[left]).sum(dim=1)
            nearer = ((count > 0) & (count < fewest[left])).nonzero()[:, 0]  # little noise may change nothing
            if not len(nearer):
                continue
            asked = left[nearer]
            fooled = nearer[judge.fooled(attempts[nearer], which[asked], asked, accept_all=True)]
            better = left[fooled]
            result[better], fewest[better] = attempts[fooled], count[fooled]
            least[better], most[better] = 0.5 * share[fooled], (SLACK * share[fooled]).clamp(max=1.0)
            left = left[~torch.isin(left, better)]
    return result, fewest <= judge.pixels


def random_extremes(judge: Judge, images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Images of the same shape and dtype, every value at a random one of the two bounds."""
    low, high = (torch.tensor(bound, dtype=images.dtype) for bound in judge.bounds)
    return torch.where(torch.rand(images.shape, generator=generator) < 0.5, low, high)


def replace_pixels(images: torch.Tensor, others: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    """`images` with the pixels (Bool[b, pixels]) of `others`."""
    return torch.where(over_channels(pixels, images), others, images)


def over_channels(values: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """[b, pixels] in the shape of the images with one channel."""
    return values.view(len(images), *([1] if images.ndim > 2 else []), *images.shape[min(2, images.ndim - 1) :])


def by_pixel(images: torch.Tensor) -> torch.Tensor:
    """[b, channels, pixels]; features are pixels of one channel."""
    return images.unsqueeze(1) if images.ndim == 2 else images.flatten(2)


def revert_pixels(
    judge: Judge,
    current: torch.Tensor,
    which: torch.Tensor,
    generator: torch.Generator,
    slots: torch.Tensor | None = None,
    last: torch.Tensor | None = None,
) -> None:
    """Reverts pixels of each adversarial image to the original while it stays adversarial, in passes.

    The pixels `last` (Bool[b, pixels]) are tried after the others.
    """
    going = torch.arange(len(current))
    slots = going if slots is None else slots
    last = torch.zeros(len(current), judge.pixels, dtype=torch.bool) if last is None else last
    while len(going):
        with judge.part(1, NEXT_PASSES):
            kept = _one_pass(judge, current, which, going, slots, last[going], generator)
        going = going[kept]


def revert_found(judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
    """Reverts pixels of the nearest adversarial images found so far."""
    found = which[judge.distances[which] != NOT_FOUND]
    revert_pixels(judge, judge.best[found], found, generator)


def add_and_revert(
    judge: Judge,
    current: torch.Tensor,
    which: torch.Tensor,
    generator: torch.Generator,
    slots: torch.Tensor,
    rounds: int,
) -> None:
    """Doubles the noise of each adversarial image and reverts it, the old first; as many rounds of that."""
    for left in reversed(range(rounds if len(which) else 0)):
        with judge.part(1, left):
            _one_round(judge, current, which, generator, slots)


def _one_round(
    judge: Judge, current: torch.Tensor, which: torch.Tensor, generator: torch.Generator, slots: torch.Tensor
) -> None:
    """The result of a round is kept unless it has more pixels."""
    images = judge.images[which]
    old, noise = changed_pixels(current, images), random_extremes(judge, images, generator)
    free = changed_pixels(noise, images) & ~old
    turn = torch.where(free, torch.rand(free.shape, generator=generator), 2.0).argsort(dim=1).argsort(dim=1)
    added = free & (turn < old.sum(dim=1, keepdim=True))
    attempts = replace_pixels(current, noise, added)
    fooled = judge.fooled(attempts, which, slots).nonzero()[:, 0]
    attempts = attempts[fooled]
    revert_pixels(judge, attempts, which[fooled], generator, slots[fooled], added[fooled])
    fewer = changed_pixels(attempts, images[fooled]).sum(dim=1) <= old[fooled].sum(dim=1)
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
    """Tries to revert each changed pixel of the images `going` once, in random order; Bool: whether any was."""
    originals = judge.images[which[going]]
    differs = changed_pixels(current[going], originals)
    order = torch.where(differs, torch.rand(differs.shape, generator=generator) + last, 3.0).argsort(dim=1)
    counts, gained = differs.sum(dim=1), torch.zeros(len(going), dtype=torch.bool)
    for turn in judge.steps(int(counts.max())):
        live = (counts > turn).nonzero()[:, 0]
        pixel = torch.zeros(len(live), judge.pixels, dtype=torch.bool)
        pixel[torch.arange(len(live)), order[live, turn]] = True
        attempts = replace_pixels(current[going[live]], originals[live], pixel)
        fooled = judge.fooled(attempts, which[going[live]], slots[going[live]])
        current[going[live[fooled]]] = attempts[fooled]
        gained[live[fooled]] = True
    return gained
