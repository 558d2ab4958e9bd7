"""Accuracy of the base classifier on single ablated images, of the training set and of the test set.

Stored as `base.json` beside the model, so that tables need neither model nor data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.files import write_atomically
from sparsecert.modelfile import fingerprint
from sparsecert.progress import OnProgress
from sparsecert.runs.groups import groups, load_batch
from sparsecert.schemes import PREDICTION
from sparsecert.smoothed import Smoothed
from sparsecert.votes.copies import Copies
from sparsecert.votes.voter import Voter
from studies.levine_feizi_2020 import models, record_files
from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.study import Study

COPIES = 10  # of each image: 600,000 for CIFAR-10, whose standard error is below a tenth of a point
MOST_IMAGES = 1_024  # classified at once


@dataclass(frozen=True)
class Share:
    """How many copies of `images` of the `of` images were classified correctly."""

    images: int
    of: int
    correct: int


@dataclass(frozen=True)
class BaseAccuracy:
    """A base classifier on ablated images without augmentation, each with `copies` masks that training did not draw."""

    model: str  # its file's SHA-256
    seed: int
    copies: int
    training: Share
    test: Share
    precision: str
    device: str

    @property
    def training_accuracy(self) -> float:
        """The accuracy on ablated training images."""
        return self.training.correct / (self.training.images * self.copies)

    @property
    def test_accuracy(self) -> float:
        """The accuracy on ablated test images."""
        return self.test.correct / (self.test.images * self.copies)

    def to_json(self) -> str:
        shares = {"training": vars(self.training), "test": vars(self.test)}
        return json.dumps({**vars(self), **shares}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> BaseAccuracy:
        """The inverse of `to_json`."""
        found = json.loads(text)
        training, test = (Share(**found.pop(name)) for name in ("training", "test"))
        base = cls(**found, training=training, test=test)
        for share in (training, test):
            if not 0 <= share.correct <= share.images * base.copies or not 0 < share.images <= share.of:
                raise ValueError(f"{share.correct} of {share.images} x {base.copies}")
        return base


def base_accuracy(study: Study, spec: ModelSpec) -> BaseAccuracy:
    """The model's base accuracy: stored, or measured if missing."""
    found = stored_base_accuracy(study, spec)
    if found is not None:
        return found
    smoothed = models.load(study, spec)
    base = _measured(study, spec, smoothed, fingerprint(study.folder(spec)))
    write_atomically(study.folder(spec) / models.BASE_NAME, base.to_json().encode())
    return base


def stored_base_accuracy(study: Study, spec: ModelSpec) -> BaseAccuracy | None:
    """The stored base accuracy, if there is one; refuses one of other settings or of another model."""
    path = study.folder(spec) / models.BASE_NAME
    if not path.is_file():
        return None
    try:
        base = BaseAccuracy.from_json(path.read_text())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error}); delete it and run the command again") from error
    _check(study, spec, path, base)
    return base


def _check(study: Study, spec: ModelSpec, path: Path, base: BaseAccuracy) -> None:
    wanted: dict[str, Any] = {"seed": study.seed, "copies": study.n or COPIES}
    there: dict[str, Any] = {"seed": base.seed, "copies": base.copies}
    for name, share in (("training images", base.training), ("test images", base.test)):
        wanted[name] = share.of if study.limit is None else min(study.limit, share.of)
        there[name] = share.images
    there["precision"] = base.precision
    wanted |= record_files.wanted_precision(study)
    model = models.fingerprint(study, spec)
    if model is not None:
        wanted["model"], there["model"] = model, base.model
    record_files.refuse_difference(path, there, wanted)


def _measured(study: Study, spec: ModelSpec, smoothed: Smoothed, model: str) -> BaseAccuracy:
    copies = study.n or COPIES
    sets = {"training": study.training, "test": study.test}
    images = sum(len(data.spaced_indices(study.limit)) for data in sets.values())
    voter = smoothed.voter(load_batch(study.test, [0]), len(study.test.classes))
    with study.progress.inputs(f"classifying {spec.folder}", images, copies) as on_progress:
        shares = {name: _share(voter, data, study, copies, on_progress) for name, data in sets.items()}
    device = torch.cuda.get_device_name(smoothed.device) if smoothed.device.type == "cuda" else smoothed.device.type
    return BaseAccuracy(model, study.seed, copies, **shares, precision=smoothed.precision, device=device)


def _share(
    voter: Voter,
    data: Dataset,
    study: Study,
    copies: int,
    on_progress: OnProgress,
) -> Share:
    """Counts correct classifications, with the masks of prediction, which training and certificates never draw."""

    indices, correct = data.spaced_indices(study.limit), 0
    for examples in groups(indices, MOST_IMAGES):
        shown = Copies(voter, load_batch(data, examples), examples, study.seed, on_progress)
        votes = shown.begin_count(PREDICTION, 0, copies)().votes
        correct += int(votes[range(len(examples)), data.labels[examples]].sum())
        on_progress(len(examples), 0)
    return Share(len(indices), len(data), correct)
