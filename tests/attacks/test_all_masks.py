"""The vote of all masks of a fixed set under attack: the answers that exact certificates are of, from few copies."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
import torch

from sparsecert.attacks import ATTACKS, AllMasks, Attack, Judge, Pointwise, Saliency, SparseRS, attack_named
from sparsecert.attacks.all_masks import standings
from sparsecert.attacks.judge import changed_pixels
from sparsecert.encodings import PROTECTED, Encoding, Grouped, NullChannels, blocks_of
from sparsecert.errors import InputError
from sparsecert.procedures import Exact
from sparsecert.registry import RULES
from sparsecert.schemes import Bands, Blocks, FixedMasks, Lattice, Partition, Uniform
from sparsecert.smoothed import Smoothed
from tests.attacks.means import nearest_mean
from tests.helpers import Digits
from tests.test_exact import Reader

RULE_NAMES = "plurality", "run-off", "pairwise"


def _means(scheme: FixedMasks, encoding: Encoding | None = None) -> Smoothed:
    return Smoothed(nearest_mean().model, scheme, encoding or NullChannels(), classes=10)


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_the_largest_standing_is_the_winners(rule: str) -> None:
    """Of every vote of three copies on three classes, some without an opinion, and of random ones on five."""
    orders = torch.tensor([*permutations(range(3)), (0, 0, 0)], dtype=torch.int16)
    few = orders[torch.tensor(list(product(range(7), repeat=3)))]
    many = torch.rand(3_000, 6, 5, generator=torch.Generator().manual_seed(0)).argsort(dim=2).to(torch.int16)
    many[::3, 0] = 0
    for ranks in (few, many):
        found = standings(ranks, rule)
        assert found.argmax(dim=1).tolist() == RULES[rule].winners(ranks.numpy()).tolist()
        assert (found.sum(dim=1) >= found.amax(dim=1)).all()
        assert (found <= ranks.shape[1]).all()


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize(
    ("scheme", "encoding"),
    [
        (Lattice(8, 8, 8), None),
        (Partition(64, 9, rounds=2), None),
        (Blocks(8, 8, 3), None),
        (Bands(8, 8, 2), None),
        (Lattice(4, 4, 4), Grouped(NullChannels(), blocks_of(8, 8, 2))),
    ],
    ids=str,
)
def test_lines_of_changes_are_answered_as_by_all_copies(
    scheme: FixedMasks, encoding: Encoding | None, rule: str, digits: Digits
) -> None:
    """Three searches in parallel, some attempts accepted and some not, pixels changed and reverted; every copy that may
    have changed is counted, and no other.
    """
    smoothed = _means(scheme, encoding)
    defender, images = AllMasks(smoothed, rule), digits[0][:3]
    generator = torch.Generator().manual_seed(0)
    current, slots, answers = images.clone(), torch.tensor([7, 3, 4]), set()
    for step in range(16):
        attempts = current.clone()
        for row, _ in product(range(3), range(4 * step)):
            y, x = torch.randint(0, 8, (2,), generator=generator).tolist()
            attempts[row, 0, y, x] = (
                images[row, 0, y, x] if step % 4 == 3 else float(torch.rand(1, generator=generator))
            )
        said = defender.answers(attempts, slots)
        sure = smoothed.certify(attempts, Exact(rule))
        assert said.labels.tolist() == sure.labels.tolist()
        if rule == "plurality":
            assert torch.equal((said.scores * len(scheme.table)).round().long(), torch.from_numpy(sure.counts))
        units = smoothed.encoding.perturbed(attempts != current).numpy()
        met = (scheme.table[None] & units[:, None]).any(axis=2).sum(axis=1)
        assert said.evaluations.tolist() == ([len(scheme.table)] * 3 if step == 0 else met.tolist())
        taken = torch.tensor([row for row in range(3) if (step + row) % 3])
        defender.accept(taken)
        current[taken] = attempts[taken]
        answers |= set(said.labels.tolist())
    assert len(answers) > 3
    alone = defender.answers(current)
    assert alone.labels.tolist() == smoothed.certify(current, Exact(rule)).labels.tolist()
    assert alone.evaluations.tolist() == [len(scheme.table)] * 3


def test_one_pixel_of_a_partition_costs_one_pass(digits: Digits) -> None:
    defender = AllMasks(_means(Lattice(8, 8, 8)))
    images, slots = digits[0][:2], torch.tensor([0, 1])
    assert defender.answers(images, slots).evaluations.tolist() == [8, 8]
    pixel = images.clone()
    pixel[:, 0, 4, 5] = 1 - pixel[:, 0, 4, 5]
    assert defender.answers(pixel, slots).evaluations.tolist() == [1, 1]
    assert defender.answers(images, slots).evaluations.tolist() == [0, 0]
    assert defender.answers(images).evaluations.tolist() == [8, 8]
    new = defender.answers(pixel, torch.tensor([9, 1]))
    assert new.evaluations.tolist() == [8, 1]
    assert not defender.is_random


def test_copies_without_an_opinion_vote_for_nobody() -> None:
    """And where none has one, the lowest-numbered class wins, as it does for the certificate."""
    smoothed = Smoothed(lambda copies: copies.flatten(1)[:, :3] / 0, Partition(6, 3), NullChannels(), classes=3)
    images = torch.rand(2, 1, 2, 3, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match="not finite"):
        sure = smoothed.certify(images, Exact())
    assert AllMasks(smoothed).answers(images).labels.tolist() == sure.labels.tolist() == [0, 0]


def test_gradients_are_of_the_mean_probabilities_however_many_copies_fit_at_once(digits: Digits) -> None:
    scheme, images = Lattice(8, 8, 8), digits[0][:3].double()
    model = nearest_mean().model
    assert isinstance(model, torch.nn.Module)
    copies = NullChannels()(images.repeat_interleave(8, dim=0), scheme.all_masks().repeat(3, 1))
    wanted = model.double()(copies).softmax(dim=1).view(3, 8, 10).mean(dim=1)
    slopes = []
    for rows in (None, 7):
        defender = AllMasks(Smoothed(model, scheme, classes=10, rows=rows))
        inputs = images.clone().requires_grad_()
        scores = defender.scores(inputs)
        assert torch.allclose(scores.double(), wanted, atol=1e-6)
        slopes.append(torch.autograd.grad(scores[:, 3].sum(), inputs)[0])
    assert slopes[0].abs().max() > 0
    assert torch.allclose(*slopes, atol=1e-6)
    assert defender.evaluations_of_scores == 8


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize("scheme", [Lattice(2, 3, 3), Partition(6, 3, rounds=2), Bands(2, 3, 1)], ids=str)
def test_no_attack_succeeds_within_the_radius_and_what_is_found_changes_the_winner(
    scheme: FixedMasks, rule: str
) -> None:
    """Of all black and white images of six pixels: the radius is below the nearest image with another winner, which is
    no further than what attacks find; and these change the winner.
    """
    everything = torch.tensor(list(product((0.0, 1.0), repeat=6))).view(64, 1, 2, 3)
    apart = (everything.flatten(1)[:, None] != everything.flatten(1)[None]).sum(dim=2)
    chosen, hits = torch.arange(0, 64, 5), 0
    images = everything[chosen]
    for seed in (1, 7):  # with which some change always leads to another winner: where none does, a search is long
        smoothed = Smoothed(Reader(6, 3, seed), scheme, classes=3)
        sure = smoothed.certify(everything, Exact(rule))
        winners = torch.from_numpy(sure.labels)
        nearest = torch.where(winners[:, None] == winners, 7, apart).amin(dim=1)
        assert (nearest > torch.from_numpy(sure.radii)).all()
        for attack in (Pointwise(restarts=2, rounds=1), SparseRS(steps=10), Saliency(most=1.0)):
            found = attack(AllMasks(smoothed, rule), images, winners[chosen])
            hit = found.succeeded
            again = torch.from_numpy(smoothed.certify(found.adversarial, Exact(rule)).labels)
            assert torch.equal(again, found.answers)
            assert torch.equal(again != winners[chosen], hit)
            assert torch.equal(changed_pixels(found.adversarial, images).sum(dim=1)[hit], found.distances[hit])
            assert (found.distances >= nearest[chosen])[hit].all()
            hits += int(hit.sum())
    assert hits


class Asking(Attack):
    """Asks about single pixels of each image, once."""

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        """See the class."""
        attempts = judge.images[which].clone()
        judge.fooled(attempts, which, which)
        attempts[:, 0, 2, 2] = 1 - attempts[:, 0, 2, 2]
        judge.fooled(attempts, which, which)


def test_evaluations_are_counted_to_the_last(digits: Digits) -> None:
    """The first look takes all masks, so does the beginning of a line, and a pixel takes one."""
    images, smoothed = digits[0][:4], _means(Partition(64, 8))
    labels = torch.from_numpy(smoothed.certify(images, Exact()).labels)
    found = Asking()(AllMasks(smoothed), images, labels)
    assert found.evaluations.tolist() == [8 + 8 + 1] * 4
    assert found.queries.tolist() == [3] * 4


@pytest.mark.parametrize("name", [name for name, kind in ATTACKS.items() if not kind.takes_words])
def test_every_attack_finds_what_is_final(name: str, digits: Digits) -> None:
    """Sets of restarts side by side; nothing is asked again at the end, and the certificate's vote is fooled by it."""
    few = {"pointwise": {"restarts": 2, "rounds": 1}, "noise": {"restarts": 2}}
    steps = {name: {"steps": 10} for name in ("carlini-wagner", "sigma-zero", "sparse-pgd", "sparse-rs")}
    steps |= {name: {"steps": 5, "queries": 10} for name in ("sparse-autoattack", "ensemble")}
    smoothed, images = _means(Lattice(8, 8, 8)), digits[0][:3]
    labels = torch.from_numpy(smoothed.certify(images, Exact()).labels)
    found = attack_named(name, **few.get(name, steps.get(name, {})))(AllMasks(smoothed), images, labels)
    again = smoothed.certify(found.adversarial, Exact())
    assert found.answers.tolist() == again.labels.tolist()
    assert torch.equal(found.succeeded, found.answers != labels)
    assert (
        found.distances[found.succeeded].numpy() > smoothed.certify(images, Exact()).radii[found.succeeded.numpy()]
    ).all()
    if name == "pointwise":
        assert found.succeeded.all()
        assert (found.evaluations < 8 * found.queries).all()


def test_what_cannot_be_attacked_so_is_refused(digits: Digits) -> None:
    with pytest.raises(InputError, match="draws its masks at random; an exact certificate needs a fixed set"):
        AllMasks(Smoothed(nearest_mean().model, Uniform(64, 16)))
    with pytest.raises(InputError, match="rule must be one of pairwise, plurality, run-off"):
        AllMasks(_means(Lattice(8, 8, 8)), "borda")
    with pytest.raises(ValueError, match="same slot"):
        AllMasks(_means(Lattice(8, 8, 8))).answers(digits[0][:2], torch.tensor([1, 1]))
    groups = np.arange(64).reshape(8, 8) - 1
    groups[0, 0] = PROTECTED
    with pytest.raises(InputError, match="protected: its certificates do not cover changes there"):
        AllMasks(_means(Partition(63, 7), Grouped(NullChannels(), groups)))
