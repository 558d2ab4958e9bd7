"""A study: models of several k, and their records, each made once and found again.

    OUT/mnist/k45/model.safetensors   training.jsonl   predict.jsonl   certify.jsonl

A model or a records file that is there is used; one that was begun is continued; one that is missing is made. Records
may lie there compressed (.gz, .xz); complete ones need neither model nor data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sparsecert import datasets, records
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.published import Sampling
from sparsecert.recipes import Recipe, recipe_for
from sparsecert.records import Records, compressed

if TYPE_CHECKING:
    from sparsecert.smoothed import Smoothed
    from sparsecert.training import Progress

CERTIFY, PREDICT = "certify", "predict"


@dataclass(frozen=True)
class Cell:
    """One trained classifier of a study: how many pixels it retains, and how it shows NULL."""

    keep: int
    encoding: str = "null-channels"

    @property
    def folder(self) -> str:
        """Its folder in the study's."""
        return f"k{self.keep}" if self.encoding == "null-channels" else f"k{self.keep}-{self.encoding}"


class Bars(Protocol):
    """How a study tells of its progress."""

    def training(self, cells: Sequence[Cell]) -> AbstractContextManager[Callable[[Progress], None]]:
        """For the training of these cells together."""

    def inputs(
        self, cell: Cell, verb: str, inputs: int, copies: int
    ) -> AbstractContextManager[Callable[[int, int], None]]:
        """For one cell's records."""

    def rows(self, rows: int) -> AbstractContextManager[Callable[[], None]]:
        """For certifying the votes of so many records files; to be called after each."""


class Quiet:
    """Tells nothing."""

    @contextmanager
    def training(self, cells: Sequence[Cell]) -> Iterator[Callable[[Progress], None]]:
        """Nothing is told."""
        yield lambda progress: None

    @contextmanager
    def inputs(self, cell: Cell, verb: str, inputs: int, copies: int) -> Iterator[Callable[[int, int], None]]:
        """Nothing is told."""
        yield lambda inputs, copies: None

    @contextmanager
    def rows(self, rows: int) -> Iterator[Callable[[], None]]:
        """Nothing is told."""
        yield lambda: None


