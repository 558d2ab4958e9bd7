"""The target of an attack run: a model, its defenders, and what the header says of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from sparsecert import datasets, modelfile
from sparsecert.attacks import ANY, AllMasks, Defender, SmoothedDefender, SurrogateDefender
from sparsecert.datasets import Dataset
from sparsecert.devices import device_named
from sparsecert.errors import InputError
from sparsecert.inputs import Inputs
from sparsecert.plain.defenders import NEAREST_NEIGHBOUR, defender_for
from sparsecert.plain.files import is_plain
from sparsecert.procedures import Exact, Fixed, check_settings, procedure_for
from sparsecert.procedures.exact import require_fixed_masks
from sparsecert.procedures.procedure import refuse_other_masks
from sparsecert.records import Writer
from sparsecert.runs.groups import load_batch
from sparsecert.runs.header import check_classes, model_info, recorded_rows, with_recorded_precision
from sparsecert.schemes import FixedMasks
from sparsecert.smoothed import Smoothed

SAMPLES, ALPHA, ERROR = 10_000, 0.05, 0.05
AnyAblated = TypeVar("AnyAblated", bound="AblatedTarget")


class Target(Protocol):
    """A model under attack."""

    @property
    def model(self) -> str | Path:
        """File or name, as given by the user."""

    @property
    def device(self) -> torch.device: ...

    @property
    def precision(self) -> str:
        """Of its forward passes."""

    @property
    def copies(self) -> int:
        """The most copies of an image per query: memory grows with them."""

    @property
    def ranks(self) -> bool:
        """Whether the search keeps how each copy ranks the classes, not only its label."""

    @property
    def abstains(self) -> bool:
        """Whether it may abstain; otherwise no answer is a failure of the model."""

    def run_info(self, data: Inputs) -> dict[str, Any]:
        """The classifier and how it answers, for the header; refuses data of other classes."""

    def rows(self, data: Inputs) -> int | None:
        """Ablated copies per forward pass, None without ablation; refuses a model that does not fit the data."""

    def with_recorded_precision(self, out: str | Path) -> Target:
        """The same in the precision recorded in `out`, if that file exists."""

    def with_recorded_rows(self, writer: Writer) -> Target:
        """The same with the rows of the run's header, since rounding may depend on them."""

    def for_units(self, units: int) -> Target:
        """The same for inputs of so many units, where they differ in that."""

    def defenders(self, seed: int, goal: str = ANY) -> tuple[Defender, Defender | None]:
        """The defender to search with, and the `final` one where that differs; refuses invalid settings."""


@dataclass(frozen=True)
class AblatedTarget:
    """The base of targets that classify ablated copies."""

    smoothed: Smoothed
    model: str | Path

    @property
    def device(self) -> torch.device:
        return self.smoothed.device

    @property
    def precision(self) -> str:
        return self.smoothed.precision

    def rows(self, data: Inputs) -> int:
        return self.smoothed.voter(load_batch(data, [0]), len(data.classes)).rows

    def for_units(self: AnyAblated, units: int) -> AnyAblated:
        smoothed = copy.copy(self.smoothed)
        smoothed.scheme = smoothed.scheme.for_units(units)
        return replace(self, smoothed=smoothed)

    def with_recorded_precision(self: AnyAblated, out: str | Path) -> AnyAblated:
        return replace(self, smoothed=with_recorded_precision(self.smoothed, out))

    def with_recorded_rows(self: AnyAblated, writer: Writer) -> AnyAblated:
        smoothed = copy.copy(self.smoothed)
        smoothed.rows = recorded_rows(writer, smoothed.rows)
        return replace(self, smoothed=smoothed)


@dataclass(frozen=True)
class SmoothedTarget(AblatedTarget):
    """A smoothed classifier that answers from `n` votes and abstains at `alpha`, as certified by `bound`.

    By "pairwise" it answers the class that beats every other one, by the other bounds the one with most votes; None is
    the model's own bound.

    The search queries a `SurrogateDefender`, whose masks are the same for all queries and which decides early with
    probability of error at most `error` at each stage; what it finds is confirmed with fresh masks and all `n` copies.
    With `full` the search uses fresh masks and all copies too, and results are confirmed all the same.
    """

    n: int = SAMPLES
    alpha: float = ALPHA
    error: float = ERROR
    full: bool = False
    bound: str | None = None
    abstains = True

    @property
    def copies(self) -> int:
        return self.n

    @property
    def ranks(self) -> bool:
        procedure = procedure_for(self.smoothed, Fixed(n=self.n, bound=self.bound))
        return isinstance(procedure, Fixed) and procedure.method.by_pairs

    def run_info(self, data: Inputs) -> dict[str, Any]:
        """Also n, alpha and how the search queries: error is None with `full`. The rule is plurality unless named."""
        check_classes(self.smoothed, data)
        search = {"masks": "fresh", "error": None} if self.full else {"masks": "common", "error": float(self.error)}
        samples = {"n": int(self.n), "alpha": float(self.alpha)}
        rule = {"rule": "pairwise"} if self.ranks else {}
        return {**model_info(self.smoothed, self.model, data), **samples, **search, **rule}

    def defenders(self, seed: int, goal: str = ANY) -> tuple[Defender, Defender | None]:
        """Fresh defenders, whose masks depend on the seed alone."""
        check_settings(self.smoothed.scheme, seed, self.alpha, n=self.n)
        answering = self.smoothed, self.n, self.alpha, seed
        whole = SmoothedDefender(*answering, bound=self.bound)
        if self.full:
            return whole, whole
        return SurrogateDefender(*answering, error=self.error, goal=goal, bound=self.bound), whole


