"""Attacks on the class that beats every other one: searched for and judged as it is certified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sparsecert as sc
from sparsecert import datasets
from sparsecert.adapters.scores import Scores
from sparsecert.attacks import (
    ABSTAINS,
    MISCLASSIFY,
    NOT_FOUND,
    Ensemble,
    Pointwise,
    SmoothedDefender,
    SparseRS,
    SurrogateDefender,
    UniformNoise,
)
from sparsecert.attacks.defenders import margins
from sparsecert.attacks.verdicts import choose, count_above, knock_out
from sparsecert.bounds import corrected_alpha, predicted_by_pairs
from sparsecert.counts import Counts, Tally
from sparsecert.errors import InputError
from sparsecert.records import read_attack
from sparsecert.reports import summarise_attack
from sparsecert.reports.attack_tables import attack_settings
from sparsecert.runs import SmoothedTarget, adversarial_images, attack_dataset, certify_dataset, target_of
from sparsecert.runs.attacks import group_size
from sparsecert.schemes import ATTACK
from sparsecert.votes.pairs import MOST_TABLED
from tests.attacks.means import nearest_mean
from tests.commands import exit_code
from tests.helpers import Digits
from tests.test_pairs import SCHEME, Rounded, _inputs

pytestmark = pytest.mark.filterwarnings("ignore:.* gave scores that are not finite")


def _rankings(images: int, copies: int, classes: int, seed: int) -> torch.Tensor:
    """Of copies that lean to no class, so that cycles are common; one in eight is invalid."""
    random = np.random.default_rng(seed)
    ranks = random.random((images, copies, classes)).argsort(axis=2).astype(np.int16)
    ranks[random.random((images, copies)) < 1 / 8] = 0
    return torch.from_numpy(ranks)


def _above(ranks: torch.Tensor) -> np.ndarray[Any, Any]:
    """int64[b, classes, classes] by a plain loop: copies that rank one class above another; valid ones of itself."""
    images, _, classes = ranks.shape
    table = np.zeros((images, classes, classes), dtype=np.int64)
    for image, copies in enumerate(ranks.tolist()):
        for copy in copies:
            if any(copy):
                for one in range(classes):
                    for other in range(classes):
                        table[image, one, other] += one == other or copy[one] < copy[other]
    return table


@pytest.mark.parametrize(("copies", "classes"), [(1, 2), (7, 3), (8, 4), (30, 5)])
def test_copies_choose_and_compare_as_a_plain_loop_does(copies: int, classes: int) -> None:
    ranks = _rankings(200, copies, classes, seed=copies)
    table = _above(ranks)
    for label in range(classes):
        assert count_above(ranks, label).tolist() == table[:, label].tolist()
    own = torch.arange(200) % classes
    assert count_above(ranks, own).tolist() == table[np.arange(200), own.numpy()].tolist()
    votes = Counts(np.zeros((200, classes), dtype=np.int64), np.zeros(200, dtype=np.int64))
    assert choose(ranks).tolist() == votes.choosing_by(table).labels.tolist()


@pytest.mark.parametrize("classes", [3, 4, 6])
def test_the_class_that_leads_all_others_is_found_wherever_there_is_one(classes: int) -> None:
    """And without one class, of which it is then asked nothing: all others, in a cycle or not."""
    ranks = _rankings(300, 9, classes, seed=classes)
    table, found, cycles = _above(ranks), knock_out(ranks).tolist(), 0
    for image in range(300):
        lead = [one for one in range(classes) if all(2 * count > 9 for count in table[image, one])]
        cycles += not lead
        assert not lead or lead == [found[image]]
    assert 0 < cycles < 300
    for excluded in range(classes):
        rest = [label for label in range(classes) if label != excluded]
        found = knock_out(ranks, torch.full((300,), excluded)).tolist()
        assert excluded not in found
        assert found == [rest[place] for place in knock_out(ranks[:, :, rest]).tolist()]


def test_many_classes_are_chosen_by_first_choices() -> None:
    ranks = _rankings(20, 15, MOST_TABLED + 1, seed=0)
    valid = ranks.amax(dim=2) > 0
    first = [[int(copy.argmin()) for copy in image[kept]] for image, kept in zip(ranks, valid, strict=True)]
    expected = [int(np.bincount(votes, minlength=MOST_TABLED + 1).argmax()) for votes in first]
    assert choose(ranks).tolist() == expected


def _by_all_copies(defender: SurrogateDefender, image: torch.Tensor) -> int:
    """The answer that is proved by every copy of the surrogate, counted by a plain loop."""
    smoothed, n = defender.smoothed, defender.n
    masks = smoothed.scheme.masks(defender.seed, [0], range(ATTACK, ATTACK + n))[0]
    scores = smoothed.model(smoothed.encoding(image[None].expand(n, *image.shape), masks)).tolist()
    ranks = torch.zeros(1, n, len(scores[0]), dtype=torch.int16)
    for copy, given in enumerate(scores):
        if np.isfinite(given).all():
            for place, label in enumerate(sorted(range(len(given)), key=lambda one: (-given[one], one))):
                ranks[0, copy, label] = place
    tested = n - max(1, n // 10)
    table, chosen = _above(ranks[:, :tested])[0], _above(ranks[:, tested:])[0]
    label = int(chosen.min(axis=1).argmax())
    above = tuple(table[label].tolist())
    level = corrected_alpha(defender.alpha, smoothed.scheme, tested)
    answer = predicted_by_pairs(Tally((0,), 0, None, label), Tally((0,), tested, above), level)
    return ABSTAINS if answer is None else answer


@pytest.mark.parametrize("classes", [2, 4])
def test_a_search_is_answered_as_all_copies_prove(classes: int) -> None:
    """Equal scores and invalid copies; pixels are perturbed and reverted, attempts accepted and not."""
    model = Rounded(classes).eval()
    defender = SurrogateDefender(
        sc.Smoothed(model, SCHEME), n=60, alpha=0.2, seed=4, error=0, tie=False, bound="pairwise"
    )
    random, current, slots = torch.Generator().manual_seed(0), _inputs(4).clone(), torch.tensor([3, 0, 2, 5])
    answers = set()
    for step in range(12):
        attempts = current.clone()
        attempts[:, 0, step % 3, step % 4] = torch.rand(4, generator=random)
        said = defender.answers(attempts, slots)
        expected = [_by_all_copies(defender, image) for image in attempts]
        assert said.labels.tolist() == expected
        assert defender.answers(attempts).labels.tolist() == expected
        for label in range(classes):
            asked = defender.answers(attempts, against=torch.full((4,), label)).labels
            assert (asked == label).tolist() == [answer == label for answer in expected]
        taken = torch.arange(4)[(torch.arange(4) + step) % 3 > 0]
        defender.answers(attempts, slots)
        defender.accept(taken)
        current[taken] = attempts[taken]
        answers |= set(expected)
    assert {ABSTAINS, 0} <= answers


def test_a_search_asks_whether_a_class_leads_each_other_one(digits: Digits) -> None:
    """By the copies that test, at whatever level; scores say by how much."""
    smoothed, (images, labels) = nearest_mean(4), digits
    defender = SurrogateDefender(smoothed, n=200, error=0, alpha=0.001, bound="pairwise")
    said = defender.answers(images, against=labels)
    lead = margins(said.scores, labels)
    assert 0 < (lead > 0).sum() < len(labels)
    assert torch.equal(said.labels == labels, lead > 0)
    searched = defender.answers(images, torch.arange(len(images)))
    assert torch.equal(searched.labels == labels, lead > 0)
    full = defender.answers(images).labels
    assert ((full == ABSTAINS).sum() > (searched.labels == ABSTAINS).sum()).item()
    answered = full != ABSTAINS
    assert torch.equal(defender.answers(images).scores.argmax(dim=1)[answered], full[answered])


def test_few_copies_decide_what_is_clear(digits: Digits) -> None:
    """Nearly always as all of them do, also whether another class is answered."""
    smoothed, (images, labels) = nearest_mean(6), digits
    noisy = (images + 0.6 * torch.rand(images.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    for settings in ({"tie": False}, {"goal": MISCLASSIFY}):
        quick = SurrogateDefender(smoothed, n=1_600, bound="pairwise", **settings)  # type: ignore[arg-type]
        full, asked = quick.answers(noisy).labels, quick.answers(noisy, against=labels)
        if "goal" in settings:
            fooled, expected = (((said != labels) & (said != ABSTAINS)) for said in (asked.labels, full))
        else:
            fooled, expected = asked.labels != labels, full != labels
        assert 0 < expected.sum() < len(labels)
        assert (fooled == expected).sum() >= len(labels) - 1
        assert asked.evaluations.float().mean() < 1_000
        assert (asked.evaluations[fooled] >= 100).all()


def test_a_defender_answers_as_the_classifier_predicts(digits: Digits) -> None:
    smoothed, images = nearest_mean(4), digits[0]
    said = SmoothedDefender(smoothed, n=200, seed=3, bound="pairwise").answers(images)
    expected = smoothed.predict(images, sc.Fixed(n=200, bound="pairwise"), seed=3)
    assert said.labels.tolist() == expected.labels.tolist()
    assert said.labels.tolist() != smoothed.predict(images, n=200, seed=3).labels.tolist()
    assert ABSTAINS in said.labels
    assert expected.votes.above is not None
    assert expected.selection is not None
    for row, (above, chosen) in enumerate(zip(expected.votes.above, expected.selection.labels, strict=True)):
        scores = [min(above) if label == chosen else above[chosen] - count for label, count in enumerate(above)]
        assert said.scores[row].tolist() == pytest.approx(np.array(scores) / 180)
    own = nearest_mean(4)
    own.metadata["bound"] = "pairwise"
    assert torch.equal(SmoothedDefender(own, n=200, seed=3).answers(images).scores, said.scores)
    with pytest.raises(InputError, match="n must be at least 2 to predict by pairs"):
        SmoothedDefender(own, n=1)


def test_other_libraries_see_scores_whose_largest_is_the_answer(digits: Digits) -> None:
    own, images = nearest_mean(4), digits[0]
    own.metadata["bound"] = "pairwise"
    expected = own.predict(images, n=200, seed=3)
    assert 0 < expected.abstained.sum() < len(images)
    found = Scores(own, n=200, seed=3)(images).argmax(dim=1).tolist()
    assert found == [10 if answer is None else answer for answer in expected.answers]
    common = Scores(own, n=200, seed=3, fresh=False)
    assert torch.equal(common(images), common(images))
    assert common(images).argmax(dim=1).tolist() != found


@pytest.mark.parametrize("attack", [Pointwise(restarts=1, rounds=0), SparseRS(steps=30)], ids=str)
def test_what_is_found_fools_the_certified_classifier(attack: Any, digits: Digits) -> None:
    """By predictions with masks of their own, not by plurality: there most of it is answered as before."""
    smoothed, (images, labels) = nearest_mean(5), digits
    procedure = sc.Fixed(n=2_000, bound="pairwise")
    right = torch.from_numpy(smoothed.predict(images, procedure).labels) == labels
    images, labels = images[right][:5], labels[right][:5]
    search = SurrogateDefender(smoothed, n=400, bound="pairwise")
    found = attack(search, images, labels, final=SmoothedDefender(smoothed, n=400, bound="pairwise"))
    hit = found.succeeded
    assert hit.sum() >= 3
    again = torch.from_numpy(smoothed.predict(found.adversarial[hit], sc.Fixed(n=400, bound="pairwise"), seed=9).labels)
    assert (again != labels[hit]).float().mean() > 0.7


def test_nothing_certified_by_pairs_is_misclassified_within_its_radius(digits: Digits) -> None:
    smoothed, (images, labels) = nearest_mean(8), digits
    sure = smoothed.certify(images, sc.Fixed(500, 2_000, "pairwise"), alpha=0.001)
    chosen = torch.from_numpy((sure.labels == labels.numpy()) & (sure.radii >= 1)).nonzero()[:4, 0]
    images, labels, radii = images[chosen], labels[chosen], torch.from_numpy(sure.radii)[chosen]
    attack = Ensemble(steps=8, queries=20, rounds=1)
    search = SurrogateDefender(smoothed, n=400, goal=MISCLASSIFY, bound="pairwise")
    final = SmoothedDefender(smoothed, n=400, bound="pairwise")
    found = attack(search, images, labels, final=final, goal=MISCLASSIFY)
    hit = found.succeeded
    assert hit.any()
    assert ((found.answers != labels) & (found.answers != ABSTAINS))[hit].all()
    assert (found.distances > radii)[hit].all()
    within = attack(search, images, labels, final=final, goal=MISCLASSIFY, budget=int(radii.min()))
    assert within.distances.tolist() == [NOT_FOUND] * 4


def test_records_and_reports_say_which_class_was_attacked(trained: Path, tmp_path: Path, capsys: Any) -> None:
    command = "attack", trained, "--data", "digits", "--limit", 4, "--attack", "noise", "--restarts", 2, "--n", 200
    by_pairs, by_votes, certified = (tmp_path / f"{name}.jsonl" for name in ("pairs", "votes", "certify"))
    common = *command, "--device", "cpu", "--seed", 1
    for _ in range(2):  # the second time it resumes
        assert exit_code(*common, "--bound", "pairwise", "--out", by_pairs) == 0
    assert "pairwise, common masks (error 0.05)" in capsys.readouterr().out
    assert exit_code(*common, "--out", by_votes) == 0
    runs = [read_attack(path) for path in (by_pairs, by_votes)]
    assert [found.header.run.get("rule") for found in runs] == ["pairwise", None]
    assert summarise_attack(runs[0]).to_dict()["rule"] == "pairwise"
    assert attack_settings(summarise_attack(runs[1]))["search"] == "common masks (error 0.05)"
    capsys.readouterr()
    assert exit_code(*common, "--out", by_pairs) == 2
    assert 'holds another run: rule is "pairwise" there' in capsys.readouterr().err

    smoothed, data = sc.Smoothed.load(trained), datasets.load("digits")
    certify_dataset(smoothed, trained, data, certified, sc.Fixed(20, 200, "pairwise"), limit=4)
    assert exit_code("report", certified, by_pairs) == 0
    assert exit_code("report", certified, by_votes, "--bound", "two-sided") == 0
    for attack, bound, remedy in ((by_votes, (), "two-sided"), (by_pairs, ("--bound", "one-sided"), "pairwise")):
        assert exit_code("report", certified, attack, *bound) == 2
        assert f"they cannot be compared; add --bound {remedy}" in capsys.readouterr().err


def test_a_run_attacks_by_the_models_own_bound(trained: Path, tmp_path: Path) -> None:
    smoothed, data = sc.Smoothed.load(trained), datasets.load("digits")
    smoothed.metadata["bound"] = "pairwise"
    target, other = (
        SmoothedTarget(smoothed, trained, n=200),
        SmoothedTarget(smoothed, trained, n=200, bound="one-sided"),
    )
    assert (target.ranks, other.ranks) == (True, False)
    assert isinstance(target_of(str(trained), data, "cpu", bound="pairwise"), SmoothedTarget)
    attack_dataset(target, UniformNoise(restarts=2), data, tmp_path / "a.jsonl", limit=4)
    found = read_attack(tmp_path / "a.jsonl")
    assert found.header.run["rule"] == "pairwise"
    hit = [line.distance is not None for line in found.lines]
    assert any(hit)
    again = smoothed.predict(adversarial_images(found, data), n=2_000, seed=5)
    answers = [label for label, changed in zip(again.answers, hit, strict=True) if changed]
    true = [line.true for line in found.lines if line.distance is not None]
    assert sum(one != other for one, other in zip(answers, true, strict=True)) >= len(true) - 1
    with pytest.raises(InputError, match="n must be at least 2 to predict by pairs"):
        attack_dataset(
            SmoothedTarget(smoothed, trained, n=1, full=True), UniformNoise(), data, tmp_path / "b.jsonl", limit=4
        )
    assert not (tmp_path / "b.jsonl").exists()


def test_rankings_of_many_classes_make_groups_smaller(trained: Path) -> None:
    target = SmoothedTarget(sc.Smoothed.load(trained), trained, bound="pairwise")
    sizes = [group_size(target, 10, (1, 28, 28), classes) for classes in (10, 100, 1_000)]
    assert sizes == [4, 4, 1]
