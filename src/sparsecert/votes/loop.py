"""Inputs x masks -> class counts: the one hot loop, for any model, scheme and encoding."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from sparsecert.counts import Counts
from sparsecert.errors import InputError
from sparsecert.schemes import ENUMERATION
from sparsecert.schemes.philox import as_numbers
from sparsecert.votes.ablation import Ablation
from sparsecert.votes.engine import Fused, scorer
from sparsecert.votes.eval_mode import in_eval_mode
from sparsecert.votes.memory import MOST_ROWS, chunk_rows, counting_outputs

Progress = Callable[[int], None]
Sized = Callable[[int, int, torch.device], tuple[int, int]]

PROBE_ROWS = 8
TOO_LITTLE = "the device has too little memory for one ablated copy; use the CPU or a smaller model"
ROWS_INFLUENCE_EACH_OTHER = (
    "the model's scores for an input change with the rest of the batch, so no certificate can hold; use running "
    "statistics in batch norm, and pass the module itself so that it is put into eval mode"
)
ANSWERS_AT_RANDOM = (
    "the model answers at random: what is certified is the random classifier, and only if its chance is independent "
    "from copy to copy"
)
FEW = 64  # rows that a GPU takes in the time of one
UNSEEN = 64  # activations assumed, in input sizes, of a model whose modules cannot be watched


def count_votes(
    ablation: Ablation,
    inputs: torch.Tensor,
    examples: Sequence[int],
    draws: range,
    seed: int,
    rows: int | None = None,
    progress: Progress | None = None,
    expected: int | None = None,
) -> Counts:
    """How the model classifies the copies of each input ablated by the masks of `draws`: see `Voting`."""
    return Voting(ablation, inputs[:1], rows, expected).begin(inputs, examples, draws, seed, progress)()


class Voting:
    """A model that has been looked at (see `probe`) and is ready to vote, `rows` copies at a time.

    Peak memory depends on `rows` (from the free memory when None) and on the inputs, not on the number of draws. A
    model that does not return `expected` classes is refused here.
    """

    def __init__(
        self, ablation: Ablation, first: torch.Tensor, rows: int | None = None, expected: int | None = None
    ) -> None:
        self.ablation, first = ablation, first.to(ablation.device)
        with on_device(ablation.device):
            self.classes, fitting = probe(ablation, first, expected)
            with in_eval_mode(ablation.model), torch.no_grad():
                self._scores = scorer(ablation, first)
        lean = (
            isinstance(self._scores, Fused) and ablation.device.type == "cuda"
        )  # keeps little of what modules put out
        self.rows = rows or (min(MOST_ROWS, 4 * fitting) if lean else fitting)

    def begin(
        self,
        inputs: torch.Tensor,
        examples: Sequence[int],
        draws: range,
        seed: int,
        progress: Progress | None = None,
    ) -> Callable[[], Counts]:
        """Sets going the vote on each input's copies, ablated by the masks of `draws`; call the result for the counts.

        inputs: Float[b, ...]; examples: the b numbers that, with seed and draw, decide each input's masks. The
        b * draws copies are taken `rows` at a time, several inputs in one batch where they fit. A copy whose scores are
        not all finite votes for nobody and is counted as invalid. `progress(copies)` is called for each batch with how
        many it holds. On a GPU the work is only queued here, so that the host is free meanwhile.
        """
        device = self.ablation.device
        numbers, inputs = to_device(as_numbers("examples", examples, None), device), to_device(inputs, device)

        def scores_of(copies: torch.Tensor) -> torch.Tensor:
            which = copies // len(draws)
            return self._scores(inputs, which, seed, numbers[which], copies % len(draws) + draws.start)

        with self._ready():
            counts = torch.zeros(len(inputs) * (self.classes + 1), dtype=torch.int64, device=device)
            for rows, copies, scores in self._passes(len(inputs) * len(draws), scores_of):
                live = (torch.arange(len(copies), device=device) < rows).long()
                self.tally(scores, copies // len(draws), live, counts)
                if progress is not None:
                    progress(rows)
            return _pending(counts.view(len(inputs), self.classes + 1))

    def labels(
        self, inputs: torch.Tensor, which: torch.Tensor, examples: torch.Tensor, draws: torch.Tensor, seed: int
    ) -> torch.Tensor:
        """How single copies are classified: int64[rows], row r being inputs[which[r]] ablated by the mask of
        (seed, examples[r], draws[r]); the number of classes where its scores are not finite. All on the device.
        """
        found, done = torch.empty_like(which), 0

        def scores_of(copies: torch.Tensor) -> torch.Tensor:
            return self._scores(inputs, which[copies], seed, examples[copies], draws[copies])

        with self._ready():
            for rows, _, scores in self._passes(len(which), scores_of, stepped):
                found[done : done + rows] = self.voted(scores)[:rows]
                done += rows
        return found

    def ranks(self, inputs: torch.Tensor, masks: int, progress: Progress | None = None) -> Callable[[], torch.Tensor]:
        """int16[b, masks, classes]: how each input's copy by each mask of a fixed set ranks the classes.

        0 is the class with the largest score, of equal scores the lowest-numbered; all 0 where scores are not finite.
        Call the result for the ranks, on the CPU: on a GPU the work is only queued here.
        """
        copies = torch.arange(len(inputs) * masks, device=self.ablation.device)
        found = self.ranks_of(to_device(inputs, self.ablation.device), copies // masks, copies % masks, progress)
        return lambda: found.view(len(inputs), masks, self.classes).cpu()

    def ranks_of(
        self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor, progress: Progress | None = None
    ) -> torch.Tensor:
        """The ranks of single copies: int16[rows, classes], row r being inputs[which[r]] by mask masks[r] of the set.

        All on the device.
        """
        found, done = torch.empty(len(which), self.classes, dtype=torch.int16, device=which.device), 0

        def scores_of(copies: torch.Tensor) -> torch.Tensor:
            return self._scores(inputs, which[copies], 0, torch.zeros_like(copies), ENUMERATION + masks[copies])

        with self._ready():
            for rows, _, scores in self._passes(len(which), scores_of):
                found[done : done + rows] = ranked(scores[:rows])
                done += rows
                if progress is not None:
                    progress(rows)
        return found

    def scores_by(self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """The scores of single copies, [rows, classes]: row r is inputs[which[r]] ablated by masks[r].

        For rows that do not share a seed. All on the device, in one forward pass.
        """
        scores_by = self._scores.scores_by if isinstance(self._scores, Fused) else self.ablation.scores_by
        with self._ready():
            return scores_by(inputs, which, masks)

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """The model in eval mode on the current device, without gradients; given back as it was."""
        with on_device(self.ablation.device), in_eval_mode(self.ablation.model), torch.no_grad():
            yield

    def _passes(
        self, copies: int, scores_of: Callable[[torch.Tensor], torch.Tensor], sized: Sized | None = None
    ) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """Copies 0, 1, ... in forward passes of up to `rows`: how many are new, their numbers, and their scores.

        The numbers may be filled up by the last one (see `even`, or `stepped` where numbers of copies are seldom the
        same). Where the device runs out of memory the pass is made again with fewer.
        """
        device, position, sized = self.ablation.device, 0, sized or evened
        while position < copies:
            rows, filled = sized(copies - position, self.rows, device)
            taken = torch.arange(position, position + filled, device=device)
            taken.clamp_(max=copies - 1)
            try:
                scores = scores_of(taken)
            except RuntimeError as error:
                self.rows = _smaller(self.rows, error)
                continue
            yield rows, taken, scores
            position += rows

    def voted(self, scores: torch.Tensor) -> torch.Tensor:
        """int64[rows]: the class with the largest score; the number of classes where any is not finite."""
        return torch.where(torch.isfinite(scores).all(dim=1), scores.argmax(dim=1), self.classes)

    def tally(self, scores: torch.Tensor, which: torch.Tensor, live: torch.Tensor, counts: torch.Tensor) -> None:
        """Adds the vote of each row that is live (1, not 0) to `counts`, int64[inputs * (classes + 1)].

        The last of an input's counts is of scores that are not finite.
        """
        counts.scatter_add_(0, which * (self.classes + 1) + self.voted(scores), live)


def ranked(scores: torch.Tensor) -> torch.Tensor:
    """int16[rows, classes]: 0 for the largest score, of equal ones the first; all 0 where any is not finite."""
    order = scores.argsort(dim=1, descending=True, stable=True)
    places = torch.arange(scores.shape[1], device=scores.device).expand_as(order)
    ranks = torch.empty_like(order).scatter_(1, order, places)
    return torch.where(torch.isfinite(scores).all(dim=1, keepdim=True), ranks, 0).to(torch.int16)


def even(rows: int, most: int, device: torch.device) -> int:
    """So many rows, or up to a quarter more: a GPU prepares anew for every number of rows that it meets first.

    Of the numbers between two powers of two only four are used. The rows on top are copies that do not vote.
    """
    if device.type != "cuda":
        return rows
    step = max(1, (1 << (rows - 1).bit_length()) // 8)
    return min(most, -(-rows // step) * step)


def evened(left: int, most: int, device: torch.device) -> tuple[int, int]:
    """How many of the copies left a pass takes, all up to `most`, and how many rows it then has: see `even`."""
    rows = min(most, left)
    return rows, even(rows, most, device)


def stepped(left: int, most: int, device: torch.device) -> tuple[int, int]:
    """The same for numbers of copies that are different in every query: a GPU meets only most, most / 8, most / 64, ...

    A pass has at most four times the rows that vote, unless it is so small that rows cost next to nothing.
    """
    if device.type != "cuda":
        return min(most, left), min(most, left)
    size = most
    while size >= 8 * FEW and size >= 4 * left:
        size //= 8
    return min(size, left), size


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Makes a CUDA device the current one, on whose stream work is queued and events are recorded."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on the device, without waiting for the work queued there."""
    if device.type == "cuda" and not tensor.is_cuda:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _pending(table: torch.Tensor) -> Callable[[], Counts]:
    """The counts once they are asked for; from a GPU they are fetched as soon as this table is ready there."""
    ready = None
    if table.is_cuda:
        table = torch.empty(table.shape, dtype=table.dtype, pin_memory=True).copy_(table, non_blocking=True)
        ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
        ready.record()

    def counts() -> Counts:
        if ready is not None:
            ready.synchronize()
        known = table.cpu().numpy()
        return Counts(known[:, :-1].copy(), known[:, -1].copy())

    return counts