@dataclass(frozen=True)
class AllMasksTarget(AblatedTarget):
    """A smoothed classifier with a fixed set of masks, all of which vote; `rule` elects its answer.

    It is the classifier that exact certificates are about, and deterministic.
    """

    rule: str
    abstains, ranks = False, False  # the rankings of so few masks need little memory

    @property
    def copies(self) -> int:
        return require_fixed_masks(self.smoothed.scheme).count

    def run_info(self, data: Inputs) -> dict[str, Any]:
        check_classes(self.smoothed, data)
        return {**model_info(self.smoothed, self.model, data), "rule": self.rule, "masks": self.copies}

    def defenders(self, seed: int, goal: str = ANY) -> tuple[Defender, Defender | None]:
        return AllMasks(self.smoothed, self.rule), None


@dataclass(frozen=True)
class PlainTarget:
    """A classifier without ablation; `sha256` names it in the records."""

    defender: Defender
    model: str | Path
    sha256: str
    device: torch.device
    precision: str = "fp32"
    copies = 1
    abstains, ranks = False, False

    def run_info(self, data: Inputs) -> dict[str, Any]:
        return {
            "model": {"sha256": self.sha256},
            "classes": len(data.classes),
            "precision": self.precision,
            "device": self.device.type,
        }

    def rows(self, data: Inputs) -> None:
        """None; refuses a model of other classes."""
        classes = self.defender.answers(load_batch(data, [0])).scores.shape[1]
        if classes != len(data.classes):
            raise InputError(f"the model has {classes} classes, {data.name} has {len(data.classes)}")

    def for_units(self, units: int) -> PlainTarget:
        return self

    def with_recorded_precision(self, out: str | Path) -> PlainTarget:
        return self

    def with_recorded_rows(self, writer: Writer) -> PlainTarget:
        return self

    def defenders(self, seed: int, goal: str = ANY) -> tuple[Defender, Defender | None]:
        return self.defender, None


def target_of(
    model: str,
    data: Inputs,
    device: str = "auto",
    data_dir: str | None = None,
    *,
    network: str | None = None,
    precision: str | None = None,
    rows: int | None = None,
    n: int | None = None,
    alpha: float | None = None,
    error: float | None = None,
    full: bool = False,
    bound: str | None = None,
    rule: str | None = None,
) -> Target:
    """The target to attack with the images or rows of `data`; settings that are None keep their default.

    `model` is the file or run folder of a smoothed classifier or of a plain network, the name of a model that ships
    with the package, or `nearest-neighbour`, whose training images are loaded from `data_dir`; `network` is the name of
    a network of the user's that a smoothed classifier's file holds the weights of. Settings of smoothed
    classifiers are refused for the others. Where the masks are a fixed set, all of them vote, by `rule`, and the
    settings of random masks (n, alpha, error, full, bound) are refused.
    """
    sampling: dict[str, Any] = {"n": n, "alpha": alpha, "error": error, "full": full or None, "bound": bound}
    sampling = {name: value for name, value in sampling.items() if value is not None}
    others = {"model": network, "precision": precision, "rows": rows, "rule": rule}
    given = [*(name for name, value in others.items() if value is not None), *sampling]
    if model == NEAREST_NEIGHBOUR or is_plain(model):
        if given:
            raise InputError(f"{given[0]} is a setting of smoothed classifiers, {model} is not one; leave it out")
        if not isinstance(data, Dataset):
            raise InputError(f"{model} is a model of images, and {data.name} is a table; use images")
        return _plain(model, data, torch.device(device_named(device)), data_dir)
    if full and error is not None:
        raise InputError("error is for queries decided early; with full every query takes all copies; leave one out")
    smoothed = Smoothed.load(model, network, device, precision=precision, rows=rows)
    refuse_other_masks(smoothed.scheme, {name: name for name in given})
    if isinstance(smoothed.scheme, FixedMasks):
        return AllMasksTarget(smoothed, model, procedure_for(smoothed, Exact(rule)).elects_by(smoothed.scheme))
    return SmoothedTarget(smoothed, model, **sampling)


def _plain(model: str, data: Dataset, device: torch.device, data_dir: str | None) -> PlainTarget:
    """The nearest neighbour is named by the fingerprint of its training images, a network by that of its file."""
    defender = defender_for(model, data, device, data_dir)
    if model == NEAREST_NEIGHBOUR:
        known = datasets.load_training(data.name, data_dir).fingerprint()
    else:
        known = modelfile.fingerprint(model)
    return PlainTarget(defender, model, known, device)
