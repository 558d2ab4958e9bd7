"""Defenders answer by their own rule, and say what an answer took."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sparsecert.attacks import (
    ABSTAINS,
    Answers,
    CarliniWagnerL0,
    Estimator,
    Judge,
    Network,
    Pointwise,
    Saliency,
    SmoothedDefender,
    SurrogateDefender,
    UniformNoise,
)
from sparsecert.attacks.defenders import margins
from sparsecert.errors import InputError
from sparsecert.smoothed import Smoothed
from tests.attacks.linear import made
from tests.attacks.means import nearest_mean
from tests.helpers import Digits


def test_a_networks_largest_score_wins_and_a_broken_one_is_no_answer() -> None:
    scores = torch.tensor([[0.0, 2.0, 1.0], [3.0, float("nan"), 0.0], [5.0, 4.0, -1.0]])
    answers = Network(lambda images: scores).answers(torch.zeros(3, 1, 2, 2))
    assert answers.labels.tolist() == [1, ABSTAINS, 0]
    assert answers.evaluations.tolist() == [1, 1, 1]
    assert margins(answers.scores, torch.tensor([1, 0, 1])).tolist() == [1.0, 3.0, -1.0]
    with pytest.raises(InputError, match=r"the model must give scores \(images, classes\), got \(3, 3\)"):
        Network(lambda images: scores).answers(torch.zeros(2, 1, 2, 2))


def test_a_network_answers_in_its_own_dtype_and_in_eval_mode() -> None:
    """Scores that differ by less than floats tell; and a dropout that would turn every answer."""
    close = torch.tensor([[1.0, 1.0 + 1e-12]], dtype=torch.float64)
    assert Network(lambda images: close).answers(torch.zeros(1, 1, 2, 2)).labels.tolist() == [1]
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(1.0), torch.nn.Linear(4, 2))
    images = torch.rand(3, 1, 2, 2, requires_grad=True)
    wanted = model.eval()(images)
    model.train()
    assert torch.equal(Network(model).answers(images).scores, wanted)
    assert torch.equal(Network(model).scores(images), wanted)
    assert all(module.training for module in model.modules())


def test_a_model_whose_scores_have_no_gradients_says_so() -> None:
    model, images, labels = made(images=2)
    with pytest.raises(InputError, match="the model's scores have no gradients; use a black-box attack"):
        Saliency()(Network(lambda images: model(images.detach())), images, labels)


class _Rule:
    """An estimator as scikit-learn's are: class 1 where the first feature is above a half."""

    classes_ = np.array([0, 1])

    def predict(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return (rows[:, 0] > 0.5).astype(int)


def test_an_estimator_is_attacked_through_its_predictions() -> None:
    images = torch.full((2, 1, 3, 3), 0.2)
    found = Pointwise(restarts=2)(Estimator(_Rule()), images, torch.zeros(2, dtype=torch.int64))
    assert found.distances.tolist() == [1, 1]
    assert (found.adversarial[:, 0, 0, 0] == 1).all()
    wrong = _Rule()
    wrong.classes_ = np.array([1, 2])
    with pytest.raises(InputError, match="classes must be 0, 1, 2"):
        Estimator(wrong)


class _Column(_Rule):
    """Gives its predictions as a column, and takes rows that are black there for outliers."""

    def predict(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.where(rows[:, :1] == 0, -1, rows[:, :1] > 0.5)


class _Scaling(_Rule):
    """Scales the rows where they are; its probabilities are no numbers."""

    def predict(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        rows -= 0.5
        return (rows[:, 0] > 0).astype(int)

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.full((len(rows), 2), np.nan)


def test_an_estimator_may_give_a_column_reject_a_row_or_write_into_the_rows() -> None:
    rows = torch.tensor([[0.2, 1.0], [0.0, 1.0], [0.7, 0.0]])
    answers = Estimator(_Column()).answers(rows)
    assert answers.labels.tolist() == [0, ABSTAINS, 1]
    assert answers.scores.tolist() == [[1, 0], [0, 0], [0, 1]]
    before = rows.clone()
    answers = Estimator(_Scaling()).answers(rows)
    assert answers.labels.tolist() == [0, 0, 1]
    assert answers.scores.isneginf().all()
    assert torch.equal(rows, before)


def test_an_estimator_that_predicts_no_class_fails_for_that_image_alone() -> None:
    class Strange(_Rule):
        def predict(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
            return np.where(rows[:, 1] == 0.25, np.nan, rows[:, 0] > 0.5)

    rows = torch.tensor([[0.2, 0.5], [0.2, 0.25], [0.7, 0.5]])
    found = Pointwise(restarts=2)(Estimator(Strange()), rows, torch.tensor([0, 0, 1]))
    assert found.failed == (None, "ValueError: the estimator's classes are 0 to 1, it predicted nan", None)
    assert found.distances.tolist() == [1, -1, 1]


class _Fixed:
    """Predicts these labels, with such probabilities, whatever it is asked."""

    classes_ = np.array([0, 1])

    def __init__(self, labels: list[int], shape: tuple[int, ...]) -> None:
        self.labels, self.shape = labels, shape

    def predict(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.array(self.labels)

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.zeros(self.shape)


@pytest.mark.parametrize(
    ("estimator", "got"),
    [
        (_Fixed([1], (3, 2)), r"\(1,\), \(3, 2\), \(3,\)"),
        (_Fixed([1, 1, 1], (1, 2)), r"\(3,\), \(1, 2\), \(3,\)"),
        (_Fixed([1, 1, 1], (3,)), r"\(3,\), \(3,\), \(3,\)"),
    ],
)
def test_answers_of_another_number_than_was_asked_for_are_refused(estimator: _Fixed, got: str) -> None:
    """One label for all would be compared with each image's."""
    with pytest.raises(InputError, match=rf"3 images must be answered by labels \(3,\), scores .*, got {got}"):
        Pointwise(restarts=1)(Estimator(estimator), torch.rand(3, 4), torch.ones(3, dtype=torch.int64))


def test_a_model_keeps_to_its_number_of_classes_and_gives_a_tensor() -> None:
    model, images, labels = made(images=3)
    growing = Network(lambda shown: model(shown) if torch.equal(shown, images) else torch.zeros(len(shown), 5))
    with pytest.raises(InputError, match=r"scores \(3, 2\) and evaluations \(3,\), got \(3,\), \(3, 5\)"):
        Pointwise(restarts=1)(growing, images, labels)
    with pytest.raises(InputError, match=r"must give a tensor of scores \(images, classes\), got a ndarray"):
        Network(lambda shown: model(shown).numpy()).answers(images)  # type: ignore[arg-type, return-value]


def test_a_smoothed_classifier_answers_as_it_predicts(trained: Path, digits: Digits) -> None:
    smoothed, (images, labels) = Smoothed.load(trained), digits
    defender = SmoothedDefender(smoothed, n=200, alpha=0.05, seed=3)
    first, second = defender.answers(images[:6]), defender.answers(images[:6])
    assert first.evaluations.tolist() == [200] * 6
    said = smoothed.predict(images[:6], n=200, alpha=0.05, seed=3)
    assert first.labels.tolist() == np.where(said.abstained, ABSTAINS, said.labels).tolist()
    assert first.scores.numpy() == pytest.approx(said.counts / 200)
    assert not torch.equal(first.scores, second.scores)  # masks of its own for each query
    found = Pointwise(restarts=1, rounds=0)(SmoothedDefender(smoothed, n=50), images[:2], labels[:2])
    assert torch.equal(found.evaluations, 50 * found.queries)


def test_the_gradient_of_a_smoothed_classifier_is_that_of_its_mean_probabilities(
    digits: Digits,
) -> None:
    """By finite differences, in doubles; and it leads to smaller changes than chance does."""
    smoothed, (images, labels) = nearest_mean(), digits
    defender = SmoothedDefender(smoothed, n=300, copies=32)
    image = images[:1].clone().requires_grad_()
    scores = defender.scores(image)
    assert float(scores.sum().detach()) == pytest.approx(1, abs=1e-5)
    label = int(labels[0])
    (slope,) = torch.autograd.grad(scores[0, label], image)
    place = divmod(int(slope.abs().argmax()), 8)
    ends = []
    for step in (-1e-2, 1e-2):
        moved = images[:1].clone()
        moved[0, 0, place[0], place[1]] += step
        ends.append(float(defender.scores(moved)[0, label].detach()))
    assert float(slope[0, 0, place[0], place[1]]) == pytest.approx((ends[1] - ends[0]) / 2e-2, rel=0.1)
    led, chance = (
        attack(SmoothedDefender(smoothed, n=300, copies=32), images[:10], labels[:10])
        for attack in (Saliency(), UniformNoise(restarts=3))
    )
    assert led.median < chance.median
    assert (led.evaluations > led.queries).all()


@pytest.mark.parametrize("kind", [SmoothedDefender, SurrogateDefender])
def test_doubles_are_taken_as_predict_takes_them(kind: type[SmoothedDefender], trained: Path, digits: Digits) -> None:
    smoothed, images = Smoothed.load(trained), digits[0][:3]
    one, other = kind(smoothed, n=50, copies=4), kind(smoothed, n=50, copies=4)
    assert torch.equal(one.answers(images.double()).scores, other.answers(images).scores)
    assert torch.equal(one.scores(images.double()), other.scores(images))


def test_nothing_found_on_a_smoothed_classifier_is_no_error(trained: Path, digits: Digits) -> None:
    smoothed, (images, labels) = Smoothed.load(trained), digits
    right = smoothed.predict(images, n=200, seed=1).labels == labels.numpy()
    attack = CarliniWagnerL0(steps=1, raises=0)
    found = attack(SurrogateDefender(smoothed, n=200, copies=4), images[right][:2], labels[right][:2])
    assert not found.succeeded.any()


def test_abstaining_is_a_success_of_the_attack() -> None:
    class Shy(Network):
        def answers(
            self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
        ) -> Answers:
            answers = super().answers(images)
            shy = margins(answers.scores, answers.labels) < 2
            return Answers(torch.where(shy, ABSTAINS, answers.labels), answers.scores, answers.evaluations)

    model, images, labels = made(images=10)
    bold, shy = (Pointwise(restarts=2)(kind(model), images, labels) for kind in (Network, Shy))
    assert shy.distances.double().mean() < bold.distances.double().mean()
    assert (model(shy.adversarial).argmax(1) == labels).any()


def test_the_judge_refuses_what_is_out_of_bounds_and_keeps_the_nearest() -> None:
    model, images, labels = made(images=3, size=16, margin=10.0)
    judge = Judge(Network(model), images, labels, (0.0, 1.0), None)
    with pytest.raises(ValueError, match="outside"):
        judge.fooled(images[:1] + 2, torch.tensor([0]))
    with pytest.raises(ValueError, match="outside"):
        judge.fooled(images[:1] * float("nan"), torch.tensor([0]))
    ends = (model.weights > 0).float() if labels[1] == 0 else (model.weights <= 0).float()
    near = images[1].clone()
    near[:, :12] = ends[:, :12]
    attempts = torch.stack((ends.expand_as(images[1]), near, ends.expand_as(images[1])))
    assert judge.fooled(attempts, torch.tensor([1, 1, 1])).all()
    assert judge.distances.tolist() == [-1, 12 * 16, -1]
    assert torch.equal(judge.best[1], near)
    assert judge.queries.tolist() == [0, 3, 0]
