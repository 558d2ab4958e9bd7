"""What every attack promises, over the one list of them; and how near each comes to the smallest change there is."""

from __future__ import annotations

from itertools import combinations
from statistics import median
from typing import Any

import pytest
import torch

from sparsecert.attacks import (
    JSMA,
    NOT_FOUND,
    Answers,
    Attack,
    CarliniWagnerL0,
    Defender,
    Ensemble,
    Network,
    NoGradients,
    Pointwise,
    Saliency,
    SigmaZero,
    SparseAutoAttack,
    SparsePGD,
    SparseRS,
    UniformNoise,
    pointwise,
)
from sparsecert.attacks.judge import Judge, changed_pixels
from sparsecert.errors import InputError
from sparsecert.registry import ATTACKS as REGISTRY
from tests.attacks.linear import Linear, made

ATTACKS = [
    Pointwise(restarts=2),
    SparseRS(steps=100),
    Saliency(),
    JSMA(),
    CarliniWagnerL0(steps=10, rate=0.3),
    UniformNoise(restarts=3),
    SigmaZero(steps=30),
    SparsePGD(steps=40),
    SparsePGD(steps=40, projected=True),
    SparseAutoAttack(steps=20, queries=20),
    Ensemble(steps=10, queries=20, rounds=1),
]
BARS = [
    (Saliency(), 1.0),
    (JSMA(), 1.25),
    (Pointwise(restarts=10), 1.25),
    (Pointwise(restarts=10, rounds=0), 1.75),  # as published, it takes pixels back in random order once
    (SigmaZero(steps=100), 1.1),
    (SparsePGD(steps=100), 1.1),
    (Ensemble(), 1.0),
    pytest.param(SparsePGD(steps=300, projected=True), 1.25, marks=pytest.mark.check),
    pytest.param(SparseAutoAttack(), 1.0, marks=pytest.mark.check),
    pytest.param(SparseRS(steps=3_000), 1.25, marks=pytest.mark.check),
    pytest.param(CarliniWagnerL0(), 1.25, marks=pytest.mark.check),
]
ASKED_ONLY = Pointwise, SparseRS, UniformNoise, Ensemble  # need no gradients
BY_CHANCE = *ASKED_ONLY, SparsePGD, SparseAutoAttack


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_what_is_found_fools_the_defender_and_is_as_far_as_said(attack: Attack, channels: int) -> None:
    model, images, labels = made(images=12, channels=channels)
    labels[0] = 1 - labels[0]
    before = images.clone()
    found = attack(Network(model), images, labels)
    assert torch.equal(images, before)
    assert found.distances[0] == 0
    assert torch.equal(found.adversarial[0], images[0])
    assert found.queries[0] == 1
    assert (found.adversarial >= 0).all()
    assert (found.adversarial <= 1).all()
    differs = (found.adversarial != images).any(dim=1).flatten(1).sum(dim=1)
    assert torch.equal(differs[found.succeeded], found.distances[found.succeeded])
    assert (model(found.adversarial[found.succeeded]).argmax(1) != labels[found.succeeded]).all()
    assert found.succeeded.sum() >= 9
    assert (found.distances >= model.least(images))[1:][found.succeeded[1:]].all()
    assert (found.queries >= 1).all()
    assert torch.equal(found.queries, found.evaluations)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("attack", "bar"), BARS, ids=str)
def test_attacks_come_near_the_smallest_change(attack: Attack, bar: float, channels: int) -> None:
    model, images, labels = made(images=20, channels=channels, size=16, margin=10.0)
    least, found = model.least(images), attack(Network(model), images, labels)
    assert found.succeeded.all()
    assert least.double().mean() > 3
    assert median((found.distances / least).tolist()) <= bar


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_doubles_stay_within_bounds_that_floats_round(attack: Attack) -> None:
    """0.1 and 0.7 are not the same numbers in both; and labels may be of any whole type."""
    model, images, _ = made(images=6)
    doubles = Linear(model.weights.double(), model.bias)
    images = (0.1 + 0.6 * images.double()).clamp(0.1, 0.7)
    labels = doubles(images).argmax(dim=1)
    found = attack(Network(doubles), images, labels.to(torch.int32), bounds=(0.1, 0.7))
    assert found.adversarial.dtype == torch.float64
    assert found.adversarial.min() >= 0.1
    assert found.adversarial.max() <= 0.7
    assert (doubles(found.adversarial).argmax(dim=1) != labels).equal(found.succeeded)
    assert found.succeeded.any()


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_every_query_is_counted(attack: Attack) -> None:
    """By the model itself: as many images as it was shown, for answers and for gradients."""
    model, images, labels = made(images=4)
    shown = []

    def counting(images: torch.Tensor) -> torch.Tensor:
        shown.append(len(images))
        return model(images)

    found = attack(Network(counting), images, labels)
    assert int(found.evaluations.sum()) == sum(shown)
    assert all(shown)  # no empty batch, which not every model takes


