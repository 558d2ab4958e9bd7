"""The sections of the page as plain data; the template leaves out empty ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sparsecert.procedures.exact import PATCHES
from sparsecert.records import Header
from sparsecert.reports.attack_tables import (
    alarm,
    attack_names,
    attack_numbers,
    attack_remarks,
    attack_settings,
    format_magnitude,
    gap_table,
    rho_table,
)
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.comparison import (
    NOT_APPLICABLE,
    Table,
    accuracy_table,
    certificates_line,
    format_median,
    format_percent,
    measure_name,
    radius_name,
    remarks,
    run_names,
    run_settings,
    shared_items,
)
from sparsecert.reports.gap import Gap
from sparsecert.reports.page.charts import Curve, CurvesChart
from sparsecert.reports.page.input_results import ReportedRun
from sparsecert.reports.summary import Summary

RADII = (0, 1, *(digit * 10**power for power in range(9) for digit in (2, 5, 10)))
MAX_RADII = 7
MAX_COLUMNS = 8  # runs side by side in one table of the page
BANDS = " Bands around the curves: 95% intervals (exact binomial) of runs on part of the data set."
VERSIONS = "sparsecert", "torch", "numpy", "python"


@dataclass(frozen=True)
class Numbers:
    """Named numbers: as tiles, as a list, or as a table with a row per run."""

    heading: str = ""
    tiles: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    table: Table | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Curves:
    """Accuracy against rho, as charts and tables; `alarms` name certificates that an attack broke."""

    charts: Sequence[CurvesChart]
    tables: Sequence[Table]
    alarms: Sequence[str] = ()


def headline(summaries: Sequence[Summary], attacks: Sequence[AttackSummary]) -> list[Numbers]:
    """The headline numbers: tiles for a single run, else a row per run."""
    found, both = [], bool(summaries and attacks)
    if summaries:
        certifies = any(summary.certifies for summary in summaries)
        radii, measure = select_radii(summaries), measure_name(summaries)
        each = [_results(summary, certifies, radii, measure) for summary in summaries]
        heading = "Votes" if both else ""
        found.append(_numbers(heading, "run", run_names(summaries), each, summaries, _guarantees(summaries)))
    if attacks:
        each = [attack_numbers(attack) for attack in attacks]
        found.append(_numbers("Attacks" if both else "", "attack", attack_names(attacks), each, attacks))
    return found


def _numbers(
    heading: str,
    kind: str,
    names: Sequence[str],
    each: Sequence[dict[str, str]],
    runs: Sequence[Summary | AttackSummary],
    notes: Sequence[str] = (),
) -> Numbers:
    """Tiles for a single run; else a row per run, the model last."""
    if len(each) == 1:
        return Numbers(heading, tiles=each[0], notes=notes)
    rows = [(name, *numbers.values(), run.model_id) for name, numbers, run in zip(names, each, runs, strict=True)]
    return Numbers(heading, table=Table((kind, *each[0], "model"), tuple(rows), ""), notes=notes)


def select_radii(summaries: Sequence[Summary]) -> list[int]:
    """0, 1, 2, 5, 10, ... up to the largest radius that any run certifies."""
    largest = max(len(summary.certified_accuracy) for summary in summaries) - 1
    return [rho for rho in RADII if rho <= max(largest, 0)][:MAX_RADII]


def _results(summary: Summary, certifies: bool, radii: Sequence[int], measure: str) -> dict[str, str]:
    known = summary.certifies
    found = {"accuracy": format_percent(summary.accuracy), "abstained": format_percent(summary.abstained)}
    if not certifies:
        return found
    found[f"median certified {measure}"] = format_median(summary.median) if known else NOT_APPLICABLE
    for rho in radii:
        share = summary.certified_accuracy_at(rho)
        found[f"certified accuracy at {rho}"] = NOT_APPLICABLE if share is None else format_percent(share)
    return found


def _guarantees(summaries: Sequence[Summary]) -> list[str]:
    """What the certificates of these runs guarantee, each kind once."""
    guarantees = dict.fromkeys(_guarantee(summary) for summary in summaries if summary.certifies)
    counted = (
        "Certified accuracy at a radius: the share of inputs certified for their true class at that radius or more."
    )
    return [*guarantees, counted] if guarantees else []


def _guarantee(summary: Summary) -> str:
    if summary.against == PATCHES:
        radius, change = "A radius is the side of a square patch", "perturbation of one patch of that size"
    else:
        radius, change = f"A radius is a number of {summary.unit}", f"perturbation of that many {summary.unit}"
    certainty = (
        "This is deterministic." if summary.exact else "For each input this fails with probability at most alpha."
    )
    return f"{radius}: no {change} changes the answer. {certainty}"


def provenance(runs: Sequence[ReportedRun], attacks: Sequence[tuple[Header, AttackSummary]]) -> list[Numbers]:
    """The settings behind the numbers: once those that all runs share, then for each run the others."""
    found = []
    if runs:
        names = run_names([run.summary for run in runs])
        found += _settings("", names, [_run_details(run) for run in runs], _notes(runs, names))
    if attacks:
        summaries = [summary for _, summary in attacks]
        known = [{**attack_settings(summary), **_trace(header, summary)} for header, summary in attacks]
        notes = [note for summary in summaries for note in attack_remarks(summary)]
        found += _settings("Attacks", attack_names(summaries), known, notes)
    return found


def _run_details(run: ReportedRun) -> dict[str, str]:
    summary = run.summary
    known = {**run_settings(summary), **_trace(run.records.header, summary)}
    known["ablated copies per input"] = f"{summary.mean_samples:g}"
    known["seconds per input"] = f"{summary.mean_seconds:.3g}"
    return known


def _trace(header: Header, summary: Summary | AttackSummary) -> dict[str, str]:
    """What identifies a run: the hashes of its files, and the versions it was computed with."""
    environment = header.environment
    data: Mapping[str, Any] = header.run["data"]
    versions = [f"{name} {environment[name]}" for name in VERSIONS if name in environment]
    return {
        "model": summary.model_file,
        "model SHA-256": summary.model_sha256,
        "data fingerprint": str(data.get("fingerprint", NOT_APPLICABLE)),
        "inputs of the data set": str(data["of"]),
        "versions": ", ".join(versions) or NOT_APPLICABLE,
        "started": str(environment.get("started", NOT_APPLICABLE)),
        "records": str(summary.path),
    }


def _settings(
    heading: str, names: Sequence[str], each: Sequence[dict[str, str]], notes: Sequence[str]
) -> list[Numbers]:
    common = shared_items(each)
    facts = [
        {name: text for name, text in known.items() if text != NOT_APPLICABLE and name not in common} for known in each
    ]
    shared = {name: text for name, text in common.items() if text != NOT_APPLICABLE}
    own = [Numbers(name, facts=known) for name, known in zip(names, facts, strict=True) if known]
    return [Numbers(heading, facts=shared, notes=notes), *own]


def _notes(runs: Sequence[ReportedRun], names: Sequence[str]) -> list[str]:
    notes = []
    for run, name in zip(runs, names, strict=True):
        counts = [f"certificates: {certificates_line(run.summary)}"] if run.certifies else []
        text = "; ".join([*counts, *remarks(run.summary)])
        notes += [f"{name}: {text}" if len(runs) > 1 else text] if text else []
    return notes


def certified_curves(summaries: Sequence[Summary]) -> Curves | None:
    """Certified accuracy of all runs in one chart; None if none certifies."""
    certifying = [summary for summary in summaries if summary.certifies]
    table = accuracy_table(certifying)
    if table is None:
        return None
    curves = [
        Curve(
            f"{name}: median {format_median(summary.median)}",
            summary.certified_accuracy,
            dot=summary.median,
            band=summary.band([*summary.certified_accuracy, 0.0]),
        )
        for summary, name in zip(certifying, run_names(certifying), strict=True)
    ]
    title = "certified accuracy against the radius, in the order of the legend"
    caption = "Share of inputs certified for their true class. Dots: medians; dotted line: one half."
    caption += BANDS if any(curve.band for curve in curves) else ""
    radius = radius_name(certifying)
    table = replace(table, caption=f"Certified accuracy by {radius}")
    units = " or ".join(dict.fromkeys(summary.unit for summary in certifying))
    x_label = f"rho: perturbed {units}" if radius == "rho" else radius
    return Curves([CurvesChart(title, caption, x_label, curves)], narrow(table))


def narrow(table: Table) -> list[Table]:
    """The table in parts of at most MAX_COLUMNS runs, each with the first column."""
    parts = range(1, len(table.headers), MAX_COLUMNS)
    return [
        replace(
            table,
            headers=(table.headers[0], *table.headers[start : start + MAX_COLUMNS]),
            rows=tuple((row[0], *row[start : start + MAX_COLUMNS]) for row in table.rows),
            notes=table.notes if start == parts[-1] else (),
        )
        for start in parts
    ]


def attack_curves(attacks: Sequence[AttackSummary], gaps: Sequence[Gap], rhos: Sequence[int]) -> Curves | None:
    """Accuracy under attack, with certificates of the same images if any; None without attacks."""
    if not attacks:
        return None
    tables = narrow(rho_table(attacks, rhos))
    if not gaps:
        return Curves([_attack_chart(attacks)], tables)
    known = {attack.path: attack for attack in attacks}
    names = attack_names([known[gap.attack] for gap in gaps])
    charts = [_gap_chart(gap, known[gap.attack], name) for gap, name in zip(gaps, names, strict=True)]
    return Curves(charts, [gap_table(gaps), *tables], alarms=list(filter(None, map(alarm, gaps))))


def _gap_chart(gap: Gap, attack: AttackSummary, name: str) -> CurvesChart:
    attacked = gap.accuracy_under_attack
    band = attack.band(attacked, len(gap.pairs))
    curves = [
        Curve(
            f"certified: median {format_median(gap.median_certified)}",
            gap.certified_accuracy,
            dot=gap.median_certified,
            band=attack.band([*gap.certified_accuracy, 0.0], len(gap.pairs)),
        ),
        Curve(
            f"not fooled by {name}: median {format_magnitude(gap.median_attacked)}", attacked, attacked[-1], band=band
        ),
    ]
    title = f"certified accuracy and accuracy under attack against rho, {name}"
    caption = (
        f"{len(gap.pairs)} inputs of both runs. The accuracy under the worst perturbation lies in the shaded region, "
        "abstentions counting as fooled."
    ) + (BANDS if band else "")
    return CurvesChart(title, caption, _perturbed(attack), curves, shaded=True)


def _perturbed(attack: AttackSummary) -> str:
    return f"rho: {attack.unit} that may be perturbed"


def _attack_chart(attacks: Sequence[AttackSummary]) -> CurvesChart:
    curves = []
    for attack, name in zip(attacks, attack_names(attacks), strict=True):
        shares = attack.accuracy_under_attack
        band = attack.band(shares, attack.attacked)
        curves.append(Curve(f"{name}: median {format_magnitude(attack.median)}", shares, shares[-1], band=band))
    caption = (
        f"Share of inputs that the attack did not fool within rho {attacks[0].unit}, abstentions counting as fooled."
    )
    caption += BANDS if any(curve.band for curve in curves) else ""
    return CurvesChart("accuracy under attack against rho", caption, _perturbed(attacks[0]), curves)
