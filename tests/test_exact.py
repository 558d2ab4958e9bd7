"""Exact certificates of real models: every change of tiny inputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import elections, speed
from sparsecert.certificates.plurality import count_labels, top_choices
from sparsecert.encodings import Grouped, NullChannels
from sparsecert.errors import InputError
from sparsecert.procedures import Exact, exact
from sparsecert.registry import RULES
from sparsecert.schemes import Bands, FixedMasks, Lattice, Partition, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.votes.copies import Copies
from sparsecert.votes.voter import Voter, rank


class Reader(torch.nn.Module):
    """A small network whose answer depends on what is retained, with weights that make votes differ."""

    def __init__(self, units: int, classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.one = torch.nn.Parameter(torch.randn(2 * units, 8, generator=generator))
        self.two = torch.nn.Parameter(torch.randn(8, classes, generator=generator))

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores."""
        return (copies.flatten(1) @ self.one).relu() @ self.two


def _smoothed(scheme: FixedMasks, classes: int, seed: int) -> Smoothed:
    return Smoothed(Reader(scheme.units, classes, seed), scheme, NullChannels(), classes=classes)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "scheme", [Lattice(2, 3, 3), Partition(6, 3), Partition(6, 3, rounds=2), Bands(2, 3, 1)], ids=str
)
def test_no_perturbation_of_black_and_white_images_within_the_radius_changes_the_answer(
    scheme: FixedMasks, rule: str
) -> None:
    """All 64 images of 2 x 3 pixels at once: each against every other within its radius."""
    images = torch.tensor(list(product((0.0, 1.0), repeat=6))).view(64, 1, 2, 3)
    radii = set()
    for seed in range(6):
        found = _smoothed(scheme, 3, seed).certify(images, Exact(rule))
        apart = (images.flatten(1)[:, None] != images.flatten(1)[None]).sum(dim=2).numpy()
        for row in range(64):
            near = apart[row] <= found.radii[row]
            assert (found.labels[near] == found.labels[row]).all()
        radii |= set(found.radii.tolist())
    assert len(radii) > 1


def test_the_votes_are_those_of_every_mask() -> None:
    scheme, image = Lattice(4, 4, 4, rounds=2), torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    smoothed = _smoothed(scheme, 5, 1)
    found = smoothed.certify(image, Exact("plurality"))
    for row in range(3):
        copies = NullChannels()(image[[row] * len(scheme.table)], scheme.all_masks())
        labels = smoothed.model(copies).argmax(dim=1)
        assert top_choices(found.ranks[row]).tolist() == labels.tolist()
        assert found.labels[row] == count_labels(labels.numpy(), 5).argmax()
        assert found.counts[row].tolist() == torch.bincount(labels, minlength=5).tolist()


def test_patches_of_every_position_and_colour() -> None:
    scheme = Bands(3, 4, 1)
    generator = torch.Generator().manual_seed(3)
    images = torch.randint(0, 2, (20, 1, 3, 4), generator=generator).float()
    smoothed = _smoothed(scheme, 2, 2)
    found = smoothed.certify(images, Exact("plurality"))  # bands are for patches
    assert set(found.radii.tolist()) > {0}
    for row in range(20):
        side = int(found.radii[row])
        if not side:
            continue
        for top, left in product(range(3 - side + 1), range(4 - side + 1)):
            colours = torch.tensor(list(product((0.0, 1.0), repeat=side * side))).view(-1, 1, side, side)
            perturbed = images[row].repeat(len(colours), 1, 1, 1)
            perturbed[:, :, top : top + side, left : left + side] = colours
            assert (smoothed.certify(perturbed, Exact("plurality")).labels == found.labels[row]).all()


def test_patches_of_another_image_than_the_inputs_are_refused() -> None:
    """Columns of a 7 x 5 image are scattered over one of 5 x 7: 2 x 2 pixels meet four of them, not two."""
    swapped, images = Bands(7, 5, 1), torch.rand(1, 1, 5, 7, generator=torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match=r"patches of a 7 x 5 image .* form an image of 5 x 7"):
        _smoothed(swapped, 2, 0).certify(images, Exact(against="patches"))
    scheme = Bands(5, 7, 2)
    shuffled = Grouped(NullChannels(), np.random.default_rng(0).permutation(35).reshape(5, 7))
    with pytest.raises(InputError, match="form no image"):
        Smoothed(Reader(35, 2, 0), scheme, shuffled).certify(images, Exact(against="patches"))


