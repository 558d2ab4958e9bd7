"""Tables 4 and 5: the base classifiers on ablated training and test images, measured beside published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparsecert.errors import InputError
from sparsecert.reports.comparison import NOT_APPLICABLE, Table, format_percent
from studies.levine_feizi_2020.base_accuracy import BaseAccuracy, base_accuracy, stored_base_accuracy
from studies.levine_feizi_2020.defaults import paper_recipe
from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.published import PublishedBaseRow, published_base_accuracy
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.training_log import TrainingLog, training_log


@dataclass(frozen=True)
class BaseRow:
    """One base classifier: how it was trained, what the paper printed of it, and what was measured."""

    spec: ModelSpec
    recipe: str
    published: PublishedBaseRow | None
    training: TrainingLog | None
    base: BaseAccuracy


def base_table(study: Study, name: str, keeps: Sequence[int] | None = None) -> Table:
    """A published table of base classifiers beside the measured numbers, for each recipe measured."""
    known = published_base_accuracy(name)
    rows = base_rows(study, name, keeps)
    recipes = len({row.recipe for row in rows}) > 1
    names = ", ".join(dict.fromkeys(_trained(row) for row in rows))
    base = rows[0].base
    devices = ", ".join(dict.fromkeys(f"{row.base.precision}, {row.base.device}" for row in rows))
    images = f"{base.copies} masks for each of {base.training.images} training and {base.test.images} test images"
    notes = (
        "training, last epoch: as the paper takes it, the running accuracy over the last epoch, of augmented "
        "images and changing weights; training, fresh masks: the trained model on the images themselves, with masks it "
        "was not trained on; test: the same on test images",
        "gap: training less test accuracy, in percentage points",
        f"{known.data}, {known.model}, trained by {names}; {images}, seed = {base.seed}, {devices}",
        f"published: {known.source}; its recipe is {paper_recipe(known.data)}",
    )
    return Table(_headers(recipes), tuple(_texts(row, recipes) for row in rows), known.about, notes)


def base_rows(study: Study, name: str, keeps: Sequence[int] | None = None) -> list[BaseRow]:
    """The table's rows, or those of `keeps`, by the study's recipe, measured if missing.

    Rows of the other recipe, the paper's or the default, are added if they were measured.
    """
    known = published_base_accuracy(name)
    printed = {row.keep: row for row in known.rows}
    recipes = dict.fromkeys((paper_recipe(study.data), study.defaults.recipe, study.recipe or study.defaults.recipe))
    studies = {recipe: replace(study, recipe=recipe) for recipe in recipes}
    rows = []
    for keep in sorted(printed) if keeps is None else keeps:
        for recipe, each in studies.items():
            spec = each.spec(keep, model=known.model)
            asked = recipe == (study.recipe or study.defaults.recipe)
            base = base_accuracy(each, spec) if asked else _stored(each, spec)
            if base is not None:
                rows.append(BaseRow(spec, recipe, printed.get(keep), training_log(each, spec), base))
    return rows


def _trained(row: BaseRow) -> str:
    return row.recipe if row.training is None else f"{row.recipe} ({row.training.epochs} epochs)"


def _stored(study: Study, spec: ModelSpec) -> BaseAccuracy | None:
    """The stored base accuracy, if it has the study's settings."""
    try:
        return stored_base_accuracy(study, spec)
    except InputError:
        return None


def _headers(recipes: bool) -> tuple[str, ...]:
    training = ("training, last epoch", "training, fresh masks", "training published")
    gaps = ("gap, last epoch", "gap, fresh masks", "gap published")
    return ("k", *(("recipe",) if recipes else ()), *training, "test", "test published", *gaps)


def _texts(row: BaseRow, recipes: bool) -> tuple[str, ...]:
    last = None if row.training is None else row.training.accuracy
    fresh, test, printed = row.base.training_accuracy, row.base.test_accuracy, row.published
    return (
        str(row.spec.keep),
        *((row.recipe,) if recipes else ()),
        NOT_APPLICABLE if last is None else format_percent(last),
        format_percent(fresh),
        NOT_APPLICABLE if printed is None else f"{printed.training:.2f}%",
        format_percent(test),
        NOT_APPLICABLE if printed is None else f"{printed.test:.2f}%",
        NOT_APPLICABLE if last is None else f"{100 * (last - test):.2f}",
        f"{100 * (fresh - test):.2f}",
        NOT_APPLICABLE if printed is None else f"{printed.gap:.2f}",
    )
