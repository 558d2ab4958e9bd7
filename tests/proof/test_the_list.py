"""Whatever the package offers in public is in the one list."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import sparsecert.bounds
import sparsecert.certificates
import sparsecert.schemes
from sparsecert.registry import CERTIFICATES, SCHEMES
from sparsecert.registry import RULES as ELECTIONS
from sparsecert.schemes import Scheme
from tests.proof import slow
from tests.proof.everything import ATTACKERS, NOISES, RULES, STATISTICAL, FixedMasks
from tests.proof.everything import SCHEMES as LISTED_SCHEMES

# Of bounds/ and certificates/, what the list runs, and the parts that it runs by way of these.
LISTED = {
    "bounds": "corrected_alpha one_sided two_sided pairwise predicted predicted_by_pairs",
    "certificates": "corollary_1 corollary_2 beats_all certify_anytime certify_top_k top_k_radius plurality run_off "
    "pairwise PerturbedUnits ClaimedUnits EnumeratedUnits PerturbedPatch certify_averted certify_flagged majority lead "
    "needed thresholds",
}
PARTS = {
    "bounds": "Bound Interval Lead tail_at_most lower_bound upper_bound complement is_proved reaches best_stake needed "
    "growth log2_below proved_in_floats smallest_count",
    "certificates": "Certificate Theorem Method Compared with_all_others with_runner_up with_every_class "
    "largest_rho gap_at certify_all_anytime split_votes stakes_of Rivals TopK class_by_class "
    "Adversary ExactCertificate Rule top_choices count_labels first_choices first_choice_votes vote_costs preferences "
    "proposed_prices run_off_winners run_off_standings pairwise_winners pairwise_standings "
    "farthest_rho Averted Flagged theorem_name WorstCase WorstCases worst_case worst_cases",
}


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for found in pkgutil.iter_modules(package.__path__):
        if not found.name.endswith("_triton"):
            yield importlib.import_module(f"{package.__name__}.{found.name}")


def _public(package: ModuleType) -> set[str]:
    """Functions and classes that a module of the package defines."""
    return {
        name
        for module in _modules(package)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value)) if callable(value) else False)
        and getattr(value, "__module__", None) == module.__name__
    }


def test_every_public_bound_and_certificate_is_listed() -> None:
    for package in (sparsecert.bounds, sparsecert.certificates):
        folder = package.__name__.split(".")[1]
        assert _public(package) == {*LISTED[folder].split(), *PARTS[folder].split()}


def _concrete(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield from _concrete(child)
        if not inspect.isabstract(child) and child.__module__.startswith("sparsecert."):
            yield child


def test_every_scheme_is_listed() -> None:
    list(_modules(sparsecert.schemes))
    listed = {type(one.scheme) for one in LISTED_SCHEMES} | {type(noise) for noise in NOISES}
    assert listed == {*_concrete(Scheme)} == {*SCHEMES.values()}


def test_every_method_rule_and_damage_is_listed() -> None:
    names = {certificate.name for certificate in STATISTICAL}
    assert {*CERTIFICATES} | {f"stopped, {name}" for name in CERTIFICATES if CERTIFICATES[name].compared} < names
    assert {*RULES} == {*slow.RULES} == {*slow.WINNERS} == {*ELECTIONS}
    fixed = next(one.scheme for one in LISTED_SCHEMES if type(one.scheme).__name__ == "Lattice")
    assert isinstance(fixed, FixedMasks)
    damages = {type(attacker.adversary(fixed)) for attacker in ATTACKERS}
    offered = {
        value
        for module in _modules(sparsecert.certificates)
        for value in vars(module).values()
        if inspect.isclass(value) and hasattr(value, "radii") and not inspect.isabstract(value)
    }
    assert damages == offered
    assert NOISES
