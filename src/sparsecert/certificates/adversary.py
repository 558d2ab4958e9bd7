"""What an adversary who perturbs some units can do to the votes of a fixed, public set of masks."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.lp_dual import SCALE, proposed_prices
from sparsecert.counts import Bool, Float64, Int64
from sparsecert.errors import InputError

Costs = npt.NDArray[np.integer[Any]]

MOST_COST = 1 << 20
MOST_TOTAL = 1 << 24  # up to which fp32 holds every integer


class Adversary(ABC):
    """The damage that an attack can do, by its size, such as the number of perturbed units.

    A mask that retains no perturbed unit gives the model the same copy as before, so its vote is unchanged. The
    certificate says what each other mask may do, as a cost per mask; the damage of an attack is the total cost of all
    masks that retain any perturbed unit.
    """

    @abstractmethod
    def radii(self, costs: Costs, budgets: Int64) -> Int64:
        """int64[...]: the largest attack whose damage is provably within the budget; -1 if the budget is below 0.

        costs: int[..., m], at least 0; budgets: int64[...].
        """

    def least_radii(self, costs: Costs, budgets: Int64) -> Int64:
        """int64[b]: of each input the smallest radius. costs: int[rivals, b, m]; budgets: int64[rivals, b].

        One rival at a time: all together may not fit into memory.
        """
        smallest: Int64 = np.stack([self.radii(*each) for each in zip(costs, budgets, strict=True)]).min(axis=0)
        return smallest


class PerturbedUnits(Adversary):
    """An adversary who perturbs units anywhere. masks: Bool[m, units], True where a unit is retained.

    If masks overlap, a linear program may search for a better bound for `seconds`, for each set of costs.
    """

    def __init__(self, masks: Bool, seconds: float = 0.0) -> None:
        if masks.ndim != 2 or masks.dtype != np.bool_ or not masks.size:
            raise InputError(f"masks must be booleans (masks, units), got {masks.dtype} of {masks.shape}")
        self.masks, self.seconds = masks, seconds

    @property
    def units(self) -> int:
        return int(self.masks.shape[1])

    @cached_property
    def disjoint(self) -> bool:
        """Whether no unit is in two masks."""
        return bool((self.masks.sum(axis=0) <= 1).all())

    @cached_property
    def _most_masks(self) -> int:
        """The most masks that a unit is in."""
        return int(self.masks.sum(axis=0).max())

    @cached_property
    def _within(self) -> Float64:
        return self.masks.astype(np.float64)

    def bounds(self, costs: Costs) -> Int64:
        """int64[..., units + 1]: for each number of perturbed units, an upper bound on their damage.

        costs: int64[..., m], from 0 to 2**20. If the masks are disjoint, rho units meet at most rho masks: the bound is
        the cost of the rho most expensive, which the worst units attain. Otherwise every unit is charged for all masks
        that it is in, and the bound is the charge of the rho most expensive units: a mask that several of them meet is
        counted repeatedly, so this may be too much but never too little. It never exceeds the cost of all masks.
        """
        paid = self._paid(costs)
        paid = np.concatenate((np.zeros_like(paid[..., :1]), paid), axis=-1)
        places = np.minimum(np.arange(self.units + 1), paid.shape[-1] - 1)
        capped: Int64 = np.minimum(paid[..., places], costs.sum(axis=-1, keepdims=True))
        return capped

    def radii(self, costs: Costs, budgets: Int64) -> Int64:
        """int64[...]: the largest number of perturbed units whose damage is provably within the budget, or -1.

        While time is left, linear programs then try to prove one more unit at a time.
        """
        paid = self._paid(costs)
        affordable = np.count_nonzero(paid <= budgets[..., None], axis=-1)
        everything = (affordable == paid.shape[-1]) | (costs.sum(axis=-1) <= budgets)
        found: Int64 = np.where(everything, self.units, np.minimum(affordable, self.units))
        found[budgets < 0] = -1
        if self.disjoint or not self.seconds:
            return found
        flat, limits, each = found.ravel(), budgets.ravel().tolist(), costs.reshape(found.size, len(self.masks))
        for place in np.flatnonzero(flat).tolist():  # the bound for one unit is exact: 0 cannot be improved
            flat[place] = self._tightened(each[place], limits[place], int(flat[place]))
        return flat.reshape(found.shape)

    def least_radii(self, costs: Costs, budgets: Int64) -> Int64:
        """As for every adversary, but most rivals need not be looked at.

        No unit is charged more than the largest cost times the most masks that a unit is in, so that a budget pays for
        at least budget / charge units. The rival with the smallest budget comes first; then those alone that could have
        a smaller radius by this.
        """
        charge = max(1, int(costs.max(initial=0)) * self._most_masks)
        first, inputs = budgets.argmin(axis=0), np.arange(budgets.shape[1])
        found = self.radii(costs[first, inputs], budgets[first, inputs])
        unclear = budgets // charge < found
        unclear[first, inputs] = False
        rivals, inputs = unclear.nonzero()
        np.minimum.at(found, inputs, self.radii(costs[rivals, inputs], budgets[rivals, inputs]))
        return found

    def _paid(self, costs: Costs) -> Int64:
        """int64[..., units]: the charges of the most expensive units, added up; of disjoint masks, those of the masks.

        The charge of a unit is the cost of all masks that it is in.
        """
        most = int(costs.max(initial=0))
        if not (costs.min(initial=0) >= 0 and most <= MOST_COST):
            raise ValueError(f"costs must be from 0 to {MOST_COST}")
        charges = costs if self.disjoint else costs @ self._within  # exact: integers below 2**53
        small = most * self._most_masks < 1 << 15  # 16 bits are sorted several times as fast
        charges = np.sort(charges.astype(np.int16 if small else np.int64), axis=-1)[..., ::-1]
        paid: Int64 = np.cumsum(charges, axis=-1, dtype=np.int64)
        return paid

    def priced_bound(self, costs: Costs, prices: Sequence[int], rho: int) -> int:
        """Bounds SCALE times the damage of rho perturbed units from above, by prices from 0 to SCALE * cost per mask.

        Split the cost of each mask into its price and a remainder. The load of a unit is the total price of all masks
        that it is in. The damage is at most the remainders of all masks plus the loads of the rho most loaded units.
        (The prices solve the dual of the LP relaxation of the choice of units; this is weak duality, which holds for
        any integers, so no rounding in a solver can make it wrong.)
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

    def _tightened(self, costs: Costs, budget: int, radius: int) -> int:
        """The radius, or a larger one that LP prices prove."""
        until = time.monotonic() + self.seconds
        while radius < self.units and (left := until - time.monotonic()) > 0:
            if not self._proves(costs, budget, radius + 1, left):
                break
            radius += 1
        return radius

    def _proves(self, costs: Costs, budget: int, rho: int, seconds: float) -> bool:
        """Whether prices that a linear program finds within `seconds` prove that rho units stay within the budget."""
        prices = proposed_prices(self.masks, costs.astype(np.int64), rho, seconds)
        # damage is an integer, so less than budget + 1 is within the budget
        return prices is not None and self.priced_bound(costs, prices, rho) < SCALE * (budget + 1)


class ClaimedUnits(PerturbedUnits):
    """Like `PerturbedUnits`, but linear programs, of `seconds` each, try to prove one radius only, `claimed`.

    A radius that they once found is thus proved again in one step per set of costs.
    """

    def __init__(self, masks: Bool, claimed: int, seconds: float) -> None:
        super().__init__(masks)
        self.claimed, self.most_seconds = claimed, seconds

    def radii(self, costs: Costs, budgets: Int64) -> Int64:
        """As for `PerturbedUnits`, or `claimed` if that is larger and proved."""
        found = super().radii(costs, budgets)
        flat, limits, each = found.ravel(), budgets.ravel().tolist(), costs.reshape(found.size, len(self.masks))
        for place in np.flatnonzero(flat < self.claimed).tolist():
            if self._proves(each[place], limits[place], self.claimed, self.most_seconds):
                flat[place] = self.claimed
        return flat.reshape(found.shape)
