"""The sections of the page as plain data; what no run has is empty, and the template leaves it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sparsecert.procedures.exact import PATCHES
from sparsecert.records import Header
from sparsecert.reports.attack_tables import (
    alarm,
    attack_facts,
    attack_labels,
    attack_remarks,
    attack_results,
    gap_table,
    magnitude,
    rho_table,
)
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.comparison import (
    NOT_APPLICABLE,
    Table,
    accuracy_table,
    certificates,
    facts,
    labels,
    measured_in,
    median,
    percent,
    radius_name,
    remarks,
    shared,
)
from sparsecert.reports.gap import Gap
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.reports.page.charts import Bar, BarsChart, Curve, CurvesChart
from sparsecert.reports.page.outcomes import Outcome, Run, by_class
from sparsecert.reports.summary import Summary

RADII = (0, 1, *(digit * 10**power for power in range(9) for digit in (2, 5, 10)))
MOST_RADII = 7
MOST_BARS = 60
CHANGED = "rho: pixels that may be changed"
VERSIONS = "sparsecert", "torch", "numpy", "python"


@dataclass(frozen=True)
class Numbers:
    """Numbers or facts with names: large as tiles, or as a list, or as a table with a row for each run."""

    heading: str = ""
    tiles: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    table: Table | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Curves:
    """Accuracy against rho, drawn and as tables; `alarms` name certificates that an attack broke."""

    charts: Sequence[CurvesChart]
    tables: Sequence[Table]
    alarms: Sequence[str] = ()


def headline(summaries: Sequence[Summary], attacks: Sequence[AttackSummary]) -> list[Numbers]:
    """The numbers that a reader came for: large for a lone run, else a row for each."""
    found, both = [], bool(summaries and attacks)
    if summaries:
        certifies = any(summary.kind == "certify" for summary in summaries)
        radii, measure = shown_radii(summaries), measured_in(summaries)
        each = [_results(summary, certifies, radii, measure) for summary in summaries]
        heading = "Votes" if both else ""
        found.append(_numbers(heading, "run", labels(summaries), each, summaries, _meanings(summaries)))
    if attacks:
        each = [attack_results(attack) for attack in attacks]
        found.append(_numbers("Attacks" if both else "", "attack", attack_labels(attacks), each, attacks))
    return found


def _numbers(
    heading: str,
    kind: str,
    names: Sequence[str],
    each: Sequence[dict[str, str]],
    runs: Sequence[Summary | AttackSummary],
    notes: Sequence[str] = (),
) -> Numbers:
    """Tiles for a lone run; else a row for each run, the model last."""
    if len(each) == 1:
        return Numbers(heading, tiles=each[0], notes=notes)
    rows = [
        (name, *numbers.values(), f"{run.model_file} {run.model_sha256[:8]}")
        for name, numbers, run in zip(names, each, runs, strict=True)
    ]
    return Numbers(heading, table=Table((kind, *each[0], "model"), tuple(rows), ""), notes=notes)


def shown_radii(summaries: Sequence[Summary]) -> list[int]:
    """A few radii from 0 up to the largest that any of the runs certifies, 1, 2, 5, 10, ... of them."""
    largest = max(len(summary.certified_accuracy) for summary in summaries) - 1
    return [rho for rho in RADII if rho <= max(largest, 0)][:MOST_RADII]


def _results(summary: Summary, certifies: bool, radii: Sequence[int], measure: str) -> dict[str, str]:
    known = summary.kind == "certify"
    found = {"accuracy": percent(summary.accuracy), "abstained": percent(summary.abstained)}
    if not certifies:
        return found
    found[f"median certified {measure}"] = median(summary.median) if known else NOT_APPLICABLE
    for rho in radii:
        share = summary.certified_accuracy_at(rho)
        found[f"certified accuracy at {rho}"] = NOT_APPLICABLE if share is None else percent(share)
    return found


def _meanings(summaries: Sequence[Summary]) -> list[str]:
    """What the certificates of these runs promise, each kind once; nothing where there are none."""
    promises = dict.fromkeys(_promise(summary) for summary in summaries if summary.kind == "certify")
    counted = (
        "Certified accuracy at a radius: the share of inputs certified for their true class at that radius or more."
    )
    return [*promises, counted] if promises else []


def _promise(summary: Summary) -> str:
    if summary.against == PATCHES:
        radius, change = "A radius is the side of a square patch", "alteration of one patch of that size"
    else:
        radius, change = "A radius is a number of altered units", "alteration of so many units"
    surely = "This holds always." if summary.exact else "This fails with probability alpha at most, for each input."
    return f"{radius}: no {change} brings the classifier to another answer. {surely}"


def origins(runs: Sequence[Run], attacks: Sequence[tuple[Header, AttackSummary]]) -> list[Numbers]:
    """Exactly what decided the numbers: once what all runs share, then a row for each run of what they do not."""
    found = []
    if runs:
        names = labels([run.summary for run in runs])
        found.append(_apart("", "run", names, [_decided(run) for run in runs], _notes(runs, names)))
    if attacks:
        summaries = [summary for _, summary in attacks]
        known = [{**attack_facts(summary), **_traced(header, summary)} for header, summary in attacks]
        notes = [note for summary in summaries for note in attack_remarks(summary)]
        found.append(_apart("Attacks", "attack", attack_labels(summaries), known, notes))
    return found


def _decided(run: Run) -> dict[str, str]:
    summary = run.summary
    known = {**facts(summary), **_traced(run.records.header, summary)}
    known["ablated copies per input"] = f"{summary.mean_samples:g}"
    known["seconds per input"] = f"{summary.mean_seconds:.3g}"
    return known


def _traced(header: Header, summary: Summary | AttackSummary) -> dict[str, str]:
    """By what a run can be found again: its files by their hashes, and the versions that computed it."""
    environment = header.environment
    data: Mapping[str, Any] = header.run["data"]
    versions = [f"{name} {environment[name]}" for name in VERSIONS if name in environment]
    return {
        "model": summary.model_file,
        "model SHA-256": summary.model_sha256,
        "data fingerprint": str(data["fingerprint"]),
        "inputs of the data set": str(data["of"]),
        "versions": ", ".join(versions) or NOT_APPLICABLE,
        "started": str(environment.get("started", NOT_APPLICABLE)),
        "records": str(summary.path),
    }


def _apart(
    heading: str, kind: str, names: Sequence[str], each: Sequence[dict[str, str]], notes: Sequence[str]
) -> Numbers:
    common = shared(each)
    own = [name for name in each[0] if name not in common]
    known = {name: text for name, text in common.items() if text != NOT_APPLICABLE}
    rows = tuple((name, *(facts[fact] for fact in own)) for name, facts in zip(names, each, strict=True))
    table = Table((kind, *own), rows, f"Where the {kind}s differ") if own else None
    return Numbers(heading, facts=known, table=table, notes=notes)


def _notes(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    notes = []
    for run, name in zip(runs, names, strict=True):
        said = [f"certificates: {certificates(run.summary)}"] if run.certifies else []
        text = "; ".join([*said, *remarks(run.summary)])
        notes += [f"{name}: {text}" if len(runs) > 1 else text] if text else []
    return notes


def certified_curves(summaries: Sequence[Summary]) -> Curves | None:
    """Certified accuracy, the runs overlaid; None if no run certifies."""
    certifying = [summary for summary in summaries if summary.kind == "certify"]
    table = accuracy_table(certifying)
    if table is None:
        return None
    curves = [
        Curve(f"{name}: median {median(summary.median)}", summary.certified_accuracy, dot=summary.median)
        for summary, name in zip(certifying, labels(certifying), strict=True)
    ]
    title = "certified accuracy against the radius, curve by curve as listed"
    caption = "Share of inputs certified for their true class. Dots: medians; dotted line: one half."
    radius = radius_name(certifying)
    table = replace(table, caption=f"Certified accuracy by {radius}")
    return Curves([CurvesChart(title, caption, radius, curves)], [table])


def histograms(runs: Sequence[Run], outcomes: Sequence[Sequence[Outcome]]) -> list[BarsChart]:
    """How many inputs have which radius, a chart for each run that certifies."""
    pairs = [(run.summary, every) for run, every in zip(runs, outcomes, strict=True) if run.certifies]
    names = labels([summary for summary, _ in pairs]) if pairs else []
    return [
        BarsChart(
            title=f"number of inputs by certified radius, {name}",
            caption=f"Inputs by certified radius: {certificates(summary)}.",
            x_label=f"certified radius ({radius_name([summary])})",
            bars=radius_bars(every),
            heading=name if len(pairs) > 1 else "",
        )
        for (summary, every), name in zip(pairs, names, strict=True)
    ]


def radius_bars(every: Sequence[Outcome]) -> list[Bar]:
    """A bar for each radius from 0 on, or for equally many of them; before these one for the abstentions, if any."""
    right = Counter(one.radius for one in every if one.radius is not None and one.right)
    wrong = Counter(one.radius for one in every if one.radius is not None and not one.right)
    abstained = sum(one.radius is None for one in every)
    largest = max([0, *right, *wrong])
    width = -(-(largest + 1) // MOST_BARS)
    bars = [Bar("none", abstained=abstained)] if abstained else []
    for start in range(0, largest + 1, width):
        radii = range(start, start + width)
        label = str(start) if width == 1 else f"{start}-{start + width - 1}"
        bars.append(Bar(label, sum(right[rho] for rho in radii), sum(wrong[rho] for rho in radii)))
    return bars


def class_tables(
    runs: Sequence[Run], outcomes: Sequence[Sequence[Outcome]], names: Sequence[Sequence[str]]
) -> list[Table]:
    """Accuracy by true class: for a lone run with all that is certified, for several runs a column each."""
    if len(runs) == 1:
        return [_one_by_class(runs[0], list(outcomes[0]), names[0])]
    tables = []
    sets = list(dict.fromkeys(_data(run) for run in runs))
    for data in sets:
        places = [place for place, run in enumerate(runs) if _data(run) == data]
        some = [runs[place] for place in places]
        each = [by_class(runs[place], list(outcomes[place])) for place in places]
        about = "Accuracy by true class" + (f", {data[0]} {data[1]}" if len(sets) > 1 else "")
        certifying = any(run.certifies for run in some)
        about += ", and the median certified radius in brackets" if certifying else ""
        rows = []
        for label, name in enumerate(names[places[0]]):
            cells = []
            for run, found in zip(some, each, strict=True):
                middle = f" ({median(median_certified_robustness(found[label].robustness))})" if run.certifies else ""
                accuracy = found[label].accuracy
                cells.append(NOT_APPLICABLE if accuracy is None else f"{percent(accuracy)}{middle}")
            rows.append((name, *cells))
        tables.append(Table(("class", *labels([run.summary for run in some])), tuple(rows), about))
    return tables


def _data(run: Run) -> tuple[str, str, str, int]:
    facts = run.records.header.run["data"]
    return facts["name"], facts["split"], facts["fingerprint"], run.records.header.run["classes"]


def _one_by_class(run: Run, every: list[Outcome], names: Sequence[str]) -> Table:
    radii = shown_radii([run.summary]) if run.certifies else []
    certified = ("median certified radius", *(f"certified at {rho}" for rho in radii)) if run.certifies else ()
    rows = []
    for name, found in zip(names, by_class(run, every), strict=True):
        accuracy = found.accuracy
        cells = [NOT_APPLICABLE] * 2
        if accuracy is not None:
            cells = [percent(accuracy), percent(found.abstained / found.answered)]
        if run.certifies and not found.robustness:
            cells += [NOT_APPLICABLE] * len(certified)
        elif run.certifies:
            shares = certified_accuracy(found.robustness)
            cells.append(median(median_certified_robustness(found.robustness)))
            cells += [percent(shares[rho] if rho < len(shares) else 0.0) for rho in radii]
        rows.append((name, str(found.answered), *cells))
    notes = () if run.predictions is None else ("Inputs, accuracy and abstentions are of the predictions.",)
    return Table(("class", "inputs", "accuracy", "abstained", *certified), tuple(rows), "By true class", notes)


def attacked(attacks: Sequence[AttackSummary], gaps: Sequence[Gap], rhos: Sequence[int]) -> Curves | None:
    """The curves under attack, beside certificates of the same images if there are any; None without attacks."""
    if not attacks:
        return None
    tables = [rho_table(attacks, rhos)]
    if not gaps:
        return Curves([_alone(attacks)], tables)
    known = {attack.path: attack for attack in attacks}
    names = attack_labels([known[gap.attack] for gap in gaps])
    charts = [_gap(gap, name) for gap, name in zip(gaps, names, strict=True)]
    return Curves(charts, [gap_table(gaps), *tables], alarms=list(filter(None, map(alarm, gaps))))


def _gap(gap: Gap, name: str) -> CurvesChart:
    """Both curves and what lies between them."""
    attacked = gap.accuracy_under_attack
    curves = [
        Curve(f"certified: median {median(gap.median_certified)}", gap.certified_accuracy, dot=gap.median_certified),
        Curve(f"not fooled by {name}: median {magnitude(gap.median_attacked)}", attacked, attacked[-1]),
    ]
    title = f"certified accuracy and accuracy under attack against rho, {name}"
    caption = (
        f"{len(gap.pairs)} images of both runs. The accuracy under the worst change lies in the shaded part, "
        "abstentions counting as fooled."
    )
    return CurvesChart(title, caption, CHANGED, curves, shaded=True)


def _alone(attacks: Sequence[AttackSummary]) -> CurvesChart:
    curves = []
    for attack, name in zip(attacks, attack_labels(attacks), strict=True):
        shares = attack.accuracy_under_attack
        curves.append(Curve(f"{name}: median {magnitude(attack.median)}", shares, shares[-1]))
    caption = "Share of images that no change of up to rho pixels was found for, abstentions counting as fooled."
    return CurvesChart("accuracy under attack against rho", caption, CHANGED, curves)
