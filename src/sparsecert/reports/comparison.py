"""Runs side by side, as text: what they share is said once, where they differ becomes a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecert.errors import InputError
from sparsecert.procedures.exact import PATCHES
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.classification import FROM_ALL_MASKS, FROM_ESTIMATION
from sparsecert.reports.summary import Summary

NOT_APPLICABLE = "-"  # predictions certify nothing; "N/A" is an answer, this is the absence of the question
WORDS = (  # facts that need no name
    *("data", "scheme", "encoding", "bound", "chosen", "precision", "device"),
    *("model", "attack", "budget", "search"),
)
UNSAID = ("rounds", 1), ("seed", 0)
MOST_RHOS = 20
EVERY_RHO_UP_TO = 10


@dataclass(frozen=True)
class Table:
    """Cells of text under headers; below them the facts that hold for the whole table, and remarks."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str
    notes: tuple[str, ...] = ()


def facts(summary: Summary) -> dict[str, str]:
    """What decided the numbers of one run, in words."""
    certifies = summary.kind == "certify"
    return {
        "data": f"{summary.data} {summary.split}",
        "k": str(summary.scheme.get("keep", NOT_APPLICABLE)),
        "scheme": _scheme(summary.scheme),
        "encoding": summary.encoding,
        "bound": _bound(summary),
        "n0": str(summary.n0) if certifies and not summary.exact else NOT_APPLICABLE,
        "n": NOT_APPLICABLE if summary.exact else str(summary.n),
        "sampling": _sampling(summary),
        "alpha": "exact" if summary.exact else str(summary.alpha),
        "radius": "side of a patch" if summary.against == PATCHES else NOT_APPLICABLE,
        **run_facts(summary),
    }


def _scheme(config: dict[str, Any]) -> str:
    """A scheme's kind and numbers; what a fixed set of masks has by default goes unsaid."""
    words = [str(config["kind"])]
    for name, value in config.items():
        if name == "height":
            words.append(f"{value} x {config.get('width')} pixels")
        elif name == "rows":
            words += ["rows"] if value else []
        elif name in ("size", "seed") and value:
            words.append(f"{name} {value}")
        elif name not in ("kind", "keep", "width") and (name, value) not in UNSAID:
            words.append(f"{value} {name}")
    return ", ".join(words)


def _bound(summary: Summary) -> str:
    if summary.exact:
        return str(summary.bound)
    return f"{summary.bound} ({summary.certificate})" if summary.kind == "certify" else NOT_APPLICABLE


def run_facts(summary: Summary | AttackSummary) -> dict[str, str]:
    """What is said of a run of any kind: its seed, its inputs and where it was computed."""
    return {
        "seed": NOT_APPLICABLE if summary.seed is None else str(summary.seed),
        "inputs": f"{summary.inputs} of {summary.expected_inputs}" if summary.incomplete else str(summary.inputs),
        "chosen": NOT_APPLICABLE if summary.chosen is None else f"chosen at {summary.chosen}",
        "precision": summary.precision,
        "device": f"{summary.device} ({summary.device_name})" if summary.device_name else summary.device,
    }


def _sampling(summary: Summary) -> str:
    """What ended the samples of an input where that was not their number."""
    if summary.sampling is None:
        return NOT_APPLICABLE
    asked, tolerance = summary.sampling.get("at_least"), summary.sampling.get("tolerance")
    ended = f"gain below {tolerance} per 1000" if asked is None else f"radius at least {asked}, or not"
    return f"sequential ({ended}, {summary.mean_samples:.0f} on average)"


def source(summary: Summary) -> str:
    """Where one run's numbers come from."""
    return f"{summary.path}, model {summary.model_file} {summary.model_sha256[:8]}"


def shared_facts(summaries: Sequence[Summary]) -> dict[str, str]:
    """The facts that all runs have in common."""
    return shared([facts(summary) for summary in summaries])


