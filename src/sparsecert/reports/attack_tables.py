"""Attack runs as text, alone or compared with certificates."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from statistics import median

from sparsecert.errors import InputError
from sparsecert.records.attack_records import ANY
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.comparison import (
    NOT_APPLICABLE,
    Table,
    common_settings,
    distinct_names,
    format_median,
    format_percent,
    rows_by_rho,
    select_rhos,
    settings_line,
    shared_items,
    shown,
)
from sparsecert.reports.gap import Gap
from sparsecert.reports.summary import Summary
from sparsecert.reports.tables import FORMATS, csv_text, list_text, plain_values, table_text

BROKEN_LABEL = "attacks that succeed within the certified radius"
BEYOND_LABEL = "certified inputs misclassified, and how far beyond the radius"


def attack_settings(summary: AttackSummary) -> dict[str, str]:
    """The settings behind one attack run's numbers, in words."""
    name, *settings = summary.attack.items()
    return {
        "data": f"{summary.data} {summary.split}",
        "model": summary.model_file,
        "k": shown(summary.keep),
        "attack": " ".join([str(name[1]), *(f"{key}={value}" for key, value in settings)]),
        "budget": "no budget" if summary.budget is None else f"at most {summary.budget} {summary.unit}",
        "goal": NOT_APPLICABLE if summary.goal == ANY else summary.goal,
        "n": shown(summary.n),
        "alpha": shown(summary.alpha),
        "search": _search(summary),
        **common_settings(summary),
    }


def _search(summary: AttackSummary) -> str:
    if summary.masks is None:
        return NOT_APPLICABLE
    if summary.rule is not None and summary.n is None:
        return f"{summary.rule} of all {summary.masks} masks"
    error = "" if summary.error is None else f" (error {summary.error})"
    return f"{summary.rule + ', ' if summary.rule else ''}{summary.masks} masks{error}"


def attack_numbers(summary: AttackSummary) -> dict[str, str]:
    """The headline numbers of one attack run, as text."""
    abstained = NOT_APPLICABLE if summary.abstained is None else format_percent(summary.abstained)
    return {
        "clean accuracy": format_percent(summary.clean_accuracy),
        "median adversarial attack magnitude": format_magnitude(summary.median),
        "fooled, of those classified correctly": f"{summary.successes} of {summary.right}",
        "by abstention": abstained,
        "queries (evaluations) per input": f"{summary.mean_queries:,.0f} ({summary.mean_evaluations:,.0f})",
        "seconds per input": f"{summary.mean_seconds:.3g}",
    }


