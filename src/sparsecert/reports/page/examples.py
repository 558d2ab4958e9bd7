"""The most and the least certain inputs of a run, with some of the ablated copies that voted on them."""

from __future__ import annotations

import heapq
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.records import Header, is_exact
from sparsecert.reports.comparison import percent
from sparsecert.reports.page.images import copies, null_colour, picture, shown_draws
from sparsecert.reports.page.outcomes import Outcome

COPIES = 4
SMALL = 96  # pixels of width up to which each is drawn as a square
MOST_CLASSES = 3  # whose votes are listed for an input


@dataclass(frozen=True)
class Picture:
    """A PNG file in base64, and what it shows."""

    png: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Example:
    """An input in words, and pictures of it and of its ablated copies; none where it is no image."""

    description: str
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True)
class Gallery:
    """Examples of one run by the reason for their choice; `small` pictures show each pixel as a square."""

    title: str
    note: str
    examples: Mapping[str, Sequence[Example]]
    pictured: bool = False
    small: bool = False


def gallery(
    title: str, header: Header, data: Dataset | InputError, every: Sequence[Outcome], names: Sequence[str], count: int
) -> Gallery:
    """So many examples of each kind: with pictures, or in words if there is no data set to show or it has no images."""
    found = chosen(every, count)
    try:
        if isinstance(data, InputError):
            raise data
        null = f"{null_colour(data)} is NULL" if scheme_ablates(header) else "units that are not kept show other values"
        pictured = {kind: [_example(header, data, one, names) for one in some] for kind, some in found.items()}
        small = data.images.shape[2] <= SMALL
        return Gallery(title, f"{_explained(header)}; {null}.", pictured, pictured=True, small=small)
    except InputError as error:
        of_a_table = header.run["encoding"].get("kind") == "nan"
        why = "the inputs are rows of a table" if of_a_table else error
        on_progress = {kind: [Example(_described(one, names)) for one in some] for kind, some in found.items()}
        return Gallery(title, f"No pictures of inputs are shown: {why}.", on_progress)


def chosen(every: Sequence[Outcome], count: int) -> dict[str, list[Outcome]]:
    """So many of the most certain inputs, the least certain, and the most certain of those answered wrongly, if any.

    Ties go to the input with the lowest number. No input is both among the most and the least certain.
    """
    most = heapq.nsmallest(count, every, key=lambda one: (*_downwards(one), one.example))
    known = {one.example for one in most}
    rest = [one for one in every if one.example not in known]
    wrong = [one for one in every if one.wrong]
    found = {
        "Most certain": most,
        "Least certain": heapq.nsmallest(count, rest, key=lambda one: (one.certainty, one.example)),
        "Most certain, and wrong": heapq.nsmallest(count, wrong, key=lambda one: (*_downwards(one), one.example)),
    }
    return {title: inputs for title, inputs in found.items() if inputs}


def _downwards(one: Outcome) -> tuple[float, ...]:
    return tuple(-value for value in one.certainty)


def scheme_ablates(header: Header) -> bool:
    """Whether masks make units NULL, and do not replace them by other values."""
    return bool(header.run["scheme"].get("kind") != "random-values")


def _explained(header: Header) -> str:
    order = "the certified radius, then" if header.kind == "certify" else "whether it is answered, then"
    which = "evenly spaced ones of the fixed set of masks" if is_exact(header) else "the first of the run's own masks"
    return (
        f"An input is the more certain the larger {order} the lead of its first class over the second in the votes. "
        f"On the left the input, then copies of it ablated by {which}"
    )


def _example(header: Header, data: Dataset, one: Outcome, names: Sequence[str]) -> Example:
    draws = shown_draws(header, COPIES)
    pictures = [_picture(picture(data, one.example), f"input {one.example}", "input")]
    for draw, vote, file in zip(
        draws, _voted(one, draws, names), copies(header, data, one.example, draws), strict=True
    ):
        mask = f"{'mask' if is_exact(header) else 'copy'} {draw}"
        pictures.append(_picture(file, f"{mask} of input {one.example}", f"{mask}{vote}"))
    return Example(_described(one, names), pictures)


def _picture(file: bytes, alt: str, caption: str) -> Picture:
    return Picture(b64encode(file).decode("ascii"), alt, caption)


def _voted(one: Outcome, draws: Sequence[int], names: Sequence[str]) -> list[str]:
    """What each copy voted, where that is recorded."""
    if one.rankings is None:
        return [""] * len(draws)
    from sparsecert.certificates.plurality import firsts
    from sparsecert.records import rankings

    votes = firsts(rankings.from_text(one.rankings, len(names))).tolist()
    return [f": {names[votes[draw]] if votes[draw] < len(names) else 'no vote'}" for draw in draws]


def _described(one: Outcome, names: Sequence[str]) -> str:
    """An input in words: its class, what was answered and certified, and its votes."""
    if one.label is None:
        said = "abstained"
    else:
        verdict = "right" if one.right else "wrong"
        said = f"{names[one.label]} ({verdict})" + ("" if one.radius is None else f", certified radius {one.radius}")
    leading = sorted(range(len(names)), key=lambda label: (-one.votes.votes[label], label))[:MOST_CLASSES]
    counts = [(names[label], one.votes.votes[label]) for label in leading if one.votes.votes[label]]
    shares = [f"{name} ({percent(votes / one.votes.total)})" for name, votes in counts]
    return f"Input {one.example}, true class {names[one.true]}: {said}. Votes: {', '.join(shares) or 'none'}."
