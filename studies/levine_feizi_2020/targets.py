"""The targets of the command: what each makes, from which data sets, and which options it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsecert import datasets
from sparsecert.errors import InputError
from sparsecert.reports.comparison import Table
from sparsecert.schemes import SchemeSpec
from studies.levine_feizi_2020.attacked import AttackStudy
from studies.levine_feizi_2020.base_tables import base_table
from studies.levine_feizi_2020.curves import curves
from studies.levine_feizi_2020.exact import exact
from studies.levine_feizi_2020.figure_1 import figure_1
from studies.levine_feizi_2020.figure_2 import figure_2
from studies.levine_feizi_2020.figure_3 import figure_3, figure_5
from studies.levine_feizi_2020.figure_4 import figure_4
from studies.levine_feizi_2020.output import Output
from studies.levine_feizi_2020.patches import patches
from studies.levine_feizi_2020.recipes import recipes
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.table_2 import table_2
from studies.levine_feizi_2020.table_6 import table_6
from studies.levine_feizi_2020.table_7 import table_7
from studies.levine_feizi_2020.tables import table

PHOTOGRAPHS = "photographs"  # any folder in ImageNet's layout
SMALLER = "keeps", "limit", "epochs", "n0", "n"  # options that make a run smaller


@dataclass(frozen=True)
class Request:
    """What is asked of a target besides the settings of the study."""

    keeps: Sequence[int] | None = None
    masks: Sequence[SchemeSpec] | None = None
    kappas: Sequence[str] | None = None
    values: int | None = None
    attacks: Sequence[str] = ()
    restarts: int | None = None
    group: int | None = None

    def attacked(self, study: Study) -> AttackStudy:
        """The study's attacks, as asked for."""
        return AttackStudy(study, self.restarts, self.group)


@dataclass(frozen=True)
class StudyTarget:
    """One target: its line of help, what makes it, the options it takes, and its data sets, the default first.

    `every`: without --data it is made for all of its data sets, not just the first.
    """

    help: str
    make: Callable[[Study, Request], Output]
    options: tuple[str, ...] = ()
    data: tuple[str, ...] = ("mnist",)
    every: bool = False

    def data_sets(self, name: str, asked: str | None) -> tuple[str, ...]:
        """The data sets to make the target `name` for: the one asked for, if --data is one of its options."""
        if asked is None or "data" not in self.options:
            return self.data if self.every else self.data[:1]
        if asked not in self.data and (PHOTOGRAPHS not in self.data or asked in datasets.DATASETS):
            words = ["a folder of train/ and val/" if known == PHOTOGRAPHS else known for known in self.data]
            raise InputError(f"--data must be one of {', '.join(words)} for {name}, got {asked!r}")
        return (asked,)


def _table(made: Table) -> Output:
    return Output(tables=(made,))


def _figure(study: Study, name: str, draw: Callable[[Path], list[Path]]) -> Output:
    return Output(figures=tuple(draw(study.out / "figures" / name)))


def _curves(study: Study, asked: Request) -> Output:
    name = study.data_folder.name
    stem = "curves" if name == "mnist" else f"curves-{name}"
    return _figure(study, stem, lambda path: curves(study, path, asked.keeps))


