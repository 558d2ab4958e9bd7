"""Table 7: ablation and random values (Lee et al. 2019), the same base architecture for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparsecert.published import Sampling, published, published_schemes
from sparsecert.reports import Summary, summarise
from sparsecert.reports.comparison import NOT_APPLICABLE, Table, format_median, settings_line, shared_settings
from sparsecert.reproduce.cell import Cell, RandomValuesCell
from sparsecert.reproduce.study import Study
from sparsecert.reproduce.tables import ACCURACY_NOTE, accuracy_text, best
from sparsecert.reproduce.training_log import trained_by

SWEEPS: dict[int, tuple[str, ...]] = {  # kappa by values
    256: ("0.05", "0.1", "0.15", "0.2", "0.3"),
    2: ("0.7", "0.75", "0.8", "0.85", "0.9"),
}
HEADERS = "scheme", "values", "kappa", "k", "images", "accuracy", "median", "two-sided median"


@dataclass(frozen=True)
class Measured:
    """One classifier, and what its votes say by each bound."""

    cell: Cell
    one_sided: Summary
    two_sided: Summary


def table_7(
    study: Study,
    keeps: Sequence[int] | None = None,
    kappas: Sequence[str] | None = None,
    values: int | None = None,
) -> Table:
    """Ablation at the paper's best k, random values over kappa, each with what is missing made; then the paper's row.

    `kappas` (of `values`, 256 unless said) replace the usual sweeps.
    """
    known = published_schemes("table-7")
    printed = next(row for row in known.rows if row.data == study.data)
    sweeps = {values or 256: tuple(kappas)} if kappas is not None else _sweeps(values)
    ablation = [study.cell(keep) for keep in keeps or [printed.keep]]
    asked = [_cell(study, kappa, count) for count, sweep in sweeps.items() for kappa in sweep]
    random = list({cell.folder: cell for cell in asked}.values())  # 0.1 and 1/10 are one
    rows = _measured(study, [*ablation, *random])
    of_ours, of_theirs = rows[: len(ablation)], rows[len(ablation) :]
    samples = shared_settings([row.two_sided for row in rows])
    notes = (
        ACCURACY_NOTE + "; from the estimation votes",
        "median: certified for the true class by Corollary 1 or, for random values, by the certificate of Lee et al.; "
        "two-sided: by Corollary 2 or its tight form for random values, on the same votes",
        f"all are {study.recipe_of(ablation[0]).model}, {trained_by(study, [*ablation, *random])}; for random values "
        "with one input channel instead of two, as they have no NULL, and with a draw for each sample",
        "values: an image is rounded to so many; 2 are black and white",
        settings_line({name: text for name, text in samples.items() if name != "bound"}),
        _largest("ablation", of_ours),
        _largest("random values", of_theirs),
        f"published: {known.source}: {known.about}",
        *(
            f"published for {row.data}: random values {row.random_values}, ablation {row.ablation}"
            for row in known.rows
            if row.data != study.data
        ),
        *known.remarks,
    )
    none = NOT_APPLICABLE
    texts = (
        *map(_texts, rows),
        ("ablation, published", none, none, str(printed.keep), none, none, str(printed.ablation), none),
        ("random values, published", none, none, none, none, none, str(printed.random_values), none),
    )
    return Table(HEADERS, texts, f"{study.data}: ablation and random values (Lee et al. 2019) side by side", notes)


def _sweeps(values: int | None) -> dict[int, tuple[str, ...]]:
    """The usual kappas of these values; of others, those of 256."""
    return SWEEPS if values is None else {values: SWEEPS.get(values, SWEEPS[256])}


def _cell(study: Study, kappa: str, values: int) -> RandomValuesCell:
    return RandomValuesCell(recipe=study.cell(1).recipe, kappa=kappa, values=values)


def _measured(study: Study, cells: Sequence[Cell]) -> list[Measured]:
    """Trains and certifies what the cells lack; the accuracy comes from the same votes for all.

    Where some of the images are asked for, and ablation has records of all, it is those of the same images.
    """
    sampling = replace(study.sampling(published("table-1").sampling), predict_n=None)
    whole = [cell for cell in cells if _has_more(study, cell, sampling)]
    study.complete([cell for cell in cells if cell not in whole], sampling)
    found = {cell: study.records(cell, sampling)[0] for cell in cells if cell not in whole}
    asked = {line.example for one in found.values() for line in one.lines}
    for cell in whole:
        every, _ = replace(study, limit=None).records(cell, sampling)
        found[cell] = replace(every, lines=tuple(line for line in every.lines if line.example in asked))
    study.refuse_two_test_sets([one.path for one in found.values()], making=False)
    rows = []
    with study.bars.rows(len(cells)) as on_progress:
        for cell in cells:
            bounds = (summarise(found[cell], bound=bound) for bound in ("one-sided", "two-sided"))
            rows.append(Measured(cell, *bounds))
            on_progress()
    return rows


def _has_more(study: Study, cell: Cell, sampling: Sampling) -> bool:
    """Whether of ablation there are no records of the images asked for alone, but records of all."""
    if isinstance(cell, RandomValuesCell) or study.limit is None or study.has(cell, sampling):
        return False
    return replace(study, limit=None).has(cell, sampling)


def _texts(row: Measured) -> tuple[str, ...]:
    one, two, cell = row.one_sided, row.two_sided, row.cell
    of = ("ablation", NOT_APPLICABLE, NOT_APPLICABLE, str(cell.keep))
    if isinstance(cell, RandomValuesCell):
        of = ("random values", str(cell.values), cell.kappa, NOT_APPLICABLE)
    return (*of, str(one.inputs), accuracy_text(one), format_median(one.median), format_median(two.median))


def _largest(name: str, rows: Sequence[Measured]) -> str:
    """The best of a scheme by each bound."""
    one, two = best([row.one_sided for row in rows]), best([row.two_sided for row in rows])
    return f"largest median of {name}: {_where(one)}; two-sided: {_where(two)}"


def _where(summary: Summary) -> str:
    scheme = summary.scheme
    at = f"k = {scheme['keep']}" if "keep" in scheme else f"kappa = {scheme['kappa']} of {scheme['values']} values"
    return f"{format_median(summary.median)} at {at}"
