"""What is kept, and who has the last word."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch

from sparsecert.attacks import ABSTAINS, NOT_FOUND, Answers, Attack, Defender, Judge, NoGradients
from sparsecert.attacks.judge import BackwardSearch


class Counting(Defender):
    """Answers 0 to images with fewer bright pixels than it takes, else 1."""

    def __init__(self, bright: int, other: int = 1) -> None:
        self.bright, self.other = bright, other

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """One evaluation each."""
        labels = torch.where(images.flatten(1).sum(dim=1) >= self.bright, self.other, 0)
        scores = torch.nn.functional.one_hot(labels.clamp(min=0), 2).float()
        return Answers(labels, scores, torch.ones(len(images), dtype=torch.int64))


class Brightening(Attack):
    """All pixels, then one fewer at a time."""

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        """See the class."""
        for count in range(judge.pixels, 0, -1):
            attempts = torch.zeros_like(judge.images[which])
            attempts.flatten(1)[:, :count] = 1
            judge.fooled(attempts, which)


BLACK = torch.zeros(3, 1, 4, 4)
ZERO = torch.zeros(3, dtype=torch.int64)


@pytest.mark.parametrize("needed", [3, 5, 8, 15, 16])
def test_the_final_defender_has_the_last_word(needed: int) -> None:
    """The cheap one is fooled by 3 pixels, the final one by more; the nearest result that fools it is kept."""
    found = Brightening()(Counting(3), BLACK, ZERO, final=Counting(needed, ABSTAINS))
    assert found.distances.tolist() == [needed] * 3
    assert found.adversarial.flatten(1).sum(dim=1).tolist() == [needed] * 3
    assert found.answers.tolist() == [ABSTAINS] * 3
    assert (found.queries == found.evaluations).all()
    assert int(found.queries[0]) <= 1 + 16 + 2 * 9  # the original, the search, and few steps back


def test_who_answers_at_random_has_to_be_fooled_twice_in_a_row() -> None:
    """Fooled by every other answer to whatever it is shown, it is not taken to be fooled."""

    class Wavering(Counting):
        asked = 0

        def answers(
            self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
        ) -> Answers:
            self.asked += 1
            self.bright = 1 if self.asked % 2 == 0 else 17
            return super().answers(images, slots, against)

    found = Brightening()(Counting(3), BLACK, ZERO, final=Wavering(1))
    assert found.distances.tolist() == [NOT_FOUND] * 3


def test_nothing_is_found_where_the_final_defender_is_not_fooled() -> None:
    found = Brightening()(Counting(3), BLACK, ZERO, final=Counting(17))
    assert found.distances.tolist() == [NOT_FOUND] * 3
    assert torch.equal(found.adversarial, BLACK)
    assert found.answers.tolist() == [0] * 3


def test_who_is_wrong_about_the_original_is_not_asked_again() -> None:
    found = Brightening()(Counting(3), BLACK, ZERO, final=Counting(0))
    assert found.distances.tolist() == [0] * 3
    assert found.answers.tolist() == [1] * 3
    assert found.queries.tolist() == [1] * 3


def test_an_attempt_that_changes_nothing_is_no_finding() -> None:
    """The final defender is right about the original: that the cheap one is not must not end the search there."""

    class FromNothing(Brightening):
        def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
            assert judge.fooled(judge.images[which], which).all()
            super().run(judge, which, generator)

    found = FromNothing()(Counting(0), BLACK, ZERO, final=Counting(5))
    assert found.distances.tolist() == [5] * 3


def test_the_budget_holds_for_what_the_final_defender_confirms() -> None:
    found = Brightening()(Counting(3), BLACK, ZERO, final=Counting(6), budget=5)
    assert found.distances.tolist() == [NOT_FOUND] * 3
    assert Brightening()(Counting(3), BLACK, ZERO, final=Counting(5), budget=5).distances.tolist() == [5] * 3


@pytest.mark.parametrize("places", range(1, 40))
def test_backwards_finds_the_last_good_place_where_all_before_it_are_good(places: int) -> None:
    for last in range(-1, places):
        search, asked = BackwardSearch(places), 0
        while (place := search.place) is not None:
            search.update(place <= last)
            asked += 1
        assert search.good == last
        assert asked <= 2 * (places - 1 - last).bit_length() + 1


def test_a_random_defender_confirms_its_own_findings() -> None:
    """Once fooled by 3 pixels, by chance, it is asked again; what it was then fooled by twice is kept."""

    class Lucky(Counting):
        asked = 0
        is_random = True

        def answers(
            self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
        ) -> Answers:
            self.asked += 1
            self.bright = 3 if 1 < self.asked <= 1 + 16 else 7
            return super().answers(images, slots, against)

    found = Brightening()(Lucky(7), BLACK, ZERO)
    assert found.distances.tolist() == [7] * 3
    assert (found.queries > 1 + 16).all()


@pytest.mark.parametrize("final", [None, Counting(3)])
def test_candidates_are_kept_only_for_a_final_defender(final: Defender | None) -> None:
    """And rebuild the very attempts, whatever the shape and the memory format."""
    images = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)).to(memory_format=torch.channels_last)
    judge = Judge(Counting(0), images, torch.zeros(2, dtype=torch.int64), (0.0, 1.0), None, final)
    for count in (9, 4, 6, 2):
        attempts = images.clone().contiguous()
        attempts.view(2, 3, -1)[:, :2, :count] = 0.25
        assert judge.fooled(attempts, torch.arange(2)).all()
    assert judge.distances.tolist() == [2, 2]
    assert torch.equal(judge.best, attempts)
    assert [len(found) for found in judge.candidates] == [1 if final is None else 3] * 2


def _shares(judge: Judge) -> list[float]:
    shares: list[float] = []
    judge.on_search = lambda share, _: shares.append(share)
    return shares


def _judge() -> Judge:
    return Judge(Counting(3), BLACK, ZERO, (0.0, 1.0), None)


def test_parts_divide_what_is_left_by_what_they_take() -> None:
    judge = _judge()
    shares = _shares(judge)
    with judge.part(1, 3):  # to 1/4
        assert list(judge.steps(2)) == [0, 1]
    with judge.part(2, 1):  # two thirds of the rest: to 3/4
        for left in (1, 0):
            with judge.part(1, left):
                judge.did(0.5)
    judge.did(0.5)
    assert shares == pytest.approx([1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8])
    with judge.part(0, 0):
        judge.did(1)
    assert shares[-1] == 7 / 8


def test_what_is_done_never_goes_back_and_never_beyond_the_end() -> None:
    judge = _judge()
    shares = _shares(judge)
    for share in (0.5, 0.25, 0.5, 2.0, 0.75, 3.0):
        judge.did(share)
    assert shares == [0.5, 1.0]


def test_an_error_leaves_the_rest_of_a_part_to_what_follows() -> None:
    judge = _judge()
    shares = _shares(judge)
    with suppress(NoGradients), judge.part(1, 1), judge.part(1, 1):
        judge.did(0.4)  # of a quarter
        raise NoGradients
    judge.did(0.5)
    assert shares == pytest.approx([0.1, 0.55])
