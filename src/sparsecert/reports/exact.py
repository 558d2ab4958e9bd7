"""Exact runs: the vote of a fixed set of masks, by the run's rule or another, from the recorded rankings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sparsecert.certificates.adversary import ClaimedUnits
from sparsecert.certificates.plurality import ExactCertificate
from sparsecert.errors import InputError
from sparsecert.procedures import exact
from sparsecert.procedures.exact import Exact
from sparsecert.records import Record, Records, rankings
from sparsecert.registry import RULES
from sparsecert.reports.classification import FROM_ALL_MASKS, Classification
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.schemes import FixedMasks, Scheme


def exact_procedure(records: Records, scheme: Scheme, rule: str | None, against: str | None) -> Exact:
    """The run's own procedure, with `rule` and `against` replaced where given.

    If they are replaced, no linear programs are solved: that would take as long as the run did. Patches are refused if
    the masks were made for images of another shape.
    """
    run, masks = records.header.run, _fixed(records, scheme)
    certifies = records.header.kind == "certify"
    if against is not None and not certifies:
        raise InputError(
            f"against {against} was asked of {records.path}, which holds predictions; leave it out or name certify "
            "records"
        )
    asked = Exact(rule or run["rule"], against or run.get("against"))
    same = (asked.rule, asked.against) == (run["rule"], run.get("against"))
    seconds = float(run.get("seconds", 0.0)) if same else 0.0
    asked = Exact(asked.rule, asked.against if certifies else None, seconds)
    if certifies:
        adversary = asked.adversary(masks)
        if "sides" in run:
            exact.check_geometry(adversary, run["sides"] and tuple(run["sides"]))
    return asked


def _fixed(records: Records, scheme: Scheme) -> FixedMasks:
    masks = exact.fixed(scheme)
    if len(masks.table) != records.header.run["masks"]:
        found = len(masks.table)
        raise InputError(f"{records.path} has a damaged header: {scheme} has {found} masks; name another file")
    return masks


def exact_certificates(records: Records, scheme: Scheme, procedure: Exact) -> Iterator[tuple[Record, ExactCertificate]]:
    """Each input with the winner of its vote and, if the run certifies, the radius, recomputed from the rankings.

    A recorded radius may be larger if the run solved linear programs; it is kept if they prove it again. A record that
    claims more than its rankings prove is refused.
    """
    run, masks = records.header.run, _fixed(records, scheme)
    own = (procedure.rule, procedure.against) == (run["rule"], run.get("against"))
    plain = replace(procedure, seconds=0.0).adversary(masks) if records.header.kind == "certify" else None
    rule = RULES[procedure.rule]
    for line in records.lines:
        assert line.rankings is not None
        ranks = rankings.from_text(line.rankings, run["classes"])
        found = ExactCertificate(rule.winner(ranks), 0) if plain is None else rule.certify(ranks, plain)
        if procedure.rule == run["rule"] and found.label != line.label:
            raise _damaged_line(records, line, f"its rankings elect {found.label}, not {line.label}")
        if own and line.radius is not None and line.radius > found.radius:
            claimed = ClaimedUnits(masks.table, min(line.radius, masks.units), exact.MOST_SECONDS)
            proved = rule.certify(ranks, claimed) if procedure.seconds else found
            if proved.radius < line.radius:
                raise _damaged_line(records, line, f"its rankings prove radius {proved.radius}, not {line.radius}")
            found = ExactCertificate(found.label, line.radius)
        yield line, found


def _damaged_line(records: Records, line: Record, what: str) -> InputError:
    where = f"{records.path}, input {line.example} is damaged"
    return InputError(f"{where} ({what}); delete that line and run the command again")


def exact_results(records: Records, scheme: Scheme, procedure: Exact) -> dict[str, Any]:
    """The fields of `Summary` that depend on winners and certificates; nothing abstains."""
    run, inputs, right = records.header.run, len(records.lines), 0
    robustness: list[int | None] = []
    for line, found in exact_certificates(records, scheme, procedure):
        right += found.label == line.true
        robustness.append(found.radius if found.label == line.true else None)
    classification = Classification(
        source=FROM_ALL_MASKS if records.header.kind == "certify" else str(records.path),
        accuracy=right / inputs,
        abstained=0.0,
        inputs=inputs,
        expected=run["shard"]["inputs"] if "shard" in run else run["data"]["inputs"],
        n=run["masks"],
        seed=None,
    )
    if records.header.kind != "certify":
        return {"classification": classification}
    known = [rho for rho in robustness if rho is not None]
    middle = median_certified_robustness(robustness)
    return {
        "classification": classification,
        "certified_accuracy": certified_accuracy(robustness),
        "median": middle,
        "median_among_certified": median_certified_robustness(known),
        "median_reference": middle,
        "abstained_certificates": 0,
        "wrong_certificates": inputs - len(known),
        "certified": len(known),
        "certified_at_zero": known.count(0),
    }
