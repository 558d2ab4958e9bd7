"""LP duality: prices of masks that bound the damage of perturbed units."""

from __future__ import annotations

import numpy as np

from sparsecert.counts import Bool, Int64

SCALE = 1 << 20  # prices are integers in units of 1 / SCALE


def proposed_prices(masks: Bool, costs: Int64, rho: int, seconds: float) -> list[int] | None:
    """An integer from 0 to SCALE * cost for each mask; None if the solver found none in time.

    They are the dual values of the LP relaxation of the attack: meet masks of the largest total cost (each
    fractionally, at most as much as its units are perturbed) by perturbing rho units in total. They come without a
    guarantee: the caller checks what they prove.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, hstack, identity, vstack

    count, units = masks.shape
    meets = hstack([identity(count, format="csr"), csr_matrix(-masks.astype(np.float64))], format="csr")
    perturbed = csr_matrix(np.concatenate((np.zeros(count), np.ones(units)))[None])
    solved = linprog(
        -np.pad(costs.astype(np.float64), (0, units)),
        A_ub=vstack([meets, perturbed], format="csr"),
        b_ub=np.concatenate((np.zeros(count), [float(rho)])),
        bounds=(0, 1),
        method="highs",
        options={"time_limit": seconds},
    )
    if solved.status != 0:
        return None
    values = np.clip(np.rint(-SCALE * solved.ineqlin.marginals[:count]), 0, SCALE * costs)
    return [int(value) for value in values]
