"""Votes taken look by look: inputs leave the batch as soon as they have had enough."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sparsecert.certificates import Certificate
from sparsecert.certificates.anytime import certify_anytime
from sparsecert.counts import Counts, Int64
from sparsecert.procedures.sequential import Sequential, StoppingRule, clear, estimation_stages, selection_stages
from sparsecert.schemes import ESTIMATION, SELECTION, Scheme
from sparsecert.votes.loop import Progress, Voting, to_device


@dataclass(frozen=True, eq=False)
class Stopped:
    """A group of inputs whose votes were stopped, each when its radius was settled.

    `estimation` are the votes at the look that showed the largest radius, from which the certificate is drawn;
    `samples` all the copies an input took, selection included, and `invalid` those of them that voted for nobody.
    """

    certificates: tuple[Certificate, ...]
    selection: Counts
    estimation: Counts
    samples: Int64
    invalid: Int64
    answers: tuple[str | None, ...]


class Votes:
    """The votes of a group for one purpose, which grow from look to look."""

    def __init__(self, voting: Voting, inputs: torch.Tensor, examples: Sequence[int], purpose: int, seed: int) -> None:
        self.voting, self.purpose, self.seed = voting, purpose, seed
        self.inputs, self.examples = to_device(inputs, voting.ablation.device), np.asarray(examples, dtype=np.int64)
        self.counts = Counts(
            np.zeros((len(inputs), voting.classes), dtype=np.int64), np.zeros(len(inputs), dtype=np.int64)
        )
        self.taken: Int64 = np.zeros(len(inputs), dtype=np.int64)

    def more(self, rows: Int64, total: int, progress: Progress | None) -> Generator[None, None, None]:
        """Brings the votes of these inputs, which have the same number, to `total`; yields once they are queued."""
        which = to_device(torch.from_numpy(rows), self.inputs.device)
        draws = range(self.purpose + int(self.taken[rows[0]]), self.purpose + total)
        examples = self.examples[rows].tolist()
        counted = self.voting.begin(self.inputs[which], examples, draws, self.seed, progress)
        yield
        fresh = counted()
        self.counts.votes[rows] += fresh.votes
        self.counts.invalid[rows] += fresh.invalid
        self.taken[rows] = total


def certify_in_stages(
    voting: Voting,
    inputs: torch.Tensor,
    examples: Sequence[int],
    scheme: Scheme,
    sampling: Sequential,
    alpha: float,
    seed: int,
    bound: str,
    progress: Progress | None = None,
) -> Generator[None, None, Stopped]:
    """Certifies a group sequentially; yields whenever votes are queued and have to be waited for.

    Class and rival are chosen by the selection votes; the estimation votes have masks of their own. Which inputs share
    a batch depends on this group alone, so the same group gives the same counts whatever else is under way.
    """
    group = np.arange(len(inputs))
    selection, estimation = (Votes(voting, inputs, examples, purpose, seed) for purpose in (SELECTION, ESTIMATION))
    rows = group
    for total in selection_stages(sampling.n0):
        yield from selection.more(rows, total, progress)
        rows = rows[~clear(selection.counts, rows)]
        if not len(rows):
            break
    chosen = [selection.counts[row] for row in group.tolist()]
    label, second = first_two(selection.counts.votes)
    watch = StoppingRule(sampling, chosen, scheme, alpha, bound)
    kept = Counts(estimation.counts.votes.copy(), estimation.counts.invalid.copy())
    rows = group
    for total in estimation_stages(sampling.most):
        yield from estimation.more(rows, total, progress)
        going = watch.look(rows, *_against(estimation.counts, rows, label, second, total, bound), total)
        best = rows[watch.at[rows] == total]
        kept.votes[best], kept.invalid[best] = estimation.counts.votes[best], estimation.counts.invalid[best]
        rows = rows[going]
        if not len(rows):
            break
    certificates = tuple(
        certify_anytime(chosen[row], kept[row], scheme, alpha, bound, sampling.most) for row in group.tolist()
    )
    answers = tuple(watch.answer(row, certificates[row].radius) for row in group.tolist())
    samples, invalid = selection.taken + estimation.taken, selection.counts.invalid + estimation.counts.invalid
    return Stopped(certificates, selection.counts, kept, samples, invalid, answers)


def first_two(votes: Int64) -> tuple[Int64, Int64]:
    """The class with most votes of each row and the one that came second; the lower-numbered one on a tie."""
    first = votes.argmax(axis=1)
    others = votes.copy()
    others[np.arange(len(votes)), first] = -1
    return first, others.argmax(axis=1)


def _against(
    counts: Counts, rows: Int64, label: Int64, second: Int64, total: int, bound: str
) -> tuple[Int64, Int64, Int64]:
    """Votes for the label, for the largest rival with every invalid one, and for the class second in the selection."""
    votes, each = counts.votes[rows], np.arange(len(rows))
    leader = votes[each, label[rows]]
    if bound == "one-sided":
        return leader, total - leader, total - leader
    runner_up = votes[each, second[rows]]
    votes[each, label[rows]] = -1  # a copy: it was picked by an array of rows
    return leader, votes.max(axis=1) + counts.invalid[rows], runner_up
