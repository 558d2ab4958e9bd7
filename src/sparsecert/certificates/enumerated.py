"""The exact damage of perturbed units, by enumeration."""

from __future__ import annotations

from math import comb

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import MOST_TOTAL, Costs, PerturbedUnits
from sparsecert.counts import Bool, Int64
from sparsecert.schemes.all_subsets import subsets_table

MOST_ENTRIES = 1 << 25  # of the table "does the mask meet the set?", 4 bytes each


class EnumeratedUnits(PerturbedUnits):
    """Like `PerturbedUnits`, but exact as long as the sets of rho units can be enumerated.

    The damage of a set R of perturbed units is F(R), the cost of all masks that retain any of R, so the worst set of
    rho units does exactly max F(R) over |R| = rho.

    If there are too many sets to enumerate, F is bounded. It is a coverage function, hence submodular: for |R| = rho
    the sum of F(R without u) over its rho units is at least (rho - 1) F(R), since each mask that R meets is met by at
    least rho - 1 of the rho sets R without u: it misses one only if u is the single unit of R that it retains. Hence
    max F over rho units <= rho / (rho - 1) * max F over rho - 1 units, rounded down since F is an integer. The bound of
    `PerturbedUnits` holds too; the smaller of the two is taken.
    """

    def __init__(self, masks: Bool) -> None:
        super().__init__(masks)
        self._met: dict[int, npt.NDArray[np.float32]] = {}

    def radii(self, costs: Costs, budgets: Int64) -> Int64:
        """int64[...]: the largest number of perturbed units whose damage is provably within the budget, or -1.

        The size of the sets grows for as long as any budget is not exceeded.
        """
        limits, each = budgets.ravel(), costs.reshape(budgets.size, len(self.masks))
        if self.disjoint or not (each.sum(axis=1) <= MOST_TOTAL).all():
            return super().radii(costs, budgets)
        plain, reached, found = self.bounds(each), np.empty_like(limits), np.full_like(limits, -1)
        for rho in range(self.units + 1):
            left = np.flatnonzero(found == rho - 1)
            if not len(left):
                break
            reached[left] = self._damage(each[left], rho, reached[left], plain[left, rho])
            found[left] += reached[left] <= limits[left]
        return found.reshape(budgets.shape)

    def _damage(self, costs: Costs, rho: int, fewer: Int64, plain: Int64) -> Int64:
        """An upper bound on max F over rho units, given one over rho - 1 units and that of `PerturbedUnits`."""
        if rho < 2:
            return plain  # exact: one unit is charged for the masks that it is in
        if len(self.masks) * comb(self.units, rho) > MOST_ENTRIES:
            return np.minimum(plain, fewer * rho // (rho - 1))
        worst: Int64 = (costs.astype(np.float32) @ self._meets(rho)).max(axis=1).astype(np.int64)
        return worst

    def _meets(self, rho: int) -> npt.NDArray[np.float32]:
        """Float32[m, sets]: 1 where the mask retains any of the set of rho units."""
        if rho not in self._met:
            sets = subsets_table(self.units, rho).astype(np.float32)
            self._met[rho] = (self.masks.astype(np.float32) @ sets.T > 0).astype(np.float32)
        return self._met[rho]
