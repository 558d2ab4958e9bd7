"""Subsampled votes, against the hypergeometric distribution."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import comb

import pytest

from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.records import Records
from sparsecert.records.subsample import subsample
from sparsecert.reports import summarise
from tests.reports.made import certified

INPUTS = 4_000


@pytest.fixture(scope="module")
def found() -> Records:
    """Many inputs with the same votes."""
    return certified([Tally((6, 3, 0), 1)] * INPUTS, selection=Tally((3, 1, 0), 1), n0=5, n=10)


def test_subsampled_votes_are_hypergeometric(found: Records) -> None:
    """Of 6, 3, 0 and 1 invalid votes four: each outcome is as frequent as its number of ways says."""
    fewer = subsample(found, 2, 4)
    seen = Counter((*line.votes.votes, line.votes.invalid) for line in fewer.lines)
    likely = {
        (a, b, 0, 4 - a - b): comb(6, a) * comb(3, b) * comb(1, 4 - a - b) / comb(10, 4)
        for a in range(5)
        for b in range(4)
        if 0 <= 4 - a - b <= 1
    }
    assert sum(likely.values()) == pytest.approx(1)
    assert set(seen) == set(likely)
    for outcome, share in likely.items():
        assert seen[outcome] / INPUTS == pytest.approx(share, abs=5 * (share / INPUTS) ** 0.5)


def test_the_rest_of_the_run_stays(found: Records) -> None:
    fewer = subsample(found, 2, 4)
    assert (fewer.header.run["n0"], fewer.header.run["n"]) == (2, 4)
    assert {name for name in fewer.header.run if fewer.header.run[name] != found.header.run[name]} == {"n0", "n"}
    for line in fewer.lines:
        assert line.selection is not None
        assert (line.selection.total, line.votes.total) == (2, 4)
        assert (line.label, line.p_lower, line.p_upper, line.radius) == (None,) * 4
    assert subsample(found, 2, 4).lines == fewer.lines
    assert subsample(found, 2, 4, seed=1).lines != fewer.lines
    assert summarise(fewer).mean_samples == 6


def test_all_votes_are_the_run_itself(found: Records) -> None:
    whole = subsample(found, 5, 10)
    assert [(line.selection, line.votes) for line in whole.lines] == [
        (line.selection, line.votes) for line in found.lines
    ]
    assert summarise(whole).certified_accuracy == summarise(found).certified_accuracy


@pytest.mark.parametrize(("n0", "n"), [(6, 10), (5, 11), (0, 10), (5, 0)])
def test_more_than_there_are_cannot_be_chosen(found: Records, n0: int, n: int) -> None:
    with pytest.raises(InputError, match=rf"has 5 \+ 10 votes, of which {n0} \+ {n} cannot be chosen"):
        subsample(found, n0, n)


def test_sequential_votes_are_refused(found: Records) -> None:
    run = {**found.header.run, "sampling": {"kind": "sequential"}}
    stopped = replace(found, header=replace(found.header, run=run))
    with pytest.raises(InputError, match="took its votes sequentially"):
        subsample(stopped, 2, 4)
