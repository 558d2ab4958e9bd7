"""Who decides whether an attack succeeded, counts what it asked, and keeps the best it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from sparsecert.attacks.defenders import Answers, Defender
from sparsecert.errors import InputError

NEVER = -1  # the distance of an image for which nothing was found


def changed(images: torch.Tensor, originals: torch.Tensor) -> torch.Tensor:
    """Bool[b, pixels]: the pixels in which each image differs; all channels of a pixel are one."""
    differs = images != originals
    return (differs if differs.ndim == 2 else differs.any(dim=1)).flatten(1)


@dataclass(frozen=True)
class Found:
    """An attempt that fooled the defender: the pixels it changes, to which values, and what the defender said.

    An attack finds as many as it takes pixels back, so that whole images would fill the memory.
    """

    pixels: torch.Tensor  # int64[distance]
    values: torch.Tensor  # [channels, distance]
    said: int

    @classmethod
    def of(cls, attempt: torch.Tensor, original: torch.Tensor, said: int) -> Found:
        """What tells an attempt from the image it was made from."""
        pixels = changed(attempt[None], original[None])[0].nonzero()[:, 0]
        return cls(pixels, _by_pixel(attempt)[:, pixels], said)

    @property
    def distance(self) -> int:
        """How many pixels it changes."""
        return len(self.pixels)

    def on(self, original: torch.Tensor) -> torch.Tensor:
        """The attempt again."""
        image = original.clone(memory_format=torch.contiguous_format)
        _by_pixel(image)[:, self.pixels] = self.values
        return image


def _by_pixel(image: torch.Tensor) -> torch.Tensor:
    """[channels, pixels]; features are pixels of one channel."""
    return image.reshape(1 if image.ndim == 1 else len(image), -1)


class Judge:
    """The only way for an attack to the defender.

    An attempt succeeds when the defender does not answer the true label: it answers another, or abstains. Of the
    successful ones within the budget, the one of each image with the fewest changed pixels is kept, and with a `final`
    those before it. An attempt that changes nothing is no finding: about the original the first look decides. Attempts
    outside the bounds are refused: they are a mistake of the attack.

    `final`, where given, has the last word, on the originals and on what was found: an image that it is not fooled by
    is no finding, and the next best that fools it is.
    """

    def __init__(
        self,
        defender: Defender,
        images: torch.Tensor,
        labels: torch.Tensor,
        bounds: tuple[float, float],
        budget: int | None,
        final: Defender | None = None,
    ) -> None:
        self.defender, self.images, self.labels = defender, images, labels
        self.bounds, self.budget, self.final = bounds, budget, final
        self.trails: list[list[Found]] = [[] for _ in images]  # of each image, each nearer than the one before
        self.wrong: set[int] = set()  # the images about which the defender is wrong as they are
        self.classes = 0  # known from the first look
        self.queries = torch.zeros(len(images), dtype=torch.int64)
        self.evaluations = torch.zeros(len(images), dtype=torch.int64)
        most = self.pixels if budget is None else min(budget, self.pixels)
        self._below = torch.full((len(images),), most + 1)  # a finding changes fewer pixels of its image than this

    @property
    def pixels(self) -> int:
        """How many an image has."""
        return changed(self.images[:1], self.images[:1]).shape[1]

    @property
    def distances(self) -> torch.Tensor:
        """int64[b]: pixels changed in the nearest image found; NEVER where none was."""
        return torch.tensor([trail[-1].distance if trail else NEVER for trail in self.trails])

    @property
    def best(self) -> torch.Tensor:
        """The nearest images found; the original where none was."""
        found = [trail[-1].on(image) if trail else image for trail, image in zip(self.trails, self.images, strict=True)]
        return torch.stack(found)

    @property
    def said(self) -> torch.Tensor:
        """int64[b]: what was answered to the nearest images found; the true label where none was."""
        return torch.tensor(
            [trail[-1].said if trail else int(label) for trail, label in zip(self.trails, self.labels, strict=True)]
        )

    def right(self) -> torch.Tensor:
        """int64: the images about which the defender is right; of the others, the original is what fools it."""
        everyone = torch.arange(len(self.images))
        answers = self._answers(self.final or self.defender, self.images, everyone)
        self.classes = answers.scores.shape[1]
        if self.labels.max() >= self.classes:
            raise InputError(f"labels must be below {self.classes}, the number of classes, got {self.labels.max()}")
        fooled = answers.labels != self.labels
        for image in fooled.nonzero()[:, 0].tolist():
            self.trails[image] = [Found.of(self.images[image], self.images[image], int(answers.labels[image]))]
        self.wrong = set(fooled.nonzero()[:, 0].tolist())
        return (~fooled).nonzero()[:, 0]

    def fooled(
        self, attempts: torch.Tensor, which: torch.Tensor, slots: torch.Tensor | None = None, onward: bool = False
    ) -> torch.Tensor:
        """Bool[m]: whether attempts[j], made from image which[j], fools the defender.

        `slots` names the lines of attempts that they belong to. Each goes on from the last that succeeded, or
        `onward`, from the last one whether or not it did.
        """
        fooled, _ = self._asked(attempts, which, slots, self.labels[which])
        if slots is not None:
            self.defender.went_on(torch.arange(len(attempts)) if onward else fooled.nonzero()[:, 0])
        return fooled

    def asked(
        self, attempts: torch.Tensor, which: torch.Tensor, slots: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, Answers]:
        """The same, with all that the defender says; no line goes on."""
        return self._asked(attempts, which, slots, None)

    def gradients(
        self, attempts: torch.Tensor, which: torch.Tensor, goal: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """The gradient at each attempt of goal(scores), where `goal` maps float[m, classes] to float[m].

        One query each, as the answer is.
        """
        attempts = attempts.detach().clone().requires_grad_()
        with torch.enable_grad():
            reached = goal(self.defender.scores(attempts.clone())).sum()
        if not reached.requires_grad:
            raise InputError("the model's scores have no gradients; use an attack that asks for answers alone")
        (gradients,) = torch.autograd.grad(reached, attempts)
        self.queries.index_add_(0, which, torch.ones_like(which))
        self.evaluations.index_add_(0, which, torch.full_like(which, self.defender.evaluations_of_scores))
        return gradients

    def confirm(self) -> None:
        """Leaves, of each image's findings, the nearest that fools `final`, looked for backwards from the nearest.

        The steps back double until one fools it, and the gap to the last that did not is then halved: some finding
        between them may fool it too, but what is left has. It has to be fooled twice in a row: a defender that answers
        at random would otherwise be asked until it happens to be fooled by an image that seldom does.
        """
        if self.final is None:
            return
        searches = {
            image: Backwards(len(trail)) for image, trail in enumerate(self.trails) if trail and image not in self.wrong
        }
        while asked := {image: search.place for image, search in searches.items() if search.place is not None}:
            fooled = self._fool(self.final, asked)
            fooled = self._fool(self.final, {image: asked[image] for image in fooled})
            for image in asked:
                searches[image].answered(image in fooled)
        for image, search in searches.items():
            self.trails[image] = self.trails[image][: search.good + 1]

    def _fool(self, final: Defender, places: dict[int, int]) -> set[int]:
        """Of images and places in their trails, the images whose finding fools it; what it says is noted there."""
        if not places:
            return set()
        attempts = torch.stack([self.trails[image][place].on(self.images[image]) for image, place in places.items()])
        said = self._answers(final, attempts, torch.tensor(list(places))).labels.tolist()
        for (image, place), label in zip(places.items(), said, strict=True):
            self.trails[image][place] = replace(self.trails[image][place], said=label)
        return {image for image, label in zip(places, said, strict=True) if label != int(self.labels[image])}

    def _asked(
        self, attempts: torch.Tensor, which: torch.Tensor, slots: torch.Tensor | None, against: torch.Tensor | None
    ) -> tuple[torch.Tensor, Answers]:
        low, high = self.bounds
        if not ((attempts >= low) & (attempts <= high)).all():
            raise ValueError(f"an attempt has values outside {low} to {high}")
        answers = self._answers(self.defender, attempts, which, slots, against)
        fooled = answers.labels != self.labels[which]
        self._keep(attempts, which, fooled, answers.labels)
        return fooled, answers

    def _answers(
        self,
        defender: Defender,
        attempts: torch.Tensor,
        which: torch.Tensor,
        slots: torch.Tensor | None = None,
        against: torch.Tensor | None = None,
    ) -> Answers:
        """What the defender says, counted. It is shown copies: some models write into what they are given."""
        answers = defender.answers(attempts.clone(), slots, against)
        self._check(answers, len(attempts))
        self.queries.index_add_(0, which, torch.ones_like(which))
        self.evaluations.index_add_(0, which, answers.evaluations)
        return answers

    def _check(self, answers: Answers, asked: int) -> None:
        """Refuses answers of another number than was asked for, which would be compared with the wrong labels."""
        shapes = tuple(tuple(part.shape) for part in (answers.labels, answers.scores, answers.evaluations))
        classes = self.classes or (shapes[1][1] if len(shapes[1]) == 2 else 0)
        if shapes != ((asked,), (asked, classes), (asked,)):
            raise InputError(
                f"{asked} images must be answered by labels ({asked},), scores ({asked}, {classes or 'classes'}) and "
                f"evaluations ({asked},), got {', '.join(map(str, shapes))}"
            )

    def _keep(self, attempts: torch.Tensor, which: torch.Tensor, fooled: torch.Tensor, said: torch.Tensor) -> None:
        distances = changed(attempts, self.images[which]).sum(dim=1)
        good = fooled & (distances > 0) & (distances < self._below[which])
        for place in good.nonzero()[:, 0].tolist():
            image = int(which[place])
            if distances[place] < self._below[image]:
                if self.final is None:
                    self.trails[image].clear()
                self.trails[image].append(Found.of(attempts[place], self.images[image], int(said[place])))
                self._below[image] = distances[place]


class Backwards:
    """Looks for the last good place of a row by asking about few of them, from the end."""

    def __init__(self, places: int) -> None:
        self.good, self.bad, self.step = -1, places, 1

    @property
    def place(self) -> int | None:
        """What to ask about next; None when the search is over."""
        if self.bad - self.good <= 1:
            return None
        return max(0, self.bad - self.step) if self.good < 0 else (self.good + self.bad) // 2

    def answered(self, good: bool) -> None:
        """What was said about `place`."""
        place = self.place
        assert place is not None
        if good:
            self.good = place
        else:
            self.bad, self.step = place, 2 * self.step
