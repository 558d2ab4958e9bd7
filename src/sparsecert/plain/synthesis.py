"""Analysis by synthesis (ABS): an image belongs to the class whose decoder makes the image most like it.

Schott, Rauber, Bethge & Brendel, "Towards the First Adversarially Robust Neural Network Model on MNIST" (ICLR 2019).
"""

from __future__ import annotations

import torch

from sparsecert.devices import tf32_products
from sparsecert.errors import InputError
from sparsecert.plain.autoencoders import BETA, SIDE, Autoencoders
from sparsecert.plain.decoders import Decoders, is_gpu
from sparsecert.plain.descents import Descents, Steps, value
from sparsecert.plain.networks import THRESHOLD

BINARIZED_FACTORS = 1.0, 0.96, 1.001, 1.06, 0.98, 0.96, 1.03, 1.0, 1.0, 1.0
RIVALS = 3  # classes that a query about one label compares it with, at most
DECODED_AT_ONCE, SEARCHED_AT_ONCE = 64, 512  # candidates; images, whose distances to all candidates are held at once


class AnalysisBySynthesis:
    """Classifies an image by how well the decoder of each class reproduces it, without the encoders.

    The score of a class is minus the least l found, where a latent z of class c is worth

        l(z) = (|x - decoder_c(z)|^2 + beta / 2 |z|^2) / 784.

    The best of the candidates, latents drawn from the prior once, is where the steps of Adam start, each projected to
    |z| <= 5; the least l on the way counts, so that no step makes it worse. Binarized autoencoders take the image
    thresholded at 0.5, and l times a factor of the class. Scores have gradients: those of l at the latents found,
    where z, being optimal, contributes none.
    """

    def __init__(self, autoencoders: Autoencoders, device: str | torch.device = "cpu") -> None:
        self.device, self.steps, self.binarized = torch.device(device), autoencoders.steps, autoencoders.binarized
        classes = autoencoders.classes
        if self.binarized and classes != len(BINARIZED_FACTORS):
            raise InputError(f"binarized autoencoders must be of {len(BINARIZED_FACTORS)} classes, got {classes}")
        self.classes = torch.arange(classes, device=self.device)
        self.factors = torch.tensor(BINARIZED_FACTORS if self.binarized else (1.0,) * classes, device=self.device)
        self.decoders = Decoders(autoencoders, self.device)
        self.descend = Steps(self.decoders)
        self.candidates = autoencoders.candidates.detach().to(self.device)
        parts = (part[:, None].expand(-1, classes, -1) for part in torch.split(self.candidates, DECODED_AT_ONCE))
        with torch.no_grad(), tf32_products(self.device, allowed=False):
            images = torch.cat([self.decoders(part, self.classes) for part in parts])  # [candidates, classes, 784]
        prior = BETA / 2 * self.candidates.square().sum(dim=1, keepdim=True)
        self._worth, self._images = (images.square().sum(dim=2) + prior).flatten(), images.flatten(0, 1).T.contiguous()

    def __call__(
        self, images: torch.Tensor, against: torch.Tensor | None = None, first: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Scores [b, classes] of images [b, 1, 28, 28].

        `against`, one label per image: only whether that is the answer matters, and only the label's class and few
        rivals take steps (see `_compare`), on a GPU in TF32; the others count with their best candidate. `first`: the
        rival to compare it with first, where one is expected to win; the label where none is.
        """
        if images.shape[1:] != (1, SIDE, SIDE):
            raise InputError(f"images must be of shape (1, {SIDE}, {SIDE}), got {tuple(images.shape[1:])}")
        rows = images.to(self.device).flatten(1).float()
        rows = (rows > THRESHOLD).float() if self.binarized else rows
        with torch.no_grad(), tf32_products(self.device, allowed=False):
            descents = Descents(self.descend, rows.detach(), *self.search(rows.detach()), tf32=against is not None)
            if against is None:
                every = torch.arange(len(rows), device=self.device).repeat_interleave(len(self.classes))
                descents.advance(every, self.classes.repeat(len(rows)), 0, self.steps)
            else:
                against = against.to(self.device)
                self._compare(descents, against, against if first is None else first.to(self.device))
        if torch.is_grad_enabled() and rows.requires_grad:
            found = self.decoders(descents.best, self.classes)
            return -value(rows[:, None], found, descents.best) * self.factors
        return -descents.least * self.factors

    def search(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The least l of the candidates, float[b, classes], and their latents, float[b, classes, 8]."""
        least = rows.new_zeros(len(rows), len(self.classes))
        places = torch.zeros_like(least, dtype=torch.int64)
        for first in range(0, len(rows), SEARCHED_AT_ONCE):
            part = slice(first, first + SEARCHED_AT_ONCE)
            apart = torch.addmm(self._worth, rows[part], self._images, alpha=-2)  # less |row|^2, the same for all
            least[part], places[part] = apart.view(len(apart), -1, len(self.classes)).min(dim=1)
        return (least + rows.square().sum(dim=1, keepdim=True)) / rows.shape[1], self.candidates[places]

    def _compare(self, descents: Descents, against: torch.Tensor, first: torch.Tensor) -> None:
        """Takes the steps of the labels and of their rivals, `first` and then the nearest candidates', until one wins.

        l only falls with more candidates and steps. So where a rival beats the label, which has taken all of them, the
        whole inference does not answer the label either, unless TF32 made the difference; where the label beats its
        rivals, which have, the answer is an estimate. No lead counts before: on binarized images far from any digit,
        leads of any size turn late. But a label that leads without any steps need not take them. On a GPU all take them
        at once: few large batches cost less than many small ones.
        """
        order = (descents.least * self.factors).scatter(1, first[:, None], -torch.inf)
        order = order.scatter(1, against[:, None], torch.inf).argsort(dim=1)[:, : min(RIVALS, len(self.classes) - 1)]
        left = torch.arange(len(against), device=self.device)
        if is_gpu(self.device):
            kinds = torch.cat((against[:, None], order), dim=1)
            descents.advance(left.repeat_interleave(kinds.shape[1]), kinds.flatten(), 0, self.steps)
            return

        def leads(images: torch.Tensor) -> torch.Tensor:
            return (descents.least[images] * self.factors).argmin(dim=1) == against[images]

        ready = torch.zeros_like(against, dtype=torch.bool)  # whether the label has taken its steps
        for rivals in order.T:
            descents.advance(left, rivals[left], 0, self.steps)
            behind = left[~leads(left) & ~ready[left]]
            descents.advance(behind, against[behind], 0, self.steps)
            ready[behind] = True
            left = left[leads(left)]