def test_ranks_favour_the_lower_class_and_have_no_opinion_on_what_is_not_finite() -> None:
    scores = torch.tensor(
        [[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [1.0, torch.nan, 0.0, 2.0], [1.0, torch.inf, 0, 0]]
    )
    assert rank(scores).tolist() == [[3, 0, 1, 2], [0, 1, 2, 3], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_a_scheme_of_random_masks_is_refused() -> None:
    smoothed = Smoothed(Reader(6, 2, 0), Uniform(6, 2), NullChannels())
    with pytest.raises(InputError, match="needs a fixed set, such as Lattice"):
        smoothed.certify(torch.rand(1, 1, 2, 3), Exact())
    with pytest.raises(InputError, match=f"rule must be one of {', '.join(RULES)}"):
        _smoothed(Lattice(2, 3, 3), 2, 0).certify(torch.rand(1, 1, 2, 3), Exact("borda"))


def test_the_radius_never_shrinks_with_time_for_the_linear_program() -> None:
    scheme = Partition(9, 3, rounds=3)
    smoothed, images = _smoothed(scheme, 3, 5), torch.rand(12, 1, 3, 3, generator=torch.Generator().manual_seed(1))
    quick, slow = (smoothed.certify(images, Exact(seconds=seconds)) for seconds in (0.0, 5.0))
    assert (quick.labels == slow.labels).all()
    assert (quick.radii <= slow.radii).all()
    assert np.array_equal(quick.ranks, slow.ranks)


class Dazzled(Reader):
    """Has no opinion on copies that show a bright unit 0."""

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores."""
        return super().forward(copies).where(copies.flatten(1)[:, :1] <= 0.5, torch.nan)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("at_once", [1, 3, 4, 8])
def test_inputs_in_parts_are_those_at_once(rule: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme, images = Lattice(2, 3, 3), torch.rand(8, 1, 2, 3, generator=torch.Generator().manual_seed(2))
    smoothed = Smoothed(Dazzled(6, 4, 0), scheme, NullChannels())
    bright = int((images[:, 0, 0, 0] > 0.5).sum())
    assert 0 < bright < 8
    with pytest.warns(UserWarning, match=f"^{bright} of 24 ablated copies"):
        whole = smoothed.certify(images, Exact(rule))
    monkeypatch.setattr(exact, "AT_ONCE", at_once)
    with pytest.warns(UserWarning, match="not finite") as warned:
        parts, answers = smoothed.certify(images, Exact(rule)), smoothed.predict(images, Exact(rule))
    assert [str(one.message).split(" ablated")[0] for one in warned] == [f"{bright} of 24"] * 2
    assert list(parts) == list(whole)
    for name in ("labels", "radii", "counts", "invalid", "samples", "ranks"):
        assert np.array_equal(getattr(parts, name), getattr(whole, name)), name
    for name in ("labels", "counts", "invalid", "ranks"):
        assert np.array_equal(getattr(answers, name), getattr(whole, name)), name
    copies = top_choices(whole.ranks)
    assert whole.counts.tolist() == [[int((of_one == label).sum()) for label in range(4)] for of_one in copies]
    assert whole.invalid.tolist() == (copies == 4).sum(axis=1).tolist() == (images[:, 0, 0, 0] > 0.5).int().tolist()


def test_the_next_inputs_are_voted_on_while_the_last_are_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than two parts are under way, so that memory does not grow with the inputs."""
    happened, begin = [], Voter.begin_ranks

    def watched(voter: Voter, copies: Copies, masks: int) -> Callable[[], Any]:
        part = int(4 * copies.inputs[0, 0, 0, 0])
        ranked = begin(voter, copies, masks)
        happened.append(f"begin {part}")
        return lambda: (happened.append(f"fetch {part}"), ranked())[1]

    monkeypatch.setattr(exact, "AT_ONCE", 2)
    monkeypatch.setattr(Voter, "begin_ranks", watched)
    images = (torch.arange(8) // 2 / 4).view(8, 1, 1, 1).expand(8, 1, 2, 3)
    _smoothed(Lattice(2, 3, 3), 2, 0).certify(images, Exact())
    assert " ".join(happened) == "begin 0 begin 1 fetch 0 begin 2 fetch 1 begin 3 fetch 2 fetch 3"


def test_the_plain_form_of_the_benchmark_gives_the_same_labels_and_radii() -> None:
    smoothed, images = Smoothed.load(elections.MODEL, precision="fp32"), speed.sample_images(6)
    found = smoothed.certify(images)
    labels, radii = elections.one_by_one(smoothed, images)
    assert found.labels.tolist() == labels.tolist()
    assert found.radii.tolist() == radii.tolist()
    assert found.radii.max() > 0
