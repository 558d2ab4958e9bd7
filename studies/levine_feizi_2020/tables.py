"""Tables of certificates, measured beside published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparsecert.errors import InputError
from sparsecert.reports import Summary, summarise
from sparsecert.reports.comparison import (
    NOT_APPLICABLE,
    Table,
    format_median,
    format_percent,
    run_settings,
    settings_line,
    shared_settings,
)
from studies.levine_feizi_2020 import record_files
from studies.levine_feizi_2020.defaults import paper_recipe
from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.published import PublishedRow, PublishedTable, Sampling, published
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.training_log import TrainingLog, duration, trained_by, training_log

ACCURACY_NOTE = "accuracy: the true class is predicted; in brackets: percent abstained"
SAME_VOTES_NOTE = (
    "accuracy is by the prediction rule from the estimation votes; as many fresh copies, which the paper draws, would "
    "give the same distribution"
)
TABLES_OF = {"mnist": "table-1", "cifar10": "table-3"}  # over k; of photographs: table-6


@dataclass(frozen=True)
class Row:
    """One model: its published row, and the summary of its votes by each bound.

    The votes are on some of `of` test inputs; `recipe` names how it was trained, and `training` is the log of that.
    """

    spec: ModelSpec
    published: PublishedRow | None
    one_sided: Summary
    two_sided: Summary
    of: int
    classes: int
    recipe: str
    training: TrainingLog | None


def published_over_k(data: str) -> PublishedTable:
    """The paper's table over k for this data set; for any photographs, ImageNet's."""
    return published(TABLES_OF.get(data, "table-6"))


def measured_rows(study: Study, table: PublishedTable, keeps: Sequence[int] | None = None) -> list[Row]:
    """The table's rows and those of other k measured, or those of `keeps`; missing models and records are created."""
    printed = {study.spec(row.keep, row.encoding): row for row in table.rows}
    sampling = study.sampling(table.sampling)
    specs = _specs(study, table, sampling) if keeps is None else _specs_of(study, table, keeps)
    record_files.complete(study, specs, sampling)
    rows = []
    with study.progress.rows(len(specs)) as on_progress:
        for spec in specs:
            rows.append(_row(study, spec, printed.get(spec), sampling))
            on_progress()
    return rows


def _specs(study: Study, table: PublishedTable, sampling: Sampling) -> list[ModelSpec]:
    """The table's models; in a table over several k also those of other k that have been measured."""
    printed = [study.spec(row.keep, row.encoding) for row in table.rows]
    if len({spec.keep for spec in printed}) == 1:
        return printed
    others = [
        spec for spec in study.found(study.spec(1)) if spec not in printed and record_files.has(study, spec, sampling)
    ]
    return sorted([*printed, *others], key=lambda spec: spec.keep)


def _specs_of(study: Study, table: PublishedTable, keeps: Sequence[int]) -> list[ModelSpec]:
    """The table's models of these k; for other k, in a table over several, the one of null-channels."""
    specs, over = [], sorted({row.keep for row in table.rows})
    for keep in keeps:
        known = [study.spec(row.keep, row.encoding) for row in table.rows if row.keep == keep]
        if not known and len(over) == 1:
            raise InputError(f"{table.name} is of k = {over[0]} alone, keeps has {keep}")
        specs += known or [study.spec(keep)]
    return specs


def _row(study: Study, spec: ModelSpec, printed: PublishedRow | None, sampling: Sampling) -> Row:
    records, predictions = record_files.read(study, spec, sampling)
    run, recipe = records.header.run, study.recipe_of(spec).name
    return Row(
        spec=spec,
        published=printed,
        one_sided=summarise(records, bound="one-sided", predictions=predictions),
        two_sided=summarise(records, bound="two-sided", predictions=predictions),
        of=run["data"]["of"],
        classes=run["classes"],
        recipe=recipe,
        training=training_log(study, spec),
    )


def table(study: Study, name: str, keeps: Sequence[int] | None = None) -> Table:
    """A published table with the measured numbers beside it."""
    known = published(name)
    rows = measured_rows(study, known, keeps)
    return beside_published(rows, known, [*subset_notes(rows), *_recipe_notes(study, rows)])


def beside_published(rows: Sequence[Row], known: PublishedTable, more: Sequence[str], training: bool = False) -> Table:
    """The rows beside the published numbers, with `more` notes and, if asked for, the time of `training`."""
    notes = [
        ACCURACY_NOTE,
        "strict: certified for the true class by Corollary 1, as its statement says; reference: as the paper's code "
        "counts, a right class that is not certified has robustness 0; two-sided: Corollary 2 on the same votes",
        settings(rows),
        *same_votes_notes(rows, known),
        *([f"published: {known.source}"] if known.rows else []),
        *known.remarks,
        *more,
        *_largest_medians(rows),
    ]
    columns = _columns(rows, training)
    texts = tuple(tuple(text(row) for text in columns.values()) for row in rows)
    return Table(tuple(columns), texts, known.about, tuple(notes))


