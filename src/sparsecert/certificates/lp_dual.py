"""Prices of masks that bound what altered units cost, proposed by a linear program."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SCALE = 1 << 20  # prices are whole numbers of 1 / SCALE


def proposed_prices(
    masks: npt.NDArray[np.bool_], costs: npt.NDArray[np.int64], rho: int, seconds: float
) -> list[int] | None:
    """For each mask a whole number from 0 to SCALE * cost; None where the solver found none in time.

    They are the dual values of the relaxed attack: to meet masks (each in part, at most as far as its units are
    altered) for the most cost, altering rho units in all. Nothing is promised of them: whoever uses them checks what
    they prove.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, hstack, identity, vstack

    count, units = masks.shape
    meets = hstack([identity(count, format="csr"), csr_matrix(-masks.astype(np.float64))], format="csr")
    altered = csr_matrix(np.concatenate((np.zeros(count), np.ones(units)))[None])
    solved = linprog(
        -np.pad(costs.astype(np.float64), (0, units)),
        A_ub=vstack([meets, altered], format="csr"),
        b_ub=np.concatenate((np.zeros(count), [float(rho)])),
        bounds=(0, 1),
        method="highs",
        options={"time_limit": seconds},
    )
    if solved.status != 0:
        return None
    values = np.clip(np.rint(-SCALE * solved.ineqlin.marginals[:count]), 0, SCALE * costs)
    return [int(value) for value in values]