def test_the_saliency_map_is_the_product_of_what_a_pixel_raises_and_lowers() -> None:
    """Three classes, by hand: towards 1, pixel 1 has 3 * 2, pixel 2 only 5 * 0.5, though 5 + 0.5 is more than 3 + 2;
    towards 2, pixel 1 alone both raises it and lowers the others, though pixel 0 raises it most.
    """
    weights = torch.tensor([[-1.0, -4.0, -2.0], [1.0, 3.0, 5.0], [9.0, 2.0, 1.5]])  # classes, pixels
    asked: list[list[list[float]]] = []

    def scores(images: torch.Tensor) -> torch.Tensor:
        if not images.requires_grad:
            asked.append(images.tolist())
        return images @ weights.T + torch.tensor([20.0, 0.0, 0.0])

    JSMA(most=0.4)(Network(scores), torch.zeros(1, 3), torch.tensor([0]))
    assert asked == [[[0, 0, 0]], [[0, 1, 0]], [[0, 1, 0]]]
    asked.clear()
    JSMA(most=0.7)(Network(scores), torch.zeros(1, 3), torch.tensor([0]))
    assert asked[2] == [[0, 1, 1]]  # a pixel is not taken twice


def test_the_closed_form_is_the_smallest_change_by_enumeration() -> None:
    """Every set of pixels of tiny images, each pixel moved as far as it can."""
    model, images, labels = made(seed=3, images=15, channels=2, size=3, margin=0.5)
    for image, label, least in zip(images, labels.tolist(), model.least(images).tolist(), strict=True):
        ends = (model.weights > 0).float() if label == 0 else (model.weights <= 0).float()
        smallest = NOT_FOUND
        for count in range(1, 10):
            for pixels in combinations(range(9), count):
                changed = image.clone().flatten(1)
                changed[:, list(pixels)] = ends.flatten(1)[:, list(pixels)]
                if model(changed.view(1, 2, 3, 3)).argmax() != label:
                    smallest = count
                    break
            if smallest != NOT_FOUND:
                break
        assert smallest == least


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_the_seed_decides(attack: Attack) -> None:
    model, images, labels = made(images=4)
    runs = [attack(Network(model), images, labels, seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(runs[0].adversarial, runs[1].adversarial)
    assert torch.equal(runs[0].queries, runs[1].queries)
    if isinstance(attack, BY_CHANCE):
        differs = "queries" if isinstance(attack, Ensemble) else "adversarial"  # it ends at the optimum here
        assert not torch.equal(getattr(runs[0], differs), getattr(runs[2], differs))


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_how_far_a_search_is_rises_to_its_end_and_changes_nothing(attack: Attack) -> None:
    model, images, labels = made(images=4)
    told: list[tuple[float, list[int]]] = []
    found = attack(Network(model), images, labels, on_search=lambda *args: told.append(args))
    alone = attack(Network(model), images, labels)
    assert all(torch.equal(getattr(found, name), getattr(alone, name)) for name in ("adversarial", "queries"))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(set(shares)) > 5
    assert min(shares) < 0.1
    assert told[-1][1] == found.distances.tolist()


def test_every_attack_on_images_is_tested() -> None:
    assert {type(attack) for attack in ATTACKS} == {kind for kind in REGISTRY.values() if not kind.takes_words}


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attacks_that_need_gradients_say_so(attack: Attack) -> None:
    model, images, labels = made(images=3)

    class Closed(Defender):
        def answers(
            self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
        ) -> Answers:
            return Network(model).answers(images)

    if isinstance(attack, ASKED_ONLY):
        assert attack(Closed(), images, labels).succeeded.any()
    else:
        with pytest.raises(NoGradients, match="Closed has no gradients; use a black-box attack"):
            attack(Closed(), images, labels)


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_flat_features_are_attacked_too(attack: Attack) -> None:
    model, images, labels = made(images=5)
    flat = attack(Network(lambda rows: model(rows.view(-1, 1, 12, 12))), images.flatten(1), labels)
    assert flat.succeeded.sum() >= 3
    differs = (flat.adversarial != images.flatten(1)).sum(dim=1)
    assert torch.equal(differs[flat.succeeded], flat.distances[flat.succeeded])


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_failure_is_of_an_image_not_of_the_batch(attack: Attack) -> None:
    """Within a budget that most images need more than; and against a classifier that nothing changes."""
    model, images, labels = made(images=12)
    budget = int(model.least(images).sort().values[3])
    found = attack(Network(model), images, labels, budget=budget)
    assert (found.distances[found.succeeded] <= budget).all()
    assert (~found.succeeded).sum() >= 12 - int((model.least(images) <= budget).sum())
    assert torch.equal(found.adversarial[~found.succeeded], images[~found.succeeded])
    stubborn = attack(Network(Linear(torch.zeros(1, 12, 12), 1.0)), images, torch.ones(12, dtype=torch.int64))
    assert not stubborn.succeeded.any()
    assert stubborn.median == float("inf")


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_image_that_the_model_raises_on_does_not_fail_the_batch(attack: Attack) -> None:
    """The others are found as if attacked by themselves; an error on all goes up, a refusal at once."""
    model, images, labels = made(images=3)

    def brittle(shown: torch.Tensor) -> torch.Tensor:
        if (shown == images[1]).flatten(1).all(dim=1).any():
            raise RuntimeError("not\nthis one")
        return model(shown)

    found = attack(Network(brittle), images, labels)
    assert found.failed == (None, "RuntimeError: not this one", None)
    assert torch.equal(found.adversarial[1], images[1])
    assert (found.distances[1], found.queries[1]) == (NOT_FOUND, 0)
    for row in (0, 2):
        alone = attack(Network(model), images[row : row + 1], labels[row : row + 1])
        assert torch.equal(found.adversarial[row], alone.adversarial[0])
        assert found.queries[row] == alone.queries[0]
    with pytest.raises(RuntimeError, match="this one"):
        attack(Network(brittle), images[1:2], labels[1:2])
    with pytest.raises(InputError, match="the model must give scores"):
        attack(Network(lambda shown: shown), images, labels)


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_a_model_that_writes_into_its_images_changes_neither_them_nor_what_is_found(attack: Attack) -> None:
    """As one does that normalises in place. What it leaves is within the bounds, so that these would not tell."""
    model, images, labels = made(images=3)
    before = images.clone()

    def careless(shown: torch.Tensor) -> torch.Tensor:
        scores = model(shown)
        shown.zero_()
        return scores

    found, sound = (attack(Network(kind), images, labels) for kind in (careless, model))
    assert torch.equal(images, before)
    assert torch.equal(found.distances, sound.distances)
    assert torch.equal(found.adversarial, sound.adversarial)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_an_image_whose_gradients_are_not_finite_is_said_to_have_failed_for_that(wrong: float) -> None:
    """The answers to it are as they should be; the others are attacked."""
    model, images, labels = made(images=3)

    def steep(shown: torch.Tensor) -> torch.Tensor:
        near = ((shown - images[1]).abs().flatten(1).mean(dim=1) < 0.01)[:, None, None, None]
        passed = shown * 1
        if passed.requires_grad:
            passed.register_hook(lambda slopes: torch.where(near, wrong, slopes))
        return model(passed)

    found = CarliniWagnerL0(steps=10)(Network(steep), images, labels)
    assert found.failed[0] is found.failed[2] is None
    assert found.failed[1] is not None
    assert found.failed[1].startswith("ValueError: the gradients of the model's scores are not finite near the image")
    assert found.succeeded.tolist() == [True, False, True]


def test_a_budget_below_the_start_is_searched_within() -> None:
    """The published use of the attack: a number of pixels is given, and most images can be fooled with so many."""
    model, images, labels = made(images=12)
    budget = int(model.least(images).max()) + 1
    start = Pointwise(restarts=1)(Network(model), images, labels)
    assert (start.distances > budget).any()
    found = SparseRS(steps=1_000)(Network(model), images, labels, budget=budget)
    assert found.succeeded.sum() >= 10
    assert (found.distances <= budget).all()


def test_rounds_bring_the_pointwise_attack_nearer_and_never_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the same start, if it is looked for as long: what chance decides before them is the same."""
    monkeypatch.setattr(pointwise, "LEVELS", pointwise.FEW_LEVELS)
    model, images, labels = made(images=12)
    published, more = (Pointwise(restarts=1, rounds=rounds)(Network(model), images, labels) for rounds in (0, 20))
    assert (more.distances <= published.distances).all()
    assert more.distances.double().mean() < 0.8 * published.distances.double().mean()
    assert (more.queries >= published.queries).all()


def test_the_longer_a_start_is_looked_for_the_less_noise_it_has() -> None:
    """Every start fools the model, and the least noise is the one kept; each level asks about noise of its own."""
    model, images, labels = made(images=12)
    noise = {}
    for levels in (4, pointwise.FEW_LEVELS, pointwise.LEVELS):
        judge = Judge(Network(model), images, labels, (0.0, 1.0), None)
        starts, found = pointwise.salt_and_pepper(judge, torch.arange(12), torch.Generator().manual_seed(0), levels)
        assert found.all()
        assert (Network(model).answers(starts).labels != labels).all()
        counts = changed_pixels(starts, images).sum(dim=1)
        assert torch.equal(counts, judge.distances)
        assert (judge.queries <= levels * pointwise.REPETITIONS).all()
        noise[levels] = float(counts.double().mean())
    assert noise[100] < noise[20] < noise[4]


def test_where_no_noise_fools_there_is_no_start() -> None:
    _, images, _ = made(images=3)
    always = Network(lambda copies: torch.tensor([[0.0, 1.0]]).repeat(len(copies), 1))
    judge = Judge(always, images, torch.ones(3).long(), (0.0, 1.0), None)
    starts, found = pointwise.salt_and_pepper(judge, torch.arange(3), torch.Generator().manual_seed(0), levels=5)
    assert not found.any()
    assert torch.equal(starts, images)
    assert judge.queries.tolist() == [5 * pointwise.REPETITIONS] * 3


def test_a_start_is_never_the_image_itself() -> None:
    """Half of the noise on a black image is black; of little noise nothing may be left, and that is no query."""
    images, shown = torch.zeros(3, 1, 6, 6), []

    def counting(attempts: torch.Tensor) -> torch.Tensor:
        shown.append(attempts.flatten(1).sum(dim=1))
        return torch.stack((torch.full((len(attempts),), 2.5), attempts.flatten(1).sum(dim=1)), dim=1)

    judge = Judge(Network(counting), images, torch.zeros(3).long(), (0.0, 1.0), None)
    _, found = pointwise.salt_and_pepper(judge, torch.arange(3), torch.Generator().manual_seed(0), pointwise.LEVELS)
    assert found.all()
    assert torch.cat(shown).min() == 1
    assert int(judge.queries.sum()) == len(torch.cat(shown))


def test_bounds_are_kept() -> None:
    model, images, _ = made(images=6)
    found = Pointwise(restarts=2)(
        Network(model), images * 0.5 + 0.25, model(images * 0.5 + 0.25).argmax(1), bounds=(0.2, 0.8)
    )
    assert found.adversarial.min() >= 0.2
    assert found.adversarial.max() <= 0.8


@pytest.mark.parametrize("rounds", [0, 3])
def test_nothing_more_can_be_taken_back(rounds: int) -> None:
    """The end of the Pointwise attack is a local optimum: no changed pixel can be set back."""
    model, images, labels = made(images=8)
    found = Pointwise(restarts=1, rounds=rounds)(Network(model), images, labels)
    for image, original, label in zip(found.adversarial, images, labels, strict=True):
        for row, column in (image != original)[0].nonzero().tolist():
            back = image.clone()
            back[:, row, column] = original[:, row, column]
            assert model(back[None]).argmax() == label


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": torch.zeros(2, 1, 8, 8, dtype=torch.uint8)}, "images must be a float tensor"),
        ({"images": torch.full((2, 1, 8, 8), 2.0)}, "images must have values from 0.0 to 1.0, got 2 to 2"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, "labels must be one whole number per image"),
        ({"labels": torch.zeros(2)}, "labels must be one whole number per image, got torch.float32"),
        ({"labels": torch.tensor([0, -1])}, r"labels must be classes 0, 1, \.\.\., got -1"),
        ({"labels": torch.tensor([0, 2])}, "labels must be below 2, the number of classes, got 2"),
        ({"budget": 1.5}, "budget must be a whole number between 1 and the 144 pixels of an image, got 1.5"),
        ({"budget": 145}, "budget must be a whole number between 1 and the 144 pixels of an image, got 145"),
        ({"bounds": (1.0, 0.0)}, "bounds must be two numbers, the lower first"),
        ({"budget": 0}, "budget must be a whole number between 1 and"),
    ],
)
def test_what_cannot_be_attacked_is_refused(changes: dict[str, Any], message: str) -> None:
    model, images, labels = made(images=2)
    arguments = {"images": images, "labels": labels, **changes}
    with pytest.raises(InputError, match=message):
        UniformNoise()(Network(model), arguments.pop("images"), arguments.pop("labels"), **arguments)
