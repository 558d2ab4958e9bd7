"""The nearest neighbour against scikit-learn's, and against plain differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from sparsecert import datasets
from sparsecert.attacks import Pointwise
from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.errors import InputError
from sparsecert.plain import NEAREST_NEIGHBOUR, NearestNeighbour, defender_for, neighbours


@pytest.fixture(scope="module")
def halves() -> tuple[Dataset, Dataset]:
    return datasets.load("digits", "train"), datasets.load("digits", "test")


def _rows(data: Dataset) -> np.ndarray:
    assert isinstance(data.images, ArrayImages)
    return (data.images.pixels.reshape(len(data), -1) / 255).astype(np.float64)


def test_answers_as_scikit_learn_does(halves: tuple[Dataset, Dataset]) -> None:
    """On all test digits, whose nearest training digits are of one class each."""
    training, test = halves
    known = KNeighborsClassifier(n_neighbors=1, algorithm="brute").fit(_rows(training), training.labels)
    images = torch.from_numpy(_rows(test)).view(-1, 1, 8, 8)
    answers = defender_for(NEAREST_NEIGHBOUR, test).answers(images)
    assert np.array_equal(answers.labels.numpy(), known.predict(_rows(test)))
    distances, _ = known.kneighbors(_rows(test))
    np.testing.assert_allclose(-answers.scores.amax(dim=1).numpy(), distances[:, 0], rtol=1e-5)
    assert (answers.labels.numpy() == test.labels).mean() > 0.95


def test_every_score_is_the_least_distance_of_its_class_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    known, images = (torch.rand(n, 2, 3, 3, generator=generator, dtype=torch.float64) for n in (50, 23))
    labels = torch.arange(50) % 4
    monkeypatch.setattr(neighbours, "TRAINING_AT_ONCE", 5)
    monkeypatch.setattr(neighbours, "IMAGES_AT_ONCE", 7)
    scores = NearestNeighbour(known, labels, 4)(images)
    apart = (images[:, None] - known[None]).flatten(2).norm(dim=2)
    wanted = torch.stack([-apart[:, labels == number].amin(dim=1) for number in range(4)], dim=1)
    torch.testing.assert_close(scores, wanted, rtol=1e-12, atol=0)


def test_of_classes_at_the_same_distance_the_first_wins() -> None:
    known = torch.tensor([[[[1.0]]], [[[0.0]]], [[[1.0]]]])
    nearest = NearestNeighbour(known, torch.tensor([2, 0, 1]), 3)
    assert nearest(torch.tensor([[[[0.75]]], [[[0.5]]], [[[0.25]]]])).argmax(dim=1).tolist() == [1, 0, 0]


def test_the_gradient_points_away_from_the_nearest_image() -> None:
    known = torch.tensor([[[[0.0, 0.0]]], [[[1.0, 0.0]]]])
    image = torch.tensor([[[[0.3, 0.4]]], [[[0.0, 0.0]]]], dtype=torch.float64, requires_grad=True)
    scores = NearestNeighbour(known, torch.tensor([0, 1]), 2)(image)
    (slopes,) = torch.autograd.grad(scores[:, 0].sum(), image)
    wanted = torch.tensor([[[[-0.6, -0.8]]], [[[0.0, 0.0]]]], dtype=torch.float64)  # none at the image itself
    torch.testing.assert_close(slopes, wanted)


def test_the_pointwise_attack_fools_it(halves: tuple[Dataset, Dataset]) -> None:
    _, test = halves
    defender = defender_for(NEAREST_NEIGHBOUR, test)
    images = torch.from_numpy(test.images.batch(range(4))).float() / 255
    found = Pointwise(restarts=2)(defender, images, torch.from_numpy(test.labels[:4]))
    assert found.succeeded.all()
    assert (defender.answers(found.adversarial).labels != torch.from_numpy(test.labels[:4])).all()


def test_refusals() -> None:
    images = torch.zeros(3, 1, 2, 2)
    with pytest.raises(InputError, match="labels must be one per training image, got 2 for 3"):
        NearestNeighbour(images, torch.zeros(2).long(), 1)
    with pytest.raises(InputError, match="class 1 of 2 has none"):
        NearestNeighbour(images, torch.zeros(3).long(), 2)
    with pytest.raises(InputError, match=r"images must be of shape \(1, 2, 2\), got \(1, 3, 3\)"):
        NearestNeighbour(images, torch.zeros(3).long(), 1)(torch.zeros(1, 1, 3, 3))
