"""Subsampled votes: what a run with fewer samples would have shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.records import Header, Record, Records, is_sequential


def subsample(found: Records, n0: int, n: int, seed: int = 0) -> Records:
    """The same inputs with `n0` selection and `n` estimation votes each, chosen at random among those recorded.

    An input's votes are independent draws from one distribution, and so is a random subset of them: a certificate from
    it holds as one from a run with that many samples does. The choice depends on (seed, example, n0, n) alone.
    Sequential votes, which stopped depending on what they were, are refused.
    """
    run = found.header.run
    if is_sequential(found.header):
        raise InputError(
            f"{found.path} took its votes sequentially: a subset of them is no run with fewer; name another"
        )
    if any(line.votes.above is not None for line in found.lines):
        raise InputError(
            f"{found.path} counted its votes by pairs: how those of fewer copies compare is not known; name another"
        )
    if not (1 <= n0 <= run["n0"] and 1 <= n <= run["n"]):
        raise InputError(f"{found.path} has {run['n0']} + {run['n']} votes, of which {n0} + {n} cannot be chosen")
    lines = tuple(_subsample(line, n0, n, seed) for line in found.lines)
    return Records(found.path, Header(found.header.kind, {**run, "n0": n0, "n": n}, found.header.environment), lines)


def _subsample(line: Record, n0: int, n: int, seed: int) -> Record:
    """Drops label, interval and radius, which belong to the full votes."""
    assert line.selection is not None
    random = np.random.default_rng([seed, line.example, n0, n])
    selection, votes = _some(line.selection, n0, random), _some(line.votes, n, random)
    return replace(line, selection=selection, votes=votes, label=None, p_lower=None, p_upper=None, radius=None)


def _some(tally: Tally, votes: int, random: np.random.Generator) -> Tally:
    *known, invalid = random.multivariate_hypergeometric([*tally.votes, tally.invalid], votes).tolist()
    return Tally(tuple(known), invalid)
