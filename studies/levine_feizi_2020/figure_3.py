"""Figures 3 and 5: adversarial images of the Pointwise attack on the smoothed classifier, and their perturbations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparsecert.errors import InputError
from sparsecert.records import AttackRecord, AttackRecords
from sparsecert.reports import compute_gap, summarise
from sparsecert.reports.drawing import wrap_text, write_figure
from sparsecert.reports.pictures import Pixels, image, show
from sparsecert.runs import adversarial_images
from studies.levine_feizi_2020.attacked import PUBLISHED, AttackStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MORE, ACROSS = 40, 8  # examples of Figure 5, and how many side by side
BRIGHTER, DARKER = np.array([255, 150, 30], dtype=np.uint8), np.array([60, 150, 255], dtype=np.uint8)
DIMMED = 0.45  # the original, where its changed pixels are to be seen
UNKNOWN = ""
KEY = "orange: made brighter, blue: made darker"


@dataclass(frozen=True)
class Example:
    """An image before and after the attack, in grey, with its class, the new answer and its certified radius."""

    attack: AttackRecord
    original: Pixels
    adversarial: Pixels
    true: str
    says: str
    radius: str

    @property
    def changes(self) -> str:
        """How many pixels, and the radius where that is known."""
        pixels = "1 pixel" if self.attack.distance == 1 else f"{self.attack.distance} pixels"
        return "\n".join(filter(None, (pixels, self.radius)))

    @property
    def marked(self) -> Pixels:
        """The original dimmed, in colour where it was changed."""
        dimmed = np.repeat((DIMMED * self.original).astype(np.uint8)[..., None], 3, axis=2)
        changed: npt.NDArray[np.bool_] = np.zeros(self.original.size, dtype=np.bool_)
        changed[list(self.attack.pixels)] = True
        changed = changed.reshape(self.original.shape)
        brighter = self.adversarial > self.original
        dimmed[changed & brighter], dimmed[changed & ~brighter] = BRIGHTER, DARKER
        return dimmed


def figure_3(attacked: AttackStudy, path: Path) -> list[Path]:
    """Writes, for each class, the first image that was classified correctly and attacked successfully."""
    attack_records = attacked.attack_records(attacked.ours, PUBLISHED)
    examples = _examples(attacked, attack_records, first_of_each_class(attack_records), path)
    chosen = "of each class the first image attacked that was answered rightly and then fooled"
    return write_figure(lambda: _in_columns(attacked, attack_records, examples, chosen), path)


def figure_5(attacked: AttackStudy, path: Path) -> list[Path]:
    """Writes the 40 that follow in the test set, leaving out those of Figure 3."""
    attack_records = attacked.attack_records(attacked.ours, PUBLISHED)
    examples = _examples(attacked, attack_records, the_next(attack_records), path)
    chosen = f"the next {len(examples)}, in the order of the test set"
    return write_figure(lambda: _in_a_grid(attacked, attack_records, examples, chosen), path)


def fooled(attack_records: AttackRecords) -> list[AttackRecord]:
    """The images that were classified correctly and attacked successfully, in the order of the test set."""
    return sorted((line for line in attack_records.lines if line.distance), key=lambda line: line.example)


def first_of_each_class(attack_records: AttackRecords) -> list[AttackRecord]:
    """The first fooled image of each class, by class: nothing is hand-picked."""
    first: dict[int, AttackRecord] = {}
    for line in fooled(attack_records):
        first.setdefault(line.true, line)
    return [first[true] for true in sorted(first)]


def the_next(attack_records: AttackRecords) -> list[AttackRecord]:
    """The first fooled images that Figure 3 does not show."""
    shown = {line.example for line in first_of_each_class(attack_records)}
    return [line for line in fooled(attack_records) if line.example not in shown][:MORE]


def _examples(
    attacked: AttackStudy, attack_records: AttackRecords, chosen: Sequence[AttackRecord], path: Path
) -> list[Example]:
    """The images to show; needs the data set."""
    if not chosen:
        raise InputError(
            f"{attack_records.path} holds too few fooled images for {path.name}; attack more, with --limit"
        )

    data, radii = attacked.study.test, _radii(attacked, attack_records)
    left = adversarial_images(replace(attack_records, lines=tuple(chosen)), data)[:, 0]
    after: Pixels = (255 * left).round().byte().numpy()
    return [
        Example(
            attack=line,
            original=image(data, line.example),
            adversarial=after[place],
            true=f"a {data.classes[line.true]}",
            says="abstains" if line.answer is None else f"answers {data.classes[line.answer]}",
            radius=radii.get(line.example, UNKNOWN),
        )
        for place, line in enumerate(chosen)
    ]


def _radii(attacked: AttackStudy, attack_records: AttackRecords) -> dict[int, str]:
    """Each image's two-sided certified radius in words; empty without certificates."""
    certificates, _ = attacked.certificates(attack_records)
    if certificates is None:
        return {}
    gap = compute_gap(certificates, attack_records, summarise(certificates, bound="two-sided"))
    return {pair.example: "not certified" if pair.radius is None else f"certified {pair.radius}" for pair in gap.pairs}


def _in_columns(
    attacked: AttackStudy, attack_records: AttackRecords, examples: Sequence[Example], chosen: str
) -> Figure:
    """A column per image: the original, the adversarial one, and the changes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.0, 1.1 * len(examples)), 4.3), layout="constrained")
    figure.suptitle(_heading(attacked, attack_records, examples, chosen), fontsize=9)
    for place, example in enumerate(examples, start=1):
        pictures = (
            (example.original, example.true),
            (example.adversarial, example.says),
            (example.marked, example.changes),
        )
        for row, (picture, title) in enumerate(pictures):
            show(figure.add_subplot(len(pictures), len(examples), row * len(examples) + place), picture, title)
    return figure


def _in_a_grid(
    attacked: AttackStudy, attack_records: AttackRecords, examples: Sequence[Example], chosen: str
) -> Figure:
    """A pair per image: the adversarial one above its changes."""
    from matplotlib.figure import Figure

    across, rows = min(ACROSS, len(examples)), -(-len(examples) // ACROSS)
    width = max(6.0, 1.25 * across)
    figure = Figure(figsize=(width, 3.3 * rows + 0.6), layout="constrained")
    heading = _heading(attacked, attack_records, examples, chosen).splitlines()
    figure.suptitle("\n".join(wrap_text(line, 0.95 * width, 11) for line in heading), fontsize=11)
    for place, example in enumerate(examples):
        at = 2 * across * (place // across) + place % across + 1
        above, below = (figure.add_subplot(2 * rows, across, row) for row in (at, at + across))
        show(above, example.adversarial, f"{example.true}\n{example.says}", fontsize=11)
        show(below, example.marked, example.changes, fontsize=11)
    return figure


def _heading(attacked: AttackStudy, attack_records: AttackRecords, examples: Sequence[Example], chosen: str) -> str:
    run = attack_records.header.run
    attack = f"the Pointwise attack, best of {run['attack']['restarts']}, n = {run['n']:,}, alpha = {run['alpha']}"
    certified = "; certified: the original's radius" if any(example.radius for example in examples) else ""
    return f"MNIST, k = {attacked.spec.keep}: images found by {attack}\n{chosen}; {KEY}{certified}"
