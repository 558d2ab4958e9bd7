"""Inputs of different lengths: those with as many units are certified together, by the scheme for that many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sparsecert.counts import Counts, Int64
from sparsecert.procedures.pipelining import Steps
from sparsecert.results import Certifications, Predictions, concatenate, stack_ranks
from sparsecert.schemes import Scheme

if TYPE_CHECKING:
    from sparsecert.votes.copies import Copies

T = TypeVar("T", Certifications, Predictions)


def by_units(verb: Callable[[Copies, float | None], Steps[T]], copies: Copies, alpha: float | None) -> Steps[T]:
    """What `verb`, a procedure's `certify` or `predict`, says of each input, in their order.

    Where the scheme is open, each input has the masks, delta and theorem of its own number of units. So its votes and
    its certificate are the same whatever else is in the batch.
    """
    return _by_units(verb, copies, alpha) if copies.voter.scheme.is_open else verb(copies, alpha)


def _by_units(verb: Callable[[Copies, float | None], Steps[T]], copies: Copies, alpha: float | None) -> Steps[T]:
    voter = copies.voter
    units = np.array(voter.encoding.count_units(copies.inputs), dtype=np.int64)
    rows, parts = [], []
    for count in np.unique(units).tolist():
        rows.append(np.flatnonzero(units == count))
        some = copies.of(rows[-1])
        cut = voter.encoding.cut(some.inputs, count)
        parts.append((yield from verb(replace(some, inputs=cut, voter=voter.for_units(count)), alpha)))
    order: Int64 = np.argsort(np.concatenate(rows), kind="stable")
    return _joined(parts, order, units, voter.scheme)


def _joined(parts: list[T], order: Int64, units: Int64, scheme: Scheme) -> T:
    """One result of all parts, whose inputs come in this order; `scheme` is the open one."""
    if isinstance(parts[0], Predictions):
        return _joined_predictions(parts, order, units)
    found = concatenate(parts).take(order)
    origin = found.origin
    if origin is not None:
        origin = replace(origin, scheme=scheme, examples=tuple(np.array(origin.examples)[order].tolist()))
    return replace(found, scheme=None if found.scheme is None else scheme, origin=origin, units=units)


def _joined_predictions(parts: list[Predictions], order: Int64, units: Int64) -> Predictions:
    votes, ranks = Counts.joined([part.votes for part in parts]), stack_ranks([part.ranks for part in parts])
    selections = [part.selection for part in parts if part.selection is not None]
    answers = [answer for part in parts for answer in part.answers]
    return replace(
        parts[0],
        votes=votes.take(order),
        answers=tuple(answers[row] for row in order),
        n=max(part.n for part in parts),
        ranks=None if ranks is None else ranks[order],
        selection=Counts.joined(selections).take(order) if selections else None,
        units=units,
    )
