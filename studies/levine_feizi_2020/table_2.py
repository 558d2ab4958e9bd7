"""Table 2: how many pixels the Pointwise attack needs, on the same images for every classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparsecert.records import AttackRecords
from sparsecert.reports import AttackSummary, Gap, alarm, compute_gap, summarise, summarise_attack, write_gaps
from sparsecert.reports.attack_tables import BROKEN_LABEL, attack_settings, format_magnitude
from sparsecert.reports.attacks import median_magnitude
from sparsecert.reports.classification import classify
from sparsecert.reports.comparison import (
    NOT_APPLICABLE,
    Table,
    format_median,
    format_percent,
    settings_line,
    shared_items,
)
from sparsecert.schemes import from_config
from studies.levine_feizi_2020.attacked import ATTACKS, FRESH, NEED_GPU, PUBLISHED, AttackStudy
from studies.levine_feizi_2020.output import Output
from studies.levine_feizi_2020.plain_classifiers import plain_info
from studies.levine_feizi_2020.published import PublishedAttackedRow

LEAST_MEDIAN, TIMES_THE_BEST_OTHER = 25, 2  # the bars that our median has to clear
WITHIN = 12  # pixels, for which Schott et al. (2019) give accuracies
HEADERS = (
    "model", "accuracy measured", "accuracy published", "accuracy on the attacked", "median measured",
    "median published", "by abstention", "queries an image", "base evaluations an image",
)  # fmt: skip
MEDIAN_NOTE = (
    "median: of the pixels that the nearest image found changes, over all attacked images; 0 where the model is wrong "
    "or abstains as they are, infinite where nothing was found; an abstention counts as a success, as in the paper"
)
NOT_MEASURED_NOTE = "-: analysis by synthesis (Schott et al. 2019) takes a GPU to train and to attack"
NOT_FOUND_NOTE = "images for which nothing was found, infinite in the median"
CONFIRMED_NOTE = (
    "on our model the search asks the same masks throughout and stops early where a test settles a query; what it "
    "finds is kept only where all copies of fresh masks confirm it"
)
RIVALS_NOTE = (
    "on analysis by synthesis the search compares the true class with up to three rivals; what it finds is kept "
    "only where the whole inference of all classes confirms it"
)


ASKED = {FRESH: ", every query answered by all copies of fresh masks, as in the paper"}


@dataclass(frozen=True)
class AttackedRow:
    """One classifier: its published row, the attack's records, and its accuracy on `images` test images."""

    printed: PublishedAttackedRow
    attack_records: AttackRecords
    summary: AttackSummary
    accuracy: float
    images: int


def table_2(attacked: AttackStudy, others: Sequence[str] = ()) -> Output:
    """Trains and attacks what is missing; `others` are further attacks, shown with those that have records.

    Where the study has certificates of the smoothed classifier, every attack on it is checked against them.
    """
    for name in others:
        attacked.attack(name)  # refuses an unknown one before any work
    rows = [_row(attacked, model) for model in attacked.rows]
    further = _others(attacked, others)
    ours = rows[list(attacked.rows).index(attacked.ours)]
    against = {PUBLISHED: ours.attack_records, **further.get(attacked.ours, {})}
    gaps = {name: _gap(attacked, attack_records) for name, attack_records in against.items()}
    medians = {model: row.summary.median for model, row in zip(attacked.rows, rows, strict=True)}
    checked = [_certificate_note(name, gap) for name, gap in gaps.items()]
    reached = check_medians(medians.pop(attacked.ours), medians)
    if FRESH in against:
        reached += check_medians(summarise_attack(against[FRESH]).median, medians, " by fresh masks for every query")
    tables = [_table(attacked, rows, [*reached, *checked])]
    if further:
        tables.append(_table_of_others(attacked, rows, further))
    first = gaps[PUBLISHED]
    path = attacked.study.out / "figures" / "table-2-gap"
    drawn = write_gaps([first], [ours.summary], path) if isinstance(first, Gap) else []
    alarms = (alarm(gap) for gap in gaps.values() if isinstance(gap, Gap))
    return Output(tuple(tables), tuple(drawn), tuple(filter(None, alarms)))


def _row(attacked: AttackStudy, model: str) -> AttackedRow:
    attack_records = attacked.attack_records(model, PUBLISHED)
    summary = summarise_attack(attack_records)
    accuracy, images = summary.clean_accuracy, summary.attacked
    if model != attacked.ours:
        facts = plain_info(attacked.study, model)
        accuracy, images = facts.accuracy, facts.images
    elif votes := attacked.predictions(attack_records):
        scheme = from_config(votes.header.run["scheme"])
        answers = classify(votes, scheme, attacked.known.alpha, str(votes.path))
        accuracy, images = answers.accuracy, answers.inputs
    return AttackedRow(attacked.rows[model], attack_records, summary, accuracy, images)


