"""An adversary who perturbs a square patch at any position."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import MOST_TOTAL, Adversary, Costs
from sparsecert.counts import Bool, Int64
from sparsecert.errors import InputError


class PerturbedPatch(Adversary):
    """The `Adversary` who perturbs one square patch of a height x width image. masks: Bool[masks, height * width].

    All positions are enumerated, so the damage is exactly that of the worst one.
    """

    def __init__(self, masks: Bool, height: int, width: int) -> None:
        if masks.ndim != 2 or masks.dtype != np.bool_ or masks.shape[1] != height * width:
            raise InputError(
                f"masks must be booleans (masks, {height} x {width} pixels), got {masks.dtype} of {masks.shape}"
            )
        self.masks, self.height, self.width = masks, height, width
        retained = masks.reshape(len(masks), height, width).cumsum(axis=1).cumsum(axis=2)
        self._below = np.pad(retained, ((0, 0), (1, 0), (1, 0)))  # the pixels before (y, x) that each mask retains
        self._weights: dict[int, npt.NDArray[np.float32]] = {}  # by side: the different rows of `met`, transposed

    @property
    def most(self) -> int:
        """The side of the largest patch that fits."""
        return min(self.height, self.width)

    def met(self, side: int) -> Bool:
        """Bool[positions, masks]: the masks that retain any pixel of the patch at each position."""
        below = self._below
        inside = below[:, side:, side:] - below[:, :-side, side:] - below[:, side:, :-side] + below[:, :-side, :-side]
        return np.ascontiguousarray((inside > 0).reshape(len(below), prod(inside.shape[1:])).T)

    def damage(self, costs: Costs, side: int) -> Int64:
        """int64[...]: the damage of the worst patch of that side. costs: int64[..., m], at most 2**24 in total."""
        if (costs.sum(axis=-1) > MOST_TOTAL).any():
            raise ValueError(f"costs must add up to at most {MOST_TOTAL}")
        if side not in self._weights:
            self._weights[side] = np.unique(self.met(side), axis=0).T.astype(np.float32)
        worst: Int64 = (costs.astype(np.float32) @ self._weights[side]).max(axis=-1).astype(np.int64)
        return worst

    def radii(self, costs: Costs, budgets: Int64) -> Int64:
        """int64[...]: the side of the largest patch whose damage is within the budget; -1 if the budget is below 0.

        A patch contains smaller ones, so the damage grows with the side.
        """
        found = np.where(budgets < 0, -1, 0)
        for side in range(1, self.most + 1):
            left = found == side - 1
            if not left.any():
                break
            found[left] += self.damage(costs[left], side) <= budgets[left]
        return found
