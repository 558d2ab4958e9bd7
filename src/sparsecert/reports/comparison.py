"""Runs side by side, as text: shared settings are stated once, differing ones become columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sparsecert.errors import InputError
from sparsecert.procedures.exact import PATCHES
from sparsecert.reports.classification import FROM_ALL_MASKS, FROM_ESTIMATION
from sparsecert.reports.run_info import RunInfo
from sparsecert.reports.summary import Summary
from sparsecert.schemes import from_config

NOT_APPLICABLE = "-"  # such as a radius of predictions; the paper's "N/A" is a result
UNNAMED = (  # settings whose values need no name
    *("data", "scheme", "encoding", "bound", "chosen", "precision", "device"),
    *("model", "attack", "budget", "search"),
)
MAX_RHOS = 20
EVERY_RHO_UP_TO = 10
COMPUTED = "precision", "device"  # how a run was computed, which names it only where nothing else does
UNCERTIFIED = "without a certificate"  # the votes prove nothing; "abstained" is said of predictions

Run = TypeVar("Run")


@dataclass(frozen=True)
class Table:
    """Cells of text under headers; the caption applies to the whole table, notes to parts of it.

    `title` says what the table shows where the caption only lists settings.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str
    notes: tuple[str, ...] = ()
    title: str = ""


def run_settings(summary: Summary) -> dict[str, str]:
    """The settings behind one run's numbers, in words."""
    tested = summary.n0 is not None and not summary.certifies  # pairwise predictions: n0 + n copies were asked for as n
    return {
        "data": f"{summary.data} {summary.split}",
        "k": shown(summary.keep),
        "scheme": from_config(summary.scheme).describe().replace(" units", f" {summary.unit}"),
        "encoding": summary.encoding,
        "bound": _bound(summary),
        "n0": shown(summary.n0) + (" (chose the class)" if tested else ""),
        "n": shown(summary.n) + (" (tested it)" if tested else ""),
        "sampling": _sampling(summary),
        "alpha": "exact" if summary.exact else str(summary.alpha),
        "radius": "side of a patch" if summary.against == PATCHES else NOT_APPLICABLE,
        **common_settings(summary),
    }


def _bound(summary: Summary) -> str:
    """The bound of certificates; the rule of an election or a prediction."""
    sampled = summary.certifies and not summary.exact
    return f"{summary.bound} ({summary.certificate})" if sampled else summary.rule


def shown(value: object) -> str:
    """A setting as text."""
    return NOT_APPLICABLE if value is None else str(value)


def common_settings(summary: RunInfo) -> dict[str, str]:
    """The settings of a run of any kind: its seed, inputs, precision and device."""
    return {
        "seed": shown(summary.seed),
        "inputs": f"{summary.inputs} of {summary.expected_inputs}" if summary.incomplete else str(summary.inputs),
        "chosen": NOT_APPLICABLE if summary.chosen is None else f"chosen at {summary.chosen}",
        "precision": summary.precision,
        "device": f"{summary.device} ({summary.device_name})" if summary.device_name else summary.device,
    }


def _sampling(summary: Summary) -> str:
    """The stopping rule of a sequential run."""
    if summary.sampling is None:
        return NOT_APPLICABLE
    asked, tolerance = summary.sampling.get("at_least"), summary.sampling.get("tolerance")
    ended = f"gain below {tolerance} per 1000" if asked is None else f"radius at least {asked}, or not"
    return f"sequential ({ended}, {summary.mean_samples:.0f} on average)"


def shared_settings(summaries: Sequence[Summary]) -> dict[str, str]:
    """The settings that all runs share."""
    return shared_items([run_settings(summary) for summary in summaries])


def shared_items(each: Sequence[dict[str, str]]) -> dict[str, str]:
    if not each:
        raise InputError("summaries must hold at least one run, got none; name a records file")
    first, *others = each
    return {name: text for name, text in first.items() if all(other.get(name) == text for other in others)}


