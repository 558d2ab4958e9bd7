"""Certificates: interval + scheme -> radius, one theorem per file. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sparsecert.bounds import Bound, corrected_alpha, one_sided, two_sided
from sparsecert.certificates.anytime import certify_anytime
from sparsecert.certificates.certificate import Certificate, Theorem, largest_rho
from sparsecert.certificates.corollary_1 import corollary_1
from sparsecert.certificates.corollary_2 import corollary_2
from sparsecert.certificates.random_values import lead, majority
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.schemes import RandomValues, Scheme, from_config

__all__ = [
    "METHODS",
    "Certificate",
    "Method",
    "Theorem",
    "certify_anytime",
    "corollary_1",
    "corollary_2",
    "largest_rho",
    "lead",
    "majority",
    "method_named",
    "theorem_name",
]


@dataclass(frozen=True)
class Method:
    """A bound and the theorem that turns its interval into a radius; `tight` is the theorem for random values."""

    name: str
    bound: Bound
    theorem: Theorem
    theorem_name: str
    tight: Theorem
    tight_name: str

    def theorem_for(self, scheme: Scheme) -> tuple[Theorem, str]:
        """The sharpest theorem for the scheme, and its name."""
        if isinstance(scheme, RandomValues):
            return self.tight, self.tight_name
        return self.theorem, self.theorem_name

    def certify(self, selection: Tally, estimation: Tally, scheme: Scheme, alpha: float | Fraction) -> Certificate:
        """The certificate of one input from its votes: exact arithmetic on integers, no model needed."""
        interval = self.bound(selection, estimation, corrected_alpha(alpha, scheme, estimation.total))
        theorem, _ = self.theorem_for(scheme)
        return Certificate(interval, theorem(interval, scheme))


METHODS = {
    method.name: method
    for method in (
        Method("two-sided", two_sided, corollary_2, "corollary-2", lead, "random-values-lead"),
        Method("one-sided", one_sided, corollary_1, "corollary-1", majority, "random-values-majority"),
    )
}


def method_named(name: str) -> Method:
    if name not in METHODS:
        raise InputError(f"bound must be one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name]


def theorem_name(bound: str, scheme: dict[str, Any], sampling: dict[str, Any] | None) -> str:
    """The theorem by which a run with this bound, scheme and sampling, as in its header, certifies.

    Sequential runs (see `anytime`) use Corollary 1 or 2 with every scheme.
    """
    method = method_named(bound)
    return method.theorem_for(from_config(scheme))[1] if sampling is None else method.theorem_name