def _others(attacked: AttackStudy, asked: Sequence[str]) -> dict[str, dict[str, AttackRecords]]:
    """For each classifier, the records of further attacks: those asked for, and those that exist."""
    found: dict[str, dict[str, AttackRecords]] = {}
    for model in attacked.rows:
        for name in ATTACKS[1:]:
            wanted = name in asked and attacked.applies(model, name)
            if wanted or attacked.has(model, name):
                found.setdefault(model, {})[name] = attacked.attack_records(model, name)
    return found


def _gap(attacked: AttackStudy, attack_records: AttackRecords) -> Gap | str:
    """An attack on the smoothed classifier compared with its certificates, or why it cannot be."""
    certificates, reason = attacked.certificates(attack_records)
    if certificates is None:
        return reason
    return compute_gap(certificates, attack_records, summarise(certificates, bound="two-sided"))


def _certificate_note(name: str, gap: Gap | str) -> str:
    """The result of checking an attack against the certificates, in words."""
    if isinstance(gap, str):
        return f"{name} is not checked against certificates: {gap}"
    medians = (
        f"medians certified {format_median(gap.median_certified)}, attacked {format_magnitude(gap.median_attacked)}"
    )
    abstentions = f"; abstentions within it, which a certificate does not rule out: {gap.abstained_within}"
    return (
        f"{BROKEN_LABEL}, {name}: {len(gap.broken)} of {gap.certified} certified "
        f"(two-sided, {gap.certificates}; {medians})"
        f"{abstentions if gap.abstained_within else ''}"
    )


def _table(attacked: AttackStudy, rows: Sequence[AttackedRow], more: Sequence[str]) -> Table:
    known, by_printed = attacked.known, {row.printed.printed: row for row in rows}
    texts = tuple(_texts(printed, by_printed.get(printed.printed)) for printed in known.rows)
    notes = (
        "accuracy measured: " + _on_how_many(rows),
        *([NOT_MEASURED_NOTE] if len(rows) < len(known.rows) else []),
        MEDIAN_NOTE,
        _within_12(rows),
        *_without_findings(rows),
        *_settings(attacked, rows),
        CONFIRMED_NOTE,
        *([RIVALS_NOTE] if set(NEED_GPU) & set(attacked.rows) else []),
        *more,
        f"published: {known.source}: {known.about}",
        *known.remarks,
    )
    caption = f"{known.data}: the Pointwise attack on plain classifiers and on ours, all on the same images"
    return Table(HEADERS, texts, caption, notes)


def _texts(printed: PublishedAttackedRow, row: AttackedRow | None) -> tuple[str, ...]:
    published = f"{printed.accuracy:.1f}%", f"{printed.median:g}"
    if row is None:
        unknown = (NOT_APPLICABLE,) * 3
        return (printed.printed, NOT_APPLICABLE, published[0], NOT_APPLICABLE, NOT_APPLICABLE, published[1], *unknown)
    summary = row.summary
    return (
        printed.printed,
        format_percent(row.accuracy),
        published[0],
        format_percent(summary.clean_accuracy),
        format_magnitude(summary.median),
        published[1],
        NOT_APPLICABLE if summary.abstained is None or summary.n is None else format_percent(summary.abstained),
        f"{summary.mean_queries:,.0f}",
        f"{summary.mean_evaluations:,.0f}",
    )


def _on_how_many(rows: Sequence[AttackedRow]) -> str:
    """On which images the accuracies were measured."""
    each = {row.printed.printed: f"{row.images:,}" for row in rows}
    if len(set(each.values())) == 1:
        return f"on {rows[0].images:,} test images"
    return "on these numbers of test images: " + ", ".join(f"{name} {images}" for name, images in each.items())


def _within_12(rows: Sequence[AttackedRow]) -> str:
    """The share of the attacked images that no attack within 12 pixels fooled, beside what was published."""
    each = []
    for row in rows:
        lines = [line for line in row.attack_records.lines if line.failed is None]
        share = sum(line.distance is None or line.distance > WITHIN for line in lines) / max(1, len(lines))
        known = "not published" if row.printed.within_12 is None else f"published {row.printed.within_12:g}%"
        each.append(f"{row.printed.printed} {format_percent(share)} ({known})")
    return f"accuracy within {WITHIN} changed pixels, on the attacked: {', '.join(each)}"


