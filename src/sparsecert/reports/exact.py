"""Exact runs: the vote of a fixed set of masks, by the run's rule or another, from the recorded rankings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sparsecert.certificates.adversary import ClaimedUnits
from sparsecert.certificates.plurality import ExactCertificate
from sparsecert.counts import Int16
from sparsecert.errors import InputError
from sparsecert.procedures import exact
from sparsecert.procedures.exact import Exact
from sparsecert.records import Record, Records, has_rankings, rankings
from sparsecert.registry import RULES
from sparsecert.schemes import FixedMasks, Scheme


def exact_procedure(records: Records, scheme: Scheme, rule: str | None, against: str | None) -> Exact:
    """The run's own procedure, with `rule` and `against` replaced where given.

    If they are replaced, no linear programs are solved: that would take as long as the run did. Patches are refused if
    the masks were made for images of another shape.
    """
    run, masks = records.header.run, _fixed(records, scheme)
    certifies = records.header.certifies
    if against is not None and not certifies:
        raise InputError(
            f"against {against} was asked of {records.path}, which holds predictions; leave it out or name certify "
            "records"
        )
    rule, against = rule or run["rule"], against or run.get("against")
    same = (rule, against) == (run["rule"], run.get("against"))
    if not same and not has_rankings(records.header):
        raise InputError(
            f"{records.path} has no rankings to elect by {rule} against {against or 'nothing'}; certify again with "
            "--rankings"
        )
    asked = Exact(rule, against, float(run.get("seconds", 0.0)) if same else 0.0)
    if certifies:
        adversary = asked.adversary(exact.require_fixed_masks(masks.some_bound()))
        if "sides" in run:
            exact.check_geometry(adversary, run["sides"] and tuple(run["sides"]))
    return asked


def _fixed(records: Records, scheme: Scheme) -> FixedMasks:
    masks = exact.require_fixed_masks(scheme)
    if masks.count != records.header.run["masks"]:
        raise InputError(f"{records.path} has a damaged header: {scheme} has {masks.count} masks; name another file")
    return masks


def exact_certificates(records: Records, scheme: Scheme, procedure: Exact) -> Iterator[tuple[Record, ExactCertificate]]:
    """Each input with the winner of its vote and, if the run certifies, the radius, recomputed from the rankings.

    A recorded radius may be larger if the run solved linear programs; it is kept if they prove it again. A record that
    claims more than its rankings prove is refused. Where the run left the rankings out, its answers are taken as they
    are recorded.
    """
    if not has_rankings(records.header):
        for line in records.lines:
            assert line.label is not None
            yield line, ExactCertificate(line.label, line.radius or 0)
        return
    if not scheme.is_open:
        yield from _elected(records, list(records.lines), _fixed(records, scheme), procedure)
        return
    _fixed(records, scheme)
    found: dict[int, tuple[Record, ExactCertificate]] = {}
    alike: dict[int | None, list[Record]] = {}
    for line in records.lines:
        alike.setdefault(line.units, []).append(line)
    for some in alike.values():
        masks = exact.require_fixed_masks(some[0].scheme_of(scheme))
        found |= {line.example: (line, one) for line, one in _elected(records, some, masks, procedure)}
    yield from (found[line.example] for line in records.lines)


def _elected(
    records: Records, lines: list[Record], masks: FixedMasks, procedure: Exact
) -> Iterator[tuple[Record, ExactCertificate]]:
    """The same of lines whose inputs share these masks."""
    run = records.header.run
    own = (procedure.rule, procedure.against) == (run["rule"], run.get("against"))
    plain = replace(procedure, seconds=0.0).adversary(masks) if records.header.certifies else None
    rule, ranks = procedure.elects_by(masks), _ranks(records, lines, masks)
    if plain is None:
        labels = RULES[rule].winners(ranks)
        radii = np.zeros_like(labels)
    else:
        labels, radii = exact.elect(ranks, rule, plain)
    for row, (line, label, radius) in enumerate(zip(lines, labels.tolist(), radii.tolist(), strict=True)):
        if rule == run["rule"] and label != line.label:
            raise _damaged_line(records, line, f"its rankings elect {label}, not {line.label}")
        if own and line.radius is not None and line.radius > radius:
            proved = radius
            if procedure.seconds:
                claimed = ClaimedUnits(masks.table, min(line.radius, masks.units), exact.MOST_SECONDS)
                proved = int(RULES[rule].certify(ranks[row : row + 1], claimed)[1].item())
            if proved < line.radius:
                raise _damaged_line(records, line, f"its rankings prove radius {proved}, not {line.radius}")
            radius = line.radius
        yield line, ExactCertificate(label, radius)


def _ranks(records: Records, lines: list[Record], masks: FixedMasks) -> Int16:
    """int16[inputs, masks, classes]: the recorded rankings; refuses those of another number of masks."""
    classes = records.header.run["classes"]
    each = [rankings.from_text(line.rankings, classes) for line in lines if line.rankings is not None]
    for line, ranks in zip(lines, each, strict=True):
        if len(ranks) != masks.count:
            raise _damaged_line(records, line, f"it has {len(ranks)} rankings, not {masks.count}")
    return np.stack(each)


def _damaged_line(records: Records, line: Record, what: str) -> InputError:
    where = f"{records.path}, input {line.example} is damaged"
    return InputError(f"{where} ({what}); delete that line and run the command again")