def shared(each: Sequence[dict[str, str]]) -> dict[str, str]:
    """Of the facts of several runs, those that all have in common."""
    if not each:
        raise InputError("summaries must hold at least one run, got none; name a records file")
    first, *others = each
    return {name: text for name, text in first.items() if all(other.get(name) == text for other in others)}


def labels(summaries: Sequence[Summary]) -> list[str]:
    """A name for each run, no two alike: k for a lone run, the facts in which they differ for several."""
    each = [facts(summary) for summary in summaries]
    lone = "scheme" if each and each[0]["k"] == NOT_APPLICABLE else "k"
    return told_apart(each, lone, [summary.kind for summary in summaries], [summary.path for summary in summaries])


def told_apart(each: Sequence[dict[str, str]], lone: str, kinds: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """A name for each run by its facts, no two alike: `lone` names a lone run, the kind one with nothing of its own."""
    common = {} if len(each) == 1 else shared(each)
    shown = [lone] if len(each) == 1 else [name for name in each[0] if name not in common]
    names = [sentence({name: known[name] for name in shown}) or kind for known, kind in zip(each, kinds, strict=True)]
    if len(set(names)) == len(names):
        return names
    by_path = [f"{name}, {path}" for name, path in zip(names, paths, strict=True)]
    alike = {name for name in by_path if by_path.count(name) > 1}
    return [f"{name}, row {row}" if name in alike else name for row, name in enumerate(by_path, start=1)]


def sentence(named: dict[str, str]) -> str:
    """Facts as one line."""
    return ", ".join(_named(name, text) for name, text in named.items() if text != NOT_APPLICABLE)


def results_table(summaries: Sequence[Summary]) -> Table:
    """One row per run: where it differs from the others, its accuracy and its medians; everything else in the notes."""
    shared = shared_facts(summaries)
    columns = [name for name in facts(summaries[0]) if name not in shared]
    certifies = any(summary.kind == "certify" for summary in summaries)
    measure, passes = measured_in(summaries), any(summary.exact for summary in summaries)
    numbers = [results(summary, certifies, measure, passes) for summary in summaries]
    rows = [
        (*(facts(summary)[name] for name in columns), *found.values())
        for summary, found in zip(summaries, numbers, strict=True)
    ]
    notes = ["; ".join((source(summary), *remarks(summary))) for summary in summaries]
    if len(summaries) > 1:
        notes = [f"{name}: {note}" for name, note in zip(labels(summaries), notes, strict=True)]
    return Table((*columns, *numbers[0]), tuple(rows), sentence(shared), tuple(notes))


def measured_in(summaries: Sequence[Summary]) -> str:
    """What a median of these runs is of: robustness is a number of pixels, except where it is the side of a patch."""
    kinds = {summary.against == PATCHES for summary in summaries if summary.kind == "certify"}
    return {frozenset({True}): "patch side", frozenset({True, False}): "robustness or patch side"}.get(
        frozenset(kinds), "robustness"
    )


def results(summary: Summary, certifies: bool, measure: str = "robustness", passes: bool = False) -> dict[str, str]:
    """The headline numbers of one run, in words; without the medians where no run certifies anything.

    `measure` is what the medians are of (see `measured_in`); forward `passes` are shown where asked for.
    """
    medians = {
        f"median certified {measure}": summary.median,
        "median among correctly certified": summary.median_among_certified,
        "median by the reference convention": summary.median_reference,
    }
    known = summary.kind == "certify"
    return {
        "accuracy (abstained)": f"{percent(summary.accuracy)} ({percent(summary.abstained)})",
        **({name: median(value) if known else NOT_APPLICABLE for name, value in medians.items()} if certifies else {}),
        **({"forward passes per input": f"{summary.mean_samples:g}"} if passes else {}),
        "seconds per input": f"{summary.mean_seconds:.3g}",
    }


def remarks(summary: Summary) -> list[str]:
    """What a reader of one run's numbers has to know besides its facts."""
    found = []
    if summary.shard is not None:
        found.append(f"shard {summary.shard} of the run")
    if summary.answers is not None and summary.sampling is not None:
        counts = ", ".join(f"{answer} {count}" for answer, count in summary.answers.items())
        found.append(f"radius at least {summary.sampling['at_least']}: {counts}")
    if summary.incomplete:
        found.append(f"incomplete, {summary.inputs} of {summary.expected_inputs} inputs are recorded")
    if summary.recertified and summary.exact:
        run = " against ".join(filter(None, [summary.run_bound, summary.run_against]))
        found.append(f"derived again from the recorded rankings; the run itself used {run}")
    elif summary.recertified:
        run = ", ".join([f"alpha = {summary.run_alpha}", *filter(None, [summary.run_bound])])
        found.append(f"derived again from the recorded votes; the run itself used {run}")
    if summary.exact and summary.seconds:
        found.append(f"linear programs of up to {summary.seconds:g} s each took part in the radii")
    if summary.kind == "certify" and summary.classified_from not in (FROM_ESTIMATION, FROM_ALL_MASKS):
        c = summary.classification
        found.append(f"accuracy from {c.source}, {c.inputs} of {c.expected} inputs, n = {c.n}, seed = {c.seed}")
    if summary.invalid_votes:
        found.append(f"{summary.invalid_votes} ablated copies gave scores that are not finite and voted for nobody")
    return found


def certificates(summary: Summary) -> str:
    """How many inputs are in each of the states a certificate can have."""
    right = f"{summary.certified} for the true class ({summary.certified_at_zero} of them at radius 0)"
    return f"{right}, {summary.wrong_certificates} for a wrong class, {summary.abstained_certificates} abstained"


def accuracy_table(summaries: Sequence[Summary]) -> Table | None:
    """Certified accuracy, one row per rho and one column per run; None when no run certifies anything.

    Beyond MOST_RHOS radii some are left out, and a note says which.
    """
    certifying = [summary for summary in summaries if summary.kind == "certify"]
    if not certifying:
        return None
    rhos, note = shown_rhos(max(len(summary.certified_accuracy) for summary in certifying) - 1)
    names = ["certified accuracy"] if len(certifying) == 1 else labels(certifying)
    rows = ((str(rho), *(percent(summary.certified_accuracy_at(rho) or 0.0) for summary in certifying)) for rho in rhos)
    seconds = ", ".join(f"{summary.mean_seconds:.3g}" for summary in certifying)
    caption = f"{sentence(shared_facts(certifying))}, seconds per input: {seconds}"
    return Table((radius_name(certifying), *names), tuple(rows), caption, note)


def radius_name(summaries: Sequence[Summary]) -> str:
    """What a radius of these runs is called."""
    words = {"robustness": "rho", "patch side": "patch side", "robustness or patch side": "rho or patch side"}
    return words[measured_in(summaries)]


def shown_rhos(largest: int) -> tuple[list[int], tuple[str, ...]]:
    """The radii a table shows, 0 and the largest always among them, and the note that says what was left out."""
    if largest < MOST_RHOS:
        return list(range(max(largest, 0) + 1)), ()
    step = -(-(largest - EVERY_RHO_UP_TO) // (MOST_RHOS - EVERY_RHO_UP_TO - 1))
    rhos = [*range(EVERY_RHO_UP_TO + 1), *range(EVERY_RHO_UP_TO + step, largest, step), largest]
    note = f"rho: every one up to {EVERY_RHO_UP_TO}, then in steps of {step}, and {largest}; csv and json have them all"
    return rhos, (note,)


def percent(share: float) -> str:
    """A share of 1 as the paper prints it."""
    return f"{100 * share:.2f}%"


def median(value: int | None) -> str:
    """A median certified robustness as the paper prints it."""
    return "N/A" if value is None else str(value)


def _named(name: str, text: str) -> str:
    """A fact that stands alone: numbers need their name, words do not."""
    if name == "inputs":
        return f"{text} inputs"
    if name == "alpha" and text == "exact":
        return "exact (no alpha)"
    if name == "radius":
        return f"radius: {text}"
    return text if name in WORDS else f"{name} = {text}"
