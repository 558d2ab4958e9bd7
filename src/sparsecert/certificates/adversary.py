"""How much an attacker who alters some units can do to the votes of a fixed, public set of masks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.lp_dual import SCALE, proposed_prices
from sparsecert.counts import Int64
from sparsecert.errors import InputError

Bool = npt.NDArray[np.bool_]

MOST_COST = 1 << 20
MOST_TOTAL = 1 << 24  # up to which a 32-bit float holds every whole number


class Adversary(Protocol):
    """What an attack of a certain kind costs at most, by its size: a number of altered units, say.

    A mask that retains nothing of what was altered shows the model the same copy as before, so its vote is the same.
    What each of the others may do is for the certificate to say, as a cost of each mask; an attack does the damage that
    all masks which retain any of what it altered cost together.
    """

    def radii(self, costs: Int64, budgets: Int64) -> Int64:
        """int64[...]: the largest size of attack whose damage is surely within the budget; -1 where that is below 0.

        costs: int64[..., m], at least 0; budgets: int64[...].
        """


class PerturbedUnits:
    """What altered units cost at most, wherever they are. masks: Bool[m, units], True where a unit is retained.

    `seconds`, where masks overlap, is how long a linear program may look for a better bound, for each set of costs.
    """

    def __init__(self, masks: Bool, seconds: float = 0.0) -> None:
        if masks.ndim != 2 or masks.dtype != np.bool_ or not masks.size:
            raise InputError(f"masks must be booleans (masks, units), got {masks.dtype} of {masks.shape}")
        self.masks, self.seconds = masks, seconds

    @property
    def units(self) -> int:
        """How many an input has."""
        return int(self.masks.shape[1])

    @cached_property
    def disjoint(self) -> bool:
        """Whether no unit is in two masks."""
        return bool((self.masks.sum(axis=0) <= 1).all())

    @cached_property
    def _within(self) -> npt.NDArray[np.float64]:
        return self.masks.astype(np.float64)

    def bounds(self, costs: Int64) -> Int64:
        """int64[..., units + 1]: for each number of altered units, at least the damage that so many can do.

        costs: int64[..., m], from 0 to 2**20. Where no two masks overlap, rho units meet at most rho masks: the
        rho most expensive are paid, which is exactly what the worst units do. Otherwise every unit is charged for all
        masks that it is in, and the rho most expensive units are paid: a mask that two of them meet is paid twice, so
        this may be too much and is never too little. No more than all masks is ever paid.
        """
        if costs.size and not (costs.min() >= 0 and costs.max() <= MOST_COST):
            raise ValueError(f"costs must be from 0 to {MOST_COST}")
        charges = costs if self.disjoint else (costs @ self._within).astype(np.int64)  # exact: integers below 2**53
        paid = np.cumsum(-np.sort(-charges, axis=-1), axis=-1)
        paid = np.concatenate((np.zeros_like(paid[..., :1]), paid), axis=-1)
        places = np.minimum(np.arange(self.units + 1), paid.shape[-1] - 1)
        capped: Int64 = np.minimum(paid[..., places], costs.sum(axis=-1, keepdims=True))
        return capped

    def radii(self, costs: Int64, budgets: Int64) -> Int64:
        """int64[...]: the largest number of altered units whose damage is surely within the budget; -1 where it is < 0.

        One linear program after the other then tries to prove one more, where there is time for it.
        """
        found: Int64 = (self.bounds(costs) <= budgets[..., None]).sum(axis=-1) - 1
        if self.disjoint or not self.seconds:
            return found
        flat, limits, each = found.ravel(), budgets.ravel().tolist(), costs.reshape(found.size, len(self.masks))
        for place in np.flatnonzero(flat).tolist():  # what one unit does is exact: from 0 there is nothing to gain
            flat[place] = self._tightened(each[place], limits[place], int(flat[place]))
        return flat.reshape(found.shape)

    def priced_bound(self, costs: Int64, prices: Sequence[int], rho: int) -> int:
        """At least SCALE times the damage of rho altered units, by prices of the masks from 0 to SCALE * cost each.

        A mask that the altered units meet costs what is not in its price, and its price. The price is part of the load
        of an altered unit, the sum of the prices of all masks that the unit is in. So the damage is at most what is not
        in the prices, of all masks, and the loads of the rho most loaded units. (The prices are a solution of the dual
        of the linear program that relaxes the choice of units; this is its weak duality, for whatever integers are
        proposed, so that no rounding of a solver can make it wrong.)
        """
        whole = [SCALE * cost for cost in costs.tolist()]
        if any(not 0 <= price <= cost for price, cost in zip(prices, whole, strict=True)):
            raise ValueError("a price is not from 0 to the cost of its mask")
        loads = [
            sum(price for price, retains in zip(prices, column, strict=True) if retains) for column in self._columns
        ]
        return int(sum(whole) - sum(prices) + sum(sorted(loads, reverse=True)[:rho]))

    @cached_property
    def _columns(self) -> list[list[bool]]:
        columns: list[list[bool]] = self.masks.T.tolist()
        return columns

    def _tightened(self, costs: Int64, budget: int, radius: int) -> int:
        """The radius, or a larger one that prices prove."""
        until = time.monotonic() + self.seconds
        while radius < self.units and (left := until - time.monotonic()) > 0:
            if not self._proves(costs, budget, radius + 1, left):
                break
            radius += 1
        return radius

    def _proves(self, costs: Int64, budget: int, rho: int, seconds: float) -> bool:
        """Whether prices that a linear program finds in so many seconds prove that rho units are within the budget."""
        prices = proposed_prices(self.masks, costs, rho, seconds)
        # damage is a whole number, so that less than budget + 1 is within the budget
        return prices is not None and self.priced_bound(costs, prices, rho) < SCALE * (budget + 1)


class ClaimedUnits(PerturbedUnits):
    """As `PerturbedUnits`; but linear programs, of `seconds` each, look at one number of units alone, `claimed`.

    So a radius that they once found is proved again in as many steps as there are costs, not one for each smaller one.
    """

    def __init__(self, masks: Bool, claimed: int, seconds: float) -> None:
        super().__init__(masks)
        self.claimed, self.most_seconds = claimed, seconds

    def radii(self, costs: Int64, budgets: Int64) -> Int64:
        """As that of `PerturbedUnits`; `claimed` where that is more and proved."""
        found = super().radii(costs, budgets)
        flat, limits, each = found.ravel(), budgets.ravel().tolist(), costs.reshape(found.size, len(self.masks))
        for place in np.flatnonzero(flat < self.claimed).tolist():
            if self._proves(each[place], limits[place], self.claimed, self.most_seconds):
                flat[place] = self.claimed
        return flat.reshape(found.shape)
