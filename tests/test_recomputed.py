"""Models that certify many pixels: every radius again, from the text of the committed records by code of its own."""

from __future__ import annotations

import json
import lzma
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import beta

from results.trade_offs import model

pytestmark = pytest.mark.check

RESULTS = Path(__file__).parent.parent / "results"
CLASSES = range(10)


def _lines(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings of the run, and a line for each image."""
    with lzma.open(RESULTS / name / "certify.jsonl.xz", "rt") as file:
        header, *lines = map(json.loads, file)
    return header["run"], lines


def _by_pairs(rankings: list[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each image the class that beats every other one, or -1, and the radius by disjoint masks."""
    digits = np.frombuffer("".join(rankings).replace(" ", "").encode(), dtype=np.uint8)
    classes = digits.reshape(len(rankings), -1, len(CLASSES)) - ord("0")
    places = classes.argsort(axis=2)  # of each class in the ranking of each mask
    labels, radii = np.full(len(rankings), -1), np.zeros(len(rankings), dtype=int)
    for one in CLASSES:
        rivals = [rival for rival in CLASSES if rival != one]
        leads = [np.sign(places[:, :, rival] - places[:, :, one]).sum(axis=1) for rival in rivals]
        beats = np.all(
            [(lead > 0) | ((lead == 0) & (one < rival)) for lead, rival in zip(leads, rivals, strict=True)], axis=0
        )
        labels[beats] = one
        radius = np.min([(lead + (one < rival) - 1) // 2 for lead, rival in zip(leads, rivals, strict=True)], axis=0)
        radii[beats] = radius[beats]
    return labels, radii


def _reached(name: str, lines: list[dict[str, Any]]) -> tuple[float, int]:
    """Accuracy and median of the recorded answers, which have to be those of the pages."""
    summary = model(*name.split("/")).summary()
    right = [line["radius"] if line["label"] == line["true"] and line["radius"] is not None else -1 for line in lines]
    assert summary.median == sorted(right)[len(right) // 2]
    return summary.accuracy, summary.median


@pytest.mark.parametrize(
    ("name", "masks", "images", "accuracy", "median"),
    [
        ("mnist/spread-160", 160, 10_000, 0.75, 17),
        ("mnist/spread-100", 100, 10_000, 0.85, 14),
        ("cifar10/grid-8", 64, 10_000, 0.65, 17),
        ("cifar10/grid-8-averaged", 64, 10_000, 0.65, 18),
        ("imagenette/grid-28", 784, 1_000, 0.60, 60),
    ],
)
def test_fixed_masks(name: str, masks: int, images: int, accuracy: float, median: int) -> None:
    """The bars; where no class beats all others, the recorded answer is that of the run-off, at radius 0."""
    run, lines = _lines(name)
    assert (len(lines), run["data"]["of"], run["masks"]) == (images, images, masks)
    labels, radii = _by_pairs([line["rankings"] for line in lines])
    assert radii.tolist() == [line["radius"] for line in lines]
    recorded = np.array([line["label"] for line in lines])
    assert (labels == recorded)[labels >= 0].all()
    assert np.mean(labels >= 0) > 0.9
    reached, most = _reached(name, lines)
    assert reached == np.mean([line["label"] == line["true"] for line in lines]) >= accuracy
    assert most >= median


@pytest.mark.parametrize(
    ("name", "pixels", "keep", "images", "median"),
    [("mnist/k8", 784, 8, 10_000, 13), ("cifar10/k16", 1_024, 16, 4_000, 14)],
)
def test_random_masks(name: str, pixels: int, keep: int, images: int, median: int) -> None:
    """The bars at alpha = 0.05. The radius: the largest rho with a Clopper-Pearson bound above 1/2 + delta(rho)."""
    run, lines = _lines(name)
    assert (len(lines), run["n0"], run["n"], run["alpha"]) == (images, 1_000, 10_000, 0.05)
    assert run["scheme"] == {"kind": "uniform", "units": pixels, "keep": keep}
    deltas = [1 - math.comb(pixels - rho, keep) / math.comb(pixels, keep) for rho in range(100)]
    radii = []
    for line in lines:
        assert line["invalid"] == [0, 0]
        smallest = 10_000 - max(
            line["behind"][1].values(), default=0
        )  # copies that rank the class above its strongest rival
        lower = beta.ppf(0.05, smallest, 10_000 - smallest + 1) if smallest else 0.0
        radii.append(sum(lower - delta > 0.5 for delta in deltas) - 1)
    recorded = [-1 if line["radius"] is None else line["radius"] for line in lines]
    assert radii == recorded
    assert _reached(name, lines)[1] >= median


@pytest.mark.parametrize(("name", "median"), [("mnist/k8", 3), ("cifar10/k16", 12)])
def test_the_same_votes_by_the_two_sided_bound(name: str, median: int) -> None:
    """As docs/pairwise.md says."""
    assert replace(model(*name.split("/")), by="two-sided").summary().median == median
