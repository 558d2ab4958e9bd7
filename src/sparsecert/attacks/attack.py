"""The base class of attacks, and their outcome."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Any, ClassVar

import torch

from sparsecert.attacks.defenders import Defender
from sparsecert.attacks.judge import NOT_FOUND, Judge, OnSearch, changed_pixels
from sparsecert.errors import InputError, check_int
from sparsecert.records.attack_records import ANY, GOALS
from sparsecert.registry import ATTACKS, Option, check_known, check_settings
from sparsecert.schemes.philox import WHOLE

FATAL = InputError, MemoryError, torch.cuda.OutOfMemoryError, OSError  # due to settings or machine, not to an image
RESTARTS = Option("--restarts", int, "Independent starts; the best is kept.", least=1, default=10)
CONFIRMING = 0.05  # of the time of a search, about


@dataclass(frozen=True)
class Outcome:
    """What an attack found for each image.

    adversarial: the adversarial images; the original where none was found. distances: int64[b], changed pixels; 0 where
    the original is misclassified, NOT_FOUND where the attack failed. queries, evaluations: int64[b], including the
    first query of the original. answers: int64[b], what the defender (`final`, if given) answers to the adversarial
    image, or ABSTAINS; the true label where none was found. failed: for each image the error of the defender, or None.
    """

    adversarial: torch.Tensor
    distances: torch.Tensor
    queries: torch.Tensor
    evaluations: torch.Tensor
    answers: torch.Tensor
    failed: tuple[str | None, ...]

    @property
    def succeeded(self) -> torch.Tensor:
        """Bool[b]: whether the defender was fooled."""
        return self.distances != NOT_FOUND

    @property
    def median(self) -> float:
        """The median of changed pixels over all images; infinite where none was found."""
        return float(median(torch.where(self.succeeded, self.distances.double(), torch.inf).tolist()))


class Attack(ABC):
    """Searches for images that differ from given ones in few pixels and fool a defender.

    An attack is its settings; its randomness depends on the seed alone. A subclass implements `run`, and increments
    `version` whenever the same settings and seed give other results: runs of another version are not resumed.
    """

    version: ClassVar[int] = 1
    options: ClassVar[tuple[Option, ...]] = ()  # of `sparsecert attack --attack`
    takes_words: ClassVar[bool] = False  # whether it is for texts, int64 (texts, pieces, words), and for nothing else

    def __call__(
        self,
        defender: Defender,
        images: torch.Tensor,
        labels: torch.Tensor,
        *,
        bounds: tuple[float, float] = (0.0, 1.0),
        budget: int | None = None,
        seed: int = 0,
        final: Defender | None = None,
        goal: str = ANY,
        on_search: OnSearch | None = None,
    ) -> Outcome:
        """Attacks each image, given its true label; the outcome is on the CPU.

        `budget`: the most pixels that may be changed. `final`: the real target where the defender is a cheaper
        surrogate of it, such as `SurrogateDefender`; whatever is returned fooled it twice in a row. A random defender
        is its own `final`: in a long search it may have been fooled once by chance. `goal`: "any", or "misclassify",
        for which making the defender abstain is no success; a `SurrogateDefender` must have the same goal.
        `on_search(share, distances)` gets, as they change, how much of the search is done, from 0 to 1 by about its
        time, and of each image the changed pixels of the nearest found so far, or NOT_FOUND.

        If the defender raises an error, the images are attacked one by one, and those it fails on have `failed` set;
        `on_search` gets no more then. If it fails on all of them, the error is raised.
        """
        images, labels = images.detach().cpu(), torch.as_tensor(labels).cpu()
        if self.takes_words != (images.dtype == torch.int64):
            wanted, found = ("texts", "images") if self.takes_words else ("images and rows", "texts")
            raise InputError(f"{ATTACKS.name_of(type(self))} is an attack on {wanted}, and these are {found}")
        check(images, labels, bounds, budget)
        if goal not in GOALS:
            raise InputError(f"goal must be one of {', '.join(GOALS)}, got {goal!r}")
        final = defender if final is None and defender.is_random else final

        def attack(rows: slice, on_search: OnSearch | None = None) -> Outcome:
            judge = Judge(defender, images[rows], labels[rows].long(), bounds, budget, final, goal, on_search)
            return self._attack(judge, seed)

        try:
            return attack(slice(None), on_search)
        except FATAL:
            raise
        except Exception:
            each = [_attack_one(attack, images, labels, row) for row in range(len(images))]
            if all(outcome.failed[0] is not None for outcome in each):
                raise
            return _concatenate(each)

    def _attack(self, judge: Judge, seed: int) -> Outcome:
        correct = judge.query_originals()
        if len(correct):
            with judge.part(1, 0 if judge.final is None else CONFIRMING):
                self.run(judge, correct, torch.Generator().manual_seed(seed))
        judge.confirm()
        failed = (None,) * len(judge.images)
        return Outcome(judge.best, judge.distances, judge.queries, judge.evaluations, judge.answers, failed)

    @abstractmethod
    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        """Tries perturbations of the images `which`, all classified correctly; the judge keeps the best.

        It may tell the judge how far it is (`Judge.steps`, `did`, `part`), from which the time left is estimated.
        """


def _attack_one(attack: Callable[[slice], Outcome], images: torch.Tensor, labels: torch.Tensor, row: int) -> Outcome:
    """The outcome for a single image; `failed` where the defender raises an error."""
    one = slice(row, row + 1)
    try:
        return attack(one)
    except FATAL:
        raise
    except Exception as error:
        none = torch.zeros(1, dtype=torch.int64)
        return Outcome(images[one], torch.full_like(none, NOT_FOUND), none, none, labels[one].long(), (reason(error),))


def _concatenate(each: list[Outcome]) -> Outcome:
    """Outcomes of single images as one."""
    names = "adversarial", "distances", "queries", "evaluations", "answers"
    parts = {name: torch.cat([getattr(outcome, name) for outcome in each]) for name in names}
    return Outcome(**parts, failed=tuple(outcome.failed[0] for outcome in each))


def reason(error: Exception) -> str:
    """An error's type and message in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def check(images: torch.Tensor, labels: torch.Tensor, bounds: tuple[float, float], budget: int | None) -> None:
    """Refuses invalid arguments of an attack."""
    if images.ndim < 2 or not len(images) or not (images.is_floating_point() or images.dtype == torch.int64):
        raise InputError(f"images must be a float tensor (images, ...), got {images.dtype} of {tuple(images.shape)}")
    if labels.shape != images.shape[:1] or labels.dtype not in WHOLE:
        raise InputError(f"labels must be one whole number per image, got {labels.dtype} of {tuple(labels.shape)}")
    if labels.min() < 0:
        raise InputError(f"labels must be classes 0, 1, ..., got {labels.min()}")
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"bounds must be two numbers, the lower first, got {bounds}")
    if not ((images >= low) & (images <= high)).all():
        raise InputError(f"images must have values from {low} to {high}, got {images.min():g} to {images.max():g}")
    if budget is not None:
        pixels = changed_pixels(images[:1], images[:1]).shape[1]
        check_int("budget", budget, 1, pixels, f"the {pixels} pixels of an image")


def attack_named(name: str, **settings: Any) -> Attack:
    """The registered attack of that name; settings that are None keep their default, unknown ones are refused."""
    kind = ATTACKS[name]
    given = check_settings(f"the {name} attack", kind.options, settings)
    check_known(f"the {name} attack", [field.name for field in fields(kind)], given)  # type: ignore[arg-type]
    return kind(**given)


def config_of(attack: Attack) -> dict[str, Any]:
    """Name and settings as plain values; an unregistered attack goes by its class name."""
    if not hasattr(attack, "__dataclass_fields__"):
        raise InputError(f"{type(attack).__name__} must be a dataclass, so that its settings can be recorded")
    return {"name": ATTACKS.name_of(type(attack)), **asdict(attack)}  # type: ignore[call-overload]