def _without_findings(rows: Sequence[AttackedRow]) -> list[str]:
    """How many images of which classes the attack failed on, if any: the medians count them as infinite.

    A network that takes all noise for one class leaves the attack no start on the images of that class.
    """
    each = []
    for row in rows:
        lines = [line for line in row.attack_records.lines if line.failed is None]
        spared = [line.true for line in lines if line.distance is None]
        if spared:
            classes = ", ".join(map(str, sorted(set(spared))))
            found = [line.distance for line in lines if line.distance is not None]
            others = f"; median of the others {median_magnitude(found):g}" if found else ""
            each.append(f"{row.printed.printed} {len(spared)} (true class {classes}{others})")
    return [f"{NOT_FOUND_NOTE}: {', '.join(each)}"] if each else []


def _settings(attacked: AttackStudy, rows: Sequence[AttackedRow]) -> list[str]:
    """The settings in words: those of all rows, those of our model, and how networks were trained."""
    each = [attack_settings(row.summary) for row in rows]
    common = shared_items(each)
    of = rows[0].attack_records.header.run["data"]["of"]
    images = f"{rows[0].summary.expected_inputs} of the {of:,} test images, evenly spaced, the same for every model"
    ours = next(facts for row, facts in zip(rows, each, strict=True) if row.printed.keep is not None)
    own = {name: text for name, text in ours.items() if name not in common and name != "model"}
    lines = [f"{settings_line(common)}: {images}", f"our model: {settings_line(own)}"]
    trained = {model: plain_info(attacked.study, model) for model in attacked.rows if model != attacked.ours}
    words = [f"{model} {facts.epochs} epochs" for model, facts in trained.items() if facts.epochs is not None]
    under = [
        f"{model} is right on {format_percent(facts.under_attack)} under the L-infinity ascent that it was trained with"
        for model, facts in trained.items()
        if facts.under_attack is not None
    ]
    return [*lines, "; ".join(["networks trained: " + ", ".join(words), *under])]


def check_medians(ours: float, others: dict[str, float], how: str = "") -> list[str]:
    """Whether our median reaches its bars: a fixed one, one relative to the simple classifiers, and the best synthesis.

    `how` says how ours was measured, where not as in the table.

    >>> check_medians(23.0, {"cnn": 9.0, "binarized": 11.0})[0]
    'bar: our median of 23 is at least 25: MISSED'
    """
    simple, synthesis = (
        {name: median for name, median in others.items() if (name in NEED_GPU) == wanted} for wanted in (False, True)
    )
    best = max(simple, key=simple.__getitem__)
    second = f"more than {TIMES_THE_BEST_OTHER} times the best of the others ({best}, {format_magnitude(simple[best])})"
    reached = {
        f"at least {LEAST_MEDIAN}": ours >= LEAST_MEDIAN,
        second: ours > TIMES_THE_BEST_OTHER * simple[best],
    }
    if synthesis:
        best = max(synthesis, key=synthesis.__getitem__)
        reached[f"above analysis by synthesis ({best}, {format_magnitude(synthesis[best])})"] = ours > synthesis[best]
    return [
        f"bar: our median of {format_magnitude(ours)}{how} is {bar}: {'met' if met else 'MISSED'}"
        for bar, met in reached.items()
    ]


def _table_of_others(
    attacked: AttackStudy, rows: Sequence[AttackedRow], further: dict[str, dict[str, AttackRecords]]
) -> Table:
    """Medians of every attack, and of the best attack on each image."""
    names = [name for name in ATTACKS if name == PUBLISHED or any(name in found for found in further.values())]
    texts, config = [], dict[str, str]()
    for model, row in zip(attacked.rows, rows, strict=True):
        found = {PUBLISHED: row.attack_records, **further.get(model, {})}
        summaries = {name: summarise_attack(attack_records) for name, attack_records in found.items()}
        config |= {name: attack_settings(summary)["attack"] for name, summary in summaries.items()}
        medians = [format_magnitude(summaries[name].median) if name in summaries else NOT_APPLICABLE for name in names]
        texts.append(
            (row.printed.printed, *medians, format_magnitude(median_magnitude(_nearest(list(found.values())))))
        )
    notes = (
        "median of the pixels changed, on the same images as above; -: not measured, or of a model without gradients",
        "nearest of all: for each image, the fewest pixels by any of the attacks of its row",
        *(f"{name}: {config[name]}{ASKED.get(name, '')}" for name in names if config[name] != name),
    )
    caption = f"{attacked.known.data}: other attacks on the same images, median adversarial attack magnitude"
    return Table(("model", *names, "nearest of all"), tuple(texts), caption, notes)


def _nearest(attacks: Sequence[AttackRecords]) -> list[int | None]:
    """For each image, the fewest pixels by any of the attacks; None where none found anything."""
    nearest: dict[int, int | None] = {}
    for attack_records in attacks:
        for line in attack_records.lines:
            if line.failed is None:
                known = [one for one in (nearest.get(line.example), line.distance) if one is not None]
                nearest[line.example] = min(known, default=None)
    return list(nearest.values())