TARGETS = {
    "table-1": StudyTarget(
        "MNIST: accuracy and median robustness for k = 5, 10, ..., 100",
        lambda study, asked: _table(table(study, "table-1", asked.keeps)),
        (*SMALLER, "recipe"),
    ),
    "table-2": StudyTarget(
        "MNIST: the Pointwise attack on k = 45 and on plain classifiers",
        lambda study, asked: table_2(asked.attacked(study), asked.attacks),
        ("limit", "epochs", "n", "attack", "restarts", "group"),
    ),
    "table-3": StudyTarget(
        "CIFAR-10: as table-1, for k = 25, 50, ..., 150",
        lambda study, asked: _table(table(study, "table-3", asked.keeps)),
        (*SMALLER, "recipe"),
        ("cifar10",),
    ),
    "table-4": StudyTarget(
        "CIFAR-10: the base classifier on training and test images, ResNet18",
        lambda study, asked: _table(base_table(study, "table-4", asked.keeps)),
        ("keeps", "limit", "epochs", "n", "recipe"),
        ("cifar10",),
    ),
    "table-5": StudyTarget(
        "CIFAR-10: the same, ResNet50",
        lambda study, asked: _table(base_table(study, "table-5", asked.keeps)),
        ("keeps", "limit", "epochs", "n", "recipe"),
        ("cifar10",),
    ),
    "table-6": StudyTarget(
        "Imagenette (or --data imagenet, a folder): k = 500, 1000, 2000",
        lambda study, asked: _table(table_6(study, asked.keeps)),
        (*SMALLER, "recipe", "data"),
        ("imagenette", "imagenet", PHOTOGRAPHS),
    ),
    "table-7": StudyTarget(
        "MNIST: ablation beside random values (Lee et al. 2019)",
        lambda study, asked: _table(table_7(study, asked.keeps, asked.kappas, asked.values)),
        (*SMALLER, "recipe", "kappas", "values"),
    ),
    "table-8": StudyTarget(
        "MNIST, CIFAR-10 (or --data one): encodings of NULL, the best k",
        lambda study, asked: _table(table(study, f"table-8-{study.data}", asked.keeps)),
        (*SMALLER, "recipe", "data"),
        ("mnist", "cifar10"),
        every=True,
    ),
    "exact": StudyTarget(
        "MNIST, CIFAR-10: fixed sets of masks, certified exactly",
        lambda study, asked: exact(study, asked.masks),
        ("masks", "limit", "epochs", "recipe", "data"),
        ("mnist", "cifar10"),
        every=True,
    ),
    "patches": StudyTarget(
        "MNIST, CIFAR-10: bands and blocks against a square patch",
        lambda study, asked: patches(study, asked.masks),
        ("masks", "limit", "epochs", "recipe", "data"),
        ("mnist", "cifar10"),
        every=True,
    ),
    "footnote": StudyTarget(
        "MNIST: k = 45 with 100 + 100,000 samples at alpha = 0.001",
        lambda study, asked: _table(table(study, "footnote", asked.keeps)),
        (*SMALLER, "recipe"),
    ),
    "recipes": StudyTarget(
        "CIFAR-10 (or --data imagenette): the paper's recipe and ours",
        lambda study, asked: _table(recipes(study, asked.keeps)),
        (*SMALLER, "data"),
        ("cifar10", "imagenette"),
    ),
    "figure-1": StudyTarget(
        "MNIST: an image, its ablations, and the base classifiers' labels",
        lambda study, asked: _figure(study, "figure-1", lambda path: figure_1(study, path, asked.keeps)),
        SMALLER,
    ),
    "figure-2": StudyTarget(
        "delta against rho (no data needed)",
        lambda study, asked: _figure(study, "figure-2", figure_2),
    ),
    "figure-3": StudyTarget(
        "MNIST: adversarial images of k = 45, the first of each class",
        lambda study, asked: _figure(study, "figure-3", lambda path: figure_3(asked.attacked(study), path)),
        ("limit", "n", "restarts", "group"),
    ),
    "figure-4": StudyTarget(
        "MNIST sample: an image under the encodings of NULL",
        lambda study, asked: _figure(
            study, "figure-4", lambda path: figure_4(datasets.load("mnist-sample"), path, seed=study.seed)
        ),
    ),
    "figure-5": StudyTarget(
        "MNIST: more of them",
        lambda study, asked: _figure(study, "figure-5", lambda path: figure_5(asked.attacked(study), path)),
        ("limit", "n", "restarts", "group"),
    ),
    "curves": StudyTarget(
        "MNIST (or --data cifar10, ...): certified accuracy, the best k",
        _curves,
        (*SMALLER, "recipe", "data"),
        ("mnist", "cifar10", "imagenette", "imagenet", PHOTOGRAPHS),
    ),
}
