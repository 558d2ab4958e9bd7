"""A study: models of several k, and their records, each made once and found again.

    OUT/mnist/k45/model.safetensors   training.jsonl   predict.jsonl   certify.jsonl
    OUT/cifar10/k75-mean-fill/        the other encoding of NULL
    OUT/cifar10/k75-paper-cifar10/    a recipe that is not the study's usual one
    OUT/cifar10/k75-resnet50-cifar/   an architecture that is not the recipe's
    OUT/mnist/kappa-0.1/              random values instead of ablation
    OUT/cifar10/k75/certify-10000.jsonl     another number of inputs than the usual subset
    OUT/mnist/lattice-28x1/                 a fixed set of masks (see `reproduce.fixed`)

A model or a records file that is there is used; one that was begun is continued; one that is missing is made. Records
may lie there compressed (.gz, .xz); complete ones need neither model nor data. Where no number of inputs is asked for,
records of more inputs than the usual subset are taken before those of the subset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparsecert import datasets, records
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.files import write_atomically
from sparsecert.published import Sampling
from sparsecert.records import Header, Records, find_records
from sparsecert.reproduce.bars import Bars, Quiet
from sparsecert.reproduce.cell import Cell, FixedCell
from sparsecert.reproduce.design import Design, design_of
from sparsecert.training.recipes import Recipe, recipe_for

if TYPE_CHECKING:
    from sparsecert.runs import Limit
    from sparsecert.schemes import Choice
    from sparsecert.smoothed import Smoothed

CERTIFY, PREDICT = "certify", "predict"
BASE_NAME, TRAINING_SET_NAME = "base.json", "training-set.json"
FINGERPRINT = "data fingerprint"
SIDE_BY_SIDE = "mnist-cnn", "digits-cnn"  # models so small that one of them leaves most of a GPU idle

OneCell = TypeVar("OneCell", bound=Cell)


@dataclass
class Study:
    """One data set's classifiers and their records under `out`.

    `recipe` and `limit` (so many test inputs) replace those of the data set's design; `epochs`, `n0` and `n` replace
    the recipe's and the paper's, for a smaller run. The seed decides training and votes alike. `precision` None takes
    what is fastest on the device, and records as they are.
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
    bars: Bars = field(default_factory=Quiet)

    def __post_init__(self) -> None:
        from sparsecert.schemes.philox import key_of

        key_of(self.seed)
        if self.limit is not None and self.limit < 1:
            raise InputError(f"limit must be at least 1, got {self.limit}; leave it out for every input")

        if self.recipe is not None:
            recipe_for(self.data, self.recipe)

    @property
    def design(self) -> Design:
        """How this data set is measured unless something else is asked."""
        return design_of(self.data)

    @property
    def inputs(self) -> Limit:
        """Which test inputs are certified."""
        from sparsecert.runs import Drawn

        limit = self.design.limit if self.limit is None else self.limit
        return Drawn(limit, self.seed) if self.design.random and limit is not None else limit

    @cached_property
    def test(self) -> Dataset:
        """The test set."""
        return datasets.load(self.data, "test", self.data_dir)

    @cached_property
    def training(self) -> Dataset:
        """The training set."""
        return datasets.load(self.data, "train", self.data_dir)

    @property
    def folder_of_all(self) -> Path:
        """Where the folders of all cells are."""
        return self.out / (self.data if self.data in datasets.NAMES else Path(self.data).resolve().name)

    def folder(self, cell: Cell) -> Path:
        """Where the cell's files are."""
        return self.folder_of_all / cell.folder

    def cell(self, keep: int, encoding: str = "null-channels", model: str | None = None) -> Cell:
        """The classifier of this k, encoding and architecture by the study's recipe; what is usual goes unnamed."""
        name = self.recipe or self.design.recipe
        usual_recipe, usual_model = name == self.design.recipe, model == recipe_for(self.data, name).model
        return Cell(keep, encoding, None if usual_recipe else name, None if usual_model else model)

    def recipe_of(self, cell: Cell) -> Recipe:
        """How the cell is trained."""
        recipe = recipe_for(self.data, cell.recipe or self.design.recipe).shortened(self.epochs)
        return cell.trained_by(recipe)

    def fixed_cell(self, choice: Choice) -> FixedCell:
        """The classifier of this fixed set of masks by the study's recipe."""
        usual = self.cell(1)
        return FixedCell(encoding=usual.encoding, recipe=usual.recipe, model=usual.model, choice=choice)

    def found(self, like: Cell) -> list[Cell]:
        """The cells that have a folder and differ from `like` in nothing but k, by k."""
        suffix = re.escape(like.folder.removeprefix(f"k{like.keep}"))
        names = (path.name for path in self.folder_of_all.glob("k*") if path.is_dir())
        keeps = (int(found[1]) for name in names if (found := re.fullmatch(rf"k([1-9]\d{{0,8}}){suffix}", name)))
        return [replace(like, keep=keep) for keep in sorted(keeps)]

    def sampling(self, published: Sampling) -> Sampling:
        """The published numbers of samples, or those that were asked for instead."""
        predict_n = published.predict_n and (self.n or published.predict_n) if self.design.predicts else None
        return replace(published, n0=self.n0 or published.n0, n=self.n or published.n, predict_n=predict_n)

    def complete(self, cells: Sequence[Cell], sampling: Sampling) -> None:
        """Trains, certifies and predicts what these cells lack, cell by cell, so that what is done is done.

        Small models are trained side by side on a GPU, all of them before the first is certified.
        """
        lacking = {
            cell: [kind for kind in _kinds(sampling) if not self.is_complete(cell, kind, sampling)]
            for cell in dict.fromkeys(cells)
        }
        lacking = {cell: missing for cell, missing in lacking.items() if missing}
        there = [self._located(cell, kind, sampling) for cell in cells for kind in _kinds(sampling)]
        self.refuse_two_test_sets(there, making=bool(lacking))
        self._check(list(lacking), sampling)
        for together in self.side_by_side(list(lacking)):
            self.train(together)
            for cell in together:
                for kind in lacking[cell]:
                    self.make(cell, kind, sampling)

    def side_by_side(self, cells: Sequence[OneCell]) -> list[list[OneCell]]:
        """The cells in the groups that are trained together: small models on a GPU all at once, others one by one."""
        small = all(self.recipe_of(cell).model in SIDE_BY_SIDE for cell in cells)
        at_once = cells and small and self.device.startswith("cuda")
        return [list(cells)] if at_once else [[cell] for cell in cells]

    def has(self, cell: Cell, sampling: Sampling) -> bool:
        """Whether the cell's records are there, complete and of this study's settings."""
        try:
            return all(self.is_complete(cell, kind, sampling) for kind in _kinds(sampling))
        except InputError:
            return False

    def _check(self, cells: Sequence[Cell], sampling: Sampling) -> None:
        """Refuses what cannot be trained or certified, before hours of work are done for it."""
        from sparsecert.smoothed import check_settings

        for cell in cells:
            scheme = cell.scheme(self.test.images.shape)
            check_settings(scheme, self.seed, sampling.alpha, n0=sampling.n0, n=sampling.n)
            self.refuse_orphans(cell)

    def refuse_two_test_sets(self, paths: Iterable[Path], making: bool) -> None:
        """Refuses to show records of different test sets side by side; `making`: more are to be made of the one here.

        A data set's name does not say it all: a second folder may hold the same photographs in another size.
        """
        seen = [(path, records.read_header(path)) for path in paths if path.is_file()]
        found = {one[0].run["data"].get("fingerprint"): str(path) for path, one in seen if one is not None}
        found.pop(None, None)
        if making and found:
            found.setdefault(self.test.fingerprint(), f"the {self.test.name} that is here")
        if len(found) > 1:
            first, second, *_ = found.values()
            raise InputError(f"{first} is of other test images than {second}; name another --out folder")

    def records(self, cell: Cell, sampling: Sampling) -> tuple[Records, Records | None]:
        """The cell's certify records and, where the sampling predicts, its predict records, which must be there."""
        certified = records.read(self._located(cell, CERTIFY, sampling))
        predicts = sampling.predict_n is not None
        return certified, records.read(self._located(cell, PREDICT, sampling)) if predicts else None

    def train(self, cells: Sequence[Cell]) -> None:
        """Trains those of the cells that have no model, side by side; they are of one recipe."""
        open_cells = [cell for cell in cells if not self._is_trained(cell)]
        if not open_cells:
            return
        import torch

        from sparsecert.training import TrainingRun, train_many
        from sparsecert.training.batches import Batches

        data, device = self.training, torch.device(self.device)
        self._note_training_set(data)
        shared = Batches(data, self.recipe_of(open_cells[0]), self.seed, device)
        runs: list[tuple[TrainingRun, str | Path]] = []
        for cell in open_cells:
            recipe = self.recipe_of(cell)
            scheme, encoding = cell.scheme(data.images.shape), cell.encoder(data, recipe)
            runs.append((TrainingRun(data, recipe, scheme, encoding, self.seed, device, shared), self.folder(cell)))
        with self.bars.training(open_cells) as on_progress:
            train_many(runs, checkpoint_seconds=self.checkpoint_seconds, half=True, on_progress=on_progress)

    def _note_training_set(self, data: Dataset) -> None:
        """Keeps what the cells are trained on, for tables that have to say so; refuses a second training set."""
        path = self.folder_of_all / TRAINING_SET_NAME
        facts = {"images": len(data), "classes": len(data.classes), "fingerprint": data.fingerprint()}
        if not path.is_file():
            write_atomically(path, (json.dumps(facts) + "\n").encode())
        elif self.training_set() != facts:
            raise InputError(f"{path} is of another training set; name another --out folder")

    def training_set(self) -> dict[str, Any] | None:
        """What the cells were trained on, where that is known: images, classes and fingerprint."""
        path = self.folder_of_all / TRAINING_SET_NAME
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_text())
            return {
                "images": int(found["images"]),
                "classes": int(found["classes"]),
                "fingerprint": found["fingerprint"],
            }
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged ({error}); delete it and run the command again") from error

    def _is_trained(self, cell: Cell) -> bool:
        """Whether the cell's model is there; refuses one that was trained otherwise, as far as model or log tell."""
        from sparsecert import modelfile
        from sparsecert.training.run import LOG_NAME, check_same_run

        path, log = self.folder(cell) / modelfile.MODEL_NAME, find_records(self.folder(cell) / LOG_NAME)
        if path.exists():
            found = modelfile.read_header(path).get("facts", {}).get("training", {}).get("settings", {})
            check_same_run(path, found, {"recipe": self.recipe_of(cell).to_dict(), "seed": self.seed})
            return True
        if log is not None and self._recorded(cell):
            epochs, wanted = records.read_bytes(log).count(b"\n"), self.recipe_of(cell).epochs
            if epochs != wanted:
                raise InputError(f"{log} is of {epochs} epochs, not {wanted}; name another --out folder")
        return False

    def model_of(self, cell: Cell) -> str | None:
        """The SHA-256 of the cell's model file, where it is there."""
        from sparsecert.modelfile import fingerprint

        return fingerprint(self.folder(cell)) if self._is_trained(cell) else None

    def _recorded(self, cell: Cell) -> list[Path]:
        """The records that the cell has, whole or begun."""
        names = f"{CERTIFY}*.jsonl*", f"{PREDICT}*.jsonl*", BASE_NAME
        return sorted(path for name in names for path in self.folder(cell).glob(name))

    def refuse_orphans(self, cell: Cell) -> None:
        """Records of a model that is not there could only be joined by those of another: trained anew, it differs."""
        if not self._is_trained(cell) and self._recorded(cell):
            raise InputError(f"{self.folder(cell)} holds records but not their model; name another --out folder")

    def load(self, cell: Cell) -> Smoothed:
        """The cell's classifier, trained if need be."""
        self.refuse_orphans(cell)
        self.train([cell])
        return self._load(self.folder(cell))

    def _load(self, model: str | Path) -> Smoothed:
        from sparsecert.smoothed import Smoothed

        return Smoothed.load(model, device=self.device, precision=self.precision)

    def make(self, cell: Cell, kind: str, sampling: Sampling, model: str | Path | None = None) -> None:
        """Makes the cell's records of this kind, or what is missing of them, with its own model or the one named."""
        from sparsecert.runs import certify_dataset, predict_dataset
        from sparsecert.runs.inputs import indices_of

        if model is None:
            self.train([cell])
        model = model or self.folder(cell)
        smoothed, path = self._load(model), self._path(cell, kind, sampling)
        common: dict[str, Any] = {"alpha": sampling.alpha, "seed": self.seed, "limit": self.inputs}
        inputs = len(indices_of(self.test, self.inputs))
        if kind == CERTIFY:
            with self.bars.inputs(cell, "certifying", inputs, sampling.n0 + sampling.n) as on_progress:
                certify_dataset(
                    smoothed, model, self.test, path, n0=sampling.n0, n=sampling.n, on_progress=on_progress, **common
                )
        else:
            assert sampling.predict_n is not None
            with self.bars.inputs(cell, "predicting", inputs, sampling.predict_n) as on_progress:
                predict_dataset(
                    smoothed, model, self.test, path, n=sampling.predict_n, on_progress=on_progress, **common
                )

    def _path(self, cell: Cell, kind: str, sampling: Sampling) -> Path:
        """The file of the paper's usual settings and the design's inputs bears the kind's name alone."""
        alpha = "" if sampling.alpha == 0.05 else f"-alpha-{sampling.alpha}"
        usual = self.limit is None or self.design.limit in (None, self.limit)
        return self.folder(cell) / f"{kind}{alpha}{'' if usual else f'-{self.limit}'}.jsonl"

    def _located(self, cell: Cell, kind: str, sampling: Sampling) -> Path:
        """The cell's records: of more inputs than the usual subset where these are complete and no number was asked."""
        path = self._path(cell, kind, sampling)
        larger = self._larger(path) if self.limit is None and self.design.limit is not None else []
        whole = (other for other in larger if self._is_whole(other, cell, kind, sampling))
        return next(whole, find_records(path) or path)

    def _is_whole(self, path: Path, cell: Cell, kind: str, sampling: Sampling) -> bool:
        """Whether the file has every input of a run of this study's settings."""
        seen = records.read_header(path)
        if seen is None or seen[1] != _inputs(seen[0]):
            return False
        return self._differing(seen[0], cell, kind, sampling) is None

    def _larger(self, path: Path) -> list[Path]:
        """Files beside this one that name a number of inputs above the design's, the largest first."""
        found: dict[int, Path] = {}
        for other in sorted(path.parent.glob(f"{path.stem}-*.jsonl*"), reverse=True):
            named = re.fullmatch(rf"{re.escape(path.stem)}-(\d+)\.jsonl(\.gz|\.xz)?", other.name)
            if named and int(named[1]) > (self.design.limit or 0):
                found[int(named[1])] = other
        return [found[inputs] for inputs in sorted(found, reverse=True)]

    def is_complete(self, cell: Cell, kind: str, sampling: Sampling, model: Path | None = None) -> bool:
        """Whether the records are there with every input; refuses those of other settings, or of another `model`."""
        path = self._located(cell, kind, sampling)
        seen = records.read_header(path) if path.is_file() else None
        if seen is None:
            return False
        run, lines, inputs = seen[0].run, seen[1], _inputs(seen[0])
        differing = self._differing(seen[0], cell, kind, sampling)
        if differing is not None:
            raise InputError(f"{path} was made with {differing}; name another --out folder")
        from sparsecert.modelfile import fingerprint

        if model is None and self._is_trained(cell):
            model = self.folder(cell)
        if model is not None and run.get("model") != {"sha256": fingerprint(model)}:
            raise InputError(f"{path} was made with another model than {model}; name another --out folder")
        return lines == inputs

    def _differing(self, header: Header, cell: Cell, kind: str, sampling: Sampling) -> str | None:
        """The first setting in which a records file is not what this study would have written, in words."""
        run, inputs = header.run, _inputs(header)
        there = {**run, "limit": inputs}
        there |= {name: run.get("scheme", {}).get(name) for name in ("keep", "kappa", "values")}
        there["encoding"] = run.get("encoding", {}).get("kind")
        there |= {name: run["data"].get(name.removeprefix("data ")) for name in ("data name", "split", FINGERPRINT)}
        for name, value in self._wanted(cell, kind, sampling, inputs, int(run["data"]["of"])).items():
            if there.get(name) != value:
                return f"{name} {there.get(name)}, not {value}"
        return None

    def _wanted(self, cell: Cell, kind: str, sampling: Sampling, inputs: int, of: int) -> dict[str, Any]:
        """The facts that this study would have written into a records file of `inputs` out of so many."""
        from sparsecert.runs import Drawn
        from sparsecert.runs.inputs import choice

        asked = self.inputs
        number = asked.limit if isinstance(asked, Drawn) else asked
        limit = of if number is None else min(number, of)
        if self.limit is None:
            limit = max(limit, inputs)  # more than the usual subset is as good
        chosen = choice(Drawn(limit, self.seed), of) if self.design.random else {}
        samples = {"n0": sampling.n0, "n": sampling.n} if kind == CERTIFY else {"n": sampling.predict_n}
        precision = {} if self.precision is None else {"precision": self.precision}
        votes = {"seed": self.seed, "alpha": sampling.alpha, **samples, "sampling": None}
        inputs_of = {**self._wanted_data(), "limit": limit, "chosen": chosen.get("chosen")}
        return {**cell.facts, **votes, **inputs_of, **precision}

    def _wanted_data(self) -> dict[str, Any]:
        """The facts that say which data set it was; two folders may have one name, so theirs is what they hold."""
        if self.data in datasets.NAMES:
            return {"data name": self.data, "split": "test"}
        at_hand = Path(self.data).expanduser().is_dir()
        return {"split": "test", **({FINGERPRINT: self.test.fingerprint()} if at_hand else {})}


def _kinds(sampling: Sampling) -> list[str]:
    """The records that a sampling needs."""
    return [CERTIFY] if sampling.predict_n is None else [CERTIFY, PREDICT]


def _inputs(header: Header) -> int:
    """How many inputs the run of a records file has."""
    return int(header.run["data"]["inputs"])
