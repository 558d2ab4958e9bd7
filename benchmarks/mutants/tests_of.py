"""Which tests have to notice a mutant of which file, the likeliest first."""

from __future__ import annotations

LEFT_OUT = {"schemes/subsets_triton.py"}

VOTES, SCHEMES, ELECTIONS = (f"proof/test_agreement_{name}.py" for name in ("votes", "schemes", "elections"))
PAIRS = "proof/test_pairwise_sampled.py"
TESTS = {
    "bounds/__init__.py": (SCHEMES, "bounds/test_coverage.py"),
    "bounds/binomial.py": (VOTES, "bounds/test_binomial.py", "bounds/test_clopper_pearson.py"),
    "bounds/clopper_pearson.py": (VOTES, "bounds/test_clopper_pearson.py"),
    "bounds/interval.py": (VOTES,),
    "bounds/one_sided.py": (VOTES,),
    "bounds/pairwise.py": (PAIRS, VOTES),
    "bounds/prediction.py": (VOTES,),
    "bounds/two_sided.py": (VOTES,),
    "bounds/betting.py": ("bounds/test_betting.py", VOTES),
    "certificates/__init__.py": (VOTES, "certificates/test_certificates.py"),
    "certificates/certificate.py": (VOTES, "certificates/test_certificates.py"),
    "certificates/corollary_1.py": (VOTES, "certificates/test_certificates.py"),
    "certificates/corollary_2.py": (VOTES, "certificates/test_certificates.py"),
    "certificates/adversary.py": (ELECTIONS, "certificates/test_exact.py"),
    "certificates/enumerated.py": (ELECTIONS, "certificates/test_enumerated.py"),
    "certificates/pairwise.py": ("certificates/test_pairwise.py", ELECTIONS, "certificates/test_exact.py"),
    "certificates/patches.py": (ELECTIONS, "certificates/test_patches.py"),
    "certificates/plurality.py": (ELECTIONS, "certificates/test_exact.py"),
    "certificates/lp_dual.py": (ELECTIONS, "certificates/test_exact.py"),
    "certificates/random_values.py": (VOTES, "certificates/test_random_values.py"),
    "certificates/pairwise_sampled.py": (PAIRS, "certificates/test_certificates.py"),
    "certificates/run_off.py": (ELECTIONS, "certificates/test_exact.py"),
    "certificates/anytime.py": (VOTES, "certificates/test_anytime.py"),
    "certificates/target.py": (VOTES, "certificates/test_target.py"),
    "certificates/top_k.py": (VOTES, "certificates/test_top_k.py"),
    "schemes/__init__.py": (SCHEMES, "schemes/test_delta.py"),
    "schemes/all_subsets.py": (SCHEMES, "schemes/test_all_subsets.py"),
    "schemes/blocks.py": (SCHEMES, "schemes/test_fixed.py"),
    "schemes/scheme_spec.py": ("schemes/test_scheme_spec.py",),
    "schemes/fixed_masks.py": (SCHEMES, "schemes/test_fixed.py", "schemes/test_open.py"),
    "schemes/grid.py": (SCHEMES, "schemes/test_fixed.py"),
    "schemes/lattice.py": (SCHEMES, "schemes/test_fixed.py"),
    "schemes/partition.py": (SCHEMES, "schemes/test_fixed.py", "schemes/test_open.py"),
    "schemes/share.py": (SCHEMES, "schemes/test_open.py"),
    "schemes/spread.py": (SCHEMES, "schemes/test_fixed.py"),
    "schemes/philox.py": (SCHEMES, "schemes/test_masks.py"),
    "schemes/random_values.py": ("schemes/test_random_values.py", "certificates/test_random_values.py"),
    "schemes/scheme.py": (
        SCHEMES,
        "schemes/test_delta.py",
        "schemes/test_masks.py",
        "schemes/test_fixed.py",
        "schemes/test_open.py",
    ),
    "schemes/subsets.py": (SCHEMES, "schemes/test_masks.py"),
    "schemes/uniform.py": (SCHEMES, "schemes/test_delta.py", "schemes/test_masks.py"),
}


def tests_of(path: str) -> tuple[str, ...]:
    """The test files for a file of the package."""
    return tuple(f"tests/{name}" for name in TESTS[path])