def _columns(rows: Sequence[Row], training: bool) -> dict[str, Callable[[Row], str]]:
    """The text of each column; encoding, recipe, images, precision and device only where rows differ in them.

    The column of `training` time replaces the difference.
    """
    differing: dict[str, Callable[[Row], str]] = {
        "encoding": lambda row: row.spec.encoding,
        "recipe": lambda row: row.recipe,
        "images": lambda row: str(row.one_sided.inputs),
        "precision": lambda row: run_settings(row.one_sided)["precision"],
        "device": lambda row: run_settings(row.one_sided)["device"],
    }
    time = {"training time": lambda row: duration(row.training.seconds if row.training else None)}
    return {
        "k": lambda row: str(row.spec.keep),
        **{name: text for name, text in differing.items() if len({text(row) for row in rows}) > 1},
        **(time if training else {}),
        "accuracy measured": lambda row: accuracy_text(row.one_sided),
        "accuracy published": lambda row: printed_accuracy(row.published),
        **({} if training else {"difference": _difference}),
        "median strict": lambda row: format_median(row.one_sided.median),
        "median reference": lambda row: format_median(row.one_sided.median_reference),
        "median published": lambda row: (
            NOT_APPLICABLE if row.published is None else format_median(row.published.median)
        ),
        "median two-sided": lambda row: format_median(row.two_sided.median),
    }


def accuracy_text(summary: Summary) -> str:
    """Accuracy and, in brackets, abstentions."""
    return f"{format_percent(summary.accuracy)} ({format_percent(summary.abstained)})"


def printed_accuracy(printed: PublishedRow | None) -> str:
    """The same as the paper prints it."""
    if printed is None or printed.accuracy is None or printed.abstained is None:
        return NOT_APPLICABLE
    return f"{printed.accuracy:.2f}% ({printed.abstained:.2f}%)"


def _difference(row: Row) -> str:
    if row.published is None or row.published.accuracy is None:
        return NOT_APPLICABLE
    return f"{100 * row.one_sided.accuracy - row.published.accuracy:+.2f}"


def settings(rows: Sequence[Row]) -> str:
    """What the measured rows share, and where their accuracy is from."""
    shared = shared_settings([row.two_sided for row in rows])
    votes = rows[0].two_sided.classification
    predicted = "the same votes" if votes.source == "estimation votes" else f"{votes.n} other copies"
    return (
        f"{settings_line({name: text for name, text in shared.items() if name != 'bound'})}; accuracy from {predicted}"
    )


def same_votes_notes(rows: Sequence[Row], known: PublishedTable) -> list[str]:
    """Why accuracy from the estimation votes is comparable, where the paper drew copies of their own for it."""
    measured_so = rows[0].two_sided.classification.source == "estimation votes"
    return [SAME_VOTES_NOTE] if measured_so and known.sampling.predict_n is not None else []


def subset_notes(rows: Sequence[Row]) -> list[str]:
    """How uncertain the numbers are where only some of the test images were certified."""
    parts = [row for row in rows if row.one_sided.inputs < row.of]
    if not parts:
        return []
    inputs, chosen = min(row.one_sided.inputs for row in parts), parts[0].one_sided.chosen
    how = "evenly spaced" if chosen is None else "drawn at random"
    return [f"{subset_note(inputs, parts[0].of, how)}, and so is where the median falls"]


def subset_note(inputs: int, of: int, how: str) -> str:
    """How uncertain a share of this many test images is."""
    error = f"{50 / inputs**0.5:.1f} points (one standard error)"
    return f"{inputs} of the {of} test images, {how}: a share near one half is uncertain by {error}"


def _recipe_notes(study: Study, rows: Sequence[Row]) -> list[str]:
    """How the models were trained, unless the recipe is both the paper's and the default."""
    paper, trained = paper_recipe(study.data), trained_by(study, [row.spec for row in rows])
    if study.recipe_of(rows[0].spec).name != paper:
        return [f"{trained}, which is not the paper's: --recipe {paper} measures that"]
    return [] if rows[0].spec.recipe is None else [f"{trained}, which is the paper's"]


def _largest_medians(rows: Sequence[Row]) -> list[str]:
    if len(rows) < 2 or len({(row.spec.encoding, row.recipe) for row in rows}) > 1:
        return []
    lines = []
    for summary in (best([row.one_sided for row in rows]), best([row.two_sided for row in rows])):
        share = format_percent(summary.certified_accuracy_at(summary.median or 0) or 0.0)
        where = f"{format_median(summary.median)} at k = {summary.scheme['keep']} ({share} certified there)"
        lines.append(f"largest median, {summary.bound}: {where}")
    return lines


def best(summaries: Sequence[Summary]) -> Summary:
    """The run with the largest median; among equals, the one with most inputs certified at it."""

    def merit(summary: Summary) -> tuple[int, float]:
        found = -1 if summary.median is None else summary.median
        return found, summary.certified_accuracy_at(max(found, 0)) or 0.0

    return max(summaries, key=merit)