def format_magnitude(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else "infinite"


def attack_remarks(summary: AttackSummary) -> list[str]:
    """Caveats to one attack run's numbers."""
    found = []
    if summary.incomplete:
        found.append(f"incomplete, {summary.inputs} of {summary.expected_inputs} inputs are recorded")
    if summary.failed:
        found.append(f"the model gave no answer to {summary.failed} inputs, which are left out")
    return found


def attack_names(summaries: Sequence[AttackSummary]) -> list[str]:
    """A unique name for each attack run: its label, else its attack or model if those differ, else all that does."""
    each = [attack_settings(summary) for summary in summaries]
    for names in (["attack"], ["model"], ["model", "attack"]):
        short = [
            summary.label or ", ".join(known[name] for name in names)
            for known, summary in zip(each, summaries, strict=True)
        ]
        if len(set(short)) == len(short):
            return short
    return distinct_names(summaries, each, "attack")


def attack_table(summaries: Sequence[AttackSummary]) -> Table:
    """One row per attack run; the notes list the settings in which they differ."""
    each, names = [attack_settings(summary) for summary in summaries], attack_names(summaries)
    common, several = shared_items(each), len(summaries) > 1
    rows = [
        (*([name] if several else []), *attack_numbers(summary).values())
        for name, summary in zip(names, summaries, strict=True)
    ]
    notes = []
    for name, known, summary in zip(names, each, summaries, strict=True):
        own = settings_line({key: text for key, text in known.items() if key not in common})
        note = "; ".join(filter(None, [own, summary.source, *attack_remarks(summary)]))
        notes.append(f"{name}: {note}" if several else note)
    headers = (*(["attack run"] if several else []), *attack_numbers(summaries[0]))
    return Table(headers, tuple(rows), settings_line(common), tuple(notes), "Attacks")


def rho_table(summaries: Sequence[AttackSummary], rhos: Sequence[int]) -> Table:
    """Accuracy under attack (and the attack's success rate), one row per rho: those given, or as many as fit."""
    largest = max(len(summary.accuracy_under_attack) for summary in summaries) - 1
    selected, notes = (rhos, ()) if rhos else select_rhos(largest, every=0, hint="choose others with --rho; ")
    headers = ["accuracy under attack (success rate)"] if len(summaries) == 1 else attack_names(summaries)
    rows = rows_by_rho(
        selected,
        summaries,
        lambda one, rho: f"{format_percent(one.accuracy_at(rho))} ({format_percent(one.success_at(rho))})",
    )
    goals = {summary.goal for summary in summaries}
    counting = "abstentions counting as fooled" if ANY in goals else "abstentions not counting as fooled"
    counting += " unless the goal is to misclassify" if len(goals) > 1 else ""
    caption = (
        f"accuracy under attacks on up to rho {summaries[0].unit}, {counting} "
        "(in brackets: the success rate on inputs classified correctly without the attack)"
    )
    return Table(("rho", *headers), rows, caption, notes, "Accuracy under attack")


def gap_table(gaps: Sequence[Gap]) -> Table:
    """Certificates compared with attacks, one row per pair of runs."""
    rows = [
        (
            str(gap.certificates),
            str(gap.attack),
            str(len(gap.pairs)),
            format_median(gap.median_certified),
            format_magnitude(gap.median_attacked),
            f"{len(gap.broken)} of {gap.certified}",
            str(gap.abstained_within),
            _beyond(gap),
        )
        for gap in gaps
    ]
    medians = "median certified robustness", "median adversarial attack magnitude"
    within = BROKEN_LABEL, "abstentions within it"
    headers = "certificates", "attack", "inputs of both", *medians, *within, BEYOND_LABEL
    caption = "a certificate rules out other answers within its radius, not abstentions"
    alarms = tuple(filter(None, map(alarm, gaps)))
    return Table(headers, tuple(rows), caption, alarms, "Certificates and attacks")


def _beyond(gap: Gap) -> str:
    """How many certified inputs were misclassified, and how far beyond their radius, at least and at median."""
    if not gap.beyond:
        return "none"
    return f"{len(gap.beyond)}, by {min(gap.beyond)} at least, {median(gap.beyond):g} at median"


def alarm(gap: Gap) -> str | None:
    """A warning if an attack breaks certificates; None if none does."""
    if not gap.broken:
        return None
    named = ", ".join(map(str, gap.broken[:10])) + (", ..." if len(gap.broken) > 10 else "")
    sampled = (
        "each certificate may fail with probability alpha; more failures than that mean that one of the two is wrong"
    )
    exact = "an exact certificate never fails: one of the two is wrong, or the model's scores depend on the batch"
    certified, attacked = gap.computed
    fault = "NOT SOUND"
    if gap.exact and certified != attacked:
        fault = "NOT COMPARABLE"
        exact = (
            f"these were made on {certified}, the attack on {attacked}: scores are rounded differently; certify there"
        )
    return (
        f"{fault}: {gap.attack} changes the answer to {len(gap.broken)} of {gap.certified} certified inputs within "
        f"the radius that {gap.certificates} proves for them (inputs {named}); {exact if gap.exact else sampled}"
    )


def attack_report(
    summaries: Sequence[Summary],
    attacks: Sequence[AttackSummary],
    gaps: Sequence[Gap],
    form: str,
    rhos: Sequence[int] = (),
) -> str:
    """Certificates, attacks and their comparison, in the named format.

    csv has one kind of row, so it takes attacks alone.
    """
    if form == "json":
        return _json(summaries, attacks, gaps)
    if form == "csv":
        return _csv(summaries, attacks)
    parts = [FORMATS[form](summaries)] if summaries else []
    if form == "terminal":
        parts += [_run_text(attacks[0])] if len(attacks) == 1 else [table_text(attack_table(attacks), form)]
        parts += [table_text(rho_table(attacks, rhos), form), *map(_gap_lines, gaps)]
    else:
        tables = [attack_table(attacks), rho_table(attacks, rhos), *([gap_table(gaps)] if gaps else [])]
        parts += [table_text(table, form) for table in tables]
    return "\n".join(parts)


def _run_text(summary: AttackSummary) -> str:
    """One attack run as a list."""
    lines = [*attack_numbers(summary).items(), *attack_settings(summary).items(), ("records", summary.source)]
    remarks = [("note", remark) for remark in attack_remarks(summary)]
    return list_text([(name, text) for name, text in [*lines, *remarks] if text != NOT_APPLICABLE])


def _gap_lines(gap: Gap) -> str:
    """Certificates compared with an attack, for a screen."""
    lines = [
        f"{gap.certificates} against {gap.attack}: {len(gap.pairs)} inputs of both",
        f"median certified robustness {format_median(gap.median_certified)}, "
        f"median adversarial attack magnitude {format_magnitude(gap.median_attacked)}",
        f"{BROKEN_LABEL}: {len(gap.broken)} of {gap.certified}",
    ]
    if gap.abstained_within:
        lines.append(f"abstentions within it, which a certificate does not rule out: {gap.abstained_within}")
    lines.append(f"{BEYOND_LABEL}: {_beyond(gap)}")
    return "\n".join([*lines, *filter(None, [alarm(gap)]), ""])


def _json(summaries: Sequence[Summary], attacks: Sequence[AttackSummary], gaps: Sequence[Gap]) -> str:
    """A single attack run as an object; otherwise a list of each kind."""
    alone = not summaries and len(attacks) == 1
    values = {
        "certify": [summary.to_dict() for summary in summaries],
        "attack": [summary.to_dict() for summary in attacks],
        "gap": [gap.to_dict() for gap in gaps],
    }
    return json.dumps(values["attack"][0] if alone else values, indent=2, allow_nan=False) + "\n"


def _csv(summaries: Sequence[Summary], attacks: Sequence[AttackSummary]) -> str:
    """One row per attack run, unrounded; accuracy under attack in the columns accuracy_under_attack_0, _1, ..."""
    if summaries:
        raise InputError("csv has one kind of row; name certify or attack records alone, or use --format json")
    rhos = range(max(len(summary.accuracy_under_attack) for summary in attacks))
    rows = []
    for summary in attacks:
        settings = {f"attack_{key}": value for key, value in summary.attack.items()}
        shares = {f"accuracy_under_attack_{rho}": summary.accuracy_at(rho) for rho in rhos}
        rows.append(plain_values(summary) | settings | shares)
    return csv_text(rows)
