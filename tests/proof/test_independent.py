"""Independent training, by brute force: no units perturbed in training, in the input or in both change a certified
answer, as long as they are no more than its radius.

Every set of units is tried, with several ways to poison the training inputs there, and with every value that the input
may have there. For each way the classifier is trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import torch

from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.encodings import NullChannels
from sparsecert.procedures import Exact
from sparsecert.registry import RULES
from sparsecert.schemes import FixedMasks, Partition, Spread
from sparsecert.smoothed import Smoothed
from sparsecert.training import TrainingRun
from sparsecert.training.cuda_graph import step_each
from sparsecert.training.recipes import RECIPES

CLASSES, ROWS = 3, 27
LABELS = np.arange(ROWS) % CLASSES
RECIPE = replace(RECIPES["independent-mnist"], epochs=3, batch=9, rates=((1, 0.02),))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """So little work is done much faster by one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _rows(units: int) -> Any:
    """float[ROWS, units] of 0, 1 and 2: each unit shows the class, but for some noise."""
    chance = np.random.default_rng(1)
    noisy = chance.random((ROWS, units)) < 0.1
    return np.where(noisy, chance.integers(0, CLASSES, (ROWS, units)), LABELS[:, None]).astype(float)


def _poisons(rows: Any, extreme: float) -> Iterator[Any]:
    """What training inputs may be changed to: the look of another class, an extreme, and what means nothing."""
    yield np.broadcast_to((LABELS[:, None] + 1.0) % CLASSES, rows.shape)
    yield np.full_like(rows, extreme)
    yield np.random.default_rng(2).random(rows.shape) * 2


def _prove(scheme: FixedMasks, extreme: float, trained: Callable[[Any], Smoothed], shape: tuple[int, ...]) -> int:
    """Trains on `_rows`, and on what they may be poisoned to; `shape` is that of an input. How many answers changed
    beyond the radius: if none did, nothing was put to the test.
    """
    rows, grid = _rows(scheme.units), np.array([*product(range(CLASSES), repeat=scheme.units)])
    places = CLASSES ** np.arange(scheme.units)[::-1]  # of an input in the grid: its dot product with these
    tested = np.arange(len(grid))[:: max(1, len(grid) // 40)]
    inputs = torch.from_numpy(grid).float().view(-1, *shape) / (CLASSES - 1)
    clean = trained(rows)
    certified = {rule: clean.certify(inputs, Exact(rule)) for rule in RULES}
    largest = max(int(found.radii.max()) for found in certified.values())
    assert largest >= 1
    changed = 0
    for size in range(1, largest + 1):
        for perturbed in combinations(range(scheme.units), size):
            apart = np.zeros((CLASSES**size, scheme.units), dtype=np.int64)
            apart[:, perturbed] = [*product(range(CLASSES), repeat=size)]
            others = np.where(np.isin(np.arange(scheme.units), perturbed), 0, grid[tested]) @ places
            reached = others[:, None] + apart @ places  # of each input, all that differ from it in these units
            for poison in _poisons(rows, extreme):
                poisoned = np.where(np.isin(np.arange(scheme.units), perturbed), poison, rows)
                ranks = trained(poisoned).predict(inputs).ranks
                for rule, found in certified.items():
                    same = RULES[rule].winners(ranks)[reached] == found.labels[tested, None]
                    assert same[found.radii[tested] >= size].all(), (perturbed, rule)
                    changed += int((~same).sum())
    return changed


@pytest.mark.parametrize("scheme", [Partition(5, 5), Spread(2, 3, 4), Partition(6, 3, rounds=3)], ids=str)
def test_no_pixels_perturbed_in_training_or_at_test_change_a_certified_answer(scheme: FixedMasks) -> None:
    shape = (1, *(scheme.sides or (1, scheme.units)))

    def trained(rows: Any) -> Smoothed:
        images = ArrayImages((rows * 127.5).astype(np.uint8).reshape(-1, *shape))
        data = Dataset("tiny", "train", images, LABELS, tuple("abc"), (0.5,), (0.5,))
        run = TrainingRun(data, RECIPE, scheme, NullChannels(), 0, torch.device("cpu"))
        while run.step < run.steps:
            step_each([run])
        return Smoothed(run.model, scheme, NullChannels(), classes=CLASSES, precision="fp32")

    assert _prove(scheme, 2.0, trained, shape) > 0


@pytest.mark.parametrize("base", ["trees", "random splits", "lightgbm"])
def test_no_columns_perturbed_in_training_or_at_test_change_a_certified_answer(base: str) -> None:
    pytest.importorskip("sklearn", reason="the tables extra is not installed")
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

    from sparsecert.tabular import PartitionedClassifier

    estimator: Any = (DecisionTreeClassifier if base == "trees" else ExtraTreeClassifier)(max_depth=2)
    if base == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        few = {"n_estimators": 2, "min_child_samples": 3, "min_data_in_bin": 1, "n_jobs": 1}
        estimator = lightgbm.LGBMClassifier(deterministic=True, force_col_wise=True, verbose=-1, **few)
    g = PartitionedClassifier(estimator, parts=5, random_state=0)
    assert _prove(Partition(6, 5), 1e30, lambda rows: g.fit(rows / 2, LABELS)._smoothed(), (6,)) > 0
