"""Who is attacked in a run: a model with the defenders that stand for it, and the facts that go into the records."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from sparsecert import datasets, modelfile
from sparsecert.attacks import AllMasks, CommonMasks, Defender, SmoothedDefender
from sparsecert.datasets import Dataset
from sparsecert.devices import device_named
from sparsecert.errors import InputError
from sparsecert.plain.defenders import NEAREST_NEIGHBOUR, TRAINED_ON, defender_for
from sparsecert.plain.files import is_plain
from sparsecert.procedures import check_settings
from sparsecert.procedures.exact import fixed
from sparsecert.records import Writer
from sparsecert.runs.header import as_begun, check_classes, model_facts, rows_of
from sparsecert.runs.inputs import pixels
from sparsecert.schemes import FixedMasks
from sparsecert.smoothed import Smoothed

SAMPLES, ALPHA, ERROR = 10_000, 0.05, 0.05
RULE = "run-off"
AnyAblated = TypeVar("AnyAblated", bound="_Ablated")


class Target(Protocol):
    """A model under attack."""

    @property
    def model(self) -> str | Path:
        """Its file or name, as the user gave it."""

    @property
    def device(self) -> torch.device:
        """Where it is computed."""

    @property
    def precision(self) -> str:
        """What its forward passes are computed in."""

    @property
    def copies(self) -> int:
        """How many copies of an image a query may take: memory grows with them."""

    @property
    def abstains(self) -> bool:
        """Whether no answer is one of its answers; otherwise it is a failure of the model."""

    def facts(self, data: Dataset) -> dict[str, Any]:
        """Which classifier it is and how it answers, for the header; refuses data of other classes."""

    def rows(self, data: Dataset) -> int | None:
        """How many ablated copies it classifies at a time, where it does that; refuses a model that does not fit."""

    def as_begun(self, out: str | Path) -> Target:
        """The same, in the precision of the run that the file holds, where it holds one."""

    def resumed(self, writer: Writer) -> Target:
        """The same, computed as the run in that file was begun."""

    def defenders(self, seed: int) -> tuple[Defender, Defender | None]:
        """Whom to search with, and who has the last word where that is someone else; refuses unusable settings."""


@dataclass(frozen=True)
class _Ablated:
    """What every target that classifies ablated copies has, however its masks vote."""

    smoothed: Smoothed
    model: str | Path

    @property
    def device(self) -> torch.device:
        """The model's."""
        return self.smoothed.device

    @property
    def precision(self) -> str:
        """The classifier's."""
        return self.smoothed.precision

    def rows(self, data: Dataset) -> int:
        """As the free memory suggests, or as asked; refuses a model that does not fit the data."""
        return self.smoothed.voter(pixels(data, [0]), len(data.classes)).rows

    def as_begun(self: AnyAblated, out: str | Path) -> AnyAblated:
        """See `facts.as_begun`."""
        return replace(self, smoothed=as_begun(self.smoothed, out))

    def resumed(self: AnyAblated, writer: Writer) -> AnyAblated:
        """With the rows of the run's beginning, since rounding may depend on them."""
        smoothed = copy.copy(self.smoothed)
        smoothed.rows = rows_of(writer, smoothed.rows)
        return replace(self, smoothed=smoothed)


@dataclass(frozen=True)
class SmoothedTarget(_Ablated):
    """A smoothed classifier that answers from `n` votes and abstains at `alpha`.

    The search asks a likeness of it that has the same masks for all queries and decides by a test that is wrong with
    probability at most `error` at each look; what it finds is judged anew with fresh masks and all `n` copies. With
    `full` the search itself asks that, and what it finds is judged anew all the same.
    """

    n: int = SAMPLES
    alpha: float = ALPHA
    error: float = ERROR
    full: bool = False
    abstains = True

    @property
    def copies(self) -> int:
        """One for each sample."""
        return self.n

    def facts(self, data: Dataset) -> dict[str, Any]:
        """Also n, alpha and how the search asks: error is None where it asks as the last word does."""
        check_classes(self.smoothed, data)
        search = {"masks": "fresh", "error": None} if self.full else {"masks": "common", "error": float(self.error)}
        samples = {"n": int(self.n), "alpha": float(self.alpha)}
        return {**model_facts(self.smoothed, self.model, data), **samples, **search}

    def defenders(self, seed: int) -> tuple[Defender, Defender | None]:
        """New ones, whose masks depend on the seed alone."""
        check_settings(self.smoothed.scheme, seed, self.alpha, n=self.n)
        whole = SmoothedDefender(self.smoothed, self.n, self.alpha, seed)
        if self.full:
            return whole, whole
        return CommonMasks(self.smoothed, self.n, self.alpha, seed, error=self.error), whole


