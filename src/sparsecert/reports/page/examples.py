"""The most and least certain inputs of a run, with some of their ablated copies."""

from __future__ import annotations

import heapq
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.records import Header, is_exact
from sparsecert.reports.comparison import UNCERTIFIED, format_percent
from sparsecert.reports.page.images import ablated_copies, null_colour, picture, select_draws
from sparsecert.reports.page.input_results import InputResult
from sparsecert.schemes import from_config

COPIES = 4
SMALL = 96  # image width up to which each pixel is drawn as a square
MAX_CLASSES = 3  # listed with their votes


@dataclass(frozen=True)
class Picture:
    """A PNG in base64, with its alt text and caption."""

    png: str
    alt: str
    caption: str


@dataclass(frozen=True)
class GalleryExample:
    """A description of an input, with pictures of it and its ablated copies if it is an image."""

    description: str
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True)
class Gallery:
    """Examples from one run, by why they were selected; `small` pictures show each pixel as a square."""

    title: str
    note: str
    examples: Mapping[str, Sequence[GalleryExample]]
    pictured: bool = False
    small: bool = False


def make_gallery(
    title: str,
    header: Header,
    data: Dataset | InputError,
    every: Sequence[InputResult],
    names: Sequence[str],
    count: int,
) -> Gallery:
    """`count` examples of each kind, with pictures if the data set is there and holds images."""
    found = select_examples(every, count)
    try:
        if isinstance(data, InputError):
            raise data
        null = (
            f"{null_colour(data)} is NULL" if masks_to_null(header) else "units that are not retained show other values"
        )
        pictured = {kind: [_example(header, data, one, names) for one in some] for kind, some in found.items()}
        small = data.images.shape[2] <= SMALL
        return Gallery(title, f"{_note(header)}; {null}.", pictured, pictured=True, small=small)
    except InputError as error:
        is_table = header.run["encoding"].get("kind") == "nan"
        why = "the inputs are rows of a table" if is_table else error
        described = {
            kind: [GalleryExample(_describe(one, names, header.certifies)) for one in some]
            for kind, some in found.items()
        }
        return Gallery(title, f"No images of inputs are shown: {why}.", described)


def select_examples(every: Sequence[InputResult], count: int) -> dict[str, list[InputResult]]:
    """`count` of the most certain inputs, of the least certain, and of the most certain misclassified ones.

    Ties go to the lowest index. No input is among both the most and the least certain.
    """
    most = _most_certain(every, count)
    known = {one.example for one in most}
    rest = [one for one in every if one.example not in known]
    wrong = [one for one in every if one.wrong]
    found = {
        "Most certain": most,
        "Least certain": heapq.nsmallest(count, rest, key=lambda one: (one.certainty, one.example)),
        "Most certain, and wrong": _most_certain(wrong, count),
    }
    return {title: inputs for title, inputs in found.items() if inputs}


def _most_certain(inputs: Sequence[InputResult], count: int) -> list[InputResult]:
    return heapq.nsmallest(count, inputs, key=lambda one: (*(-value for value in one.certainty), one.example))


def masks_to_null(header: Header) -> bool:
    """Whether masked units become NULL, rather than other values."""
    return from_config(header.run["scheme"]).values is None


def _note(header: Header) -> str:
    order = "certified radius" if header.certifies else "whether they abstain"
    which = "evenly spaced masks of the fixed set" if is_exact(header) else "the run's first masks"
    return (
        f"Inputs are ranked by {order}, then by the lead of the first class over the second in the votes. "
        f"Left: the input; then copies ablated by {which}"
    )


def _example(header: Header, data: Dataset, one: InputResult, names: Sequence[str]) -> GalleryExample:
    draws = select_draws(header, COPIES)
    pictures = [_picture(picture(data, one.example), f"input {one.example}", "input")]
    for draw, vote, file in zip(
        draws, _votes_of(one, draws, names), ablated_copies(header, data, one.example, draws), strict=True
    ):
        mask = f"{'mask' if is_exact(header) else 'copy'} {draw}"
        pictures.append(_picture(file, f"{mask} of input {one.example}", f"{mask}{vote}"))
    return GalleryExample(_describe(one, names, header.certifies), pictures)


def _picture(file: bytes, alt: str, caption: str) -> Picture:
    return Picture(b64encode(file).decode("ascii"), alt, caption)


def _votes_of(one: InputResult, draws: Sequence[int], names: Sequence[str]) -> list[str]:
    """The vote of each copy, if recorded."""
    if one.rankings is None:
        return [""] * len(draws)
    from sparsecert.certificates.plurality import top_choices
    from sparsecert.records import rankings

    votes = top_choices(rankings.from_text(one.rankings, len(names))).tolist()
    return [f": {names[votes[draw]] if votes[draw] < len(names) else 'no vote'}" for draw in draws]


def _describe(one: InputResult, names: Sequence[str], certifies: bool) -> str:
    if one.label is None:
        answer = UNCERTIFIED if certifies else "abstained"
    else:
        verdict = "right" if one.right else "wrong"
        answer = f"{names[one.label]} ({verdict})" + ("" if one.radius is None else f", certified radius {one.radius}")
    leading = sorted(range(len(names)), key=lambda label: (-one.votes.votes[label], label))[:MAX_CLASSES]
    counts = [(names[label], one.votes.votes[label]) for label in leading if one.votes.votes[label]]
    shares = [f"{name} ({format_percent(votes / one.votes.total)})" for name, votes in counts]
    return f"Input {one.example}, true class {names[one.true]}: {answer}. Votes: {', '.join(shares) or 'none'}."
