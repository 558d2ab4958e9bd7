"""The paper's recipe and the default one, side by side at the same k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from sparsecert.errors import InputError
from sparsecert.reports.comparison import Table
from studies.levine_feizi_2020 import record_files
from studies.levine_feizi_2020.base_accuracy import stored_base_accuracy
from studies.levine_feizi_2020.defaults import paper_recipe
from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.published import PublishedTable
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.tables import beside_published, measured_rows, published_over_k, subset_notes


def recipes(study: Study, keeps: Sequence[int] | None = None) -> Table:
    """Certificates of both recipes at `keeps`, or at every k measured with both."""
    paper, usual = paper_recipe(study.data), study.defaults.recipe
    if paper == usual:
        raise InputError(f"{study.data} is trained by the paper's recipe alone ({paper}): there is nothing to compare")
    known = published_over_k(study.data)
    known = replace(known, about=f"{study.data}: the recipes {paper} and {usual} side by side")
    if known.data != study.data:
        known = replace(known, rows=(), remarks=())
    studies = [replace(study, recipe=name) for name in (paper, usual)]
    keeps = _measured_by_all(studies, known) if keeps is None else keeps
    rows = [row for each in studies for row in measured_rows(each, known, keeps)]
    rows.sort(key=lambda row: row.spec.keep)
    used = [each.recipe_of(each.spec(1)) for each in studies]
    trained = [f"{recipe.name}: {recipe.epochs} epochs; {recipe.source}" for recipe in used]
    single = [note for each in studies for keep in keeps for note in _single_copies(each, each.spec(keep), known)]
    return beside_published(rows, known, [*subset_notes(rows), *single, *trained], training=True)


def _single_copies(study: Study, spec: ModelSpec, known: PublishedTable) -> list[str]:
    """How often single copies of the certified images are right, and of more images: are these harder than others?"""
    lines = record_files.read(study, spec, study.sampling(known.sampling))[0].lines
    base = stored_base_accuracy(study, spec)
    if base is None or len(lines) >= base.test.images:
        return []
    share = fmean(line.votes.votes[line.true] / line.votes.total for line in lines)
    each = f"right in {share:.2%} of the cases, those of {base.test.images:,} in {base.test_accuracy:.2%}"
    return [f"{study.recipe}, k = {spec.keep}: single copies of these {len(lines):,} images are {each}"]


def _measured_by_all(studies: Sequence[Study], known: PublishedTable) -> list[int]:
    """Every k for which all of the studies have records."""
    found = [
        {
            spec.keep
            for spec in study.found(study.spec(1))
            if record_files.has(study, spec, study.sampling(known.sampling))
        }
        for study in studies
    ]
    both = sorted(set.intersection(*found))
    if not both:
        folder, names = studies[0].data_folder, " and ".join(study.recipe or "" for study in studies)
        raise InputError(f"{folder} holds no k measured with both {names}; name some with --keeps, and they are made")
    return both
