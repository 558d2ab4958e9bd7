"""A study: one data set's models and their records in one folder.

    OUT/mnist/k45/model.safetensors   training.jsonl   predict.jsonl   certify.jsonl
    OUT/cifar10/k75-mean-fill/        the other encoding of NULL
    OUT/cifar10/k75-paper-cifar10/    a recipe that is not the data set's default
    OUT/cifar10/k75-resnet50-cifar/   an architecture that is not the recipe's
    OUT/mnist/kappa-0.1/              random values instead of ablation
    OUT/cifar10/k75/certify-10000.jsonl     another number of inputs than the default
    OUT/mnist/lattice-28x1/                 a fixed set of masks (see `fixed_masks`)

`models` trains and loads the models, `record_files` finds, checks and creates the records.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from sparsecert import datasets
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.runs import Limit, RandomSample
from sparsecert.schemes import SchemeSpec
from sparsecert.schemes.philox import key_of
from sparsecert.training.recipes import Recipe, recipe_for
from studies.levine_feizi_2020.defaults import Defaults, defaults_for
from studies.levine_feizi_2020.model_spec import FixedMasksSpec, ModelSpec
from studies.levine_feizi_2020.progress import Progress
from studies.levine_feizi_2020.published import Sampling

RESULTS = Path(__file__).parent / "results"  # the records behind the tables of the pages


@dataclass
class Study:
    """The settings of a study of one data set, whose files are under `out`.

    `recipe` and `limit` (a number of test inputs) replace the data set's defaults; `epochs`, `n0` and `n` replace the
    recipe's and the paper's, for a smaller run. The seed is used for training and votes alike. `precision` None takes
    the fastest on the device, and accepts records of any precision.
    """

    out: Path
    data: str = "mnist"
    data_dir: str | Path | None = None
    device: str = "cpu"
    precision: str | None = None
    seed: int = 0
    recipe: str | None = None
    limit: int | None = None
    epochs: int | None = None
    n0: int | None = None
    n: int | None = None
    checkpoint_seconds: float = 300.0
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        key_of(self.seed)
        if self.limit is not None and self.limit < 1:
            raise InputError(f"limit must be at least 1, got {self.limit}; leave it out for every input")
        if self.recipe is not None:
            recipe_for(self.data, self.recipe)

    @property
    def defaults(self) -> Defaults:
        """How this data set is measured unless the settings say otherwise."""
        return defaults_for(self.data)

    @property
    def inputs(self) -> Limit:
        """Which test inputs are certified."""
        limit = self.defaults.limit if self.limit is None else self.limit
        return RandomSample(limit, self.seed) if self.defaults.random and limit is not None else limit

    @cached_property
    def test(self) -> Dataset:
        return datasets.load(self.data, "test", self.data_dir)

    @cached_property
    def training(self) -> Dataset:
        return datasets.load(self.data, "train", self.data_dir)

    @property
    def data_folder(self) -> Path:
        """The folder of this data set, which holds a folder per model."""
        return self.out / (self.data if self.data in datasets.DATASETS else Path(self.data).resolve().name)

    def folder(self, spec: ModelSpec) -> Path:
        """The folder of one model."""
        return self.data_folder / spec.folder

    def spec(self, keep: int, encoding: str = "null-channels", model: str | None = None) -> ModelSpec:
        """The model of this k, encoding and architecture by the study's recipe; defaults are left out of its name."""
        name = self.recipe or self.defaults.recipe
        default_recipe, default_model = name == self.defaults.recipe, model == recipe_for(self.data, name).model
        return ModelSpec(keep, encoding, None if default_recipe else name, None if default_model else model)

    def fixed_masks_spec(self, scheme_spec: SchemeSpec) -> FixedMasksSpec:
        """The model of this fixed set of masks by the study's recipe."""
        like = self.spec(1)
        return FixedMasksSpec(encoding=like.encoding, recipe=like.recipe, model=like.model, scheme_spec=scheme_spec)

    def found(self, like: ModelSpec) -> list[ModelSpec]:
        """The models that have a folder and differ from `like` in k alone, sorted by k."""
        suffix = re.escape(like.folder.removeprefix(f"k{like.keep}"))
        names = (path.name for path in self.data_folder.glob("k*") if path.is_dir())
        keeps = (int(found[1]) for name in names if (found := re.fullmatch(rf"k([1-9]\d{{0,8}}){suffix}", name)))
        return [replace(like, keep=keep) for keep in sorted(keeps)]

    def recipe_of(self, spec: ModelSpec) -> Recipe:
        """How the model is trained."""
        return spec.trained_by(recipe_for(self.data, spec.recipe or self.defaults.recipe).shortened(self.epochs))

    def sampling(self, published: Sampling) -> Sampling:
        """The published numbers of samples, or those of the settings."""
        predict_n = published.predict_n and (self.n or published.predict_n) if self.defaults.predicts else None
        return replace(published, n0=self.n0 or published.n0, n=self.n or published.n, predict_n=predict_n)
