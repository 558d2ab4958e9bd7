"""Fewer of the recorded votes: what a run with fewer samples would have shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.records import Header, Record, Records, is_sequential


def subsample(found: Records, n0: int, n: int, seed: int = 0) -> Records:
    """The same inputs with `n0` selection and `n` estimation votes each, chosen at random among those recorded.

    An input's votes are independent draws of one distribution, so that some of them, chosen without a look at what
    they are, are so too: a certificate from them holds as one from a run with so few samples. What was chosen depends
    on (seed, example, n0, n) alone. Votes that ended when they looked good are no such draws, and are refused.
    """
    run = found.header.run
    if is_sequential(found.header):
        raise InputError(f"{found.path} took its votes sequentially: some of them are no run with fewer; name another")
    if not (1 <= n0 <= run["n0"] and 1 <= n <= run["n"]):
        raise InputError(f"{found.path} has {run['n0']} + {run['n']} votes, of which {n0} + {n} cannot be chosen")
    lines = tuple(_subsample(line, n0, n, seed) for line in found.lines)
    return Records(found.path, Header(found.header.kind, {**run, "n0": n0, "n": n}, found.header.environment), lines)


def _subsample(line: Record, n0: int, n: int, seed: int) -> Record:
    """Its label, interval and radius are left out: they are drawn from the votes that are no longer there."""
    assert line.selection is not None
    random = np.random.default_rng([seed, line.example, n0, n])
    selection, votes = _some(line.selection, n0, random), _some(line.votes, n, random)
    return replace(line, selection=selection, votes=votes, label=None, p_lower=None, p_upper=None, radius=None)


def _some(tally: Tally, votes: int, random: np.random.Generator) -> Tally:
    *known, invalid = random.multivariate_hypergeometric([*tally.votes, tally.invalid], votes).tolist()
    return Tally(tuple(known), invalid)
