"""Certificates: interval + scheme -> radius, one theorem per file, which registers itself. No torch here."""

from __future__ import annotations

from typing import Any

from sparsecert.certificates.anytime import certify_anytime
from sparsecert.certificates.certificate import ELECTED, Certificate, Method, Theorem, largest_rho
from sparsecert.certificates.corollary_1 import corollary_1
from sparsecert.certificates.corollary_2 import corollary_2
from sparsecert.certificates.pairwise_sampled import beats_all
from sparsecert.certificates.random_values import lead, majority
from sparsecert.registry import CERTIFICATES, RULES
from sparsecert.schemes import from_config

__all__ = [
    "CERTIFICATES",
    "ELECTED",
    "RULES",
    "Certificate",
    "Method",
    "Theorem",
    "beats_all",
    "certify_anytime",
    "corollary_1",
    "corollary_2",
    "largest_rho",
    "lead",
    "majority",
    "theorem_name",
]


def theorem_name(bound: str, scheme: dict[str, Any], sampling: dict[str, Any] | None) -> str:
    """The theorem by which a run with this bound, scheme and sampling, as in its header, certifies.

    Sequential runs (see `anytime`) use Corollary 1 or 2 with every scheme.
    """
    method = CERTIFICATES[bound]
    return method.theorem_for(from_config(scheme))[1] if sampling is None else method.theorem_name
