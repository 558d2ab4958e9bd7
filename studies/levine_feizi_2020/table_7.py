"""Table 7: ablation and random values (Lee et al. 2019), the same base architecture for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparsecert.reports import Summary, summarise
from sparsecert.reports.comparison import NOT_APPLICABLE, Table, format_median, settings_line, shared_settings
from studies.levine_feizi_2020 import record_files
from studies.levine_feizi_2020.model_spec import ModelSpec, RandomValuesSpec
from studies.levine_feizi_2020.published import Sampling, published, published_schemes
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.tables import ACCURACY_NOTE, accuracy_text, best
from studies.levine_feizi_2020.training_log import trained_by

SWEEPS: dict[int, tuple[str, ...]] = {  # kappa by values
    256: ("0.05", "0.1", "0.15", "0.2", "0.3"),
    2: ("0.7", "0.75", "0.8", "0.85", "0.9"),
}
HEADERS = "scheme", "values", "kappa", "k", "images", "accuracy", "median", "two-sided median"


@dataclass(frozen=True)
class Measured:
    """One classifier, and what its votes say by each bound."""

    spec: ModelSpec
    one_sided: Summary
    two_sided: Summary


def table_7(
    study: Study,
    keeps: Sequence[int] | None = None,
    kappas: Sequence[str] | None = None,
    values: int | None = None,
) -> Table:
    """Ablation at the paper's best k, random values over kappa, then the paper's rows.

    `kappas` (for `values`, by default 256) replace the default sweeps.
    """
    known = published_schemes("table-7")
    printed = next(row for row in known.rows if row.data == study.data)
    sweeps = {values or 256: tuple(kappas)} if kappas is not None else _sweeps(values)
    ablation = [study.spec(keep) for keep in keeps or [printed.keep]]
    asked = [_spec(study, kappa, count) for count, sweep in sweeps.items() for kappa in sweep]
    random = list({spec.folder: spec for spec in asked}.values())  # 0.1 and 1/10 are one
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
    """The default kappas for this number of values; those of 256 where there are none."""
    return SWEEPS if values is None else {values: SWEEPS.get(values, SWEEPS[256])}


def _spec(study: Study, kappa: str, values: int) -> RandomValuesSpec:
    return RandomValuesSpec(recipe=study.spec(1).recipe, kappa=kappa, values=values)


def _measured(study: Study, specs: Sequence[ModelSpec]) -> list[Measured]:
    """Trains and certifies what is missing; accuracy comes from the estimation votes for all.

    Where a subset of the images is asked for and ablation has records of all, the same subset of those is used.
    """
    sampling = replace(study.sampling(published("table-1").sampling), predict_n=None)
    whole = [spec for spec in specs if _has_more(study, spec, sampling)]
    record_files.complete(study, [spec for spec in specs if spec not in whole], sampling)
    found = {spec: record_files.read(study, spec, sampling)[0] for spec in specs if spec not in whole}
    asked = {line.example for one in found.values() for line in one.lines}
    for spec in whole:
        every, _ = record_files.read(replace(study, limit=None), spec, sampling)
        found[spec] = replace(every, lines=tuple(line for line in every.lines if line.example in asked))
    record_files.refuse_two_test_sets(study, [one.path for one in found.values()], making=False)
    rows = []
    with study.progress.rows(len(specs)) as on_progress:
        for spec in specs:
            bounds = (summarise(found[spec], bound=bound) for bound in ("one-sided", "two-sided"))
            rows.append(Measured(spec, *bounds))
            on_progress()
    return rows


def _has_more(study: Study, spec: ModelSpec, sampling: Sampling) -> bool:
    """Whether ablation has records of all images, but none of just the subset asked for."""
    if isinstance(spec, RandomValuesSpec) or study.limit is None or record_files.has(study, spec, sampling):
        return False
    return record_files.has(replace(study, limit=None), spec, sampling)


def _texts(row: Measured) -> tuple[str, ...]:
    one, two, spec = row.one_sided, row.two_sided, row.spec
    of = ("ablation", NOT_APPLICABLE, NOT_APPLICABLE, str(spec.keep))
    if isinstance(spec, RandomValuesSpec):
        of = ("random values", str(spec.values), spec.kappa, NOT_APPLICABLE)
    return (*of, str(one.inputs), accuracy_text(one), format_median(one.median), format_median(two.median))


def _largest(name: str, rows: Sequence[Measured]) -> str:
    """The largest median of a scheme by each bound, in words."""
    one, two = best([row.one_sided for row in rows]), best([row.two_sided for row in rows])
    return f"largest median of {name}: {_where(one)}; two-sided: {_where(two)}"


def _where(summary: Summary) -> str:
    scheme = summary.scheme
    at = f"k = {scheme['keep']}" if "keep" in scheme else f"kappa = {scheme['kappa']} of {scheme['values']} values"
    return f"{format_median(summary.median)} at {at}"
