"""Inputs x masks -> class counts: the one hot loop, for any model, scheme and encoding."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt
import torch

from sparsecert.counts import Counts, Int16, Int64
from sparsecert.encodings import Encoding
from sparsecert.errors import InputError
from sparsecert.progress import OnProgress, ignore
from sparsecert.schemes import FixedMasks, Scheme
from sparsecert.schemes.philox import as_numbers
from sparsecert.votes.batches import BatchSizes, few_batch_sizes, full_batches, on_device, to_device
from sparsecert.votes.copies import Copies
from sparsecert.votes.engine import TRIED, fast_scorer
from sparsecert.votes.eval_mode import in_eval_mode
from sparsecert.votes.memory import MOST_ROWS
from sparsecert.votes.one_class import OneClass
from sparsecert.votes.pairs import MOST_TABLED, PassRows, SelectionVotes, add_above, add_pairs
from sparsecert.votes.precision import PRECISIONS, autocast, dtype_of
from sparsecert.votes.probe import TOO_LITTLE_MEMORY, Model, probe


class Voter:
    """Probes a model on `first`, a batch of one input, and classifies ablated copies, `rows` per forward pass.

    Peak memory depends on `rows` (default: from the free memory) and on the inputs, not on the number of draws. Refuses
    a model that does not return scores for `classes` classes.
    """

    def __init__(
        self,
        model: Model,
        scheme: Scheme,
        encoding: Encoding,
        first: torch.Tensor,
        *,
        device: torch.device | None = None,
        precision: str = "fp32",
        rows: int | None = None,
        classes: int | None = None,
    ) -> None:
        self.model, self.scheme, self.encoding, self.precision = model, scheme, encoding, precision
        self.device = first.device if device is None else device
        self.first_units = encoding.count_units(first)[0]
        first = encoding.cut(first, self.first_units).to(self.device)
        with on_device(self.device):
            bound = scheme.for_units(self.first_units)
            self.classes, fitting = probe(model, bound, encoding, first, precision, classes)
        fast = self._fast_scorer(first, bound)
        self._scores = fast or self._plain_scores
        lean = fast is not None and self.device.type == "cuda"  # keeps few activations
        self.rows = rows or (min(MOST_ROWS, 4 * fitting) if lean else fitting)
        self.one_class = OneClass(self)

    def for_units(self, units: int) -> Voter:
        """This voter with its scheme, which is open, bound to so many units; fewer rows of inputs that are longer."""
        bound = copy.copy(self)
        bound.scheme = self.scheme.for_units(units)
        bound.rows = max(1, min(self.rows, self.rows * self.first_units // units))
        bound.one_class = OneClass(bound)
        return bound

    def begin_count(self, copies: Copies, draws: range) -> Callable[[], Counts]:
        """Starts the vote on each input's copies, ablated by the masks of `draws`; call the result for the counts.

        The inputs * draws copies are classified `rows` at a time, several inputs in one batch where they fit. A copy
        whose scores are not all finite counts as invalid. On a GPU the work is only queued here. If `copies.chosen` is
        given, the result has `Counts.above`.
        """
        size, chosen = (len(copies), self.classes), copies.chosen
        above = None if chosen is None else torch.zeros(size, dtype=torch.int64, device=self.device)

        def add(scores: torch.Tensor, labels: torch.Tensor, which: torch.Tensor, rows: PassRows) -> None:
            if chosen is not None and above is not None:
                add_above(scores, labels < self.classes, chosen[which], rows, above)

        votes = self._count(copies, draws, add)
        with on_device(self.device):
            fetch = fetch_later(votes, above)
        return lambda: as_counts(*fetch())

    def begin_selection(self, copies: Copies, draws: range) -> SelectionVotes:
        """As `begin_count`, for votes that choose a class by pairs: its `labels` can be compared with the other classes
        (`Copies.comparing`) at once, without waiting for the counts.
        """
        size, tabled = len(copies), self.classes <= MOST_TABLED
        pairs = torch.zeros(size, self.classes, self.classes, dtype=torch.int64, device=self.device) if tabled else None

        def add(scores: torch.Tensor, labels: torch.Tensor, which: torch.Tensor, rows: PassRows) -> None:
            if pairs is not None:
                add_pairs(scores, labels < self.classes, rows, pairs)

        votes = self._count(copies, draws, add)
        with on_device(self.device):
            fetch = fetch_later(votes, pairs)

        def fetched() -> tuple[Counts, Int64 | None]:
            counted, table = fetch()
            return as_counts(counted), table

        return SelectionVotes(votes, pairs, fetched)

    def _count(
        self,
        copies: Copies,
        draws: range,
        add: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, PassRows], None],
    ) -> torch.Tensor:
        """int64[b, classes + 1], on the device: each input's votes, and the invalid ones last.

        `add` counts whatever else is asked of the scores of a pass; it is given what `classify` says of each row, which
        input each is of, and which rows count.
        """
        numbers = to_device(as_numbers("examples", copies.examples, None), self.device)
        inputs = to_device(copies.inputs, self.device)

        def scores_of(rows: torch.Tensor) -> torch.Tensor:
            which = rows // len(draws)
            masks = self.scheme.masks_at(copies.seed, numbers[which], rows % len(draws) + draws.start)
            return self._scores(inputs, which, masks)

        done = 0
        with self._ready():
            counts = torch.zeros(len(inputs) * (self.classes + 1), dtype=torch.int64, device=self.device)
            for rows, taken, scores in self._passes(len(inputs) * len(draws), scores_of, full_batches):
                live = (torch.arange(len(taken), device=self.device) < rows).long()
                which = taken // len(draws)
                labels = self.tally(scores, which, live, counts)
                add(scores, labels, which, PassRows(done, rows, len(draws)))
                done += rows
                copies.on_progress(0, rows)
        return counts.view(len(inputs), self.classes + 1)

    def begin_ranks(self, copies: Copies, masks: int) -> Callable[[], Int16]:
        """Starts ranking the classes for each input and each mask of a fixed set; call the result for the ranks.

        int16[b, masks, classes]: 0 is the class with the largest score, of equal scores the lowest-numbered; all 0
        where scores are not finite. On a GPU the work is only queued here.
        """
        rows = torch.arange(len(copies) * masks, device=self.device)
        found = self.ranks(to_device(copies.inputs, self.device), rows // masks, rows % masks, copies.on_progress)
        with on_device(self.device):
            fetch = fetch_later(found.view(len(copies), masks, self.classes))

        def fetched() -> Int16:
            (ranks,) = fetch()
            assert ranks is not None
            return ranks

        return fetched

    def labels(
        self, inputs: torch.Tensor, which: torch.Tensor, examples: torch.Tensor, draws: torch.Tensor, seed: int
    ) -> torch.Tensor:
        """The labels of single copies: int64[rows], row r being inputs[which[r]] ablated by the mask of
        (seed, examples[r], draws[r]); the number of classes where scores are not finite. All on the device.
        """
        found, done = torch.empty_like(which), 0
        for rows, scores in self._drawn(inputs, which, examples, draws, seed):
            found[done : done + rows] = self.classify(scores)[:rows]
            done += rows
        return found

    def rankings(
        self, inputs: torch.Tensor, which: torch.Tensor, examples: torch.Tensor, draws: torch.Tensor, seed: int
    ) -> torch.Tensor:
        """As `labels`, int16[rows, classes]: how each copy ranks the classes, see `rank`."""
        found, done = torch.empty(len(which), self.classes, dtype=torch.int16, device=which.device), 0
        for rows, scores in self._drawn(inputs, which, examples, draws, seed):
            found[done : done + rows] = rank(scores[:rows])
            done += rows
        return found

    def ranks(
        self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor, on_progress: OnProgress = ignore
    ) -> torch.Tensor:
        """The ranks of single copies: int16[rows, classes], row r being inputs[which[r]] by mask masks[r] of the set.

        All on the device.
        """
        assert isinstance(self.scheme, FixedMasks)
        found, done = torch.empty(len(which), self.classes, dtype=torch.int16, device=which.device), 0
        table = self.scheme.all_masks(self.device)

        def scores_of(copies: torch.Tensor) -> torch.Tensor:
            return self._scores(inputs, which[copies], table[masks[copies]])

        with self._ready():
            for rows, _, scores in self._passes(len(which), scores_of, full_batches):
                found[done : done + rows] = rank(scores[:rows])
                done += rows
                on_progress(0, rows)
        return found

    def scores(self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """The scores of single copies, [rows, classes]: row r is inputs[which[r]] ablated by masks[r].

        For rows that do not share a seed. All on the device, in one forward pass.
        """
        with self._ready():
            return self._scores(inputs, which, masks)

    def whole_labels(self, inputs: torch.Tensor) -> Int64:
        """int64[b]: what the model answers to inputs of which nothing is ablated, as `classify` says it."""
        shown = (1, self.scheme.units)
        whole = torch.ones(shown, dtype=torch.bool) if self.scheme.values is None else torch.zeros(shown).long()
        inputs, whole = to_device(inputs, self.device), to_device(whole, self.device)
        numbers = torch.arange(len(inputs), device=self.device)
        with self._ready(), torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            found = [self.classify(self._plain_scores(inputs, some, whole)) for some in torch.split(numbers, self.rows)]
            labels: Int64 = torch.cat(found).cpu().numpy()
        return labels

    def classify(self, scores: torch.Tensor) -> torch.Tensor:
        """int64[rows]: the class with the largest score; the number of classes where any is not finite."""
        return torch.where(torch.isfinite(scores).all(dim=1), scores.argmax(dim=1), self.classes)

    def tally(
        self, scores: torch.Tensor, which: torch.Tensor, live: torch.Tensor, counts: torch.Tensor
    ) -> torch.Tensor:
        """Adds the vote of each row that is live (1, not 0) to `counts`, int64[inputs * (classes + 1)].

        The last of an input's counts is of scores that are not finite. Returns what `classify` says of each row.
        """
        labels = self.classify(scores)
        counts.scatter_add_(0, which * (self.classes + 1) + labels, live)
        return labels

    def _plain_scores(self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        with autocast(self.device, self.precision):
            return self.model(self.encoding(inputs[which], masks))

    def _fast_scorer(self, first: torch.Tensor, scheme: Scheme) -> Callable[..., torch.Tensor] | None:
        draws = torch.arange(TRIED, device=self.device)
        masks = scheme.masks_at(0, 2 * draws // TRIED, draws)
        dtype = PRECISIONS[self.precision] or dtype_of(self.model)
        with self._ready():
            return fast_scorer(self.model, self.encoding, dtype, first, masks, self._plain_scores)

    def _drawn(
        self, inputs: torch.Tensor, which: torch.Tensor, examples: torch.Tensor, draws: torch.Tensor, seed: int
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """The scores of single copies by random masks, see `labels`, pass by pass: how many rows are new, and all."""

        def scores_of(copies: torch.Tensor) -> torch.Tensor:
            masks = self.scheme.masks_at(seed, examples[copies], draws[copies])
            return self._scores(inputs, which[copies], masks)

        with self._ready():
            for rows, _, scores in self._passes(len(which), scores_of, few_batch_sizes):
                yield rows, scores

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Eval mode, the current device, no gradients."""
        with on_device(self.device), in_eval_mode(self.model), torch.no_grad():
            yield

    def _passes(
        self, copies: int, scores_of: Callable[[torch.Tensor], torch.Tensor], sizes: BatchSizes
    ) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """Copies 0, 1, ... in forward passes of up to `rows`: how many are new, their numbers, and their scores.

        The numbers may be padded with the last one. A pass that runs out of memory is repeated with fewer rows.
        """
        position = 0
        while position < copies:
            rows, padded = sizes(copies - position, self.rows, self.device)
            taken = torch.arange(position, position + padded, device=self.device)
            taken.clamp_(max=copies - 1)
            try:
                scores = scores_of(taken)
            except RuntimeError as error:
                self.rows = _smaller(self.rows, error)
                continue
            yield rows, taken, scores
            position += rows