def run_names(summaries: Sequence[Summary]) -> list[str]:
    """A unique name for each run: its label, else k for a single run, what differs between them for several."""
    each = [run_settings(summary) for summary in summaries]
    lone = "scheme" if each and each[0]["k"] == NOT_APPLICABLE else "k"
    return distinct_names(summaries, each, lone)


def distinct_names(runs: Sequence[RunInfo], each: Sequence[dict[str, str]], lone: str) -> list[str]:
    """A unique name for each run: its label, if any, and what differs between the runs of the same label.

    `each` are the runs' settings, of which `lone` names a single run without a label.
    """
    names = [run.label or "" for run in runs]
    for label in dict.fromkeys(names):
        places = [place for place, name in enumerate(names) if name == label]
        some = [each[place] for place in places]
        if len(places) > 1:
            differ = _differences([runs[place] for place in places], some)
        else:
            differ = [""] if label else [settings_line({lone: some[0][lone]})]
        for place, text in zip(places, differ, strict=True):
            names[place] = ", ".join(filter(None, (label, text))) or runs[place].kind
    return [f"{name}, row {row}" if names.count(name) > 1 else name for row, name in enumerate(names, start=1)]


def _differences(runs: Sequence[RunInfo], each: Sequence[dict[str, str]]) -> list[str]:
    """What distinguishes these runs: the settings in which they differ; names still alike are extended by settings that
    apply to some runs alone, the model, how it was computed, and the path.
    """
    common = shared_items(each)
    differing = [name for name in each[0] if name not in common]
    values = {name: {known[name] for known in each} - {NOT_APPLICABLE} for name in differing}
    first = [name for name in differing if name not in COMPUTED and (name == "k" or len(values[name]) > 1)]
    rest = [name for name in differing if name not in first and name not in COMPUTED]
    names = [settings_line({name: known[name] for name in first}) for known in _own_words(runs, each)]
    names = _extended(names, [settings_line({name: known[name] for name in rest}) for known in each])
    names = _extended(names, [run.model_file for run in runs])
    names = _extended(names, [settings_line({name: known[name] for name in COMPUTED}) for known in each])
    return _extended(names, [str(run.path) for run in runs], _own_parts)


def _extended(
    names: Sequence[str], texts: Sequence[str], shorten: Callable[[Sequence[str]], Sequence[str]] = list
) -> list[str]:
    """Adds its text to each name that another run has too, where the texts of these differ."""
    found = list(names)
    for name in dict.fromkeys(names):
        places = [place for place, other in enumerate(names) if other == name]
        alike = [texts[place] for place in places]
        if len(set(alike)) > 1:
            for place, text in zip(places, shorten(alike), strict=True):
                found[place] = ", ".join(filter(None, (name, text)))
    return found


