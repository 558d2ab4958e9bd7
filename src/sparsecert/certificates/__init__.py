"""Certificates: interval + scheme -> radius, one theorem per file. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sparsecert.bounds import Bound, charged, one_sided, two_sided
from sparsecert.certificates.certificate import Certificate, Theorem, largest_rho
from sparsecert.certificates.corollary_1 import corollary_1
from sparsecert.certificates.corollary_2 import corollary_2
from sparsecert.certificates.stopped import certify_stopped
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.schemes import Scheme

__all__ = [
    "METHODS",
    "Certificate",
    "Method",
    "Theorem",
    "certify_stopped",
    "corollary_1",
    "corollary_2",
    "largest_rho",
    "method_named",
]


@dataclass(frozen=True)
class Method:
    """A bound and the theorem that turns its interval into a radius."""

    name: str
    bound: Bound
    theorem: Theorem
    theorem_name: str

    def certify(self, selection: Tally, estimation: Tally, scheme: Scheme, alpha: float | Fraction) -> Certificate:
        """The certificate of one input from its votes: exact arithmetic on integers, no model needed."""
        interval = self.bound(selection, estimation, charged(alpha, scheme, estimation.total))
        return Certificate(interval, self.theorem(interval, scheme))


METHODS = {
    method.name: method
    for method in (
        Method("two-sided", two_sided, corollary_2, "corollary-2"),
        Method("one-sided", one_sided, corollary_1, "corollary-1"),
    )
}


def method_named(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise InputError(f"bound must be one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name]
