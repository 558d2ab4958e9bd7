"""What every procedure promises."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from sparsecert.bounds import corrected_alpha
from sparsecert.errors import InputError, whole
from sparsecert.procedures.pipelining import Steps
from sparsecert.progress import OnProgress
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import MAX_DRAWS, FixedMasks, Scheme

if TYPE_CHECKING:
    import torch

    from sparsecert.votes.voter import Voter

ALPHA = 0.05  # unless another is given


class Procedure(ABC):
    """How a certificate is obtained: its settings, their checks, the votes it asks for, and what it draws from them.

    Small and frozen, so that the library, the command line, the service and a cluster pass the same object. `certify`
    and `predict` are generators that yield whenever votes are queued on the device (see `pipelining`).
    """

    most_inputs: ClassVar[int] = 64  # of a group in a run
    in_flight: ClassVar[int] = 4  # groups under way on a GPU

    def level(self, alpha: float | None) -> float | None:
        """The level at which certificates hold; None where they hold always."""
        return ALPHA if alpha is None else alpha

    @abstractmethod
    def check(self, scheme: Scheme, alpha: float | None, seed: int) -> None:
        """Refuses settings that cannot be used, before any work is done or file written."""

    @abstractmethod
    def first_votes(self, scheme: Scheme) -> int:
        """The copies of each input in the first votes that it asks for."""

    @abstractmethod
    def most_votes(self, scheme: Scheme) -> int:
        """The most copies of each input that a certificate takes."""

    @abstractmethod
    def facts(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        """What a header says of a run that certifies: plain JSON values that decide votes and certificates."""

    @abstractmethod
    def prediction_facts(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        """What a header says of a run that predicts."""

    @abstractmethod
    def certify(
        self,
        voter: Voter,
        inputs: torch.Tensor,
        examples: Sequence[int],
        alpha: float | None,
        seed: int,
        on_progress: OnProgress,
    ) -> Steps[Certifications]:
        """A certificate for each input; `examples` number the inputs for their masks."""

    @abstractmethod
    def predict(
        self,
        voter: Voter,
        inputs: torch.Tensor,
        examples: Sequence[int],
        alpha: float | None,
        seed: int,
        on_progress: OnProgress,
    ) -> Steps[Predictions]:
        """The answer to each input, or an abstention."""


def procedure_for(
    scheme: Scheme, procedure: Procedure | None = None, n0: int | None = None, n: int | None = None
) -> Procedure:
    """The procedure that was given, or meant: n0 and n are those of `Fixed`; else what suits the scheme.

    That is `Exact` for a fixed set of masks, and `Fixed` for masks drawn at random.
    """
    from sparsecert.procedures.exact import Exact
    from sparsecert.procedures.fixed import Fixed

    samples = {name: value for name, value in (("n0", n0), ("n", n)) if value is not None}
    if procedure is None:
        return Exact(scheme.rule) if isinstance(scheme, FixedMasks) and not samples else Fixed(**samples)  # type: ignore[arg-type]
    if not isinstance(procedure, Procedure):
        raise InputError(
            f"procedure must be Fixed(...), Sequential(...) or Exact(...), got {procedure!r}; a number of samples is n="
        )
    if samples:
        raise InputError(f"{' and '.join(samples)} are short for Fixed(n0, n); leave them out beside {procedure}")
    return procedure


def check_settings(scheme: Scheme, seed: int, alpha: float | None = None, **draws: int) -> None:
    """Refuses numbers of draws, a seed or an alpha that cannot be used."""
    from sparsecert.schemes.philox import key_of

    for name, number in draws.items():
        whole(name, number, 1, MAX_DRAWS - 1, "2**40 - 1")
    key_of(seed)
    if alpha is not None:
        corrected_alpha(alpha, scheme, draws["n"])


def warn_of_invalid(invalid: int, copies: int) -> None:
    """Says how many copies voted for nobody."""
    if invalid:
        share = f"{invalid} of {copies} ablated copies"
        warnings.warn(f"{share} gave scores that are not finite; they count against the leader", stacklevel=5)
