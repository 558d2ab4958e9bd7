"""Other claims that recorded votes prove: the true class stays in the top k, a class never becomes the answer, a class
stays above a threshold. No model is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparsecert.certificates.target import certify_averted, certify_flagged
from sparsecert.certificates.top_k import certify_top_k
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.records import Record, Records, is_exact, is_sequential
from sparsecert.reports.comparison import Table, format_median, format_percent, rows_by_rho, select_rhos
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.schemes import Scheme, from_config


@dataclass(frozen=True)
class Claim:
    """What is certified of the inputs of some true classes; `text` heads its column.

    `radius` is how many units may be perturbed with the claim still true; None if it is not proved of the input itself.
    """

    text: str
    applies_to: Callable[[int], bool]
    radius: Callable[[Record, Scheme, float], int | None]


def in_top_k(k: int) -> Claim:
    """The true class is in the top k. It is known before the votes, as `certify_top_k` requires."""
    return Claim(
        f"true class among the {k} leading",
        lambda true: True,
        lambda line, scheme, alpha: certify_top_k(_selection(line), line.votes, scheme, alpha, k, line.true).radius,
    )


def never_target(target: int) -> Claim:
    """The answer is never `target`, for inputs of the other classes."""
    return Claim(
        f"never class {target}",
        lambda true: true != target,
        lambda line, scheme, alpha: certify_averted(_selection(line), line.votes, scheme, alpha, target).radius,
    )


def above_threshold(label: int, threshold: float = 0.5) -> Claim:
    """Class `label` keeps more than `threshold` of the probability, for inputs of that class."""
    return Claim(
        f"class {label} above {threshold:g}",
        lambda true: true == label,
        lambda line, scheme, alpha: certify_flagged(line.votes, scheme, alpha, label, threshold).radius,
    )


def _selection(line: Record) -> Tally:
    assert line.selection is not None
    return line.selection


def claim_radii(records: Records, claim: Claim, alpha: float | None = None) -> list[int | None]:
    """The certified radius of each input that the claim applies to, at `alpha` or the run's own."""
    run = records.header.run
    if is_exact(records.header) or is_sequential(records.header) or not records.header.certifies:
        raise InputError(f"{records.path} does not hold certify votes of a fixed number of random masks")
    scheme, level = from_config(run["scheme"]), run["alpha"] if alpha is None else alpha
    found = [claim.radius(line, line.scheme_of(scheme), level) for line in records.lines if claim.applies_to(line.true)]
    if not found:
        raise InputError(f"{records.path} has no input that '{claim.text}' applies to")
    return found


def claims_table(
    files: Sequence[Records], claims: Sequence[Claim], alpha: float | None = None, *, every: bool = False
) -> Table:
    """A column per file and claim: the share of inputs for which it stays true, by rho (some, or every one)."""
    made = [(records, claim) for records in files for claim in claims]
    radii = [claim_radii(records, claim, alpha) for records, claim in made]
    shares = [certified_accuracy(one) for one in radii]
    largest = max(len(one) for one in shares) - 1
    rhos, notes = (list(range(largest + 1)), ()) if every else select_rhos(largest)
    heads = [f"{records.path}: {claim.text}" if len(files) > 1 else claim.text for records, claim in made]
    rows = (
        ("inputs", *(str(len(one)) for one in radii)),
        ("median", *(format_median(median_certified_robustness(one)) for one in radii)),
        *rows_by_rho(rhos, shares, lambda one, rho: format_percent(one[rho] if rho < len(one) else 0.0)),
    )
    levels = {records.header.run["alpha"] if alpha is None else alpha for records in files}
    about = "alpha = " + ", ".join(str(level) for level in sorted(levels))
    caption = f"Share of inputs certified to stay so under rho perturbed units, {about}"
    counted = "inputs: those of the classes that a question is about; alpha holds for each certificate by itself"
    return Table(("rho", *heads), rows, caption, (counted, *notes))