@dataclass
class Study:
    """One data set's classifiers and their records under `out`.

    `limit`: so many evenly spaced test inputs. `epochs`, `n0` and `n` replace the paper's, for a smaller run. The seed
    decides training and votes alike. `precision` None takes what is fastest on the device, and records as they are.
    """

    out: Path
    data: str = "mnist"
    data_dir: str | Path | None = None
    device: str = "cpu"
    precision: str | None = None
    seed: int = 0
    limit: int | None = None
    epochs: int | None = None
    n0: int | None = None
    n: int | None = None
    checkpoint_seconds: float = 300.0
    bars: Bars = field(default_factory=Quiet)

    def __post_init__(self) -> None:
        from sparsecert.schemes.philox import key_of

        key_of(self.seed)
        if self.limit is not None and self.limit < 1:
            raise InputError(f"limit must be at least 1, got {self.limit}; leave it out for every input")

    @cached_property
    def recipe(self) -> Recipe:
        """The data set's, over `epochs`."""
        return recipe_for(self.data).shortened(self.epochs)

    @cached_property
    def test(self) -> Dataset:
        """The test set."""
        return datasets.load(self.data, "test", self.data_dir)

    def folder(self, cell: Cell) -> Path:
        """Where the cell's files are."""
        return self.out / self.data / cell.folder

    def sampling(self, published: Sampling) -> Sampling:
        """The published numbers of samples, or those that were asked for instead."""
        predict_n = published.predict_n and (self.n or published.predict_n)
        return replace(published, n0=self.n0 or published.n0, n=self.n or published.n, predict_n=predict_n)

    def complete(self, cells: Sequence[Cell], sampling: Sampling) -> None:
        """Trains, certifies and predicts what these cells lack: all models first on a GPU, else cell by cell."""
        kinds = [CERTIFY] if sampling.predict_n is None else [CERTIFY, PREDICT]
        lacking = {
            cell: [kind for kind in kinds if not self.is_complete(cell, kind, sampling)]
            for cell in dict.fromkeys(cells)
        }
        lacking = {cell: missing for cell, missing in lacking.items() if missing}
        self._check(list(lacking), sampling)
        for together in [list(lacking)] if self.device.startswith("cuda") else [[cell] for cell in lacking]:
            self.train(together)
            for cell in together:
                for kind in lacking[cell]:
                    self.make(cell, kind, sampling)

    def _check(self, cells: Sequence[Cell], sampling: Sampling) -> None:
        """Refuses what cannot be trained or certified, before hours of work are done for it."""
        from sparsecert.schemes import Uniform
        from sparsecert.smoothed import check_settings

        for cell in cells:
            _, height, width = self.test.images.shape
            scheme = Uniform(height * width, cell.keep)
            check_settings(scheme, self.seed, sampling.alpha, n0=sampling.n0, n=sampling.n)
            self._refuse_orphans(cell)

    def records(self, cell: Cell, sampling: Sampling) -> tuple[Records, Records | None]:
        """The cell's certify records and, where the sampling predicts, its predict records, which must be there."""
        certified = records.read(self._located(cell, CERTIFY, sampling))
        predicts = sampling.predict_n is not None
        return certified, records.read(self._located(cell, PREDICT, sampling)) if predicts else None

    def train(self, cells: Sequence[Cell]) -> None:
        """Trains those of the cells that have no model, side by side."""
        open_cells = [cell for cell in cells if not self._is_trained(cell)]
        if not open_cells:
            return
        import torch

        from sparsecert.schemes import Uniform
        from sparsecert.training import Run, default_encoding, train_together
        from sparsecert.training.batches import Batches

        data, device = datasets.load(self.data, "train", self.data_dir), torch.device(self.device)
        shared = Batches(data, self.recipe, self.seed, device)
        runs: list[tuple[Run, str | Path]] = []
        for cell in open_cells:
            recipe = replace(self.recipe, keep=cell.keep)
            encoding = default_encoding(data, recipe, cell.encoding)
            scheme = Uniform(encoding.units(data.images.shape), cell.keep)
            runs.append((Run(data, recipe, scheme, encoding, self.seed, device, shared), self.folder(cell)))
        with self.bars.training(open_cells) as told:
            train_together(runs, checkpoint_seconds=self.checkpoint_seconds, half=True, told=told)

    def _is_trained(self, cell: Cell) -> bool:
        """Whether the cell's model is there; refuses one that was trained otherwise, as far as model or log tell."""
        from sparsecert import modelfile
        from sparsecert.training.run import LOG_NAME, check_same

        path, log = self.folder(cell) / modelfile.MODEL_NAME, compressed(self.folder(cell) / LOG_NAME)
        if path.exists():
            found = modelfile.read_header(path).get("facts", {}).get("training", {}).get("settings", {})
            check_same(path, found, {"recipe": replace(self.recipe, keep=cell.keep).to_dict(), "seed": self.seed})
            return True
        if log is not None and self._recorded(cell):
            epochs = records.contents(log).count(b"\n")
            if epochs != self.recipe.epochs:
                raise InputError(f"{log} is of {epochs} epochs, not {self.recipe.epochs}; name another --out folder")
        return False

    def _recorded(self, cell: Cell) -> list[Path]:
        """The records that the cell has, whole or begun."""
        return sorted(path for kind in (CERTIFY, PREDICT) for path in self.folder(cell).glob(f"{kind}*.jsonl*"))

    def _refuse_orphans(self, cell: Cell) -> None:
        """Records of a model that is not there could only be joined by those of another: trained anew, it differs."""
        if not self._is_trained(cell) and self._recorded(cell):
            raise InputError(f"{self.folder(cell)} holds records but not their model; name another --out folder")

    def load(self, cell: Cell) -> Smoothed:
        """The cell's classifier, trained if need be."""
        self._refuse_orphans(cell)
        self.train([cell])
        return self._load(self.folder(cell))

    def _load(self, model: str | Path) -> Smoothed:
        import torch

        from sparsecert.engine import native_precision
        from sparsecert.smoothed import Smoothed

        precision = self.precision or native_precision(torch.device(self.device))
        return Smoothed.load(model, device=self.device, precision=precision)

    def make(self, cell: Cell, kind: str, sampling: Sampling, model: str | Path | None = None) -> None:
        """Makes the cell's records of this kind, or what is missing of them, with its own model or the one named."""
        from sparsecert.runs import certify_dataset, predict_dataset

        if model is None:
            self.train([cell])
        model = model or self.folder(cell)
        smoothed, path = self._load(model), self._path(cell, kind, sampling)
        common: dict[str, Any] = {"alpha": sampling.alpha, "seed": self.seed, "limit": self.limit}
        inputs = len(self.test.spaced(self.limit))
        if kind == CERTIFY:
            with self.bars.inputs(cell, "certifying", inputs, sampling.n0 + sampling.n) as told:
                certify_dataset(smoothed, model, self.test, path, n0=sampling.n0, n=sampling.n, told=told, **common)
        else:
            assert sampling.predict_n is not None
            with self.bars.inputs(cell, "predicting", inputs, sampling.predict_n) as told:
                predict_dataset(smoothed, model, self.test, path, n=sampling.predict_n, told=told, **common)

    def _path(self, cell: Cell, kind: str, sampling: Sampling) -> Path:
        """The file of the paper's usual settings bears the kind's name alone."""
        usual = sampling.alpha == 0.05
        return self.folder(cell) / (f"{kind}.jsonl" if usual else f"{kind}-alpha-{sampling.alpha}.jsonl")

    def _located(self, cell: Cell, kind: str, sampling: Sampling) -> Path:
        path = self._path(cell, kind, sampling)
        return compressed(path) or path

    def is_complete(self, cell: Cell, kind: str, sampling: Sampling, model: Path | None = None) -> bool:
        """Whether the records are there with every input; refuses those of other settings, or of another `model`."""
        path = self._located(cell, kind, sampling)
        seen = records.glance(path) if path.is_file() else None
        if seen is None:
            return False
        run, lines = seen[0].run, seen[1]
        inputs, of = int(run["data"]["inputs"]), int(run["data"]["of"])
        there = {**run, "limit": inputs, "keep": run.get("scheme", {}).get("keep")}
        there["encoding"] = run.get("encoding", {}).get("kind")
        for name, value in self._wanted(cell, kind, sampling, of).items():
            if there.get(name) != value:
                raise InputError(
                    f"{path} was made with {name} {there.get(name)}, not {value}; name another --out folder"
                )
        from sparsecert.modelfile import fingerprint

        if model is None and self._is_trained(cell):
            model = self.folder(cell)
        if model is not None and run.get("model") != {"sha256": fingerprint(model)}:
            raise InputError(f"{path} was made with another model than {model}; name another --out folder")
        return lines == inputs

    def _wanted(self, cell: Cell, kind: str, sampling: Sampling, of: int) -> dict[str, Any]:
        """The facts of a records file that this study would have written."""
        samples = {"n0": sampling.n0, "n": sampling.n} if kind == CERTIFY else {"n": sampling.predict_n}
        asked = {} if self.precision is None else {"precision": self.precision}
        limit = of if self.limit is None else min(self.limit, of)
        classifier = {"keep": cell.keep, "encoding": cell.encoding}
        return {**classifier, "seed": self.seed, "alpha": sampling.alpha, **samples, "limit": limit, **asked}
