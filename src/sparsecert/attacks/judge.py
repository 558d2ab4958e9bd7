"""Decides whether an attack succeeded, counts its queries, and keeps the best it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from sparsecert.attacks.defenders import ABSTAINS, Answers, Defender, NoGradients, leads, margins
from sparsecert.errors import InputError
from sparsecert.records.attack_records import ANY, MISCLASSIFY

NOT_FOUND = -1  # the distance where no adversarial image was found
OnSearch = Callable[[float, list[int]], None]
NOT_FINITE = "the gradients of the model's scores are not finite near the image; use a black-box attack"


def changed_pixels(images: torch.Tensor, originals: torch.Tensor) -> torch.Tensor:
    """Bool[b, pixels]: the pixels in which each image differs, in whichever channel."""
    differs = images != originals
    return (differs if differs.ndim == 2 else differs.any(dim=1)).flatten(1)


@dataclass(frozen=True)
class Perturbation:
    """An adversarial image as the pixels it changes, their values, and the defender's answer.

    An attack finds one for every pixel it reverts: whole images would fill the memory.
    """

    pixels: torch.Tensor  # int64[distance]
    values: torch.Tensor  # [channels, distance]
    answer: int

    @classmethod
    def of(cls, attempt: torch.Tensor, original: torch.Tensor, answer: int) -> Perturbation:
        pixels = changed_pixels(attempt[None], original[None])[0].nonzero()[:, 0]
        return cls(pixels, _by_pixel(attempt)[:, pixels], answer)

    @property
    def distance(self) -> int:
        """The number of changed pixels."""
        return len(self.pixels)

    def apply(self, original: torch.Tensor) -> torch.Tensor:
        """The adversarial image."""
        image = original.clone(memory_format=torch.contiguous_format)
        _by_pixel(image)[:, self.pixels] = self.values
        return image


def _by_pixel(image: torch.Tensor) -> torch.Tensor:
    """[channels, pixels]; features are pixels of one channel."""
    return image.reshape(1 if image.ndim == 1 else len(image), -1)


class Judge:
    """An attack's only access to the defender.

    An attempt succeeds when the defender answers another label than the true one, or abstains; with the goal to
    misclassify, an abstention is a failure. An original must be answered by its true label, whatever the goal. Of each
    image the successful attempt within the budget with the fewest changed pixels is kept; with a `final`, its
    predecessors too. An attempt that changes nothing never counts: the first query decides about the original. Attempts
    outside the bounds are refused as a bug of the attack.

    `final`, where given, decides about the originals and about what was found: of each image the nearest candidate that
    fools it is the result.

    `on_search` gets how much of the search is done, as the attack says it by `steps`, `did` and `part`, and the
    distances found so far, whenever either changes.
    """

    def __init__(
        self,
        defender: Defender,
        images: torch.Tensor,
        labels: torch.Tensor,
        bounds: tuple[float, float],
        budget: int | None,
        final: Defender | None = None,
        goal: str = ANY,
        on_search: OnSearch | None = None,
    ) -> None:
        self.defender, self.images, self.labels = defender, images, labels
        self.bounds, self.budget, self.final, self.goal, self.on_search = bounds, budget, final, goal, on_search
        self.candidates: list[list[Perturbation]] = [[] for _ in images]  # of each image, nearest last
        self.wrong: set[int] = set()  # images that are misclassified as they are
        self.classes = 0  # known from the first query
        self.queries = torch.zeros(len(images), dtype=torch.int64)
        self.evaluations = torch.zeros(len(images), dtype=torch.int64)
        most = self.pixels if budget is None else min(budget, self.pixels)
        self._below = torch.full((len(images),), most + 1)  # a candidate must change fewer pixels than this
        self._done, self._part = 0.0, (0.0, 1.0)

    @property
    def pixels(self) -> int:
        """Pixels per image."""
        return changed_pixels(self.images[:1], self.images[:1]).shape[1]

    @property
    def distances(self) -> torch.Tensor:
        """int64[b]: changed pixels of the nearest adversarial images; NOT_FOUND where there is none."""
        return torch.tensor([found[-1].distance if found else NOT_FOUND for found in self.candidates])

    @property
    def most(self) -> torch.Tensor:
        """int64[b]: the most pixels that a better attempt may change, by the budget and what was found so far."""
        return self._below - 1

    @property
    def best(self) -> torch.Tensor:
        """The nearest adversarial images; the original where there is none."""
        pairs = zip(self.candidates, self.images, strict=True)
        return torch.stack([found[-1].apply(image) if found else image for found, image in pairs])

    @property
    def answers(self) -> torch.Tensor:
        """int64[b]: the answers to the nearest adversarial images; the true label where there is none."""
        pairs = zip(self.candidates, self.labels, strict=True)
        return torch.tensor([found[-1].answer if found else int(label) for found, label in pairs])

    def query_originals(self) -> torch.Tensor:
        """int64: the images that are classified correctly; any other is adversarial as it is."""
        everyone = torch.arange(len(self.images))
        answers = self._answers(self.final or self.defender, self.images, everyone)
        self.classes = answers.scores.shape[1]
        if self.labels.max() >= self.classes:
            raise InputError(f"labels must be below {self.classes}, the number of classes, got {self.labels.max()}")
        fooled = answers.labels != self.labels
        for image in fooled.nonzero()[:, 0].tolist():
            self.candidates[image] = [
                Perturbation.of(self.images[image], self.images[image], int(answers.labels[image]))
            ]
        self.wrong = set(fooled.nonzero()[:, 0].tolist())
        return (~fooled).nonzero()[:, 0]

    def fooled(
        self, attempts: torch.Tensor, which: torch.Tensor, slots: torch.Tensor | None = None, accept_all: bool = False
    ) -> torch.Tensor:
        """Bool[m]: whether attempts[j], made from image which[j], fools the defender.

        `slots` numbers the searches they belong to. A search continues from its last successful attempt, or with
        `accept_all` from its last one, successful or not.
        """
        fooled, _ = self._query(attempts, which, slots, self.labels[which])
        if slots is not None:
            self.defender.accept(torch.arange(len(attempts)) if accept_all else fooled.nonzero()[:, 0])
        return fooled

    def query(
        self, attempts: torch.Tensor, which: torch.Tensor, slots: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, Answers]:
        """As `fooled`, with the defender's answers; the caller accepts attempts itself."""
        return self._query(attempts, which, slots, None)

    def gradients(
        self, attempts: torch.Tensor, which: torch.Tensor, goal: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """The gradient of goal(scores) at each attempt; `goal` maps float[m, classes] to float[m]. One query each."""
        attempts = attempts.detach().clone().requires_grad_()
        with torch.enable_grad():
            value = goal(self.defender.scores(attempts.clone())).sum()
        if not value.requires_grad:
            raise NoGradients("the model's scores have no gradients; use a black-box attack")
        (gradients,) = torch.autograd.grad(value, attempts)
        if not gradients.isfinite().all():
            raise ValueError(NOT_FINITE)
        self.queries.index_add_(0, which, torch.ones_like(which))
        self.evaluations.index_add_(0, which, torch.full_like(which, self.defender.evaluations_of_scores))
        return gradients

    def margins(self, scores: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        """float[m]: how far scores of the images `which` are from what the attack wants; negative beyond it.

        To misclassify, one other class must lead all others, not only the true one.
        """
        if self.goal == MISCLASSIFY:
            return -leads(scores, self.labels[which])
        return margins(scores, self.labels[which])

    def margin_slopes(self, attempts: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        """The gradient of `margins` at each attempt."""
        return self.gradients(attempts, which, lambda scores: self.margins(scores, which))

    def steps(self, count: int) -> Iterator[int]:
        """The numbers below `count`, for a loop whose steps take about the same time."""
        for step in range(count):
            self.did(step / count)
            yield step

    def did(self, share: float) -> None:
        """Takes how much of the run is done, from 0 to 1; within a `part`, how much of that, and after it, of the rest.

        Only progress bars depend on it. A share that is smaller than the last one changes nothing.
        """
        first, last = self._part
        done = min(first + share * (last - first), last)
        if done > self._done:
            self._done = done
            self._report()

    @contextmanager
    def part(self, now: float, later: float) -> Iterator[None]:
        """A part that takes `now` of the time, in any unit, where what follows it takes `later`, about.

        As it ends, all of it is done; an error leaves the rest of it to what follows.
        """
        last = self._part[1]
        self._part = self._done, self._done + (last - self._done) * now / (now + later or 1)
        try:
            yield
            self.did(1.0)
        finally:
            self._part = self._done, last

    def _report(self) -> None:
        if self.on_search is not None:
            self.on_search(self._done, self.distances.tolist())

    def confirm(self) -> None:
        """Keeps, of each image's candidates, the nearest found to fool `final`, twice in a row.

        Galloping search backwards from the nearest: the steps double until one fools it, then the gap is bisected. A
        nearer candidate may be missed, but the one kept did fool it. Twice, because a random defender would otherwise
        be asked until it happens to be fooled by an image that seldom does.
        """
        if self.final is None:
            return
        searches = {
            image: BackwardSearch(len(found))
            for image, found in enumerate(self.candidates)
            if found and image not in self.wrong
        }
        while asked := {image: search.place for image, search in searches.items() if search.place is not None}:
            fooled = self._fooling(self.final, asked)
            fooled = self._fooling(self.final, {image: asked[image] for image in fooled})
            for image in asked:
                searches[image].update(image in fooled)
        for image, search in searches.items():
            self.candidates[image] = self.candidates[image][: search.good + 1]

    def _fooling(self, final: Defender, places: dict[int, int]) -> set[int]:
        """The images whose candidate at the given place fools `final`; records its answers."""
        if not places:
            return set()
        attempts = torch.stack(
            [self.candidates[image][place].apply(self.images[image]) for image, place in places.items()]
        )
        answers = self._answers(final, attempts, torch.tensor(list(places))).labels.tolist()
        for (image, place), label in zip(places.items(), answers, strict=True):
            self.candidates[image][place] = replace(self.candidates[image][place], answer=label)
        asked = torch.tensor(list(places))
        return set(asked[self._succeeded(torch.tensor(answers), asked)].tolist())

    def _query(
        self, attempts: torch.Tensor, which: torch.Tensor, slots: torch.Tensor | None, against: torch.Tensor | None
    ) -> tuple[torch.Tensor, Answers]:
        low, high = self.bounds
        if not ((attempts >= low) & (attempts <= high)).all():
            raise ValueError(f"an attempt has values outside {low} to {high}")
        answers = self._answers(self.defender, attempts, which, slots, against)
        fooled = self._succeeded(answers.labels, which)
        self._keep(attempts, which, fooled, answers.labels)
        return fooled, answers

    def _succeeded(self, answered: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        """Bool[m]: whether these answers to perturbed images are what the attack wants."""
        wrong = answered != self.labels[which]
        return wrong & (answered != ABSTAINS) if self.goal == MISCLASSIFY else wrong

    def _answers(
        self,
        defender: Defender,
        attempts: torch.Tensor,
        which: torch.Tensor,
        slots: torch.Tensor | None = None,
        against: torch.Tensor | None = None,
    ) -> Answers:
        """Queries the defender and counts. It gets a copy: some models modify their input."""
        answers = defender.answers(attempts.clone(), slots, against)
        self._check(answers, len(attempts))
        self.queries.index_add_(0, which, torch.ones_like(which))
        self.evaluations.index_add_(0, which, answers.evaluations)
        return answers

    def _check(self, answers: Answers, asked: int) -> None:
        """Refuses answers of the wrong shape, which would be compared with the wrong labels."""
        shapes = tuple(tuple(part.shape) for part in (answers.labels, answers.scores, answers.evaluations))
        classes = self.classes or (shapes[1][1] if len(shapes[1]) == 2 else 0)
        if shapes != ((asked,), (asked, classes), (asked,)):
            raise InputError(
                f"{asked} images must be answered by labels ({asked},), scores ({asked}, {classes or 'classes'}) and "
                f"evaluations ({asked},), got {', '.join(map(str, shapes))}"
            )

    def _keep(self, attempts: torch.Tensor, which: torch.Tensor, fooled: torch.Tensor, answers: torch.Tensor) -> None:
        distances = changed_pixels(attempts, self.images[which]).sum(dim=1)
        good = fooled & (distances > 0) & (distances < self._below[which])
        for place in good.nonzero()[:, 0].tolist():
            image = int(which[place])
            if distances[place] < self._below[image]:
                if self.final is None:
                    self.candidates[image].clear()
                self.candidates[image].append(Perturbation.of(attempts[place], self.images[image], int(answers[place])))
                self._below[image] = distances[place]
        if good.any():
            self._report()


class BackwardSearch:
    """Galloping search, from the end, for the last good place of a sequence."""

    def __init__(self, places: int) -> None:
        self.good, self.bad, self.step = -1, places, 1

    @property
    def place(self) -> int | None:
        """The next place to test; None when the search is over."""
        if self.bad - self.good <= 1:
            return None
        return max(0, self.bad - self.step) if self.good < 0 else (self.good + self.bad) // 2

    def update(self, good: bool) -> None:
        """Takes the result of the test at `place`."""
        place = self.place
        assert place is not None
        if good:
            self.good = place
        else:
            self.bad, self.step = place, 2 * self.step