@dataclass(frozen=True)
class AllMasksTarget(_Ablated):
    """A smoothed classifier whose masks are a fixed set, all of which vote; `rule` elects its answer.

    It is the one that an exact certificate is of. There is no chance in it: what fools it once always does.
    """

    rule: str = RULE
    abstains = False

    @property
    def copies(self) -> int:
        """One for each mask."""
        return len(fixed(self.smoothed.scheme).table)

    def facts(self, data: Dataset) -> dict[str, Any]:
        """Also the rule and how many masks there are."""
        check_classes(self.smoothed, data)
        return {**model_facts(self.smoothed, self.model, data), "rule": self.rule, "masks": self.copies}

    def defenders(self, seed: int) -> tuple[Defender, Defender | None]:
        """A new one, that has the last word itself; the seed is the attack's alone."""
        return AllMasks(self.smoothed, self.rule), None


@dataclass(frozen=True)
class PlainTarget:
    """A classifier without ablation, that answers each image by itself: `sha256` names it in the records."""

    defender: Defender
    model: str | Path
    sha256: str
    device: torch.device
    precision: str = "fp32"
    copies = 1
    abstains = False

    def facts(self, data: Dataset) -> dict[str, Any]:
        """It has neither scheme nor encoding."""
        return {
            "model": {"sha256": self.sha256},
            "classes": len(data.classes),
            "precision": self.precision,
            "device": self.device.type,
        }

    def rows(self, data: Dataset) -> None:
        """None; refuses a model that does not give a score for each class."""
        classes = self.defender.answers(pixels(data, [0])).scores.shape[1]
        if classes != len(data.classes):
            raise InputError(f"the model has {classes} classes, {data.name} has {len(data.classes)}")

    def as_begun(self, out: str | Path) -> PlainTarget:
        """It has one precision."""
        return self

    def resumed(self, writer: Writer) -> PlainTarget:
        """It is as it was."""
        return self

    def defenders(self, seed: int) -> tuple[Defender, Defender | None]:
        """Itself: nothing about it is left to chance."""
        return self.defender, None


def target_of(
    model: str,
    data: Dataset,
    device: str = "auto",
    data_dir: str | None = None,
    *,
    precision: str | None = None,
    rows: int | None = None,
    n: int | None = None,
    alpha: float | None = None,
    error: float | None = None,
    full: bool = False,
    rule: str | None = None,
) -> Target:
    """Whom to attack with the images of `data`; what is None is left at its default.

    `model` is the file or run folder of a smoothed classifier or of a plain network, the name of a model that ships
    with the package, or `nearest-neighbour`, whose training images are looked for in `data_dir`. Settings of a smoothed
    classifier are refused for the others. Where its masks are a fixed set, all of them vote, by `rule`, and what only
    masks drawn at random have (n, alpha, error, full) is refused.
    """
    smoothing: dict[str, Any] = {"precision": precision, "rows": rows, "n": n, "alpha": alpha, "error": error}
    smoothing["rule"] = rule
    given = {name: value for name, value in smoothing.items() if value is not None}
    if model == NEAREST_NEIGHBOUR or is_plain(model):
        for name in [*given, *(["full"] if full else [])]:
            raise InputError(f"{name} is a setting of smoothed classifiers, {model} is none; leave it out")
        return _plain(model, data, torch.device(device_named(device)), data_dir)
    if full and error is not None:
        raise InputError("error is of the test by which the search decides early; with full every query asks for all")
    smoothed = Smoothed.load(model, device=device_named(device), precision=precision, rows=rows)
    chance = {name: value for name, value in given.items() if name in ("n", "alpha", "error")}
    if isinstance(smoothed.scheme, FixedMasks):
        for name in [*chance, *(["full"] if full else [])]:
            masks = f"the {len(smoothed.scheme.table)} masks of this model are fixed, and all of them vote"
            raise InputError(f"{name} is for masks drawn at random; {masks}: leave it out")
        return AllMasksTarget(smoothed, model, rule or RULE)
    if rule is not None:
        raise InputError(f"rule is for a fixed set of masks; this model draws them at random ({smoothed.scheme})")
    return SmoothedTarget(smoothed, model, full=full, **chance)


def _plain(model: str, data: Dataset, device: torch.device, data_dir: str | None) -> PlainTarget:
    """The nearest neighbour goes by the fingerprint of its training images, a network by that of its file."""
    defender = defender_for(model, data, device, data_dir)
    if model == NEAREST_NEIGHBOUR:
        known = datasets.load(TRAINED_ON.get(data.name, data.name), "train", data_dir).fingerprint()
    else:
        known = modelfile.fingerprint(model)
    return PlainTarget(defender, model, known, device)