def probe(ablation: Ablation, first: torch.Tensor, expected: int | None = None) -> tuple[int, int]:
    """The number of classes, and how many rows fit at once; refuses a model whose rows influence each other.

    Two small batches share their first copies and differ in the others; the generators are seeded alike for both. If
    the shared copies' scores differ, the model has no p_i(x) to bound (batch statistics, say). If they differ only
    under another seed, it answers at random: then p_i(x) is over its chance as well as the masks', the theorems hold
    where that chance is independent from copy to copy, and a warning says so. This finds the usual mistakes; it cannot
    find every influence (one that a few copies happen not to show), so the guarantee names it as an assumption.
    """
    draws = torch.arange(3 * PROBE_ROWS, device=ablation.device)
    black, white = torch.zeros_like(first), torch.ones_like(first)
    inputs = torch.cat((*[first] * 2 * PROBE_ROWS, *[black] * (PROBE_ROWS - 1), white))
    copies = ablation.copies(inputs, 0, torch.zeros_like(draws), draws)
    devices = [ablation.device] if ablation.device.type == "cuda" else []
    one, other = copies[: 2 * PROBE_ROWS], torch.cat((copies[:PROBE_ROWS], copies[2 * PROBE_ROWS :]))
    with in_eval_mode(ablation.model), torch.no_grad(), torch.random.fork_rng(devices):
        with counting_outputs(ablation.model) as seen:
            scores = _seeded_scores(ablation, one, expected, seed=0)
            activations = seen() or UNSEEN * one.nbytes
        if not _alike(scores[:PROBE_ROWS], _seeded_scores(ablation, other, expected, seed=0)[:PROBE_ROWS]):
            raise InputError(ROWS_INFLUENCE_EACH_OTHER)
        if not _alike(scores, _seeded_scores(ablation, one, expected, seed=1)):
            warnings.warn(ANSWERS_AT_RANDOM, stacklevel=2)
    encoded = (first.nbytes + ablation.scheme.units + copies[:1].nbytes) * 3  # with the temporaries of each
    return scores.shape[1], chunk_rows(activations // len(one) + encoded, ablation.device)


def _alike(scores: torch.Tensor, others: torch.Tensor) -> bool:
    """Equal, score by score, but for the last digits: batches of one shape are computed by the same instructions."""
    rounding = 1e-5 if scores.dtype in (torch.float32, torch.float64) else 1e-2
    scale = float(scores.double().nan_to_num(0, 0, 0).abs().median())
    return torch.allclose(scores.double(), others.double(), rtol=rounding, atol=rounding * scale, equal_nan=True)


def _seeded_scores(ablation: Ablation, copies: torch.Tensor, expected: int | None, seed: int) -> torch.Tensor:
    if ablation.device.type == "cpu":  # torch.manual_seed would also queue the seed for every GPU, call by call
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
    return _checked_scores(ablation, copies, expected)


def _checked_scores(ablation: Ablation, copies: torch.Tensor, expected: int | None) -> torch.Tensor:
    """The scores, if the model takes such copies and returns scores for at least two classes, the expected ones."""
    try:
        scores = ablation.scores(copies)
    except torch.cuda.OutOfMemoryError as error:
        raise InputError(TOO_LITTLE) from error
    except Exception as error:
        shape, reason = tuple(copies.shape[1:]), (str(error).splitlines() or [type(error).__name__])[0]
        if ablation.precision != "fp32" and _takes(replace(ablation, precision="fp32"), copies):
            where = f"{ablation.precision} on this device ({ablation.device.type})"
            raise InputError(f"the model cannot be computed in {where}: {reason}; use precision fp32") from error
        raise InputError(f"the model does not take ablated copies of shape {shape}: {reason}") from error
    shape = tuple(scores.shape) if isinstance(scores, torch.Tensor) else ()
    if len(shape) != 2 or shape[0] != len(copies) or shape[1] < 2:
        found = shape or type(scores).__name__
        hint = "; flatten the copies first if it takes features" if len(shape) > 2 else where_scores_are(scores)
        raise InputError(f"model must return scores of shape ({len(copies)}, classes), classes >= 2, got {found}{hint}")
    if scores.dtype == torch.bool or scores.is_complex():
        raise InputError(f"model must return scores that are real numbers, got {scores.dtype}")
    if expected is not None and shape[1] != expected:
        raise InputError(f"model returns scores for {shape[1]} classes, expected classes={expected}")
    return scores


def _takes(ablation: Ablation, copies: torch.Tensor) -> bool:
    try:
        ablation.scores(copies)
    except Exception:
        return False
    return True


def where_scores_are(returned: Any) -> str:
    """What to hand over instead of a model whose scores are inside of what it returns."""
    places: list[str] = []
    if hasattr(returned, "logits"):
        places = [".logits"]
    elif isinstance(returned, tuple | list | dict):
        parts = dict(enumerate(returned)) if isinstance(returned, tuple | list) else returned
        places = [f"[{key!r}]" for key, part in parts.items() if isinstance(part, torch.Tensor)]
    if places:
        return f"; hand over a function that returns them, such as lambda copies: net(copies){places[0]}"
    return "; make them a tensor with torch.as_tensor" if isinstance(returned, np.ndarray) else ""


def _smaller(rows: int, error: RuntimeError) -> int:
    """Half as many rows after the device ran out of memory, be it a convolution's; any other error is raised again."""
    if not isinstance(error, torch.cuda.OutOfMemoryError) and "unable to find an engine" not in str(error):
        raise error
    if rows == 1:
        raise InputError(TOO_LITTLE) from error
    torch.cuda.empty_cache()
    return rows // 2