def _own_words(runs: Sequence[RunInfo], each: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The settings in fewer words: without those of the data and the scheme that all runs share, the size of an input,
    which its data set determines, and the theorem behind a bound.
    """
    data, schemes = [known["data"].split() for known in each], [known.get("scheme", "").split(", ") for known in each]
    shorter = []
    for run, known, name, scheme in zip(runs, each, data, schemes, strict=True):
        words = [word for word in scheme if not all(word in other for other in schemes) and not word.endswith(run.unit)]
        own = {
            "data": " ".join(word for word in name if not all(word in other for other in data)),
            "scheme": ", ".join(words),
            "bound": known.get("bound", "").partition(" (")[0],
        }
        shorter.append({**known, **own})
    return shorter


def _own_parts(paths: Sequence[str]) -> list[str]:
    """The paths without the folders and names that all of them share at the start and at the end."""
    parts = [Path(path).parts for path in paths]
    most = min(map(len, parts)) - 1
    start = next((i for i in range(most) if len({part[i] for part in parts}) > 1), most)
    end = next((i for i in range(most - start) if len({part[-1 - i] for part in parts}) > 1), most - start)
    return [str(Path(*part[start : len(part) - end])) for part in parts]


def settings_line(named: dict[str, str]) -> str:
    return ", ".join(_named(name, text) for name, text in named.items() if text not in ("", NOT_APPLICABLE))


def results_table(summaries: Sequence[Summary]) -> Table:
    """One row per run: label, the settings in which it differs, accuracy and medians; the rest is in the notes."""
    shared = shared_settings(summaries)
    columns = [name for name in run_settings(summaries[0]) if name not in shared]
    labels = [[name] for name in run_names(summaries)] if any(one.label for one in summaries) else [[]] * len(summaries)
    certifies = any(summary.certifies for summary in summaries)
    measure, passes = measure_name(summaries), any(summary.exact for summary in summaries)
    constant = any(summary.most_frequent is not None for summary in summaries)
    numbers = [run_numbers(summary, certifies, measure, passes, constant) for summary in summaries]
    rows = [
        (*label, *(run_settings(summary)[name] for name in columns), *found.values())
        for label, summary, found in zip(labels, summaries, numbers, strict=True)
    ]
    notes = ["; ".join((summary.source, *remarks(summary))) for summary in summaries]
    if len(summaries) > 1:
        notes = [f"{name}: {note}" for name, note in zip(run_names(summaries), notes, strict=True)]
    headers = (*(["run"] if labels[0] else []), *columns, *numbers[0])
    return Table(headers, tuple(rows), settings_line(shared), tuple(notes), f"Accuracy and median certified {measure}")


def radius_name(summaries: Sequence[Summary]) -> str:
    """What the radii of these runs are: rho (a number of units), the side of a patch, or both."""
    patches = {summary.against == PATCHES for summary in summaries if summary.certifies} or {False}
    return " or ".join(name for name, side in (("rho", False), ("patch side", True)) if side in patches)


def measure_name(summaries: Sequence[Summary]) -> str:
    """What the medians of these runs measure."""
    return radius_name(summaries).replace("rho", "robustness")


def run_numbers(
    summary: Summary, certifies: bool, measure: str = "robustness", passes: bool = False, constant: bool = False
) -> dict[str, str]:
    """The headline numbers of one run, as text.

    Medians, of what `measure` names (see `measure_name`), forward `passes`, and the accuracy of a `constant` answer
    are included on request.
    """
    medians = {
        f"median certified {measure}": summary.median,
        "median among correctly certified": summary.median_among_certified,
        "median by the reference convention": summary.median_reference,
    }
    numbers = {"accuracy (abstained)": f"{format_percent(summary.accuracy)} ({format_percent(summary.abstained)})"}
    if constant:
        numbers["most frequent class"] = _most_frequent(summary)
    if certifies:
        numbers |= {
            name: format_median(value) if summary.certifies else NOT_APPLICABLE for name, value in medians.items()
        }
        if summary.median_share is not None:
            numbers[next(iter(medians))] += f" ({format_percent(float(summary.median_share))} of the {summary.unit})"
    if passes:
        numbers["forward passes per input"] = f"{summary.mean_samples:g}"
    return {**numbers, "seconds per input": f"{summary.mean_seconds:.3g}"}


def _most_frequent(summary: Summary) -> str:
    if summary.most_frequent is None:
        return NOT_APPLICABLE
    name, share = summary.most_frequent
    return f"{format_percent(share)} ({name})"


def remarks(summary: Summary) -> list[str]:
    """What else there is to know of one run's numbers."""
    found = []
    if summary.independent:
        found.append(
            "parts trained independently: radii hold if the same units are perturbed in the training inputs too"
        )
    if summary.shard is not None:
        found.append(f"shard {summary.shard} of the run")
    if summary.answers is not None and summary.sampling is not None:
        counts = ", ".join(f"{answer} {count}" for answer, count in summary.answers.items())
        found.append(f"radius at least {summary.sampling['at_least']}: {counts}")
    if summary.incomplete:
        found.append(f"incomplete, {summary.inputs} of {summary.expected_inputs} inputs are recorded")
    if summary.recertified and summary.exact:
        run = " against ".join(filter(None, [summary.run_bound, summary.run_against]))
        found.append(f"recomputed from the recorded rankings; the run itself used {run}")
    elif summary.recertified:
        run = ", ".join([f"alpha = {summary.run_alpha}", *filter(None, [summary.run_bound])])
        found.append(f"recomputed from the recorded votes; the run itself used {run}")
    if summary.exact and summary.seconds:
        found.append(f"radii use linear programs of up to {summary.seconds:g} s each")
    if summary.certifies and summary.classified_from not in (FROM_ESTIMATION, FROM_ALL_MASKS):
        c = summary.classification
        found.append(f"accuracy from {c.source}, {c.inputs} of {c.expected} inputs, n = {c.n}, seed = {c.seed}")
    if summary.invalid_votes:
        found.append(f"{summary.invalid_votes} ablated copies had non-finite scores and voted for no class")
    return found


def certificates_line(summary: Summary) -> str:
    """The number of inputs by outcome: certified (for the true class, at radius 0), for a wrong class, not at all."""
    right = f"{summary.certified} for the true class ({summary.certified_at_zero} of them at radius 0)"
    return f"{right}, {summary.wrong_certificates} for a wrong class, {summary.uncertified} {UNCERTIFIED}"


def accuracy_table(summaries: Sequence[Summary]) -> Table | None:
    """Certified accuracy, one row per rho and one column per run; None if no run certifies.

    Shows at most MAX_RHOS radii; a note says which are left out.
    """
    certifying = [summary for summary in summaries if summary.certifies]
    if not certifying:
        return None
    rhos, note = select_rhos(max(len(summary.certified_accuracy) for summary in certifying) - 1)
    names = ["certified accuracy"] if len(certifying) == 1 else run_names(certifying)
    rows = rows_by_rho(rhos, certifying, lambda one, rho: format_percent(one.certified_accuracy_at(rho) or 0.0))
    seconds = ", ".join(f"{summary.mean_seconds:.3g}" for summary in certifying)
    caption = f"{settings_line(shared_settings(certifying))}, seconds per input: {seconds}"
    return Table((radius_name(certifying), *names), rows, caption, note, "Certified accuracy")


def rows_by_rho(
    rhos: Sequence[int], runs: Sequence[Run], cell: Callable[[Run, int], str]
) -> tuple[tuple[str, ...], ...]:
    """One row per rho, one column per run."""
    return tuple((str(rho), *(cell(run, rho) for run in runs)) for rho in rhos)


def select_rhos(largest: int, every: int = EVERY_RHO_UP_TO, hint: str = "") -> tuple[list[int], tuple[str, ...]]:
    """The radii that a table shows: all up to `every`, then evenly spaced ones up to the largest; and a note on it."""
    if largest < MAX_RHOS:
        return list(range(max(largest, 0) + 1)), ()
    step = -(-(largest - every) // (MAX_RHOS - every - 1))
    first = f"all up to {every}, then " if every else ""
    note = f"rho: {first}in steps of {step}, and {largest}; {hint}csv and json list all"
    return [*range(every + 1), *range(every + step, largest, step), largest], (note,)


def format_percent(share: float) -> str:
    """A share as a percentage, as the paper prints it."""
    return f"{100 * share:.2f}%"


def format_median(value: int | None) -> str:
    """A median certified robustness as the paper prints it."""
    return "N/A" if value is None else str(value)


def _named(name: str, text: str) -> str:
    if name == "inputs":
        return f"{text} inputs"
    if name == "alpha" and text == "exact":
        return "exact (no alpha)"
    if name == "radius":
        return f"radius: {text}"
    return text if name in UNNAMED else f"{name} = {text}"
