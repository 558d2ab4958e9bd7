"""What altered units cost when every choice of them is looked at."""

from __future__ import annotations

from math import comb

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import MOST_TOTAL, Bool, PerturbedUnits
from sparsecert.counts import Int64
from sparsecert.schemes.all_subsets import subsets_table

MOST_ENTRIES = 1 << 25  # of the table "which mask retains any unit of which set", 4 bytes each


class EnumeratedUnits(PerturbedUnits):
    """As `PerturbedUnits`, but exact wherever the sets of so many units can be listed: no smaller bound would be true.

    The damage of a set R of altered units is F(R), the cost of all masks that retain any of R. What another vote of
    these masks could do is left to the costs, so the worst set of rho units does exactly max F(R) over |R| = rho.

    Where such sets are too many to list, F is bounded. It is a coverage function, so submodular, so that for |R| = rho
    the sum of F(R without u) over its rho units is at least (rho - 1) F(R): each mask that R meets is met by at least
    rho - 1 of the rho sets R without u, as only one unit of R can be the last that the mask retains. Hence
    max F over rho units <= rho / (rho - 1) * max F over rho - 1 units, and it is a whole number, so rounded down. The
    bound of `PerturbedUnits` holds too; the smaller of the two is taken.
    """

    def __init__(self, masks: Bool) -> None:
        super().__init__(masks)
        self._met: dict[int, npt.NDArray[np.float32]] = {}

    def radii(self, costs: Int64, budgets: Int64) -> Int64:
        """int64[...]: the largest number of altered units whose damage is surely within the budget; -1 where it is < 0.

        Larger and larger sets are looked at, for those alone that smaller ones leave within their budget.
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

    def _damage(self, costs: Int64, rho: int, fewer: Int64, plain: Int64) -> Int64:
        """At least max F over rho units, given at least that over rho - 1, and the bound of `PerturbedUnits`."""
        if rho < 2:
            return plain  # exact: a single unit is charged for the masks that it is in
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
