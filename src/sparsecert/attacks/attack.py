"""What all attacks share: one signature, one kind of outcome."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Any, ClassVar

import torch

from sparsecert.attacks.defenders import Defender
from sparsecert.attacks.judge import NEVER, Judge, changed
from sparsecert.errors import InputError, whole
from sparsecert.registry import ATTACKS, Option, check_known, check_settings
from sparsecert.schemes.philox import WHOLE

NOT_OF_AN_IMAGE = InputError, MemoryError, torch.cuda.OutOfMemoryError, OSError  # of the settings or the machine
RESTARTS = Option("--restarts", int, "Independent starts; the best is kept.", least=1, default=10)


@dataclass(frozen=True)
class Outcome:
    """What an attack found for each image.

    adversarial: the images that fool the defender, the original where none was found. distances: int64[b], pixels
    changed, 0 where the defender was wrong about the original, NEVER where nothing was found. queries, evaluations:
    int64[b], what that took, the first look at the original included. said: int64[b], what the defender (`final`, where
    there is one) answers to the adversarial image, ABSTAINS where it gives none; the true label where none was found.
    failed: for each image why the defender could not be asked about it, None where it could.
    """

    adversarial: torch.Tensor
    distances: torch.Tensor
    queries: torch.Tensor
    evaluations: torch.Tensor
    said: torch.Tensor
    failed: tuple[str | None, ...]

    @property
    def succeeded(self) -> torch.Tensor:
        """Bool[b]: whether the defender was fooled."""
        return self.distances != NEVER

    @property
    def median(self) -> float:
        """The median number of changed pixels over all images; infinitely many where nothing was found."""
        return float(median(torch.where(self.succeeded, self.distances.double(), torch.inf).tolist()))


class Attack(ABC):
    """Looks for images that differ from given ones in few pixels and fool a defender.

    An attack is its settings; what it draws depends on the seed alone. A subclass writes `run`, and raises `version`
    whenever the same settings and seed come to find something else: records begun with another one are not continued.
    """

    version: ClassVar[int] = 1
    options: ClassVar[tuple[Option, ...]] = ()  # of `sparsecert attack --attack`

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
    ) -> Outcome:
        """Attacks each image, whose true label is given, on whatever device; the outcome is on the CPU.

        `budget`: the most pixels that may be changed. `final`: who has the last word, where the defender is a cheaper
        likeness of whom to fool, such as `CommonMasks`; what is returned fooled that one twice in a row. A defender
        that wavers has the last word itself: what it was once fooled by in a long search may have been chance.

        Where the defender raises an error, each image is attacked by itself, and those that it fails on are said to
        have `failed`. If it fails on all of them, the fault is not theirs: the error goes up.
        """
        images, labels = images.detach().cpu(), torch.as_tensor(labels).cpu()
        check(images, labels, bounds, budget)
        final = defender if final is None and defender.wavers else final

        def attacked(rows: slice) -> Outcome:
            return self._attacked(Judge(defender, images[rows], labels[rows].long(), bounds, budget, final), seed)

        try:
            return attacked(slice(None))
        except NOT_OF_AN_IMAGE:
            raise
        except Exception:
            each = [_or_failed(attacked, images, labels, row) for row in range(len(images))]
            if all(outcome.failed[0] is not None for outcome in each):
                raise
            return _joined(each)

    def _attacked(self, judge: Judge, seed: int) -> Outcome:
        right = judge.right()
        if len(right):
            self.run(judge, right, torch.Generator().manual_seed(seed))
        judge.confirm()
        failed = (None,) * len(judge.images)
        return Outcome(judge.best, judge.distances, judge.queries, judge.evaluations, judge.said, failed)

    @abstractmethod
    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        """Makes attempts on the images `which`, about which the defender is right; the judge keeps what they found."""


def _or_failed(attacked: Callable[[slice], Outcome], images: torch.Tensor, labels: torch.Tensor, row: int) -> Outcome:
    """What is found of a single image, or that the defender fails on it."""
    one = slice(row, row + 1)
    try:
        return attacked(one)
    except NOT_OF_AN_IMAGE:
        raise
    except Exception as error:
        none = torch.zeros(1, dtype=torch.int64)
        return Outcome(images[one], torch.full_like(none, NEVER), none, none, labels[one].long(), (reason(error),))


def _joined(each: list[Outcome]) -> Outcome:
    """Outcomes of several images as one."""
    names = "adversarial", "distances", "queries", "evaluations", "said"
    parts = {name: torch.cat([getattr(outcome, name) for outcome in each]) for name in names}
    return Outcome(**parts, failed=tuple(outcome.failed[0] for outcome in each))


def reason(error: Exception) -> str:
    """What an error says, in a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def check(images: torch.Tensor, labels: torch.Tensor, bounds: tuple[float, float], budget: int | None) -> None:
    """Refuses what cannot be attacked."""
    if images.ndim < 2 or not len(images) or not images.is_floating_point():
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
        pixels = changed(images[:1], images[:1]).shape[1]
        whole("budget", budget, 1, pixels, f"the {pixels} pixels of an image")


def attack_named(name: str, **settings: Any) -> Attack:
    """The attack of that name; settings that are None are left at their default, unknown ones are refused."""
    kind = ATTACKS[name]
    given = check_settings(f"the {name} attack", kind.options, settings)
    check_known(f"the {name} attack", [field.name for field in fields(kind)], given)  # type: ignore[arg-type]
    return kind(**given)


def config_of(attack: Attack) -> dict[str, Any]:
    """Name and settings, as plain values; an attack that is not registered goes by the name of its class."""
    if not hasattr(attack, "__dataclass_fields__"):
        raise InputError(f"{type(attack).__name__} must be a dataclass, so that its settings can be recorded")
    return {"name": ATTACKS.name_of(type(attack)), **asdict(attack)}  # type: ignore[call-overload]