def rank(scores: torch.Tensor) -> torch.Tensor:
    """int16[rows, classes]: 0 for the largest score, of equal ones the first; all 0 where any is not finite."""
    order = scores.argsort(dim=1, descending=True, stable=True)
    places = torch.arange(scores.shape[1], device=scores.device).expand_as(order)
    ranks = torch.empty_like(order).scatter_(1, order, places)
    return torch.where(torch.isfinite(scores).all(dim=1, keepdim=True), ranks, 0).to(torch.int16)


def fetch_later(*tables: torch.Tensor | None) -> Callable[[], list[npt.NDArray[Any] | None]]:
    """Queues the transfer from a GPU; the returned function waits for it."""
    ready, sent = None, list(tables)
    for place, table in enumerate(sent):
        if table is not None and table.is_cuda:
            sent[place] = torch.empty(table.shape, dtype=table.dtype, pin_memory=True).copy_(table, non_blocking=True)
            ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
            ready.record()

    def fetch() -> list[npt.NDArray[Any] | None]:
        if ready is not None:
            ready.synchronize()
        return [None if table is None else table.cpu().numpy() for table in sent]

    return fetch


def as_counts(votes: Int64 | None, above: Int64 | None = None) -> Counts:
    """From int64[b, classes + 1], the last of each input being invalid, and the counts against each class."""
    assert votes is not None
    return Counts(votes[:, :-1].copy(), votes[:, -1].copy(), above)


def _smaller(rows: int, error: RuntimeError) -> int:
    """Half as many rows after running out of memory (also cuDNN's form of it); re-raises any other error."""
    if not isinstance(error, torch.cuda.OutOfMemoryError) and "unable to find an engine" not in str(error):
        raise error
    if rows == 1:
        raise InputError(TOO_LITTLE_MEMORY) from error
    torch.cuda.empty_cache()
    return rows // 2
