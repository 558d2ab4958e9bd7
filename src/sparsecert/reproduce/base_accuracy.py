"""How often the base classifier is right about a single ablated image, and how much less so on images it never saw.

Kept as `base.json` beside the model, so that a table is printed again without model or data.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.files import write_atomically
from sparsecert.reproduce.cell import Cell
from sparsecert.reproduce.study import BASE_NAME, Study

if TYPE_CHECKING:
    from sparsecert.smoothed import Smoothed
    from sparsecert.votes.loop import Voting

COPIES = 10  # of each image: 600,000 for CIFAR-10, whose standard error is below a tenth of a point
MOST_IMAGES = 1_024  # classified at once


@dataclass(frozen=True)
class Share:
    """`correct` of `images` times the copies of each were classified right; the images are some of `of`."""

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
        """The share of ablated training images that are classified right."""
        return self.training.correct / (self.training.images * self.copies)

    @property
    def test_accuracy(self) -> float:
        """The share of ablated test images that are classified right."""
        return self.test.correct / (self.test.images * self.copies)

    def to_json(self) -> str:
        """The file's contents."""
        shares = {"training": vars(self.training), "test": vars(self.test)}
        return json.dumps({**vars(self), **shares}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> BaseAccuracy:
        """What `to_json` wrote."""
        found = json.loads(text)
        training, test = (Share(**found.pop(name)) for name in ("training", "test"))
        base = cls(**found, training=training, test=test)
        for share in (training, test):
            if not 0 <= share.correct <= share.images * base.copies or not 0 < share.images <= share.of:
                raise ValueError(f"{share.correct} of {share.images} x {base.copies}")
        return base


def base_accuracy(study: Study, cell: Cell) -> BaseAccuracy:
    """The cell's base accuracy: found, or measured with its model, which is trained if need be."""
    found = kept_base_accuracy(study, cell)
    if found is not None:
        return found
    smoothed = study.load(cell)
    from sparsecert.modelfile import fingerprint

    base = _measured(study, cell, smoothed, fingerprint(study.folder(cell)))
    write_atomically(study.folder(cell) / BASE_NAME, base.to_json().encode())
    return base


def kept_base_accuracy(study: Study, cell: Cell) -> BaseAccuracy | None:
    """What was measured before, if it was; refuses that of other settings or of another model than is there."""
    path = study.folder(cell) / BASE_NAME
    if not path.is_file():
        return None
    try:
        base = BaseAccuracy.from_json(path.read_text())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error}); delete it and run the command again") from error
    _check(study, cell, path, base)
    return base


def _check(study: Study, cell: Cell, path: Path, base: BaseAccuracy) -> None:
    wanted: dict[str, Any] = {"seed": study.seed, "copies": study.n or COPIES}
    there: dict[str, Any] = {"seed": base.seed, "copies": base.copies}
    for name, share in (("training images", base.training), ("test images", base.test)):
        wanted[name] = share.of if study.limit is None else min(study.limit, share.of)
        there[name] = share.images
    if study.precision is not None:
        wanted["precision"], there["precision"] = study.precision, base.precision
    model = study.model_of(cell)
    if model is not None:
        wanted["model"], there["model"] = model, base.model
    for name, value in wanted.items():
        if there[name] != value:
            raise InputError(f"{path} was made with {name} {there[name]}, not {value}; name another --out folder")


def _measured(study: Study, cell: Cell, smoothed: Smoothed, model: str) -> BaseAccuracy:
    import torch

    from sparsecert.runs import pixels

    copies = study.n or COPIES
    sets = {"training": study.training, "test": study.test}
    images = sum(len(data.spaced_indices(study.limit)) for data in sets.values())
    voting = smoothed.voting(pixels(study.test, [0]), len(study.test.classes))
    with study.bars.inputs(cell, "classifying", images, copies) as on_progress:
        shares = {name: _share(smoothed, voting, data, study, copies, on_progress) for name, data in sets.items()}
    device = torch.cuda.get_device_name(smoothed.device) if smoothed.device.type == "cuda" else smoothed.device.type
    return BaseAccuracy(model, study.seed, copies, **shares, precision=smoothed.precision, device=device)


def _share(
    smoothed: Smoothed,
    voting: Voting,
    data: Dataset,
    study: Study,
    copies: int,
    on_progress: Callable[[int, int], None],
) -> Share:
    """Counts right classifications; the masks are those of prediction, which no training and no certificate draws."""
    from sparsecert.runs.inputs import groups, pixels
    from sparsecert.schemes import PREDICTION

    indices, correct = data.spaced_indices(study.limit), 0
    for examples in groups(indices, MOST_IMAGES):
        votes = smoothed.begin_count(
            pixels(data, examples), PREDICTION, copies, study.seed,
            examples=examples, progress=lambda done: on_progress(0, done), voting=voting,
        )().votes  # fmt: skip
        correct += int(votes[range(len(examples)), data.labels[examples]].sum())
        on_progress(len(examples), 0)
    return Share(len(indices), len(data), correct)
