"""The base class of procedures."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from sparsecert.bounds import corrected_alpha
from sparsecert.certificates import CERTIFICATES, Method
from sparsecert.errors import InputError, check_int
from sparsecert.procedures.pipelining import Steps
from sparsecert.results import Certifications, Origin, Predictions
from sparsecert.schemes import MAX_DRAWS, FixedMasks, Scheme

if TYPE_CHECKING:
    from sparsecert.smoothed import Smoothed
    from sparsecert.votes.copies import Copies

ALPHA, BOUND = 0.05, "two-sided"  # the defaults
OWN = "bound", "rule"  # what the metadata of a model may name
FIXED_MASKS_ONLY = frozenset({"rule", "against", "seconds", "rankings"})
SAMPLING = "n0", "n", "sampling", "max_samples", "tolerance", "at_least", "error", "full"
RANDOM_MASKS_ONLY = frozenset({"alpha", "seed", "example", "bound", *SAMPLING})


class Procedure(ABC):
    """How a certificate is obtained: the settings, their checks, and which votes to take and certify.

    Frozen, so that the library, the command line, the service and a cluster pass the same object. `certify` and
    `predict` are generators that yield whenever votes are queued on the device (see `pipelining`).
    """

    most_inputs: ClassVar[int] = 64  # per group of a run
    in_flight: ClassVar[int] = 4  # groups at a time on a GPU

    def level(self, alpha: float | None) -> float | None:
        """The error probability of certificates; None where they are deterministic."""
        return ALPHA if alpha is None else alpha

    @abstractmethod
    def check(self, scheme: Scheme, alpha: float | None, seed: int) -> None:
        """Refuses invalid settings before any work is done or file written."""

    @abstractmethod
    def elects_by(self, scheme: Scheme) -> str:
        """The rule by which votes elect the class g(x) that is certified or predicted."""

    @abstractmethod
    def first_votes(self, scheme: Scheme) -> int:
        """The copies of each input in the first vote."""

    @abstractmethod
    def most_votes(self, scheme: Scheme) -> int:
        """The most copies per certificate."""

    @abstractmethod
    def header_fields(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        """The header's fields for a run that certifies: plain JSON values that decide votes and certificates."""

    @abstractmethod
    def prediction_header_fields(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        """The header's fields for a run that predicts."""

    @abstractmethod
    def certify(self, copies: Copies, alpha: float | None) -> Steps[Certifications]:
        """A certificate for each input, from votes on its copies."""

    @abstractmethod
    def predict(self, copies: Copies, alpha: float | None) -> Steps[Predictions]:
        """The answer to each input, or an abstention."""

    def certify_with_origin(self, copies: Copies, alpha: float | None) -> Steps[Certifications]:
        """`certify`, with the certificates' origin; warns where nearly all inputs get one class (`votes.one_class`)."""
        before, voter = time.perf_counter(), copies.voter
        found = yield from self.certify(copies, alpha)
        voter.one_class.compare(copies.inputs, found.selected)
        origin = Origin(
            scheme=voter.scheme,
            encoding=voter.encoding,
            precision=voter.precision,
            device=voter.device,
            rows=voter.rows,
            shape=tuple(copies.inputs.shape[1:]),
            examples=tuple(copies.examples),
            seconds=time.perf_counter() - before,
        )
        return replace(found, origin=origin)


class SampledProcedure(Procedure):
    """A procedure for random masks: `bound` and its theorem turn votes into certificates; see `Fixed`."""

    bound: str | None

    @property
    def method(self) -> Method:
        """The bound and its theorem; refuses an unknown name."""
        return CERTIFICATES[self.bound or BOUND]

    def elects_by(self, scheme: Scheme) -> str:
        return self.method.rule

    def sampled_header_fields(self, alpha: float | None, seed: int, theorem: str) -> dict[str, Any]:
        """The header's fields of every run with random masks."""
        assert alpha is not None
        return {"alpha": float(alpha), "seed": int(seed), "bound": self.method.name, "certificate": theorem}


def procedure_for(
    smoothed: Smoothed, procedure: Procedure | None = None, n0: int | None = None, n: int | None = None
) -> Procedure:
    """The procedure given; else `Exact` for a fixed set of masks without n0 and n, `Fixed(n0, n)` otherwise.

    A bound or rule that it leaves open is the one that the model's metadata names, if any. Each defines a classifier g
    of its own, so it is fixed once for the model, on held-out data, and never chosen by looking at an input.
    """
    from sparsecert.procedures.exact import Exact
    from sparsecert.procedures.fixed import Fixed

    samples = {name: value for name, value in (("n0", n0), ("n", n)) if value is not None}
    if procedure is None:
        exact = isinstance(smoothed.scheme, FixedMasks) and not samples
        return procedure_for(smoothed, Exact() if exact else Fixed(**samples))  # type: ignore[arg-type]
    if not isinstance(procedure, Procedure):
        raise InputError(
            f"procedure must be Fixed(...), Sequential(...) or Exact(...), got {procedure!r}; a number of samples is n="
        )
    if samples:
        raise InputError(f"{' and '.join(samples)} are short for Fixed(n0, n); leave them out beside {procedure}")
    own = {"bound": BOUND, **{name: said for name in OWN if isinstance(said := smoothed.metadata.get(name), str)}}
    left_open = {name: value for name, value in own.items() if getattr(procedure, name, value) is None}
    return replace(procedure, **left_open) if left_open else procedure  # type: ignore[type-var]


def bound_of_trained(scheme: Scheme) -> dict[str, str]:
    """What the file of a trained model names as its own: the pairwise bound, for masks drawn at random.

    On held-out inputs it was ahead of the two-sided one at every radius (docs/pairwise.md). Of random values it has not
    been measured.
    """
    return {"bound": "pairwise"} if scheme.values is None and not isinstance(scheme, FixedMasks) else {}


def check_settings(scheme: Scheme, seed: int, alpha: float | None = None, **draws: int) -> None:
    """Refuses invalid numbers of draws, seeds and alphas."""
    from sparsecert.schemes.philox import key_of

    for name, number in draws.items():
        check_int(name, number, 1, MAX_DRAWS - 1, "2**40 - 1")
    key_of(seed)
    if alpha is not None:
        corrected_alpha(alpha, scheme.some_bound(), draws["n"])


def refuse_other_masks(scheme: Scheme, given: Mapping[str, str]) -> None:
    """Refuses settings for random masks where the masks are a fixed set, and the other way round.

    `given` maps each setting that the user gave to the name by which the user knows it.
    """
    if isinstance(scheme, FixedMasks):
        others, masks = RANDOM_MASKS_ONLY, "masks drawn at random"
        has = f"the {scheme.count} masks of this model are fixed, and all of them vote"
    else:
        others, masks = FIXED_MASKS_ONLY, "a fixed set of masks"
        has = f"this model draws them at random ({scheme})"
    for setting, name in given.items():
        if setting in others:
            raise InputError(f"{name} is for {masks}; {has}: leave it out")


def warn_of_invalid(invalid: int, copies: int) -> None:
    """Warns how many copies gave no valid vote."""
    if invalid:
        share = f"{invalid} of {copies} ablated copies"
        warnings.warn(f"{share} gave scores that are not finite; they count against the leader", stacklevel=5)
